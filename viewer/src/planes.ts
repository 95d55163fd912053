/** Which chunks a plane of an array shows, or the planes along an axis, and where they lie in it. */

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
 * `index` holds, for every axis that the plane does not have, the element of the first level that is shown; of the axis
 * `through` all elements are.
 */
export function planeChunks(
  level: SourceLevel,
  axes: readonly [number, number],
  index: readonly number[],
  rows: Float64Array,
  columns: Float64Array,
  through: number | null = null,
): PlaneChunk[] {
  const { shape, chunks } = level.array;
  const [down, across] = axes;
  const fixed = shape.map((length, axis) =>
    Math.min(length - 1, Math.floor((index[axis] ?? 0) / (level.factors[axis] ?? 1))),
  );
  const [ys, xs] = [chunksAlong(rows, chunks[down]!), chunksAlong(columns, chunks[across]!)];
  const [middleY, middleX] = [(ys[0]! + ys[ys.length - 1]!) / 2, (xs[0]! + xs[xs.length - 1]!) / 2];
  const depth = through === null ? 1 : Math.ceil(shape[through]! / chunks[through]!);
  const found = ys.flatMap((y) =>
    Array.from({ length: xs.length * depth }, (_, at) => {
      const [x, layer] = [xs[Math.floor(at / depth)]!, at % depth];
      const coords = fixed.map((element, axis) =>
        axis === down ? y : axis === across ? x : axis === through ? layer : Math.floor(element / chunks[axis]!),
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

/** Return the places of all planes along an axis in the data of a chunk. */
export function planeOffsets(
  level: SourceLevel,
  axes: readonly number[],
  index: readonly number[],
  chunk: { readonly coords: readonly number[]; readonly stride: readonly number[] },
  through: number,
): number[] {
  const base = planeOffset(level, [...axes, through], index, chunk.stride);
  const size = level.array.chunks[through]!;
  const length = Math.min(size, level.array.shape[through]! - chunk.coords[through]! * size);
  return Array.from({ length }, (_, at) => base + at * (chunk.stride[through] ?? 0));
}
