"""Values are compared as NumPy does, NaN aside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.json_values import equal_json
from tegula.reductions.equality import are_comparable, equal_values

pytestmark = pytest.mark.once(executors="none")


def equal(one: Any, other: Any, exact: bool = False) -> list[bool]:
    one, other = np.asarray(one), np.asarray(other)
    types = tuple(
        DataType(np.dtype(object), "string") if item.dtype.kind == "O" else as_data_type(item.dtype)
        for item in (one, other)
    )
    found: list[bool] = equal_values(one, other, (types[0], types[1]), exact).tolist()
    return found


def test_numbers() -> None:
    nan, other_nan = np.array([0x7FF8000000000000, 0x7FF8000000000001], "u8").view("f8")
    assert equal([nan, 0.0, 1.0, nan], [other_nan, -0.0, 1.5, 0.0]) == [True, True, False, False]
    assert equal([nan, nan, 0.0], [nan, other_nan, -0.0], exact=True) == [True, False, False]
    assert equal(np.array([1, 2], ">i4"), np.array([1, 2], "<i4"), exact=True) == [True, True]
    assert equal([1, 2], [1.0, 2.5]) == [True, False]
    assert equal([complex("nan"), 1 + 2j], [complex("nan"), 1 - 2j]) == [True, False]
    assert equal(np.array(["NaT", "2020"], "M8[Y]"), np.array(["NaT", "2021"], "M8[Y]")) == [True, False]
    assert equal([True, False], [True, True]) == [True, False]
    brain = as_data_type("bfloat16").numpy
    assert equal(np.array([1.5, np.nan]).astype(brain), np.array([1.5, np.nan]).astype(brain)) == [True, True]


def test_text_bytes_and_structures() -> None:
    assert equal(["a", "b"], np.array(["a", "c"], object)) == [True, False]
    assert equal(np.array([None, "x"], object), np.array(["", "y"], object)) == [True, False]
    assert equal(np.array([b"ab", b"c"]), np.array([b"ab", b"d"]), exact=True) == [True, False]
    kind = np.dtype([("a", "f4"), ("b", "i2", 2)])
    one = np.array([(np.nan, [1, 2]), (1, [1, 2])], kind)
    other = np.array([(np.nan, [1, 2]), (1, [1, 3])], kind)
    assert equal(one, other) == equal(one, other, exact=True) == [True, False]
    assert equal(np.array([b"ab"], "V3"), np.array([b"ab"], "V3")) == [True]


def test_types_that_can_be_compared() -> None:
    for one, other, same in [("i4", "f8", True), ("?", "u1", True), ("U3", str, True), ("S3", bytes, True),
                             ("U3", "S3", False), ("M8[s]", "i8", False), ("V3", "V4", False),
                             ([("a", ">i4")], [("a", "<i4")], True), ([("a", "i4")], "i4", False)]:  # fmt: skip
        assert are_comparable(as_data_type(one), as_data_type(other)) is same


def test_json() -> None:
    nan = float("nan")
    assert equal_json([nan, {"a": (1, 2)}], [nan, {"a": [1, 2]}])
    assert not equal_json([1], [True])
    assert not equal_json({"a": 1}, {"a": 1, "b": 2})
