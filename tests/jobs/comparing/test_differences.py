"""Boxes of two arrays are compared as the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.jobs import units
from tegula.jobs.comparing.differences import Differing, compare_box, decodes_alike
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
