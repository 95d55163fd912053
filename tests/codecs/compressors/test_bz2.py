import bz2

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import CodecError


@settings(deadline=None, max_examples=30)
@given(st.binary(min_size=1, max_size=2000), st.integers(1, 9))
def test_the_same_bytes_as_numcodecs(build, content, level):
    chunk = np.frombuffer(content, "u1")
    chain = build(["bytes", ("numcodecs.bz2", {"level": level})], "u1")
    assert chain.encode(chunk) == numcodecs.BZ2(level).encode(chunk)
    assert bytes(chain.decode(bz2.compress(content), chunk.shape)) == content


def test_streams(build):
    chain = build(["bytes", "numcodecs.bz2"], "u1")
    assert bytes(chain.decode(bz2.compress(b"ab") + bz2.compress(b"c"), (3,))) == b"abc"
    assert bytes(chain.decode(bz2.compress(b"ab") + bytes(16), (2,))) == b"ab"
    for tail in (b"x", bytes(4) + b"x", bz2.compress(b"c")[:-1]):
        with pytest.raises(CodecError):
            chain.decode(bz2.compress(b"ab") + tail, (2,))
