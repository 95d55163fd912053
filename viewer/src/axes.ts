/** The marks of axes: ticks, names and edges, for the page and for figures. */

import { date } from "./calendars.ts";
import type { Meaning } from "./cf.ts";
import { svg } from "./dom.ts";
import type { Limits } from "./limits.ts";
import { type Coordinates, positions, ticks } from "./ticks.ts";

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Which elements of an axis are drawn: the one at the edge of the box, pixels per element, and how many there are. */
export interface Span {
  readonly start: number;
  readonly scale: number;
  readonly length: number;
  /** Whether the first element is at the far edge. */
  readonly flipped?: boolean;
}

/** Units as people write them. */
const UNITS: Readonly<Record<string, string>> = {
  degrees_north: "°N",
  degree_north: "°N",
  degrees_east: "°E",
  degree_east: "°E",
  degrees: "°",
  angstrom: "Å",
  nanometer: "nm",
  micrometer: "µm",
  millimeter: "mm",
  centimeter: "cm",
  meter: "m",
  kilometer: "km",
};

/** Return a unit as people write it. */
export function unitText(units: string): string {
  return UNITS[units] ?? units;
}

/** Return the name of an axis, with its unit. */
export function title(of: { readonly name: string; readonly units: string }): string {
  return of.units === "" ? of.name : `${of.name} (${unitText(of.units)})`;
}

/** Return where a position of an axis lies, in pixels from the edge of the box. */
export function placeOf(at: number, { start, scale, length, flipped }: Span): number {
  return ((flipped ? length - at : at) - start) * scale;
}

/** Return which of the pixels along an axis show elements. */
function drawn({ start, scale, length }: Span, pixels: number): { readonly first: number; readonly extent: number } {
  const first = Math.max(0, -start * scale);
  return { first, extent: Math.max(0, Math.min(pixels, (length - start) * scale) - first) };
}

/** Return the part of a box that shows elements. */
export function drawnPart({ left, top, width, height }: Box, below: Span, down: Span): Box {
  const [x, y] = [drawn(below, width), drawn(down, height)];
  return { left: left + x.first, top: top + y.first, width: x.extent, height: y.extent };
}

function tick(d: string): SVGElement {
  return svg("path", { class: "tick", d });
}

function words(x: number, y: number, anchor: string, text: string): SVGElement {
  return svg("text", { x, y, "text-anchor": anchor }, text);
}

/** Draw the edge of a box. */
export function edge({ left, top, width, height }: Box): SVGElement {
  return svg("rect", { class: "edge", x: left - 0.5, y: top - 0.5, width: width + 1, height: height + 1 });
}

/** Draw ticks and name of the axis below a box. */
export function axisBelow({ left, top, width, height }: Box, of: Coordinates, span: Span): SVGElement[] {
  const { start, scale, length } = span;
  const most = Math.max(1, drawn(span, width).extent / 90);
  const parts = ticks(of, start, start + width / scale, length, most).flatMap(({ at, label }) => {
    const x = left + placeOf(at, span);
    if (x < left - 1 || x > left + width + 1) return [];
    return [tick(`M${x} ${top + height}v5`), words(x, top + height + 18, "middle", label)];
  });
  const [x, y] = [left + width / 2, top + height + 38];
  return [...parts, svg("text", { class: "name", x, y, "text-anchor": "middle" }, title(of))];
}

/** Draw ticks and name of the axis left of a box. */
export function axisLeft(box: Box, of: Coordinates, span: Span): SVGElement[] {
  const { left, top, height } = box;
  const [first, last] = [span.start, span.start + height / span.scale];
  const [low, high] = span.flipped ? [span.length - last, span.length - first] : [first, last];
  const { extent } = drawn(span, height);
  const most = Math.max(1, extent / 48, Math.min(4, extent / 16));
  const parts = ticks(of, low, high, span.length, most).flatMap(({ at, label }) => {
    const y = top + placeOf(at, span);
    if (y < top - 1 || y > top + height + 1) return [];
    return [tick(`M${left} ${y}h-5`), ...stacked(left - 9, y, label)];
  });
  return [...parts, nameLeft(box, title(of))];
}

/** Write the name of what is drawn upwards, left of a box. */
export function nameLeft({ left, top, height }: Box, name: string): SVGElement {
  const [x, y] = [left - 63, top + height / 2];
  return svg("text", { class: "name", x, y, "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})` }, name);
}

export interface ValueTick {
  readonly value: number;
  readonly label: string;
}

/** Choose about `most` marks between two values of an array; dates have their date. */
export function valueTicks(low: number, high: number, most: number, says: Meaning): ValueTick[] {
  // positions 0.5 and 1.5 are the middles of the two "elements" low and high
  return ticks({ ...positions(""), values: Float64Array.of(low, high) }, 0.5, 1.5, 2, most).map(({ at, label }) => {
    const value = low + (at - 0.5) * (high - low);
    return { value, label: says.time === null ? label : date(value, says.time, ((high - low) * says.time.unit) / 400) };
  });
}

/** Draw guides and ticks of values left of a box, if there are any. */
export function valuesLeft(box: Box, limits: Limits | null, says: Meaning, name: string): SVGElement[] {
  const { left, top, width, height } = box;
  const { low, high } = limits ?? { low: 0, high: 1 };
  const parts = (limits === null ? [] : valueTicks(low, high, height / 36, says)).flatMap(({ value, label }) => {
    const y = top + height * (1 - (value - low) / (high - low));
    return [svg("path", { class: "guide", d: `M${left} ${y}h${width}` }), ...stacked(left - 9, y, label)];
  });
  return [...parts, nameLeft(box, says.time !== null ? "" : title({ name, units: says.units }))];
}

/** Write a label left of a place: a date and its time of day below each other, since they do not fit into one line. */
function stacked(x: number, y: number, label: string): SVGElement[] {
  const parts = /^-?\d{4,}-\d\d-\d\d /.test(label) ? label.split(" ") : [label];
  return parts.map((part, line) => words(x, y + 4 + 13 * (line - (parts.length - 1) / 2), "end", clipped(part)));
}

function clipped(text: string): string {
  return text.length > 10 ? `${text.slice(0, 9)}…` : text;
}
