"""Reads through the cache of decoded chunks: how many requests and decodings they take, and what they may return."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from decodings import Decodings
from remote_stores import RemoteStore, RevalidatingStore
from tests.waiting import exit_code, run_threads

import tegula
from tegula import config
from tegula.engine.caches import chunk_cache, shard_indexes
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.errors import CodecError, NotFoundError, StoreError
from tegula.testing import Fault, FaultyStore

PLAIN: dict[str, Any] = {"chunks": (4, 8, 8)}
SHARDED: dict[str, Any] = {"chunks": (4, 4, 4), "shards": (4, 8, 8)}
DATA = np.arange(8 * 16 * 16, dtype="i4").reshape(8, 16, 16)


@pytest.fixture(autouse=True)
def cache() -> Iterator[None]:
    with config.configure(cache_bytes=2**24):
        yield
    assert CHUNKS.nbytes == 0
    shard_indexes.KEPT.clear()


@pytest.fixture(params=[RemoteStore, RevalidatingStore])
def store(request: pytest.FixtureRequest) -> RemoteStore:
    made: RemoteStore = request.param()
    return made


def filled(store: tegula.Store, layout: dict[str, Any], **options: Any) -> tegula.Array:
    array = tegula.create_array(store, shape=DATA.shape, dtype="i4", **layout, **options)
    array[...] = DATA
    return tegula.open_array(store, mode="r")


@pytest.mark.parametrize("layout", [PLAIN, SHARDED])
def test_reading_planes_one_by_one_costs_one_pass(
    store: RemoteStore, layout: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    decodings = Decodings(monkeypatch)
    array = filled(store, layout)
    store.requests()
    with config.configure(cache_bytes=0, executor="reference"):
        assert (array[...] == DATA).all()
    once, requests = decodings.count, store.requests()
    decodings.count = 0
    for plane in range(8):
        assert (array[plane] == DATA[plane]).all()
    assert 0 < decodings.count <= once
    assert store.requests() <= 1.5 * requests


def test_the_setting_decides_when_a_request_confirms_a_chunk(
    store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirming = isinstance(store, RevalidatingStore)
    array = filled(store, PLAIN)
    array[...]
    store.requests()
    with config.configure(recheck="never"):
        assert (tegula.open_array(store, mode="r")[...] == DATA).all()
        store.requests()
        array[...]
        assert store.requests() == 0
    with config.configure(recheck="open"):
        array[...]
        assert store.requests() == 0
        again = tegula.open_array(store, mode="r")
        store.requests()
        again[...]
        assert store.asked == {"conditional" if confirming else "head": 8}
        store.requests()
        again[3:, 5:]
        assert store.requests() == 0
        again.refresh()
        store.requests()
        again[0]
        assert store.requests() == 4
    with config.configure(recheck="always"):
        for _ in range(2):
            store.requests()
            array[0]
            assert store.requests() == 4
    with config.configure(recheck=60):
        array[...]
        assert store.requests() == 0
        clock = chunk_cache.clock
        monkeypatch.setattr(chunk_cache, "clock", lambda: clock() + 61)
        monkeypatch.setattr("tegula.engine.reading.cached.clock", chunk_cache.clock)
        array[...]
        assert store.requests() == 8
        array[...]
        assert store.requests() == 0


def test_a_changed_chunk_takes_one_request_where_the_store_compares(store: RemoteStore) -> None:
    array = filled(store, PLAIN)
    array[...]
    other = RemoteStore({key: store.get(key) for key in store.list()})
    tegula.open_array(other, mode="r+")[0, 0, 0] = -1
    store.set("c/0/0/0", other.get("c/0/0/0"))
    again = tegula.open_array(store, mode="r")
    store.requests()
    assert again[0, 0, 0] == -1
    assert store.requests() == (1 if isinstance(store, RevalidatingStore) else 2)
    assert array[0, 0, 0] == -1


@pytest.mark.slow
@pytest.mark.parametrize("layout", [PLAIN, SHARDED])
@pytest.mark.parametrize("rule", ["open", "always", "never", 1000])
def test_changes_by_this_process_are_seen_at_once(store: RemoteStore, layout: dict[str, Any], rule: Any) -> None:
    with config.configure(recheck=rule):
        reader = filled(store, layout)
        assert (reader[...] == DATA).all()
        writer = tegula.open_array(store, mode="r+")
        writer[2, 3, 4] = -5
        assert reader[2, 3, 4] == -5
        writer[4:8] = 0  # chunks that equal the fill value are deleted
        assert not reader[4:8].any()
        writer.resize(4, 16, 16)
        writer.resize(8, 16, 16)
        writer.resize(3, 16, 16)
        writer.resize(8, 16, 16)
        assert not reader[3:].any()
        writer.append(DATA[:1])
        reader.refresh()
        assert (reader[8] == DATA[0]).all()
        filled(store, layout, overwrite=True)
        assert (tegula.open_array(store)[...] == DATA).all()
        assert (reader[0] == DATA[0]).all()
        tegula.delete(store)
        with pytest.raises(NotFoundError):
            reader[0]


@pytest.mark.parametrize("rule", ["never", "open"])
def test_stores_over_one_directory_share_what_is_kept(tmp_path: Any, rule: Any) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "d")
    with config.configure(recheck=rule):
        root = tegula.create_group(tegula.LocalStore(tmp_path / "d"))
        root.create_array("a b", shape=4, chunks=2, dtype="i4")[...] = 1
        reader = tegula.open_array(tmp_path / "d", path="a b", mode="r")
        assert reader[:].tolist() == [1] * 4
        tegula.open_array(tmp_path / "link" / "a b", mode="r+")[0] = 2
        assert reader[:].tolist() == [2, 1, 1, 1]
        tegula.delete(root, path="a b")
        with pytest.raises((NotFoundError, StoreError)):
            reader[:]


@pytest.mark.parametrize("kind", ["obstore", "fsspec"])
def test_stores_over_one_memory_share_what_is_kept(kind: str) -> None:
    if kind == "obstore":
        target = pytest.importorskip("obstore.store").MemoryStore()
    else:
        target = tegula.stores.FsspecStore(pytest.importorskip("fsspec").filesystem("memory"), "shared-by-caches").fs
    with config.configure(recheck="never"):

        def opened(mode: str) -> tegula.Array:
            store = target if kind == "obstore" else tegula.stores.FsspecStore(target, "shared-by-caches")
            return tegula.open_array(store, mode=mode)

        first = target if kind == "obstore" else tegula.stores.FsspecStore(target, "shared-by-caches")
        tegula.create_array(first, shape=4, chunks=2, dtype="i4", overwrite=True)
        reader = opened("r")
        assert reader[:].tolist() == [0] * 4
        opened("r+")[0] = 5
        assert reader[:].tolist() == [5, 0, 0, 0]
        tegula.delete(first)


def test_absent_chunks_are_kept(store: RemoteStore) -> None:
    for layout in (PLAIN, SHARDED):
        array = tegula.create_array(store, shape=DATA.shape, dtype="i4", fill_value=7, overwrite=True, **layout)
        assert (array[...] == 7).all()
        store.requests()
        assert (array[...] == 7).all()
        assert store.requests() == 0


def test_an_archive_and_a_mapping_share_what_is_kept(tmp_path: Any) -> None:
    contents: dict[str, bytes] = {}
    for target in (tmp_path / "a.zip", contents):
        with config.configure(recheck="never"):
            writer = tegula.create_array(target, shape=4, chunks=2, dtype="i4", fill_value=1)
            reader = tegula.open_array(target, mode="r+")
            assert reader[:].tolist() == [1] * 4
            writer[1] = 5
            assert reader[:].tolist() == [1, 5, 1, 1]
            writer.close()
            reader.close()


def test_what_is_kept_belongs_to_one_store() -> None:
    with config.configure(recheck="never"):
        for number in range(50):  # memory of an earlier store is used again
            store = RemoteStore()
            array = tegula.create_array(store, shape=4, dtype="i4", fill_value=number)
            assert array[:].tolist() == [number] * 4
            array[:] = -number
            assert array[:].tolist() == [-number] * 4


def test_the_budget_holds() -> None:
    with config.configure(cache_bytes=5000, recheck="never"):
        store = RemoteStore()
        array = tegula.create_array(store, shape=(100, 100), chunks=(10, 10), dtype="i4")  # 400 bytes a chunk
        array[...] = 3
        for row in range(0, 100, 10):
            array[row]
            assert 0 < CHUNKS.nbytes <= 5000
        store.requests()
        array[90, 90]
        assert store.requests() == 0
        large = tegula.create_array(RemoteStore(), shape=(100, 100), chunks=(50, 50), dtype="i4", fill_value=1)
        large[...] = 2
        before = CHUNKS.nbytes
        assert (large[...] == 2).all()
        assert CHUNKS.nbytes == before
        with config.configure(cache_bytes=1000):
            assert CHUNKS.nbytes <= 1000
    with config.configure(cache_bytes=0):
        assert CHUNKS.nbytes == 0


def test_every_selection_gives_what_it_gives_without_a_cache(store: RemoteStore) -> None:
    selections: list[Any] = [
        (...,), (0, 0, 0), (slice(None, None, -3), 5, slice(2, 9)), (slice(3, 3),), ([7, 1, 1], slice(None), 4),
        (..., DATA[0, 0] % 2 == 0),
    ]  # fmt: skip
    for layout in (PLAIN, SHARDED):
        array = filled(store, layout, overwrite=True)
        for selection in selections * 2:
            assert np.array_equal(array[selection], DATA[selection]), selection
        index = ([0, 7, 3], [15, 0, 8], [4, 4, 11])
        for _ in range(2):
            assert np.array_equal(array.vindex[index], DATA[index])
            assert np.array_equal(array.oindex[index], DATA[np.ix_(*index)])


def test_fields_and_scalars_and_dense_arrays() -> None:
    kind = np.dtype([("x", "i4"), ("y", "f8", (2,))])
    records = np.zeros(10, kind)
    records["x"] = range(10)
    array = tegula.create_array(RemoteStore(), data=records, chunks=3, format="zarr2")
    for _ in range(2):
        assert array["x"].tolist() == [*range(10)]
        assert array["x", 4:6].tolist() == [4, 5]
        assert np.array_equal(array[...], records)
    point = tegula.create_array(RemoteStore(), data=np.array(5))
    assert point[...] == point[()] == 5
    rows = tegula.create_array(RemoteStore(), shape=0, chunks=4, dtype="i4", format="bcolz")
    with config.configure(recheck="never"):
        for number in range(9):
            rows.append([number])
            assert rows[:].tolist() == [*range(number + 1)]
        rows.resize(3)
        assert rows[:].tolist() == [0, 1, 2]


def test_a_result_is_no_view_of_what_is_kept(store: RemoteStore) -> None:
    array = tegula.create_array(store, shape=4, dtype="i4", codecs="none")
    array[:] = 1
    for _ in range(2):
        found = array[:]
        found[...] = 9
        assert array[:].tolist() == [1] * 4


def test_objects_and_nested_shards_are_read_without_the_cache(store: RemoteStore) -> None:
    texts = tegula.create_array(store, shape=3, dtype=str, path="t")
    texts[:] = ["a", "b", "c"]
    assert texts[:].tolist() == ["a", "b", "c"]
    assert CHUNKS.nbytes == 0


@pytest.mark.parametrize("layout", [PLAIN, SHARDED])
def test_damage_and_failures_are_errors_each_time(layout: dict[str, Any]) -> None:
    store = FaultyStore(RemoteStore())
    array = filled(store, layout)
    store.arm(Fault(5, on="get", keys="^c/0/0/0$", times=2))
    for _ in range(2):
        with pytest.raises(StoreError, match="c/0/0/0"):
            array[...]
    assert (array[...] == DATA).all()
    store.store.set("c/0/0/0", b"damaged")
    again = tegula.open_array(store, mode="r")
    for _ in range(2):
        with pytest.raises(CodecError, match="c/0/0/0"):
            again[...]


def test_threads_that_need_the_same_chunk_decode_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decodings = Decodings(monkeypatch)
    array = filled(RemoteStore(), {"chunks": (8, 16, 16)})
    results: list[Any] = [None] * 8
    barrier = threading.Barrier(8)

    def read(plane: int) -> None:
        barrier.wait(60)
        results[plane] = array[plane]

    threads = [threading.Thread(target=read, args=(plane,)) for plane in range(8)]
    run_threads(threads)
    assert np.array_equal(results, DATA)
    assert decodings.count == 1


def test_a_write_between_a_request_and_its_answer_is_not_lost() -> None:
    """A reader that has got the old value must not keep it after the write."""
    for layout in (PLAIN, SHARDED):
        store = FaultyStore(RemoteStore())
        reader = filled(store, layout)
        writer = tegula.open_array(store.store, mode="r+")

        def write(operation: str, key: str, writer: tegula.Array = writer) -> None:
            writer[0, 0, 0] = -1

        store.arm(Fault(write, on="get", keys="^c/0/0/0$", done=True))
        with config.configure(recheck="never", threads=1):
            first = reader[0, 0, 0]
            assert first in (0, -1)
            assert reader[0, 0, 0] == -1


def test_a_shard_is_never_mixed_of_two_generations() -> None:
    store = FaultyStore(RemoteStore())
    array = tegula.create_array(store, shape=64, chunks=4, shards=64, dtype="i4", codecs="none")
    array[:] = 1
    array[:8]
    reader = tegula.open_array(store, mode="r")

    def replace(operation: str, key: str) -> None:
        other = tegula.create_array(RemoteStore(), shape=64, chunks=4, shards=64, dtype="i4", codecs="none")
        other[:] = 2
        store.store.set("c/0", other.store.get("c/0"))

    store.arm(Fault(replace, on="get", keys="^c/0$", done=True))
    assert {*reader[:].tolist()} in ({1}, {2})
    assert {*tegula.open_array(store)[:].tolist()} == {2}


def test_the_second_read_of_a_shard_needs_no_index() -> None:
    store = RemoteStore()
    array = filled(store, SHARDED)
    with config.configure(cache_bytes=1000):  # of 16 inner chunks one fits in
        array[0, :4, :4]
        store.requests()
        array[0, 4:8, 4:8]
        assert store.requests() == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_with_an_empty_cache() -> None:
    array = filled(RemoteStore(), PLAIN)
    array[...]
    with CHUNKS._lock:  # as if another thread had it
        child = os.fork()
        if child == 0:
            try:
                ok = CHUNKS.nbytes == 0 and (array[...] == DATA).all() and CHUNKS.nbytes > 0
                os._exit(0 if ok else 1)
            finally:
                os._exit(2)
    assert exit_code(child) == 0
    assert CHUNKS.nbytes > 0
