"""Write `codecs.xz`: what numcodecs and Python's own modules make of small arrays, for `tests/codecs.rs`.

Run it with the versions that `codecs.xz` names in its first line. Each case is a line of text and what it announces:

    name;option;option;... <TAB> encode or decode <TAB> length of what goes in <TAB> length of what comes out

followed by the bytes of both. Options are written as `i5`, `f1.5`, `t<u2`, `btrue`, `n` (none). `encode` means that
encoding the first must give the second exactly; `decode`, that decoding the first does. What must not be decoded has
`-` for the second length.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import sys
import warnings
import zlib
from pathlib import Path

import numcodecs
import numcodecs.zstd
import numpy as np

warnings.simplefilter("ignore")
CASES: list[bytes] = []
random = np.random.default_rng(20)


def spell(option: object) -> str:
    if option is None:
        return "n"
    if isinstance(option, bool):
        return f"b{str(option).lower()}"
    if isinstance(option, int):
        return f"i{option}"
    return f"f{option!r}" if isinstance(option, float) else f"t{option}"


def add(name: str, options: tuple[object, ...], kind: str, given: bytes, wanted: bytes | None) -> None:
    head = ";".join([name, *map(spell, options)])
    size = "-" if wanted is None else len(wanted)
    CASES.append(f"{head}\t{kind}\t{len(given)}\t{size}\n".encode() + given + (wanted or b""))


def raw(found: object) -> bytes:
    return np.asarray(found).reshape(-1).tobytes() if not isinstance(found, bytes) else found


WAVE = (np.cumsum(random.normal(size=700)) * 100).astype("<i4").tobytes()
TEXT = b"".join(b"line %d of the text\n" % (number * number % 97) for number in range(120))
NOISE = random.integers(0, 256, 500, "u1").tobytes()
PLAIN = {"wave": WAVE, "text": TEXT, "noise": NOISE, "one": b"x", "zeros": bytes(1000)}


def compressors() -> None:
    for data in (*PLAIN.values(), b""):
        for level, checksum in ((-7, False), (0, False), (1, True), (3, False), (9, True), (19, False)):
            add("zstd", (level, checksum), "decode", numcodecs.zstd.compress(data, level, checksum), data)
        for level in (0, 1, 6, 9):
            add("zlib", (level,), "decode", zlib.compress(data, level), data)
            add("gzip", (level,), "decode", gzip.compress(data, level, mtime=12345), data)
        for level in (1, 5, 9):
            add("bz2", (level,), "encode", data, bz2.compress(data, level))
            add("bz2", (level,), "decode", bz2.compress(data, level), data)
        for acceleration in (1, -3, 50, 70000):
            encoded = raw(numcodecs.LZ4(acceleration).encode(data))
            add("lz4", (acceleration,), "encode", data, encoded)
            add("lz4", (acceleration,), "decode", encoded, data or None)
        for container, check, preset in (
            (1, -1, None),
            (1, 0, 1),
            (1, 1, 9),
            (1, 10, 2**31 + 2),
            (2, -1, 3),
            (2, 0, None),
        ):
            encoded = lzma.compress(data, container, check, preset)
            add("lzma", (container, check, preset), "encode", data, encoded)
            add("lzma", (container, check, preset), "decode", encoded, data)


def several() -> None:
    """Frames, members and streams one after the other, and what may or may not follow them."""
    skip = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
    first, second = (numcodecs.zstd.compress(data, 1, True) for data in (WAVE, TEXT))
    empty = numcodecs.zstd.compress(b"")
    # a frame of a raw and a repeated block that does not say its size
    unsaid = (
        b"\x28\xb5\x2f\xfd\x00\x48"
        + (5 << 3).to_bytes(3, "little")
        + b"hello"
        + (9 << 3 | 3).to_bytes(3, "little")
        + b"!"
    )
    for given, wanted in (
        (first + second, WAVE + TEXT),
        (skip + first + empty + skip, WAVE),
        (unsaid, b"hello!!!!!!!!!"),
        (unsaid + first, b"hello!!!!!!!!!" + WAVE),
        (skip, b""),
        (first + b"\0", None),
        (first + b"\0" * 12, None),
        (first + skip[:-1], None),
        (first[:-1], None),
        (first[:-4] + bytes(4), None),
        (b"\x28\xb5\x2f\xfd\x04\x48" + (5 << 3).to_bytes(3, "little") + b"hello", None),
    ):
        add("zstd", (1, False), "decode", given, wanted)

    named = io.BytesIO()
    with gzip.GzipFile("a name.txt", "wb", 6, named, 77) as file:
        file.write(TEXT)
    deflated = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflated.compress(WAVE) + deflated.flush() + struct.pack("<II", zlib.crc32(WAVE), len(WAVE))
    head = b"\x1f\x8b\x08\x1e\x01\x02\x03\x04\x00\x03" + struct.pack("<H", 4) + b"ab\0\0" + b"name\0" + b"comment\0"
    full = head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) + body
    one, two = gzip.compress(WAVE), gzip.compress(TEXT)
    for given, wanted in (
        (named.getvalue(), TEXT),
        (full, WAVE),
        (one + two, WAVE + TEXT),
        (one + b"\0" * 5, WAVE),
        (one + b"\0" * 7 + two + b"\0", WAVE + TEXT),
        (one + b"\0x", None),
        (one + two[:-1], None),
        (one[:-5] + b"\0" + one[-4:], None),
        (one[:-1], None),
        (b"", None),
    ):
        add("gzip", (5,), "decode", given, wanted)
    stream = zlib.compress(WAVE)
    for given, wanted in (
        (stream, WAVE),
        (stream + b"\0", WAVE),
        (stream + bytes(16), WAVE),
        (stream + b"\0x", None),
        (stream + stream, None),
        (stream[:-1] + b"?", None),
    ):
        add("zlib", (5,), "decode", given, wanted)

    one, two = bz2.compress(WAVE, 3), bz2.compress(TEXT, 9)
    for given, wanted in (
        (one + two, WAVE + TEXT),
        (one + b"\0", WAVE),
        (one + bytes(3) + two + bytes(16), WAVE + TEXT),
        (one + b"\0x", None),
        (one[:-2], None),
        (b"", None),
    ):
        add("bz2", (1,), "decode", given, wanted)
    one, two = lzma.compress(WAVE), lzma.compress(TEXT, check=lzma.CHECK_SHA256)
    for given, wanted in (
        (one + two, WAVE + TEXT),
        (one + bytes(8) + two + bytes(4), WAVE + TEXT),
        (one + bytes(3), None),
        (one + bytes(2) + two, None),
        (one + b"x", None),
        (one[:-1], None),
        (b"", None),
    ):
        add("lzma", (1, -1, None), "decode", given, wanted)
    alone = lzma.compress(WAVE, lzma.FORMAT_ALONE)
    for given, wanted in ((alone, WAVE), (alone + b"\0", None), (alone + alone, None), (alone[:-9], None)):
        add("lzma", (2, -1, None), "decode", given, wanted)


def checksums() -> None:
    odd = random.integers(0, 256, 1601, "u1").tobytes()
    high = b"\xff" * 1443
    for name in ("crc32c", "crc32", "adler32"):
        for location in ("start", "end"):
            codec = numcodecs.get_codec({"id": name, "location": location})
            for data in (*PLAIN.values(), odd, high, b""):
                encoded = raw(codec.encode(data))
                add(name, (location == "start",), "encode", data, encoded)
                add(name, (location == "start",), "decode", encoded, data)
    for data in (*PLAIN.values(), odd, high, b"ab", b"\xff\xff", b"\xff\xff\0\0", odd * 9):
        encoded = raw(numcodecs.Fletcher32().encode(data))
        add("fletcher32", (), "encode", data, encoded)
        add("fletcher32", (), "decode", encoded, data)
        add("fletcher32", (), "decode", encoded[:-1] + bytes([encoded[-1] ^ 1]), None)


INTEGERS = [f"{kind}{size}" for size in (1, 2, 4, 8) for kind in "iu"]


def spelled(name: str, big: bool) -> str:
    return np.dtype((">" if big else "<") + name).str


def both(name: str, options: tuple[object, ...], codec: object, plain: np.ndarray) -> None:
    """Add both directions of a filter; decoding has the encoded data, and other data of the same type."""
    encoded = codec.encode(plain)
    add(name, options, "encode", raw(plain), raw(encoded))
    add(name, options, "decode", raw(encoded), raw(codec.decode(encoded)))


def few(values: np.ndarray) -> np.ndarray:
    """Return more elements than the loops do at a time, of few values, which compress well."""
    return values[np.arange(530) % len(values)]


def shuffle_and_delta() -> None:
    for size in (0, 1, 2, 3, 4, 5, 8, 12, 16, 24):
        for count in (1, 15, 16, 17, 100):
            data = random.integers(0, 256, count * max(size, 1), "u1")
            both("shuffle", (size,), numcodecs.Shuffle(size), data)

    for big in (False, True):
        for plain in INTEGERS:
            for stored in INTEGERS:
                if {plain[0], stored[0]} == {"i", "u"} and "u8" in (plain, stored):
                    continue
                for other in {big, not big} if plain == stored else {big}:
                    types = (spelled(plain, big), spelled(stored, other))
                    data = few(random.integers(0, 256, 12 * int(plain[1]), "u1").view(types[0]))
                    data[0] = 7  # it has to fit both types
                    both("delta", types, numcodecs.Delta(*types), data)
        for plain in ("f4", "f8"):
            for stored in ("f4", "f8"):
                types = (spelled(plain, big), spelled(stored, big))
                data = few((random.normal(size=30) * 1000).astype(types[0]))
                both("delta", types, numcodecs.Delta(*types), data)


def scaled() -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.0, -0.0, 1e6 + 0.5, 0.49999997, 8388607.5, -8388608.5])
    wide = np.array([4503599627370495.5, 4503599627370496.5, -1e300, np.inf, -np.inf, 5e-324])
    for big in (False, True):
        for plain in ("f4", "f8", "i2", "u4", "i8", "u1", "u8"):
            for stored in (*INTEGERS, "f4", "f8"):
                small = int(stored[1]) == 1 or stored == "u2" or plain == "u1"
                for offset, scale in (
                    (10.0, 0.5),
                    (0.1, 1.3) if small else (-3.7, 10.0),
                    (3, 1) if plain[0] == "f" else (1.0, 1),
                ):
                    types = (spelled(plain, big), spelled(stored, big))
                    data = np.concatenate([halves + 12, few(random.uniform(11, 80, 30))])
                    if plain[0] != "f":
                        data = data[(data >= np.iinfo(plain).min) & (data <= np.iinfo(plain).max)]
                    data = data.astype(types[0])
                    if stored[0] != "f":  # what does not fit becomes something else on every machine
                        made, info = (data.astype("f8") - offset) * scale, np.iinfo(stored)
                        data = data[(made > info.min) & (made < info.max)]
                    both(
                        "fixedscaleoffset",
                        (offset, scale, *types),
                        numcodecs.FixedScaleOffset(offset, scale, *types),
                        data,
                    )
        for plain in ("f4", "f8"):
            for stored in ("f4", "f8"):
                types = (spelled(plain, big), spelled(stored, big))
                values = np.concatenate([halves, wide, few(random.normal(size=30) * 100)])
                both(
                    "fixedscaleoffset",
                    (0, 1, *types),
                    numcodecs.FixedScaleOffset(0, 1, *types),
                    values.astype(types[0]),
                )
                for digits in (-3, -1, 0, 1, 2, 3, 5, 9):
                    both("quantize", (digits, *types), numcodecs.Quantize(digits, *types), values.astype(types[0]))


def rounded_and_packed() -> None:
    for name, bits in (("<f2", 10), ("<f4", 23), ("<f8", 52)):
        data = random.integers(0, 256, 8 * 300, "u1").view(name)
        for kept in {0, 1, 3, bits - 1, bits}:
            both("bitround", (kept, name), numcodecs.BitRound(kept), data)

    for count in (0, 1, 7, 8, 9, 64, 101, 300):
        data = random.integers(0, 2, count, "u1").view(bool)
        both("packbits", (), numcodecs.PackBits(), data)


def main() -> None:
    for part in (compressors, several, checksums, shuffle_and_delta, scaled, rounded_and_packed):
        part()
    versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}, numcodecs {numcodecs.__version__}"
    packed = lzma.compress(f"{versions}\n".encode() + b"".join(CASES), preset=9)
    Path(__file__).with_name("codecs.xz").write_bytes(packed)
    print(versions, len(CASES), "cases,", len(packed), "bytes")


if __name__ == "__main__":
    main()
