/** The field for a condition on the rows of a table. */

import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import type { Node } from "./nodes.ts";

export class Filter {
  readonly element: HTMLElement;
  private readonly field: HTMLInputElement;
  private readonly context: Context;

  constructor(context: Context) {
    this.context = context;
    this.field = h("input", {
      type: "search",
      "aria-label": "Condition on the rows",
      spellcheck: "false",
      autocapitalize: "off",
      // the cross of the field empties it without a submission
      search: () => this.field.value === "" && this.apply(),
    });
    const submit = (event: Event): void => {
      event.preventDefault();
      this.apply();
    };
    this.element = h(
      "form",
      { class: "filter", hidden: true, submit },
      h("label", {}, "Rows where ", this.field),
      h("button", {}, "Filter"),
    );
  }

  /** Offer conditions on the rows of a node, or none. */
  show(node: Node | null): void {
    this.element.hidden = node === null;
    if (node === null) return;
    this.field.placeholder = example(node);
    if (document.activeElement !== this.field) this.field.value = this.context.model.state.query.where;
  }

  private apply(): void {
    const { model } = this.context;
    const where = this.field.value.trim();
    if (where === model.state.query.where) return;
    model.set({ query: { ...model.state.query, where }, row: 0 });
  }
}

/** Return a condition that fits the node. */
function example(node: Node): string {
  const members = node.kind === "table" ? node.listing.members : [];
  const numbers = members.filter(({ dtype }) => /^(u?int|float)/.test(dtype ?? "")).map(({ name }) => name);
  const name = node.kind === "table" ? (numbers.find((each) => /^[a-z_]\w*$/i.test(each)) ?? "column") : "value";
  return `${name} > 0 and ${name} < 10`;
}
