"""Equivalent chains: chunks that move between them decode to the same values, and damaged chunks do not move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tegula.codecs import build_chain
from tegula.codecs.equivalence import decode_alike, transfer
from tegula.errors import UnsupportedError
from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.nodes import CodecSpec

pytestmark = pytest.mark.once(executors="none")

LITTLE, BIG = CodecSpec("bytes", {"endian": "little"}), CodecSpec("bytes", {"endian": "big"})
F = CodecSpec("transpose", {"order": [1, 0]})
QUANTIZE = CodecSpec("numcodecs.quantize", {"digits": 2, "dtype": "<f8"})
DELTA = CodecSpec("numcodecs.delta", {"dtype": "<f8"})
BLPK = CodecSpec("blpk")


def blosc(name: str = "numcodecs.blosc", **options: Any) -> CodecSpec:
    return CodecSpec(name, {"cname": "lz4", "clevel": 5, **options})


STARTS = [[LITTLE], [BIG], [F, LITTLE], [CodecSpec("transpose", {"order": [0, 1]}), LITTLE], [LITTLE, QUANTIZE],
          [QUANTIZE, LITTLE], [LITTLE, DELTA], [DELTA, LITTLE], [F, DELTA, LITTLE], [DELTA, F, LITTLE],
          [F, LITTLE, DELTA], [DELTA, BIG]]  # fmt: skip
MIDDLES = [[], [blosc(typesize=8)], [blosc(clevel=9, cname="zstd", typesize=4)], [blosc("blosc", shuffle="bitshuffle")],
           [CodecSpec("zstd", {"level": 3})], [CodecSpec("numcodecs.zstd", {"level": 1})], [CodecSpec("gzip")],
           [CodecSpec("numcodecs.gzip", {"level": 9})], [CodecSpec("numcodecs.zlib")], [CodecSpec("numcodecs.bz2")],
           [CodecSpec("numcodecs.lz4")]]  # fmt: skip
ENDS = [
    [], [CodecSpec("crc32c")], [CodecSpec("numcodecs.crc32c", {"location": "start"})], [CodecSpec("numcodecs.crc32")],
    [CodecSpec("numcodecs.fletcher32")], [BLPK], [CodecSpec("numcodecs.adler32"), CodecSpec("crc32c")],
]  # fmt: skip
TYPES = [as_data_type("<f8"), as_data_type(">f8")]


@st.composite
def chains(draw: st.DrawFn, start: Any = None, middle: Any = None) -> list[CodecSpec]:
    start, middle = start or draw(st.sampled_from(STARTS)), middle or draw(st.sampled_from(MIDDLES))
    end = draw(st.sampled_from(ENDS))
    frames = middle and middle[0].name.endswith("blosc")
    return [*start, *middle, *([] if end == [BLPK] and not frames else end)]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[CodecSpec], list[CodecSpec]]:
    """Draw two chains that often have codecs in common, since random chains are rarely equivalent."""
    starts = draw(st.lists(st.sampled_from(STARTS), min_size=1, max_size=2))
    middles = draw(st.lists(st.sampled_from(MIDDLES), min_size=1, max_size=2))
    return draw(chains(starts[0], middles[0])), draw(chains(starts[-1], middles[-1]))


def build(specs: list[CodecSpec], data_type: DataType) -> Any:
    try:
        return build_chain(specs, data_type, None, ndim=2)
    except UnsupportedError:  # a filter that would round numbers of another byte order
        reject()


@pytest.mark.filterwarnings("ignore:(overflow|invalid value)")  # a filter may take elements for what they are not
@settings(max_examples=300)
@given(pairs(), st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(0, 2**32))
def test_moved_chunks_decode_to_the_same_values(pair: Any, one_type: DataType, other_type: DataType, seed: int) -> None:
    one, other = pair
    if not decode_alike(one, one_type, other, other_type):
        return
    source, target = build(one, one_type), build(other, other_type)
    chunk = np.random.default_rng(seed).normal(size=(6, 7)).astype(one_type.numpy)
    stored = bytes(source.encode(chunk))
    moved = transfer(source, one, target, other)(stored, chunk.shape)
    if moved is None:  # because of the type size only, which bcolz needs to be right
        assert BLPK in other
        return
    np.testing.assert_array_equal(target.decode(bytes(moved), chunk.shape), source.decode(stored, chunk.shape))


@given(chains(), st.sampled_from(TYPES))
def test_equivalence_is_symmetric_and_ignores_checksums_at_the_end(one: list[CodecSpec], data_type: DataType) -> None:
    assert decode_alike(one, data_type, one, data_type)
    assert decode_alike([*one, CodecSpec("crc32c")], data_type, one, data_type)
    assert decode_alike(one, data_type, [*one, CodecSpec("numcodecs.adler32")], data_type)
    assert not decode_alike(one, data_type, [*one, CodecSpec("zstd")], data_type)


@pytest.mark.parametrize(
    ("one", "one_type", "other", "other_type", "alike"),
    [
        ([LITTLE, blosc(clevel=1)], "i4", [LITTLE, blosc("blosc", clevel=9, shuffle="shuffle")], "i4", True),
        ([LITTLE, blosc(), BLPK], "i4", [LITTLE, CodecSpec("blosc")], "i4", True),
        ([CodecSpec("bytes"), blosc()], ">i4", [BIG, blosc("blosc")], "i4", True),
        ([LITTLE, blosc()], "i4", [BIG, blosc()], "i4", False),
        ([LITTLE], "i4", [LITTLE], "u4", False),
        ([LITTLE, CodecSpec("gzip")], "i4", [LITTLE, CodecSpec("numcodecs.zlib")], "i4", False),
        ([F, LITTLE], "f8", [CodecSpec("transpose", {"order": "F"}), LITTLE], "f8", True),
        ([F, LITTLE], "f8", [LITTLE], "f8", False),
        ([LITTLE, QUANTIZE, blosc()], "f8", [QUANTIZE, LITTLE, blosc("blosc")], "f8", True),
        ([LITTLE, QUANTIZE, blosc()], "f8", [LITTLE, blosc()], "f8", True),
        ([LITTLE, DELTA], "f8", [DELTA, LITTLE], "f8", True),
        ([F, LITTLE, DELTA], "f8", [DELTA, F, LITTLE], "f8", False),
        ([F, LITTLE, DELTA], "f8", [F, DELTA, LITTLE], "f8", True),
        ([LITTLE, DELTA], "f8", [DELTA, BIG], "f8", False),
        ([LITTLE, CodecSpec("crc32c"), blosc()], "f8", [LITTLE, blosc()], "f8", False),
        ([LITTLE, CodecSpec("unknown", {}, must_understand=False)], "f8", [LITTLE], "f8", False),
        ([CodecSpec("sharding_indexed")], "f8", [CodecSpec("sharding_indexed")], "f8", False),
        ([CodecSpec("numcodecs.vlen-utf8")], str, [CodecSpec("vlen-utf8")], str, True),
        ([LITTLE, CodecSpec("numcodecs.lzma", {"format": 1})], "f8", [LITTLE, CodecSpec("bz2")], "f8", False),
    ],
)  # fmt: skip
def test_equivalent_chains(one: Any, one_type: Any, other: Any, other_type: Any, alike: bool) -> None:
    assert decode_alike(one, as_data_type(one_type), other, as_data_type(other_type)) is alike


@pytest.mark.parametrize("middle", MIDDLES, ids=lambda middle: middle[0].name if middle else "none")
def test_truncated_chunks_do_not_move(middle: list[CodecSpec]) -> None:
    data_type, specs = as_data_type("f8"), [LITTLE, *middle]
    chain = build(specs, data_type)
    move = transfer(chain, specs, chain, specs)
    chunk = np.arange(42.0).reshape(6, 7)
    stored = bytes(chain.encode(chunk))
    assert move(stored, (6, 7)) == stored
    for damaged in (stored[:-1], stored[: len(stored) // 2], b"damaged", b""):
        assert move(damaged, (6, 7)) is None
    assert move(stored, (6, 8)) is None


def test_checksums_and_lengths_are_verified() -> None:
    data_type, specs = as_data_type("f8"), [LITTLE, blosc(), CodecSpec("crc32c")]
    chain, bare = build(specs, data_type), build(specs[:-1], data_type)
    move = transfer(chain, specs, bare, specs[:-1])
    stored = bytearray(chain.encode(np.arange(42.0).reshape(6, 7)))
    assert bytes(move(bytes(stored), (6, 7))) == bytes(stored[:-4])
    stored[30] ^= 1
    assert move(bytes(stored), (6, 7)) is None


@pytest.mark.parametrize("name", ["fletcher32", "jenkins_lookup3", "crc32", "adler32"])
def test_codecs_whose_own_exceptions_report_damage(name: str) -> None:
    data_type, specs = as_data_type("f8"), [LITTLE, CodecSpec(f"numcodecs.{name}")]
    chain, bare = build(specs, data_type), build(specs[:-1], data_type)
    move = transfer(chain, specs, bare, specs[:-1])
    stored = bytearray(chain.encode(np.arange(42.0).reshape(6, 7)))
    assert bytes(move(bytes(stored), (6, 7))) == np.arange(42.0).tobytes()
    stored[30] ^= 1
    assert move(bytes(stored), (6, 7)) is None


def test_bcolz_needs_the_type_size_it_expects() -> None:
    data_type = as_data_type("S7")
    source = [CodecSpec("bytes"), blosc(shuffle=1)]
    for expected, moves in ((7, True), (1, False)):
        target = [CodecSpec("bytes"), blosc(typesize=expected), BLPK]
        move = transfer(build(source, data_type), source, build(target, data_type), target)
        stored = bytes(build(source, data_type).encode(np.full((6, 7), b"abc", "S7")))
        assert (move(stored, (6, 7)) is not None) is moves
