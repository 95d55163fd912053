/** Downloads and statistics of what is drawn, and the link to neuroglancer. */

import type { Comparison } from "./comparison.ts";
import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { showCode } from "./codewindow.ts";
import { isInDataset } from "./datasets.ts";
import { isComplex } from "./documents.ts";
import { type Asked, type Shown, asked, fileLink, shownOf } from "./downloads.ts";
import type { LineView } from "./line.ts";
import { type Reading, program } from "./program.ts";
import { saveFigure } from "./saving.ts";
import type { Source } from "./source.ts";
import { StatisticsView } from "./statistics.ts";
import type { Tab } from "./state.ts";

export class FilesPanel {
  readonly element = h("section", { class: "files", "aria-label": "Download" });
  readonly statistics: StatisticsView;
  private readonly context: Context;
  private readonly comparison: Comparison;
  private readonly line: LineView;
  private source: Source | null = null;
  private tab: Tab | null = null;
  private key = "";

  constructor(context: Context, comparison: Comparison, line: LineView) {
    this.context = context;
    this.comparison = comparison;
    this.line = line;
    this.statistics = new StatisticsView(context);
  }

  /** Offer what can be done with a source on a tab. */
  show(source: Source | null, tab: Tab | null): void {
    const drawing = source !== null && (tab === "image" || tab === "line");
    this.element.hidden = !drawing;
    if (!drawing) {
      this.statistics.clear();
      this.key = "";
      return;
    }
    [this.source, this.tab] = [source, tab];
    const key = `${source.node.path} ${tab}`;
    if (this.key === key) return;
    this.key = key;
    this.build(source);
    if (source.shape.length >= 3 && source.node.listing.neuroglancer) this.offerNeuroglancer(source.node.path);
  }

  private build(source: Source): void {
    this.statistics.clear();
    const name = source.node.path.split("/").pop() || "values";
    const links = ["npy", "csv"].map((format) => {
      const link = fileLink(this.context, this.path, { selection: "" }, format);
      // what is shown changes until the moment of the click
      const aim = (): string => (link.href = fileLink(this.context, this.path, this.asked(), format).href);
      link.addEventListener("pointerdown", aim);
      link.addEventListener("click", aim);
      return link;
    });
    const draw = (format: "svg" | "png"): void => {
      const figure = this.tab === "image" ? this.comparison.figure() : this.line.figure();
      if (figure !== null) void saveFigure(figure, name, format);
    };
    const figures = (["png", "svg"] as const).map((format) => h("button", { click: () => draw(format) }, format));
    const title = h("span", {}, "Download what is shown");
    const code = h("button", { click: () => void this.program() }, "Code in Python");
    const measure = h("button", { click: () => this.measure() }, "Statistics of what is shown");
    replace(this.element, h("div", { class: "line-of" }, title, ...links, ...figures), code, measure);
  }

  /** Show programs that read what is shown. */
  private async program(): Promise<void> {
    const { other } = this.comparison;
    const one = await this.reading(this.source!);
    const subtracts = this.tab === "image" && this.context.model.state.difference && other !== null;
    const two = subtracts ? await this.reading(other) : null;
    showCode((library) => program(library, one, two));
  }

  private async reading(source: Source): Promise<Reading> {
    const { nodes, model } = this.context;
    const [down, across] = model.state.axes ?? [0, 1];
    const listing = await nodes.listing(source.levels[this.level]!.array.path);
    return {
      listing,
      shown: this.shown(source),
      fill: (model.state.fill ?? source.marksMissing) ? (source.fill ?? null) : null,
      part: source.node.document !== null && isComplex(source.node.document) ? model.state.part : null,
      swapped: this.tab === "image" && across < down,
      inDataset: await isInDataset(nodes, listing),
    };
  }

  private measure(): void {
    void this.statistics.show(this.path, "Statistics of what is shown", this.asked());
  }

  /** Offer neuroglancer for a volume. */
  private offerNeuroglancer(path: string): void {
    const url = this.context.server.url("-/neuroglancer/open", { path }, true);
    const options = { class: "button", href: url, target: "_blank", rel: "noopener" };
    this.element.append(h("a", options, "Open in neuroglancer"));
  }

  /** The level of a pyramid that is drawn. */
  private get level(): number {
    return this.tab === "image" ? (this.comparison.image.present?.level ?? 0) : 0;
  }

  /** The path of the array that is drawn: of a pyramid, that of the level. */
  private get path(): string {
    return this.source!.levels[this.level]!.array.path;
  }

  private shown(source: Source): Shown {
    const { index, axes } = this.context.model.state;
    const { present } = this.comparison.image;
    if (this.tab === "image" && present !== null) return shownOf(present, source, axes ?? [0, 1], index);
    const { axis, first, stop } = this.line.range;
    const parts = source.shape.map((_, at) => (at === axis ? `${first}:${stop}` : String(index[at] ?? 0)));
    return { parts, through: null, channels: null };
  }

  /** Return what is shown of the array that is drawn; of complex numbers the server compares none. */
  private asked(): Asked {
    const { document } = this.source!.node;
    const shown = this.shown(this.source!);
    return asked(document !== null && isComplex(document) ? { ...shown, through: null } : shown);
  }
}
