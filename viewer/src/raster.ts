/** The pixels of a plane: the value of the element that each one shows. */

import type { Chunk } from "./chunks.ts";

export const [EMPTY, VALUE, MISSING, FAILED] = [0, 1, 2, 3] as const;

export interface Raster {
  readonly width: number;
  readonly height: number;
  readonly values: Float64Array;
  readonly states: Uint8Array;
}

/** Return a raster without values. */
export function raster(width: number, height: number): Raster {
  return { width, height, values: new Float64Array(width * height), states: new Uint8Array(width * height) };
}

/** Return the pixel below a point, with `ratio` pixels per unit of its place. */
export function pixelAt({ width, height }: Raster, at: { x: number; y: number }, ratio: number): number {
  return Math.min(height - 1, Math.floor(at.y * ratio)) * width + Math.min(width - 1, Math.floor(at.x * ratio));
}

/**
 * Return the element that each pixel along an axis shows, −1 outside of the array.
 *
 * Positions are elements of the first level of a pyramid, of which `factor` make one element of this level. `flipped`
 * axes begin at the far edge.
 */
export function elements(
  start: number,
  scale: number,
  pixels: number,
  length: number,
  factor = 1,
  whole = length,
  flipped = false,
): Float64Array {
  return Float64Array.from({ length: pixels }, (_, pixel) => {
    const at = start + (pixel + 0.5) / scale;
    if (at < 0 || at >= whole) return -1;
    const element = Math.min(length - 1, Math.floor((flipped ? whole - 1 - Math.floor(at) : at) / factor));
    return Math.max(0, element);
  });
}

/** Return the chunks along one axis that pixels show, in order. */
export function chunksAlong(shown: Float64Array, chunk: number): number[] {
  const found = new Set<number>();
  for (const element of shown) if (element >= 0) found.add(Math.floor(element / chunk));
  return [...found].sort((one, other) => one - other);
}

export interface Piece {
  /** First element of the chunk down and across. */
  readonly origin: readonly [number, number];
  /** Number of elements of the chunk that belong to the array, down and across. */
  readonly size: readonly [number, number];
  /** Axes down and across. */
  readonly axes: readonly [number, number];
}

function inside(shown: Float64Array, first: number, count: number): [number[], number[]] {
  const pixels: number[] = [];
  const elements: number[] = [];
  shown.forEach((element, pixel) => {
    if (element >= first && element < first + count) {
      pixels.push(pixel);
      elements.push(element - first);
    }
  });
  return [pixels, elements];
}

/** Put the elements of one chunk into the pixels that show them, from `offset` of its data on; NaN is missing. */
export function draw(
  into: Raster,
  rows: Float64Array,
  columns: Float64Array,
  chunk: Chunk,
  piece: Piece,
  offset: number,
  decode: (stored: number) => number,
): void {
  const [down, ys] = inside(rows, piece.origin[0], piece.size[0]);
  const [across, xs] = inside(columns, piece.origin[1], piece.size[1]);
  const strideY = chunk.stride[piece.axes[0]] ?? 0;
  const strideX = chunk.stride[piece.axes[1]] ?? 0;
  const places = xs.map((x) => x * strideX);
  const { values, states, width } = into;
  const { data } = chunk;
  let any = false;
  for (let row = 0; row < down.length; row++) {
    const from = offset + ys[row]! * strideY;
    const to = down[row]! * width;
    for (let column = 0; column < across.length; column++) {
      const value = decode(data[from + places[column]!]!);
      const pixel = to + across[column]!;
      values[pixel] = value;
      const found = value === value;
      states[pixel] = found ? VALUE : MISSING;
      any ||= found;
    }
  }
  const skips = down.length < piece.size[0] || across.length < piece.size[1];
  if (any || !skips || down.length > piece.size[0] || across.length > piece.size[1]) return;
  // no pixel shows a value, but elements between those that pixels show may have one
  const [rowOf, columnOf] = [nearest(down, ys, piece.size[0]), nearest(across, xs, piece.size[1])];
  for (let y = 0; y < rowOf.length; y++) {
    if (rowOf[y]! < 0) continue;
    for (let x = 0; x < columnOf.length; x++) {
      const value = decode(data[offset + y * strideY + x * strideX]!);
      if (value !== value || columnOf[x]! < 0) continue;
      spot(into, rowOf[y]!, columnOf[x]!, value);
    }
  }
}

/** Put a value into a pixel, and into those around it that have none: one pixel is hard to see. */
function spot(into: Raster, row: number, column: number, value: number): void {
  const { values, states, width, height } = into;
  for (let y = Math.max(0, row - 1); y <= Math.min(height - 1, row + 1); y++) {
    for (let x = Math.max(0, column - 1); x <= Math.min(width - 1, column + 1); x++) {
      const pixel = y * width + x;
      if (states[pixel] !== MISSING && (y !== row || x !== column)) continue;
      values[pixel] = value;
      states[pixel] = VALUE;
    }
  }
}

/** Return the pixel nearest to each of `count` elements, of which `elements` are shown; −1 for those out of sight. */
function nearest(pixels: readonly number[], elements: readonly number[], count: number): Int32Array {
  const found = new Int32Array(count).fill(-1);
  const last = elements.length - 1;
  const step = last > 0 ? Math.abs(elements[last]! - elements[0]!) / last : count;
  elements.forEach((element, at) => {
    const reach = Math.ceil(step / 2);
    for (let near = Math.max(0, element - reach); near <= Math.min(count - 1, element + reach); near++)
      found[near] = pixels[at]!;
  });
  return found;
}

/** Put the greatest of several elements of one chunk into pixels, where these do not show a greater one. */
export function drawGreatest(
  into: Raster,
  rows: Float64Array,
  columns: Float64Array,
  chunk: Chunk,
  piece: Piece,
  offsets: readonly number[],
  decode: (stored: number) => number,
): void {
  const { data } = chunk;
  const { values, states } = into;
  each(into, rows, columns, chunk, piece, (pixel, at) => {
    if (states[pixel] === FAILED) return;
    for (const offset of offsets) {
      const value = decode(data[offset + at]!);
      if (value !== value) {
        if (states[pixel] === EMPTY) states[pixel] = MISSING;
      } else if (states[pixel] !== VALUE || value > values[pixel]!) {
        values[pixel] = value;
        states[pixel] = VALUE;
      }
    }
  });
}

/** Call a function with each pixel that shows a chunk, and the place of its element in the chunk's data. */
function each(
  { width }: Raster,
  rows: Float64Array,
  columns: Float64Array,
  chunk: Chunk,
  piece: Piece,
  put: (pixel: number, at: number) => void,
): void {
  const [down, ys] = inside(rows, piece.origin[0], piece.size[0]);
  const [across, xs] = inside(columns, piece.origin[1], piece.size[1]);
  const strideY = chunk.stride[piece.axes[0]] ?? 0;
  const strideX = chunk.stride[piece.axes[1]] ?? 0;
  const places = xs.map((x) => x * strideX);
  for (let row = 0; row < down.length; row++) {
    const from = ys[row]! * strideY;
    const to = down[row]! * width;
    for (let column = 0; column < across.length; column++) put(to + across[column]!, from + places[column]!);
  }
}

/** Mark the pixels of a chunk that can't be read. */
export function fail(into: Raster, rows: Float64Array, columns: Float64Array, piece: Piece): void {
  const [down] = inside(rows, piece.origin[0], piece.size[0]);
  const [across] = inside(columns, piece.origin[1], piece.size[1]);
  for (const row of down) for (const column of across) into.states[row * into.width + column] = FAILED;
}

/** Take one raster from another of the same size: what is missing in one of them is missing. */
export function subtract(one: Raster, other: Raster): Raster {
  const found = raster(one.width, one.height);
  for (let pixel = 0; pixel < found.states.length; pixel++) {
    const [left, right] = [one.states[pixel]!, other.states[pixel]!];
    const isEmpty = left === EMPTY || right === EMPTY;
    const state = isEmpty ? EMPTY : Math.max(left, right);
    found.states[pixel] = state;
    if (state === VALUE) found.values[pixel] = one.values[pixel]! - other.values[pixel]!;
  }
  return found;
}
