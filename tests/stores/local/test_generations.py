"""Generations of files are new with each change, where times are coarse and where the clock stands still, too."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.effort import QUICK

import tegula
from tegula.errors import ConflictError, StoreError
from tegula.runtime import executors
from tegula.runtime.system import files
from tegula.stores import ABSENT, LocalStore
from tegula.stores.local import generations
from tegula.testing import check_store

NOW = 1_800_000_000_123_456_789
TURNS = 60 if QUICK else 300  # changes one after the other, which take 50 ms each under wine
GRANULES = [1, 100, 1000, 10**6, 10**7, 10**9, 2 * 10**9]
"""Nanoseconds: what file systems round times to."""


class OneInode:
    """The status of a file on a file system that uses the same inode number for all files."""

    def __init__(self, status: os.stat_result) -> None:
        self._status = status

    st_ino = 12

    def __getattr__(self, name: str) -> Any:
        return getattr(self._status, name)


@pytest.fixture
def rounding(monkeypatch: pytest.MonkeyPatch, by_reference: None) -> Callable[[int, bool], None]:
    """Make the file system round times, use inode numbers again at once, and have version numbers or not."""

    def apply(granule: int, versions: bool) -> None:
        utime, stat, fstat, opens = os.utime, os.stat, os.fstat, files.open

        def coarse(path: Any, *, ns: tuple[int, int], **options: Any) -> None:
            utime(path, ns=(ns[0] // granule * granule, ns[1] // granule * granule), **options)

        def create(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            fd = opens(path, flags, *rest, **options)
            if flags & os.O_EXCL:
                drawn[fstat(fd).st_ino] = random.getrandbits(32)
            return fd

        drawn: dict[int, int] = {}
        monkeypatch.setattr(files, "open", create)
        monkeypatch.setattr(os, "utime", coarse)
        monkeypatch.setattr(os, "stat", lambda *a, **o: OneInode(stat(*a, **o)))
        monkeypatch.setattr(os, "fstat", lambda fd: OneInode(fstat(fd)))
        monkeypatch.setattr(generations, "_version", lambda fd: drawn[fstat(fd).st_ino] if versions else 0)

    return apply


@pytest.mark.slow
@pytest.mark.sampled(one_in=13)
@pytest.mark.parametrize("granule", GRANULES)
@pytest.mark.parametrize("versions", [False, True])
@pytest.mark.parametrize("clock", ["runs", "stands still", "goes back"])
def test_each_change_gives_a_new_generation(
    tmp_path: Path,
    rounding: Callable[[int, bool], None],
    monkeypatch: pytest.MonkeyPatch,
    granule: int,
    versions: bool,
    clock: str,
) -> None:
    store = LocalStore(tmp_path)
    steps = iter(range(10**6))
    if clock != "runs":
        monkeypatch.setattr(time, "time_ns", lambda: NOW - (clock == "goes back") * next(steps) * 10**8)
    # a number that is drawn anew could hide that it is not needed
    monkeypatch.setattr(os, "urandom", lambda count: next(steps).to_bytes(count, "big"))
    rounding(granule, versions)
    old = store.set("a", b"0", if_generation=ABSENT)
    seen = [old]
    for number in range(60):
        new = store.set("a", b"%d" % (number // 20 % 2), if_generation=old)
        assert store.get("a", with_generation=True)[1] == store.get("a", (0, 0), with_generation=True)[1] == new
        with pytest.raises(ConflictError):
            store.set("a", b"x", if_generation=old)
        old = new
        seen.append(new)
    same_contents = [generation for generation in seen if seen.count(generation) > 1]
    # without a version number a state may come back after others, but then with the contents that it had
    assert not same_contents or (granule >= 1000 and not versions)
    assert all(before != after for before, after in pairwise(seen))


@pytest.mark.slow
@pytest.mark.sampled(one_in=7)
@pytest.mark.parametrize("granule", [10**9, 2 * 10**9])
@pytest.mark.parametrize("versions", [False, True])
def test_a_store_whose_times_are_coarse_conforms(
    tmp_path: Path, rounding: Callable[[int, bool], None], granule: int, versions: bool
) -> None:
    rounding(granule, versions)
    count = iter(range(1000))
    check_store(lambda: LocalStore(tmp_path / str(next(count))))


@pytest.mark.parametrize("versions", [False, True])
def test_a_value_that_was_deleted_and_made_again_is_another_one(
    tmp_path: Path, rounding: Callable[[int, bool], None], versions: bool
) -> None:
    rounding(10**9, versions)
    store = LocalStore(tmp_path)
    old = store.set("a", b"1")
    store.delete("a")
    store.set("a", b"2")
    with pytest.raises(ConflictError):
        store.set("a", b"x", if_generation=old)
    with pytest.raises(ConflictError):
        store.delete("a", if_generation=old)
    assert store.get("a") == b"2"


def test_equal_values_differ_in_generation_by_time_alone(tmp_path: Path, rounding: Callable[[int, bool], None]) -> None:
    rounding(2 * 10**9, False)
    store = LocalStore(tmp_path)
    before = time.time()
    seen = [store.set("a", b"same") for _ in range(5)]
    assert len({*seen}) == 5
    assert before - 2 <= os.stat(tmp_path / "a").st_mtime <= time.time() + 5 * 2


def test_times_stay_those_of_the_writes(tmp_path: Path, rounding: Callable[[int, bool], None]) -> None:
    rounding(10**9, True)
    store = LocalStore(tmp_path)
    generation = None
    before = time.time()
    for number in range(TURNS):
        generation = store.set("a", b"%d" % number, if_generation=generation)
    assert before - 1 <= os.stat(tmp_path / "a").st_mtime <= time.time()


def test_a_file_system_without_times_is_refused(tmp_path: Path, rounding: Callable[[int, bool], None]) -> None:
    rounding(10**20, False)  # all is at the beginning of time
    store = LocalStore(tmp_path)
    old = store.set("a", b"1")
    assert store.set("a", b"2", if_generation=old) != old
    with pytest.raises(StoreError, match="keeps no modification times"):
        store.set("a", b"2")


@pytest.mark.usefixtures("by_reference")
def test_fine_times_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    monkeypatch.setattr(generations, "_version", None)
    monkeypatch.setattr(generations, "_digest", None)
    old = store.set("a", b"1")
    stamped = os.utime
    calls = []
    monkeypatch.setattr(os, "utime", lambda *args, **options: (calls.append(args), stamped(*args, **options))[1])
    for number in range(20):
        time.sleep(0.0002)  # longer than what is drawn at random
        old = store.set("a", b"%d" % number, if_generation=old)
        assert store.get("a", with_generation=True)[1] == old
    assert len(calls) == 20


def test_whole_seconds_of_other_writers(tmp_path: Path) -> None:
    """As archives are unpacked: nothing but the time is coarse there."""
    array = tegula.create_array(LocalStore(tmp_path), shape=4, chunks=4, dtype="i4")
    array[...] = 1
    for path in tmp_path.rglob("*"):
        os.utime(path, ns=(10**18, 10**18))
    array[0] = 5
    array.attrs["x"] = 1
    array.append(np.array([7], "i4"))
    assert array[...].tolist() == [5, 1, 1, 1, 7]
    assert tegula.open_array(LocalStore(tmp_path)).attrs["x"] == 1
    for path in tmp_path.rglob("c/*"):
        assert path.stat().st_mtime_ns % 1000


@contextmanager
def frozen(monkeypatch: pytest.MonkeyPatch, clock: int) -> Any:
    """Have the clock stand still, for Python's store and for the kernel."""
    kernel = executors.kernel()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: clock)
        if kernel is not None:
            kernel.faults(clock=clock)
        try:
            yield
        finally:
            if kernel is not None:
                kernel.faults()


def test_elements_while_the_clock_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    array = tegula.create_array(store, shape=TURNS, chunks=TURNS, dtype="i4", codecs=[])
    seen = []
    with frozen(monkeypatch, NOW):
        for number in range(TURNS):
            array[number] = number + 1
            seen.append(store.get("c/0", with_generation=True)[1])
    assert len({*seen}) == TURNS
    times = [generation[1] for generation in seen]
    assert abs(times[0] - NOW) <= 10_000
    assert sorted({*times}) == times  # each later than the one before
    assert array[...].tolist() == [*range(1, TURNS + 1)]


@pytest.mark.parametrize("conditional", [True, False])
def test_values_while_the_clock_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conditional: bool
) -> None:
    store = LocalStore(tmp_path)
    old = store.set("a", b"0")
    seen = [old]
    with frozen(monkeypatch, NOW):
        for number in range(TURNS):
            old = store.set("a", b"%d" % (number % 2), if_generation=old if conditional else None)
            assert store.get("a", with_generation=True)[1] == old
            seen.append(old)
    assert len({*seen}) == TURNS + 1
    times = [generation[1] for generation in seen[1:]]
    assert times == sorted(times)  # each later than the one before
