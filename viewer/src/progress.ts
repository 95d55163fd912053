/** How many chunks are read, and which can't be. */

import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { counted, grouped } from "./format.ts";

const SHOWN = 50;

export class ProgressView {
  readonly element: HTMLElement;
  private readonly bar = h("i", {});
  private readonly text = h("span", { role: "status" });
  private readonly errors = h("details", { class: "errors", hidden: true });
  private readonly context: Context;
  private opened = 0;

  private readonly names: readonly string[];

  constructor(context: Context, names: readonly string[]) {
    this.names = names;
    this.context = context;
    const track = h("span", { class: "track", "aria-hidden": "true" }, this.bar);
    this.element = h("div", { class: "progress" }, this.text, track, this.errors);
  }

  /** Whether all that is wanted has been read. */
  get isReady(): boolean {
    return this.element.dataset.state !== "loading";
  }

  update(): void {
    const all = this.names.map((name) => this.context.loader.progress(name));
    const wanted = all.reduce((total, one) => total + one.wanted, 0);
    const done = all.reduce((total, one) => total + one.done, 0);
    const errors = all.flatMap((one) => one.errors);
    this.element.dataset.state = done < wanted ? "loading" : "ready";
    this.bar.style.width = wanted === 0 ? "0" : `${(100 * done) / wanted}%`;
    this.text.textContent = done < wanted ? `${grouped(done)} of ${grouped(wanted)} chunks` : "";
    this.errors.hidden = errors.length === 0;
    if (errors.length === this.opened) return;
    this.opened = errors.length;
    if (errors.length === 0) this.errors.open = false;
    const items = errors.slice(0, SHOWN).map(([key, why]) => h("li", {}, h("code", {}, named(key)), " ", why));
    replace(
      this.errors,
      h("summary", {}, `${counted(errors.length, "chunk")} can’t be read`),
      h("div", {}, h("ul", {}, ...items), h("button", { click: () => this.context.loader.retry() }, "Try again")),
    );
  }
}

/** Name a chunk: its array and its place in the grid. */
function named(key: string): string {
  const [path = "", coords = ""] = key.split("#");
  return `${decodeURIComponent(path)} [${coords}]`;
}
