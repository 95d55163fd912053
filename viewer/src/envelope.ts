/** A line reduced to what its pixels show: the least and the greatest value of each column. */

import type { Chunk } from "./chunks.ts";

export interface Envelope {
  /** First element of each column; one more than there are columns. */
  readonly edges: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** 1 where a column has a value, 2 where it has missing elements only, 3 where a chunk can't be read. */
  readonly states: Uint8Array;
}

/** Return an empty envelope of the elements that are shown from `start` on. */
export function envelope(start: number, scale: number, pixels: number, length: number): Envelope {
  const edges = Float64Array.from({ length: pixels + 1 }, (_, at) => Math.min(length, Math.max(0, start + at / scale)));
  return {
    edges,
    low: new Float64Array(pixels).fill(Infinity),
    high: new Float64Array(pixels).fill(-Infinity),
    states: new Uint8Array(pixels),
  };
}

/** Take the elements of one chunk along the line, `first` being its first element. */
export function take(
  into: Envelope,
  chunk: Chunk,
  stride: number,
  offset: number,
  first: number,
  count: number,
  decode: (stored: number) => number,
): void {
  const { edges, low, high, states } = into;
  const last = states.length - 1;
  const scale = states.length / Math.max(1e-9, edges[states.length]! - edges[0]!);
  for (let at = 0; at < count; at++) {
    const element = first + at;
    if (element + 1 <= edges[0]! || element >= edges[states.length]!) continue;
    const value = decode(chunk.data[offset + at * stride]!);
    // an element wider than a column fills several
    let column = Math.max(0, Math.min(last, Math.floor((element - edges[0]!) * scale)));
    const stop = Math.max(column, Math.min(last, Math.ceil((element + 1 - edges[0]!) * scale) - 1));
    for (; column <= stop; column++) {
      if (value !== value) {
        if (states[column] === 0) states[column] = 2;
        continue;
      }
      states[column] = 1;
      if (value < low[column]!) low[column] = value;
      if (value > high[column]!) high[column] = value;
    }
  }
}

/** Return the least and greatest finite value of all columns; `null` without any. */
export function extent(of: Envelope): { low: number; high: number } | null {
  let [low, high] = [Infinity, -Infinity];
  of.states.forEach((state, at) => {
    if (state !== 1) return;
    if (Number.isFinite(of.low[at]!)) low = Math.min(low, of.low[at]!);
    if (Number.isFinite(of.high[at]!)) high = Math.max(high, of.high[at]!);
  });
  return low <= high ? { low, high } : null;
}

/** Choose at most `most` of the chunks from `first` to `stop`, evenly spaced; returns them and the step. */
export function spaced(first: number, stop: number, most: number): { chunks: number[]; step: number } {
  const step = Math.max(1, Math.ceil((stop - first) / most));
  const chunks: number[] = [];
  for (let at = first; at < stop; at += step) chunks.push(at);
  return { chunks, step };
}
