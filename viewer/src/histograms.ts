/** A histogram with the limits of the colours, which can be moved. */

import { h, replace, svg } from "./dom.ts";
import { number } from "./format.ts";
import type { Histogram, Limits } from "./limits.ts";

const [WIDE, HIGH] = [236, 64] as const;

export class HistogramView {
  readonly element = svg("svg", { class: "histogram", viewBox: `0 0 ${WIDE} ${HIGH + 16}`, role: "img" });
  private found: Histogram | null = null;
  /** Called with limits that were dragged. */
  moved: (limits: Limits) => void = () => {};
  private limits: Limits = { low: 0, high: 1 };

  constructor() {
    const drag = (event: PointerEvent): void => {
      if (this.found === null || (event.type === "pointermove" && event.buttons === 0)) return;
      const box = this.element.getBoundingClientRect();
      const { low, high } = this.found;
      const value = low + ((event.clientX - box.left) / box.width) * (high - low);
      const nearer = Math.abs(value - this.limits.low) < Math.abs(value - this.limits.high) ? "low" : "high";
      this.moved({ ...this.limits, [nearer]: value });
    };
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.element.addEventListener("pointermove", drag);
  }

  /** Draw counts and limits; `ends` names the least and the greatest value. */
  show(found: Histogram | null, limits: Limits, ends?: readonly [string, string]): void {
    this.found = found;
    this.limits = limits;
    if (found === null) {
      replace(this.element);
      return;
    }
    const most = Math.max(...found.counts, 1);
    const width = WIDE / found.counts.length;
    const bars = found.counts.map((count, at) => {
      // roots, so that rare values are seen beside a common one
      const height = count === 0 ? 0 : Math.max(1, Math.sqrt(count / most) * HIGH);
      return `M${(at * width).toFixed(2)} ${HIGH}v${-height.toFixed(2)}h${Math.max(0.5, width - 0.5).toFixed(2)}v${height.toFixed(2)}z`;
    });
    const span = found.high - found.low || 1;
    const toX = (value: number): number => Math.min(WIDE, Math.max(0, ((value - found.low) / span) * WIDE));
    const marks = [limits.low, limits.high]
      .filter(Number.isFinite)
      .map((value) => svg("path", { class: "limit", d: `M${toX(value)} 0v${HIGH}` }));
    const [low, high] = ends ?? [number(found.low, 4), number(found.high, 4)];
    const label = (x: number, anchor: string, text: string): SVGElement =>
      svg("text", { x, y: HIGH + 12, "text-anchor": anchor }, text);
    replace(
      this.element,
      svg("path", { class: "bars", d: bars.join("") }),
      ...marks,
      label(0, "start", low),
      label(WIDE, "end", high),
    );
    this.element.setAttribute("aria-label", `Histogram from ${low} to ${high}`);
  }
}

/** Return a bar of the colours of a map. */
export function colourBar(gradient: string): HTMLElement {
  return h("div", { class: "bar", style: `background:${gradient}`, "aria-hidden": "true" });
}
