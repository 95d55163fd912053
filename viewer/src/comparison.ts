/** Another array of the same shape beside an image, with the same view and sliders, and the difference of both. */

import type { Context } from "./context.ts";
import { DifferenceView } from "./difference.ts";
import { h, replace } from "./dom.ts";
import { type Figure, abreast, nameOf } from "./figure.ts";
import { number } from "./format.ts";
import { ImageView } from "./image.ts";
import { type Source, nameAxes, openSource } from "./source.ts";

export class Comparison {
  readonly element: HTMLElement;
  readonly image: ImageView;
  readonly beside: ImageView;
  readonly difference: DifferenceView;
  /** The array that is shown beside, if there is one of the same shape. */
  other: Source | null = null;
  private readonly captions = [0, 1, 2].map(() => h("h3", {}));
  private readonly panes: HTMLElement[];
  private readonly context: Context;
  private source: Source | null = null;
  private asked = "";
  /** Called with what is wrong with the array that was named, "" if nothing is. */
  said: (failure: string) => void = () => {};

  constructor(context: Context, image: ImageView) {
    this.context = context;
    this.image = image;
    this.beside = new ImageView(context, "beside", image.frame);
    this.difference = new DifferenceView(context, image, this.beside);
    this.beside.limitsOf = () => (this.isComparable ? (image.present?.limits ?? null) : null);
    this.beside.painted = () => this.difference.redraw();
    this.difference.painted = () => this.caption();
    const views = [image.element, this.beside.element, this.difference.element];
    this.panes = views.map((view, at) => h("div", { class: "view" }, this.captions[at]!, view));
    this.element = h("div", { class: "views" }, ...this.panes);
  }

  /** Whether both arrays hold the same quantity, so that the same colours can stand for the same values. */
  private get isComparable(): boolean {
    const [one, other] = [this.source, this.other].map((source) => source?.meaning(false).units);
    return one !== undefined && one === other;
  }

  /** Draw again what depends on the first image. */
  follow(): void {
    if (this.other === null) return;
    this.beside.repaint();
    this.difference.redraw();
  }

  /** Show what the state names beside a source. */
  show(source: Source | null): void {
    const { other, part } = this.context.model.state;
    const key = source === null || other === null ? "" : `${source.node.path}\n${other}\n${part}`;
    if (key !== this.asked || source !== this.source) {
      this.asked = key;
      this.source = source;
      this.other = null;
      this.said("");
      if (key !== "") void this.open(source!, other!, key);
    }
    this.arrange();
  }

  private async open(source: Source, path: string, key: string): Promise<void> {
    const { server, nodes } = this.context;
    const found = await nodes
      .read(path)
      .then((node) => openSource(server, nodes, node, this.context.model.state.part))
      .catch((error: Error) => error);
    if (this.asked !== key || this.source !== source) return;
    if (found instanceof Error || found === null) {
      this.said(found?.message ?? `${path} has no numbers`);
      return;
    }
    if (found.shape.join() !== source.shape.join()) {
      this.said(`${path} has another shape: ${found.shape.join(" × ")}`);
      return;
    }
    this.other = found;
    nameAxes(server, nodes, found, () => this.beside.redraw());
    this.arrange();
    this.image.redraw();
  }

  private arrange(): void {
    const { other } = this;
    const subtracts = other !== null && this.context.model.state.difference;
    this.panes[1]!.hidden = other === null;
    this.panes[2]!.hidden = !subtracts;
    this.captions[0]!.hidden = other === null;
    this.element.dataset.views = String(subtracts ? 3 : other === null ? 1 : 2);
    this.beside.show(other);
    this.difference.show(subtracts ? this.source : null);
    this.caption();
  }

  private caption(): void {
    if (this.other === null) return;
    const [one, other] = this.names();
    const size = number(this.difference.limits.high, 3);
    const texts = [one, other, `${one} − ${other}, ±${size}`];
    this.captions.forEach((caption, at) => replace(caption, texts[at]));
  }

  /** Return names that tell both arrays apart: their own or, if these are the same, their paths. */
  names(of: (source: Source) => string = ({ node }) => node.path.split("/").pop() || "/"): string[] {
    const both = [this.source!, this.other!];
    const [one, other] = both.map(of);
    return one === other ? both.map(({ node }) => node.path || "/") : [one!, other!];
  }

  /** Draw what is shown as one figure. */
  figure(): Figure | null {
    if (this.other === null) return this.image.figure();
    const [one, other] = this.names(nameOf);
    const figures = [this.image.figure(one), this.beside.figure(other)];
    if (this.context.model.state.difference) figures.push(this.difference.figure(`${one} − ${other}`));
    return abreast(figures.filter((figure) => figure !== null));
  }
}
