/** Which chunks a plane of an array shows, and where they lie in it. */

import type { Piece } from "./raster.ts";
import { chunksAlong } from "./raster.ts";
import type { SourceLevel } from "./source.ts";

export interface PlaneChunk {
  readonly coords: readonly number[];
  readonly piece: Piece;
}

/**
 * Return the chunks of a level that pixels show, those in the middle first.
 *
 * `index` holds, for every axis that the plane does not have, the element of the first level that is shown.
 */
export function planeChunks(
  level: SourceLevel,
  axes: readonly [number, number],
  index: readonly number[],
  rows: Float64Array,
  columns: Float64Array,
): PlaneChunk[] {
  const { shape, chunks } = level.array;
  const [down, across] = axes;
  const fixed = shape.map((length, axis) =>
    Math.min(length - 1, Math.floor((index[axis] ?? 0) / (level.factors[axis] ?? 1))),
  );
  const [ys, xs] = [chunksAlong(rows, chunks[down]!), chunksAlong(columns, chunks[across]!)];
  const [middleY, middleX] = [(ys[0]! + ys[ys.length - 1]!) / 2, (xs[0]! + xs[xs.length - 1]!) / 2];
  const found = ys.flatMap((y) =>
    xs.map((x) => {
      const coords = fixed.map((at, axis) =>
        axis === down ? y : axis === across ? x : Math.floor(at / chunks[axis]!),
      );
      const origin: [number, number] = [y * chunks[down]!, x * chunks[across]!];
      const size: [number, number] = [
        Math.min(chunks[down]!, shape[down]! - origin[0]),
        Math.min(chunks[across]!, shape[across]! - origin[1]),
      ];
      return { coords, piece: { origin, size, axes }, away: Math.hypot(y - middleY, x - middleX) };
    }),
  );
  return found.sort((one, other) => one.away - other.away);
}

/** Return the place of a plane in the data of a chunk. */
export function planeOffset(
  level: SourceLevel,
  axes: readonly number[],
  index: readonly number[],
  stride: readonly number[],
): number {
  return level.array.shape.reduce((total, length, axis) => {
    if (axes.includes(axis)) return total;
    const at = Math.min(length - 1, Math.floor((index[axis] ?? 0) / (level.factors[axis] ?? 1)));
    return total + (at % level.array.chunks[axis]!) * (stride[axis] ?? 0);
  }, 0);
}
