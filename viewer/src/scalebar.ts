/** A bar of a round physical length, in images whose elements have a size. */

import type { Box } from "./axes.ts";
import { svg } from "./dom.ts";
import type { Coordinates } from "./ticks.ts";

const METRES: Readonly<Record<string, number>> = {
  angstrom: 1e-10,
  nanometer: 1e-9,
  nm: 1e-9,
  micrometer: 1e-6,
  micron: 1e-6,
  um: 1e-6,
  µm: 1e-6,
  millimeter: 1e-3,
  mm: 1e-3,
  centimeter: 1e-2,
  cm: 1e-2,
  meter: 1,
  metre: 1,
  metres: 1,
  m: 1,
  kilometer: 1e3,
  km: 1e3,
};
const SHOWN: readonly (readonly [number, string])[] = [
  [1e3, "km"],
  [1, "m"],
  [1e-3, "mm"],
  [1e-6, "µm"],
  [1e-9, "nm"],
];
const LONGEST = 120; // pixels

/** Return the metres from one element to the next; `null` if an axis has no lengths, or uneven ones. */
function metres({ units, values }: Coordinates): number | null {
  const unit = METRES[units];
  if (unit === undefined || values === null || values.length < 2) return null;
  const step = (values[values.length - 1]! - values[0]!) / (values.length - 1);
  const even = Math.abs(values[1]! - values[0]! - step) <= 1e-3 * Math.abs(step);
  return even && step !== 0 ? Math.abs(step) * unit : null;
}

/** Return a length of 1, 2 or 5 times a power of ten, at most `most` metres, and how people write it. */
export function roundLength(most: number): { readonly length: number; readonly text: string } {
  const power = 10 ** Math.floor(Math.log10(most) + 1e-9);
  const length = power * ([5, 2].find((factor) => factor * power <= most * (1 + 1e-9)) ?? 1);
  const [unit, name] = SHOWN.find(([size]) => length >= size * (1 - 1e-9)) ?? SHOWN[SHOWN.length - 1]!;
  return { length, text: `${Number((length / unit).toPrecision(6))} ${name}` };
}

/** Draw a bar in the lower corner of an image of two lengths; `scale` is the pixels of an element across. */
export function scaleBar(box: Box, down: Coordinates, across: Coordinates, scale: number): SVGElement[] {
  const size = metres(across);
  if (size === null || metres(down) === null) return [];
  const { length, text } = roundLength((Math.min(LONGEST, box.width / 2) / scale) * size);
  const wide = (length / size) * scale;
  const [x, y] = [box.left + 14, box.top + box.height - 14];
  return [
    svg(
      "g",
      { class: "scale" },
      svg("path", { class: "under", d: `M${x} ${y}h${wide}` }),
      svg("path", { d: `M${x} ${y}h${wide}` }),
      svg("text", { x: x + wide / 2, y: y - 8, "text-anchor": "middle" }, text),
    ),
  ];
}
