/** Statistics of a selection, which the server works out. */

import type { Context } from "./context.ts";
import { h, replace } from "./dom.ts";
import { grouped, number, ungrouped } from "./format.ts";
import { HistogramView } from "./histograms.ts";
import { escaped } from "./server.ts";

interface Found {
  readonly [name: string]: unknown;
  readonly histogram?: { readonly counts: readonly number[]; readonly edges: readonly (number | string)[] } | null;
}

const SAMPLE = 10_000_000;

export class StatisticsView {
  readonly element = h("section", { class: "statistics", "aria-label": "Statistics", hidden: true });
  private readonly context: Context;
  private asking: AbortController | null = null;

  constructor(context: Context) {
    this.context = context;
  }

  /** Hide what is shown. */
  clear(): void {
    this.asking?.abort();
    this.element.hidden = true;
  }

  /** Show the statistics of a part of an array, or of its first elements if all of them are too many. */
  async show(path: string, title: string, part: Readonly<Record<string, string>>): Promise<void> {
    this.asking?.abort();
    const controller = new AbortController();
    this.asking = controller;
    this.element.hidden = false;
    const heading = h("h3", {}, title);
    replace(this.element, heading, h("p", { class: "note" }, "…"));
    const ask = (query: Readonly<Record<string, string>>): Promise<Found> =>
      this.context.server.elements<Found>(`-/stats/${escaped(path)}`, { ...query }, controller.signal);
    try {
      const found = await ask(part).catch((error: Error) => {
        if (part.selection !== "" || controller.signal.aborted) throw error;
        return ask({ selection: `0:${SAMPLE}` });
      });
      const note = noteOf(found, part.selection ?? "");
      replace(this.element, heading, note && h("p", { class: "note" }, note), facts(found), counts(found));
    } catch (error) {
      if (!controller.signal.aborted)
        replace(this.element, heading, h("p", { class: "failed" }, (error as Error).message));
    }
  }
}

/** Say of which elements they are, if not of all that were asked for; of rows that match, how many these are. */
function noteOf({ selection, matching, searched, length }: Found, wanted: string): string | null {
  if (typeof matching === "number" && typeof searched === "number" && typeof length === "number") {
    const whole = searched < length ? `the first ${grouped(searched)} of ${grouped(length)}` : grouped(length);
    return `of the ${grouped(matching)} rows that match, of ${whole}`;
  }
  return selection === wanted ? null : `of the first ${grouped(SAMPLE)} elements`;
}

function facts(found: Found): HTMLElement {
  const names = ["count", "missing", "min", "max", "mean", "std", "unique"];
  const rows = names.filter((name) => found[name] !== undefined && found[name] !== null);
  const text = (value: unknown): string =>
    typeof value !== "number" ? String(value) : Number.isSafeInteger(value) ? grouped(value) : number(value);
  return h("dl", {}, ...rows.flatMap((name) => [h("dt", {}, name), h("dd", {}, text(found[name]))]));
}

/** Write an end of the histogram: a number, a date without its clock, or a duration. */
function name(end: number | string): string {
  const value = ungrouped(end);
  return Number.isNaN(value) ? String(end).split("T")[0]! : number(value, 4);
}

function counts(found: Found): SVGElement | null {
  const { histogram } = found;
  if (!histogram || !Array.isArray(histogram.counts) || !Array.isArray(histogram.edges) || histogram.edges.length < 2)
    return null;
  const view = new HistogramView();
  const ends = [histogram.edges[0]!, histogram.edges[histogram.edges.length - 1]!] as const;
  view.show({ low: 0, high: 1, counts: histogram.counts }, { low: NaN, high: NaN }, [name(ends[0]), name(ends[1])]);
  return view.element;
}
