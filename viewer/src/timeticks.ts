/** Marks along an axis of times: whole seconds, minutes, hours, days, months or years of its calendar. */

import { type Epoch, civilOf, date, timeOf } from "./calendars.ts";

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
const CLOCK = [1, 2, 5, 10, 15, 30]
  .flatMap((count) => [count * 1000, count * MINUTE])
  .concat([1, 2, 3, 6, 12].map((count) => count * HOUR));
const DAYS = [1, 2, 5, 10];
const MONTHS = [1, 2, 3, 6];

export interface TimeMark {
  readonly value: number;
  readonly label: string;
}

/** Return about `most` marks between two times, each with the part of its date that is new. */
export function timeMarks(low: number, high: number, of: Epoch, most: number): TimeMark[] {
  const step = ((high - low) * of.unit) / most;
  const clock = CLOCK.sort((one, other) => one - other).find((size) => size >= step);
  if (clock !== undefined) return byClock(low, high, of, clock);
  const days = DAYS.find((count) => count * DAY >= step);
  if (days !== undefined) return byDays(low, high, of, days);
  const months = MONTHS.find((count) => count * 28 * DAY >= step);
  return byMonths(low, high, of, months ?? 12 * roundYears(step / (365 * DAY)));
}

function roundYears(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
}

function byClock(low: number, high: number, of: Epoch, step: number): TimeMark[] {
  const found: TimeMark[] = [];
  // days begin where the time of day of the calendar is zero
  const begin = Math.ceil((low * of.unit + of.offset) / step - 1e-9);
  const end = Math.floor((high * of.unit + of.offset) / step + 1e-9);
  for (let count = begin; count <= end; count++) {
    const value = (count * step - of.offset) / of.unit;
    const full = date(value, of, step);
    const midnight = (count * step) % DAY === 0;
    const [day = "", time = ""] = full.split(" ");
    found.push({ value, label: midnight ? day : found.length === 0 ? full : time });
  }
  return found;
}

function byDays(low: number, high: number, of: Epoch, step: number): TimeMark[] {
  const found: TimeMark[] = [];
  const begin = Math.ceil((low * of.unit + of.offset) / DAY - 1e-9);
  const end = Math.floor((high * of.unit + of.offset) / DAY + 1e-9);
  for (let count = begin; count <= end; count++) {
    const value = (count * DAY - of.offset) / of.unit;
    const { day } = civilOf(value, of);
    // the last days of a month would stand too close to the first of the next
    if ((day - 1) % step === 0 && day <= 31 - step / 2) found.push({ value, label: date(value, of, DAY) });
  }
  return found;
}

function byMonths(low: number, high: number, of: Epoch, step: number): TimeMark[] {
  const [first, last] = [civilOf(low, of), civilOf(high, of)];
  const found: TimeMark[] = [];
  const begin = Math.floor((first.year * 12 + first.month - 1) / step);
  const end = last.year * 12 + last.month - 1;
  for (let count = begin; count * step <= end; count++) {
    const [year, month] = [Math.floor((count * step) / 12), (((count * step) % 12) + 12) % 12];
    const value = timeOf({ year, month: month + 1, day: 1 }, 0, of);
    if (value < low || value > high) continue;
    found.push({ value, label: date(value, of, step >= 12 ? 365 * DAY : 28 * DAY) });
  }
  return found;
}
