/** Documents of arrays in Zarr v3, and how the page reads what they describe. */

import type { Attributes } from "./cf.ts";

export interface Codec {
  readonly name: string;
  readonly configuration?: Readonly<Record<string, unknown>>;
}

export interface Document {
  readonly node_type: string;
  readonly shape: readonly number[];
  readonly data_type: string | { readonly name: string; readonly configuration?: Readonly<Record<string, unknown>> };
  readonly chunk_grid: { readonly name: string; readonly configuration: { readonly chunk_shape: readonly number[] } };
  readonly chunk_key_encoding?: Codec | string;
  readonly codecs: readonly (Codec | string)[];
  readonly fill_value: unknown;
  readonly attributes?: Attributes;
  readonly dimension_names?: readonly (string | null)[] | null;
}

const NUMBERS = [
  "bool",
  "int8",
  "int16",
  "int32",
  "int64",
  "uint8",
  "uint16",
  "uint32",
  "uint64",
  "float16",
  "float32",
  "float64",
];
// small floats and integers of machine learning, which browsers have no arrays of
const SMALL = /^(bfloat16|float[4-8]_\w+|u?int[24]|numpy\.ml_dtypes\.\w+)$/;
const CODECS = new Set(
  "bytes blosc lz4 zstd gzip zlib transpose crc32c sharding_indexed numcodecs.blosc numcodecs.lz4 numcodecs.zstd numcodecs.gzip numcodecs.zlib numcodecs.shuffle".split(
    " ",
  ),
);

/** Name the type of elements. */
export function typeName(document: Document): string {
  return typeof document.data_type === "string" ? document.data_type : document.data_type.name;
}

/** Return whether elements are dates or durations of NumPy. */
export function timeKind(document: Document): "date" | "duration" | null {
  const name = typeName(document);
  return name === "numpy.datetime64" ? "date" : name === "numpy.timedelta64" ? "duration" : null;
}

/** Return whether elements are numbers, or are shown as numbers. */
export function isNumeric(document: Document): boolean {
  const name = typeName(document);
  return NUMBERS.includes(name) || SMALL.test(name) || hasSeconds(document) || isComplex(document);
}

/** Return whether elements have a magnitude and a phase. */
export function isComplex(document: Document): boolean {
  return ["complex64", "complex128"].includes(typeName(document));
}

/** Return whether elements are times that can be told in seconds: years and months of durations can't. */
function hasSeconds(document: Document): boolean {
  const kind = timeKind(document);
  const unit = typeof document.data_type === "string" ? "" : String(document.data_type.configuration?.unit ?? "");
  return kind !== null && unit !== "generic" && (kind === "date" || !["Y", "M"].includes(unit));
}

/** Return the type that the server must convert elements to before the page can read them; `null`: as they are. */
export function castFor(document: Document): string | null {
  const name = typeName(document);
  // times become seconds, which have NaN where no time is stated
  if (timeKind(document) !== null) return "float64";
  if (!NUMBERS.includes(name)) return "float32";
  if (name === "float16" && !("Float16Array" in globalThis)) return "float32";
  const plainFill = typeof document.fill_value !== "string" || !document.fill_value.startsWith("0x");
  const keys = document.chunk_key_encoding ?? "default";
  const plainKeys = ["default", "v2"].includes(typeof keys === "string" ? keys : keys.name);
  if (plainFill && plainKeys && document.codecs.every((codec) => isKnown(codec))) return null;
  return name === "bool" ? "uint8" : name === "float16" ? "float32" : name;
}

function isKnown(codec: Codec | string, inShard = false): boolean {
  const { name, configuration = {} } = typeof codec === "string" ? { name: codec } : codec;
  if (!CODECS.has(name)) return false;
  if (name !== "sharding_indexed") return true;
  const inner = [...listed(configuration.codecs), ...listed(configuration.index_codecs)];
  // zarrita looks for the index behind the chunks, and for no shards in shards
  return !inShard && inner.every((each) => isKnown(each, true)) && (configuration.index_location ?? "end") === "end";
}

function listed(codecs: unknown): (Codec | string)[] {
  return Array.isArray(codecs) ? (codecs as Codec[]) : [];
}
