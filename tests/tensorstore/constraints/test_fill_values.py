"""Fill values: laws of conversion to and from JSON and of spreading over a shape, with NumPy as oracle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tegula.errors import TegulaError
from tegula.tensorstore.constraints import dtypes, fill_values

pytestmark = pytest.mark.once(executors="none")

numbers = st.sampled_from(["b1", "u1", "i2", "u8", "f2", "f4", "f8", "c8", "c16"]).map(np.dtype)
arrays = numbers.flatmap(lambda kind: npst.arrays(kind, npst.array_shapes(min_dims=0, max_dims=3, max_side=3)))


@settings(deadline=None)
@given(arrays)
def test_json_keeps_every_value(array: np.ndarray[Any, Any]) -> None:
    kind = dtypes.dtype(array.dtype)
    plain = fill_values.stripped(array)
    again = fill_values.from_json(fill_values.to_json(plain, kind), kind)
    assert again.dtype == array.dtype
    assert np.array_equal(again, plain, equal_nan=array.dtype.kind in "fc")
    assert fill_values.equal(again, plain)


@settings(deadline=None)
@given(arrays, npst.array_shapes(min_dims=0, max_dims=4, max_side=3))
def test_broadcasting_is_that_of_numpy(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
    plain = fill_values.stripped(array)
    try:
        np.broadcast_to(plain, shape)
    except ValueError:
        with pytest.raises(ValueError, match="Cannot broadcast array of shape"):
            fill_values.check_broadcast(plain, shape)
    else:
        fill_values.check_broadcast(plain, shape)


@settings(deadline=None)
@given(arrays, numbers)
def test_values_are_kept_or_refused(array: np.ndarray[Any, Any], target: np.dtype[Any]) -> None:
    try:
        result = fill_values.as_dtype(array, dtypes.dtype(target))
    except TegulaError:
        inexact = target.kind in "fc" and (target.kind == "c" or array.dtype.kind != "c")
        assert not inexact
        assert array.dtype != target
        return
    assert result.dtype == target
    if target.kind in "biu":
        # exact, as far as Python's numbers can tell
        assert result.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("json", "kind", "message"),
    [
        ([[1, 2], [3]], "uint8", r"\[3\] does not fit into an array of shape \[2, 2\]"),
        ([1, "a"], "uint8", r"at position \[1\]: Expected integer in the range \[0, 255\], but received: \"a\""),
        (500, "uint8", r"at position \[\]: Expected integer in the range \[0, 255\], but received: 500"),
        ({"a": 1}, "float32", "Expected 64-bit floating-point number"),
        (1, "bool", "Expected boolean, but received: 1"),
        (5, "complex64", "Expected pairs of numbers"),
        ("x", "<M8[s]", "Error parsing array element"),
        (300, "byte", "Error parsing array element"),
    ],
)
def test_json_that_is_not_valid(json: Any, kind: str, message: str) -> None:
    with pytest.raises(TegulaError, match=message):
        fill_values.from_json(json, dtypes.dtype(kind))


def test_nothing_is_left_of_repetition() -> None:
    assert fill_values.stripped(np.broadcast_to(np.arange(3), (4, 5, 3))).tolist() == [0, 1, 2]
    assert fill_values.from_argument([[["a"]]], dtypes.ustring).shape == ()
    assert fill_values.from_argument(b"abc", dtypes.char).tolist() == [b"a", b"b", b"c"]
