/** The state as the part of a URL behind the #, and back. */

import { NAMES } from "./colours.ts";
import { NORMS } from "./norms.ts";
import { INITIAL, PARTS, type State, TABS } from "./state.ts";

const short = (value: number): string => String(Number(value.toPrecision(10)));

/** Write the state as a fragment. */
export function fragment(state: State): string {
  const parts: string[] = [];
  const add = (name: string, value: string | null): void => {
    if (value !== null) parts.push(`${name}=${value}`);
  };
  add("tab", state.tab);
  add("axes", state.axes && state.axes.join(","));
  add("at", state.index.some((at) => at > 0) || state.marked ? state.index.join(",") : null);
  add("marked", state.marked ? "1" : null);
  add("along", state.along === null ? null : String(state.along));
  const { view } = state;
  add("view", view && [view.x, view.y, view.scaleX, view.scaleY].map(short).join(","));
  add("map", state.map === INITIAL.map ? null : state.map);
  add("reversed", state.reversed ? "1" : null);
  add("norm", state.norm === INITIAL.norm ? null : state.norm);
  add("limits", state.limits && `${state.limits.low},${state.limits.high}`);
  add("fill", state.fill === null ? null : state.fill ? "missing" : "value");
  add("share", state.share === INITIAL.share ? null : String(state.share));
  add("turned", state.turned ? "1" : null);
  add("composite", state.composite ? null : "0");
  add("channels", state.channels && state.channels.join(","));
  add("through", state.through === null ? null : String(state.through));
  add("other", state.other === null ? null : escapedPath(state.other));
  add("difference", state.difference ? "1" : null);
  add("row", state.row > 0 ? String(state.row) : null);
  add("column", state.column > 0 ? String(state.column) : null);
  add("part", state.part === INITIAL.part ? null : state.part);
  const { where, sort, descending } = state.query;
  add("where", where === "" ? null : encodeURIComponent(where));
  add(descending ? "falling" : "rising", sort === "" ? null : encodeURIComponent(sort));
  return `#/${escapedPath(state.path)}${parts.length > 0 ? `?${parts.join("&")}` : ""}`;
}

function escapedPath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

/** Read a fragment; what makes no sense is left out. */
export function parse(text: string): State {
  const [path = "", query = ""] = text.replace(/^#?\/?/, "").split("?", 2);
  const found = new Map(query.split("&").map((part) => part.split("=", 2) as [string, string]));
  const numbers = (name: string, count?: number): number[] | null => {
    const list = found
      .get(name)
      ?.split(",")
      .map((part) => (part === "" ? NaN : Number(part)));
    const fits = list !== undefined && list.every(Number.isFinite) && (count === undefined || list.length === count);
    return fits ? list : null;
  };
  const natural = (list: number[] | null): number[] | null =>
    list !== null && list.every((value) => Number.isSafeInteger(value) && value >= 0) ? list : null;
  const axes = natural(numbers("axes", 2));
  const view = numbers("view", 4);
  const limits = numbers("limits", 2);
  const share = numbers("share", 1)?.[0];
  const fill = found.get("fill");
  const other = found.get("other");
  return {
    path: unescapedPath(path),
    tab: TABS.find((tab) => tab === found.get("tab")) ?? null,
    axes: axes !== null && axes[0] !== axes[1] ? [axes[0]!, axes[1]!] : null,
    index: natural(numbers("at")) ?? [],
    marked: found.get("marked") === "1",
    along: natural(numbers("along", 1))?.[0] ?? null,
    view:
      view !== null && view[2]! > 0 && view[3]! > 0
        ? { x: view[0]!, y: view[1]!, scaleX: view[2]!, scaleY: view[3]! }
        : null,
    turned: found.get("turned") === "1",
    reversed: found.get("reversed") === "1",
    norm: NORMS.find((name) => name === found.get("norm")) ?? INITIAL.norm,
    share: share !== undefined && share >= 0 && share < 0.5 ? share : INITIAL.share,
    map: NAMES.find((name) => name === found.get("map")) ?? INITIAL.map,
    limits: limits !== null ? { low: limits[0]!, high: limits[1]! } : null,
    fill: fill === "missing" ? true : fill === "value" ? false : null,
    composite: found.get("composite") !== "0",
    channels: found.get("channels") === "" ? [] : natural(numbers("channels")),
    through: natural(numbers("through", 1))?.[0] ?? null,
    other: other === undefined ? null : unescapedPath(other),
    difference: found.get("difference") === "1",
    row: natural(numbers("row", 1))?.[0] ?? 0,
    column: natural(numbers("column", 1))?.[0] ?? 0,
    part: PARTS.find((part) => part === found.get("part")) ?? INITIAL.part,
    query: {
      where: unescaped(found.get("where") ?? ""),
      sort: unescaped(found.get("falling") ?? found.get("rising") ?? ""),
      descending: found.has("falling"),
    },
  };
}

function unescapedPath(path: string): string {
  return path.split("/").map(unescaped).join("/");
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
