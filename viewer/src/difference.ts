/** The difference of two images of the same elements, pixel by pixel. */

import { table } from "./colours.ts";
import type { Context } from "./context.ts";
import { eachFrame, h } from "./dom.ts";
import { type Figure, imageFigure } from "./figure.ts";
import { Frame } from "./frame.ts";
import type { Drawn, ImageView } from "./image.ts";
import { type Limits, robust, sample } from "./limits.ts";
import { paint } from "./painting.ts";
import { type Raster, VALUE, raster, subtract } from "./raster.ts";
import type { Source } from "./source.ts";

const MAP = "diverging";

export class DifferenceView {
  readonly canvas = h("canvas", { class: "drawing difference", tabindex: 0, role: "img" });
  readonly element: HTMLElement;
  readonly frame: Frame;
  /** The differences that are drawn. */
  values: Raster = raster(1, 1);
  limits: Limits = { low: -1, high: 1 };
  private readonly context: Context;
  private readonly one: ImageView;
  private readonly other: ImageView;
  private source: Source | null = null;
  /** Called after each painting. */
  painted: () => void = () => {};
  readonly redraw = eachFrame(() => this.draw());

  constructor(context: Context, one: ImageView, other: ImageView) {
    this.context = context;
    this.one = one;
    this.other = other;
    this.frame = new Frame(this.canvas, one.frame);
    this.element = h("div", { class: "image" }, this.frame.element);
  }

  /** Show the difference to a source, or nothing. */
  show(source: Source | null): void {
    this.source = source;
    this.redraw();
  }

  /** Return what both images show of the same elements, if each shows one plane. */
  private get both(): [Drawn, Drawn] | null {
    const [one, other] = [this.one.present, this.other.present];
    const [left, right] = [one?.rasters[0], other?.rasters[0]];
    if (one === null || other === null || left?.width !== right?.width || left?.height !== right?.height) return null;
    return one.planes.length === 1 && other.planes.length === 1 ? [one, other] : null;
  }

  private draw(): void {
    const { both, source } = this;
    if (source === null || both === null || !this.frame.measure()) return;
    this.values = subtract(both[0].rasters[0]!, both[1].rasters[0]!);
    const { values, states, width, height } = this.values;
    const found = robust(
      sample(values, (at) => states[at] === VALUE),
      this.context.model.state.share,
    );
    const size = found === null ? 1 : Math.max(Math.abs(found.low), Math.abs(found.high)) || 1;
    this.limits = { low: -size, high: size };
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
    this.canvas.getContext("2d")!.putImageData(this.picture(this.context.isDark()), 0, 0);
    this.frame.drawAxes(both[0].view, this.one.axes, source, this.context.model.state);
    const isReady = [this.one, this.other].every(({ progress }) => progress.done === progress.wanted);
    const { low, high } = this.limits;
    Object.assign(this.canvas.dataset, { low, high, state: isReady ? "ready" : "loading", path: source.node.path });
    this.painted();
  }

  private picture(dark: boolean): ImageData {
    const found = new ImageData(this.values.width, this.values.height);
    paint(this.values, found.data, table(MAP), this.limits, dark);
    return found;
  }

  /** Draw the difference as a figure for paper. */
  figure(heading: string): Figure | null {
    const { both, source } = this;
    if (source === null || both === null) return null;
    const key = { map: MAP, reversed: false, norm: "linear", limits: this.limits } as const;
    const { state } = this.context.model;
    const difference = { ...source, meaning: (fill: boolean) => ({ ...source.meaning(fill), time: null }) };
    return imageFigure(difference, state, both[0], this.picture(false), this.frame.ratio, key, heading);
  }
}
