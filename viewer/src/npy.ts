/** Files of NumPy (.npy), as the server sends selections. */

const TYPES: Record<string, (buffer: ArrayBuffer) => ArrayLike<number> & { byteLength: number }> = {
  b1: (buffer) => new Uint8Array(buffer),
  i1: (buffer) => new Int8Array(buffer),
  u1: (buffer) => new Uint8Array(buffer),
  i2: (buffer) => new Int16Array(buffer),
  u2: (buffer) => new Uint16Array(buffer),
  i4: (buffer) => new Int32Array(buffer),
  u4: (buffer) => new Uint32Array(buffer),
  i8: (buffer) => Float64Array.from(new BigInt64Array(buffer), Number),
  u8: (buffer) => Float64Array.from(new BigUint64Array(buffer), Number),
  f4: (buffer) => new Float32Array(buffer),
  f8: (buffer) => new Float64Array(buffer),
};

/** Read a file in C order with numbers of the usual types. */
export function parseNpy(bytes: ArrayBuffer): { data: ArrayLike<number> & { byteLength: number }; shape: number[] } {
  const view = new DataView(bytes);
  const wide = view.getUint8(6) >= 2;
  const start = (wide ? 12 : 10) + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder("latin1").decode(bytes.slice(wide ? 12 : 10, start));
  const found = /'descr': *'([<>|=])(\w+)'.*'fortran_order': *(True|False).*'shape': *\(([^)]*)\)/.exec(header);
  const make = found === null ? undefined : TYPES[found[2]!];
  if (found === null || make === undefined || found[3] === "True")
    throw new Error(`the page does not read files of NumPy with ${header.trim()}`);
  const body = bytes.slice(start);
  if (found[1] === ">") swap(body, Number(found[2]!.slice(1)));
  return {
    data: make(body),
    shape: found[4]!
      .split(",")
      .map((part) => part.trim())
      .filter(Boolean)
      .map(Number),
  };
}

function swap(bytes: ArrayBuffer, size: number): void {
  const all = new Uint8Array(bytes);
  for (let at = 0; at < all.length; at += size) all.subarray(at, at + size).reverse();
}
