/** The choice of what is drawn of complex numbers. */

import type { Context } from "./context.ts";
import { isComplex } from "./documents.ts";
import { h } from "./dom.ts";
import type { Node } from "./nodes.ts";
import { PARTS, type Part } from "./state.ts";

export class PartPanel {
  readonly element: HTMLElement;
  private readonly choice: HTMLSelectElement;
  private readonly context: Context;

  constructor(context: Context) {
    this.context = context;
    this.choice = h(
      "select",
      { "aria-label": "Part", change: () => context.model.set({ part: this.choice.value as Part, limits: null }) },
      ...PARTS.map((part) => h("option", { value: part }, part)),
    );
    this.element = h(
      "section",
      { "aria-label": "Complex numbers", hidden: true },
      h("div", { class: "line-of" }, h("label", {}, "Shows the ", this.choice)),
    );
  }

  /** Offer the choice for a node of complex numbers. */
  show(node: Node | null): void {
    this.element.hidden = node === null || node.document === null || !isComplex(node.document);
    this.choice.value = this.context.model.state.part;
  }
}
