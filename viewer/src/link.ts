/** The state as the part of a URL behind the #, and back. */

import { NAMES } from "./colours.ts";
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
  add("limits", state.limits && `${state.limits.low},${state.limits.high}`);
  add("fill", state.fill === null ? null : state.fill ? "missing" : "value");
  add("row", state.row > 0 ? String(state.row) : null);
  add("part", state.part === INITIAL.part ? null : state.part);
  const { where, sort, descending } = state.query;
  add("where", where === "" ? null : encodeURIComponent(where));
  add(descending ? "falling" : "rising", sort === "" ? null : encodeURIComponent(sort));
  const path = state.path.split("/").map(encodeURIComponent).join("/");
  return `#/${path}${parts.length > 0 ? `?${parts.join("&")}` : ""}`;
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
  const fill = found.get("fill");
  return {
    path: path.split("/").map(unescaped).join("/"),
    tab: TABS.find((tab) => tab === found.get("tab")) ?? null,
    axes: axes !== null && axes[0] !== axes[1] ? [axes[0]!, axes[1]!] : null,
    index: natural(numbers("at")) ?? [],
    marked: found.get("marked") === "1",
    along: natural(numbers("along", 1))?.[0] ?? null,
    view:
      view !== null && view[2]! > 0 && view[3]! > 0
        ? { x: view[0]!, y: view[1]!, scaleX: view[2]!, scaleY: view[3]! }
        : null,
    map: NAMES.find((name) => name === found.get("map")) ?? INITIAL.map,
    limits: limits !== null ? { low: limits[0]!, high: limits[1]! } : null,
    fill: fill === "missing" ? true : fill === "value" ? false : null,
    row: natural(numbers("row", 1))?.[0] ?? 0,
    part: PARTS.find((part) => part === found.get("part")) ?? INITIAL.part,
    query: {
      where: unescaped(found.get("where") ?? ""),
      sort: unescaped(found.get("falling") ?? found.get("rising") ?? ""),
      descending: found.has("falling"),
    },
  };
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
