"""Operations on arrays in a remote store: the number of waves of requests, and the same results."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import join
from waves import RangedWaveStore, RevalidatingWaveStore, WaveStore, of_chunks

import tegula
from tegula import config
from tegula.engine.lengths import appending
from tegula.engine.reading.remote import IN_FLIGHT, InFlight, get_many, runs
from tegula.engine.stored import states as node_states
from tegula.stores import Store

pytestmark = pytest.mark.once(executors="both")

X = np.random.default_rng(0).integers(0, 1000, (64, 64)).astype("i4")
FORMATS = ["zarr3", "zarr2", "zarr1", "bcolz"]
STORES = [WaveStore, RangedWaveStore]
SHARDS: dict[str, Any] = {"chunks": (32, 32), "shards": (1024, 1024), "codecs": []}
LARGE = np.random.default_rng(1).integers(0, 2**16, (3072, 2048)).astype("u2")  # six shards of 2 MiB


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no document be asked for again because a busy machine took more than a second."""
    monkeypatch.setattr(node_states, "_RECENT", 60.0)


def filled(store: WaveStore, values: Any = X, **options: Any) -> tegula.Array:
    array = tegula.create_array(store, shape=values.shape, dtype=values.dtype, **options)
    array[...] = values
    return array


def points(count: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(2)
    return tuple(draw.integers(0, size, count) for size in LARGE.shape)


# --- reading


@pytest.mark.parametrize("format", FORMATS)
def test_all_chunks_are_read_in_one_wave(format: str) -> None:
    store = WaveStore()
    chunks = (2, 64) if format == "bcolz" else (8, 8)
    array = filled(store, format=format, chunks=chunks)
    with store.waves() as log:
        assert np.array_equal(array[...], X)
    assert len(log) == 1
    assert len({*of_chunks(log.requests)}) == len(of_chunks(log.requests)) == array.nchunks
    with store.waves() as log:
        assert np.array_equal(array[3:29:5], X[3:29:5])
    assert len(log) == 1


def test_chunks_that_are_missing_are_found_out_in_two_waves() -> None:
    store = WaveStore()
    array = tegula.create_array(store, shape=(64, 64), chunks=(8, 8), dtype="i4", fill_value=7)
    with store.waves() as log:
        assert (array[...] == 7).all()
    assert len(log) == 2  # the second one finds out whether the array is still there
    assert len(log[1]) == 1


def test_no_more_requests_are_under_way_than_the_store_wants() -> None:
    store = WaveStore(concurrency=16)
    array = filled(store, chunks=(8, 8))
    with store.waves() as log:
        assert np.array_equal(array[...], X)
    assert store.most <= 16 + 1  # with the document
    assert len(log) == 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads as Linux shows them")
def test_a_read_of_few_chunks_starts_few_threads() -> None:
    store = WaveStore()
    array = filled(store, values=X[:16, :8], chunks=(8, 8))
    array[...]
    before = len(os.listdir("/proc/self/task"))
    with store.waves():
        array[...]
    assert len(os.listdir("/proc/self/task")) <= before + 2


def test_reads_in_the_background_share_a_wave() -> None:
    store = WaveStore()
    array = filled(store, chunks=(8, 64))
    with store.waves() as log:
        reading = [array.read(slice(8 * number, 8 * number + 8)) for number in range(8)]
        assert np.array_equal(np.concatenate([future.result() for future in reading]), X)
    assert len(log) == 1


@pytest.mark.slow
@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("start", [True, False])
def test_parts_of_shards_take_two_waves_or_one_with_known_indexes(kind: type[WaveStore], start: bool) -> None:
    store = kind()
    index = {"name": "sharding_indexed", "configuration": {"chunk_shape": [32, 32], "codecs": ["bytes"],
             "index_location": "start" if start else "end"}}  # fmt: skip
    array = filled(store, LARGE, chunks=(1024, 1024), codecs=[index])
    rows, columns = points(200)
    with store.waves() as log:
        assert np.array_equal(array.vindex[rows, columns], LARGE[rows, columns])
    assert len(log) == 2
    assert len(of_chunks(log[0])) == 6
    with store.waves() as log:
        assert np.array_equal(array[100], LARGE[100])
    assert len(log) == 1
    # single chunks at both ends of a shard, further apart than is read along
    with store.waves() as log:
        assert np.array_equal(array[0:1024:1000, 0:1024:1000], LARGE[0:1024:1000, 0:1024:1000])
    assert len(log) == 1
    # another process replaces the shards
    other = WaveStore()
    filled(other, LARGE // 2, chunks=(1024, 1024), codecs=[index])
    for key in other.values.list_prefix("c/"):
        store.values.set(key, other.values.get(key))
    with store.waves() as log:
        assert np.array_equal(array[100], LARGE[100] // 2)
    assert len(log) == 3


def test_small_or_mostly_needed_shard_is_read_completely() -> None:
    store = WaveStore()
    array = filled(store, LARGE, **SHARDS)
    with store.waves() as log:
        assert np.array_equal(array[...], LARGE)
    assert len(log) == 1
    assert len(of_chunks(log[0])) == 6
    small = WaveStore()
    array = filled(small, LARGE[:512, :512], chunks=(32, 32), shards=(256, 256))
    with small.waves() as log:
        assert array[5, 300] == LARGE[5, 300]
    assert len(log) == len(of_chunks(log.requests)) == 1


def test_ranges_of_several_shards_are_bounded_by_the_bytes_under_way() -> None:
    store = WaveStore()
    array = filled(store, LARGE, **SHARDS)
    rows, columns = points(100)
    with config.configure(buffer_bytes=2**21), store.waves() as log:
        assert np.array_equal(array.vindex[rows, columns], LARGE[rows, columns])
    assert 2 < len(log) <= 1 + 6 * 2
    assert IN_FLIGHT._held == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", STORES)
def test_shards_in_shards_take_one_more_wave(kind: type[WaveStore]) -> None:
    store = kind()

    def nested(shape: list[int], codecs: list[Any]) -> dict[str, Any]:
        return {"name": "sharding_indexed", "configuration": {"chunk_shape": shape, "codecs": codecs}}

    codecs = [nested([256, 256], [nested([16, 16], ["bytes"])])]
    array = filled(store, LARGE, chunks=(1024, 1024), codecs=codecs)
    rows, columns = points(50)
    with store.waves() as log:
        assert np.array_equal(array.vindex[rows, columns], LARGE[rows, columns])
    assert len(log) == 3


class Interfering(RangedWaveStore):
    """Before every third request the shard is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[bytes] = []
        self.count = 0

    def passing(self, request: str) -> None:
        self.count += 1
        if self.others and self.count % 3 == 0 and self.count < 20:
            self.values.set("c/0/0", self.others[self.count % len(self.others)])


@pytest.mark.parametrize("ranged", [True, False])
def test_a_shard_is_read_in_one_state(ranged: bool) -> None:
    store = Interfering() if ranged else type("Plain", (WaveStore,), {"passing": Interfering.passing})()
    store.others, store.count = [], 0
    array = tegula.create_array(store, shape=(1024, 1024), dtype="u2", **SHARDS)
    versions = []
    for value in (1, 2, 3):
        array[...] = value
        array[5:900:20] = value
        versions.append(store.values.get("c/0/0"))
    store.others, store.count = versions, 0
    for _ in range(5):
        found = array[::1000, ::1000]
        assert (found == found[0, 0]).all()
    assert store.count > 10


# --- writing


@pytest.mark.parametrize("shards", [None, (16, 16)])
def test_chunks_are_written_in_one_wave_and_changed_in_two(shards: Any) -> None:
    store = WaveStore()
    array = tegula.create_array(store, shape=X.shape, dtype="i4", chunks=(8, 8), shards=shards)
    with store.waves() as log:
        array[...] = X
    assert len(log) == 1
    with store.waves() as log:
        array[1:63, 1:63] = X[1:63, 1:63] + 1
    assert len(log) == 2
    new = X.copy()
    new[1:63, 1:63] += 1
    assert np.array_equal(array[...], new)


@pytest.mark.slow
@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("format", FORMATS)
def test_the_bytes_under_way_are_bounded(format: str) -> None:
    store = WaveStore()
    array = tegula.create_array(store, shape=(64, 64), dtype="i4", chunks=(8, 64), format=format)
    with config.configure(buffer_bytes=3 * 8 * 64 * 4), store.waves() as log:
        array[...] = X
        assert np.array_equal(array[...], X)
    assert store.most <= 3 + 1  # with the document
    assert len(log) >= 6
    assert IN_FLIGHT._held == 0


def test_one_chunk_larger_than_the_bound_goes_alone() -> None:
    store = WaveStore()
    array = filled(store, chunks=(32, 64))
    with config.configure(buffer_bytes=1), store.waves():
        assert np.array_equal(array[...], X)
    assert store.most <= 2  # with the document


def test_room_for_bytes_is_waited_for() -> None:
    room, order = InFlight(), []
    with config.configure(buffer_bytes=10):
        room.acquire(6)

        def take() -> None:
            with room.hold(6):
                order.append("in")

        waiting = threading.Thread(target=take)
        waiting.start()
        waiting.join(0.05)
        order.append("release")
        room.release(6)
        join([waiting])
    assert order == ["release", "in"]


def test_room_for_many_chunks_is_taken_at_once_where_that_leaves_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    room = InFlight()
    with config.configure(buffer_bytes=10):
        assert [room.acquire_if_plenty(nbytes) for nbytes in (6, 3, 3, 2)] == [False, True, False, True]
    store = WaveStore()
    array = filled(store, chunks=(8, 8))
    asked: list[int] = []
    monkeypatch.setattr(IN_FLIGHT, "acquire", asked.append)
    array = tegula.open_array(store, mode="r+")
    with config.configure(executor="kernel"), store.waves():
        assert np.array_equal(array[...], X)
        array[...] = X
    assert not asked
    assert IN_FLIGHT._held == 0


def test_an_error_gives_room_back() -> None:
    class Failing(WaveStore):
        broken = False

        def passing(self, request: str) -> None:
            if self.broken:
                raise tegula.StoreError("the server is gone")

    store = Failing()
    array, shards = filled(store, path="a", chunks=(8, 8)), filled(store, LARGE, path="b", **SHARDS)
    store.broken = True
    with pytest.raises(tegula.StoreError, match="gone"):
        array[...]
    with pytest.raises(tegula.StoreError, match="gone"):
        array[...] = 5
    with pytest.raises(tegula.StoreError, match="gone"):
        shards[::1000]
    assert IN_FLIGHT._held == 0


# --- growing and shrinking


@pytest.mark.slow
@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "bcolz"])
def test_resizing_takes_as_many_waves_for_many_chunks_as_for_few(format: str) -> None:
    waves = []
    for rows in (16, 256):
        store = WaveStore(concurrency=256)
        array = tegula.create_array(store, shape=(rows, 4), dtype="i4", chunks=(4, 4), format=format)
        array[...] = 1
        with store.waves() as shrinking:
            array.resize(8, 4)
        with store.waves() as appending:
            array.append(np.ones((rows, 4), "i4"))
        assert (array[...] == 1).all()
        assert array.shape == (rows + 8, 4)
        waves.append((len(shrinking), len(appending)))
    # a chain of requests would be sixty waves more; the threads of a busy machine may be late by one
    assert all(many <= few + 2 for few, many in zip(*waves)), waves


@pytest.mark.slow
@pytest.mark.sampled(one_in=28)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1"])
@pytest.mark.parametrize("rows", [16, 13], ids=["whole chunks", "parts of chunks"])
@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_an_append_takes_three_waves_and_then_two(format: str, rows: int, executor: str) -> None:
    with config.configure(executor=executor):
        store = RevalidatingWaveStore()
        filled(store, X[:rows, :6], format=format, chunks=(4, 4))
        array = tegula.open_array(store, mode="r+")
        waves = []
        for number in range(4):
            with store.waves() as log:
                array.append(X[rows + 8 * number : rows + 8 * number + 8, :6])
            waves.append(len(log))
        assert waves == [3, 2, 2, 2]
        assert np.array_equal(array[...], X[: rows + 32, :6])
        # another process appends meanwhile: the write of the document is refused, it is read, and what that process may
        # have left behind its end is looked for
        other = tegula.open_array(RevalidatingWaveStore(store.values), mode="r+")
        other.append(np.full((3, 6), -1, "i4"))
        with store.waves() as log:
            array.append(np.full((5, 6), -2, "i4"))
        assert len(log) == 5
        assert np.array_equal(array[rows + 32 :, 0], [-1] * 3 + [-2] * 5)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_append_to_a_new_array_reads_no_documents(format: str) -> None:
    store = RevalidatingWaveStore()
    array = tegula.create_array(store, path="a", shape=(0, 64), dtype="i4", chunks=(4, 16), format=format)
    with store.waves() as log:
        array.append(X[:16])
    assert len(log) == 3
    assert not any(".json" in request or "/.z" in request for request in log[0]), log[0]  # it looks for old chunks
    assert len(log[1]) == (1 if format == "zarr3" else 3)  # documents, and no chunk, since all of them are new
    assert np.array_equal(tegula.open_array(RevalidatingWaveStore(store.values), path="a")[...], X[:16])
    # another process has changed the document since
    array = tegula.create_array(store, path="b", shape=(0, 64), dtype="i4", chunks=(4, 16), format=format)
    other = tegula.open_array(RevalidatingWaveStore(store.values), path="b", mode="r+")
    other.append(X[:8])
    array.append(X[8:16])
    assert np.array_equal(array[...], X[:16])


@pytest.mark.parametrize("rows", [16, 13], ids=["whole chunks", "parts of chunks"])
def test_an_append_shows_nothing_of_what_is_left_beyond_the_edge(rows: int) -> None:
    store = RevalidatingWaveStore()
    array = filled(store, X, chunks=(4, 16), write_empty_chunks=True)
    chunks = {key: store.values.get(key) for key in store.values.list() if key != "zarr.json"}
    array.resize(rows, 64)
    for key, raw in chunks.items():  # as if the process had been killed before it cleared them
        store.values.set(key, raw)
    array = tegula.open_array(RevalidatingWaveStore(store.values), mode="r+", write_empty_chunks=True)
    # at the moment at which the new shape is stored, the new part reads as the fill value
    seen = []
    with pytest.MonkeyPatch.context() as patch:

        def now() -> Any:
            return tegula.open_array(RevalidatingWaveStore(store.values))[rows:]

        write = appending.write
        patch.setattr(appending, "write", lambda *arguments: (seen.append(now()), write(*arguments)))
        array.append(-X[:7])
    assert len(seen) == 1
    assert seen[0].shape == (7, 64)
    assert not seen[0].any()
    array.append(np.zeros((6, 64), "i4"))
    array.resize(50, 64)
    expected = np.concatenate([X[:rows], -X[:7], np.zeros((43 - rows, 64), "i4")])
    assert np.array_equal(tegula.open_array(RevalidatingWaveStore(store.values))[...], expected)


@pytest.mark.slow
def test_chunks_that_would_take_too_much_memory_are_not_read_ahead() -> None:
    store = RevalidatingWaveStore(quiet=0.002)  # the waves are not counted
    filled(store, X[:13], chunks=(4, 4))
    array = tegula.open_array(store, mode="r+")
    with config.configure(buffer_bytes=100), store.waves():
        for start in (13, 21, 29):
            array.append(X[start : start + 8])
    assert np.array_equal(array[...], X[:37])


@pytest.mark.parametrize(("format", "requests"), [("zarr3", 1), ("zarr2", 4)])
def test_attributes_in_their_own_document_change_in_one_request(format: str, requests: int) -> None:
    store = RevalidatingWaveStore()
    tegula.create_group(store, format=format, attributes={"x": 1})
    group = tegula.open_group(store, mode="r+")
    for value in (2, 3):
        with store.waves() as log:
            group.attrs["x"] = value
        assert len(log.requests) == requests
    other = tegula.open_group(RevalidatingWaveStore(store.values), mode="r+")
    assert dict(other.attrs) == {"x": 3}
    # what changes nothing, or is not possible, is decided on the present attributes
    other.attrs["x"] = 4
    group.attrs["x"] = 3
    assert dict(tegula.open_group(RevalidatingWaveStore(store.values)).attrs) == {"x": 3}
    other.attrs["y"] = 1
    del group.attrs["y"]
    del other.attrs["x"]
    with pytest.raises(KeyError):
        del group.attrs["x"]
    tegula.delete(RevalidatingWaveStore(store.values))
    with pytest.raises(tegula.NotFoundError):
        group.attrs["x"] = 5


ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 9)),
    st.tuples(st.just("resize"), st.integers(0, 20)),
    st.tuples(st.just("set"), st.integers(0, 2)),
    st.tuples(st.just("open"), st.just(0)),
)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
@pytest.mark.parametrize("empty", [True, False], ids=["empty chunks are stored", "or not"])
@settings(max_examples=60)
@given(steps=st.lists(st.tuples(st.integers(0, 1), ACTIONS), max_size=12))
def test_writers_that_keep_outdated_documents_lose_nothing(format: str, empty: bool, steps: Any) -> None:
    stores = [RevalidatingWaveStore()]
    stores.append(RevalidatingWaveStore(stores[0].values))
    tegula.create_array(stores[0], shape=(5, 3), chunks=(4, 2), dtype="i4", fill_value=0, format=format)
    arrays = [tegula.open_array(store, mode="r+", write_empty_chunks=empty) for store in stores]
    model, attributes = np.zeros((5, 3), "i4"), {}
    for number, (who, (action, count)) in enumerate(steps, 1):
        array = arrays[who]
        if action == "append":
            added = np.full((count, 3), number % 3, "i4")  # which is the fill value at times
            model = np.concatenate([model, added])
            assert array.append(added) == model.shape
        elif action == "resize":
            model = np.concatenate([model[:count], np.zeros((max(0, count - len(model)), 3), "i4")])
            array.resize(count, 3)
        elif action == "set":
            attributes[f"a{count}"] = number
            array.attrs[f"a{count}"] = number
        else:
            arrays[who] = tegula.open_array(stores[who], mode="r+", write_empty_chunks=empty)
        found = tegula.open_array(RevalidatingWaveStore(stores[0].values))
        assert np.array_equal(found[...], model)
        assert dict(found.attrs) == attributes


@pytest.mark.parametrize("small", [True, False])
@settings(max_examples=60)
@given(data=st.data())
def test_leftovers_beyond_the_edge_never_reappear(small: bool, data: Any) -> None:
    shape, options = data.draw(layouts())
    store = RevalidatingWaveStore()
    array = filled(store, np.arange(np.prod(shape)).reshape(shape).astype("i4") % 3 + 1, fill_value=0, **options)
    # a writer has been killed after it had stored a smaller shape, before it cleared the chunks
    less = tuple(data.draw(st.integers(0, size)) for size in shape)
    before = [key for key in store.values.list() if key != "zarr.json"]
    chunks = {key: store.values.get(key) for key in before}
    model = array[tuple(map(slice, less))]
    array.resize(less)
    for key, raw in chunks.items():
        store.values.set(key, raw)
    array = tegula.open_array(RevalidatingWaveStore(store.values), mode="r+")
    with pytest.MonkeyPatch.context() as patch:
        if not small:
            patch.setattr("tegula.engine.lengths.resizing._SMALL", 0)
        for _ in range(2):
            axis = data.draw(st.integers(0, len(shape) - 1))
            part = [data.draw(st.integers(0, 9)) if a == axis else size for a, size in enumerate(model.shape)]
            added = np.full(part, data.draw(st.integers(0, 5)), "i4")
            if data.draw(st.booleans()):
                array.append(added, axis)
            else:
                added[...] = 0
                array.resize(tuple(size + (part[a] if a == axis else 0) for a, size in enumerate(model.shape)))
            model = np.concatenate([model, added], axis)
            assert np.array_equal(tegula.open_array(RevalidatingWaveStore(store.values))[...], model)


@pytest.mark.slow
@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize("rows", [16, 13])
def test_rows_are_added_to_one_array_in_four_waves_and_to_a_table_in_five(rows: int) -> None:
    store = WaveStore()
    filled(store, X[:rows], format="bcolz", chunks=(4, 64), path="a")
    array = tegula.open_array(store, path="a", mode="r+")
    table = tegula.create_table(store, {"x": X[:rows, 0], "y": X[:rows, 1]}, format="bcolz", path="t")
    table.append({"x": X[:1, 0], "y": X[:1, 1]})
    for number in range(2):
        with store.waves() as log:
            array.append(X[rows + 9 * number : rows + 9 * number + 9])
        assert len(log) == 4
        with store.waves() as log:
            table.append({"x": X[:3, 0], "y": X[:3, 1]})
        assert len(log) == 5
    assert np.array_equal(array[...], X[: rows + 18])
    assert np.array_equal(table["y"][rows:], X[[0, 0, 1, 2, 0, 1, 2], 1])
    # another process appends meanwhile: the chunks that were read were others than those that are written
    other = tegula.open_array(store, path="a", mode="r+")
    other.append(np.full((5, 64), -1, "i4"))
    array.append(np.full((6, 64), -2, "i4"))
    assert np.array_equal(array[rows + 18 :, 0], [-1] * 5 + [-2] * 6)


@pytest.mark.parametrize("meanwhile", ["append", "write", "attribute"])
def test_what_changes_before_the_length_is_reserved_is_not_lost(meanwhile: str) -> None:
    class Interfering(WaveStore):
        act: Callable[[], Any] | None = None

        def passing(self, request: str) -> None:
            if request.startswith("set") and self.act is not None:
                act, self.act = self.act, None
                act()

    store = Interfering()
    array = filled(store, X[:6], format="bcolz", chunks=(4, 64))
    other = tegula.open_array(store, mode="r+")
    expected = np.concatenate([X[:6], X[:5] if meanwhile == "append" else X[:0], X[:3]])
    if meanwhile == "append":
        store.act = lambda: other.append(X[:5])
    elif meanwhile == "write":
        expected[5] = -7
        store.act = lambda: other.__setitem__(5, -7)
    else:
        store.act = lambda: other.attrs.update({"x": 1})
    array.append(X[:3])
    assert store.act is None
    assert np.array_equal(tegula.open_array(store)[...], expected)


def test_the_stored_bytes_are_counted_in_two_waves() -> None:
    store = WaveStore(quiet=0.2)  # on a busy machine, one of many threads may start late
    array = filled(store, chunks=(8, 8))
    with store.waves() as log:
        assert array.nbytes_stored() > 0
    assert len(log) == 2


def test_a_listing_that_tells_sizes_is_enough_to_count_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    local = tegula.create_array(tegula.MemoryStore(), shape=X.shape, dtype="i4", chunks=(8, 8))
    remote = tegula.create_array(objects(8), shape=X.shape, dtype="i4", chunks=(8, 8))
    for array in (local, remote):
        array[:40] = X[:40]
    monkeypatch.setattr("tegula.stores.objects.reading.ObjectReader.size", None)
    assert remote.nbytes_stored() == local.nbytes_stored()
    assert remote.stored.amount_stored() == local.stored.amount_stored() == (40, local.nbytes_stored())


# --- the same results as in a local store


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, 4)) for _ in shape)
    shards = tuple(size * draw(st.integers(1, 3)) for size in chunks) if draw(st.booleans()) else None
    return shape, {"chunks": chunks, "shards": shards}


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[str, Any]]:
    ints = [st.integers(-size, size - 1) for size in shape]
    lists = [st.lists(one, min_size=1, max_size=6) for one in ints]
    slices = [st.slices(size) for size in shape]
    basic = st.tuples(*(one | two for one, two in zip(ints, slices)))
    orthogonal = st.tuples(*(one | two for one, two in zip(lists, slices)))
    together = st.lists(st.tuples(*ints), min_size=1, max_size=8).map(lambda rows: tuple(map(list, zip(*rows))))
    return st.one_of(
        basic.map(lambda part: ("basic", part)),
        orthogonal.map(lambda part: ("oindex", part)),
        together.map(lambda part: ("vindex", part)),
    )


def objects(concurrency: int) -> Store:
    """Return a store of objects in memory."""
    kind = pytest.importorskip("obstore.store").MemoryStore
    return tegula.ObjectStore(kind(), concurrency=concurrency)


@pytest.mark.slow
@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize("kind", [*STORES, objects])
@pytest.mark.parametrize("ranged", [True, False], ids=["by ranges", "small shards as a whole"])
@settings(max_examples=60)
@given(data=st.data())
def test_remote_reads_return_what_numpy_selects(kind: Callable[..., Store], ranged: bool, data: Any) -> None:
    shape, options = data.draw(layouts())
    store = kind(concurrency=8)
    model = np.full(shape, -1, "i2")
    array = tegula.create_array(store, shape=shape, dtype="i2", fill_value=-1, **options)
    for number in range(data.draw(st.integers(0, 3))):
        part = data.draw(st.tuples(*map(st.slices, shape)))
        model[part] = array[part] = number
    with pytest.MonkeyPatch.context() as patch:
        if ranged:
            patch.setattr("tegula.engine.reading.remote.ShardReader.reads_whole", lambda *_: False)
        for _ in range(3):
            how, part = data.draw(selections(shape))
            found: Any = array if how == "basic" else getattr(array, how)
            expected: Any = model
            if how == "oindex":
                for axis, one in enumerate(part):
                    expected = expected[(slice(None),) * axis + (one,)]
            else:
                expected = model[part]
            assert np.array_equal(found[part], expected)


@pytest.mark.parametrize("kind", [*STORES, objects])
def test_several_writers_of_a_remote_store_lose_nothing(kind: Callable[..., Store]) -> None:
    store = kind(concurrency=8)
    array = tegula.create_array(store, shape=96, dtype="i4", chunks=4, shards=24)

    def write(worker: int) -> None:
        for start in range(worker, 96, 4):
            array[start] = start + 1

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found = array[...]
        assert ((found == 0) | (found == np.arange(96) + 1)).all()
    assert np.array_equal(array[...], np.arange(96) + 1)


# --- the pieces


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 20)), max_size=12), st.integers(0, 10), st.integers(1, 60)
)
def test_runs_hold_each_range_once(ranges: list[tuple[int, int]], gap: int, span: int) -> None:
    found = [*runs(ranges, gap, span)]
    assert sorted(number for _, _, members in found for number in members) == [*range(len(ranges))]
    for start, nbytes, members in found:
        ends = [sum(ranges[number]) for number in members]
        assert (start, start + nbytes) == (min(ranges[number][0] for number in members), max(ends))
        assert nbytes <= span or len({ranges[number][0] for number in members}) == 1 or nbytes <= max(span, 20)


def test_many_values_are_one_wave() -> None:
    store = WaveStore()
    for number in range(10):
        store.set(f"k{number}", bytes([number]))
    with store.waves() as log:
        found = get_many(store, [(f"k{number}", None) for number in range(11)])
    assert found == [*(bytes([number]) for number in range(10)), None]
    assert len(log) == 1
