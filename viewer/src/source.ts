/** An image or line's elements: one array, or the levels of a pyramid. */

import { type NumberArray, openArray } from "./arrays.ts";
import { epoch } from "./calendars.ts";
import { type Meaning, decoded, meaning } from "./cf.ts";
import { readCoordinates } from "./coordinates.ts";
import { isComplex, timeKind } from "./documents.ts";
import type { Node, Nodes } from "./nodes.ts";
import { type Channel, factorsOf } from "./ome.ts";
import type { Server } from "./server.ts";
import type { Part } from "./state.ts";
import { type Coordinates, positions } from "./ticks.ts";

export interface SourceLevel {
  readonly array: NumberArray;
  readonly factors: readonly number[];
}

export interface Source {
  readonly node: Node;
  readonly shape: readonly number[];
  readonly levels: readonly SourceLevel[];
  readonly coordinates: Coordinates[];
  /** The axis of channels that are shown together, and the channels; `null` if the image does not say how. */
  readonly channels: { readonly axis: number; readonly list: readonly Channel[] } | null;
  /** The fill value, if it is a number that may mark missing elements. */
  readonly fill: number | undefined;
  /** Whether the fill value looks like a mark of missing elements. */
  readonly marksMissing: boolean;
  readonly meaning: (fill: boolean) => Meaning;
}

const PLAIN = meaning(null, {});

/** Open what an array or a pyramid shows; `null` if it has no numbers. */
export async function openSource(server: Server, nodes: Nodes, node: Node, part: Part): Promise<Source | null> {
  const levels = node.pyramid === null ? await single(server, node, part) : await levelsOf(server, nodes, node, part);
  const first = levels?.[0]?.array;
  if (levels === null || first === undefined) return null;
  const { fill, attributes, shape } = first;
  const about = node.pyramid === null ? node.listing : await nodes.listing(first.path);
  const conventions = about.conventions ?? null;
  const complex = node.document !== null && isComplex(node.document);
  const date = node.document !== null && timeKind(node.document) === "date";
  const says = (withFill: boolean): Meaning => {
    const found = meaning(conventions, attributes, withFill ? fill : undefined);
    if (complex) return { ...PLAIN, title: found.title, units: part === "phase" ? "rad" : found.units };
    return date ? { ...found, time: epoch("seconds since 1970-01-01", "proleptic_gregorian") } : found;
  };
  const names = node.pyramid?.axes.map((axis) => axis.name) ?? node.document?.dimension_names ?? [];
  return {
    node,
    shape,
    levels,
    channels: channelsOf(node, shape),
    coordinates: shape.map(
      (length, axis) =>
        sized(node, axis, length) ?? named(node, axis, shape) ?? positions(names[axis] || `axis ${axis}`),
    ),
    fill: fill === undefined || Number.isNaN(fill) || complex || conventions?.missing.length ? undefined : fill,
    marksMissing: fill !== undefined && !Number.isNaN(fill) && fill !== 0 && !conventions?.missing.length && !complex,
    meaning: says,
  };
}

/** Read the coordinates of all axes; `arrived` is called for each. */
export function nameAxes(server: Server, nodes: Nodes, source: Source, arrived: () => void): void {
  const names = source.node.document?.dimension_names ?? [];
  source.shape.forEach((length, axis) => {
    if (source.node.pyramid !== null) return;
    void readCoordinates(server, nodes, source.node.path, names[axis], axis, length).then((found) => {
      source.coordinates[axis] = found;
      arrived();
    });
  });
}

/** Return a function from stored elements to their values, NaN for missing ones. */
export function decoder(of: Meaning): (stored: number) => number {
  const plain = of.missing.length === 0 && of.wrap === 0 && of.scale === 1 && of.offset === 0;
  if (plain) return (stored) => stored;
  return (stored) => decoded(stored, of);
}

async function single(server: Server, node: Node, part: Part): Promise<SourceLevel[] | null> {
  if (node.document === null) return null;
  const array = await openArray(server, node.path, node.document, part);
  return [{ array, factors: array.shape.map(() => 1) }];
}

async function levelsOf(server: Server, nodes: Nodes, node: Node, part: Part): Promise<SourceLevel[] | null> {
  const prefix = node.path === "" ? "" : `${node.path}/`;
  const arrays = await Promise.all(
    node.pyramid!.levels.map(async ({ path }) => {
      const document = await nodes.document(prefix + path);
      if (document === null) throw new Error(`the pyramid names ${prefix}${path}, which is no array`);
      return openArray(server, prefix + path, document, part);
    }),
  );
  const base = arrays[0]!.shape;
  return arrays.map((array, at) => ({ array, factors: factorsOf(node.pyramid!.levels[at]!, array.shape, base) }));
}

function channelsOf(node: Node, shape: readonly number[]): Source["channels"] {
  const list = node.pyramid?.channels ?? [];
  const axis = node.pyramid?.axes.findIndex(({ type, name }) => type === "channel" || (type === "" && name === "c"));
  return axis === undefined || axis < 0 || list.length === 0 || shape[axis]! < list.length ? null : { axis, list };
}

/** Return the names of channels as coordinates. */
function named(node: Node, axis: number, shape: readonly number[]): Coordinates | null {
  const channels = channelsOf(node, shape);
  if (channels?.axis !== axis || channels.list.length !== shape[axis]) return null;
  return { ...positions(node.pyramid!.axes[axis]!.name), labels: channels.list.map(({ name }) => name) };
}

/** Return the coordinates of an axis of a pyramid whose elements have a size. */
function sized(node: Node, axis: number, length: number): Coordinates | null {
  const { axes, sizes, starts } = node.pyramid ?? { axes: [], sizes: [], starts: [] };
  const [about, size, start] = [axes[axis], sizes[axis], starts[axis] ?? 0];
  if (about === undefined || size === undefined || about.type !== "space" || length > 200_000) return null;
  const values = Float64Array.from({ length }, (_, at) => start + at * size);
  return { name: about.name, units: about.unit, values, labels: null, time: null, up: false };
}
