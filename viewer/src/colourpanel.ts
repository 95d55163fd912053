/** Colour map, limits, histogram and missing values; or the channels that are shown together. */

import { channelList } from "./channelpanel.ts";
import { NAMES, gradient } from "./colours.ts";
import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { number } from "./format.ts";
import { HistogramView, colourBar } from "./histograms.ts";
import type { Drawn, ImageView } from "./image.ts";
import { isComposite } from "./layers.ts";
import { histogram, sample } from "./limits.ts";
import { NORMS, type Norm, spread } from "./norms.ts";
import { VALUE } from "./raster.ts";
import type { Source } from "./source.ts";

const SHARES = [0, 0.001, 0.01, 0.02, 0.05, 0.1];
const NORM_TITLES: Record<Norm, string> = { linear: "linear", log: "log", symlog: "symlog" };

export class ColourPanel {
  readonly element: HTMLElement;
  private readonly context: Context;
  private readonly map: HTMLSelectElement;
  private readonly reversed: HTMLInputElement;
  private readonly norm: HTMLSelectElement;
  private readonly share: HTMLSelectElement;
  private readonly image: ImageView;
  private readonly bar = h("div", {});
  private readonly low: HTMLInputElement;
  private readonly high: HTMLInputElement;
  private readonly auto: HTMLButtonElement;
  private readonly fill: HTMLInputElement;
  private readonly fillLabel: HTMLElement;
  private readonly histogram = new HistogramView();
  private readonly channels = h("div", { class: "channels" });
  private readonly single: HTMLElement;
  private shown = "";
  private counted = 0;
  private timer = 0;

  constructor(context: Context, image: ImageView) {
    this.image = image;
    this.context = context;
    const { model } = context;
    const select = (name: string, options: readonly (readonly [string, string])[], change: () => void) =>
      h("select", { "aria-label": name, change }, ...options.map(([value, text]) => h("option", { value }, text)));
    this.map = select(
      "Colour map",
      NAMES.map((name) => [name, name]),
      () => model.set({ map: this.map.value }),
    );
    this.norm = select(
      "Scale of the colours",
      NORMS.map((name) => [name, NORM_TITLES[name]]),
      () => model.set({ norm: this.norm.value as Norm }),
    );
    this.share = select(
      "Percentiles",
      SHARES.map((share) => [String(share), percentiles(share)]),
      () => model.set({ share: Number(this.share.value), limits: null }),
    );
    const check = (change: () => void): HTMLInputElement => h("input", { type: "checkbox", change });
    this.reversed = check(() => model.set({ reversed: this.reversed.checked }));
    const field = (name: string): HTMLInputElement =>
      h("input", { type: "text", inputmode: "decimal", "aria-label": name, change: () => this.typed() });
    this.low = field("Lower limit");
    this.high = field("Upper limit");
    this.auto = h("button", { click: () => this.toggle(), title: "Automatic limits (a)" }, "auto");
    this.fill = check(() => model.set({ fill: this.fill.checked }));
    this.fillLabel = h("label", { class: "check" }, this.fill, h("span", {}, ""));
    this.histogram.moved = (limits) => {
      const { from } = this.spread(this.image.present);
      model.set({ limits: { low: from(limits.low), high: from(limits.high) } });
    };
    this.single = h(
      "div",
      { class: "single" },
      h("div", { class: "line-of" }, h("label", {}, "Colours ", this.map), this.norm),
      this.histogram.element,
      this.bar,
      h("div", { class: "limits" }, this.low, this.auto, this.high),
      h("div", { class: "line-of" }, h("label", { class: "check" }, this.reversed, " reversed"), this.share),
      this.fillLabel,
    );
    this.element = h("section", { class: "colours", "aria-label": "Colours" }, this.channels, this.single);
  }

  /** Offer what can be chosen for a source. */
  show(source: Source | null): void {
    const { state } = this.context.model;
    replace(this.channels, ...(source === null ? [] : channelList(this.context, source)));
    this.fillLabel.hidden = source?.fill === undefined;
    this.fillLabel.lastElementChild!.textContent = ` the fill value, ${number(source?.fill ?? 0)}, marks missing elements`;
    this.single.hidden = source !== null && isComposite(source, state);
  }

  /** Follow what is drawn. */
  update(drawn: Drawn): void {
    const { limits, map, reversed, norm, share } = this.context.model.state;
    if (`${map} ${reversed}` !== this.shown) {
      this.shown = `${map} ${reversed}`;
      this.map.value = map;
      this.reversed.checked = reversed;
      replace(this.bar, colourBar(gradient(map, reversed)));
    }
    this.norm.value = norm;
    this.share.value = String(share);
    for (const [field, value] of [
      [this.low, drawn.limits.low],
      [this.high, drawn.limits.high],
    ] as const) {
      if (document.activeElement !== field)
        field.value = Number.isNaN(value) ? "" : String(Number(value.toPrecision(6)));
    }
    this.auto.setAttribute("aria-pressed", String(limits === null));
    this.fill.checked = this.image.fillIsMissing();
    clearTimeout(this.timer);
    if (performance.now() - this.counted > 150) this.count();
    else this.timer = window.setTimeout(() => this.count(), 160);
  }

  private spread(drawn: Drawn | null): ReturnType<typeof spread> {
    return spread(this.context.model.state.norm, drawn?.limits ?? { low: 0, high: 1 });
  }

  /** Count what is drawn, spread as its colours are. */
  private count(): void {
    this.counted = performance.now();
    const now = this.image.present;
    if (now?.rasters[0] === undefined || this.single.hidden) return;
    const { values, states } = now.rasters[0];
    const { to, from } = this.spread(now);
    const found = histogram(sample(values, (at) => states[at] === VALUE).map(to));
    const limits = { low: to(now.limits.low), high: to(now.limits.high) };
    this.histogram.show(found, limits, found === null ? undefined : [ended(from(found.low)), ended(from(found.high))]);
  }

  /** Hold the limits of now, or let them follow what is shown. */
  toggle(): void {
    const shown = this.image.present?.limits;
    const now = shown === undefined || Number.isNaN(shown.low) ? null : shown;
    this.context.model.set({ limits: this.context.model.state.limits === null ? now : null });
  }

  /** Use the next colour map. */
  next(): void {
    const at = NAMES.indexOf(this.context.model.state.map);
    this.context.model.set({ map: NAMES[(at + 1) % NAMES.length]! });
  }

  private typed(): void {
    const [low, high] = [this.low, this.high].map((field) => Number(field.value.replace("−", "-").replace(",", ".")));
    if (Number.isFinite(low) && Number.isFinite(high)) this.context.model.set({ limits: { low: low!, high: high! } });
  }
}

function ended(value: number): string {
  return number(value, 4);
}

/** Name the values that automatic limits lie between. */
function percentiles(share: number): string {
  const low = Number((share * 100).toPrecision(6));
  return share === 0 ? "least to greatest" : `${low} to ${Number((100 - low).toPrecision(6))} %`;
}
