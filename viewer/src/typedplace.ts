/** Elements of an axis by what a person types: a coordinate, a date, a name, or a number behind #. */

import { timeOf } from "./calendars.ts";
import type { Coordinates } from "./ticks.ts";

const DATE = /^(-?\d{1,4})-(\d{1,2})(?:-(\d{1,2})(?:[T ]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?)?)?)?$/;

/** Return the element that a text names, of those of an axis; `null` if it names none. */
export function typedPlace(of: Coordinates, typed: string, length: number): number | null {
  const text = typed.replaceAll("\u202f", "").replace(/^−/, "-").trim();
  const index = /^#?(\d+)$/.exec(text);
  const inside = index === null ? null : Math.min(length - 1, Number(index[1]));
  if (text.startsWith("#")) return inside;
  if (of.labels !== null) return named(of.labels, text) ?? inside;
  if (of.values === null) return inside;
  const time = of.time === null ? null : DATE.exec(text);
  if (of.time !== null && time !== null) {
    const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = time
      .slice(1)
      .map((part) => Number(part ?? NaN));
    const clock = ((hour || 0) * 3600 + (minute || 0) * 60 + (second || 0)) * 1000;
    return nearest(of.values, timeOf({ year, month, day: day || 1 }, clock, of.time));
  }
  const value = Number(text.replace(",", "."));
  return text === "" || Number.isNaN(value) ? null : nearest(of.values, value);
}

function named(labels: readonly string[], text: string): number | null {
  const exact = labels.indexOf(text);
  if (exact >= 0) return exact;
  const begins = labels.findIndex((label) => label.toLowerCase().startsWith(text.toLowerCase()));
  return text === "" || begins < 0 ? null : begins;
}

function nearest(values: Float64Array, value: number): number {
  let best = 0;
  values.forEach((other, at) => {
    if (Math.abs(other - value) < Math.abs(values[best]! - value)) best = at;
  });
  return best;
}
