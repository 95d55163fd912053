"""The regions of chunks cover an array once, and a value is searched for by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.errors import SelectionError, TegulaError


def bounded(size: int) -> st.SearchStrategy[Any]:
    ends = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    numbers = [st.integers(-size, size - 1)] if size else []
    return st.one_of(*numbers, st.builds(slice, ends, ends))


@st.composite
def arrays(draw: st.DrawFn) -> tuple[tegula.Array, np.ndarray[Any, Any]]:
    ndim = draw(st.integers(0, 3))
    shape = draw(st.tuples(*[st.integers(0, 7)] * ndim))
    chunks: list[Any] = list(draw(st.tuples(*[st.integers(1, 4)] * ndim)))
    options: dict[str, Any] = {}
    match draw(st.sampled_from(["plain", "shards", "varying"])):
        case "shards" if ndim:
            options = {"shards": [n * draw(st.integers(1, 2)) for n in chunks]}
        case "varying" if ndim:
            chunks[0] = [1, 2, 1, 3]
    a = tegula.create_array({}, shape=shape, chunks=chunks, dtype="i4", fill_value=-1, **options)
    values = np.arange(a.size, dtype="i4").reshape(shape)
    a[...] = values
    return a, values


@given(arrays(), st.data())
def test_the_regions_of_chunks_cover_a_selection_once(
    case: tuple[tegula.Array, np.ndarray[Any, Any]], data: st.DataObject
) -> None:
    a, values = case
    selection = tuple(data.draw(bounded(n)) for n in a.shape[: data.draw(st.integers(0, a.ndim))])
    kept = tuple(slice(i % n, i % n + 1) if isinstance(i, int) else i for i, n in zip(selection, a.shape))
    for regions in (a.iter_chunks, a.iter_shards):
        seen = np.zeros(a.shape, int)
        for region in regions(selection):
            assert np.array_equal(a[region], values[region])
            assert len(region) == a.ndim
            assert 0 not in a[region].shape
            seen[region] += 1
        expected = np.zeros(a.shape, int)
        expected[kept] = 1
        assert np.array_equal(seen, expected)
    if a.size:
        assert len([*a.iter_chunks()]) == a.nchunks
        assert len([*a.iter_shards()]) == (a.nchunks if a.nshards is None else a.nshards)
        inner = [*a.iter_chunks()]
        assert all(n <= (c if isinstance(c, int) else max(c)) for n, c in zip(a[inner[0]].shape, a.chunks))


@pytest.mark.parametrize("selection", [slice(0, 4, 2), [1, 2], (0, 0, 0), 9, "x", (..., ...), np.ones(4, bool), True])
def test_regions_are_of_ints_and_slices(selection: Any) -> None:
    with pytest.raises(SelectionError):
        next(tegula.zeros((4, 4)).iter_chunks(selection))


def test_regions_of_a_huge_grid_are_found_one_by_one() -> None:
    a = tegula.create_array({}, shape=(2**60, 2**60), chunks=(1, 1), dtype="u1")
    assert next(a.iter_chunks()) == (slice(0, 1), slice(0, 1))
    assert [*a.iter_chunks((2**60 - 1, slice(5, 7)))][1] == (slice(2**60 - 1, 2**60), slice(6, 7))


@given(arrays(), st.integers(-3, 400))
def test_membership_agrees_with_numpy(case: tuple[tegula.Array, np.ndarray[Any, Any]], value: int) -> None:
    a, values = case
    assert (value in a) == (value in values)


def test_membership_reads_stored_chunks_and_checks_the_fill_value() -> None:
    vast = tegula.create_array({}, shape=(10**9, 10**9), chunks=(10, 10), dtype="f8", fill_value=7)
    vast[5, 5] = 3
    assert (3 in vast, 7 in vast, 4 in vast) == (True, True, False)
    one = tegula.create_array({}, shape=8, chunks=8, dtype="f8", fill_value=np.nan)
    assert np.float64("nan") not in one  # as in NumPy
    text = tegula.array(["a", "bc"])
    assert ("bc" in text, "x" in text) == (True, False)
    records = tegula.array(np.array([(1, 2.5)], "i4,f8"))
    assert ((1, 2.5) in records, (1, 3) in records) == (True, False)
    with pytest.raises(TegulaError, match="single elements"):
        assert [1, 2] in one
