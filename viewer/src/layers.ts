/** The planes that an image is put together of: which they are, and their values as they are read. */

import type { Chunk, Loader } from "./chunks.ts";
import type { Channel } from "./ome.ts";
import { type PlaneChunk, planeChunks, planeOffset, planeOffsets } from "./planes.ts";
import { EMPTY, type Raster, draw, drawGreatest, fail, raster } from "./raster.ts";
import type { Source, SourceLevel } from "./source.ts";
import type { State } from "./state.ts";

/** One plane of an array, or the greatest values along an axis. */
export interface Plane {
  readonly index: readonly number[];
  readonly through: number | null;
  /** The channel that it shows, if several are shown together. */
  readonly channel: Channel | null;
}

/** Return the axis along which the greatest values are shown. */
export function throughAxis(source: Source, { axes, through }: State): number | null {
  const fits = through !== null && through < source.shape.length && !axes?.includes(through);
  return fits && through !== source.channels?.axis ? through : null;
}

/** Return whether an image is put together of channels. */
export function isComposite(source: Source, { axes, composite }: State): boolean {
  return composite && source.channels !== null && !axes?.includes(source.channels.axis);
}

/** Return the numbers of the channels that are shown together. */
export function shownChannels(source: Source, { channels }: State): number[] {
  const all = source.channels?.list ?? [];
  return all.flatMap((channel, at) => ((channels?.includes(at) ?? channel.active) ? [at] : []));
}

/** Return the planes of an image. */
export function planesOf(source: Source, state: State): Plane[] {
  const through = throughAxis(source, state);
  if (!isComposite(source, state)) return [{ index: state.index, through, channel: null }];
  const { axis, list } = source.channels!;
  return shownChannels(source, state).map((at) => {
    const index = state.index.map((element, other) => (other === axis ? at : element));
    return { index, through, channel: list[at]! };
  });
}

/** Which elements the pixels of an image show. */
export interface Lookup {
  readonly rows: Float64Array;
  readonly columns: Float64Array;
}

interface Place {
  readonly chunk: PlaneChunk;
  readonly plane: Plane;
  readonly raster: Raster;
}

export class Layers {
  readonly rasters: Raster[] = [];
  private readonly loader: Loader;
  private readonly name: string;

  /** `name` tells its requests from those of others. */
  constructor(loader: Loader, name: string) {
    this.loader = loader;
    this.name = name;
  }

  /** Make an empty raster for each plane. */
  clear(count: number, width: number, height: number): void {
    this.rasters.length = Math.min(this.rasters.length, count);
    for (let at = 0; at < count; at++) {
      const old = this.rasters[at];
      if (old?.width === width && old.height === height) old.states.fill(EMPTY);
      else this.rasters[at] = raster(width, height);
    }
  }

  /** Draw what was read of a level already; returns whether it has pixels. */
  drawKnown(
    level: SourceLevel,
    planes: readonly Plane[],
    axes: readonly [number, number],
    seen: Lookup,
    decode: (stored: number) => number,
  ): boolean {
    const { rows, columns } = seen;
    if (!rows.some((at) => at >= 0) || !columns.some((at) => at >= 0)) return false;
    planes.forEach((plane, at) => {
      // a part of the planes along an axis does not have the greatest values
      if (plane.through !== null) return;
      for (const chunk of planeChunks(level, axes, plane.index, rows, columns)) {
        const found = this.loader.get(level.array.request(chunk.coords).key);
        if (found !== undefined) put(level, axes, seen, { chunk, plane, raster: this.rasters[at]! }, found, decode);
      }
    });
    return true;
  }

  /** Draw and read chunks of all planes; `arrived` is called when more of them are drawn. */
  load(
    level: SourceLevel,
    planes: readonly Plane[],
    chunks: readonly (readonly PlaneChunk[])[],
    axes: readonly [number, number],
    seen: Lookup,
    decode: (stored: number) => number,
    arrived: () => void,
  ): void {
    const places = new Map<string, Place[]>();
    const show = (key: string, place: Place): void => {
      const found = this.loader.get(key);
      if (found !== undefined) put(level, axes, seen, place, found, decode);
      else if (this.loader.error(key) !== undefined) fail(place.raster, seen.rows, seen.columns, place.chunk.piece);
    };
    const requests = planes.flatMap((plane, at) =>
      (chunks[at] ?? []).map((chunk) => {
        const request = level.array.request(chunk.coords);
        const place = { chunk, plane, raster: this.rasters[at]! };
        places.set(request.key, [...(places.get(request.key) ?? []), place]);
        show(request.key, place);
        return request;
      }),
    );
    this.loader.want(this.name, requests, (key) => {
      for (const place of places.get(key) ?? []) show(key, place);
      arrived();
    });
  }
}

function put(
  level: SourceLevel,
  axes: readonly [number, number],
  { rows, columns }: Lookup,
  { chunk, plane, raster: into }: Place,
  found: Chunk,
  decode: (stored: number) => number,
): void {
  const { index, through } = plane;
  if (through === null) {
    draw(into, rows, columns, found, chunk.piece, planeOffset(level, axes, index, found.stride), decode);
    return;
  }
  const offsets = planeOffsets(level, axes, index, { coords: chunk.coords, stride: found.stride }, through);
  drawGreatest(into, rows, columns, found, chunk.piece, offsets, decode);
}
