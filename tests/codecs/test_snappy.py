"""Blosc frames compressed with snappy: built here, by a writer whose frames with LZ4 the library decodes."""

from __future__ import annotations

import struct
from contextlib import suppress

import numcodecs.blosc as library
import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.codecs import build_chain
from tegula.codecs.blosc import check_frame
from tegula.codecs.snappy import decode_frame, decompress
from tegula.errors import CodecError, UnsupportedError
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import CodecSpec


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
def test_every_layout_of_a_frame(
    seed: int, elements: int, typesize: int, per_block: int, shuffle: int, one_stream: bool, noise: bool
) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 256 if noise else 3, elements * typesize, "u1") if noise else None
    data = (np.arange(elements * typesize) // 7 % 11).astype("u1").tobytes() if values is None else values.tobytes()
    blocksize = min(per_block * typesize, len(data))
    options = (typesize, blocksize, shuffle, one_stream)
    assert bytes(library.decompress(frame(data, "lz4_raw", *options))) == data  # the writer is right
    packed = frame(data, "snappy", *options)
    assert not check_frame(packed, len(data), len(data))
    assert decode_frame(memoryview(packed)) == data


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=400), st.integers(1, 400))
def test_what_another_implementation_packs(part: bytes, times: int) -> None:
    data = part * times
    assert decompress(memoryview(pyarrow.compress(data, codec="snappy", asbytes=True)), len(data)) == data


@settings(deadline=None, max_examples=300)
@given(junk=st.binary(max_size=80), cut=st.integers(0, 200), at=st.integers(0, 200), change=st.integers(1, 255))
def test_damage_is_an_error_or_changes_values_only(junk: bytes, cut: int, at: int, change: int) -> None:
    for raw in (junk, b"\x40" + junk):
        with suppress(CodecError):
            assert len(decompress(memoryview(raw), 64)) == 64
    packed = bytearray(frame(bytes(range(40)) * 40, "snappy", 4, 800, 1, False))
    packed[20 + at % (len(packed) - 20)] ^= change
    with suppress(CodecError):
        check_frame(bytes(packed), 1600, 1600)
        assert len(decode_frame(memoryview(bytes(packed)))) == 1600
    short = bytes(packed[: 30 + cut % (len(packed) - 30)])
    with pytest.raises(CodecError):
        check_frame(short, 1600, 1600)


def test_bytes_are_shuffled_if_both_flags_are_set() -> None:
    data = np.arange(400, dtype="<u4").tobytes()
    for codec in ("snappy", "lz4_raw"):
        packed = bytearray(frame(data, codec, 4, 1600, 1, False))
        packed[2] |= 4
        decode = decode_frame if codec == "snappy" else library.decompress
        assert bytes(decode(memoryview(packed))) == data


def test_arrays_of_it_are_read_but_not_written() -> None:
    specs = [CodecSpec("bytes"), CodecSpec("numcodecs.blosc", {"cname": "snappy"})]
    chain = build_chain(specs, as_data_type("u1"), None, ndim=1)
    data = bytes(range(200)) * 3
    assert chain.decode(frame(data, "snappy", 1, 600, 0, False), (600,)).tobytes() == data
    other = bytearray(frame(data, "snappy", 1, 600, 0, False))
    other[1] = 2
    with pytest.raises(UnsupportedError, match="version 2"):
        chain.decode(bytes(other), (600,))
    with pytest.raises(UnsupportedError, match="snappy"):
        chain.encode(np.zeros(600, "u1"))
