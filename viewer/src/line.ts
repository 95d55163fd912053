/** A line along one axis, through the element that is shown of the others. */

import { type Box, axisBelow, edge, valuesLeft } from "./axes.ts";
import type { Chunk, Progress } from "./chunks.ts";
import type { Context } from "./context.ts";
import { eachFrame, h, replace, svg } from "./dom.ts";
import { type Envelope, envelope, extent, spaced, take } from "./envelope.ts";
import { type Figure, LEFT as FIGURE_LEFT, TOP as FIGURE_TOP, composed, nameOf, slice } from "./figure.ts";
import { grouped, number, product } from "./format.ts";
import { planeOffset } from "./planes.ts";
import { type Source, decoder } from "./source.ts";
import { label } from "./ticks.ts";
import { shown } from "./readings.ts";
import { seen } from "./viewport.ts";

const MOST_BYTES = 128 * 2 ** 20;
const MOST_CHUNKS = 256;
const [LEFT, RIGHT, TOP, BOTTOM] = [76, 14, 10, 44] as const;

export class LineView {
  readonly element: HTMLElement;
  private readonly plot = svg("svg", { class: "plot", tabindex: 0, role: "img" });
  private readonly note = h("p", { class: "note", role: "status" });
  private readonly context: Context;
  private readonly name: string;
  private source: Source | null = null;
  private axis = 0;
  private columns: Envelope | null = null;
  private start = 0;
  private scale = 1;
  readonly redraw = eachFrame(() => this.draw());
  private readonly repaint = eachFrame(() => this.paint());
  /** Called when the line is clicked at an element. */
  picked: (at: number) => void = () => {};
  /** Called with the element below the pointer. */
  pointed: (at: number | null) => void = () => {};

  /** `name` tells its requests from those of others. */
  constructor(context: Context, name: string) {
    this.context = context;
    this.name = name;
    this.element = h("div", { class: "line" }, this.plot, this.note);
    new ResizeObserver(() => this.redraw()).observe(this.element);
    this.plot.addEventListener("click", (event) => {
      const at = this.elementAt(event as MouseEvent);
      if (at !== null) this.picked(at);
    });
    this.plot.addEventListener("pointermove", (event) => this.pointed(this.elementAt(event as PointerEvent)));
    this.plot.addEventListener("pointerleave", () => this.pointed(null));
  }

  /** Show the line of a source along an axis, or nothing. */
  show(source: Source | null, axis = 0): void {
    this.source = source;
    this.axis = axis;
    if (source === null) this.context.loader.want(this.name, [], () => {});
    else this.redraw();
  }

  get progress(): Progress {
    return this.context.loader.progress(this.name);
  }

  get width(): number {
    return Math.max(1, this.element.clientWidth - LEFT - RIGHT);
  }

  get length(): number {
    return this.source?.shape[this.axis] ?? 1;
  }

  /** The elements that are shown. */
  get range(): { readonly axis: number; readonly first: number; readonly stop: number } {
    const [first, stop] = seen(this.start, this.scale, this.width, this.length);
    return { axis: this.axis, first, stop };
  }

  private get height(): number {
    return Math.max(1, this.element.clientHeight - TOP - BOTTOM);
  }

  private get box(): Box {
    return { left: LEFT, top: TOP, width: this.width, height: this.height };
  }

  private elementAt(event: MouseEvent): number | null {
    const x = event.clientX - this.plot.getBoundingClientRect().left - LEFT;
    const at = Math.floor(this.start + x / this.scale);
    return x >= 0 && x <= this.width && at >= 0 && at < this.length ? at : null;
  }

  private draw(): void {
    const { source, axis, context } = this;
    if (source === null || this.element.clientWidth < LEFT + RIGHT + 8) return;
    const { view, index, tab } = context.model.state;
    const own = tab === "line" || source.shape.length === 1;
    this.start = own && view !== null ? view.x : 0;
    this.scale = own && view !== null ? view.scaleX : this.width / this.length;
    const level = source.levels[0]!;
    const size = level.array.chunks[axis]!;
    const [first, stop] = seen(this.start, this.scale, this.width, this.length);
    // one column for each element where elements are wider than pixels
    this.columns =
      this.scale > 1
        ? envelope(first, 1, stop - first, this.length)
        : envelope(this.start, this.scale, Math.round(this.width), this.length);
    const most = Math.max(
      4,
      Math.min(MOST_CHUNKS, Math.floor(MOST_BYTES / (product(level.array.chunks) * level.array.itemsize))),
    );
    const { chunks, step } = spaced(Math.floor(first / size), Math.ceil(stop / size), most);
    this.note.textContent = step > 1 ? `One of ${grouped(step)} chunks is shown; zoom in to see all.` : "";
    const decode = decoder(source.meaning(context.model.state.fill ?? source.marksMissing));
    const place = new Map<string, number>();
    const put = (key: string, found: Chunk | undefined): void => {
      const from = place.get(key)! * size;
      if (found === undefined) return;
      const offset = planeOffset(level, [axis], index, found.stride);
      take(this.columns!, found, found.stride[axis]!, offset, from, Math.min(size, this.length - from), decode);
    };
    const requests = chunks.map((at) => {
      const coords = source.shape.map((_, other) =>
        other === axis ? at : Math.floor((index[other] ?? 0) / level.array.chunks[other]!),
      );
      const request = level.array.request(coords);
      place.set(request.key, at);
      put(request.key, context.loader.get(request.key));
      return request;
    });
    context.loader.want(this.name, requests, (key) => {
      put(key, context.loader.get(key));
      this.repaint();
    });
    this.paint();
  }

  private paint(): void {
    const { source, columns } = this;
    if (source === null || columns === null) return;
    const found = extent(columns);
    this.plot.setAttribute("viewBox", `0 0 ${this.element.clientWidth} ${this.element.clientHeight}`);
    replace(this.plot, ...this.parts(this.box));
    const { done, wanted, errors } = this.progress;
    Object.assign(this.plot.dataset, {
      state: done < wanted ? "loading" : "ready",
      low: found?.low ?? NaN,
      high: found?.high ?? NaN,
      errors: errors.length,
      axis: this.axis,
      start: this.start,
      scale: this.scale,
      path: source.node.path,
    });
    this.plot.setAttribute(
      "aria-label",
      `Line along ${source.coordinates[this.axis]!.name}, ${found === null ? "without values" : `from ${number(found.low)} to ${number(found.high)}`}`,
    );
  }

  /** Return the line with its axes, for the page or a figure. */
  private parts(box: Box): SVGElement[] {
    const found = extent(this.columns!);
    const range = found ?? { low: 0, high: 1 };
    const pad = (range.high - range.low) * 0.05 || Math.abs(range.high) * 0.05 || 1;
    const [low, high] = [range.low - pad, range.high + pad];
    const { top, left, height } = box;
    const toY = (value: number): number => top + height * (1 - (value - low) / (high - low));
    const toX = (at: number): number => left + (at - this.start) * this.scale;
    const [source, axis] = [this.source!, this.axis];
    const name = source.node.path.split("/").pop() || "value";
    return [
      edge(box),
      ...axisBelow(box, source.coordinates[axis]!, { start: this.start, scale: this.scale, length: this.length }),
      ...valuesLeft(box, found && { low, high }, source.meaning(false), name),
      ...this.curve(toX, toY),
      ...this.mark(box, toX),
    ];
  }

  /** Draw the line as a figure, as wide as it is on the page. */
  figure(): Figure | null {
    if (this.source === null || this.columns === null) return null;
    const box = { left: FIGURE_LEFT, top: FIGURE_TOP, width: this.width, height: Math.max(this.height, 240) };
    const { state } = this.context.model;
    return composed(nameOf(this.source), slice(this.source, state, [this.axis]), box, 30, this.parts(box));
  }

  /** Draw the columns as one path: a line where elements are wide, bars from least to greatest where they are not. */
  private curve(toX: (at: number) => number, toY: (value: number) => number): SVGElement[] {
    const { edges, low, high, states } = this.columns!;
    const place = (column: number): number =>
      this.scale > 1 ? toX(edges[column]! + 0.5) : toX(this.start) + column + 0.5;
    const parts: string[] = [];
    const dots: SVGElement[] = [];
    let [begin, top, bottom] = [-1, 0, 0]; // of the values between missing ones
    for (let column = 0; column <= states.length; column++) {
      if (states[column] !== 1 || !Number.isFinite(low[column]!) || !Number.isFinite(high[column]!)) {
        // too short to be seen as a line
        if (begin >= 0 && bottom - top < 2 && column - begin <= (this.scale > 1 ? 1 : 3)) {
          const x = (place(begin) + place(column - 1)) / 2;
          dots.push(svg("circle", { class: "dot", cx: x.toFixed(1), cy: ((top + bottom) / 2).toFixed(1), r: 2.5 }));
        }
        begin = -1;
        continue;
      }
      const [upper, lower] = [toY(high[column]!), toY(low[column]!)];
      [top, bottom] = begin < 0 ? [upper, lower] : [Math.min(top, upper), Math.max(bottom, lower)];
      const move = begin < 0 ? "M" : "L";
      if (this.scale > 1) parts.push(`${move}${place(column).toFixed(1)} ${upper.toFixed(1)}`);
      else parts.push(`${move}${place(column)} ${lower.toFixed(1)}V${upper.toFixed(1)}`);
      if (begin < 0) begin = column;
    }
    return [svg("path", { class: "curve", d: parts.join("") }), ...dots];
  }

  private mark({ left, top, width, height }: Box, toX: (at: number) => number): SVGElement[] {
    const at = this.context.model.state.index[this.axis] ?? 0;
    const x = toX(at + 0.5);
    const shown = x >= left && x <= left + width && (this.context.model.state.marked || this.source!.shape.length > 1);
    return shown ? [svg("path", { class: "cross", d: `M${x} ${top}v${height}` })] : [];
  }

  /** Describe an element of the line. */
  describe(at: number): string {
    const { source, axis, context } = this;
    if (source === null) return "";
    const level = source.levels[0]!;
    const size = level.array.chunks[axis]!;
    const { index, fill } = context.model.state;
    const coords = source.shape.map((_, other) =>
      Math.floor((other === axis ? at : (index[other] ?? 0)) / level.array.chunks[other]!),
    );
    const found = context.loader.get(level.array.request(coords).key);
    const of = source.coordinates[axis]!;
    const place = `${of.name} ${label(of, at)}`;
    if (found === undefined) return place;
    const offset = planeOffset(level, [axis], index, found.stride) + (at % size) * found.stride[axis]!;
    const says = source.meaning(fill ?? source.marksMissing);
    return `${place} · ${shown(decoder(says)(found.data[offset]!), says)}`;
  }
}
