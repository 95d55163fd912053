"""Damaged data: decoding returns a chunk of the right size or raises a TegulaError."""

import random
import tracemalloc

import numpy as np
import pytest

from tegula import config
from tegula.errors import TegulaError

pytestmark = [pytest.mark.once(executors="none"), pytest.mark.slow]

LITTLE = ("bytes", {"endian": "little"})
SHARDS = ("sharding_indexed", {"chunk_shape": [8], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]})
ORDER = {"name": "transpose", "configuration": {"order": [0]}}
NUMBERS = {
    "blosc-lz4": [LITTLE, ("numcodecs.blosc", {"cname": "lz4"})],
    "blosc-blosclz": [LITTLE, ("numcodecs.blosc", {"cname": "blosclz"})],
    "blosc-zlib": [LITTLE, ("numcodecs.blosc", {"cname": "zlib", "shuffle": 0})],
    "blosc-zstd": [LITTLE, ("numcodecs.blosc", {"cname": "zstd", "shuffle": 2})],
    "blosc-stored": [LITTLE, ("numcodecs.blosc", {"clevel": 0})],
    "gzip": [LITTLE, ("gzip", {"level": 1})],
    "zlib": [LITTLE, "numcodecs.zlib"],
    "bz2": [LITTLE, "numcodecs.bz2"],
    "lzma": [LITTLE, "numcodecs.lzma"],
    "lzma-alone": [LITTLE, ("numcodecs.lzma", {"format": 2})],
    "lzma-raw": [LITTLE, ("numcodecs.lzma", {"format": 3, "filters": [{"id": 33, "preset": 1}]})],
    "zstd": [LITTLE, ("zstd", {"level": 1})],
    "lz4": [LITTLE, "numcodecs.lz4"],
    "lz4block": [LITTLE, "lz4block"],
    "z5-lz4": [LITTLE, "z5.lz4"],
    "n5": [("n5_default", {"codecs": [ORDER, {"name": "bytes", "configuration": {"endian": "big"}}, "zstd"]})],
    "n5-raw": [("n5_default", {"codecs": [ORDER, {"name": "bytes", "configuration": {"endian": "big"}}]})],
    "crc32c": [LITTLE, "crc32c"],
    "fletcher32": [LITTLE, "numcodecs.fletcher32"],
    "base64": [LITTLE, "numcodecs.base64"],
    "delta": [LITTLE, ("numcodecs.delta", {"dtype": "<i4"})],
    "numcodecs-packbits": [LITTLE, "numcodecs.packbits", ("gzip", {"level": 1})],
    "shards": [SHARDS],
    "packbits": [("packbits", {"first_bit": 3, "last_bit": 13, "padding_encoding": "last_byte"})],
    "bitround": [("bitround", {"keepbits": 5}), LITTLE],
    "reshape": [("reshape", {"shape": [4, -1]}), LITTLE],
    "conditional": [LITTLE, ("conditional", {"codecs": [{"name": "zstd"}, {"name": "crc32c"}], "header_bits": 16})],
    "zfp": [("zfp", {"mode": "fixed_precision", "precision": 32})],
    "cast": [("cast_value", {"data_type": "float32"}), LITTLE],
}
OBJECTS = {
    "vlen-utf8": (str, ["vlen-utf8"]),
    "vlen-bytes": (bytes, ["vlen-bytes"]),
    "vlen-array": (object, [("numcodecs.vlen-array", {"dtype": "<i4"})]),
    "json2": (object, ["numcodecs.json2"]),
    "msgpack2": (object, ["numcodecs.msgpack2"]),
    "vlen-utf8-blosc": (str, ["vlen-utf8", "numcodecs.blosc"]),
    "vlen-utf8-zstd": (str, ["vlen-utf8", ("zstd", {"level": 1})]),
    "vlen-utf8-lz4": (str, ["vlen-utf8", "numcodecs.lz4"]),
    "vlen-utf8-gzip": (str, ["vlen-utf8", ("gzip", {"level": 1})]),
}
COUNT = 32
LIMIT = 2**20


def chain_and_chunk(build, case):
    if case in NUMBERS:
        chunk = np.repeat(np.random.default_rng(1).integers(0, 2**12, COUNT // 4), 4).astype("<i4")
        if case == "numcodecs-packbits":
            return build([("bytes", {}), *NUMBERS[case][1:]], "?"), chunk % 2 == 0
        return build(NUMBERS[case], "<i4"), chunk
    dtype, codecs = OBJECTS[case]
    items = {"vlen-bytes": [b"a", b"", b"ccc"], "vlen-array": [np.arange(3, dtype="<i4")] * 3}.get(
        case, ["a", "", "ccc"]
    )
    return build(codecs, dtype), np.fromiter((items * COUNT)[:COUNT], object, COUNT)


def attempt(chain, chunk, data):
    try:
        found = chain.decode(bytes(data), chunk.shape)
    except TegulaError:
        return
    assert (found.shape, found.dtype) == (chunk.shape, chunk.dtype)


@pytest.mark.parametrize("case", [*NUMBERS, *OBJECTS])
def test_truncated_and_changed(build, case):
    chain, chunk = chain_and_chunk(build, case)
    data = bytes(chain.encode(chunk))
    source = random.Random(case)
    for size in range(len(data)):
        if case == "zfp" and size:  # its streams end anywhere: what is missing counts as zeros
            attempt(chain, chunk, data[:size])
            continue
        with pytest.raises(TegulaError):
            chain.decode(data[:size], chunk.shape)
    with config.configure(max_chunk_bytes=LIMIT):
        for _ in range(1500):
            damaged = bytearray(data)
            for _ in range(source.choice([1, 1, 2, 5])):
                damaged[source.randrange(len(data))] = source.choice([0, 1, 127, 128, 255, source.randrange(256)])
            attempt(chain, chunk, damaged)
        for _ in range(300):
            attempt(chain, chunk, data + source.randbytes(source.randint(1, 9)))
            attempt(chain, chunk, source.randbytes(source.randint(0, 60)))
            at = source.randrange(len(data))
            attempt(chain, chunk, data[:at] + data[at + source.randint(1, 5) :])


@pytest.mark.parametrize("case", [*NUMBERS, *OBJECTS])
def test_wrong_sizes_do_not_allocate_memory(build, case):
    chain, chunk = chain_and_chunk(build, case)
    data = bytes(chain.encode(chunk))
    huge = [value.to_bytes(4, "little") for value in (2**31 - 1, 2**31, 2**32 - 1, 2**30, 0)]
    with config.configure(max_chunk_bytes=LIMIT):
        attempt(chain, chunk, data)  # imports what it needs
        tracemalloc.start()
        try:
            for offset in range(min(len(data), 64) - 3):
                for value in huge:
                    attempt(chain, chunk, data[:offset] + value + data[offset + 4 :])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # LZMA allocates its whole dictionary, but hardly touches it
    assert peak < (2**28 if case.startswith("lzma") else 4 * LIMIT)


@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize(
    "codec", [("gzip", {"level": 9}), "numcodecs.zlib", "numcodecs.bz2", "numcodecs.lzma", ("zstd", {"level": 19})]
)
def test_decompression_bombs(build, codec):
    bomb = bytes(build(["bytes", codec], "u1").encode(np.zeros(2**26, "u1")))
    fixed, strings = build(["bytes", codec], "u1"), build(["vlen-utf8", codec], str)
    with config.configure(max_chunk_bytes=LIMIT):
        tracemalloc.start()
        try:
            for chain in (fixed, strings):
                with pytest.raises(TegulaError):
                    chain.decode(bomb, (1000,))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < (2**25 if codec == "numcodecs.lzma" else 6 * LIMIT)
