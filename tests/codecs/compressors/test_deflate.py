import gzip
import zlib

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import CodecError


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=2000), st.integers(0, 9))
def test_the_same_bytes_as_numcodecs(build, content, level):
    chunk = np.frombuffer(content, "u1")
    assert build(["bytes", ("numcodecs.zlib", {"level": level})], "u1").encode(chunk) == numcodecs.Zlib(level).encode(
        chunk
    )
    for name in ("gzip", "numcodecs.gzip"):
        found = build(["bytes", (name, {"level": level})], "u1").encode(chunk)
        expected = numcodecs.GZip(level).encode(chunk)
        assert found[:4] + found[8:] == expected[:4] + expected[8:]  # the bytes between them are the time
        assert found[4:8] == bytes(4)
        assert gzip.decompress(found) == content


def decode(build, codec, data, size):
    return bytes(build(["bytes", codec], "u1").decode(data, (size,)))


def test_gzip_members_and_padding(build):
    codec = ("gzip", {"level": 1})
    one, two = gzip.compress(b"abc"), gzip.compress(b"")
    assert decode(build, codec, one + gzip.compress(b"def") + two, 6) == b"abcdef"
    assert decode(build, codec, one + bytes(5), 3) == b"abc"
    assert decode(build, codec, one + bytes(2) + one, 6) == b"abcabc"
    for tail in (b"x", one[:-1], bytes(3) + b"x", one[:1]):
        with pytest.raises(CodecError):
            decode(build, codec, one + tail, 3)


@pytest.mark.parametrize("codec", [("gzip", {"level": 1}), "numcodecs.zlib"])
@pytest.mark.parametrize("change", [-1, 1])
def test_content_of_another_size_is_rejected(build, codec, change):
    chain = build(["bytes", codec], "u1")
    with pytest.raises(CodecError, match="bytes where the chunk takes"):
        chain.decode(chain.encode(np.zeros(10 + change, "u1")), (10,))


def test_only_zeros_may_follow_a_zlib_stream(build):
    for zeros in (1, 16):
        assert decode(build, "numcodecs.zlib", zlib.compress(b"abc") + bytes(zeros), 3) == b"abc"
    for tail in (b"x", b"\0x", zlib.compress(b"d")):
        with pytest.raises(CodecError, match="follow"):
            decode(build, "numcodecs.zlib", zlib.compress(b"abc") + tail, 3)


def test_wrong_checksums(build):
    for codec, data in ((("gzip", {"level": 1}), gzip.compress(b"abc")), ("numcodecs.zlib", zlib.compress(b"abc"))):
        with pytest.raises(CodecError):
            decode(build, codec, data[:-1] + bytes([data[-1] ^ 1]), 3)
