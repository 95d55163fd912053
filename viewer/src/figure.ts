/** Figures of what is shown: axes, units, colour bar and title, for paper. */

import { type Box, axisBelow, axisLeft, edge, unitText, valueTicks } from "./axes.ts";
import type { Meaning } from "./cf.ts";
import { table } from "./colours.ts";
import { h, svg } from "./dom.ts";
import { number } from "./format.ts";
import { spans } from "./frame.ts";
import type { Drawn } from "./image.ts";
import type { Limits } from "./limits.ts";
import { type Norm, powers, spread } from "./norms.ts";
import type { Channel } from "./ome.ts";
import { scaleBar } from "./scalebar.ts";
import type { Source } from "./source.ts";
import type { State } from "./state.ts";
import { label } from "./ticks.ts";

const STYLE =
  "text{font:12px system-ui,sans-serif;fill:#444}text.name{font-size:13px;fill:#111}" +
  "text.heading{font-size:15px;fill:#111}.edge,.tick{fill:none;stroke:#555}.guide{fill:none;stroke:#ddd}" +
  ".curve{fill:none;stroke:#0f766e;stroke-width:1.4;stroke-linejoin:round;stroke-linecap:round}" +
  ".dot{fill:#0f766e}.cross{display:none}.scale text{fill:#fff;stroke:#000;stroke-width:2.5;paint-order:stroke}" +
  ".scale path{stroke:#fff;stroke-width:3}.scale .under{stroke:#000;stroke-width:5}";
/** Where the box of a figure lies. */
export const [LEFT, TOP] = [84, 62] as const;
const [BOTTOM, RIGHT, BAR] = [56, 30, 118] as const;
const [WIDE, HIGH] = [640, 480] as const; // the most pixels of an image
const LETTERS = 90; // of a line of the title

/** A picture and its size. */
export interface Figure {
  readonly element: SVGElement;
  readonly width: number;
  readonly height: number;
}

/** Return the coordinates of the axes that an image or line does not have. */
export function slice(source: Source, state: State, shown: readonly number[], planes: Drawn["planes"] = []): string {
  const isComposite = planes.some(({ channel }) => channel !== null);
  const parts = source.coordinates.flatMap((of, axis) => {
    if (shown.includes(axis) || (isComposite && axis === source.channels?.axis)) return [];
    if (axis === planes[0]?.through) return [`greatest along ${of.name}`];
    const unit = of.units === "" ? "" : ` ${unitText(of.units)}`;
    return [`${of.name} = ${label(of, state.index[axis] ?? 0)}${unit}`];
  });
  return parts.join(", ");
}

/** Return the name of what a source holds. */
export function nameOf(source: Source): string {
  const named = source.meaning(false).title || source.node.pyramid?.name;
  return named || source.node.path.split("/").pop() || "values";
}

/** Put parts below a title and the coordinates of the slice. */
export function composed(heading: string, below: string, box: Box, right: number, parts: SVGElement[]): Figure {
  const [width, height] = [Math.ceil(box.left + box.width + right), Math.ceil(box.top + box.height + BOTTOM)];
  const element = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    svg("title", {}, below === "" ? heading : `${heading}, ${below}`),
    svg("style", {}, STYLE),
    svg("rect", { width, height, fill: "#fff" }),
    svg("text", { class: "heading", x: box.left, y: 26 }, heading.slice(0, LETTERS)),
    svg("text", { class: "slice", x: box.left, y: 47 }, below.slice(0, LETTERS)),
    ...parts,
  );
  return { element, width, height };
}

/** The colours of values. */
export interface Colours {
  readonly map: string;
  readonly reversed: boolean;
  readonly norm: Norm;
  readonly limits: Limits;
}

/** Put figures beside each other. */
export function abreast(figures: readonly Figure[]): Figure | null {
  if (figures.length < 2) return figures[0] ?? null;
  let width = 0;
  for (const figure of figures) {
    figure.element.setAttribute("x", String(width));
    width += figure.width;
  }
  const height = Math.max(...figures.map((figure) => figure.height));
  const parts = [svg("rect", { width, height, fill: "#fff" }), ...figures.map(({ element }) => element)];
  return { element: svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...parts), width, height };
}

let bars = 0;

/** How the colours of an image are read: by a colour map, or as those of channels. */
export type Key = Colours | { readonly channels: readonly Channel[] };

/** Draw an image as a figure, without what lies around the array; `ratio` is the pixels of `picture` per pixel. */
export function imageFigure(
  source: Source,
  state: State,
  drawn: Drawn,
  picture: ImageData,
  ratio: number,
  key: Key,
  heading = nameOf(source),
): Figure {
  const axes = state.axes ?? [0, 1];
  const [x, y] = [inside(drawn.columns), inside(drawn.rows)];
  const scale = Math.min(WIDE / x.count, HIGH / y.count);
  const box: Box = { left: LEFT, top: TOP, width: x.count * scale, height: y.count * scale };
  const { view } = drawn;
  const shown = {
    x: view.x + x.first / (view.scaleX * ratio),
    y: view.y + y.first / (view.scaleY * ratio),
    scaleX: view.scaleX * ratio * scale,
    scaleY: view.scaleY * ratio * scale,
  };
  const [below, left] = spans(shown, axes, source, state.turned);
  const [down, across] = [source.coordinates[axes[0]]!, source.coordinates[axes[1]]!];
  const place = { x: box.left, y: box.top, width: box.width, height: box.height };
  const style = "image-rendering:pixelated";
  const says = source.meaning(false);
  return composed(heading, slice(source, state, axes, drawn.planes), box, RIGHT + BAR, [
    svg("image", { ...place, preserveAspectRatio: "none", style, href: cut(picture, x, y) }),
    edge(box),
    ...axisBelow(box, across, below),
    ...axisLeft(box, down, left),
    ...scaleBar(box, down, across, shown.scaleX),
    ...("channels" in key ? legend(box, key.channels) : colourBar(box, key, says)),
  ]);
}

interface Range {
  readonly first: number;
  readonly count: number;
}

/** Return the pixels along an axis that lie within the array. */
function inside(shown: Float64Array): Range {
  const first = shown.findIndex((at) => at >= 0);
  const count = shown.reduce((total, at) => total + (at >= 0 ? 1 : 0), 0);
  return { first: Math.max(0, first), count: Math.max(1, count) };
}

function cut(picture: ImageData, x: Range, y: Range): string {
  const canvas = h("canvas", { width: x.count, height: y.count });
  canvas.getContext("2d")!.putImageData(picture, -x.first, -y.first);
  return canvas.toDataURL("image/png");
}

/** Draw the bar of a colour map with the values that its colours stand for. */
function colourBar(box: Box, key: Colours, says: Meaning): SVGElement[] {
  const { map, reversed, norm, limits } = key;
  if (Number.isNaN(limits.low)) return []; // there are no values
  const id = `bar${bars++}`; // figures may stand beside each other
  const colours = table(map, reversed);
  const left = box.left + box.width + 22;
  const height = Math.max(box.height, 80);
  const stops = Array.from({ length: 65 }, (_, at) => {
    const base = 3 * Math.round((at / 64) * 255);
    return svg("stop", { offset: at / 64, "stop-color": `rgb(${colours.slice(base, base + 3).join(",")})` });
  });
  const { to } = spread(norm, limits);
  const toY = (value: number): number =>
    box.top + height * (1 - (to(value) - to(limits.low)) / (to(limits.high) - to(limits.low) || 1));
  const marks =
    norm === "linear"
      ? valueTicks(limits.low, limits.high, height / 40, says)
      : powers(norm, limits, height / 30).map((value) => ({ value, label: number(value, 4) }));
  const [x, middle] = [left + 76, box.top + height / 2];
  const named = { class: "name", x, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${x} ${middle})` };
  return [
    svg("defs", {}, svg("linearGradient", { id, x1: 0, x2: 0, y1: 1, y2: 0 }, ...stops)),
    svg("rect", { x: left, y: box.top, width: 16, height, fill: `url(#${id})` }),
    edge({ left, top: box.top, width: 16, height }),
    ...marks.flatMap(({ value, label }) => [
      svg("path", { class: "tick", d: `M${left + 16} ${toY(value)}h5` }),
      svg("text", { x: left + 25, y: toY(value) + 4 }, label),
    ]),
    svg("text", named, says.time === null ? unitText(says.units) : ""),
  ];
}

function legend(box: Box, channels: readonly Channel[]): SVGElement[] {
  const left = box.left + box.width + 22;
  return channels.flatMap(({ name, colour }, at) => [
    svg("rect", { x: left, y: box.top + 22 * at, width: 14, height: 14, fill: `rgb(${colour.join(",")})` }),
    svg("text", { x: left + 21, y: box.top + 22 * at + 11 }, name.slice(0, 18)),
  ]);
}
