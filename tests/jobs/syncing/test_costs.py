"""What a sync costs: requests, bytes and memory, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from tests.walks import calls, within

import tegula
from tegula.jobs.syncing.memory import Memory, Remembered
from tegula.jobs.syncing.states import States
from tegula.stores import LocalStore, MemoryStore
from tegula.stores.wrapping import WrappingStore

pytestmark = pytest.mark.once(executors="reference")
T = TypeVar("T")


class Counting(WrappingStore):
    """Counts operations, and the bytes of chunks that are read and written."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.counts = Counter[str]()
        self.nbytes = Counter[str]()

    def act(self, operation: str, key: str, work: Callable[[], T]) -> T:
        found: Any = work()
        is_chunk = "/c/" in f"/{key}"
        self.counts[f"{operation} chunk" if is_chunk and operation in ("get", "set", "delete") else operation] += 1
        if operation == "get":
            value = found[0] if isinstance(found, tuple) else found
            self.nbytes["read"] += len(value or b"")
        return found  # type: ignore[no-any-return]

    def set(self, key: str, value: Any, *, if_generation: Any = None) -> Any:
        self.nbytes["written"] += memoryview(value).nbytes
        return super().set(key, value, if_generation=if_generation)

    def take(self) -> tuple[Counter[str], Counter[str]]:
        """Return the counts, and begin anew."""
        found = self.counts, self.nbytes
        self.counts, self.nbytes = Counter(), Counter()
        return found


def new_pair(number: int, nbytes: int, **options: Any) -> tuple[Counting, Counting, tegula.Array]:
    """A source of chunks that do not compress, and its mirror."""
    source, target = Counting(MemoryStore()), Counting(MemoryStore())
    values = np.random.default_rng(0).integers(0, 256, (number, nbytes), "u1")
    array = tegula.create_array(source, data=values, chunks=(1, nbytes), codecs=False)
    tegula.sync(source, target, **options)
    source.take(), target.take()
    return source, target, array


@pytest.mark.parametrize("options", [{}, {"chunks": (2, 500)}], ids=["same", "other chunks"])
def test_if_nothing_has_changed_both_sides_are_listed_and_nothing_is_read(options: Any) -> None:
    source, target, _ = new_pair(50, 1000, **options)
    assert tegula.sync(source, target).is_same
    for store in (source, target):
        counts, nbytes = store.take()
        assert counts["list_states"] == 1
        assert not counts["get chunk"]
        assert not counts["set chunk"]
        assert not counts["size"]
        assert nbytes["read"] < 10_000
    assert not tegula.diff(source, target).arrays[0].requests
    assert not source.counts["get chunk"]
    assert not target.counts["get chunk"]


def test_if_nothing_has_changed_only_the_listings_take_time_for_each_chunk(tmp_path: Path) -> None:
    source, target = tmp_path / "s.zarr", tmp_path / "t.zarr"
    tegula.create_array(source, data=np.arange(1000), chunks=1)
    tegula.sync(source, target)

    def list_both() -> None:
        for path in (source, target):
            assert len([*LocalStore(path).list_states("")]) >= 1000

    assert within(len(calls(list_both)) + 1500, lambda: tegula.sync(source, target))


@pytest.mark.parametrize("options", [{}, {"codecs": "zstd"}], ids=["same", "other codecs"])
def test_a_hundredth_that_has_changed_costs_little_more_than_a_hundredth(options: Any) -> None:
    number, size = 500, 20_000
    source, target, array = new_pair(number, size, **options)
    array[7::100] = 1
    source.take()
    report = tegula.sync(source, target)
    assert (report.arrays[0].chunks_changed, report.arrays[0].chunks_written) == (5, 5)
    (counts, read), (written_counts, written) = source.take(), target.take()
    assert counts["get chunk"] <= 5
    assert written_counts["set chunk"] == 5
    assert read["read"] <= 0.012 * number * size
    # the memory takes 16 bytes for each chunk, twice
    assert written["written"] <= 0.012 * number * size + 3 * 16 * number
    assert tegula.compare(source, target).equal


def test_an_appended_row_costs_the_units_of_that_row() -> None:
    source, target, array = new_pair(365, 1000)
    array.append(np.zeros((1, 1000), "u1"))
    array.append(np.ones((1, 1000), "u1"))
    source.take()
    report = tegula.sync(source, target)
    assert report.arrays[0].chunks_written == 1  # zeros are not stored
    assert source.take()[0]["get chunk"] <= 1
    assert target.take()[0]["set chunk"] == 1


def test_a_million_chunks_take_20_mb_and_a_change_only_its_pieces() -> None:
    number = 10**6
    coords = np.stack(np.unravel_index(np.arange(number), (1000, 50, 20)), axis=1).astype(np.int64)
    chance = np.random.default_rng(0)
    tables = [
        States(coords, chance.integers(1, 2**64, number, np.uint64), np.zeros(number, np.int64)) for _ in range(2)
    ]
    store = MemoryStore()
    memory = Memory(store, "x")
    known = Remembered("a", "b", ("c",), (1000, 50, 20), True, *tables)
    memory.write(known)
    assert memory.nbytes() < 20e6
    assert max(store.size(key) or 0 for key in store.list()) < 2e6
    read = Memory(store, "x").read()
    assert read is not None
    assert read.described == "a"
    for one, other in zip((read.sources, read.targets), tables):
        assert np.array_equal(one.coords, other.coords)
        assert np.array_equal(one.states, other.states)
    before = {*store.list()}
    memory.write(Remembered("a", "b", ("c",), (1000, 50, 20), True, tables[0].marked(coords[5:9]), tables[1]))
    assert len({*store.list()} - before) == 1
