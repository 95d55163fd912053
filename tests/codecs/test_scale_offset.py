import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.errors import CodecError, MetadataError

pytestmark = pytest.mark.once(executors="none")

INTEGERS = ["i1", ">i2", "<i4", "<i8", "u1", "<u2", ">u4", "<u8"]


@pytest.mark.parametrize(
    ("dtype", "options", "values", "stored"),
    [  # recorded from zarr-python 3.4.2
        ("<f4", {"offset": 5, "scale": 0.1}, [5, 7.5, -3], "000000000000803ecdcc4cbf"),
        ("<f8", {"offset": "1.5", "scale": "0.25"}, [5, 7.5, -3], "000000000000ec3f000000000000f83f000000000000f2bf"),
        ("<f2", {"offset": 5, "scale": 0.1}, [5, 7.5, -3], "0000003466ba"),
        ("<i4", {"offset": 10, "scale": 3}, [10, 20, -30], "000000001e00000088ffffff"),
        ("i1", {"offset": 10, "scale": 3}, [10, 20, -30], "001e88"),
        ("u1", {"offset": 5, "scale": 2}, [30, 10], "320a"),
        ("<i8", {"scale": -2}, [-(2**61), 2**62 - 1], "00000000000000400200000000000080"),
    ],
)
def test_arrays_of_zarr_python(build, dtype, options, values, stored):
    chain = build([("scale_offset", options), ("bytes", {"endian": "little"})], dtype)
    assert bytes(chain.encode(np.array(values, dtype))).hex() == stored
    assert chain.decode(bytes.fromhex(stored), (len(values),)).tolist() == values


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(INTEGERS), st.data())
def test_integers_match_python_or_raise(build, dtype, data):
    info = np.iinfo(np.dtype(dtype))
    number = st.integers(info.min, info.max) | st.integers(max(info.min, -9), 9)
    values = data.draw(st.lists(number, min_size=1, max_size=5))
    offset, scale = data.draw(number), data.draw(number.filter(bool))
    chain = build([("scale_offset", {"offset": offset, "scale": scale}), "bytes"], dtype, 1, None)
    plain = build(["bytes"], dtype)
    expected = [(value - offset) * scale for value in values]
    if all(info.min <= value <= info.max for value in expected):
        found = chain.encode(np.array(values, dtype))
        assert plain.decode(found, (len(values),)).tolist() == expected
        assert chain.decode(found, (len(values),)).tolist() == values
    else:
        with pytest.raises(CodecError, match="range"):
            chain.encode(np.array(values, dtype))
    back = [divmod(value, scale) for value in values]
    stored = bytes(plain.encode(np.array(values, dtype)))
    if all(rest == 0 and info.min <= whole + offset <= info.max for whole, rest in back):
        assert chain.decode(stored, (len(values),)).tolist() == [whole + offset for whole, _ in back]
    else:
        with pytest.raises(CodecError):
            chain.decode(stored, (len(values),))


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "bfloat16", "float8_e5m2"])
def test_floats_keep_their_type(build, dtype):
    plain = build(["bytes"], dtype)
    chunk = plain.decode(bytes(2 * plain.encoded_size((1,))), (2,))
    chain = build([("scale_offset", {"offset": 1, "scale": 0.5}), "bytes"], dtype)
    found = chain.decode(chain.encode(chunk), (2,))
    assert (found.dtype, found.tolist()) == (chunk.dtype, [0, 0])


def test_overflow_of_floats_is_infinite(build):
    chain = build([("scale_offset", {"scale": 1e300}), "bytes"], "f8")
    assert np.isinf(np.frombuffer(chain.encode(np.array([1e300])), "f8"))[0]


def test_no_dimensions_and_no_elements(build):
    chain = build([("scale_offset", {"offset": 1, "scale": 2}), "bytes"], "<i4", 0)
    assert chain.decode(chain.encode(np.array(5, "<i4")), ()) == 5
    chain = build([("scale_offset", {"offset": 1, "scale": 2}), "bytes"], "<i4")
    assert chain.decode(chain.encode(np.zeros(0, "<i4")), (0,)).size == 0


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("<i4", {"scale": 0}),
        ("f8", {"scale": "0"}),
        ("<i4", {"scale": 1.5}),
        ("<i4", {"offset": "x"}),
        ("u1", {"offset": -1}),
        ("u1", {"offset": True}),
        ("u1", {"offset": [1]}),
        ("f8", {"offset": "x"}),
        ("?", {}),
        ("S3", {}),
        ("c16", {}),
        (str, {}),
        ("<i4", {"extra": 1}),
    ],
)
def test_invalid_configurations(build, dtype, options):
    with pytest.raises(MetadataError):
        build([("scale_offset", options), "bytes"], dtype, 1, None)
