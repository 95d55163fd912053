/** Values as text. */

import { date } from "./calendars.ts";
import type { Meaning } from "./cf.ts";
import { number } from "./format.ts";
import { FAILED, MISSING, type Raster, VALUE } from "./raster.ts";

/** Write a value of an array with its unit. */
export function shown(value: number, says: Meaning): string {
  if (value !== value) return "missing";
  if (says.time !== null) return date(value, says.time);
  return says.units === "" ? number(value, 7) : `${number(value, 7)} ${says.units}`;
}

/** Write what a pixel shows. */
export function reading({ values, states }: Raster, pixel: number, says: Meaning): string {
  const state = states[pixel];
  if (state === VALUE) return shown(values[pixel]!, says);
  return state === MISSING ? "missing" : state === FAILED ? "can’t be read" : "…";
}
