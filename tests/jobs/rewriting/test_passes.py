"""Plans of passes: each element once, within the memory, and never more costly than one pass."""

from __future__ import annotations

import time
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tegula.jobs.rewriting.passes import Pass, Passes, TooSmall, plan_passes

pytestmark = pytest.mark.once(executors="none")


@st.composite
def problems(draw: st.DrawFn, longest: int = 60) -> dict[str, Any]:
    ndim = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, longest if ndim < 3 else 12)) for _ in range(ndim))
    reads, writes = (tuple(draw(st.integers(1, size + 3)) for size in shape) for _ in range(2))
    itemsize, depth = draw(st.sampled_from([1, 2, 8])), draw(st.sampled_from([1, 1, 1, 3]))
    least = 3 * max(prod(reads) * depth, prod(writes)) * itemsize
    return {
        "shape": shape,
        "itemsize": itemsize,
        "reads": reads,
        "writes": writes,
        "depth": depth,
        "max_memory": draw(st.integers(1, 4 * max(least, prod(shape) * itemsize))),
        "threads": draw(st.sampled_from([1, 2, 8])),
        "request_nbytes": draw(st.sampled_from([0, 1, 2**10, 2**20])),
    }


@st.composite
def crossings(draw: st.DrawFn) -> dict[str, Any]:
    """Draw problems in which the chunks lie across each other, and memory is scarce."""
    shape = tuple(draw(st.integers(30, 90)) for _ in range(2)) + tuple(draw(st.lists(st.integers(1, 3), max_size=1)))
    reads = (draw(st.integers(1, 4)), *shape[1:])
    writes = (shape[0], draw(st.integers(1, 4)), *shape[2:])
    least = 3 * max(prod(reads), prod(writes))
    swapped = (writes, reads) if draw(st.booleans()) else (reads, writes)
    problem = {"shape": shape, "itemsize": 1, "reads": swapped[0], "writes": swapped[1], "request_nbytes": 0}
    return {**problem, "max_memory": draw(st.integers(least, 2 * least))}


def planned(problem: dict[str, Any], **changes: Any) -> Passes:
    try:
        return plan_passes(**{**problem, **changes})
    except TooSmall:
        assume(False)
        raise


def cells(shape: tuple[int, ...], lengths: tuple[int, ...]) -> list[tuple[slice, ...]]:
    counts = [-(-size // length) for size, length in zip(shape, lengths)]
    return [
        tuple(slice(n * length, min((n + 1) * length, size)) for n, length, size in zip(cell, lengths, shape))
        for cell in np.ndindex(*counts)
    ]


@given(problems())
def test_each_element_is_in_one_unit_and_each_chunk_is_written_by_one(problem: dict[str, Any]) -> None:
    for one in planned(problem).passes:
        seen = np.zeros(one.shape, int)
        units = cells(one.shape, one.unit)
        assert len(units) == one.units
        for unit in units:
            seen[unit] += 1
        assert (seen == 1).all()
        for size, unit, chunk in zip(one.shape, one.unit, one.writes):
            assert unit >= size or unit % chunk == 0


@given(crossings())
def test_the_chunks_between_divide_both_units_evenly_and_are_read_once(problem: dict[str, Any]) -> None:
    found = planned(problem)
    assume(found.temporary is not None)
    assert found.temporary is not None
    first, second = found.passes
    assert first.writes == second.reads == found.temporary
    for size, chunk, *units in zip(first.shape, found.temporary, first.unit, second.unit):
        assert all(unit >= size or unit % chunk == 0 for unit in units)
    assert second.requests_read == first.requests_written
    assert first.requests_read == prod(-(-size // length) for size, length in zip(first.shape, problem["reads"]))


@given(problems())
def test_no_unit_needs_more_than_the_memory(problem: dict[str, Any]) -> None:
    needed = 0
    try:
        found = plan_passes(**problem)
    except TooSmall as error:
        needed = error.needed
    if needed:
        assert needed > problem["max_memory"]
        assert plan_passes(**{**problem, "max_memory": needed}).memory <= needed
        return
    assert found.memory <= problem["max_memory"]
    for one in found.passes:
        unit = prod(min(length, size) for length, size in zip(one.unit, one.shape))
        assert unit * one.itemsize + 2 * one.threads * prod(one.writes) * one.itemsize <= problem["max_memory"]
        assert 1 <= one.threads <= problem["threads"]


@given(problems(), st.integers(1, 10))
def test_plan_costs_at_most_one_pass_and_is_one_unit_in_ample_memory(problem: dict[str, Any], factor: int) -> None:
    single = planned(problem, two=False)
    assert len(single.passes) == 1
    assert planned(problem).cost <= single.cost
    whole = planned(problem, max_memory=10**9, two=True)
    assert whole.passes[0].units == 1  # all fits into memory: one unit, each chunk read once


@given(problems(longest=30))
def test_what_is_counted_is_what_would_be_read(problem: dict[str, Any]) -> None:
    for one in planned(problem).passes:
        reads = 0
        for unit in cells(one.shape, one.unit):
            reads += prod(-(-part.stop // n) - part.start // n for part, n in zip(unit, one.reads))
        assert reads == one.requests_read
        assert len(cells(one.shape, one.writes)) == one.requests_written


@pytest.mark.parametrize("shape", [(10_000, 100, 100), (100_000, 1000, 1000), (10**6, 300, 700)])
def test_time_and_space(shape: tuple[int, ...]) -> None:
    """From maps to series and back, in a fraction of the memory: two passes, each chunk read once."""
    maps, series = (1, *shape[1:]), (shape[0], 10, 10)
    for reads, writes in [(maps, series), (series, maps)]:
        problem: dict[str, Any] = {"shape": shape, "itemsize": 4, "reads": reads, "writes": writes, "threads": 2}
        found = plan_passes(**problem, max_memory=2**29 if shape[0] < 10**6 else 2**31)
        single = plan_passes(**problem, max_memory=2**29 if shape[0] < 10**6 else 2**31, two=False)
        assert found.cost <= single.cost
        if prod(shape) * 4 > 2**32:
            assert len(found.passes) == 2
            assert found.bytes_read + found.bytes_written == 4 * prod(shape) * 4
            assert 3 * found.cost < single.cost
        chunks = found.temporary
        assert chunks is None or prod(chunks) * 4 >= 2**15  # they are not tiny


@given(st.integers(2**25, 2**31))
def test_requests_are_few_in_any_amount_of_memory(max_memory: int) -> None:
    problem: dict[str, Any] = {"shape": (10_000, 100, 100), "itemsize": 8, "threads": 2, "max_memory": max_memory}
    for reads, writes in [((1, 100, 100), (10_000, 10, 10)), ((10_000, 10, 10), (1, 100, 100))]:
        found = plan_passes(**problem, reads=reads, writes=writes)
        least = 10_000 + 100  # the chunks of both sides
        assert found.requests < 5 * least


@pytest.mark.slow
def test_a_plan_for_a_huge_grid_takes_no_time() -> None:
    begin = time.process_time()
    size = 10**9
    plan_passes((size, size, size), 8, (1, 1000, 1000), (10**5, 7, 11), max_memory=2**31)
    plan_passes((size,) * 7, 8, (10,) * 7, (7,) * 7, max_memory=2**33)
    assert time.process_time() - begin < 5


def test_a_target_that_does_not_fit_says_what_it_needs() -> None:
    with pytest.raises(TooSmall) as caught:
        plan_passes((1000, 1000), 8, (10, 10), (1000, 1000), max_memory=2**20)
    assert caught.value.needed == 3 * 8 * 10**6


def test_a_pass_shows_what_it_takes() -> None:
    text = repr(Pass((100, 100), 8, reads=(1, 100), unit=(100, 10), writes=(100, 10), threads=1))
    assert "10 units of (100, 10)" in text
