/** Links that download what is shown. */

import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import type { Drawn } from "./image.ts";
import { escaped } from "./server.ts";
import type { Source } from "./source.ts";

/** Return the selection that an image shows, of the array of its level, as the server understands it. */
export function selection(
  drawn: Drawn,
  source: Source,
  axes: readonly [number, number],
  index: readonly number[],
): string {
  const { array, factors } = source.levels[drawn.level]!;
  const range = (shown: Float64Array): string => {
    const inside = shown.filter((at) => at >= 0);
    return inside.length === 0
      ? "0:0"
      : `${Math.min(inside[0]!, inside.at(-1)!)}:${Math.max(inside[0]!, inside.at(-1)!) + 1}`;
  };
  const [down, across] = axes;
  const one = (axis: number): string =>
    String(Math.min(array.shape[axis]! - 1, Math.floor((index[axis] ?? 0) / (factors[axis] ?? 1))));
  return array.shape
    .map((_, axis) => (axis === down ? range(drawn.rows) : axis === across ? range(drawn.columns) : one(axis)))
    .join(",");
}

/** Return a link to a selection as a file. */
export function fileLink(context: Context, path: string, chosen: string, format: string): HTMLAnchorElement {
  const name = `${path.split("/").pop() || "values"}.${format}`;
  const href = context.server.url(`-/values/${escaped(path)}`, { selection: chosen, format }, true);
  return h("a", { class: "button", href, download: name }, format);
}

/** Save a canvas as PNG. */
export function savePicture(canvas: HTMLCanvasElement, name: string): void {
  canvas.toBlob((blob) => {
    if (blob === null) return;
    const url = URL.createObjectURL(blob);
    h("a", { href: url, download: `${name || "image"}.png` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}
