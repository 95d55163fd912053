/** The codec crc32c, which compares checksums; zarrita's own one only drops them. */

import { registry } from "zarrita";

const POLYNOMIAL = 0x82f63b78;
const LENGTH = 4;

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1;
  return rest;
});

/** Return the CRC-32C of bytes. */
export function crc32c(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) rest = table[(rest ^ bytes[at]!) & 0xff]! ^ (rest >>> 8);
  return (rest ^ 0xffffffff) >>> 0;
}

/** Return bytes without the checksum behind them; throw an error if it is not theirs. */
export function checked(bytes: Uint8Array): Uint8Array {
  const end = bytes.length - LENGTH;
  const stated = end < 0 ? null : new DataView(bytes.buffer, bytes.byteOffset + end, LENGTH).getUint32(0, true);
  const found = bytes.subarray(0, Math.max(0, end));
  if (stated !== crc32c(found)) throw new Error("the checksum does not match: crc32c");
  return found;
}

class Checksum {
  readonly kind = "bytes_to_bytes";

  static fromConfig(): Checksum {
    return new Checksum();
  }

  encode(): never {
    throw new Error("the page writes nothing");
  }

  decode(bytes: Uint8Array): Uint8Array {
    return checked(bytes);
  }

  computeEncodedSize(size: number): number {
    return size + LENGTH;
  }
}

/** Let zarrita compare the checksums of chunks and of the indexes of shards. */
export function compareChecksums(): void {
  registry.set("crc32c", async () => Checksum as never);
}
