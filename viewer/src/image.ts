/** The image of two axes: reads the chunks that it shows and draws them. */

import type { Progress } from "./chunks.ts";
import { table } from "./colours.ts";
import type { Context } from "./context.ts";
import { eachFrame, h, replace } from "./dom.ts";
import { type Figure, imageFigure } from "./figure.ts";
import { bytes, grouped, product } from "./format.ts";
import { Frame, isFlipped } from "./frame.ts";
import { Layers, type Lookup, type Plane, isComposite, planesOf, throughAxis } from "./layers.ts";
import { type Limits, NO_LIMITS, centred, robust, sample } from "./limits.ts";
import { drawable } from "./norms.ts";
import { choose } from "./ome.ts";
import { type Light, paint, paintLights } from "./painting.ts";
import { planeChunks } from "./planes.ts";
import { type Raster, VALUE, elements } from "./raster.ts";
import { type Source, type SourceLevel, decoder } from "./source.ts";
import { MOST_BYTES, MOST_CHUNKS, affordable } from "./viewcost.ts";
import { type Viewport, fit } from "./viewport.ts";

/** What is drawn at present, for others to look at. */
export interface Drawn extends Lookup {
  /** The values of each plane: one, or those of the channels that are shown together. */
  readonly rasters: readonly Raster[];
  readonly planes: readonly Plane[];
  readonly level: number;
  readonly view: Viewport;
  readonly limits: Limits;
}

export class ImageView {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  readonly frame: Frame;
  private readonly message = h("div", { class: "message", role: "status", hidden: true });
  private readonly context: Context;
  private readonly name: string;
  private readonly layers: Layers;
  private source: Source | null = null;
  private pixels: ImageData | null = null;
  private drawn: Drawn | null = null;
  private allowed = "";
  private sampled = 0;
  private automatic = NO_LIMITS;
  readonly redraw = eachFrame(() => this.draw());
  readonly repaint = eachFrame(() => this.paint());
  /** Called after each painting. */
  painted: (drawn: Drawn) => void = () => {};
  /** Returns limits that another image has, which this one takes, too. */
  limitsOf: () => Limits | null = () => null;

  /** `name` tells its requests from those of others; `like` is a frame of the same size. */
  constructor(context: Context, name = "image", like: Frame | null = null) {
    this.context = context;
    this.name = name;
    this.canvas = h("canvas", { class: `drawing ${name === "image" ? "pixels" : name}`, tabindex: 0, role: "img" });
    this.frame = new Frame(this.canvas, like);
    this.layers = new Layers(context.loader, name);
    this.element = h("div", { class: "image" }, this.frame.element, this.message);
    new ResizeObserver(() => this.redraw()).observe(this.frame.element);
  }

  /** Show a source, or nothing. */
  show(source: Source | null): void {
    if (source !== this.source) this.automatic = NO_LIMITS;
    this.source = source;
    this.drawn = null;
    if (source === null) this.context.loader.want(this.name, [], () => {});
    else this.redraw();
  }

  get present(): Drawn | null {
    return this.drawn;
  }

  get progress(): Progress {
    return this.context.loader.progress(this.name);
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
    const { state } = this.context.model;
    if (state.view !== null || this.source === null) return state.view ?? fit(plane, area);
    const levelFor = (view: Viewport): number => this.levelFor(view);
    return affordable(this.source, fit(plane, area), this.axes, area, levelFor, throughAxis(this.source, state));
  }

  get axes(): readonly [number, number] {
    return this.context.model.state.axes ?? [0, 1];
  }

  /** Whether the first element of the axis down is at the lower edge. */
  get flipped(): boolean {
    return this.source !== null && isFlipped(this.source, this.axes[0], this.context.model.state.turned);
  }

  /** Return which level of a pyramid a view needs. */
  private levelFor(view: Viewport): number {
    const [down, across] = this.axes;
    const ratio = this.frame.ratio;
    const factors = this.source?.levels.map(({ factors }) => [factors[down] ?? 1, factors[across] ?? 1] as const) ?? [];
    return choose(factors, view.scaleX / ratio, view.scaleY / ratio);
  }

  private draw(): void {
    const { source } = this;
    if (source === null || !this.frame.measure()) return;
    const { state } = this.context.model;
    const view = this.view();
    const chosen = this.levelFor(view);
    const level = source.levels[chosen]!;
    const seen = this.lookup(source, level, view);
    const planes = planesOf(source, state);
    this.prepare(planes.length, seen.columns.length, seen.rows.length);
    const isSeen = seen.rows.some((at) => at >= 0) && seen.columns.some((at) => at >= 0);
    const chunks = planes.map(({ index, through }) =>
      isSeen ? planeChunks(level, this.axes, index, seen.rows, seen.columns, through) : [],
    );
    const count = chunks.reduce((total, some) => total + some.length, 0);
    const cost = count * product(level.array.chunks) * level.array.itemsize;
    const key = `${source.node.path} ${this.axes.join()} ${planes.length} ${planes[0]?.through}`;
    const tooMuch = (cost > MOST_BYTES || count > MOST_CHUNKS) && this.allowed !== key;
    this.offer(tooMuch ? `This view shows ${grouped(count)} chunks of ${bytes(cost)} in memory.` : null, key);
    const { rasters } = this.layers;
    this.drawn = { rasters: [...rasters], planes, level: chosen, view, limits: this.automatic, ...seen };
    const decode = decoder(source.meaning(this.fillIsMissing()));
    // what was read of coarser levels is shown until the chunks of the right one arrive
    for (const coarser of source.levels.slice(chosen + 1).reverse()) {
      if (!this.layers.drawKnown(coarser, planes, this.axes, this.lookup(source, coarser, view), decode)) break;
    }
    this.layers.load(level, planes, tooMuch ? [] : chunks, this.axes, seen, decode, this.repaint);
    this.frame.drawAxes(view, this.axes, source, state);
    this.sampled = 0;
    this.paint();
  }

  private lookup(source: Source, { array, factors }: SourceLevel, view: Viewport): Lookup {
    const [down, across] = this.axes;
    const { ratio, area } = this.frame;
    const [height, width] = [Math.round(area.height * ratio), Math.round(area.width * ratio)];
    const [wholeY, wholeX] = [source.shape[down], source.shape[across]];
    const rows = [array.shape[down]!, factors[down], wholeY, this.flipped] as const;
    return {
      rows: elements(view.y, view.scaleY * ratio, height, ...rows),
      columns: elements(view.x, view.scaleX * ratio, width, array.shape[across]!, factors[across], wholeX),
    };
  }

  private prepare(count: number, width: number, height: number): void {
    this.layers.clear(count, width, height);
    if (this.pixels?.width === width && this.pixels.height === height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.pixels = new ImageData(width, height);
  }

  /** Return whether elements that equal the fill value are missing. */
  fillIsMissing(): boolean {
    return this.context.model.state.fill ?? this.source?.marksMissing ?? false;
  }

  private robust(of: Raster, positive = false): Limits | null {
    const { values, states } = of;
    const shown = sample(values, (at) => states[at] === VALUE && (!positive || values[at]! > 0));
    return robust(shown, this.context.model.state.share);
  }

  private limits(again: boolean): Limits {
    const { limits, map, norm } = this.context.model.state;
    if (limits !== null) return drawable(norm, limits);
    const first = this.layers.rasters[0];
    const others = first === undefined ? null : this.limitsOf();
    const own = others === null ? null : this.robust(first!);
    // colours of another image tell values apart only if they lie between its limits
    if (others !== null && (own === null || (own.low <= others.high && own.high >= others.low))) return others;
    if (again && first !== undefined) {
      const found = this.robust(first, norm === "log");
      const { done, wanted } = this.progress;
      if (found !== null) this.automatic = map === "diverging" && norm !== "log" ? centred(found) : found;
      else if (done === wanted) this.automatic = NO_LIMITS;
    }
    return drawable(norm, this.automatic);
  }

  private lights(): Light[] {
    return this.drawn!.planes.map(({ channel }, at) => {
      const raster = this.drawn!.rasters[at]!;
      const limits = channel?.window ?? this.robust(raster) ?? { low: 0, high: 1 };
      return { raster, colour: channel?.colour ?? [255, 255, 255], limits };
    });
  }

  private colour(into: Uint8ClampedArray, dark: boolean): void {
    const { map, reversed, norm } = this.context.model.state;
    const { rasters, limits } = this.drawn!;
    if (isComposite(this.source!, this.context.model.state)) paintLights(this.lights(), into, dark);
    else if (rasters[0] !== undefined) paint(rasters[0], into, table(map, reversed), limits, dark, norm);
  }

  private paint(): void {
    if (this.drawn === null || this.pixels === null) return;
    const { done, wanted } = this.progress;
    // while chunks arrive, limits are worked out from time to time only
    const again = done === wanted || performance.now() - this.sampled > 300;
    if (again) this.sampled = performance.now();
    this.drawn = { ...this.drawn, limits: this.limits(again) };
    this.colour(this.pixels.data, this.context.isDark());
    this.canvas.getContext("2d")!.putImageData(this.pixels, 0, 0);
    this.label();
    this.painted(this.drawn);
  }

  /** Draw what is shown as a figure for paper. */
  figure(heading?: string): Figure | null {
    if (this.drawn === null || this.pixels === null) return null;
    const { state } = this.context.model;
    const picture = new ImageData(this.pixels.width, this.pixels.height);
    this.colour(picture.data, false);
    const channels = this.drawn.planes.flatMap(({ channel }) => (channel === null ? [] : [channel]));
    const { map, reversed, norm } = state;
    const key = isComposite(this.source!, state) ? { channels } : { map, reversed, norm, limits: this.drawn.limits };
    return imageFigure(this.source!, state, this.drawn, picture, this.frame.ratio, key, heading);
  }

  /** Say in attributes of the canvas what is drawn: for tests, and for programs that read the page aloud. */
  private label(): void {
    const { view, level, limits, planes } = this.drawn!;
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
      channels: planes.map(({ channel }) => channel?.name ?? "").join(),
      through: planes[0]?.through ?? "",
      turned: this.context.model.state.turned,
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
