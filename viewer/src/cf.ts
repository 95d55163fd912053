/** What the elements of an array stand for by the conventions of netCDF and CF, which the server reads. */

import { type Epoch, epoch } from "./calendars.ts";

export type Attributes = Readonly<Record<string, unknown>>;

/** What the server says of the elements of an array. */
export interface Conventions {
  /** Elements equal to these are missing; numbers that JSON has no form for are text. */
  readonly missing: readonly (number | string | boolean)[];
  readonly scale: number;
  readonly offset: number;
  /** The type that the stored elements are read as, if it is not that of the array. */
  readonly read_as: string | null;
  readonly title: string;
  readonly units: string;
  /** Whether the units are times since a date. */
  readonly dates: boolean;
}

export interface Meaning {
  readonly missing: readonly number[];
  /** What is added to stored elements below zero, or subtracted from those that are too large. */
  readonly wrap: number;
  readonly scale: number;
  readonly offset: number;
  readonly units: string;
  readonly title: string;
  readonly time: Epoch | null;
}

/** Return what elements stand for; `fill` is a fill value that marks missing elements, too. */
export function meaning(says: Conventions | null | undefined, attributes: Attributes, fill?: number): Meaning {
  const missing = (says?.missing ?? []).map(Number);
  if (fill !== undefined && !Number.isNaN(fill)) missing.push(fill);
  return {
    missing,
    wrap: wrapOf(says?.read_as ?? ""),
    scale: says?.scale ?? 1,
    offset: says?.offset ?? 0,
    units: says?.units ?? "",
    title: says?.title ?? "",
    time: says?.dates ? epoch(says.units, attributes.calendar) : null,
  };
}

/** Say what stored numbers stand for, where they are shown as they are; nothing if they stand for themselves. */
export function storedAs({ scale, offset, units, dates }: Conventions): string {
  if (dates) return `as stored: ${units}`;
  if (scale === 1 && offset === 0) return "";
  const scaled = scale === 1 ? "stored" : `stored × ${scale}`;
  const moved = offset === 0 ? "" : ` ${offset < 0 ? "−" : "+"} ${Math.abs(offset)}`;
  return `as stored: value = ${scaled}${moved}${units === "" ? "" : ` ${units}`}`;
}

/** Return the value that a stored element stands for; NaN if it is missing. */
export function decoded(stored: number, of: Meaning): number {
  let value = stored;
  if (of.wrap > 0 && stored < 0) value += of.wrap;
  if (of.wrap < 0 && stored >= -of.wrap / 2) value += of.wrap;
  if (value !== value || of.missing.includes(value)) return NaN;
  return of.scale === 1 && of.offset === 0 ? value : value * of.scale + of.offset;
}

function wrapOf(dtype: string): number {
  const [, unsigned, bits] = /^(u?)int(\d+)$/.exec(dtype) ?? [];
  return bits === undefined ? 0 : (unsigned === "u" ? 1 : -1) * 2 ** Number(bits);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Whether larger coordinates are drawn further up, as on maps. */
export function pointsUp(attributes: Attributes, values: ArrayLike<number>): boolean {
  const name = text(attributes.standard_name);
  const units = text(attributes.units);
  const north =
    /^degrees?_?n(orth)?$/i.test(units) || ["latitude", "grid_latitude", "projection_y_coordinate"].includes(name);
  return north && values.length > 1 && values[0]! < values[values.length - 1]!;
}
