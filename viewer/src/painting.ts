/** The colours of pixels: values by a colour map, or channels as light that is added up. */

import { type Colour, level } from "./colours.ts";
import type { Limits } from "./limits.ts";
import { type Norm, spread } from "./norms.ts";
import { EMPTY, FAILED, type Raster, VALUE } from "./raster.ts";

const GREYS = { light: [236, 214], dark: [38, 58] } as const;

/** Colour the pixels. Missing elements are a pattern of greys, chunks that can't be read one with red. */
export function paint(
  from: Raster,
  into: Uint8ClampedArray,
  colours: Uint8Array,
  limits: Limits,
  dark: boolean,
  norm: Norm = "linear",
): void {
  const { values, states } = from;
  const { to } = spread(norm, limits);
  const [low, high] = [to(limits.low), to(limits.high)];
  const even = norm === "linear";
  for (let pixel = 0, at = 0; pixel < values.length; pixel++, at += 4) {
    if (states[pixel] === VALUE) {
      const value = values[pixel]!;
      const base = 3 * level(even ? value : to(value), low, high);
      into[at] = colours[base]!;
      into[at + 1] = colours[base + 1]!;
      into[at + 2] = colours[base + 2]!;
    } else hatch(from, into, pixel, states[pixel]!, dark);
    into[at + 3] = states[pixel] === EMPTY ? 0 : 255;
  }
}

/** What is shown of one channel: its values, and the colour of those at the upper limit. */
export interface Light {
  readonly raster: Raster;
  readonly colour: Colour;
  readonly limits: Limits;
}

/** Add up channels: each has its colour at the upper limit, and none at the lower one. */
export function paintLights(lights: readonly Light[], into: Uint8ClampedArray, dark: boolean): void {
  const first = lights[0];
  if (first === undefined) {
    into.fill(0);
    return;
  }
  for (let pixel = 0, at = 0; pixel < first.raster.states.length; pixel++, at += 4) {
    let [red, green, blue, worst, least] = [0, 0, 0, EMPTY as number, FAILED as number];
    for (const { raster, colour, limits } of lights) {
      const state = raster.states[pixel]!;
      worst = Math.max(worst, state);
      least = Math.min(least, state);
      if (state !== VALUE) continue;
      const share = level(raster.values[pixel]!, limits.low, limits.high) / 255;
      red += share * colour[0];
      green += share * colour[1];
      blue += share * colour[2];
    }
    // an element that is missing in some channels only is shown by the others
    if (worst === FAILED || (least > VALUE && worst > VALUE)) hatch(first.raster, into, pixel, worst, dark);
    else {
      into[at] = red;
      into[at + 1] = green;
      into[at + 2] = blue;
    }
    into[at + 3] = worst === EMPTY ? 0 : 255;
  }
}

function hatch({ width }: Raster, into: Uint8ClampedArray, pixel: number, state: number, dark: boolean): void {
  const at = 4 * pixel;
  const column = pixel % width;
  const striped = ((column + (pixel - column) / width) >> 2) & 1;
  const isRed = state === FAILED && striped;
  const grey = GREYS[dark ? "dark" : "light"][striped]!;
  into[at] = isRed ? 200 : grey;
  into[at + 1] = into[at + 2] = isRed ? 30 : grey;
}
