/** What a view of an image costs in memory. */

import { product } from "./format.ts";
import type { Source } from "./source.ts";
import type { Size, Viewport } from "./viewport.ts";

export const MOST_BYTES = 512 * 2 ** 20; // decoded chunks of one view that are read unasked
export const MOST_CHUNKS = 2048;

/** Return how many bytes of decoded chunks a view of one plane shows, about; or of the planes along an axis. */
function cost(
  source: Source,
  chosen: number,
  axes: readonly [number, number],
  view: Viewport,
  area: Size,
  through: number | null,
): number {
  const { array, factors } = source.levels[chosen]!;
  const [down, across] = axes;
  const along = (axis: number, pixels: number, scale: number): number =>
    Math.min(array.shape[axis]!, pixels / scale / (factors[axis] ?? 1)) / array.chunks[axis]! + 1;
  const depth = through === null ? 1 : Math.ceil(array.shape[through]! / array.chunks[through]!);
  const plane = along(down, area.height, view.scaleY) * along(across, area.width, view.scaleX);
  return plane * depth * product(array.chunks) * array.itemsize;
}

/** Return the whole view, or its middle part if it would take too much memory. */
export function affordable(
  source: Source,
  whole: Viewport,
  axes: readonly [number, number],
  area: Size,
  levelFor: (view: Viewport) => number,
  through: number | null,
): Viewport {
  let view = whole;
  while (view.scaleX < 1 && cost(source, levelFor(view), axes, view, area, through) > MOST_BYTES / 2) {
    const [scaleX, scaleY] = [view.scaleX * 2, view.scaleY * 2];
    view = { x: view.x + area.width / scaleX / 2, y: view.y + area.height / scaleY / 2, scaleX, scaleY };
  }
  return view;
}
