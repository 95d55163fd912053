/** Colour map, limits, histogram and missing values. */

import { NAMES, gradient } from "./colours.ts";
import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { number } from "./format.ts";
import { HistogramView, colourBar } from "./histograms.ts";
import type { Drawn, ImageView } from "./image.ts";
import { histogram, sample } from "./limits.ts";
import { VALUE } from "./raster.ts";

export class ColourPanel {
  readonly element: HTMLElement;
  private readonly context: Context;
  private readonly map: HTMLSelectElement;
  private readonly image: ImageView;
  private readonly bar = h("div", {});
  private readonly low: HTMLInputElement;
  private readonly high: HTMLInputElement;
  private readonly auto: HTMLButtonElement;
  private readonly fill: HTMLInputElement;
  private readonly fillLabel: HTMLElement;
  private readonly histogram = new HistogramView();
  private shown = "";
  private counted = 0;
  private timer = 0;

  constructor(context: Context, image: ImageView) {
    this.image = image;
    this.context = context;
    const { model } = context;
    this.map = h(
      "select",
      { "aria-label": "Colour map", change: () => model.set({ map: this.map.value }) },
      ...NAMES.map((name) => h("option", { value: name }, name)),
    );
    const field = (name: string): HTMLInputElement =>
      h("input", { type: "text", inputmode: "decimal", "aria-label": name, change: () => this.typed() });
    this.low = field("Lower limit");
    this.high = field("Upper limit");
    this.auto = h("button", { click: () => this.toggle(), title: "Automatic limits (a)" }, "auto");
    this.fill = h("input", { type: "checkbox", change: () => model.set({ fill: this.fill.checked }) });
    this.fillLabel = h("label", { class: "check" }, this.fill, h("span", {}, ""));
    this.histogram.moved = (limits) => model.set({ limits });
    this.element = h(
      "section",
      { class: "colours", "aria-label": "Colours" },
      h("div", { class: "line-of" }, h("label", {}, "Colours ", this.map)),
      this.histogram.element,
      this.bar,
      h("div", { class: "limits" }, this.low, this.auto, this.high),
      this.fillLabel,
    );
  }

  /** Follow what is drawn. */
  update(drawn: Drawn): void {
    const { limits, map } = this.context.model.state;
    if (map !== this.shown) {
      this.shown = map;
      this.map.value = map;
      replace(this.bar, colourBar(gradient(map)));
    }
    for (const [field, value] of [
      [this.low, drawn.limits.low],
      [this.high, drawn.limits.high],
    ] as const) {
      if (document.activeElement !== field)
        field.value = Number.isNaN(value) ? "" : String(Number(value.toPrecision(6)));
    }
    this.auto.setAttribute("aria-pressed", String(limits === null));
    this.fill.checked = this.image.fillIsMissing();
    const { fillValue } = this.image;
    this.fillLabel.hidden = fillValue === undefined;
    this.fillLabel.lastElementChild!.textContent = ` the fill value, ${number(fillValue ?? 0)}, marks missing elements`;
    clearTimeout(this.timer);
    const count = (): void => {
      this.counted = performance.now();
      const now = this.image.present;
      if (now === null) return;
      const { values, states } = now.raster;
      this.histogram.show(histogram(sample(values, (at) => states[at] === VALUE)), now.limits);
    };
    if (performance.now() - this.counted > 150) count();
    else this.timer = window.setTimeout(count, 160);
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
