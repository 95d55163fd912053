"""What threads share: caches, locks, pools and generations, with threads that change places at every step.

On an interpreter without its lock they run at the same time. ``TEGULA_RACES`` multiplies the time.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.effort import amount
from tests.stores.counting import count_up

import tegula
from tegula import config
from tegula.engine.stored.states import Replacements
from tegula.errors import AlreadyExistsError, NotFoundError
from tegula.stores import MemoryStore

THREADS = 5
SECONDS = 0.4 * amount("RACES", usual=1, nightly=10)
Work = Callable[[np.random.Generator, int, int], object]


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(work: Work) -> list[int]:
    """Call `work` with random numbers, the number of the thread and of the call; return each one's calls."""
    errors: list[BaseException] = []
    calls = [0] * THREADS
    start = threading.Barrier(THREADS)

    def run(thread: int) -> None:
        random = np.random.default_rng(thread)
        start.wait()
        end = time.monotonic() + SECONDS
        try:
            while not errors and (time.monotonic() < end or not calls[thread]):
                work(random, thread, calls[thread])
                calls[thread] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return calls


def test_nodes_of_many_descriptions_are_created_and_opened(tmp_path: Path) -> None:
    def work(random: np.random.Generator, thread: int, number: int) -> None:
        length = int(random.integers(5, 400))
        path = tmp_path / f"{length}"
        try:
            array = tegula.open_array(path)
        except NotFoundError:
            try:
                array = tegula.create_array(path, shape=length, chunks=7, dtype="i4")
            except AlreadyExistsError:
                return
        assert array.shape == (length,)
        assert not array[2:4].any()

    together(work)


@pytest.mark.slow
def test_chunks_are_kept_of_arrays_that_come_and_go(tmp_path: Path) -> None:
    for number in range(60):
        tegula.create_array(tmp_path / f"{number}", shape=50, chunks=10, dtype="i8")[...] = number

    def work(random: np.random.Generator, thread: int, number: int) -> None:
        place = int(random.integers(12)) * THREADS + thread
        array = tegula.open_array(tmp_path / f"{place}", mode="r+")
        array[:20] = number
        assert (array[:20] == number).all()
        other = int(random.integers(60))
        assert (tegula.open_array(tmp_path / f"{other}")[20:] == other).all()

    with config.configure(cache_bytes=20_000):
        together(work)


def test_no_update_of_a_value_in_memory_is_lost() -> None:
    stores = [MemoryStore({"k": b"0"}) for _ in range(2)]

    def work(random: np.random.Generator, thread: int, number: int) -> None:
        count_up(stores[thread % 2], "k", 1)

    calls = together(work)
    assert [int(store.get("k") or b"") for store in stores] == [sum(calls[::2]), sum(calls[1::2])]


@pytest.mark.parametrize("where", ["files", "memory"])
def test_no_update_within_a_chunk_is_lost(where: str, tmp_path: Path) -> None:
    target = tmp_path if where == "files" else MemoryStore()
    array = tegula.create_array(target, shape=(40, THREADS), chunks=(10, THREADS), shards=(20, THREADS), dtype="i8")

    def work(random: np.random.Generator, thread: int, number: int) -> None:
        row = number % 40
        array[row, thread] = array[row, thread] + 1

    calls = together(work)
    assert np.array_equal(array[...].sum(axis=0), calls)


@pytest.mark.slow
def test_pools_change_their_size_while_they_work(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path, shape=1000, chunks=50, dtype="i4")
    array[...] = values = np.arange(1000)

    def work(random: np.random.Generator, thread: int, number: int) -> None:
        with config.configure(threads=int(random.integers(1, 6))):
            assert np.array_equal(array.read(slice(0, 700)).result(), values[:700])
            assert np.array_equal(array[100:], values[100:])

    before = config.current()
    try:
        together(work)
    finally:
        config._activate(before)  # the threads have restored what they found, in any order


def test_deletions_are_noted_by_many_threads() -> None:
    store, replacements = MemoryStore(), Replacements()

    def work(random: np.random.Generator, thread: int, number: int) -> None:
        for turn in range(100):
            replacements.add(store, f"{thread}-{number}-{turn}/")

    assert sum(together(work)) * 100 == replacements.count


@pytest.mark.slow
def test_members_are_created_and_listed_at_the_same_time() -> None:
    group = tegula.create_group(MemoryStore())

    def work(random: np.random.Generator, thread: int, number: int) -> None:
        name = f"{thread}-{number % 20}"
        array = group.create_array(name, shape=5, dtype="i4", overwrite=True)
        array.attrs["n"] = number
        assert name in list(group)
        assert group[name].attrs["n"] == number

    together(work)
