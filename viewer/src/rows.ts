/** Rows that a table shows: those of tables, of arrays of one axis, and of planes of other arrays. */

import { grouped, number } from "./format.ts";
import type { Node } from "./nodes.ts";
import { shapeOf } from "./nodes.ts";
import { type Server, escaped } from "./server.ts";

export interface Column {
  readonly name: string;
  readonly detail: string;
  readonly numeric: boolean;
  /** The path of the array that statistics are those of. */
  readonly path: string | null;
}

export interface Rows {
  readonly total: number;
  readonly columns: readonly Column[];
  readonly read: (start: number, stop: number, signal: AbortSignal) => Promise<unknown[][]>;
}

interface Page {
  readonly columns: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[];
  readonly total: number;
  readonly rows: unknown[][];
}

export const MOST_COLUMNS = 64;

/** Return the rows of a table or of an array of one axis. */
export async function tableRows(server: Server, node: Node, firstColumn: number): Promise<Rows> {
  const about = await page(server, node.path, {}, 0, 1);
  const columns = about.columns.slice(firstColumn, firstColumn + MOST_COLUMNS);
  const some = about.columns.length > MOST_COLUMNS;
  return {
    total: about.total,
    columns: columns.map(({ name, dtype, shape }) => ({
      name: name === "" ? "value" : name,
      detail: shape.length > 0 ? `${dtype} × ${shape.join(" × ")}` : dtype,
      numeric: /^(u?int|float|bfloat|complex)/.test(dtype) && shape.length === 0,
      path:
        node.kind === "table" ? `${node.path === "" ? "" : `${node.path}/`}${name}` : name === "" ? node.path : null,
    })),
    read: async (start, stop, signal) => {
      const wanted: Record<string, string> = some
        ? { columns: JSON.stringify(columns.map((column) => column.name)) }
        : {};
      return readAll(server, node.path, wanted, start, stop, signal);
    },
  };
}

async function readAll(
  server: Server,
  path: string,
  wanted: Record<string, string>,
  start: number,
  stop: number,
  signal: AbortSignal,
): Promise<unknown[][]> {
  const found: unknown[][] = [];
  // the server sends fewer rows at once where they are large
  while (start + found.length < stop) {
    const { rows } = await page(server, path, wanted, start + found.length, stop, signal);
    if (rows.length === 0) break;
    found.push(...rows);
  }
  return found;
}

function page(
  server: Server,
  path: string,
  query: Record<string, string>,
  start: number,
  stop: number,
  signal?: AbortSignal,
): Promise<Page> {
  return server.elements<Page>(
    `-/rows/${escaped(path)}`,
    { ...query, start: String(start), stop: String(stop) },
    signal,
  );
}

/** Return the one value of an array without axes. */
export async function scalarValue(server: Server, node: Node): Promise<string> {
  return cell(await values(server, node.path, "..."));
}

/** Return the rows of a plane of an array. */
export function planeRows(
  server: Server,
  node: Node,
  axes: readonly [number, number],
  index: readonly number[],
  firstColumn: number,
  nameOf: (column: number) => string = grouped,
): Rows {
  const shape = shapeOf(node);
  const [down, across] = axes;
  const stopColumn = Math.min(shape[across]!, firstColumn + MOST_COLUMNS);
  const columns = Array.from({ length: stopColumn - firstColumn }, (_, at) => ({
    name: nameOf(firstColumn + at),
    detail: "",
    numeric: true,
    path: null,
  }));
  const read = async (start: number, stop: number, signal: AbortSignal): Promise<unknown[][]> => {
    const parts = shape.map((_, axis) =>
      axis === down ? `${start}:${stop}` : axis === across ? `${firstColumn}:${stopColumn}` : String(index[axis] ?? 0),
    );
    const found = (await values(server, node.path, parts.join(","), signal)) as unknown[][];
    return down < across ? found : transposed(found, stop - start);
  };
  return { total: shape[down]!, columns, read };
}

function transposed(rows: readonly unknown[][], width: number): unknown[][] {
  return Array.from({ length: width }, (_, at) => rows.map((row) => row[at]));
}

function values(server: Server, path: string, selection: string, signal?: AbortSignal): Promise<unknown> {
  return server.elements<unknown>(`-/values/${escaped(path)}`, { selection, format: "json" }, signal);
}

/** Write a cell. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isSafeInteger(value) ? grouped(value) : number(value, 8);
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "true" : "false";
  if (Array.isArray(value)) return `[${value.map(cell).join(", ")}]`;
  const { values: some, shape } = value as { values?: unknown[]; shape?: number[] };
  if (Array.isArray(some) && Array.isArray(shape))
    return `[${some.slice(0, 8).map(cell).join(", ")}, …] (${shape.join(" × ")})`;
  return JSON.stringify(value);
}
