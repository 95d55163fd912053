/** Pyramids of OME-Zarr: levels of one image, each smaller than the one before, and how its channels are shown. */

import { type Colour, parse } from "./colours.ts";
import type { Limits } from "./limits.ts";

export interface Level {
  readonly path: string;
  /** Elements of the first level per element of this one, along each axis. */
  readonly factors: readonly number[];
}

/** One of the channels that are shown together. */
export interface Channel {
  readonly name: string;
  readonly colour: Colour;
  /** The values that are black and of the full colour; `null`: as what is shown has them. */
  readonly window: Limits | null;
  readonly active: boolean;
}

export interface Pyramid {
  readonly name: string;
  readonly channels: readonly Channel[];
  readonly axes: readonly { readonly name: string; readonly type: string; readonly unit: string }[];
  readonly levels: readonly Level[];
  /** Size of an element of the first level along each axis, in the unit of that axis. */
  readonly sizes: readonly number[];
  /** Where its first element lies along each axis. */
  readonly starts: readonly number[];
}

interface Transformation {
  readonly scale?: unknown;
  readonly translation?: unknown;
}

/** Read the first pyramid that the attributes of a group describe (OME-Zarr 0.4, 0.5 and 0.6); `null` if there is none. */
export function pyramid(attributes: Readonly<Record<string, unknown>>): Pyramid | null {
  const inner = attributes.ome;
  const home = isRecord(inner) ? inner : attributes;
  const first = Array.isArray(home.multiscales) ? (home.multiscales[0] as unknown) : undefined;
  if (!isRecord(first) || !Array.isArray(first.datasets) || first.datasets.length === 0) return null;
  const axes = axesOf(first).map((axis: unknown) => {
    if (!isRecord(axis)) return { name: String(axis), type: "", unit: "" };
    return { name: String(axis.name ?? ""), type: String(axis.type ?? ""), unit: String(axis.unit ?? "") };
  });
  const datasets = first.datasets.filter(
    (item): item is Record<string, unknown> => isRecord(item) && typeof item.path === "string",
  );
  const placed = datasets.map((item) => placeOf(item.coordinateTransformations, first.coordinateTransformations));
  const base = placed[0] ?? null;
  const levels = datasets.map((item, at) => ({
    path: item.path as string,
    factors: base === null ? [] : (placed[at]?.sizes.map((size, axis) => size / (base.sizes[axis] ?? 1)) ?? []),
  }));
  if (levels.length === 0) return null;
  const { channels } = isRecord(home.omero) ? home.omero : { channels: null };
  const described = Array.isArray(channels) ? channels.map(channelOf) : [];
  const { sizes, starts } = base ?? { sizes: [], starts: [] };
  return { name: String(first.name ?? ""), channels: described, axes, levels, sizes, starts };
}

const COLOURS = ["00ff00", "ff0000", "0000ff", "ff00ff", "00ffff", "ffff00", "ffffff"];

function channelOf(described: unknown, at: number): Channel {
  const { label, color, window, active } = isRecord(described) ? described : ({} as Record<string, unknown>);
  const hex = /^#?([0-9a-f]{6})/i.exec(String(color ?? ""))?.[1] ?? COLOURS[at % COLOURS.length]!;
  const [low, high] = isRecord(window) ? [window.start ?? window.min, window.end ?? window.max].map(Number) : [];
  const fits = low !== undefined && high !== undefined && low < high;
  return {
    name: typeof label === "string" && label !== "" ? label : `channel ${at}`,
    colour: parse(hex),
    window: fits ? { low, high } : null,
    active: active !== false,
  };
}

/** Return the axes: since 0.6 they belong to coordinate systems, and levels are placed in one of these. */
function axesOf(described: Readonly<Record<string, unknown>>): unknown[] {
  if (Array.isArray(described.axes)) return described.axes;
  const systems = (Array.isArray(described.coordinateSystems) ? described.coordinateSystems : []).filter(isRecord);
  const level: unknown = Array.isArray(described.datasets) ? described.datasets[0] : null;
  const steps: unknown = isRecord(level) ? level.coordinateTransformations : null;
  const step: unknown = Array.isArray(steps) ? steps[0] : null;
  const output: unknown = isRecord(step) ? step.output : null;
  const name: unknown = isRecord(output) ? output.name : output;
  const axes = (systems.find((system) => system.name === name) ?? systems[0])?.axes;
  return Array.isArray(axes) ? axes : [];
}

interface Placed {
  readonly sizes: readonly number[];
  readonly starts: readonly number[];
}

/** Return sizes and places of elements from the transformations of a level, and then of the image; `null` without a scale. */
function placeOf(...lists: readonly unknown[]): Placed | null {
  let found: Placed | null = null;
  for (const { scale, translation } of lists.flatMap((listed) => stepsOf(listed))) {
    if (Array.isArray(scale)) {
      const by = scale.map(Number);
      const { sizes, starts }: Placed = found ?? { sizes: by.map(() => 1), starts: by.map(() => 0) };
      found = {
        sizes: sizes.map((size, axis) => size * (by[axis] ?? 1)),
        starts: starts.map((start, axis) => start * (by[axis] ?? 1)),
      };
    } else if (Array.isArray(translation) && found !== null) {
      const { sizes, starts }: Placed = found;
      found = { sizes, starts: starts.map((start, axis) => start + Number(translation[axis] ?? 0)) };
    }
  }
  return found;
}

/** Return the transformations of a list; since 0.6 they may be in a sequence. */
function stepsOf(listed: unknown): Transformation[] {
  if (!Array.isArray(listed)) return [];
  return listed.filter(isRecord).flatMap((step): Transformation[] => {
    return step.type === "sequence" ? stepsOf(step.transformations) : [step];
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Complete the factors of a level from its shape, where the attributes do not state them. */
export function factorsOf(level: Level, shape: readonly number[], base: readonly number[]): number[] {
  return shape.map((length, axis) => {
    const stated = level.factors[axis];
    return stated !== undefined && stated > 0 && Number.isFinite(stated)
      ? stated
      : Math.max(1, Math.round((base[axis] ?? 1) / length));
  });
}

/** Choose the level to draw: the smallest one that still has an element for each pixel. */
export function choose(factors: readonly (readonly [number, number])[], scaleX: number, scaleY: number): number {
  let best = 0;
  factors.forEach(([down, across], at) => {
    if (across * scaleX <= 1.0001 && down * scaleY <= 1.0001) best = at;
  });
  return best;
}
