/** The choice of an array that is shown beside another one. */

import type { Comparison } from "./comparison.ts";
import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import type { Source } from "./source.ts";

export class ComparePanel {
  readonly element: HTMLElement;
  private readonly context: Context;
  private readonly path: HTMLInputElement;
  private readonly known = h("datalist", { id: "comparable" });
  private readonly difference: HTMLInputElement;
  private readonly label: HTMLElement;
  private readonly failed = h("p", { class: "failed", role: "alert" });
  private offered = "";

  constructor(context: Context, comparison: Comparison) {
    this.context = context;
    const { model } = context;
    this.path = h("input", {
      type: "search",
      list: "comparable",
      placeholder: "path of an array",
      "aria-label": "Compare with",
      change: () => {
        const typed = this.path.value.replace(/^\/+|\/+$/g, "");
        model.set({ other: typed === "" ? null : typed });
      },
    });
    this.difference = h("input", {
      type: "checkbox",
      change: () => model.set({ difference: this.difference.checked }),
    });
    this.label = h("label", { class: "check" }, this.difference, " and the difference");
    comparison.said = (failure) => (this.failed.textContent = failure);
    const field = h("label", {}, "Compare with ", this.path);
    this.element = h(
      "section",
      { class: "compare", "aria-label": "Compare" },
      field,
      this.known,
      this.label,
      this.failed,
    );
  }

  /** Offer the arrays beside a source. */
  show(source: Source | null): void {
    const { other, difference } = this.context.model.state;
    this.element.hidden = source === null;
    if (source === null) return;
    if (document.activeElement !== this.path) this.path.value = other ?? "";
    this.difference.checked = difference;
    this.label.hidden = other === null;
    if (this.offered !== source.node.path) void this.offer(source);
  }

  private async offer(source: Source): Promise<void> {
    const { path } = source.node;
    this.offered = path;
    replace(this.known);
    if (path === "") return;
    const parent = path.split("/").slice(0, -1).join("/");
    const listing = await this.context.nodes.listing(parent).catch(() => null);
    if (this.offered !== path || listing === null) return;
    const same = listing.members.filter(({ shape }) => shape?.join() === source.shape.join());
    const paths = same
      .map(({ name }) => (parent === "" ? name : `${parent}/${name}`))
      .filter((found) => found !== path);
    replace(this.known, ...paths.map((value) => h("option", { value })));
  }
}
