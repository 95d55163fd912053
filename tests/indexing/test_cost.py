"""The cost of a plan depends on the selection and not on the size of the array."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tegula.indexing import Lookup, Plan, basic, blocks, numpy_like, orthogonal, vectorized
from tegula.metadata.chunk_grids import chunk_grid, regular_grid

pytestmark = pytest.mark.once(executors="none")

VAST = 2**40
SHAPE = (VAST, VAST, VAST)
GRID = regular_grid((1000, 1, 2**20))


@contextmanager
def at_most(size: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def all_selections() -> Iterator[Plan]:
    last = VAST - 1
    yield basic((last, -1, last), SHAPE, GRID)
    yield basic((slice(0, 2001), 5, slice(-3, None)), SHAPE, GRID)
    yield basic((slice(None, None, 2**38), 5, slice(None, None, -(2**38))), SHAPE, GRID)
    yield blocks((-1, 0, -1), SHAPE, GRID)
    yield orthogonal(([last, 0, -5, 0], slice(last, None), [1, last]), SHAPE, GRID)
    yield orthogonal(([], [], []), SHAPE, GRID)
    yield vectorized(([last, 0, -5, 0], [1, 2, 3, last], [0, last, 0, 1]), SHAPE, GRID)
    yield numpy_like(([[last], [0]], slice(4, 6), [0, last]), SHAPE, GRID)


def test_plans_over_huge_arrays_take_no_memory() -> None:
    all_chunks = [list(plan) for plan in all_selections()]
    with at_most(200_000):
        for plan, chunks in zip(all_selections(), all_chunks):
            assert plan.nchunks == sum(1 for _ in plan) == len(chunks) <= 30


def test_distant_points_are_grouped_although_chunk_numbers_overflow() -> None:
    coordinates = [[0, VAST - 1, 0, VAST - 1, 7], [VAST - 1, 0, VAST - 1, 0, 7], [1, 2, 1, 3, VAST - 1]]
    grid = regular_grid((1, 2, 1))
    found = {coords: inner for coords, inner, _, _ in vectorized(tuple(map(np.array, coordinates)), SHAPE, grid)}
    assert set(found) == {(0, VAST // 2 - 1, 1), (VAST - 1, 0, 2), (VAST - 1, 0, 3), (7, 3, VAST - 1)}
    assert found[0, VAST // 2 - 1, 1][1].tolist() == [1, 1]


def test_the_product_over_axes_is_not_stored() -> None:
    with at_most(10_000_000):
        plan = basic((), (10_000,) * 3, regular_grid((1, 1, 10)))
        assert plan.nchunks == 10**11
        found = iter(plan)
        assert next(found)[0] == (0, 0, 0)
        assert next(found)[0] == (0, 0, 1)


@pytest.mark.parametrize("chunk", [1, 7, 2**30])
@pytest.mark.parametrize("step", [1, -1, 5, -7, 2**31])
def test_planning_all_of_a_huge_array_takes_no_memory(chunk: int, step: int) -> None:
    with at_most(100_000):
        plan = numpy_like((slice(None, None, step), ...), SHAPE, regular_grid((chunk,) * 3))
        per_axis = [-(-VAST // max(abs(length), chunk)) for length in (step, 1, 1)]
        assert plan.nchunks == np.prod(per_axis, dtype=object)
        empty = basic((slice(0, 0), ...), SHAPE, GRID)
        assert empty.nchunks == 0
        assert not list(empty)


def test_a_large_step_skips_chunks() -> None:
    plan = basic(slice(5, None, 2**30), (VAST,), regular_grid((10,)))
    assert plan.nchunks == 1024
    assert [coords for coords, *_ in plan][:2] == [(0,), (2**30 // 10,)]


def test_sorted_index_arrays_give_views_of_the_work_buffer() -> None:
    plan = orthogonal((slice(2), np.array([1, 2, 3, 5, 8])), (10, 10), regular_grid((5, 4)))
    work = [outer for *_, outer, _ in plan]
    assert work == [
        (slice(0, 2, 1), slice(0, 3, 1)),
        (slice(0, 2, 1), slice(3, 4, 1)),
        (slice(0, 2, 1), slice(4, 5, 1)),
    ]
    assert next(iter(plan))[1][1] == slice(1, 4, 1)
    table = plan.axes[1]
    assert isinstance(table, Lookup)
    assert table.positions is None


@pytest.mark.parametrize("chunks", [4, [3, 4, 2, 1]])
def test_every_chunk_of_a_mask_is_covered_exactly_when_it_is_all_true(chunks: int | list[int]) -> None:
    grid = chunk_grid((chunks, 2))
    for mask in (np.ones((10, 6), bool), np.add.outer(np.arange(10), np.arange(6)) != 4):
        for coords, _, _, covers in vectorized(mask, mask.shape, grid):
            starts = [axis.start(number) for axis, number in zip(grid.axes, coords)]
            part = mask[tuple(slice(s, s + n) for s, n in zip(starts, grid.chunk_shape(coords)))]
            assert covers == part.all()
