/** How values are spread over the colours: evenly, by their logarithm, or by that of their size on both sides of zero. */

import type { Limits } from "./limits.ts";

export const NORMS = ["linear", "log", "symlog"] as const;
export type Norm = (typeof NORMS)[number];

const LEAST_SHARE = 1e-4; // of the upper limit: where logarithms begin if the lower limit has none
const EVEN_SHARE = 1e-3; // of the larger limit: values as small as this are spread evenly around zero

/** Spreads values over a line, and finds the values that lie there. */
export interface Spread {
  readonly to: (value: number) => number;
  readonly from: (place: number) => number;
}

/** Return limits that a norm can draw: logarithms need positive ones. */
export function drawable(norm: Norm, { low, high }: Limits): Limits {
  if (norm !== "log" || low > 0) return { low, high };
  return high > 0 ? { low: high * LEAST_SHARE, high } : { low: LEAST_SHARE, high: 1 };
}

/** Return how a norm spreads values for some limits. */
export function spread(norm: Norm, limits: Limits): Spread {
  if (norm === "log") {
    return { to: (value) => (value > 0 ? Math.log10(value) : -Infinity), from: (place) => 10 ** place };
  }
  if (norm === "symlog") {
    const even = Math.max(Math.abs(limits.low), Math.abs(limits.high)) * EVEN_SHARE || 1;
    return {
      to: (value) => Math.sign(value) * Math.log1p(Math.abs(value) / even),
      from: (place) => Math.sign(place) * Math.expm1(Math.abs(place)) * even,
    };
  }
  return { to: (value) => value, from: (place) => place };
}

/** Return marks for a norm that is not linear: powers of ten between the limits, and zero. */
export function powers(norm: Norm, limits: Limits, most: number): number[] {
  const size = Math.max(Math.abs(limits.low), Math.abs(limits.high));
  if (!(size > 0)) return [];
  const top = Math.floor(Math.log10(size) + 1e-9);
  const least = norm === "log" ? Math.ceil(Math.log10(limits.low) - 1e-9) : top - 2;
  const both = norm === "symlog" && limits.low < 0 ? 2 : 1;
  const step = Math.max(1, Math.ceil(((top - least + 1) * both) / most));
  const found = norm === "symlog" ? [0] : [];
  for (let power = top; power >= least; power -= step) found.push(10 ** power, ...(both > 1 ? [-(10 ** power)] : []));
  return found.filter((value) => value >= limits.low && value <= limits.high).sort((one, other) => one - other);
}
