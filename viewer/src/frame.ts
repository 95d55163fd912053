/** The area of an image with its axes, marks and crosshair. */

import { h, replace, svg } from "./dom.ts";
import type { Source } from "./source.ts";
import type { State } from "./state.ts";
import { type Coordinates, ticks } from "./ticks.ts";
import type { Size, Viewport } from "./viewport.ts";

/** Units as people write them. */
const UNITS: Readonly<Record<string, string>> = {
  degrees_north: "°N",
  degree_north: "°N",
  degrees_east: "°E",
  degree_east: "°E",
  degrees: "°",
  micrometer: "µm",
  nanometer: "nm",
  millimeter: "mm",
  meter: "m",
  kilometer: "km",
};
const [LEFT, BOTTOM, TOP, RIGHT] = [76, 46, 10, 14] as const;

export class Frame {
  readonly element: HTMLElement;
  private readonly overlay = svg("svg", { class: "axes", "aria-hidden": "true" });
  private size: Size = { width: 0, height: 0 };
  /** Whether the axis down is turned by the user. */
  turned = false;

  constructor(canvas: HTMLCanvasElement) {
    this.element = h("div", { class: "frame" }, canvas, this.overlay);
    canvas.style.left = `${LEFT}px`;
    canvas.style.top = `${TOP}px`;
  }

  /** Device pixels per pixel. */
  get ratio(): number {
    return window.devicePixelRatio || 1;
  }

  get area(): Size {
    return { width: Math.max(1, this.size.width - LEFT - RIGHT), height: Math.max(1, this.size.height - TOP - BOTTOM) };
  }

  /** Look how large the area is; `false` if it is not shown. */
  measure(): boolean {
    const { clientWidth: width, clientHeight: height } = this.element;
    this.size = { width, height };
    if (width < LEFT + RIGHT + 8 || height < TOP + BOTTOM + 8) return false;
    const canvas = this.element.querySelector("canvas")!;
    canvas.style.width = `${this.area.width}px`;
    canvas.style.height = `${this.area.height}px`;
    return true;
  }

  /** Whether the first element of the axis down is at the lower edge. */
  isFlipped(source: Source, down: number): boolean {
    return source.coordinates[down]!.up !== this.turned;
  }

  /** Draw ticks, names, the edge of the array and the mark. */
  drawAxes(view: Viewport, axes: readonly [number, number], source: Source, state: State): void {
    const { width, height } = this.area;
    this.overlay.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    const [down, across] = axes;
    const [lengthY, lengthX] = [source.shape[down]!, source.shape[across]!];
    const flipped = this.isFlipped(source, down);
    const toX = (at: number): number => LEFT + (at - view.x) * view.scaleX;
    const toY = (at: number): number => TOP + ((flipped ? lengthY - at : at) - view.y) * view.scaleY;
    const parts: Node[] = [
      svg("rect", { class: "edge", x: LEFT - 0.5, y: TOP - 0.5, width: width + 1, height: height + 1 }),
    ];
    const [first, last] = [view.y, view.y + height / view.scaleY];
    const shown = flipped ? ([lengthY - last, lengthY - first] as const) : ([first, last] as const);
    for (const tick of ticks(source.coordinates[across]!, view.x, view.x + width / view.scaleX, lengthX, width / 90)) {
      const x = toX(tick.at);
      if (x < LEFT - 1 || x > LEFT + width + 1) continue;
      parts.push(svg("path", { class: "tick", d: `M${x} ${TOP + height}v5` }));
      parts.push(svg("text", { x, y: TOP + height + 18, "text-anchor": "middle" }, tick.label));
    }
    for (const tick of ticks(source.coordinates[down]!, shown[0], shown[1], lengthY, height / 48)) {
      const y = toY(tick.at);
      if (y < TOP - 1 || y > TOP + height + 1) continue;
      parts.push(svg("path", { class: "tick", d: `M${LEFT} ${y}h-5` }));
      parts.push(svg("text", { x: LEFT - 9, y: y + 4, "text-anchor": "end" }, clipped(tick.label)));
    }
    parts.push(
      svg(
        "text",
        { class: "name", x: LEFT + width / 2, y: TOP + height + 38, "text-anchor": "middle" },
        title(source.coordinates[across]!),
      ),
    );
    const middle = TOP + height / 2;
    parts.push(
      svg(
        "text",
        { class: "name", x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` },
        title(source.coordinates[down]!),
      ),
    );
    if (state.marked)
      parts.push(...this.mark(toX((state.index[across] ?? 0) + 0.5), toY((state.index[down] ?? 0) + 0.5)));
    replace(this.overlay, ...parts);
  }

  private mark(x: number, y: number): Node[] {
    const { width, height } = this.area;
    const found: Node[] = [];
    if (x >= LEFT && x <= LEFT + width) found.push(svg("path", { class: "cross", d: `M${x} ${TOP}v${height}` }));
    if (y >= TOP && y <= TOP + height) found.push(svg("path", { class: "cross", d: `M${LEFT} ${y}h${width}` }));
    return found;
  }
}

function clipped(text: string): string {
  return text.length > 10 ? `${text.slice(0, 9)}…` : text;
}

/** Return the name of an axis, with its unit. */
export function title(of: Coordinates): string {
  return of.units === "" ? of.name : `${of.name} (${UNITS[of.units] ?? of.units})`;
}
