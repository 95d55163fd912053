/** All that is known of a node: its facts, chunk grid, codecs, attributes and members. */

import { chunkGrid } from "./chunkgrid.ts";
import { h } from "./dom.ts";
import type { Codec } from "./documents.ts";
import { bytes, counted, grouped, product, shape } from "./format.ts";
import { type Info, kindOf, type Node } from "./nodes.ts";
import type { Member } from "./server.ts";

type Row = readonly [string, string | HTMLElement | null];

/** Return the page about a node. */
export function about(node: Node, info: Info): HTMLElement {
  const facts = node.kind === "array" ? arrayFacts(info) : otherFacts(info);
  const lengths = info.chunks as number[] | undefined;
  const regular = lengths !== undefined && lengths.every((length) => typeof length === "number");
  const grid = regular ? chunkGrid(info.shape as number[], lengths, (info.shards as number[] | null) ?? null) : null;
  const codecs = (info.codecs as Codec[] | undefined) ?? [];
  return h(
    "div",
    { class: "about" },
    h("section", { class: "facts" }, h("h2", {}, "Facts"), list(facts)),
    grid && h("section", {}, h("h2", {}, "Chunk grid"), grid, h("p", { class: "note" }, legend(info))),
    codecs.length > 0 &&
      h("section", {}, h("h2", {}, "Codecs"), h("ol", { class: "codecs" }, ...codecs.map(codecItem))),
    ...members(node),
    attributes(node.listing.attributes),
  );
}

function list(rows: readonly Row[]): HTMLElement {
  const shown = rows.filter((row) => row[1] !== null && row[1] !== "");
  return h("dl", {}, ...shown.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function arrayFacts(info: Info): Row[] {
  const lengths = info.shape as number[];
  const names = info.dimension_names as (string | null)[] | null;
  const [stored, whole, ratio] = [info.stored_nbytes, info.nbytes, info.ratio] as (number | null)[];
  const count = info.stored_chunks as number | null;
  return [
    ["Shape", shape(lengths)],
    ["Dimensions", names === null ? null : names.map((name) => name ?? "–").join(", ")],
    ["Type", String(info.dtype)],
    ["Fill value", info.fill_value === null || info.fill_value === undefined ? null : text(info.fill_value)],
    ["Chunks", chunkText(info.chunks, info)],
    ["Shards", info.shards === null ? null : chunkText(info.shards, info)],
    ["Elements", whole == null ? null : bytes(whole)],
    [
      "Stored",
      stored == null
        ? null
        : `${bytes(stored)} in ${grouped(count ?? 0)} of ${grouped((info.nshards ?? info.nchunks) as number)} ${info.shards ? "shards" : "chunks"}`,
    ],
    ["Ratio", ratio == null ? null : ratioBar(ratio)],
    ["Format", String(info.format)],
    ["Store", String(info.store ?? "")],
  ];
}

function chunkText(chunks: unknown, info: Info): string {
  const lengths = chunks as (number | number[])[];
  if (lengths.some(Array.isArray))
    return lengths.map((length) => (Array.isArray(length) ? `${length.length} lengths` : grouped(length))).join(" × ");
  const whole = info.nbytes as number | null;
  const elements = product(info.shape as number[]);
  const size =
    whole === null || elements === 0 ? "" : `, ${bytes((whole / elements) * product(lengths as number[]))} each`;
  return `${shape(lengths as number[])}${size}`;
}

function ratioBar(ratio: number): HTMLElement {
  const share = Math.min(1, 1 / ratio);
  const bar = h("span", { class: "ratio", "aria-hidden": "true" }, h("i", { style: `width:${100 * share}%` }));
  return h("span", {}, `${ratio} : 1 `, bar);
}

function otherFacts(info: Info): Row[] {
  const count = (name: string): string | null => (typeof info[name] === "number" ? grouped(info[name]) : null);
  return [
    ["Kind", kindOf(info)],
    ["Rows", count("rows")],
    ["Columns", count("ncolumns")],
    ["Members", count("nmembers")],
    ["Format", info.format === null ? null : String(info.format)],
    ["Store", String(info.store ?? "")],
    ["Note", typeof info.error === "string" ? info.error : null],
  ];
}

function legend(info: Info): string {
  const grid = info.grid as number[] | undefined;
  if (!info.shards) return `${(grid ?? []).map(grouped).join(" × ")} chunks`;
  return `${grouped(info.nshards as number)} shards (strong lines) with ${grouped(info.nchunks as number)} inner chunks`;
}

function codecItem(codec: Codec): HTMLElement {
  const options = Object.entries(codec.configuration ?? {}).filter(
    ([name]) => !["codecs", "index_codecs"].includes(name),
  );
  const inner = codec.configuration?.codecs;
  return h(
    "li",
    {},
    h("b", {}, codec.name),
    options.length > 0 &&
      h("span", { class: "options" }, options.map(([name, value]) => `${name} ${text(value)}`).join(" · ")),
    Array.isArray(inner) && h("ol", { class: "codecs" }, ...(inner as Codec[]).map(codecItem)),
  );
}

/** Return the members of a group in tables: coordinates, what they are coordinates of, and other kinds of nodes. */
function members(node: Node): HTMLElement[] {
  const all = node.listing.members;
  const prefix = node.path === "" ? "" : `${node.path}/`;
  const of = (kind: Member["kind"]) => all.filter((member) => member.kind === kind);
  const coordinates = of("array").filter(({ coordinate }) => coordinate);
  const variables = of("array").filter(({ coordinate }) => !coordinate);
  const name = node.kind === "table" ? "Columns" : coordinates.length > 0 ? "Variables" : "Arrays";
  const sections = [
    section("Coordinates", coordinates, prefix),
    section(name, variables, prefix),
    section("Tables", of("table"), prefix),
    section("Groups", of("group"), prefix),
    section("Unreadable", of("unreadable"), prefix),
  ].filter((found) => found !== null);
  if (node.listing.truncated)
    sections.push(h("p", { class: "note" }, "There are more members; search for their names."));
  return sections;
}

/** The columns of a table of members: head and cell. */
const COLUMNS: readonly (readonly [string, (member: Member) => string])[] = [
  ["Long name", (member) => member.conventions?.title ?? ""],
  ["Dimensions", (member) => (member.dimension_names ?? []).map((name) => name ?? "–").join(", ")],
  ["Shape", lengths],
  ["Type", (member) => member.dtype ?? ""],
  ["Units", (member) => member.conventions?.units ?? ""],
  ["Size", (member) => (member.nbytes == null ? "" : bytes(member.nbytes))],
];

function lengths(member: Member): string {
  return member.rows != null ? counted(member.rows, "row") : member.shape ? shape(member.shape) : "";
}

/** Return a table of members, with the columns in which one of them has something. */
function section(title: string, all: readonly Member[], prefix: string): HTMLElement | null {
  if (all.length === 0) return null;
  const columns = COLUMNS.filter(([, text]) => all.some((member) => text(member) !== ""));
  const failed = all.some(({ kind }) => kind === "unreadable");
  const heads = ["Name", ...columns.map(([name]) => name), ...(failed ? ["Why"] : [])].map((name) =>
    h("th", { scope: "col" }, name),
  );
  const rows = all.map((member) => memberRow(prefix, member, columns));
  return h(
    "section",
    { class: "wide" },
    h("h2", {}, title),
    h("div", { class: "wide-table" }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows))),
  );
}

function memberRow(prefix: string, member: Member, columns: typeof COLUMNS): HTMLElement {
  const path = `${prefix}${member.name}`.split("/").map(encodeURIComponent).join("/");
  const name = h("th", { scope: "row" }, h("a", { href: `#/${path}` }, member.name));
  return member.kind === "unreadable"
    ? h("tr", { class: "failed" }, name, h("td", { class: "words" }, member.error ?? ""))
    : h(
        "tr",
        {},
        name,
        ...columns.map(([head, text]) => h("td", { class: head === "Long name" && "words" }, text(member))),
      );
}

function attributes(all: Readonly<Record<string, unknown>>): HTMLElement | null {
  const entries = Object.entries(all);
  if (entries.length === 0) return null;
  return h(
    "section",
    { class: "wide" },
    h("h2", {}, "Attributes"),
    h(
      "dl",
      { class: "attributes" },
      ...entries.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, nested(value))]),
    ),
  );
}

function nested(value: unknown): string | HTMLElement {
  if (typeof value !== "object" || value === null) return text(value);
  const whole = JSON.stringify(value);
  if (whole.length < 120) return h("code", {}, whole);
  return h(
    "details",
    {},
    h("summary", {}, h("code", {}, `${whole.slice(0, 90)} …`)),
    h("pre", {}, JSON.stringify(value, null, 2)),
  );
}

function text(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
