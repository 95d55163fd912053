"""The store that fails on demand: which operation fails, when, and what it leaves; the same with both executors."""

import errno
import pickle
import threading
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from tests.waiting import run_threads

import tegula
from tegula import config
from tegula.stores import ABSENT, LocalStore, MemoryStore
from tegula.stores.capabilities import BlockedKeys, EmptyDirectories, Locking, UnreachableNames
from tegula.testing import Crash, Fault, FaultyStore


@pytest.fixture(autouse=True)
def _one_thread():
    with config.configure(threads=1):
        yield


class Capable(Locking, BlockedKeys, EmptyDirectories, UnreachableNames, MemoryStore):
    """A store in memory with every capability that a faulty store passes on."""

    def lock(self, key):
        return nullcontext(True)

    def blocked_by(self, key):
        return None

    def make_prefix(self, prefix):
        pass

    def has_prefix(self, prefix):
        return True

    def unreachable(self, prefix=""):
        return iter(())


def over(**contents) -> FaultyStore:
    return FaultyStore(Capable(contents))


def each_operation(store: FaultyStore):
    """Return every operation by its name, on a key or a prefix."""
    return {
        "get": partial(store.get, "a"),
        "size": partial(store.size, "a"),
        "exists": partial(store.exists, "a"),
        "blocked_by": partial(store.blocked_by, "a"),
        "set": partial(store.set, "a", b"new"),
        "delete": partial(store.delete, "a"),
        "list_prefix": partial(store.list_prefix, ""),
        "list_dir": partial(store.list_dir, ""),
        "prefixes_with": partial(store.prefixes_with, "", ["a"]),
        "delete_prefix": partial(store.delete_prefix, "z/"),
        "make_prefix": partial(store.make_prefix, "z/"),
        "has_prefix": partial(store.has_prefix, "z/"),
        "lock": lambda: store.lock("a").__enter__(),
        "unreachable": partial(store.unreachable, "z/"),
    }


@pytest.mark.parametrize("name", each_operation(over()))
def test_each_operation_fails_on_demand_and_names_key_and_cause(name):
    store = over(a=b"old")
    store.arm(Fault(errno.ENOSPC, on=name))
    act = each_operation(store)[name]
    with pytest.raises(tegula.StoreError, match="No space left") as caught:
        act()
    assert caught.value.key in ("a", "", "z/")
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert store.struck == 1
    assert store.store.get("a") == b"old"
    act()  # once


def test_the_number_of_the_operation_and_its_key_decide():
    store = over()
    store.arm(Fault(errno.EIO, on=["set", "delete"], keys=r"^c/", skip=2, times=2))
    outcome = []
    for number in range(6):
        store.set(f"d/{number}", b"")
        try:
            store.set(f"c/{number}", b"")
        except tegula.StoreError as error:
            outcome.append(error.key)
    assert outcome == ["c/2", "c/3"]
    store.arm(Fault(errno.EIO, times=None))
    for _ in range(5):
        with pytest.raises(tegula.StoreError):
            store.get("c/0")
    assert store.struck == 5


def test_an_answer_may_be_lost_after_the_deed():
    store = over(a=b"old")
    store.arm(Fault(errno.ETIMEDOUT, on="set", done=True))
    with pytest.raises(tegula.StoreError, match="timed out"):
        store.set("a", b"new")
    assert store.get("a") == b"new"


def test_a_short_answer():
    store = over(a=b"0123456789")
    store.arm(Fault("short", times=None))
    assert store.get("a", (2, 6)) == b"234"
    assert store.get("a") == b"01234"
    assert store.get("b") is None
    assert store.size("a") == 10
    value, generation = store.get("a", with_generation=True)
    assert (value, generation) == (b"01234", store.store.get("a", with_generation=True)[1])


def test_a_lost_race_needs_a_condition():
    store = over()
    store.arm(Fault("conflict"))
    generation = store.set("a", b"1")
    with pytest.raises(tegula.ConflictError, match="'a'"):
        store.set("a", b"2", if_generation=generation)
    store.set("a", b"2", if_generation=generation)


def test_after_a_crash_nothing_works_but_the_store_below():
    store = over(a=b"old")
    store.arm(Fault("crash", on="set"))
    with pytest.raises(Crash):
        store.set("a", b"new")
    for act in each_operation(store).values():
        with pytest.raises(Crash):
            act()
    assert store.store.get("a") == b"old"
    store.close()
    store.arm()
    assert store.get("a") == b"old"


def test_a_prefix_is_deleted_key_by_key_so_that_it_can_be_interrupted():
    store = over(**{f"c/{number}": b"" for number in range(5)})
    store.arm(Fault("crash", on="delete", skip=2))
    with pytest.raises(Crash):
        store.delete_prefix("c/")
    assert len([*store.store.list()]) == 3


def test_another_writer_comes_in_between():
    store = over(a=b"1")
    store.arm(Fault(lambda operation, key: store.set(key, operation.encode()), on="get", done=True))
    value, generation = store.get("a", with_generation=True)
    assert (value, store.get("a")) == (b"1", b"get")
    with pytest.raises(tegula.ConflictError):
        store.set("a", b"2", if_generation=generation)


def test_faults_that_do_not_exist_are_refused():
    for options in ({"what": "fire"}, {"what": 5, "on": "write"}, {"what": None}):
        with pytest.raises(tegula.MetadataError):
            Fault(**options)


def test_a_copy_has_the_values_and_no_faults(tmp_path):
    store = FaultyStore(LocalStore(tmp_path), Fault(errno.EIO, times=None))
    assert pickle.loads(pickle.dumps(store)).get("a", with_generation=True) == (None, ABSENT)
    assert (store.url, store.read_only) == (store.store.url, False)


def test_threads_count_each_fault_once():
    store = over()
    store.arm(Fault(errno.EIO, on="set", skip=10, times=7))
    failed = []

    def work():
        for number in range(50):
            try:
                store.set(f"k{number}", b"")
            except tegula.StoreError:
                failed.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    run_threads(threads)
    assert len(failed) == store.struck == 7


@pytest.mark.parametrize("place", ["memory", "files"])
def test_an_array_on_it_fails_and_recovers(place, tmp_path):
    below = MemoryStore() if place == "memory" else LocalStore(tmp_path)
    store = FaultyStore(below)
    a = tegula.create_array(store, shape=6, chunks=2, dtype="i4", fill_value=9)
    store.arm(Fault(errno.ENOSPC, on="set", keys="^c/", skip=1))
    with pytest.raises(tegula.StoreError, match="No space left") as caught:
        a[:] = 1
    assert caught.value.key == "c/1"
    np.testing.assert_array_equal(a[:], [1, 1, 9, 9, 9, 9])
    a[:] = 2
    np.testing.assert_array_equal(tegula.open(below)[:], 2)
    store.arm(Fault("short", on="get", keys="^c/"))
    with pytest.raises(tegula.TegulaError, match="c/1"):
        a[2:3]
    store.arm(Fault("conflict", times=3))
    a[3] = 5
    store.arm(Fault("crash", keys="^c/"))
    with pytest.raises(Crash):
        a[0] = 7
    np.testing.assert_array_equal(tegula.open(below)[:], [2, 2, 2, 5, 2, 2])
