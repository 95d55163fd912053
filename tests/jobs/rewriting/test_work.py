"""Boxes of a sparse array: only the chunks that hold something are read, written and compared."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula.arrays.chunk_regions import indices_of
from tegula.jobs.rewriting import work
from tegula.jobs.rewriting.work import Converting, parts_of
from tegula.stores import MemoryStore

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))
LENGTHS = st.tuples(st.integers(1, 5), st.integers(1, 5))
SELECTIONS = st.sampled_from(
    [None, (slice(1, None), slice(None)), (slice(None, None, 2), slice(2, 9)), (slice(None, None, -1), 0)]
)


@given(
    shape=SIZES,
    reads=LENGTHS,
    writes=LENGTHS,
    select=SELECTIONS,
    seed=st.integers(0, 99),
    worth=st.sampled_from([1, 40]),
)
def test_parts_hold_all_that_is_stored(
    shape: tuple[int, ...], reads: Any, writes: Any, select: Any, seed: int, worth: int
) -> None:
    source = tegula.create_array(MemoryStore(), shape=shape, chunks=reads, dtype="i4", fill_value=0)
    random = np.random.default_rng(seed)
    for index in random.integers(0, shape, (3, 2)):
        source[tuple(map(int, index))] = 1
    axes = indices_of(... if select is None else select, shape)
    wanted = source[...] if select is None else source[select]
    if not wanted.size:
        return
    chunks = writes[: wanted.ndim]
    target = tegula.create_array(MemoryStore(), shape=wanted.shape, chunks=chunks, dtype="i4", fill_value=0)
    target[...] = wanted
    # one block holds the whole array
    box = tuple(slice(0, size) for size in wanted.shape)
    stored = [(0, *coords) for coords, _ in source.stored.stored_chunks()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "_WORTH", worth)
        for some in (stored, [*stored, *((1, *coords) for coords, _ in target.stored.stored_chunks())]):
            parts = parts_of(source, axes, target, box, some)
            visited = np.zeros(wanted.shape, int)
            for part in parts:
                visited[part] += 1
            assert visited.max(initial=0) <= 1
            assert np.all(visited[wanted != 0] == 1)
            assert len(parts) <= max(1, prod(wanted.shape) * 4 // worth)


@pytest.mark.parametrize("options", [{}, {"resume": True}])
def test_scattered_chunks_are_visited_alone(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of 64 MiB around each would be fill values."""
    source = tegula.create_array(MemoryStore(), shape=(10**6, 10**6), chunks=(100, 100), dtype="f4", fill_value=0)
    for place in range(20):
        source[place * 40_000 + 7, place * 30_000 + 9] = place + 1
    visited: list[int] = []
    for name in ("_rewritten", "_compared"):
        original = getattr(Converting, name)

        def noted(*args: Any, original: Any = original) -> Any:
            visited.append(prod(part.stop - part.start for part in args[1]))
            return original(*args)

        monkeypatch.setattr(Converting, name, noted)
    target = MemoryStore()
    report = tegula.convert(source, target, chunks=(50, 200), verify=True, **options)
    assert report.ok
    assert report.arrays[0].digest == tegula.checksum(source).digest == tegula.checksum(target).digest
    assert sum(visited) <= 20 * 2 * 2 * 50 * 200
    assert tegula.open(target)[19 * 40_000 + 7, 19 * 30_000 + 9] == 20
    assert tegula.compare(source, target).equal
