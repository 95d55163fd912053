/** A picture of the grid of chunks, with shards and their inner chunks. */

import { svg } from "./dom.ts";
import { grouped } from "./format.ts";

const [WIDE, HIGH] = [250, 150] as const;
const MOST_LINES = 48;

/** Draw the grid of the last two axes; more axes stand behind it. */
export function chunkGrid(
  shape: readonly number[],
  chunks: readonly number[],
  shards: readonly number[] | null,
): SVGElement | null {
  if (shape.length === 0 || shape.some((length) => length === 0)) return null;
  const down = shape.length > 1 ? shape.length - 2 : null;
  const across = shape.length - 1;
  const lengthX = shape[across]!;
  const lengthY = down === null ? Math.max(1, lengthX / 8) : shape[down]!;
  const ratio = Math.min(4, Math.max(1 / 3, lengthX / lengthY));
  const width = Math.min(WIDE, HIGH * ratio);
  const height = width / ratio;
  const behind = shape
    .slice(0, Math.max(0, shape.length - 2))
    .reduce((total, length, axis) => total * Math.ceil(length / (shards ?? chunks)[axis]!), 1);
  const layers = Math.min(4, behind);
  const [left, top] = [56, 8 + 5 * (layers - 1)];
  const parts: SVGElement[] = [];
  for (let layer = layers - 1; layer > 0; layer--) {
    parts.push(svg("rect", { class: "layer", x: left + 5 * layer, y: top - 5 * layer, width, height }));
  }
  parts.push(svg("rect", { class: "front", x: left, y: top, width, height }));
  const lines = (sizes: readonly number[], kind: string): void => {
    const countX = Math.ceil(lengthX / sizes[across]!);
    const countY = down === null ? 1 : Math.ceil(lengthY / sizes[down]!);
    if (countX > 1)
      parts.push(
        ...rules(
          countX,
          (at) => `M${left + Math.min(1, (at * sizes[across]!) / lengthX) * width} ${top}v${height}`,
          kind,
        ),
      );
    if (down !== null && countY > 1)
      parts.push(
        ...rules(
          countY,
          (at) => `M${left} ${top + Math.min(1, (at * sizes[down]!) / lengthY) * height}h${width}`,
          kind,
        ),
      );
  };
  lines(chunks, shards === null ? "whole" : "inner");
  if (shards !== null) lines(shards, "whole");
  parts.push(svg("text", { x: left + width / 2, y: top + height + 15, "text-anchor": "middle" }, grouped(lengthX)));
  if (down !== null)
    parts.push(svg("text", { x: left - 7, y: top + height / 2 + 4, "text-anchor": "end" }, grouped(lengthY)));
  const [totalX, totalY] = [left + width + 5 * layers + 4, top + height + 22];
  const picture = svg(
    "svg",
    { class: "grid", viewBox: `0 0 ${totalX} ${totalY}`, width: totalX, height: totalY, role: "img" },
    ...parts,
  );
  picture.setAttribute(
    "aria-label",
    `Chunk grid: ${shape.map((length, axis) => Math.ceil(length / chunks[axis]!)).join(" × ")} chunks`,
  );
  return picture;
}

/** Return the lines between `count` chunks, or a fine shade if there are more than can be told apart. */
function rules(count: number, path: (at: number) => string, kind: string): SVGElement[] {
  const step = Math.ceil(count / MOST_LINES);
  const data: string[] = [];
  for (let at = step; at < count; at += step) data.push(path(at));
  return [svg("path", { class: step > 1 ? `${kind} dense` : kind, d: data.join("") })];
}
