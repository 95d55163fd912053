/** Sliders for the axes that an image or a line does not have, and the choice of axes. */

import { AxisSlider } from "./axisslider.ts";
import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import type { Node } from "./nodes.ts";
import type { Coordinates } from "./ticks.ts";

const PAUSE = 120; // milliseconds between two elements that are played, at least

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
  private parts: AxisSlider[] = [];
  private built = "";
  private playing: number | null = null;
  private timer = 0;
  /** Returns whether all that is shown has been read. */
  isReady: () => boolean = () => true;

  constructor(context: Context) {
    this.context = context;
  }

  /** Show the sliders of a source; `shown` are the axes of its image or line, `without` has one that all is shown of. */
  show(source: Sliding | null, shown: readonly number[], without: number | null = null, canProject = false): void {
    const key =
      source === null
        ? ""
        : `${source.node.path} ${shown.join()} ${without} ${canProject} ${source.coordinates.map((of) => of.values?.length ?? of.labels?.length).join()}`;
    if (source?.node.path !== this.source?.node.path) this.pause();
    if (key !== this.built || source !== this.source) this.build(source, shown, without, canProject);
    this.built = key;
    this.source = source;
    const { index, through } = this.context.model.state;
    for (const part of this.parts) {
      part.show(index[part.axis] ?? 0, this.playing === part.axis, canProject && through === part.axis);
    }
  }

  private build(source: Sliding | null, shown: readonly number[], without: number | null, canProject: boolean): void {
    const { model } = this.context;
    this.parts = (source?.shape ?? []).flatMap((length, axis) => {
      if (shown.includes(axis) || axis === without) return [];
      const project = (of: number): void => model.set({ through: model.state.through === of ? null : of });
      const play = (of: number): void => this.play(of);
      const set = (of: number, at: number): void => this.set(of, at);
      return [
        new AxisSlider(axis, source!.coordinates[axis]!, length, { set, play, project: canProject ? project : null }),
      ];
    });
    const choice = source !== null && source.shape.length > 1 ? this.choice(source, shown) : null;
    replace(this.element, choice, ...this.parts.map(({ element }) => element));
  }

  /** Show another element of an axis, and no longer the greatest ones along it. */
  set(axis: number, at: number): void {
    const { index, through } = this.context.model.state;
    const length = this.source?.shape[axis] ?? 1;
    const changed = [...index];
    changed[axis] = Math.min(length - 1, Math.max(0, Math.floor(at) || 0));
    this.context.model.set({ index: changed, through: through === axis ? null : through });
  }

  /** The slider that has the focus, or the last one. */
  private get chosen(): AxisSlider | undefined {
    return this.parts.find((part) => part.hasFocus) ?? this.parts[this.parts.length - 1];
  }

  /** Move a slider by steps. */
  step(by: number): void {
    const part = this.chosen;
    if (part !== undefined) this.set(part.axis, (this.context.model.state.index[part.axis] ?? 0) + by * part.step);
  }

  /** Show the elements of an axis one after another, or stop that. */
  play(axis: number | undefined = this.chosen?.axis): void {
    if (axis === undefined) return;
    const stops = this.playing === axis;
    this.pause();
    if (!stops) {
      this.playing = axis;
      this.timer = window.setInterval(() => this.advance(), PAUSE);
    }
    this.context.model.set({});
  }

  private pause(): void {
    clearInterval(this.timer);
    this.playing = null;
  }

  private advance(): void {
    const part = this.parts.find(({ axis }) => axis === this.playing);
    if (part === undefined || !this.isReady()) return;
    const next = (this.context.model.state.index[part.axis] ?? 0) + part.step;
    this.set(part.axis, next < (this.source?.shape[part.axis] ?? 1) ? next : 0);
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
