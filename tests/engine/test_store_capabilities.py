"""Arrays on stores that lack something: the engine asks for no more than a store declares."""

import threading
from functools import partial

import numpy as np
import pytest
from tests.waiting import run_threads

import tegula
from tegula import config
from tegula.engine.concurrency import reservations
from tegula.engine.concurrency.reservations import Reservation
from tegula.engine.lengths import atomic_append
from tegula.errors import UnsupportedError
from tegula.stores import MemoryStore
from tegula.stores.arguments import clip_range
from tegula.stores.single_writer import digest


class NoConditionalDelete(MemoryStore):
    """A store of which no delete takes a condition."""

    conditional_delete = False

    def delete(self, key, *, if_generation=None):
        if if_generation is not None:
            raise UnsupportedError("delete takes no condition", key=key)
        super().delete(key)


class Hashing(NoConditionalDelete):
    """A store whose generations are hashes of the values, and which has no locks."""

    fresh_generations = False

    def get(self, key, byte_range=None, *, with_generation=False):
        whole = super().get(key)  # once: the value and the generation must be of the same moment
        value = whole if whole is None or byte_range is None else whole[slice(*clip_range(byte_range, len(whole)))]
        generation = "absent" if whole is None else digest(whole)
        return (value, generation) if with_generation else value

    def set(self, key, value, *, if_generation=None):
        if if_generation is None:
            super().set(key, value)
        else:
            old, generation = super().get(key, with_generation=True)
            if if_generation != ("absent" if old is None else digest(old)):
                raise tegula.ConflictError("changed", key=key)
            super().set(key, value, if_generation=generation)
        return digest(bytes(value))


@pytest.mark.parametrize("kind", [NoConditionalDelete, Hashing])
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_an_array_is_created_written_resized_and_deleted(kind, format):
    store = kind()
    array = tegula.create_array(store, shape=10, chunks=4, dtype="i4", fill_value=7, format=format)
    array[...] = np.arange(10)
    array[0:4] = 7
    array[5] = 7
    array[4], array[6:8] = 7, 7
    np.testing.assert_array_equal(array[...], [7, 7, 7, 7, 7, 7, 7, 7, 8, 9])
    array.resize(5)
    array.resize(9)
    np.testing.assert_array_equal(array[...], [7] * 9)
    array.append(np.ones(3, "i4"))
    np.testing.assert_array_equal(tegula.open_array(store)[...], [7] * 9 + [1] * 3)
    tegula.create_array(store, shape=2, dtype="i4", fill_value=1, format=format, overwrite=True)
    np.testing.assert_array_equal(tegula.open_array(store)[...], [1, 1])
    assert tegula.check(store).errors == 0


def test_fill_value_chunk_is_stored_where_delete_takes_no_condition():
    for store, stored in ((MemoryStore(), False), (NoConditionalDelete(), True)):
        array = tegula.create_array(store, shape=4, chunks=4, dtype="i4", fill_value=0)
        array[1] = 5
        array[1] = 0
        assert store.exists("c/0") is stored
        np.testing.assert_array_equal(array[...], [0, 0, 0, 0])


@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_no_appended_rows_are_lost_where_generations_are_hashes(format):
    store = Hashing()
    tegula.create_table(store, {"x": np.zeros(0, "i8"), "y": np.zeros(0, "i8")}, format=format)
    failures = []

    def add(first):
        try:
            with config.configure(threads=1):
                for number in range(first, first + 8):
                    tegula.open_table(store, "r+").append({"x": [number], "y": [-number]})
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=add, args=(100 * number,)) for number in range(3)]
    run_threads(threads)
    assert not failures
    found = tegula.open_table(store).read()
    assert sorted(found["x"]) == [100 * number + row for number in range(3) for row in range(8)]
    np.testing.assert_array_equal(found["y"], -found["x"])


def test_length_reserved_in_a_store_of_hashes_changes_the_document():
    """Else a second writer with the same rows in mind would not notice the first."""
    store = Hashing()
    table = tegula.create_table(store, {"x": np.arange(3)}, format="bcolz")
    written = []

    def put(key, value, **condition):
        written.append(bytes(value))
        return Hashing.set(store, key, value, **condition)

    store.set = put
    table.append({"x": [4]})
    lengths = [value for value in written if b"shape" in value]
    assert len(lengths) == 2
    assert lengths[0].endswith((b" ", b"\t"))
    assert not lengths[1].endswith((b" ", b"\t"))


@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_reservation_blocks_other_writers_until_it_ends_or_expires(format, monkeypatch):
    store = Hashing()
    tegula.create_table(store, {"x": np.arange(3)}, format=format)
    key = "x/meta/sizes" if format == "bcolz" else "x/zarr.json"
    plain = store.get(key)
    dead = Reservation().renew(plain)
    store.set(key, dead)
    waits = []

    def wait(attempt):
        waits.append(store.get(key))
        if len(waits) == 3:
            store.set(key, plain)

    monkeypatch.setattr(atomic_append, "back_off", wait)
    tegula.open_table(store, "r+").append({"x": [3]})
    assert waits == [dead] * 3

    reserved = store.get(key)
    store.set(key, Reservation().renew(reserved))
    waits.clear()
    monkeypatch.setattr(reservations, "PATIENCE", 0.02)
    monkeypatch.setattr(atomic_append, "back_off", waits.append)
    tegula.open_table(store, "r+").append({"x": [4]})
    assert waits
    assert tegula.open_table(store).read()["x"].tolist() == [0, 1, 2, 3, 4]
    assert not store.get(key).endswith((b" ", b"\t"))


@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_a_failed_append_ends_its_reservation(format):
    store = Hashing()
    table = tegula.create_table(store, {"x": np.arange(3)}, format=format, chunks=2)
    before = {key: store.get(key) for key in store.list()}
    put = store.set

    def fail(key, value, **condition):
        if "/c/" in key or "data/" in key:
            raise tegula.StoreError("the disk is full", key=key)
        return put(key, value, **condition)

    store.set = fail
    with pytest.raises(tegula.StoreError, match="disk is full"):
        table.append({"x": [3, 4, 5]})
    assert {key: store.get(key) for key in store.list()} == before


@pytest.mark.parametrize("format", ["bcolz", "zarr3"])
def test_other_changes_of_the_document_keep_the_reservation(format):
    store = Hashing()
    table = tegula.create_table(store, {"x": np.arange(3)}, format=format)
    key = "x/meta/sizes" if format == "bcolz" else "x/zarr.json"
    mark = Reservation().renew(b"")
    store.set(key, store.get(key) + mark)
    table["x"].attrs["unit"] = "m"
    assert store.get(key).endswith(mark)
    table["x"].attrs.clear()
    assert store.get(key).endswith(mark)


def test_an_operation_that_takes_long_renews_its_reservation(monkeypatch):
    store = Hashing()
    table = tegula.create_table(store, {"x": np.arange(3)}, format="zarr3")
    marks = []
    put = store.set

    def watch(key, value, **condition):
        if key == "x/zarr.json":
            marks.append(bytes(value)[-64:])
        return put(key, value, **condition)

    store.set = watch
    monkeypatch.setattr(reservations, "PATIENCE", -1.0)
    table.append({"x": [3]})
    assert len(marks) == 3  # reserved, renewed before the chunk is written, ended
    assert marks[0] != marks[1]
    assert marks[2].strip()


def test_a_shrink_is_reserved_until_the_rows_are_deleted():
    store = Hashing()
    table = tegula.create_table(store, {"x": np.arange(9)}, format="zarr3", chunks=2)
    events = []
    put = store.set

    def watch(key, value, **condition):
        events.append(bytes(value).endswith((b" ", b"\t")) if key == "x/zarr.json" else key)
        return put(key, value, **condition)

    store.set = watch
    table.resize(3)
    assert events[:2] == [True, True]
    assert sorted(events[2:-1]) == ["x/c/1", "x/c/2", "x/c/3", "x/c/4"]
    assert events[-1] is False


def test_shrink_keeps_chunks_stored_after_another_process_grew_the_array():
    store = NoConditionalDelete()
    array = tegula.create_array(store, shape=8, chunks=4, dtype="i4", fill_value=7)
    array[...] = 1
    pending = [True]

    def grow_first(operation, key, *args, **condition):
        """Carry out an operation of the shrink after another process has grown the array and written to it."""
        if key == "c/1" and pending:
            pending.clear()
            other = tegula.open_array(store, "r+")
            other.resize(8)
            other[4:] = 2
        return operation(key, *args, **condition)

    store.set, store.delete = partial(grow_first, store.set), partial(grow_first, store.delete)
    array.resize(4)
    assert not pending
    assert tegula.open_array(store)[...].tolist() == [1] * 4 + [2] * 4


def test_an_array_that_shrinks_and_grows_reads_as_the_fill_value():
    store = NoConditionalDelete()
    for chunks, shards in ((4, None), (2, 4)):
        array = tegula.create_array(
            store, shape=(8, 6), chunks=chunks, shards=shards, dtype="i4", fill_value=7, overwrite=True
        )
        array[...] = 1
        array.resize((3, 2))
        array.resize((8, 6))
        expected = np.full((8, 6), 7)
        expected[:3, :2] = 1
        np.testing.assert_array_equal(array[...], expected)
