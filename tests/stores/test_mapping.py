"""The stores in memory: `MappingStore` over any mapping, and `MemoryStore`."""

import gc
import pickle
import weakref
from collections import UserDict

import numpy as np
import pytest

from tegula.errors import ConflictError, ReadOnlyError, StoreError
from tegula.stores import ABSENT, MappingStore, MemoryStore, mapping

pytestmark = pytest.mark.once(executors="none")


def test_values_may_be_of_any_bytes_like_kind():
    numbers = np.arange(6, dtype=">i4")
    found = {"bytearray": bytearray(b"abc"), "view": memoryview(b"abc"), "array": numbers, "none": numbers[:0]}
    store = MappingStore(found)
    assert store.get("bytearray") == store.get("view") == b"abc"
    assert store.get("array") == numbers.tobytes()
    assert store.size("array") == 24
    assert store.get("array", (4, 4)) == numbers.tobytes()[4:8]
    assert store.get("none") == b""
    assert all(type(store.get(key)) is bytes for key in store.list())


def test_a_fortran_ordered_array_counts_as_its_memory():
    numbers = np.asfortranarray(np.arange(6).reshape(2, 3))
    assert MappingStore({"a": numbers}).get("a") == numbers.tobytes("A") != numbers.tobytes("C")


def test_what_is_no_bytes_is_an_error():
    store = MappingStore({"a": "text", "b": 1, "c": None})
    for key in "abc":
        with pytest.raises(StoreError, match="not bytes") as caught:
            store.get(key)
        assert caught.value.key == key
    with pytest.raises(StoreError, match="needs a mapping"):
        MappingStore([1, 2])


def test_names_that_are_no_keys_are_not_listed():
    store = MappingStore({"a": b"1", "b//c": b"2", 3: b"3", "": b"4", "../x": b"5"})
    assert [*store.list()] == ["a"]
    assert store.list_dir("") == (["a"], [])


class Failing(dict):
    def fail(self, *args):
        raise RuntimeError("the network is down")

    __getitem__ = __setitem__ = __delitem__ = __iter__ = __contains__ = fail


def test_only_a_key_error_is_a_missing_value():
    store = MappingStore(Failing())
    for operation in (store.get, store.size, store.exists, store.delete, lambda key: store.set(key, b"")):
        with pytest.raises(StoreError, match="network is down") as caught:
            operation("a")
        assert caught.value.key == "a"
        assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(StoreError, match="network is down"):
        store.list()


@pytest.mark.slow
def test_stores_over_one_mapping_share_a_lock_while_they_exist():
    contents = {}
    one, other = MappingStore(contents), MappingStore(contents)
    assert one._shared is other._shared
    assert MappingStore({})._shared is not one._shared
    generation = one.set("a", b"1")
    assert other.get("a", with_generation=True) == (b"1", generation)
    other.set("a", b"2", if_generation=generation)
    with pytest.raises(ConflictError):
        one.set("a", b"3", if_generation=generation)
    locks = weakref.ref(one._shared)
    del one, other
    gc.collect()
    assert locks() is None


def test_the_mapping_sees_bytes():
    contents = {}
    MappingStore(contents).set("a", np.arange(3, dtype="u1"))
    assert contents == {"a": b"\0\1\2"}
    assert type(contents["a"]) is bytes


def test_a_memory_store_begins_with_copies():
    value = bytearray(b"abc")
    store = MemoryStore({"a/b": value}, read_only=True)
    value[:] = b"xyz"
    assert store.get("a/b") == b"abc"
    with pytest.raises(ReadOnlyError):
        store.set("a/b", b"")
    for contents in ({"a//b": b""}, {"a": 1}):
        with pytest.raises(StoreError):
            MemoryStore(contents)


def test_a_pickled_memory_store_is_independent():
    store = MemoryStore({"a": b"1"})
    copy = pickle.loads(pickle.dumps(store))
    copy.set("a", b"2")
    copy.set("b", b"3", if_generation=ABSENT)
    assert store.get("a") == b"1"
    assert store.get("b") is None


def test_a_value_is_digested_once_however_many_ranges_are_read(monkeypatch):
    digested = []
    digest = mapping.digest
    monkeypatch.setattr(mapping, "digest", lambda value: digested.append(len(value)) or digest(value))
    contents = {"a": bytes(10_000)}
    one, other = MappingStore(contents), MappingStore(contents)
    found = {store.get("a", (at, 2), with_generation=True)[1] for at in range(50) for store in (one, other)}
    assert len(found) == 1
    assert digested == [10_000]
    generation = one.set("a", bytes(20_000), if_generation=found.pop())
    assert other.get("a", (5, 2), with_generation=True) == (b"\0\0", generation)
    other.set("a", bytes(30_000), if_generation=generation)
    assert digested == [10_000, 20_000, 30_000]


@pytest.mark.parametrize("size", [3, 10_000])
@pytest.mark.parametrize("kind", [dict, UserDict])
def test_changes_made_directly_in_the_mapping_are_seen(kind, size):
    contents = kind()
    store = MappingStore(contents)
    generation = store.set("a", bytes(size))
    contents["a"] = b"x" * size
    with pytest.raises(ConflictError):
        store.set("a", b"", if_generation=generation)
    contents["a"] = bytearray(size)  # equal to what was read
    assert store.get("a", with_generation=True)[1] == generation
    contents["a"][0] = 1
    with pytest.raises(ConflictError):
        store.delete("a", if_generation=generation)
    del contents["a"]
    assert store.get("a", with_generation=True) == (None, ABSENT)
    contents["a"] = bytes(size)
    store.delete("a", if_generation=generation)


def test_no_value_is_kept_alive_for_its_digest():
    contents = {}
    store = MappingStore(contents)
    for number in range(1000):
        store.set(f"{number}", bytes(5000))
    assert len(store._shared.digests) <= 32
    for number in range(1000):
        store.delete(f"{number}")
    contents["a"] = np.zeros(5000, "u1")
    assert store.get("a", with_generation=True)[0] == bytes(5000)
    assert not store._shared.digests
