/** Limits of colours and histograms of what is shown. */

export interface Limits {
  readonly low: number;
  readonly high: number;
}

export interface Histogram {
  readonly low: number;
  readonly high: number;
  readonly counts: readonly number[];
}

/** Limits where there is no value. */
export const NO_LIMITS: Limits = { low: NaN, high: NaN };

/** Return at most `most` of the values that are shown, evenly spaced; all of them if they are few, wherever they are. */
export function sample(values: Float64Array, shown: (at: number) => boolean, most = 20000): Float64Array {
  let count = 0;
  for (let at = 0; at < values.length; at++) if (shown(at)) count += 1;
  const step = Math.max(1, Math.ceil(count / most));
  // a step that shares a factor with the width of an image would look at a few columns only
  const stride = step > 1 ? step | 1 : 1;
  const found = new Float64Array(Math.ceil(count / stride));
  for (let at = 0, seen = 0; at < values.length; at++) {
    if (!shown(at)) continue;
    if (seen % stride === 0) found[seen / stride] = values[at]!;
    seen += 1;
  }
  return found;
}

/** Return limits that leave out the given share of the values at each end; `null` without finite values. */
export function robust(values: Float64Array, share = 0.01): Limits | null {
  const sorted = values.filter((value) => Number.isFinite(value)).sort();
  if (sorted.length === 0) return null;
  const pick = (at: number): number => sorted[Math.round(at * (sorted.length - 1))]!;
  const [low, high] = [pick(share), pick(1 - share)];
  // most values are the same, such as a background: show the others, too
  return low < high ? { low, high } : { low: sorted[0]!, high: sorted[sorted.length - 1]! };
}

/** Return limits with zero in the middle, for diverging colours, if values lie on both sides of it. */
export function centred(limits: Limits): Limits {
  if (limits.low >= 0 || limits.high <= 0) return limits;
  const size = Math.max(-limits.low, limits.high);
  return { low: -size, high: size };
}

/** Count finite values in bins of equal width. */
export function histogram(values: Float64Array, bins = 64): Histogram | null {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  const counts = new Array<number>(bins).fill(0);
  const width = high > low ? (high - low) / bins : 1;
  for (const value of values) {
    if (Number.isFinite(value)) counts[Math.min(bins - 1, Math.floor((value - low) / width))]! += 1;
  }
  return { low, high, counts };
}
