import importlib.util

import numpy as np
import pytest

from tegula.codecs.serializers.zfpy import header
from tegula.errors import CodecError, MetadataError, UnsupportedError

# np.arange(6.0, dtype="f4").reshape(2, 3) as zfpy 1.0.1 writes it with 16 bits to a value
RECORDED = bytes.fromhex(
    "7a667005260000100000f00f05711c9c428a002001000000000000000000000000000000000000000000000000000000"
)


def test_headers():
    assert header(RECORDED) == ("<f4", (3, 2))
    for data in (b"", RECORDED[:11], b"zip" + RECORDED[3:]):
        assert header(data) is None


def test_data_is_checked_against_the_chunk(build):
    if importlib.util.find_spec("zfpy") is None:
        with pytest.raises(UnsupportedError, match="pip install 'zfpy"):
            build(["numcodecs.zfpy"], "<f4", 2)
        return
    chain = build([("numcodecs.zfpy", {"mode": 2, "rate": 16})], "<f4", 2)
    assert bytes(chain.encode(np.arange(6, dtype="<f4").reshape(2, 3))) == RECORDED
    assert np.allclose(chain.decode(RECORDED, (2, 3)), np.arange(6).reshape(2, 3), atol=0.01)
    for shape in ((2, 2), (3, 3)):
        with pytest.raises(CodecError):
            chain.decode(RECORDED, shape)
    for size in range(len(RECORDED) - 8):
        with pytest.raises(CodecError):
            chain.decode(RECORDED[:size], (2, 3))


@pytest.mark.parametrize(("dtype", "ndim"), [("u1", 1), ("<f2", 1), ("<f4", 0), ("<f4", 5), ("S4", 1)])
def test_invalid_inputs(build, dtype, ndim):
    with pytest.raises(MetadataError):
        build(["numcodecs.zfpy"], dtype, ndim, None)


@pytest.mark.skipif(importlib.util.find_spec("zfpy") is None, reason="zfpy is not installed")
@pytest.mark.parametrize(
    "mode", [{"mode": 2, "rate": 9}, {"mode": 3, "precision": 20}, {"mode": 4, "tolerance": 0.01}, {}]
)
@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f8"])
@pytest.mark.parametrize("shape", [(1,), (30,), (5, 9), (3, 4, 5), (2, 3, 4, 5)])
def test_decoding_reverses_encoding(build, mode, dtype, shape):
    values = np.linspace(-1, 1, np.prod(shape)).reshape(shape).astype(dtype)
    chain = build([("numcodecs.zfpy", mode)], dtype, len(shape))
    stored = bytes(chain.encode(values))
    found = chain.decode(stored, shape)
    assert found.dtype == values.dtype
    assert np.allclose(found, values, atol=0.05)
