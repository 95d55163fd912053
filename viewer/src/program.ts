/** Programs in Python that read exactly what is shown. */

import type { Shown } from "./downloads.ts";
import type { Listing } from "./server.ts";
import type { Part } from "./state.ts";

export const LIBRARIES = ["tegula", "xarray", "zarr"] as const;
export type Library = (typeof LIBRARIES)[number];

const COMPLEX: Record<Part, (name: string) => string> = {
  magnitude: (name) => `np.abs(${name})`,
  phase: (name) => `np.angle(${name})`,
  real: (name) => `${name}.real`,
  imaginary: (name) => `${name}.imag`,
};

/** An array, and what is shown of it. */
export interface Reading {
  readonly listing: Listing;
  readonly shown: Shown;
  /** A fill value that marks missing elements although no attribute says so. */
  readonly fill: number | null;
  /** What is shown of complex numbers; `null` if the elements are none. */
  readonly part: Part | null;
  /** Whether the axis across comes before the axis down. */
  readonly swapped: boolean;
  /** Whether the arrays of its group are a data set, with coordinates. */
  readonly inDataset: boolean;
}

/** Return a program that makes `values`; of two arrays, their difference. */
export function program(library: Library, one: Reading, other: Reading | null = null): string {
  const both = other === null ? [one] : [one, other];
  const lines = both.map((reading, at) => read(library, reading, other === null ? "values" : `values${at + 1}`));
  const text = lines.join("\n");
  const difference = other === null ? "" : "values = values1 - values2\n";
  return `${imports(text)}\n\n${text}${difference}`;
}

/** Return the imports that a program needs. */
function imports(text: string): string {
  const known: readonly (readonly [RegExp, string])[] = [
    [/\bnp\./, "import numpy as np"],
    [/\btegula\.zarr\./, "import tegula.zarr"],
    [/\btegula\.open/, "import tegula"],
    [/\bxr\./, "import xarray as xr"],
    [/\bzarr\.open/, "import zarr"],
  ];
  return known.flatMap(([pattern, line]) => (pattern.test(text) ? [line] : [])).join("\n");
}

function read(library: Library, reading: Reading, name: string): string {
  const { listing, shown, swapped, part } = reading;
  const [open, one] = { tegula: withTegula, xarray: withXarray, zarr: withZarr }[library](reading);
  const brackets = (channel: string): string =>
    `[${shown.parts.map((part, axis) => (axis === shown.channels?.axis ? channel : part.replace(/^0:(?=$)/, ":"))).join(", ")}]`;
  const first = shown.channels !== null ? `[${one(brackets("c"))} for c in ${list(shown.channels.list)}]` : null;
  const lines = [`${name} = ${first === null ? one(brackets("")) : `np.stack(${first})`}`];
  if (part !== null) lines.push(`${name} = ${COMPLEX[part](name)}`);
  if (shown.through !== null) {
    const before = shown.parts.filter((part, axis) => axis < shown.through! && part.includes(":")).length;
    lines.push(`${name} = np.nanmax(${name}, axis=${before + (first === null ? 0 : 1)})`);
  }
  if (swapped) lines.push(`${name} = np.swapaxes(${name}, -1, -2)`);
  const units = listing.conventions?.units ?? "";
  const dates = library === "zarr" && listing.conventions?.dates ? `  # ${units}` : "";
  return `${open}\n${lines.join("\n")}${dates}\n`;
}

type Way = readonly [string, (brackets: string) => string];

function withTegula({ listing, fill }: Reading): Way {
  const path = listing.stored_path ? `, path=${quoted(listing.stored_path)}` : "";
  const open = `array = tegula.open(${quoted(target(listing.store))}${path}, mode="r")`;
  const decode = (brackets: string): string =>
    listing.conventions ? `array.conventions.decode(array${brackets})` : `array${brackets}`;
  return [open, (brackets) => masked(decode(brackets), `array${brackets}`, fill)];
}

function withXarray({ listing, fill, inDataset }: Reading): Way {
  const path = listing.stored_path ?? "";
  const [parent, last] = [path.split("/").slice(0, -1).join("/"), path.split("/").pop()!];
  const place = inDataset ? parent : path;
  const group = place === "" ? "" : `, group=${quoted(place)}`;
  const open = `data = xr.open_dataset(${quoted(target(listing.store))}, engine="tegula"${group})`;
  const name = quoted(last || "data");
  const { scale = 1, offset = 0 } = listing.conventions ?? {};
  const mark = fill === null ? null : fill * scale + offset;
  return [
    open,
    (brackets) =>
      mark === null
        ? `data[${name}]${brackets}.values`
        : `data[${name}]${brackets}.where(lambda v: v != ${mark}).values`,
  ];
}

function withZarr({ listing, fill }: Reading): Way {
  const path = listing.stored_path ? `path=${quoted(listing.stored_path)}` : "";
  const plain = /^zarr[23]$/.test(listing.format ?? "") && listing.store.startsWith("file://");
  const local = plain && !/\.(zip|ozx)$/i.test(listing.store);
  const place = quoted(target(listing.store)) + (path && `, ${path}`);
  const open = `array = zarr.open_array(${local ? place : `tegula.zarr.store(${place})`}, mode="r")`;
  return [open, (brackets) => decodedByHand(listing, `array${brackets}`, fill)];
}

/** Write what attributes say of stored elements in terms of NumPy. */
function decodedByHand({ conventions }: Listing, read: string, fill: number | null): string {
  if (!conventions) return masked(read, read, fill);
  const stored = conventions.read_as === null ? read : `${read}.view(${quoted(conventions.read_as)})`;
  const masks = conventions.missing.filter((mask) => typeof mask === "number") as number[];
  if (fill !== null) masks.push(fill);
  const scaled = conventions.scale === 1 ? "" : ` * ${conventions.scale}`;
  const moved = conventions.offset === 0 ? "" : ` + ${conventions.offset}`;
  const value = `${stored}${scaled}${moved}`;
  return masks.length === 0 ? value : `np.where(np.isin(${stored}, ${list(masks)}), np.nan, ${value})`;
}

function masked(value: string, stored: string, fill: number | null): string {
  return fill === null ? value : `np.where(${stored} == ${fill}, np.nan, ${value})`;
}

function list(numbers: readonly number[]): string {
  return `[${numbers.join(", ")}]`;
}

/** Write local files as paths. */
function target(url: string): string {
  if (!url.startsWith("file://")) return url;
  return decodeURIComponent(url.slice("file://".length)).replace(/^\/(?=[A-Za-z]:)/, "");
}

/** Write text as Python reads it: its escapes are those of JSON. */
function quoted(text: string): string {
  return JSON.stringify(text);
}
