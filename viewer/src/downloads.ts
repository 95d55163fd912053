/** What is shown as a selection of an array, and links to it as a file. */

import type { Context } from "./context.ts";
import { h } from "./dom.ts";
import type { Drawn } from "./image.ts";
import { escaped } from "./server.ts";
import type { Source } from "./source.ts";

/** What is selected of each axis of an array, as between the brackets of Python; of channels the numbers of all. */
export interface Shown {
  readonly parts: readonly string[];
  /** The axis whose greatest values are shown. */
  readonly through: number | null;
  /** The axis of channels that are shown together, and their numbers. */
  readonly channels: { readonly axis: number; readonly list: readonly number[] } | null;
}

/** Return what an image shows of the array of its level. */
export function shownOf(
  drawn: Drawn,
  source: Source,
  axes: readonly [number, number],
  index: readonly number[],
): Shown {
  const { array, factors } = source.levels[drawn.level]!;
  const range = (shown: Float64Array): string => {
    const inside = shown.filter((at) => at >= 0);
    const ends = [inside[0]!, inside.at(-1)!];
    return inside.length === 0 ? "0:0" : `${Math.min(...ends)}:${Math.max(...ends) + 1}`;
  };
  const [down, across] = axes;
  const through = drawn.planes[0]?.through ?? null;
  const list = drawn.planes.flatMap(({ channel, index: at }) =>
    channel === null ? [] : [at[source.channels!.axis] ?? 0],
  );
  const one = (axis: number): string =>
    String(Math.min(array.shape[axis]! - 1, Math.floor((index[axis] ?? 0) / (factors[axis] ?? 1))));
  const parts = array.shape.map((length, axis) =>
    axis === down
      ? range(drawn.rows)
      : axis === across
        ? range(drawn.columns)
        : axis === through
          ? `0:${length}`
          : one(axis),
  );
  return { parts, through, channels: list.length === 0 ? null : { axis: source.channels!.axis, list } };
}

/** Return one selection of all that is shown: with all channels from the first to the last. */
function selection({ parts, channels }: Shown): string {
  const ends = channels && `${Math.min(...channels.list)}:${Math.max(...channels.list) + 1}`;
  return parts.map((part, axis) => (axis === channels?.axis ? ends! : part)).join(",");
}

/** What the server is asked for: a selection, of which the greatest elements along an axis may be meant. */
export type Asked = { readonly selection: string; readonly through?: string };

/** Return what is shown as the server is asked for it. */
export function asked(shown: Shown): Asked {
  const { through } = shown;
  return { selection: selection(shown), ...(through === null ? {} : { through: String(through) }) };
}

/** Return a link to what is shown as a file; csv has decoded values, with coordinates as heads. */
export function fileLink(context: Context, path: string, what: Asked, format: string): HTMLAnchorElement {
  const name = `${path.split("/").pop() || "values"}.${format}`;
  const query = { ...what, format, ...(format === "csv" ? { heads: "1" } : {}) };
  const href = context.server.url(`-/values/${escaped(path)}`, query, true);
  return h("a", { class: "button", href, download: name }, format);
}
