"""Jobs on nodes in a remote store: the number of waves of requests, and the same results as with a local store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mixtures import build
from waves import RangedWaveStore, WaveStore

import tegula
from tegula import config
from tegula.engine.reading.remote import IN_FLIGHT, UNITS
from tegula.stores import MemoryStore, Store

pytestmark = pytest.mark.once(executors="both")

JOBS: dict[str, Callable[[Store], object]] = {
    "check": tegula.check,
    "statistics": tegula.statistics,
    "checksum": tegula.checksum,
    "compare": lambda store: tegula.compare(store, store),
    "copy": lambda store: tegula.copy(store, MemoryStore()),
    "convert": lambda store: tegula.convert(store, MemoryStore()),
    "rechunk": lambda store: tegula.convert(store, MemoryStore(), chunks=3, verify=True),
}


def filled(store: Store, paths: list[str], format: str = "zarr3") -> Store:
    tegula.create_group(store, format=format)
    for number, path in enumerate(paths):
        array = tegula.create_array(store, path=path, shape=8, chunks=4, dtype="i4", format=format)
        array[...] = number + 1
    return store


def waves(job: str, store: WaveStore) -> int:
    with store.waves() as log:
        assert JOBS[job](store)
    assert (IN_FLIGHT._held, UNITS._held) == (0, 0)
    return len(log)


@pytest.mark.parametrize("shards", [None, 2**15])
def test_units_that_copy_chunks_share_the_room_of_the_process(shards: int | None) -> None:
    source, target = WaveStore(), WaveStore()
    array = tegula.create_array(source, data=np.arange(2**18), chunks=2**12, shards=shards, codecs=None)
    with config.configure(buffer_bytes=2**16):  # less than one unit has
        report = tegula.convert(source, target, resume=True)
    assert (report.ok, report.chunks_copied) == (True, array.nchunks if shards is None else array.nshards)
    assert (IN_FLIGHT._held, UNITS._held) == (0, 0)


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
@pytest.mark.parametrize("job", JOBS)
def test_many_small_arrays_take_as_many_waves_as_few(job: str, format: str) -> None:
    few, many = (
        waves(job, filled(WaveStore(concurrency=256), [f"g{number % 2}/x{number}" for number in range(count)], format))
        for count in (2, 14)
    )
    # a chain of requests for each array would be 24 waves more; the threads of a busy machine may be late by some
    assert many <= few + 4
    assert few <= 22


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("options", [{}, {"codecs": None}, {"shards": (16, 16)}])
@pytest.mark.parametrize("job", JOBS)
def test_all_chunks_of_one_array_are_asked_for_together(job: str, options: dict[str, Any]) -> None:
    store = RangedWaveStore(concurrency=256)
    array = tegula.create_array(store, shape=(64, 64), chunks=(8, 8), dtype="i4", **options)
    array[...] = np.arange(64 * 64).reshape(64, 64)
    if job == "rechunk":
        with store.waves() as log:
            assert tegula.convert(store, MemoryStore(), chunks=(16, 4), shards=False, verify=True).ok
        assert len(log) <= 10
    else:
        assert waves(job, store) <= 10


def test_large_shards_are_verified_with_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.engine.copying.verifying._WHOLE", 2**14)
    store = WaveStore()
    array = tegula.create_array(store, shape=2**15, chunks=2**8, shards=2**15, dtype="u1", codecs=None)
    array[...] = np.arange(2**15) % 251
    with store.waves() as log:
        report = tegula.check(store)
    assert (report.ok, report.chunks) == (True, 128)
    assert len([request for request in log.requests if request.startswith("get c/0 (")]) <= 5
    damaged = bytearray(store.values.get("c/0") or b"")
    damaged[-6] ^= 1
    store.values.set("c/0", damaged)
    assert not tegula.check(store).ok


@pytest.mark.parametrize("job", ["statistics", "checksum", "compare", "rechunk", "convert", "copy", "check"])
def test_the_bytes_of_all_arrays_together_are_bounded(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most, lock = 0, threading.Lock()
    take = UNITS._take

    def acquired(nbytes: int, taken: list[int]) -> None:
        nonlocal most
        take(nbytes, taken)
        with lock:
            most = max(most, UNITS._held)

    monkeypatch.setattr(UNITS, "_take", acquired)
    store = filled(WaveStore(), [f"x{number}" for number in range(12)])
    with config.configure(buffer_bytes=3 * 32):
        JOBS[job](store)
    assert 0 < most <= 3 * 32
    assert UNITS._held == 0


# --- the same results as with local stores

NAMES = st.sampled_from(["a", "b", "a-b", "a.b"])
NODES = st.sampled_from(
    ["zarr3", "zarr2", "bcolz", "group zarr3", "group zarr2", "table", "broken", "file", "chunk", "link"]
)


def results(store: Store, others: Store, most: int) -> list[object]:
    found: list[object] = []
    for job in (
        lambda: {**tegula.check(store, max_findings=most).as_dict(), "seconds": 0},
        lambda: tegula.statistics(store).as_dict(),
        lambda: tegula.checksum(store).as_dict(),
        lambda: {**tegula.compare(store, others, max_differences=most).as_dict(), "seconds": 0},
        lambda: tegula.convert(store, MemoryStore(), chunks={"b": 2}),
    ):
        try:
            result = job()
        except tegula.TegulaError as error:
            result = type(error)
        if isinstance(result, tegula.ConvertReport):
            result.seconds = 0
        found.append(str(result).replace(store.url, "").replace(others.url, ""))
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), NODES), max_size=7),
    st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), NODES), max_size=4),
    st.sampled_from([0, 2, 100]),
)
def test_jobs_find_the_same_in_remote_and_local_stores(
    nodes: list[tuple[str, str]], changes: list[tuple[str, str]], most: int
) -> None:
    local, changed = MemoryStore(), MemoryStore()
    for store, more in ((local, []), (changed, changes)):
        build(store, [("", "group zarr3"), *nodes, *more], filled=True)
    remotes = []
    for original in (local, changed):
        remote = WaveStore(concurrency=4)
        for key in original.list():
            remote.set(key, original.get(key) or b"")
        remotes.append(remote)
    assert results(remotes[0], remotes[1], most) == results(local, changed, most)


def test_an_error_of_one_part_ends_the_others() -> None:
    store = filled(WaveStore(), [f"x{number:02}" for number in range(20)])
    seen: list[str] = []

    def interrupt(path: str, done: int, total: int) -> None:
        seen.append(path)
        raise KeyboardInterrupt

    target = MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        tegula.convert(store, target, progress=interrupt)
    assert not [key for key in target.list() if key.startswith("x")]
    assert seen
    assert UNITS._held == 0


def test_compared_members_have_one_order_with_or_without_consolidation() -> None:
    one, other = (filled(MemoryStore(), names) for names in (["a", "a-b", "b"], ["a", "a-b", "a.b"]))
    group = tegula.open_group(one, "r+")
    group.consolidate()
    known = tegula.open_group(one, consolidated=True)
    assert [*known] == [*group]
    for first in (one, known):
        report = tegula.compare(first, other)
        assert {found.path: found.what for found in report.differences} == {
            "a.b": "only in the second",
            "b": "only in the first",
        }
        assert report.arrays == 2
