import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.codecs import equals_fill


@settings(deadline=None)
@given(
    st.sampled_from(["?", "<i4", ">f8", "S3", "<U2", "<M8[s]", "V7", "<c16"]),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
def test_one_different_bit_is_detected(dtype, shape, fortran):
    dtype = np.dtype(dtype)
    fill = np.frombuffer(bytes([1] * dtype.itemsize) if dtype.kind != "U" else "ab".encode("utf-32-le"), dtype)[
        0:1
    ].reshape(())
    chunk = np.full(shape, fill, dtype, order="F" if fortran else "C")
    assert equals_fill(chunk, fill)
    if chunk.size:
        where = tuple(size - 1 for size in chunk.shape)
        changed = bytearray(fill.tobytes())
        changed[-1 if dtype.kind != "U" else 0] ^= 1
        chunk[where] = np.frombuffer(bytes(changed), dtype)[0]
        assert not equals_fill(chunk, fill)


@pytest.mark.parametrize(
    ("chunk", "fill", "same"),
    [
        ([0.0, -0.0], 0.0, False),
        ([np.nan, np.nan], np.nan, True),
        (["", ""], "", True),
        (["", None], "", False),
        ([0, False], 0, False),
        ([1, 1], 1, True),
        ([b"a", b"a"], b"a", True),
        ([None, None], None, True),
        ([True, True], True, True),
    ],
)
def test_values(chunk, fill, same):
    dtype = None if isinstance(fill, float) else object
    assert equals_fill(np.array(chunk, dtype), np.array(fill, dtype)) is same


def test_without_fill_value():
    assert not equals_fill(np.zeros(3), None)


NAN = struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]


@pytest.mark.parametrize(
    ("item", "fill", "same"),
    [
        (0.0, 0.0, True),
        (-0.0, 0.0, False),
        (math.nan, math.nan, True),
        (NAN, math.nan, False),
        (1, 1.0, False),
        (1.0, 1, False),
        (True, 1, False),
        ([-0.0], [0.0], False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": 1}, False),
        ((), (), False),
        (np.array([-0.0]), np.array([0.0]), False),
        (np.array([1]), np.array([1]), False),
        (np.float64(-0.0), np.float64(0.0), False),
    ],
    ids=repr,
)
def test_objects(item, fill, same):
    chunk, value = np.empty(2, object), np.empty((), object)
    chunk[0] = fill
    chunk[1] = item
    value[()] = fill
    assert equals_fill(chunk, value) is same
