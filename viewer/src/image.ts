/** The image of two axes: reads the chunks that it shows and draws them. */

import { Frame } from "./frame.ts";
import type { Chunk, Progress } from "./chunks.ts";
import { table } from "./colours.ts";
import type { Context } from "./context.ts";
import { eachFrame, h, replace } from "./dom.ts";
import { bytes, grouped, product } from "./format.ts";
import { type Limits, NO_LIMITS, centred, robust, sample } from "./limits.ts";
import { choose } from "./ome.ts";
import { type PlaneChunk, planeChunks, planeOffset } from "./planes.ts";
import { EMPTY, type Raster, VALUE, draw, elements, fail, paint, raster } from "./raster.ts";
import { type Source, type SourceLevel, decoder } from "./source.ts";
import { type Viewport, fit } from "./viewport.ts";

const MOST_BYTES = 512 * 2 ** 20; // decoded chunks of one view that are read unasked
const MOST_CHUNKS = 2048;

/** What is drawn at present, for others to look at. */
export interface Drawn {
  readonly raster: Raster;
  readonly level: number;
  readonly view: Viewport;
  readonly limits: Limits;
  readonly rows: Float64Array;
  readonly columns: Float64Array;
}

export class ImageView {
  readonly element: HTMLElement;
  readonly canvas = h("canvas", { class: "pixels", tabindex: 0, role: "img" });
  readonly frame: Frame;
  private readonly message = h("div", { class: "message", role: "status", hidden: true });
  private readonly context: Context;
  private source: Source | null = null;
  private raster: Raster = raster(1, 1);
  private pixels: ImageData | null = null;
  private drawn: Drawn | null = null;
  private allowed = "";
  private sampled = 0;
  private automatic = NO_LIMITS;
  readonly redraw = eachFrame(() => this.draw());
  private readonly repaint = eachFrame(() => this.paint());
  /** Called after each painting. */
  painted: (drawn: Drawn) => void = () => {};

  constructor(context: Context) {
    this.context = context;
    this.frame = new Frame(this.canvas);
    this.element = h("div", { class: "image" }, this.frame.element, this.message);
    new ResizeObserver(() => this.redraw()).observe(this.frame.element);
  }

  /** Show a source, or nothing. */
  show(source: Source | null): void {
    if (source !== this.source) this.automatic = NO_LIMITS;
    this.source = source;
    this.drawn = null;
    if (source === null) this.context.loader.want("image", [], () => {});
    else this.redraw();
  }

  get present(): Drawn | null {
    return this.drawn;
  }

  get progress(): Progress {
    return this.context.loader.progress("image");
  }

  /** Return the size of the plane and of the area that it is drawn in. */
  sizes(): { plane: { width: number; height: number }; area: { width: number; height: number } } {
    const [down, across] = this.axes;
    const shape = this.source?.shape ?? [1, 1];
    return { plane: { width: shape[across]!, height: shape[down]! }, area: this.frame.area };
  }

  /** Return the part of the plane that is shown. */
  view(): Viewport {
    const { plane, area } = this.sizes();
    return this.context.model.state.view ?? this.affordable(fit(plane, area));
  }

  get axes(): readonly [number, number] {
    return this.context.model.state.axes ?? [0, 1];
  }

  /** Return which level of a pyramid a view needs. */
  levelFor(view: Viewport): number {
    const [down, across] = this.axes;
    const ratio = this.frame.ratio;
    const factors = this.source?.levels.map(({ factors }) => [factors[down] ?? 1, factors[across] ?? 1] as const) ?? [];
    return choose(factors, view.scaleX / ratio, view.scaleY / ratio);
  }

  private affordable(whole: Viewport): Viewport {
    let view = whole;
    while (this.source !== null && view.scaleX < 1 && this.cost(view) > MOST_BYTES / 2) {
      const { width, height } = this.frame.area;
      const [scaleX, scaleY] = [view.scaleX * 2, view.scaleY * 2];
      view = { x: view.x + width / scaleX / 2, y: view.y + height / scaleY / 2, scaleX, scaleY };
    }
    return view;
  }

  /** Return how many bytes of decoded chunks a view shows, about. */
  private cost(view: Viewport): number {
    const { array, factors } = this.source!.levels[this.levelFor(view)]!;
    const [down, across] = this.axes;
    const { width, height } = this.frame.area;
    const along = (axis: number, pixels: number, scale: number): number =>
      Math.min(array.shape[axis]!, pixels / scale / (factors[axis] ?? 1)) / array.chunks[axis]! + 1;
    return (
      along(down, height, view.scaleY) * along(across, width, view.scaleX) * product(array.chunks) * array.itemsize
    );
  }

  private draw(): void {
    const { source } = this;
    if (source === null || !this.frame.measure()) return;
    const view = this.view();
    const chosen = this.levelFor(view);
    const level = source.levels[chosen]!;
    const [rows, columns] = this.lookup(source, level, view);
    this.prepare(rows.length, columns.length);
    const chunks =
      rows.some((at) => at >= 0) && columns.some((at) => at >= 0)
        ? planeChunks(level, this.axes, this.context.model.state.index, rows, columns)
        : [];
    const cost = chunks.length * product(level.array.chunks) * level.array.itemsize;
    const key = `${source.node.path} ${this.axes.join()}`;
    const tooMuch = (cost > MOST_BYTES || chunks.length > MOST_CHUNKS) && this.allowed !== key;
    this.offer(tooMuch ? `This view shows ${grouped(chunks.length)} chunks of ${bytes(cost)} in memory.` : null, key);
    this.drawn = { raster: this.raster, level: chosen, view, limits: this.limits(true), rows, columns };
    this.drawCoarser(source, chosen, view);
    this.load(level, tooMuch ? [] : chunks, rows, columns);
    this.frame.drawAxes(view, this.axes, source, this.context.model.state);
    this.sampled = 0;
    this.paint();
  }

  private lookup(source: Source, { array, factors }: SourceLevel, view: Viewport): [Float64Array, Float64Array] {
    const [down, across] = this.axes;
    const { ratio, area } = this.frame;
    const [height, width] = [Math.round(area.height * ratio), Math.round(area.width * ratio)];
    const flipped = this.frame.isFlipped(source, down);
    return [
      elements(view.y, view.scaleY * ratio, height, array.shape[down]!, factors[down], source.shape[down], flipped),
      elements(view.x, view.scaleX * ratio, width, array.shape[across]!, factors[across], source.shape[across]),
    ];
  }

  private prepare(height: number, width: number): void {
    if (this.raster.width === width && this.raster.height === height && this.pixels !== null) {
      this.raster.states.fill(EMPTY);
      return;
    }
    this.raster = raster(width, height);
    this.canvas.width = width;
    this.canvas.height = height;
    this.pixels = new ImageData(width, height);
  }

  /** Draw what was read of coarser levels, until the chunks of the right one arrive. */
  private drawCoarser(source: Source, chosen: number, view: Viewport): void {
    const { index } = this.context.model.state;
    const { axes } = this;
    const decode = decoder(source.meaning(this.fillIsMissing()));
    for (const level of source.levels.slice(chosen + 1).reverse()) {
      const [rows, columns] = this.lookup(source, level, view);
      if (!rows.some((at) => at >= 0) || !columns.some((at) => at >= 0)) return;
      for (const { coords, piece } of planeChunks(level, axes, index, rows, columns)) {
        const found = this.context.loader.get(level.array.request(coords).key);
        if (found === undefined) continue;
        draw(this.raster, rows, columns, found, piece, planeOffset(level, axes, index, found.stride), decode);
      }
    }
  }

  private load(level: SourceLevel, chunks: readonly PlaneChunk[], rows: Float64Array, columns: Float64Array): void {
    const { loader, model } = this.context;
    const { index } = model.state;
    const { axes } = this;
    const decode = decoder(this.source!.meaning(this.fillIsMissing()));
    const byKey = new Map<string, PlaneChunk>();
    const put = (key: string, found: Chunk | undefined): void => {
      const { piece } = byKey.get(key)!;
      if (found !== undefined)
        draw(this.raster, rows, columns, found, piece, planeOffset(level, axes, index, found.stride), decode);
      else if (loader.error(key) !== undefined) fail(this.raster, rows, columns, piece);
    };
    const requests = chunks.map((chunk) => {
      const request = level.array.request(chunk.coords);
      byKey.set(request.key, chunk);
      put(request.key, loader.get(request.key));
      return request;
    });
    loader.want("image", requests, (key) => {
      put(key, loader.get(key));
      this.repaint();
    });
  }

  /** The fill value, if it is a number that may mark missing elements. */
  get fillValue(): number | undefined {
    const fill = this.source?.levels[0]!.array.fill;
    return fill === undefined || Number.isNaN(fill) || this.source!.meaning(false).missing.length > 0
      ? undefined
      : fill;
  }

  /** Return whether elements that equal the fill value are missing. */
  fillIsMissing(): boolean {
    return this.context.model.state.fill ?? this.source?.marksMissing ?? false;
  }

  private limits(again: boolean): Limits {
    const { limits, map } = this.context.model.state;
    if (limits !== null) return limits;
    if (again) {
      const { values, states } = this.raster;
      const found = robust(sample(values, (at) => states[at] === VALUE));
      const { done, wanted } = this.progress;
      if (found !== null) this.automatic = map === "diverging" ? centred(found) : found;
      else if (done === wanted) this.automatic = NO_LIMITS;
    }
    return this.automatic;
  }

  private paint(): void {
    if (this.drawn === null || this.pixels === null) return;
    const { done, wanted } = this.progress;
    // while chunks arrive, limits are worked out from time to time only
    const again = done === wanted || performance.now() - this.sampled > 300;
    if (again) this.sampled = performance.now();
    const limits = this.limits(again);
    this.drawn = { ...this.drawn, limits };
    paint(this.raster, this.pixels.data, table(this.context.model.state.map), limits, this.context.isDark());
    this.canvas.getContext("2d")!.putImageData(this.pixels, 0, 0);
    this.label();
    this.painted(this.drawn);
  }

  /** Say in attributes of the canvas what is drawn: for tests, and for programs that read the page aloud. */
  private label(): void {
    const { view, level, limits } = this.drawn!;
    const { done, wanted, errors } = this.progress;
    Object.assign(this.canvas.dataset, {
      level,
      low: limits.low,
      high: limits.high,
      x: view.x,
      y: view.y,
      scaleX: view.scaleX,
      scaleY: view.scaleY,
      state: done < wanted ? "loading" : "ready",
      errors: errors.length,
      axes: this.axes.join(","),
      index: this.context.model.state.index.join(","),
      path: this.source!.node.path,
    });
    const names = this.axes.map((axis) => this.source!.coordinates[axis]!.name);
    this.canvas.setAttribute("aria-label", `Image of ${names[0]} by ${names[1]}; arrow keys move the mark`);
  }

  private offer(text: string | null, key: string): void {
    this.message.hidden = text === null;
    if (text === null) return;
    const anyway = (): void => {
      this.allowed = key;
      this.redraw();
    };
    replace(
      this.message,
      h("p", {}, text, " Zoom in to see a part of it."),
      h("button", { click: anyway }, "Read them all"),
    );
  }
}
