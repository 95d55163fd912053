"""Blosc frames compressed with snappy, which only the kernel reads: packed here by pyarrow.

The frames come from a writer of its own, which is right because numcodecs reads what it makes with LZ4.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numcodecs.blosc as library
import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.errors import CodecError, UnsupportedError

pytestmark = pytest.mark.once(executors="both")


def frame(data: bytes, codec: str, typesize: int, blocksize: int, shuffle: int, one_stream: bool) -> bytes:
    flags = (0, 1, 4)[shuffle] | (0x10 if one_stream else 0) | {"lz4_raw": 1, "snappy": 2}[codec] << 5
    blocks = []
    for at in range(0, len(data), blocksize):
        block = data[at : at + blocksize]
        whole = len(block) // typesize
        whole = (0 if shuffle == 2 and whole % 8 else whole) * typesize
        values = np.frombuffer(block, "u1", whole).reshape(-1, typesize)
        if shuffle == 2 and whole:
            bits = np.unpackbits(values, axis=1, bitorder="little").T
            values = np.packbits(np.ascontiguousarray(bits), axis=1, bitorder="little")
        elif shuffle == 1:
            values = values.T
        block = values.tobytes() + block[whole:]
        many = not one_stream and len(block) == blocksize and typesize <= 16 and blocksize // typesize >= 128
        size = len(block) // (typesize if many else 1)
        streams = [block[start : start + size] for start in range(0, len(block), size)]
        packed = [bytes(pyarrow.compress(stream, codec=codec, asbytes=True)) for stream in streams]
        kept = [new if len(new) < size else old for old, new in zip(streams, packed)]
        blocks.append(b"".join(struct.pack("<i", len(part)) + part for part in kept))
    starts, at = [], 16 + 4 * len(blocks)
    for block in blocks:
        starts.append(at)
        at += len(block)
    header = struct.pack("<BBBBIII", 2, 1, flags, typesize, len(data), blocksize, at)
    return header + struct.pack(f"<{len(starts)}i", *starts) + b"".join(blocks)


def read(chunk: bytes, size: int) -> bytes:
    """Read a Zarr v2 array of one chunk of `size` bytes."""
    store: dict[str, bytes] = {}
    codec = {"id": "blosc", "cname": "snappy"}
    array = tegula.create_array(store, shape=(size,), chunks=(size,), dtype="u1", format="zarr2", codecs=codec)
    store["0"] = chunk
    with config.configure(executor="kernel"):
        return bytes(array[...])


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 99),
    elements=st.integers(1, 3000),
    typesize=st.sampled_from([1, 2, 4, 8, 12, 16, 17, 40]),
    per_block=st.sampled_from([1, 64, 127, 128, 200, 1024]),
    shuffle=st.integers(0, 2),
    one_stream=st.booleans(),
    noise=st.booleans(),
)
@pytest.mark.usefixtures("kernel")
def test_every_layout_of_a_frame(
    seed: int, elements: int, typesize: int, per_block: int, shuffle: int, one_stream: bool, noise: bool
) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 256, elements * typesize) if noise else np.arange(elements * typesize) // 7 % 11
    data = values.astype("u1").tobytes()
    blocksize = min(per_block * typesize, len(data))
    options = (typesize, blocksize, shuffle, one_stream)
    assert bytes(library.decompress(frame(data, "lz4_raw", *options))) == data  # the writer is right
    assert read(frame(data, "snappy", *options), len(data)) == data


@settings(deadline=None, max_examples=150)
@given(st.binary(min_size=1, max_size=400), st.integers(1, 400))
@pytest.mark.usefixtures("kernel")
def test_streams_of_repeated_bytes(part: bytes, times: int) -> None:
    data = part * times
    assert read(frame(data, "snappy", 1, len(data), 0, True), len(data)) == data


@settings(deadline=None, max_examples=300)
@given(cut=st.integers(0, 200), at=st.integers(0, 200), change=st.integers(1, 255))
@pytest.mark.usefixtures("kernel")
def test_damage_is_an_error_or_changes_values_only(cut: int, at: int, change: int) -> None:
    packed = bytearray(frame(bytes(range(40)) * 40, "snappy", 4, 800, 1, False))
    packed[20 + at % (len(packed) - 20)] ^= change
    with suppress(CodecError):
        assert len(read(bytes(packed), 1600)) == 1600
    with pytest.raises(CodecError):
        read(bytes(packed[: 30 + cut % (len(packed) - 30)]), 1600)


@pytest.mark.usefixtures("kernel")
def test_bytes_are_shuffled_if_both_flags_are_set() -> None:
    data = np.arange(400, dtype="<u4").tobytes()
    frames = [bytearray(frame(data, codec, 4, 1600, 1, False)) for codec in ("lz4_raw", "snappy")]
    for packed in frames:
        packed[2] |= 4
    assert bytes(library.decompress(frames[0])) == data
    assert read(bytes(frames[1]), 1600) == data


@pytest.mark.usefixtures("kernel")
def test_an_unknown_version_of_snappy_is_refused() -> None:
    packed = bytearray(frame(bytes(range(200)) * 3, "snappy", 1, 600, 0, False))
    packed[1] = 2
    with pytest.raises(UnsupportedError, match="version 2"):
        read(bytes(packed), 600)


def test_the_reference_executor_writes_none(build: Any) -> None:
    chain = build(["bytes", ("numcodecs.blosc", {"cname": "snappy"})], "u1")
    with pytest.raises(UnsupportedError, match="only the kernel writes snappy"):
        chain.encode(np.zeros(9, "u1"))
