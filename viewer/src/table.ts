/** A table that draws the rows in sight and reads them block by block. */

import type { Context } from "./context.ts";
import { eachFrame, h, replace } from "./dom.ts";
import { grouped } from "./format.ts";
import { type Column, type Rows, cell, complexCell } from "./rows.ts";
import { ROW, blocksOf, heightOf, lastTop, scrolledTo, topOf } from "./scrolling.ts";

const BLOCK = 200;
const MOST_BLOCKS = 100;

export class TableView {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly spacer = h("div", { class: "spacer" });
  private readonly pane = h("div", { class: "pane" });
  private readonly head = h("div", { class: "head", role: "row" });
  private readonly body = h("div", { class: "body" });
  private readonly status = h("span", { class: "note", role: "status" });
  private readonly goto = h("input", { type: "number", min: 0, "aria-label": "Go to row", placeholder: "row" });
  private readonly blocks = new Map<number, unknown[][]>();
  private readonly asked = new Map<number, AbortController>();
  private readonly failed = new Map<number, string>();
  private rows: Rows | null = null;
  private path = "";
  private top = 0;
  private setting = false;
  private timer = 0;
  private readonly context: Context;
  private readonly redraw = eachFrame(() => this.draw());
  private labelOf: (row: number) => string = (row) => grouped(row);
  /** Called with a column whose statistics are asked for. */
  asking: (column: Column) => void = () => {};
  private readonly files = h("span", { class: "export" });

  constructor(context: Context) {
    this.context = context;
    this.pane.append(this.head, this.body);
    this.scroller = h("div", { class: "scroller", tabindex: 0, role: "table", "aria-label": "Rows" }, this.spacer);
    this.spacer.append(this.pane);
    const form = h(
      "form",
      { class: "goto", submit: (event: Event) => this.submitted(event) },
      h("label", {}, "Go to row ", this.goto),
      h("button", {}, "Go"),
    );
    this.element = h("div", { class: "table" }, this.scroller, h("footer", {}, form, this.files, this.status));
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.scroller.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    this.scroller.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.redraw()).observe(this.scroller);
  }

  /** Show rows, from one on. */
  show(
    path: string,
    rows: Rows | null,
    top = 0,
    labelOf: (row: number) => string = (row) => grouped(row),
    corner = "",
  ): void {
    for (const controller of this.asked.values()) controller.abort();
    this.asked.clear();
    this.blocks.clear();
    this.failed.clear();
    if (path !== this.path) this.scroller.scrollLeft = 0;
    this.rows = rows;
    this.path = path;
    delete this.element.dataset.state;
    this.labelOf = labelOf;
    if (rows === null) return;
    this.drawHead(rows, corner);
    const name = path.split("/").pop() || "rows";
    const link = (format: string): HTMLElement =>
      h("a", { class: "button", href: rows.file(format), download: `${name}.${format}` }, format);
    replace(this.files, "Rows as ", ...["csv", "json"].map(link));
    this.moveTo(top);
  }

  private get seen(): number {
    return Math.max(ROW, this.scroller.clientHeight - this.head.offsetHeight);
  }

  /** Say that rows are being looked for. */
  wait(): void {
    this.status.textContent = "…";
    this.element.dataset.state = "loading";
  }

  /** Bring a row to the top. */
  moveTo(top: number): void {
    const { rows } = this;
    if (rows === null) return;
    this.top = Math.min(lastTop(rows.total, this.seen), Math.max(0, top));
    this.redraw();
  }

  private submitted(event: Event): void {
    event.preventDefault();
    if (this.goto.value !== "") this.moveTo(Number(this.goto.value));
  }

  private scrolled(): void {
    if (this.rows === null) return;
    if (this.setting) {
      this.setting = false;
      return;
    }
    const top = topOf(this.scroller.scrollTop, this.rows.total, this.seen);
    // the scroll bar also moves when it is drawn where the row says
    if (Math.abs(scrolledTo(this.top, this.rows.total, this.seen) - this.scroller.scrollTop) > 1) this.top = top;
    this.redraw();
  }

  private wheeled(event: WheelEvent): void {
    if (this.rows === null || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * ROW : event.deltaY;
    this.moveTo(this.top + pixels / ROW);
  }

  private pressed(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.seen / ROW) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      " ": page,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    if (step === undefined || this.rows === null) return;
    event.preventDefault();
    this.moveTo(step === Infinity ? this.rows.total : step === -Infinity ? 0 : Math.round(this.top) + step);
  }

  /** Sort by a column: first upwards, then downwards, then no more. */
  private sort(name: string): void {
    const { model } = this.context;
    const { query } = model.state;
    const own = query.sort === name;
    const sort = own && query.descending ? "" : name;
    model.set({ query: { ...query, sort, descending: own && !query.descending }, row: 0 });
  }

  private sorter(column: Column): HTMLElement | null {
    const { sorts: name } = column;
    if (name === null) return null;
    const { sort, descending } = this.context.model.state.query;
    const order = sort !== name ? "none" : descending ? "descending" : "ascending";
    const picture = { none: "↕", ascending: "↑", descending: "↓" }[order];
    const label = `Sort by ${column.name}`;
    return h(
      "button",
      { class: "sort", "aria-label": label, title: label, "data-order": order, click: () => this.sort(name) },
      picture,
    );
  }

  private drawHead(rows: Rows, corner: string): void {
    const heads = rows.columns.map((column) => {
      const ask = column.path !== null && column.numeric;
      const small = rows.columns.some((other) => other.detail !== "");
      const name = ask
        ? h("button", { click: () => this.asking(column), title: `Statistics of ${column.name}` }, column.name)
        : h("span", {}, column.name);
      const sorter = this.sorter(column);
      return h(
        "div",
        {
          class: column.numeric ? "cell numeric" : "cell",
          role: "columnheader",
          "aria-sort": sorter?.dataset.order ?? null,
        },
        h("div", { class: "heading" }, name, sorter),
        small && h("small", {}, column.detail),
      );
    });
    replace(this.head, h("div", { class: "cell row", role: "columnheader", title: corner || null }, corner), ...heads);
    const widths = rows.columns.map((column) => (column.numeric ? "minmax(7.5rem, 1fr)" : "minmax(11rem, 2fr)"));
    this.pane.style.setProperty("--columns", `7.5rem ${widths.join(" ")}`);
  }

  private draw(): void {
    const { rows, seen } = this;
    if (rows === null || this.scroller.clientHeight === 0) return;
    this.top = Math.min(lastTop(rows.total, seen), this.top);
    this.spacer.style.height = `${heightOf(rows.total, seen) + this.head.offsetHeight}px`;
    const wanted = scrolledTo(this.top, rows.total, seen);
    if (Math.abs(this.scroller.scrollTop - wanted) > 1) {
      this.setting = true;
      this.scroller.scrollTop = wanted;
    }
    this.load(rows);
    const first = Math.floor(this.top);
    const stop = Math.min(rows.total, Math.ceil(this.top + seen / ROW) + 1);
    const lines = Array.from({ length: Math.max(0, stop - first) }, (_, at) => this.line(rows, first + at));
    replace(this.body, ...lines);
    this.body.style.transform = `translateY(${-(this.top - first) * ROW}px)`;
    const last = Math.min(rows.total - 1, Math.floor(this.top + seen / ROW - 0.5));
    this.status.textContent =
      rows.total === 0
        ? `no rows${rows.note}`
        : `rows ${grouped(first)}–${grouped(Math.max(first, last))} of ${grouped(rows.total)}${rows.note}`;
    Object.assign(this.element.dataset, {
      path: this.path,
      first,
      total: rows.total,
      state: this.asked.size > 0 ? "loading" : "ready",
    });
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.remember(), 200);
  }

  private line(rows: Rows, row: number): HTMLElement {
    const block = Math.floor(row / BLOCK);
    const cells = this.blocks.get(block)?.[row - block * BLOCK];
    const failed = this.failed.get(block);
    const shown = rows.columns.map((column, at) => {
      const value = cells?.[at];
      const written = (column.complex ? complexCell(value) : null) ?? cell(value);
      const text = cells === undefined ? (failed === undefined ? "·" : at === 0 ? failed : "") : written;
      const kind = `cell${column.numeric ? " numeric" : ""}${failed !== undefined ? " failed" : cells === undefined ? " waiting" : ""}`;
      return h(
        "div",
        {
          class: text === "NaN" || text === "NaT" ? `${kind} missing` : kind,
          role: "cell",
          title: (column.complex ? complexCell(value, true) : null) ?? (text.length > 18 ? text : null),
        },
        text,
      );
    });
    return h(
      "div",
      { class: row % 2 ? "line odd" : "line", role: "row" },
      h("div", { class: "cell row", role: "rowheader" }, this.labelOf(row)),
      ...shown,
    );
  }

  private load(rows: Rows): void {
    const wanted = blocksOf(this.top, this.seen, rows.total, BLOCK);
    for (const [block, controller] of this.asked) {
      if (!wanted.includes(block)) {
        controller.abort();
        this.asked.delete(block);
      }
    }
    for (const block of wanted) {
      if (!this.blocks.has(block) && !this.asked.has(block) && !this.failed.has(block)) void this.read(rows, block);
    }
  }

  private async read(rows: Rows, block: number): Promise<void> {
    const controller = new AbortController();
    this.asked.set(block, controller);
    try {
      const found = await rows.read(block * BLOCK, Math.min(rows.total, (block + 1) * BLOCK), controller.signal);
      if (controller.signal.aborted) return;
      this.blocks.set(block, found);
      for (const old of this.blocks.keys()) {
        if (this.blocks.size <= MOST_BLOCKS) break;
        this.blocks.delete(old);
      }
    } catch (error) {
      if (controller.signal.aborted) return;
      this.failed.set(block, error instanceof Error ? error.message : String(error));
    }
    this.asked.delete(block);
    this.redraw();
  }

  /** Put the row at the top into the state, which links restore. */
  private remember(): void {
    const { model } = this.context;
    const row = Math.floor(this.top);
    if (this.rows !== null && this.path === model.state.path && model.state.row !== row) model.set({ row });
  }
}
