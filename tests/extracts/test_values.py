"""Conversion of values to JSON."""

import json
from math import inf, nan

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tegula.extracts.values import array_to_json, json_text, to_json

NUMBERS = st.sampled_from(["?", "i1", ">u2", "u8", "f2", "f4", ">f8"])


@given(npst.arrays(NUMBERS, npst.array_shapes(min_dims=0, min_side=0, max_side=3)))
def test_numbers_survive_json(values):
    text = json.dumps(array_to_json(values), allow_nan=False)
    numbers = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}

    def back(item):
        return (
            [back(inner) for inner in item]
            if isinstance(item, list)
            else numbers.get(item, item)
            if isinstance(item, str)
            else item
        )

    again = np.array(back(json.loads(text)), values.dtype).reshape(values.shape)
    np.testing.assert_array_equal(again, values)
    if values.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(again[~np.isnan(again)]), np.signbit(values[~np.isnan(values)]))


@pytest.mark.slow
@given(npst.arrays(npst.array_dtypes() | npst.nested_dtypes(), npst.array_shapes(max_dims=2, max_side=3)))
def test_anything_becomes_strict_json(values):
    json.dumps(array_to_json(values), allow_nan=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.1), 0.1),
        (np.array([1 + 2j, complex(nan, -inf)], "c8"), [[1.0, 2.0], ["NaN", "-Infinity"]]),
        (np.array(["2020-01-02T03", "NaT"], "M8[h]"), ["2020-01-02T03", "NaT"]),
        (np.array([7, -(2**63)]).view("M8"), ["7", "NaT"]),
        (np.timedelta64(90, "m"), "90 minutes"),
        (np.array(b"ab", "S4"), "ab"),
        (np.array([b"\xff\xfe"], "V2"), ["base64://4="]),
        (np.array([1.5, nan], ml_dtypes.bfloat16), [1.5, "NaN"]),
        (np.array([-3, 2], ml_dtypes.int4), [-3, 2]),
        (np.array([1.5], ml_dtypes.float8_e5m2), [1.5]),
        (np.array([None, "a", b"b", [1, nan], {"k": np.int8(3)}, True, np.arange(2)], object),
         [None, "a", "b", [1, "NaN"], {"k": 3}, True, [0, 1]]),
        (np.zeros((2, 0, 3)), [[], []]),
        (np.zeros(2, [("a", "u1", (2,)), ("b", [("c", "?")])]), [{"a": [0, 0], "b": {"c": False}}] * 2),
        ({"a": (1, None), "b": {3}}, {"a": [1, None], "b": [3]}),
    ],
)  # fmt: skip
def test_each_kind(value, expected):
    found = to_json(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


@pytest.mark.parametrize("dtype", sorted({"f2", "f4", "f8", np.dtype(np.longdouble).str, np.dtype(np.clongdouble).str}))
def test_floats_keep_their_digits(dtype):
    value = np.array("0.1", np.dtype(dtype)) if np.dtype(dtype).kind == "f" else np.array(0.5, dtype)
    found = array_to_json(value)
    if isinstance(found, list):
        assert found == [0.5, 0.0]
    else:
        assert np.array(found, dtype) == value


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_text_of_json_is_safe_to_show(value):
    text = json_text(value, indent=2)
    assert json.loads(text) == value
    assert all(line.isprintable() for line in text.split("\n"))


def test_letters_that_control_a_terminal_are_escaped_in_json():
    assert json_text("é\x9b\x85\u2028\u202e\x7f\ud800\U000e0001") == (
        r'"é\u009b\u0085\u2028\u202e\u007f\ud800\udb40\udc01"'
    )
