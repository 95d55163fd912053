/** The area of an image with its axes, marks and crosshair. */

import { type Box, type Span, axisBelow, axisLeft, drawnPart, edge, placeOf } from "./axes.ts";
import { h, replace, svg } from "./dom.ts";
import { scaleBar } from "./scalebar.ts";
import type { Source } from "./source.ts";
import type { State } from "./state.ts";
import type { Size, Viewport } from "./viewport.ts";

const [LEFT, BOTTOM, TOP, RIGHT] = [76, 46, 10, 14] as const;

export class Frame {
  readonly element: HTMLElement;
  private readonly overlay = svg("svg", { class: "axes", "aria-hidden": "true" });
  private size: Size = { width: 0, height: 0 };
  private readonly canvas: HTMLCanvasElement;

  private readonly like: Frame | null;

  /** A frame `like` another one has its size. */
  constructor(canvas: HTMLCanvasElement, like: Frame | null = null) {
    this.canvas = canvas;
    this.like = like;
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
    const { clientWidth: width, clientHeight: height } = (this.like ?? this).element;
    this.size = { width, height };
    if (width < LEFT + RIGHT + 8 || height < TOP + BOTTOM + 8) return false;
    this.canvas.style.width = `${this.area.width}px`;
    this.canvas.style.height = `${this.area.height}px`;
    return true;
  }

  /** Draw ticks, names, the edge of the array and the mark. */
  drawAxes(view: Viewport, axes: readonly [number, number], source: Source, state: State): void {
    this.overlay.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    const box: Box = { left: LEFT, top: TOP, ...this.area };
    const [down, across] = axes;
    const [below, left] = spans(view, axes, source, state.turned);
    const parts = [
      edge(box),
      ...axisBelow(box, source.coordinates[across]!, below),
      ...axisLeft(box, source.coordinates[down]!, left),
      ...scaleBar(drawnPart(box, below, left), source.coordinates[down]!, source.coordinates[across]!, view.scaleX),
    ];
    if (state.marked) {
      const x = placeOf((state.index[across] ?? 0) + 0.5, below);
      const y = placeOf((state.index[down] ?? 0) + 0.5, left);
      if (x >= 0 && x <= box.width) parts.push(svg("path", { class: "cross", d: `M${LEFT + x} ${TOP}v${box.height}` }));
      if (y >= 0 && y <= box.height) parts.push(svg("path", { class: "cross", d: `M${LEFT} ${TOP + y}h${box.width}` }));
    }
    replace(this.overlay, ...parts);
  }
}

/** Whether the first element of the axis down is at the lower edge. */
export function isFlipped(source: Source, down: number, turned: boolean): boolean {
  return source.coordinates[down]!.up !== turned;
}

/** Return the elements across and down that a view shows. */
export function spans(
  view: Viewport,
  [down, across]: readonly [number, number],
  source: Source,
  turned: boolean,
): [Span, Span] {
  return [
    { start: view.x, scale: view.scaleX, length: source.shape[across]! },
    { start: view.y, scale: view.scaleY, length: source.shape[down]!, flipped: isFlipped(source, down, turned) },
  ];
}
