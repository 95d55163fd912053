/** The slider of one axis, with fields for a coordinate and a number, steps and marks. */

import { unitText } from "./axes.ts";
import { h, replace } from "./dom.ts";
import { grouped } from "./format.ts";
import { type Coordinates, label, ticks } from "./ticks.ts";
import { typedPlace } from "./typedplace.ts";

const MOST_MARKS = 4;
const LETTERS = 36; // that fit below a slider

/** What a slider does. */
export interface Actions {
  readonly set: (axis: number, at: number) => void;
  readonly play: (axis: number) => void;
  /** Show the greatest values along the axis, or one element again; `null`: it can't be done. */
  readonly project: ((axis: number) => void) | null;
}

export class AxisSlider {
  readonly element: HTMLElement;
  readonly axis: number;
  private readonly of: Coordinates;
  private readonly range: HTMLInputElement;
  private readonly value: HTMLInputElement;
  private readonly number: HTMLInputElement;
  private readonly by: HTMLInputElement;
  private readonly player: HTMLButtonElement;
  private readonly greatest: HTMLButtonElement;
  private at = 0;

  constructor(axis: number, of: Coordinates, length: number, does: Actions) {
    this.axis = axis;
    this.of = of;
    const { name, units, time } = of;
    const last = Math.max(0, length - 1);
    const set = (at: number): void => does.set(axis, at);
    this.range = h("input", {
      type: "range",
      min: 0,
      max: last,
      step: 1,
      "aria-label": name,
      "data-axis": axis,
      input: () => set(Number(this.range.value)),
    });
    const typed = (): void => {
      const found = typedPlace(of, this.value.value, length);
      this.value.blur(); // so that it shows what was found
      if (found === null) this.show(this.at);
      else set(found);
    };
    const hint = `A ${time !== null ? "date" : of.labels !== null ? "name" : "value"}, or # and a number`;
    this.value = h("input", { class: "value", "aria-label": `${name}: value`, title: hint, change: typed });
    const count = (what: string, value: number, least: number, change: () => void): HTMLInputElement =>
      h("input", {
        type: "number",
        class: "count",
        min: least,
        max: last || 1,
        value,
        "aria-label": `${name}: ${what}`,
        change,
      });
    this.number = count("number", 0, 0, () => set(Number(this.number.value)));
    this.by = count("step", 1, 1, () => {});
    const button = (text: string, says: string, run: () => void): HTMLButtonElement =>
      h("button", { class: "small", "aria-label": says, title: says, click: run }, text);
    this.player = button("▶", `Play ${name} (p)`, () => does.play(axis));
    this.greatest = button("max", `The greatest values along ${name}`, () => does.project?.(axis));
    this.greatest.hidden = does.project === null;
    const unit = units === "" || time !== null ? "" : ` (${unitText(units)})`;
    this.element = h(
      "div",
      { class: "slider" },
      h(
        "div",
        { class: "line-of" },
        h("span", { class: "axis-name" }, h("b", {}, name), unit),
        this.greatest,
        this.value,
      ),
      this.range,
      h("div", { class: "marks", "aria-hidden": "true" }, ...marks(of, length)),
      h(
        "div",
        { class: "line-of" },
        this.player,
        button("‹", "One step back", () => set(this.at - this.step)),
        this.number,
        h("small", {}, `of ${grouped(length)}`),
        button("›", "One step on", () => set(this.at + this.step)),
        h("label", {}, h("small", {}, "step "), this.by),
      ),
    );
  }

  /** How far one step goes. */
  get step(): number {
    return Math.max(1, Math.floor(Number(this.by.value)) || 1);
  }

  get hasFocus(): boolean {
    return this.element.contains(document.activeElement);
  }

  /** Show which element is chosen, and whether the greatest values are. */
  show(at: number, isPlaying = false, isGreatest = false): void {
    this.at = at;
    const said = label(this.of, at);
    this.range.value = String(at);
    this.range.setAttribute("aria-valuetext", said);
    this.number.value = String(at);
    if (document.activeElement !== this.value) this.value.value = said;
    replace(this.player, isPlaying ? "❚❚" : "▶");
    this.player.setAttribute("aria-pressed", String(isPlaying));
    this.greatest.setAttribute("aria-pressed", String(isGreatest));
    this.element.classList.toggle("is-greatest", isGreatest);
  }
}

/** Return marks below a slider, where its thumb stands at their elements; those that would overlap are left out. */
function marks(of: Coordinates, length: number): HTMLElement[] {
  if (length < 2) return [];
  const found: HTMLElement[] = [];
  let end = -1;
  const all = ticks(of, 0, length, length, MOST_MARKS).sort((one, other) => one.at - other.at); // values may fall
  for (const { at, label: text } of all) {
    const share = (at - 0.5) / (length - 1);
    const width = (text.length + 1) / LETTERS;
    const side = share < width / 2 ? "first" : share > 1 - width / 2 ? "last" : "";
    const begin = side === "first" ? share : side === "last" ? share - width : share - width / 2;
    if (share < 0 || share > 1 || begin < end) continue;
    end = begin + width;
    found.push(h("span", { class: side, style: `left:calc(8px + (100% - 16px) * ${share})` }, text));
  }
  return found;
}
