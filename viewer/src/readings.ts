/** Values as text. */

import { date } from "./calendars.ts";
import type { Meaning } from "./cf.ts";
import { number } from "./format.ts";

/** Write a value of an array with its unit. */
export function shown(value: number, says: Meaning): string {
  if (value !== value) return "missing";
  if (says.time !== null) return date(value, says.time);
  return says.units === "" ? number(value, 7) : `${number(value, 7)} ${says.units}`;
}
