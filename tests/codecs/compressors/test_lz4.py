import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import CodecError


@settings(deadline=None, max_examples=50)
@given(st.binary(min_size=1, max_size=2000), st.sampled_from([1, 2, 50]))
def test_the_same_bytes_as_numcodecs(build, content, acceleration):
    chunk = np.frombuffer(content, "u1")
    chain = build(["bytes", ("numcodecs.lz4", {"acceleration": acceleration})], "u1")
    data = chain.encode(chunk)
    assert data == numcodecs.LZ4(acceleration).encode(chunk)
    assert bytes(chain.decode(data, chunk.shape)) == content


@pytest.mark.parametrize("size", [0, 99, 101, 2**31 - 1, 2**32 - 1])
def test_wrong_sizes(build, size):
    chain = build(["bytes", "numcodecs.lz4"], "u1")
    data = chain.encode(np.zeros(100, "u1"))
    with pytest.raises(CodecError):
        chain.decode(size.to_bytes(4, "little") + data[4:], (100,))


def test_impossible_sizes(build):
    chain = build(["vlen-utf8", "numcodecs.lz4"], str)
    with pytest.raises(CodecError, match="decoded size in the LZ4 data is impossible"):
        chain.decode((2**30).to_bytes(4, "little") + bytes(100), (1,))
