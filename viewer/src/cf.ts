/** What attributes of the CF conventions say about the elements of an array. */

import { type Epoch, epoch } from "./calendars.ts";

export type Attributes = Readonly<Record<string, unknown>>;

export interface Meaning {
  readonly missing: readonly number[];
  readonly least: number;
  readonly most: number;
  readonly scale: number;
  readonly offset: number;
  readonly units: string;
  readonly title: string;
  readonly time: Epoch | null;
}

/** Read what the attributes of an array say; `fill` is a fill value that marks missing elements. */
export function meaning(attributes: Attributes, fill?: number): Meaning {
  const missing = ["_FillValue", "missing_value"].flatMap((name) => numbers(attributes[name]));
  if (fill !== undefined && !Number.isNaN(fill)) missing.push(fill);
  const range = numbers(attributes.valid_range);
  const one = (name: string, otherwise: number): number => numbers(attributes[name])[0] ?? otherwise;
  return {
    missing: [...new Set(missing.filter((value) => !Number.isNaN(value)))],
    least: one("valid_min", range[0] ?? -Infinity),
    most: one("valid_max", range[1] ?? Infinity),
    scale: one("scale_factor", 1),
    offset: one("add_offset", 0),
    units: text(attributes.units),
    title: text(attributes.long_name) || text(attributes.standard_name).replaceAll("_", " "),
    time: epoch(attributes.units, attributes.calendar),
  };
}

/** Return the value that a stored element stands for; NaN if it is missing. */
export function decoded(stored: number, of: Meaning): number {
  if (stored !== stored || of.missing.includes(stored) || stored < of.least || stored > of.most) return NaN;
  return of.scale === 1 && of.offset === 0 ? stored : stored * of.scale + of.offset;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Return the numbers that an attribute holds: one, many, or a float as xarray writes it in Zarr v3. */
function numbers(value: unknown): number[] {
  if (Array.isArray(value)) return value.flatMap(numbers);
  if (typeof value === "number") return [value];
  if (typeof value === "boolean") return [Number(value)];
  if (typeof value !== "string") return [];
  if (/^[A-Za-z0-9+/]{11}=$/.test(value)) {
    const bytes = Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
    return [new DataView(bytes.buffer).getFloat64(0, true)];
  }
  const named: Record<string, number> = { NaN: NaN, Infinity, "-Infinity": -Infinity };
  const found = named[value] ?? (value.trim() === "" ? NaN : Number(value));
  return value in named || !Number.isNaN(found) ? [found] : [];
}

/** Whether larger coordinates are drawn further up, as on maps. */
export function pointsUp(attributes: Attributes, values: ArrayLike<number>): boolean {
  const name = text(attributes.standard_name);
  const units = text(attributes.units);
  const north =
    /^degrees?_?n(orth)?$/i.test(units) || ["latitude", "grid_latitude", "projection_y_coordinate"].includes(name);
  return north && values.length > 1 && values[0]! < values[values.length - 1]!;
}
