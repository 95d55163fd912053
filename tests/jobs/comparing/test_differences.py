"""Values are compared as NumPy does, NaN aside, and boxes as the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.jobs import units
from tegula.jobs.comparing.differences import (
    Differing,
    are_comparable,
    compare_box,
    decodes_alike,
    equal_json,
    equal_values,
)
from tegula.jobs.comparing.differences import units as boxes_of
from tegula.metadata.data_types import DataType, as_data_type


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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6, unique=True), st.permutations(range(4)))
def test_results_of_boxes_merge_to_that_of_the_whole(places: list[tuple[int, int]], order: list[int]) -> None:
    values = np.arange(16).reshape(4, 4)
    changed = values.copy()
    for place in places:
        changed[place] = -1
    pair = [tegula.create_array({}, shape=(4, 4), chunks=(2, 2), dtype="i8") for _ in range(2)]
    for array, content in zip(pair, (values, changed)):
        array[:] = content
    boxes = [(slice(row, row + 2), slice(column, column + 2)) for row in (0, 2) for column in (0, 2)]
    for alike in (False, True):
        found = Differing()
        for number in order:
            found = found.merge(compare_box(*pair, boxes[number], exact=False, alike=alike))
        assert found.count == len(places)
        assert found.index == min(places, default=None)
        if places:
            assert (found.one, found.other) == (values[min(places)], -1)


def test_units_cover_all_chunks_or_the_stored_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    one = tegula.create_array({}, shape=(100, 90), chunks=(10, 10), dtype="u1")
    other = tegula.create_array({}, shape=(100, 90), chunks=(20, 15), dtype="u1")
    monkeypatch.setattr(units, "BLOCK_BYTES", 300)
    monkeypatch.setattr("tegula.engine.stored.array._FEW", 0)

    def covered() -> tuple[np.ndarray[Any, Any], list[tuple[int, ...]]]:
        seen = np.zeros(one.shape, int)
        absent: list[tuple[int, ...]] = []
        for box in boxes_of(one, other, absent):
            seen[box] += 1
        assert seen.max(initial=0) <= 1
        return seen, absent

    assert covered()[1] == [(0, 0)]
    one[0, 0] = 1
    seen, absent = covered()
    assert absent == [tuple(np.argwhere(seen == 0)[0])] != [(0, 0)]
    other[55, 30] = 1
    assert covered()[0][55, 30] == 1
    one[:], other[:] = 3, 4
    seen, absent = covered()
    assert seen.all()
    assert not absent


def test_chunks_that_decode_alike() -> None:
    def made(**options: Any) -> tegula.Array:
        return tegula.create_array({}, **{"shape": 9, "chunks": 3, "dtype": "i4", "codecs": "zstd", **options})

    assert decodes_alike(made(), made(codecs={"id": "zstd", "level": 9}))
    assert not decodes_alike(made(), made(codecs="gzip"))
    assert not decodes_alike(made(), made(chunks=2))
    assert not decodes_alike(made(), made(fill_value=1))
    assert decodes_alike(made(shards=9, chunks=3), made(shards=9, chunks=3))
    assert not decodes_alike(made(shards=9, chunks=3), made(chunks=9))
