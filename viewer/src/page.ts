/** The page: its parts, and what they show of the state. */

import { about } from "./about.ts";
import { ColourPanel } from "./colourpanel.ts";
import { ComparePanel } from "./comparepanel.ts";
import type { Context } from "./context.ts";
import { title, unitText } from "./axes.ts";
import { h, replace } from "./dom.ts";
import { FilesPanel } from "./filespanel.ts";
import { counted, shape } from "./format.ts";
import { ImageTab } from "./imagetab.ts";
import { isComposite } from "./layers.ts";
import { LineView } from "./line.ts";
import { listen as listenLine } from "./linegestures.ts";
import { kindOf, type Node, shapeOf, tabs } from "./nodes.ts";
import { PartPanel } from "./partpanel.ts";
import { ProgressView } from "./progress.ts";
import { Sliders, type Sliding } from "./sliders.ts";
import { type Source, nameAxes, openSource } from "./source.ts";
import type { State, Tab } from "./state.ts";
import { positions } from "./ticks.ts";
import { TreeView } from "./tree.ts";
import { ValuesTab } from "./valuestab.ts";

const TITLES: Record<Tab, string> = { image: "Image", line: "Line", values: "Values", about: "About" };

export class Page {
  readonly tree: TreeView;
  readonly images: ImageTab;
  readonly sliders: Sliders;
  readonly colours: ColourPanel;
  private readonly parts: PartPanel;
  private readonly line: LineView;
  private readonly readout = h("output", { class: "readout" });
  private readonly lineTab: HTMLElement;
  private readonly values: ValuesTab;
  private readonly aboutTab = h("div", { class: "about-tab", tabindex: 0 });
  private readonly bar = h("div", { class: "tabs", role: "tablist" });
  private readonly crumbs = h("h1", {});
  private readonly summary = h("p", { class: "summary" });
  private readonly message = h("div", { class: "failure", role: "alert", hidden: true });
  private readonly panels = h("div", { class: "panels" });
  private readonly files: FilesPanel;
  private readonly compare: ComparePanel;
  private readonly side: HTMLElement;
  private readonly progress: ProgressView;
  private node: Node | null = null;
  private source: Source | null = null;
  private loading: AbortController | null = null;
  private readonly context: Context;

  constructor(context: Context, root: HTMLElement, buttons: readonly HTMLElement[]) {
    this.context = context;
    this.tree = new TreeView(context);
    this.images = new ImageTab(context);
    this.sliders = new Sliders(context);
    this.parts = new PartPanel(context);
    this.colours = new ColourPanel(context, this.images.image);
    this.values = new ValuesTab(context);
    this.compare = new ComparePanel(context, this.images.comparison);
    this.progress = new ProgressView(context, ["image", "beside", "through", "line"]);
    this.line = new LineView(context, "line");
    this.files = new FilesPanel(context, this.images.comparison, this.line);
    this.line.pointed = (at) => (this.readout.textContent = at === null ? "" : this.line.describe(at));
    listenLine(context, this.line);
    this.lineTab = h("div", { class: "line-tab" }, this.line.element, this.readout);
    this.images.image.painted = (drawn) => {
      this.colours.update(drawn);
      this.images.sayLevel();
      this.images.comparison.follow();
    };
    this.sliders.isReady = () => this.progress.isReady;
    context.loader.changed = () => this.progress.update();
    context.model.listen((state, before) => this.changed(state, before));
    this.side = h(
      "aside",
      { class: "side", "aria-label": "Controls" },
      this.parts.element,
      this.sliders.element,
      this.colours.element,
      this.compare.element,
      this.files.element,
      this.files.statistics.element,
    );
    this.panels.append(this.images.element, this.lineTab, this.values.element, this.aboutTab, this.message);
    const head = h(
      "header",
      { class: "top" },
      h("div", { class: "title" }, this.crumbs, this.summary),
      this.progress.element,
      ...buttons,
    );
    const main = h("main", {}, this.bar, h("div", { class: "work" }, this.panels, this.side));
    root.append(
      h(
        "aside",
        { class: "left" },
        h("div", { class: "brand" }, h("span", { class: "logo", "aria-hidden": "true" }), "tegula"),
        this.tree.element,
      ),
      h("div", { class: "right" }, head, main),
    );
    void this.load();
  }

  private changed(state: State, before: State): void {
    if (state.path !== before.path || state.part !== before.part) void this.load();
    else if (this.node === null || !this.settle(this.node, this.source)) this.render();
  }

  /** Read the node that the state names. */
  private async load(): Promise<void> {
    this.loading?.abort();
    const controller = new AbortController();
    this.loading = controller;
    const { path, part } = this.context.model.state;
    [this.node, this.source] = [null, null];
    this.render();
    this.head(path);
    try {
      const node = await this.context.nodes.read(path, controller.signal);
      const draws = tabs(node).some((tab) => tab === "image" || tab === "line");
      const source = draws ? await openSource(this.context.server, this.context.nodes, node, part) : null;
      if (controller.signal.aborted) return;
      [this.node, this.source] = [node, source];
      if (!this.settle(node, source)) this.render();
      if (source !== null)
        nameAxes(this.context.server, this.context.nodes, source, () => this.source === source && this.render());
    } catch (error) {
      if (controller.signal.aborted) return;
      this.message.hidden = false;
      replace(
        this.message,
        h("p", {}, (error as Error).message),
        h("button", { click: () => void this.load() }, "Try again"),
      );
    }
    void this.tree.reveal(path);
  }

  /** Complete the state for a node with axes and indices that it has; returns whether something was missing. */
  private settle(node: Node, source: Source | null): boolean {
    const lengths = source?.shape ?? shapeOf(node);
    const rank = lengths.length;
    const { axes, index } = this.context.model.state;
    const fits = rank < 2 ? axes === null : axes !== null && axes.every((axis) => axis < rank);
    const inside = index.length === rank && index.every((at, axis) => at === 0 || at < lengths[axis]!);
    if (fits && inside) return false;
    this.context.model.set({
      axes: fits ? axes : rank < 2 ? null : [rank - 2, rank - 1],
      index: lengths.map((length, axis) => Math.max(0, Math.min(length - 1, index[axis] ?? 0))),
    });
    return true;
  }

  /** Return the tab that is shown. */
  tab(): Tab | null {
    if (this.node === null) return null;
    const possible = tabs(this.node);
    return possible.find((tab) => tab === this.context.model.state.tab) ?? possible[0]!;
  }

  /** Show a tab by its number. */
  choose(at: number): void {
    const tab = this.node === null ? undefined : tabs(this.node)[at];
    if (tab !== undefined) this.context.model.set({ tab, view: null });
  }

  /** Draw again what depends on light and dark. */
  redraw(): void {
    this.render();
  }

  private render(): void {
    const { node, source } = this;
    const tab = this.tab();
    this.message.hidden = true;
    this.images.element.hidden = tab !== "image";
    this.lineTab.hidden = tab !== "line";
    this.values.element.hidden = tab !== "values";
    this.aboutTab.hidden = tab !== "about";
    this.renderTabs(node, tab);
    const { axes } = this.context.model.state;
    const along = this.along();
    this.images.show(tab === "image" ? source : null);
    this.line.show(tab === "line" ? source : null, along);
    this.values.show(tab === "values" ? node : null, source);
    const shown = tab === "line" ? [along] : (axes ?? []);
    const sliding = tab === "values" ? (source ?? plainAxes(node)) : tab === "about" ? null : source;
    this.side.hidden = sliding === null || (tab === "values" && sliding.shape.length < 2);
    const { state } = this.context.model;
    const together = tab === "image" && source !== null && isComposite(source, state) ? source.channels!.axis : null;
    this.sliders.show(sliding, shown, together, tab === "image");
    this.colours.element.hidden = tab !== "image";
    this.colours.show(source);
    this.compare.show(tab === "image" ? source : null);
    this.parts.show(tab === "image" || tab === "line" ? node : null);
    if (node !== null) this.head(node.path, node);
    if (tab === "about" && node !== null && this.aboutTab.dataset.path !== node.path) {
      this.aboutTab.dataset.path = node.path;
      void this.renderAbout(node);
    }
    this.files.show(source, tab);
    document.body.dataset.tab = tab ?? "";
  }

  private async renderAbout(node: Node): Promise<void> {
    replace(this.aboutTab, h("p", { class: "note" }, "…"));
    const found = await this.context.nodes.info(node.path).catch((error: Error) => error);
    if (this.node !== node) return;
    replace(this.aboutTab, found instanceof Error ? h("p", { class: "failed" }, found.message) : about(node, found));
  }

  private along(): number {
    const { along } = this.context.model.state;
    const rank = this.source?.shape.length ?? 1;
    return along !== null && along < rank ? along : rank - 1;
  }

  private renderTabs(node: Node | null, shown: Tab | null): void {
    const possible = node === null ? [] : tabs(node);
    const key = `${node?.path} ${possible.join()} ${shown}`;
    if (this.bar.dataset.key === key) return;
    this.bar.dataset.key = key;
    const button = (tab: Tab, at: number): HTMLElement =>
      h(
        "button",
        { role: "tab", "aria-selected": tab === shown ? "true" : "false", click: () => this.choose(at) },
        TITLES[tab],
      );
    replace(this.bar, ...possible.map(button));
  }

  private head(path: string, node?: Node): void {
    const key = `${path} ${node?.kind}`;
    if (this.crumbs.dataset.key === key) return;
    this.crumbs.dataset.key = key;
    const parts = path === "" ? [] : path.split("/");
    const link = (name: string, count: number): HTMLElement =>
      h("a", { href: `#/${parts.slice(0, count).map(encodeURIComponent).join("/")}` }, name);
    const links = parts.flatMap((part, at) => [
      h("span", { class: "slash", "aria-hidden": "true" }, "/"),
      link(part, at + 1),
    ]);
    const home = link("/", 0);
    home.setAttribute("aria-label", "Root");
    replace(this.crumbs, home, ...links.slice(1));
    if (parts.length === 0) void this.context.nodes.rootName().then((name) => (home.textContent = name));
    const named = [path, node?.listing.conventions?.title].filter(Boolean).join(" · ");
    void this.context.nodes.rootName().then((name) => {
      if (this.crumbs.dataset.key === key)
        document.title = [named, name === "/" ? "tegula" : name].filter(Boolean).join(" – ");
    });
    this.summary.textContent = node === undefined ? "…" : summary(node);
  }
}

/** Return the axes of an array whose elements are no numbers. */
function plainAxes(node: Node | null): Sliding | null {
  if (node === null || node.kind !== "array") return null;
  const lengths = shapeOf(node);
  const names = node.listing.dimension_names ?? [];
  return { node, shape: lengths, coordinates: lengths.map((_, axis) => positions(names[axis] || `axis ${axis}`)) };
}

function summary(node: Node): string {
  const { listing } = node;
  if (node.kind === "array") {
    const { title: name = "", units: unit = "", dates = false } = listing.conventions ?? {};
    const units = dates ? "" : unit;
    const what = name === "" ? unitText(units) : title({ name, units });
    return `${what === "" ? "" : `${what} · `}${shape(shapeOf(node))} · ${listing.dtype ?? ""} · ${listing.format ?? ""}`;
  }
  const count =
    node.kind === "table"
      ? counted(listing.rows ?? 0, "row")
      : `${counted(listing.members.length, "member")}${listing.truncated ? " and more" : ""}`;
  const kind =
    node.pyramid !== null ? `image pyramid of ${counted(node.pyramid.levels.length, "level")}` : kindOf(listing);
  return [kind, count, listing.format].filter(Boolean).join(" · ");
}
