/** Downloads and statistics of what is drawn, and the link to neuroglancer. */

import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { fileLink, savePicture, selection } from "./downloads.ts";
import type { ImageView } from "./image.ts";
import type { LineView } from "./line.ts";
import type { Source } from "./source.ts";
import { StatisticsView } from "./statistics.ts";
import type { Tab } from "./state.ts";

export class FilesPanel {
  readonly element = h("section", { class: "files", "aria-label": "Download" });
  readonly statistics: StatisticsView;
  private readonly context: Context;
  private readonly image: ImageView;
  private readonly line: LineView;
  private source: Source | null = null;
  private tab: Tab | null = null;
  private key = "";

  constructor(context: Context, image: ImageView, line: LineView) {
    this.context = context;
    this.image = image;
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
    this.build(source, tab === "image");
    if (source.shape.length >= 3 && source.node.listing.neuroglancer) this.offerNeuroglancer(source.node.path);
  }

  private build(source: Source, drawn: boolean): void {
    this.statistics.clear();
    const name = source.node.path.split("/").pop() ?? "";
    const picture = h("button", { click: () => savePicture(this.image.canvas, name) }, "png");
    const links = ["npy", "csv"].map((format) => {
      const link = fileLink(this.context, this.path, "", format);
      // what is shown changes until the moment of the click
      const aim = (): string => (link.href = fileLink(this.context, this.path, this.selection(), format).href);
      link.addEventListener("pointerdown", aim);
      link.addEventListener("click", aim);
      return link;
    });
    const title = h("span", {}, "Download what is shown");
    const measure = h("button", { click: () => this.measure() }, "Statistics of what is shown");
    replace(this.element, h("div", { class: "line-of" }, title, ...links, drawn && picture), measure);
  }

  private measure(): void {
    void this.statistics.show(this.path, "Statistics of what is shown", this.selection());
  }

  /** Offer neuroglancer for a volume. */
  private offerNeuroglancer(path: string): void {
    const url = this.context.server.url("-/neuroglancer/open", { path }, true);
    const options = { class: "button", href: url, target: "_blank", rel: "noopener" };
    this.element.append(h("a", options, "Open in neuroglancer"));
  }

  /** The path of the array that is drawn: of a pyramid, that of the level. */
  private get path(): string {
    const level = this.tab === "image" ? (this.image.present?.level ?? 0) : 0;
    return this.source!.levels[level]!.array.path;
  }

  /** Return the selection that is shown, of the array that is drawn. */
  private selection(): string {
    const { index } = this.context.model.state;
    const source = this.source!;
    if (this.tab === "image") {
      return this.image.present === null ? "" : selection(this.image.present, source, this.image.axes, index);
    }
    const { axis, first, stop } = this.line.range;
    return source.shape.map((_, at) => (at === axis ? `${first}:${stop}` : String(index[at] ?? 0))).join(",");
  }
}
