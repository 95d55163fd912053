/** Coordinates of the axes of an array: arrays beside it that are named as its dimensions. */

import { openArray } from "./arrays.ts";
import { epoch } from "./calendars.ts";
import { decoded, meaning, pointsUp } from "./cf.ts";
import { type Document, isNumeric, timeKind } from "./documents.ts";
import type { Nodes } from "./nodes.ts";
import { type Member, type Server, escaped } from "./server.ts";
import { type Coordinates, positions } from "./ticks.ts";

const MOST = 200_000; // elements that are read to name positions

/** Read the coordinates of one dimension of the array at a path, here or in a group above it. */
export async function readCoordinates(
  server: Server,
  nodes: Nodes,
  path: string,
  name: string | null | undefined,
  axis: number,
  length: number,
): Promise<Coordinates> {
  const plain = positions(name ?? `axis ${axis}`);
  if (!name || length > MOST) return plain;
  for (let group = parent(path); group !== null; group = parent(group)) {
    const listing = await nodes.listing(group).catch(() => null);
    const found = listing?.members.find((member) => member.name === name && member.kind === "array");
    const suits = found?.shape?.length === 1 && found.shape[0] === length;
    if (!suits || (listing?.kind === "table" && group !== path)) continue;
    const at = group === "" ? name : `${group}/${name}`;
    if (at === path) return plain;
    return (await read(server, nodes, at, found!).catch(() => null)) ?? plain;
  }
  return plain;
}

function parent(path: string): string | null {
  if (path === "") return null;
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

async function read(server: Server, nodes: Nodes, path: string, member: Member): Promise<Coordinates | null> {
  const document = await nodes.document(path);
  if (document === null) return null;
  if (isNumeric(document)) return numeric(server, path, member, document);
  const labels = await server.json<{ values?: unknown[] } | unknown[]>(`-/values/${escaped(path)}`, { format: "json" });
  const values = Array.isArray(labels) ? labels : (labels.values ?? []);
  return { name: member.name, units: "", values: null, labels: values.map(String), time: null, up: false };
}

async function numeric(server: Server, path: string, member: Member, document: Document): Promise<Coordinates> {
  const array = await openArray(server, path, document);
  const says = meaning(member.conventions, array.attributes);
  const [length, size] = [array.shape[0]!, array.chunks[0]!];
  const values = new Float64Array(length);
  const never = new AbortController().signal;
  await Promise.all(
    Array.from({ length: Math.ceil(length / size) }, async (_, at) => {
      const { data } = await array.request([at]).load(never);
      for (let inside = 0; inside < size && at * size + inside < length; inside++) {
        values[at * size + inside] = decoded(data[inside]!, says);
      }
    }),
  );
  const date = timeKind(document) === "date";
  const time = date ? epoch("seconds since 1970-01-01", "proleptic_gregorian") : says.time;
  return {
    name: member.name,
    units: time === null ? says.units : "",
    values,
    labels: null,
    time,
    up: pointsUp(array.attributes, values),
  };
}
