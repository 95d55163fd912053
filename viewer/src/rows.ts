/** Rows that a table shows: those of tables, of arrays of one axis, and of planes of other arrays. */

import { grouped, number } from "./format.ts";
import type { Node } from "./nodes.ts";
import { shapeOf } from "./nodes.ts";
import { type Server, escaped } from "./server.ts";
import type { Query } from "./state.ts";

export interface Column {
  readonly name: string;
  readonly detail: string;
  readonly numeric: boolean;
  /** The path of the array that statistics are those of. */
  readonly path: string | null;
  /** The name that rows are sorted by; `null` if they can't be. */
  readonly sorts: string | null;
  readonly complex: boolean;
}

export interface Rows {
  readonly total: number;
  /** What the total leaves out. */
  readonly note: string;
  /** The number of a row that was read, where rows are filtered or sorted. */
  readonly numberOf: ((row: number) => number | undefined) | null;
  /** Return the URL of all rows as a file. */
  readonly file: (format: string) => string;
  readonly columns: readonly Column[];
  readonly read: (start: number, stop: number, signal: AbortSignal) => Promise<unknown[][]>;
}

interface Page {
  readonly columns: readonly { readonly name: string; readonly dtype: string; readonly shape: readonly number[] }[];
  readonly total: number;
  readonly rows: unknown[][];
  /** With a query: the numbers of the rows, how many there are in all, and how many were looked at. */
  readonly numbers?: readonly number[];
  readonly length?: number;
  readonly searched?: number;
}

export const MOST_COLUMNS = 64;

/** Return the rows of a table or of an array of one axis. */
export async function tableRows(server: Server, node: Node, firstColumn: number, query: Query): Promise<Rows> {
  const asked = parameters(query);
  const about = await page(server, node.path, asked, 0, 1);
  const numbers = new Map<number, number>();
  const columns = about.columns.slice(firstColumn, firstColumn + MOST_COLUMNS);
  const some = about.columns.length > MOST_COLUMNS;
  return {
    total: about.total,
    note: noteOf(about, query),
    numberOf: about.numbers === undefined ? null : (row) => numbers.get(row),
    file: (format) => fileUrl(server, node.path, { ...asked, format }),
    columns: columns.map(({ name, dtype, shape }) => ({
      name: name === "" ? "value" : name,
      detail: shape.length > 0 ? `${dtype} × ${shape.join(" × ")}` : dtype,
      numeric: /^(u?int|float|bfloat|complex)/.test(dtype) && shape.length === 0,
      complex: dtype.startsWith("complex"),
      sorts: shape.length > 0 ? null : name === "" ? VALUE : name,
      path:
        node.kind === "table" ? `${node.path === "" ? "" : `${node.path}/`}${name}` : name === "" ? node.path : null,
    })),
    read: async (start, stop, signal) => {
      const names = columns.map((column) => column.name);
      const wanted = some ? { ...asked, columns: JSON.stringify(names) } : asked;
      return readAll(server, node.path, wanted, start, stop, numbers, signal);
    },
  };
}

/** The name of the elements of an array in conditions. */
const VALUE = "value";

/** Return a query as parameters of a request. */
function parameters({ where, sort, descending }: Query): Record<string, string> {
  return {
    ...(where === "" ? {} : { where }),
    ...(sort === "" ? {} : { sort, order: descending ? "descending" : "ascending" }),
  };
}

function noteOf(about: Page, query: Query): string {
  const { length, searched } = about;
  if (length === undefined || searched === undefined) return "";
  if (searched < length)
    return `, found in the first ${grouped(searched)} of ${grouped(length)}${query.where === "" ? ", which are sorted" : ""}`;
  return query.where === "" ? "" : ` that match, of ${grouped(length)}`;
}

function fileUrl(server: Server, path: string, query: Record<string, string>): string {
  return server.url(`-/values/${escaped(path)}`, query, true);
}

async function readAll(
  server: Server,
  path: string,
  wanted: Record<string, string>,
  start: number,
  stop: number,
  numbers: Map<number, number>,
  signal: AbortSignal,
): Promise<unknown[][]> {
  const found: unknown[][] = [];
  // the server sends fewer rows at once where they are large
  while (start + found.length < stop) {
    const first = start + found.length;
    const { rows, numbers: those } = await page(server, path, wanted, first, stop, signal);
    if (rows.length === 0) break;
    those?.forEach((number, at) => numbers.set(first + at, number));
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
  const value = await values(server, node.path, "...");
  const text = node.listing.dtype?.startsWith("complex") ? complexCell(value) : null;
  return text === null ? cell(value) : `${text} (${complexCell(value, true)})`;
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
    sorts: null,
    complex: node.listing.dtype?.startsWith("complex") ?? false,
  }));
  const read = async (start: number, stop: number, signal: AbortSignal): Promise<unknown[][]> => {
    const parts = shape.map((_, axis) =>
      axis === down ? `${start}:${stop}` : axis === across ? `${firstColumn}:${stopColumn}` : String(index[axis] ?? 0),
    );
    const found = (await values(server, node.path, parts.join(","), signal)) as unknown[][];
    return down < across ? found : transposed(found, stop - start);
  };
  const plane = shape.map((_, axis) => (axes.includes(axis) ? ":" : String(index[axis] ?? 0))).join(",");
  const file = (format: string): string => fileUrl(server, node.path, { selection: plane, format });
  return { total: shape[down]!, columns, read, file, note: "", numberOf: null };
}

function transposed(rows: readonly unknown[][], width: number): unknown[][] {
  return Array.from({ length: width }, (_, at) => rows.map((row) => row[at]));
}

function values(server: Server, path: string, selection: string, signal?: AbortSignal): Promise<unknown> {
  return server.elements<unknown>(`-/values/${escaped(path)}`, { selection, format: "json" }, signal);
}

/** Write a complex number: real and imaginary part, or magnitude and phase. */
export function complexCell(value: unknown, polar = false): string | null {
  if (!Array.isArray(value) || value.length !== 2) return null;
  const [real, imaginary] = (value as unknown[]).map(Number) as [number, number];
  if (polar)
    return `magnitude ${number(Math.hypot(real, imaginary), 8)}, phase ${number(Math.atan2(imaginary, real), 8)} rad`;
  const size = number(Math.abs(imaginary), 8);
  return `${number(real, 8)} ${imaginary < 0 || Object.is(imaginary, -0) ? "−" : "+"} ${size}i`;
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
