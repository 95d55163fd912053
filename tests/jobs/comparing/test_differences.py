"""Boxes of two arrays are compared as the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.jobs import units
from tegula.jobs.comparing.differences import Differing, Largest, compare_box, decodes_alike
from tegula.jobs.comparing.differences import units as boxes_of


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
            most = max(places)  # the values rise in C order
            assert found.largest == Largest(values[most] + 1.0, most, values[most], -1)


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


@pytest.mark.parametrize(
    ("one", "other", "largest"),
    [
        ([1.0, np.nan, 3.0, 4.0], [2.0, 5.0, 3.0, 9.0], ((3,), 4.0, 9.0)),
        ([np.nan, 1.0], [0.0, 1.0], None),  # which has no size
        ([1.0, np.inf, 0.0], [5.0, 0.0, 0.0], ((1,), np.inf, 0.0)),
        (np.array([255, 1], "u1"), np.array([0, 3], "u1"), ((0,), 255, 0)),
        (np.array([0, 2**60]), np.array([1, 2**60 + 100]), ((1,), 2**60, 2**60 + 100)),
        (np.array([-(2**63), 0]), np.array([2**63 - 1, 2]), ((0,), -(2**63), 2**63 - 1)),
        (np.array([2**64 - 1, 7], "u8"), np.array([2**64 - 3, 4], "u8"), ((1,), 7, 4)),
        (np.array([1 + 1j, 2]), np.array([1, 2 + 9j]), ((1,), 2 + 0j, 2 + 9j)),
        (np.array([True, False]), np.array([False, False]), ((0,), True, False)),
        (np.array(["a", "b"]), np.array(["a", "c"]), None),
    ],
)
def test_the_largest_difference(one: Any, other: Any, largest: Any) -> None:
    pair = [tegula.create_array({}, data=np.asarray(each), chunks=1) for each in (one, other)]
    (found,) = tegula.compare(*pair).differences
    assert found.largest == largest


def test_the_largest_difference_of_elements_that_are_not_stored() -> None:
    pair = [tegula.create_array({}, shape=10**6, chunks=10, dtype="f4", fill_value=fill) for fill in (1, 3)]
    (found,) = (each for each in tegula.compare(*pair).differences if each.what == "values")
    assert (found.count, found.largest) == (10**6, ((0,), 1.0, 3.0))
    assert "values differ, the first and largest at [0]: 1.0 and 3.0" in str(found)
