/** Marks along an axis. */

import { type Epoch, date } from "./calendars.ts";
import { grouped, number } from "./format.ts";
import { timeMarks } from "./timeticks.ts";

export interface Tick {
  /** Where it is, in elements; the middle of element 3 is 3.5. */
  readonly at: number;
  readonly label: string;
}

/** What the positions along an axis mean. */
export interface Coordinates {
  readonly name: string;
  readonly units: string;
  readonly values: Float64Array | null;
  readonly labels: readonly string[] | null;
  readonly time: Epoch | null;
  /** Whether maps draw the last position at the top. */
  readonly up: boolean;
}

/** Return coordinates that are just positions. */
export function positions(name: string): Coordinates {
  return { name, units: "", values: null, labels: null, time: null, up: false };
}

/** Return a step of 1, 2, 2.5 or 5 times a power of ten that is at least `least`. */
export function nice(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 2.5, 5]) if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/** Name the place of an element. */
export function label(of: Coordinates, at: number): string {
  if (of.labels !== null) return of.labels[at] ?? String(at);
  const value = of.values?.[at];
  if (value === undefined) return at < 10_000 ? String(at) : grouped(at);
  return of.time === null ? number(value) : date(value, of.time);
}

/** Choose about `most` marks between two positions. */
export function ticks(of: Coordinates, start: number, stop: number, length: number, most: number): Tick[] {
  const low = Math.max(0, start);
  const high = Math.min(length, stop);
  if (!(high > low) || most < 1) return [];
  const direction = of.labels === null ? monotonic(of.values, low, high) : 0;
  if (direction === 0) return byPosition(of, low, high, most);
  return of.time === null
    ? byValue(of.values!, low, high, most, direction)
    : byTime(of.values!, of.time, low, high, most, direction);
}

function byPosition(of: Coordinates, low: number, high: number, most: number): Tick[] {
  const step = Math.max(1, Math.ceil(nice((high - low) / most)));
  const found: Tick[] = [];
  const values = of.values;
  const apart =
    of.time !== null && values !== null && values.length > 1
      ? Math.abs(values[1]! - values[0]!) * of.time.unit * step
      : 1;
  for (let at = Math.ceil(low / step) * step; at < high; at += step) {
    const value = values?.[at];
    const named = of.time !== null && value !== undefined ? date(value, of.time, Math.max(apart, 1)) : label(of, at);
    found.push({ at: at + 0.5, label: named });
  }
  return found;
}

function byTime(values: Float64Array, of: Epoch, low: number, high: number, most: number, direction: number): Tick[] {
  const ends = [valueAt(values, low), valueAt(values, high)];
  const found = timeMarks(Math.min(...ends), Math.max(...ends), of, most);
  return found.map(({ value, label }) => ({ at: positionOf(values, value, direction), label }));
}

function byValue(values: Float64Array, low: number, high: number, most: number, direction: number): Tick[] {
  const [first, last] = [valueAt(values, low), valueAt(values, high)];
  const step = nice(Math.abs(last - first) / most);
  if (!(step > 0) || !Number.isFinite(step)) return [];
  const [least, greatest] = [Math.min(first, last), Math.max(first, last)];
  const digits = digitsOf(step);
  const found: Tick[] = [];
  for (
    let count = Math.ceil(least / step - 1e-9);
    count * step <= greatest + step * 1e-9 && found.length < 200;
    count++
  ) {
    const value = count * step;
    const named = Math.abs(value) >= 1e9 || (step < 1e-6 && value !== 0) ? number(value) : fixed(value, digits);
    found.push({ at: positionOf(values, value, direction), label: named });
  }
  return found;
}

/** Return how many digits behind the point a step has. */
function digitsOf(step: number): number {
  const power = Math.floor(Math.log10(step) + 1e-9);
  const half = Math.abs(step / 10 ** power - 2.5) < 1e-6 ? 1 : 0;
  return Math.max(0, Math.min(12, half - power));
}

/** Write a number with the digits of its step, in groups of three where there are many. */
function fixed(value: number, digits: number): string {
  const [whole = "", part] = Math.abs(value).toFixed(digits).split(".");
  const text = `${whole.length > 4 ? grouped(BigInt(whole)) : whole}${part === undefined ? "" : `.${part}`}`;
  return value < 0 ? `−${text}` : text;
}

/** Return 1 if the values rise, −1 if they fall, 0 if they do neither. */
function monotonic(values: Float64Array | null, low: number, high: number): number {
  if (values === null || values.length < 2) return 0;
  const first = Math.max(0, Math.floor(low) - 1);
  const stop = Math.min(values.length, Math.ceil(high) + 1);
  const direction = Math.sign(values[values.length - 1]! - values[0]!);
  const step = Math.max(1, Math.floor((stop - first) / 5000));
  for (let at = first + step; at < stop; at += step) {
    if (!((values[at]! - values[at - step]!) * direction > 0)) return 0;
  }
  return direction;
}

/** Return the coordinate at a position between elements, also half an element beyond the ends. */
function valueAt(values: Float64Array, at: number): number {
  const below = Math.min(Math.max(Math.floor(at - 0.5), 0), values.length - 2);
  const part = at - 0.5 - below;
  return values[below]! + (values[below + 1]! - values[below]!) * part;
}

/** Return where a coordinate lies. */
export function positionOf(values: Float64Array, value: number, direction: number): number {
  let low = 0;
  let high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((values[middle]! - value) * direction <= 0) low = middle;
    else high = middle;
  }
  return low + (value - values[low]!) / (values[high]! - values[low]!) + 0.5;
}
