/** The tab with the image: the value below the pointer, and the line through the mark. */

import { Comparison } from "./comparison.ts";
import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { shape } from "./format.ts";
import { listen, zoomMiddle } from "./gestures.ts";
import { ImageView } from "./image.ts";
import { LineView } from "./line.ts";
import { pixelAt } from "./raster.ts";
import { reading } from "./readings.ts";
import type { Source } from "./source.ts";
import { label } from "./ticks.ts";

interface Point {
  readonly x: number;
  readonly y: number;
}

export class ImageTab {
  readonly element: HTMLElement;
  readonly image: ImageView;
  readonly comparison: Comparison;
  private readonly line: LineView;
  private readonly below: HTMLElement;
  private readonly along = h("select", { "aria-label": "Axis of the line" });
  private readonly readout = h("output", { class: "readout", "aria-live": "off" });
  private readonly level = h("span", { class: "note" });
  private readonly context: Context;
  private source: Source | null = null;
  private options = "";

  constructor(context: Context) {
    this.context = context;
    this.image = new ImageView(context);
    this.comparison = new Comparison(context, this.image);
    this.line = new LineView(context, "through");
    this.line.pointed = (at) => (this.readout.textContent = at === null ? "" : this.line.describe(at));
    this.line.picked = (at) => this.moveTo(this.axis, at);
    this.along.addEventListener("change", () => context.model.set({ along: Number(this.along.value) }));
    const close = h(
      "button",
      { class: "close", "aria-label": "Remove the mark", click: () => context.model.set({ marked: false }) },
      "×",
    );
    this.below = h(
      "div",
      { class: "below" },
      h("div", { class: "line-of" }, h("label", {}, "Line along ", this.along), close),
      this.line.element,
    );
    this.element = h(
      "div",
      { class: "image-tab" },
      this.comparison.element,
      h("div", { class: "foot" }, this.readout, this.level),
      this.below,
    );
    const { canvas } = this.comparison.difference;
    const difference = { canvas, sizes: () => this.image.sizes(), view: () => this.image.view() };
    for (const pane of [this.image, this.comparison.beside, difference]) {
      listen(
        context,
        pane,
        (at) => this.point(at),
        (at) => this.mark(at, pane.canvas),
      );
      pane.canvas.addEventListener("keydown", (event) => this.pressed(event));
    }
  }

  /** Say which level of a pyramid is drawn. */
  sayLevel(): void {
    const levels = this.source?.levels ?? [];
    const level = this.image.present?.level ?? 0;
    this.level.textContent =
      levels.length < 2 ? "" : `level ${level} of ${levels.length} · ${shape(levels[level]!.array.shape)}`;
  }

  /** Show a source, or nothing. */
  show(source: Source | null): void {
    const { marked } = this.context.model.state;
    if (source !== this.source) this.readout.textContent = "";
    this.source = source;
    this.below.hidden = !marked;
    this.image.show(source);
    this.comparison.show(source);
    this.line.show(marked ? source : null, this.axis);
    const names = (source?.coordinates ?? []).map((of) => of.name);
    if (names.join("\n") !== this.options) {
      this.options = names.join("\n");
      this.along.replaceChildren(...names.map((name, axis) => h("option", { value: axis }, name)));
    }
    this.along.value = String(this.axis);
  }

  /** The axis of the line: the chosen one, or the one across. */
  private get axis(): number {
    const { along, axes } = this.context.model.state;
    const rank = this.source?.shape.length ?? 0;
    return along !== null && along < rank ? along : (axes?.[1] ?? 0);
  }

  /** Return the element below a point of the canvas: down and across. */
  private elementAt({ x, y }: Point): [number, number] | null {
    const { present, axes } = this.image;
    if (present === null || this.source === null) return null;
    const [down, across] = axes;
    const column = Math.floor(present.view.x + x / present.view.scaleX);
    const seen = present.view.y + y / present.view.scaleY;
    const length = this.source.shape[down]!;
    const row = Math.floor(this.image.flipped ? length - seen : seen);
    const inside = row >= 0 && row < length && column >= 0 && column < this.source.shape[across]!;
    return inside ? [row, column] : null;
  }

  private point(at: Point | null): void {
    const place = at === null ? null : this.elementAt(at);
    if (at === null || place === null) {
      this.readout.textContent = "";
      return;
    }
    const source = this.source!;
    const names = this.image.axes.map(
      (axis, which) => `${source.coordinates[axis]!.name} ${label(source.coordinates[axis]!, place[which]!)}`,
    );
    this.readout.textContent = `${names.join(" · ")} · ${this.valueAt(at)}`;
  }

  private valueAt({ x, y }: Point): string {
    const { rasters, planes } = this.image.present!;
    const { ratio } = this.image.frame;
    const says = this.source!.meaning(false);
    const read = rasters.map((raster, at) => {
      const name = planes[at]?.channel?.name;
      const value = reading(raster, pixelAt(raster, { x, y }, ratio), says);
      return name === undefined ? value : `${name} ${value}`;
    });
    const { other, beside, difference } = this.comparison;
    const pane = other === null ? undefined : beside.present?.rasters[0];
    if (pane === undefined) return read.join(" · ");
    read.push(`${this.comparison.names()[1]} ${reading(pane, pixelAt(pane, { x, y }, ratio), other!.meaning(false))}`);
    if (this.context.model.state.difference) {
      const { values } = difference;
      read.push(`difference ${reading(values, pixelAt(values, { x, y }, ratio), { ...says, time: null })}`);
    }
    return read.join(" · ");
  }

  private mark(at: Point, canvas: HTMLCanvasElement): void {
    const place = this.elementAt(at);
    canvas.focus({ preventScroll: true });
    if (place === null) return;
    const index = [...this.context.model.state.index];
    this.image.axes.forEach((axis, which) => (index[axis] = place[which]!));
    this.context.model.set({ index, marked: true });
  }

  private moveTo(axis: number, at: number): void {
    const length = this.source?.shape[axis] ?? 1;
    const index = [...this.context.model.state.index];
    index[axis] = Math.min(length - 1, Math.max(0, at));
    this.context.model.set({ index, marked: true });
  }

  private pressed(event: KeyboardEvent): void {
    const [down, across] = this.image.axes;
    const { flipped } = this.image;
    const distance = event.shiftKey ? 10 : 1;
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [across, -distance],
      ArrowRight: [across, distance],
      ArrowUp: [down, flipped ? distance : -distance],
      ArrowDown: [down, flipped ? -distance : distance],
    };
    const step = steps[event.key];
    if (step === undefined || this.source === null) return;
    event.preventDefault();
    this.moveTo(step[0], (this.context.model.state.index[step[0]] ?? 0) + step[1]);
    this.say();
  }

  /** Say the value at the mark, for programs that read the page aloud. */
  private say(): void {
    const { index } = this.context.model.state;
    const source = this.source!;
    this.readout.setAttribute("aria-live", "polite");
    requestAnimationFrame(() => {
      const names = this.image.axes.map(
        (axis) => `${source.coordinates[axis]!.name} ${label(source.coordinates[axis]!, index[axis] ?? 0)}`,
      );
      const at = this.markPlace();
      this.readout.textContent = `${names.join(" · ")} · ${at === null ? "out of sight" : this.valueAt(at)}`;
    });
  }

  private markPlace(): Point | null {
    const { present, axes } = this.image;
    const { index } = this.context.model.state;
    const [down, across] = axes;
    if (present === null) return null;
    const row = (index[down] ?? 0) + 0.5;
    const seen = this.image.flipped ? this.source!.shape[down]! - row : row;
    const at = {
      x: ((index[across] ?? 0) + 0.5 - present.view.x) * present.view.scaleX,
      y: (seen - present.view.y) * present.view.scaleY,
    };
    const { width, height } = this.image.frame.area;
    return at.x >= 0 && at.y >= 0 && at.x < width && at.y < height ? at : null;
  }

  zoom(factor: number): void {
    zoomMiddle(this.context, this.image, factor);
  }

  /** Turn the axis down upside down. */
  flip(): void {
    this.context.model.set({ turned: !this.context.model.state.turned });
  }
}
