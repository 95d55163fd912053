/** The tab with values: rows of tables, and planes of arrays. */

import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import { Filter } from "./filter.ts";
import { storedAs } from "./cf.ts";
import { grouped } from "./format.ts";
import { type Node, shapeOf } from "./nodes.ts";
import { type Column, MOST_COLUMNS, planeRows, scalarValue, tableRows } from "./rows.ts";
import type { Source } from "./source.ts";
import { StatisticsView } from "./statistics.ts";
import { TableView } from "./table.ts";
import { label } from "./ticks.ts";

export class ValuesTab {
  readonly element: HTMLElement;
  readonly table: TableView;
  private readonly statistics: StatisticsView;
  private readonly failed = h("p", { class: "failed", hidden: true });
  private readonly scalar = h("output", { class: "scalar", hidden: true });
  private readonly pager: HTMLElement;
  private readonly filter: Filter;
  private readonly columns = h("span", {});
  private readonly stored = h("p", { class: "note stored", hidden: true });
  private readonly context: Context;
  private most = 0;
  private shown = "";
  private node: Node | null = null;
  /** The column whose statistics are shown, and the condition on the rows that they are of. */
  private measured: { readonly column: Column; readonly where: string } | null = null;

  constructor(context: Context) {
    this.context = context;
    this.table = new TableView(context);
    this.statistics = new StatisticsView(context);
    this.filter = new Filter(context);
    this.table.asking = (column) => this.measure(column);
    const turn = (by: number) => (): void => {
      this.context.model.set({ column: Math.max(0, Math.min(this.most - 1, this.firstColumn + by * MOST_COLUMNS)) });
    };
    this.pager = h(
      "div",
      { class: "pager" },
      h("button", { click: turn(-1), "aria-label": "Columns before" }, "‹"),
      this.columns,
      h("button", { click: turn(1), "aria-label": "Columns after" }, "›"),
    );
    this.element = h(
      "div",
      { class: "values-tab" },
      h(
        "div",
        { class: "values" },
        this.filter.element,
        this.failed,
        this.stored,
        this.scalar,
        this.pager,
        this.table.element,
      ),
      this.statistics.element,
    );
  }

  private get firstColumn(): number {
    return this.context.model.state.column;
  }

  /** Show a node, or nothing; `source` names its axes, if it has numbers. */
  show(node: Node | null, source: Source | null): void {
    if (node?.path !== this.node?.path) {
      this.failed.hidden = this.pager.hidden = true;
      this.statistics.clear();
      this.measured = null;
    }
    this.node = node;
    if (this.measured !== null && this.measured.where !== this.where) this.measure(this.measured.column);
    const { axes, index, query } = this.context.model.state;
    const others = index.filter((_, axis) => axes === null || !axes.includes(axis));
    const key =
      node === null
        ? ""
        : [
            node.path,
            axes,
            others,
            this.firstColumn,
            JSON.stringify(query),
            source?.coordinates.map((of) => of.values !== null || of.labels !== null).join(),
          ].join("|");
    if (key === this.shown) return;
    this.shown = key;
    if (node === null) {
      this.table.show("", null);
      return;
    }
    void this.fill(node, source, key);
  }

  private get where(): string {
    return this.context.model.state.query.where;
  }

  /** Show statistics of a column, of the rows that the filter leaves. */
  private measure(column: Column): void {
    const { where, node } = this;
    this.measured = { column, where };
    const path = where === "" ? column.path! : node!.path;
    const part = where === "" ? { selection: "" } : { where, column: column.name };
    void this.statistics.show(path, column.name, part);
  }

  private async fill(node: Node, source: Source | null, key: string): Promise<void> {
    const { axes, index, row, query } = this.context.model.state;
    const rank = shapeOf(node).length;
    const plane = node.kind === "array" && rank !== 1;
    const { conventions } = node.listing;
    this.stored.textContent = node.kind === "array" && conventions ? storedAs(conventions) : "";
    this.stored.hidden = this.stored.textContent === "";
    this.filter.show(plane ? null : node);
    this.scalar.hidden = node.kind !== "array" || rank !== 0;
    this.table.element.hidden = !this.scalar.hidden;
    if (!this.scalar.hidden) {
      this.scalar.textContent = "";
      const found = await scalarValue(this.context.server, node).catch((error: Error) => error);
      if (this.shown === key) this.scalar.textContent = found instanceof Error ? found.message : found;
      return;
    }
    this.table.wait();
    const chosen = axes ?? ([Math.max(0, rank - 2), Math.max(0, rank - 1)] as const);
    try {
      const rows = plane
        ? planeRows(this.context.server, node, chosen, index, this.firstColumn, labelsOf(source, chosen[1]))
        : await tableRows(this.context.server, node, this.firstColumn, query);
      if (this.shown !== key) return;
      this.most = plane ? (shapeOf(node)[chosen[1]] ?? 1) : (node.listing.columns?.length ?? rows.columns.length);
      this.pager.hidden = this.most <= MOST_COLUMNS;
      this.columns.textContent = `columns ${grouped(this.firstColumn)}–${grouped(Math.min(this.most, this.firstColumn + MOST_COLUMNS) - 1)} of ${grouped(this.most)}`;
      const name = (node.kind === "array" ? labelsOf(source, plane ? chosen[0] : 0) : undefined) ?? grouped;
      const numbered = (at: number): string => {
        const number = rows.numberOf!(at);
        return number === undefined ? "·" : name(number);
      };
      this.table.show(
        node.path,
        rows,
        row,
        rows.numberOf === null ? name : numbered,
        plane ? corner(source, chosen) : "",
      );
      this.failed.hidden = true;
    } catch (error) {
      if (this.shown !== key) return;
      this.table.show("", null);
      this.failed.hidden = false;
      this.failed.textContent = (error as Error).message;
    }
  }
}

/** Return what names the elements along an axis: its coordinates, if there are any. */
function labelsOf(source: Source | null, axis: number): ((at: number) => string) | undefined {
  const of = source?.coordinates[axis];
  return of === undefined || (of.values === null && of.labels === null) ? undefined : (at) => label(of, at);
}

/** Name the axes that the heads of a plane's rows and columns belong to. */
function corner(source: Source | null, [down, across]: readonly [number, number]): string {
  const names = [down, across].map((axis) => source?.coordinates[axis]?.name ?? "");
  return names.every((name) => name !== "") ? names.join(" \\ ") : "";
}
