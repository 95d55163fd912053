/** Sliders for the axes that an image or a line does not have, and the choice of axes. */

import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { grouped } from "./format.ts";
import type { Node } from "./nodes.ts";
import { type Coordinates, label } from "./ticks.ts";

/** What there are sliders for: a source, or a node whose elements are no numbers. */
export interface Sliding {
  readonly node: Node;
  readonly shape: readonly number[];
  readonly coordinates: readonly Coordinates[];
}

export class Sliders {
  readonly element = h("section", { class: "sliders", "aria-label": "Axes" });
  private readonly context: Context;
  private source: Sliding | null = null;
  private readonly parts = new Map<number, { range: HTMLInputElement; text: HTMLElement }>();
  private built = "";

  constructor(context: Context) {
    this.context = context;
  }

  /** Show the sliders of a source; `shown` are the axes of its image or line. */
  show(source: Sliding | null, shown: readonly number[]): void {
    const key =
      source === null
        ? ""
        : `${source.node.path} ${shown.join()} ${source.coordinates.map((of) => of.values?.length ?? of.labels?.length).join()}`;
    if (key !== this.built || source !== this.source) this.build(source, shown);
    this.built = key;
    this.source = source;
    const { index } = this.context.model.state;
    for (const [axis, { range, text }] of this.parts) {
      const at = index[axis] ?? 0;
      if (Number(range.value) !== at) range.value = String(at);
      const said = label(source!.coordinates[axis]!, at);
      text.textContent = said === String(at) ? `${grouped(at)}` : said;
      range.setAttribute("aria-valuetext", said);
    }
  }

  private build(source: Sliding | null, shown: readonly number[]): void {
    this.parts.clear();
    if (source === null) {
      replace(this.element);
      return;
    }
    const rows = source.shape.flatMap((length, axis) =>
      shown.includes(axis) ? [] : [this.slider(source, axis, length)],
    );
    const choice = source.shape.length > 1 ? this.choice(source, shown) : null;
    replace(this.element, choice, ...rows);
  }

  private slider(source: Sliding, axis: number, length: number): HTMLElement {
    const { name, units, time } = source.coordinates[axis]!;
    const text = h("output", {});
    const range = h("input", {
      type: "range",
      min: 0,
      max: Math.max(0, length - 1),
      step: 1,
      "aria-label": name,
      "data-axis": axis,
      input: () => this.set(axis, Number(range.value)),
    });
    this.parts.set(axis, { range, text });
    const unit = units === "" || time !== null ? "" : ` (${units})`;
    return h(
      "div",
      { class: "slider" },
      h("span", {}, h("b", {}, name), unit, " ", h("small", {}, `of ${grouped(length)}`)),
      text,
      range,
    );
  }

  /** Show another element of an axis. */
  set(axis: number, at: number): void {
    const length = this.source?.shape[axis] ?? 1;
    const index = [...this.context.model.state.index];
    index[axis] = Math.min(length - 1, Math.max(0, at));
    this.context.model.set({ index });
  }

  /** Move the first slider, or the one that has the focus. */
  step(by: number): void {
    const focused = [...this.parts].find(([, { range }]) => range === document.activeElement);
    const axis = (focused ?? [...this.parts][this.parts.size - 1])?.[0];
    if (axis !== undefined) this.set(axis, (this.context.model.state.index[axis] ?? 0) + by);
  }

  private choice(source: Sliding, shown: readonly number[]): HTMLElement {
    const names = source.coordinates.map((of, axis) => h("option", { value: axis }, of.name || `axis ${axis}`));
    const select = (place: number, name: string): HTMLElement => {
      const element = h(
        "select",
        { "aria-label": name, change: () => this.choose(place, Number(element.value)) },
        ...names.map((option) => option.cloneNode(true)),
      );
      element.value = String(shown[place]);
      return h("label", {}, `${name} `, element);
    };
    if (shown.length === 1) return h("div", { class: "axes-choice" }, select(0, "Along"));
    const swap = h(
      "button",
      { title: "Swap the axes (t)", "aria-label": "Swap the axes", click: () => this.swap() },
      "⇄",
    );
    return h("div", { class: "axes-choice" }, select(0, "Down"), swap, select(1, "Across"));
  }

  private choose(place: number, axis: number): void {
    const { axes, tab } = this.context.model.state;
    if (tab === "line" || axes === null) {
      this.context.model.set({ along: axis, view: null });
      return;
    }
    const chosen: [number, number] = [...axes];
    if (chosen[1 - place] === axis) chosen[1 - place] = chosen[place]!;
    chosen[place] = axis;
    this.context.model.set({ axes: chosen, view: null });
  }

  /** Swap down and across. */
  swap(): void {
    const { axes } = this.context.model.state;
    if (axes !== null) this.context.model.set({ axes: [axes[1], axes[0]], view: null });
  }
}
