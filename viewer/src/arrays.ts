/** Arrays opened for reading chunk by chunk, through the interface that other programs use. */

import * as zarr from "zarrita";
import type { Attributes } from "./cf.ts";
import { compareChecksums } from "./checksums.ts";
import type { Chunk, Request } from "./chunks.ts";
import { type Document, castFor, isComplex, typeName } from "./documents.ts";
import { product } from "./format.ts";
import { parseNpy } from "./npy.ts";
import { type Server, escaped } from "./server.ts";
import type { Part } from "./state.ts";

compareChecksums();

/** An array whose elements are numbers. */
export interface NumberArray {
  readonly path: string;
  readonly shape: readonly number[];
  readonly chunks: readonly number[];
  readonly itemsize: number;
  readonly attributes: Attributes;
  readonly fill: number | undefined;
  request(coords: readonly number[]): Request;
}

/** The values below one array on the server; zarrita sees it as a store of its own. */
class ArrayStore {
  private readonly prefix: string;
  private readonly document: Uint8Array;
  private readonly server: Server;

  constructor(server: Server, prefix: string, document: Document) {
    this.server = server;
    this.prefix = prefix;
    this.document = new TextEncoder().encode(JSON.stringify(document));
  }

  async get(key: string, options?: { signal?: AbortSignal }): Promise<Uint8Array | undefined> {
    if (key === "/zarr.json") return this.document;
    const answer = await this.server.maybe(`${this.prefix}${key}`, {}, options?.signal);
    return answer === undefined ? undefined : new Uint8Array(await answer.arrayBuffer());
  }

  async getRange(
    key: string,
    range: { suffixLength: number } | { offset: number; length: number },
    options?: { signal?: AbortSignal },
  ): Promise<Uint8Array | undefined> {
    const suffix = "suffixLength" in range;
    const bytes = suffix ? `-${range.suffixLength}` : `${range.offset}-${range.offset + range.length - 1}`;
    // the index of a shard is shared by all requests for its chunks, so it is read to its end
    const headers = { Range: `bytes=${bytes}` };
    const answer = await this.server.maybe(`${this.prefix}${key}`, headers, suffix ? undefined : options?.signal);
    if (answer === undefined) return undefined;
    const found = new Uint8Array(await answer.arrayBuffer());
    const whole = answer.status !== 206;
    const part = !whole
      ? found
      : suffix
        ? found.subarray(-range.suffixLength)
        : found.subarray(range.offset, range.offset + range.length);
    const wanted = suffix ? range.suffixLength : range.length;
    if (part.length !== wanted) {
      throw new Error(`the shard is too short: there are ${part.length} bytes in the place of ${wanted}`);
    }
    return part;
  }
}

/** Open an array of numbers or times. */
export async function openArray(
  server: Server,
  path: string,
  document: Document,
  part: Part = "magnitude",
): Promise<NumberArray> {
  const cast = isComplex(document) ? part : castFor(document);
  if (document.chunk_grid.name !== "regular" && !isComplex(document)) return byPieces(server, path, document);
  const prefix = cast === null ? escaped(path) : `-/as/${cast}/${escaped(path)}`;
  const shown = cast === null ? document : await server.json<Document>(`${prefix}/zarr.json`);
  const array = await zarr.open.v3(zarr.root(new ArrayStore(server, prefix, shown)), { kind: "array" });
  const fill = array.fillValue as unknown;
  return {
    path,
    shape: array.shape,
    chunks: array.chunks,
    itemsize: sizeOf(array.dtype),
    attributes: document.attributes ?? {},
    fill: fill === null || fill === undefined ? undefined : Number(fill),
    request: (coords) => ({
      key: `${prefix}#${coords.join(",")}`,
      load: async (signal) => converted(await array.getChunk([...coords], { signal })),
    }),
  };
}

/** Open an array whose chunks vary in length: it is read in pieces of one length, which the server cuts. */
function byPieces(server: Server, path: string, document: Document): NumberArray {
  const { shape } = document;
  const chunks = piecesOf(shape);
  const load = async (coords: readonly number[], signal: AbortSignal): Promise<Chunk> => {
    const ranges = coords.map(
      (at, axis) => `${at * chunks[axis]!}:${Math.min(shape[axis]!, (at + 1) * chunks[axis]!)}`,
    );
    const query = { selection: ranges.join(","), format: "npy" };
    const answer = await server.get(server.url(`-/values/${escaped(path)}`, query), {}, signal);
    const found = parseNpy(await answer.arrayBuffer());
    const stride = found.shape.map((_, axis) => product(found.shape.slice(axis + 1)));
    return { data: found.data, shape: found.shape, stride, bytes: found.data.byteLength };
  };
  return {
    path,
    shape,
    chunks,
    itemsize: sizeOf(typeName(document)),
    attributes: document.attributes ?? {},
    fill: typeof document.fill_value === "number" ? document.fill_value : undefined,
    request: (coords) => ({ key: `${escaped(path)}#${coords.join(",")}`, load: (signal) => load(coords, signal) }),
  };
}

/** Return the shape of pieces of some hundred thousand elements, longest along the last axes. */
function piecesOf(shape: readonly number[]): number[] {
  let left = 2 ** 18;
  const found = shape.map(() => 1);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const most = axis === shape.length - 1 ? 512 : left;
    found[axis] = Math.max(1, Math.min(shape[axis]!, most, left));
    left = Math.floor(left / found[axis]!);
  }
  return found;
}

function sizeOf(dtype: string): number {
  return Number(/\d+$/.exec(dtype)?.[0] ?? 8) / 8;
}

function converted(chunk: { data: unknown; shape: number[]; stride: number[] }): Chunk {
  const data = plain(chunk.data);
  return { data, shape: chunk.shape, stride: chunk.stride, bytes: data.byteLength };
}

/** Return elements that are numbers to JavaScript; integers above 2**53 lose their last digits. */
function plain(data: unknown): ArrayLike<number> & { byteLength: number } {
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float64Array.from(data, Number);
  if (ArrayBuffer.isView(data)) return data as Float64Array;
  const flags = data as { buffer: ArrayBuffer; byteOffset: number; length: number };
  return new Uint8Array(flags.buffer, flags.byteOffset, flags.length);
}
