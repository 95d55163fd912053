"""The streams of Java's ``LZ4BlockOutputStream``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.codecs.compressors.lz4block import Lz4Block, xxh32
from tegula.errors import CodecError, MetadataError

SEED = 0x9747B28C
END = b"LZ4Block\x16" + bytes(12)
# by the source of lz4-java; the checksums by the package xxhash, the LZ4 block by the package lz4
ABC = b"LZ4Block\x16\3\0\0\0\3\0\0\0" + (0xD4CB222).to_bytes(4, "little") + b"abc"
ZEROS = b"LZ4Block\x26\x0e\0\0\0\xe8\3\0\0" + (0xA1B3D15).to_bytes(4, "little")
ZEROS += bytes.fromhex("1f000100ffffffd2500000000000")
STREAMS = {b"": END, b"abc": ABC + END, bytes(1000): ZEROS + END}


def decoded(data: bytes, size: int | None, limit: int = 2**20) -> bytes:
    out: Any = Lz4Block(2**16).decoder(size, limit)(data)
    return bytes(out)


@pytest.mark.parametrize("content", STREAMS, ids=len)
def test_streams_are_those_of_java(content: bytes) -> None:
    stream = STREAMS[content]
    assert Lz4Block(2**16).encode(content) == stream
    for size in (len(content), None):
        assert decoded(stream, size) == content


@given(st.binary(max_size=300), st.integers(64, 200))
def test_blocks_of_any_size_come_back(content: bytes, size: int) -> None:
    stream = Lz4Block(size).encode(content)
    assert stream.count(b"LZ4Block") >= 1 + -(-len(content) // size)
    assert decoded(stream, len(content)) == content
    assert stream.endswith(END[:8] + b"\x10" + END[9:])


def test_damage_is_noticed() -> None:
    content = bytes(100) + bytes(range(100))
    stream = bytes(Lz4Block(64).encode(content))
    for cut in range(len(stream)):
        with pytest.raises(CodecError):
            decoded(stream[:cut], len(content))
    for place in range(len(stream) - 21):
        changed = stream[:place] + bytes([stream[place] ^ 1]) + stream[place + 1 :]
        with suppress(CodecError, RuntimeError):  # numcodecs raises the latter, and the chain turns it into the former
            assert decoded(changed, len(content)) == content  # the level in a header means little
    with pytest.raises(CodecError):
        decoded(stream, 199)
    with pytest.raises(CodecError):
        decoded(stream, None, limit=100)


@pytest.mark.parametrize("size", [0, 63, 2**25 + 1, "x", None])
def test_sizes_of_blocks_have_limits(size: Any) -> None:
    with pytest.raises(MetadataError):
        tegula.create_array({}, shape=3, dtype="i4", format="n5", codecs={"name": "lz4", "blockSize": size})


def test_both_executors_read_each_others_streams() -> None:
    pytest.importorskip("tegula._kernel")
    values = np.arange(50000) // 7
    for writer, reader in (("kernel", "reference"), ("reference", "kernel")):
        with config.configure(executor=writer):
            tegula.create_array(store := tegula.MemoryStore(), data=values, chunks=30000, format="n5", codecs="lz4")
        with config.configure(executor=reader):
            np.testing.assert_array_equal(tegula.open(store)[...], values)


def test_the_hash_has_the_values_of_its_specification() -> None:
    assert xxh32(b"abc", SEED) & 0x0FFFFFFF == 0xD4CB222
    assert xxh32(bytes(1000), SEED) & 0x0FFFFFFF == 0xA1B3D15
