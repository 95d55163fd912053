import lzma

import numcodecs
import numpy as np
import pytest

from tegula.errors import CodecError, MetadataError

DELTA = [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
OPTIONS = [
    {},
    {"preset": 0, "check": lzma.CHECK_NONE},
    {"preset": 6, "check": lzma.CHECK_CRC64},
    {"preset": 1 | lzma.PRESET_EXTREME, "check": lzma.CHECK_SHA256},
    {"format": lzma.FORMAT_ALONE, "preset": 2},
    {"format": lzma.FORMAT_XZ, "filters": DELTA, "preset": None},
    {"format": lzma.FORMAT_RAW, "filters": DELTA},
    {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA1, "dict_size": 4096}]},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_bytes_as_numcodecs(build, options):
    chunk = np.arange(1000, dtype="<i4")
    chain = build(["bytes", ("numcodecs.lzma", options)], "<i4")
    data = chain.encode(chunk)
    assert data == numcodecs.LZMA(**options).encode(chunk)
    assert np.array_equal(chain.decode(data, (1000,)), chunk)
    with pytest.raises(CodecError):
        chain.decode(data, (999,))
    with pytest.raises(CodecError):
        chain.decode(data[:-1], (1000,))


def test_streams_and_padding(build):
    chain = build(["bytes", "numcodecs.lzma"], "u1")
    one = lzma.compress(b"ab")
    assert bytes(chain.decode(one + bytes(4) + one, (4,))) == b"abab"
    for tail in (b"x", bytes(3), one[:-1]):
        with pytest.raises(CodecError):
            chain.decode(one + tail, (2,))


@pytest.mark.parametrize(
    "options",
    [
        {"format": 0},
        {"format": lzma.FORMAT_RAW},
        {"preset": 10},
        {"check": 2},
        {"preset": 1, "filters": DELTA},
        {"filters": [{"dist": 4}]},
        {"filters": [{"id": lzma.FILTER_LZMA2, "dict_size": 2**31}]},
        {"filters": "delta"},
    ],
    ids=str,
)
def test_invalid_options(build, options):
    with pytest.raises(MetadataError):
        build(["bytes", ("numcodecs.lzma", options)], "u1")


def test_unknown_filters(build):
    chain = build(["bytes", ("numcodecs.lzma", {"format": lzma.FORMAT_RAW, "filters": [{"id": 77}]})], "u1")
    with pytest.raises(CodecError):
        chain.encode(np.zeros(3, "u1"))
    with pytest.raises(CodecError):
        chain.decode(b"abc", (3,))


def test_dictionaries_are_limited(build):
    huge = lzma.compress(b"abc", lzma.FORMAT_ALONE, preset=0)
    huge = huge[:1] + (2**31).to_bytes(4, "little") + huge[5:]
    with pytest.raises(CodecError, match=r"[Mm]emory"):
        build(["bytes", ("numcodecs.lzma", {"format": lzma.FORMAT_ALONE})], "u1").decode(huge, (3,))
