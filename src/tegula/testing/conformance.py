"""The conformance suite of stores: what `tegula` relies on, as tests that any store can be run through.

The suite uses only what `Store` promises.
"""

from __future__ import annotations

import pickle
import threading
import unicodedata
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from tegula.errors import AlreadyExistsError, ConflictError, ReadOnlyError, StoreError, TegulaError
from tegula.stores import ABSENT, Store

__all__ = ["StoreConformance", "check_store"]

_BAD_KEYS = ["", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/..", "a/../b", "../a", "a/.", "a\0b", "a/\ud800"]
_NO_TEXT: list[Any] = [None, 1, b"a", ("a",)]
_BAD_PREFIXES: list[Any] = ["a", "/", "/a/", "a//", "../", "a/../", "./", None, b"a/"]
_NO_BYTES = [None, 1, "text", [1, 2], {"a": 1}]
_RANGES = [
    (0, None),
    (3, None),
    (10, None),
    (12, None),
    (-4, None),
    (-10, None),
    (-15, None),
    (0, 0),
    (0, 4),
    (3, 4),
    (3, 100),
    (9, 1),
    (10, 1),
    (40, 2),
    (-4, 2),
    (-15, 2),
]


class StoreConformance:
    """Tests of one kind of store.

    Attributes
    ----------
    picklable : bool
        Whether the copy of a store that was pickled holds the same values.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> class TestMemoryStore(StoreConformance):
    ...     def make(self):
    ...         return MemoryStore()
    """

    picklable: bool = True

    def make(self) -> Store:
        """Return a new, empty, writable store; override this one."""
        raise NotImplementedError

    def reopen_read_only(self, store: Store) -> Store | None:
        """Return a read-only store with the values of `store`, or ``None`` where there is no such thing."""
        return None

    def test_a_value_comes_back(self) -> None:
        with self.make() as store:
            for key in [
                "a",
                "b/c/d",
                "zarr.json",
                ".zarray",
                "c/0/1",
                "0.0.0",
                "a b%20+~",
                "...",
                ".hidden",
                "x" * 200,
            ]:
                value = key.encode() * 3
                store.set(key, value)
                found = store.get(key)
                assert found == value
                assert type(found) is bytes
                assert store.size(key) == len(value)
                assert store.exists(key)

    def test_a_missing_key_is_none(self) -> None:
        with self.make() as store:
            store.set("a", b"1")
            for key in ["b", "c/d", "aa", "A/x"]:
                assert store.get(key) is None
                assert store.get(key, (0, 1)) is None
                assert store.get(key, with_generation=True) == (None, ABSENT)
                assert store.size(key) is None
                assert store.obstruction(key) is None
                assert not store.exists(key)
                store.delete(key)

    def test_an_empty_value_is_not_a_missing_one(self) -> None:
        with self.make() as store:
            store.set("a", b"")
            assert store.get("a") == b""
            assert store.get("a", (0, 5)) == b""
            assert store.get("a", (-5, None)) == b""
            assert store.size("a") == 0
            assert store.exists("a")
            assert [*store.list()] == ["a"]
            assert store.get("a", with_generation=True)[1] != ABSENT

    def test_a_shorter_value_leaves_no_tail(self) -> None:
        with self.make() as store:
            for value in [b"x" * 100_000, b"yz", b"", b"longer again"]:
                store.set("a/b", value)
                assert store.get("a/b") == value
                assert store.size("a/b") == len(value)

    def test_all_bytes_like_values(self) -> None:
        numbers = np.arange(6, dtype="<i4")
        values: list[Any] = [
            bytearray(b"abc"),
            memoryview(b"abcdef")[1:4],
            array("h", [1, 2, 3]),
            numbers,
            numbers.reshape(2, 3),
            numbers.astype(">i8"),
            numbers.view("V24"),
            np.array(7.0),
            np.zeros((0, 3)),
            np.zeros(2, dtype=[("a", "i2"), ("b", "f8")]),
        ]
        with self.make() as store:
            for value in values:
                store.set("a", value)
                assert store.get("a") == memoryview(value).tobytes()

    def test_the_buffer_of_the_caller_is_not_kept(self) -> None:
        with self.make() as store:
            value = bytearray(b"abc")
            store.set("a", value)
            value[:] = b"xyz"
            assert store.get("a") == b"abc"

    def test_other_values_are_refused(self) -> None:
        with self.make() as store:
            store.set("a", b"old")
            for value in [*_NO_BYTES, memoryview(b"abcdef")[::2], np.zeros((2, 3)).T]:
                for key in ["a", "new/key"]:
                    with _raises(StoreError, key):
                        store.set(key, value)
            assert store.get("a") == b"old"
            assert [*store.list()] == ["a"]

    def test_bad_keys_are_refused(self) -> None:
        with self.make() as store:
            for key in [*_BAD_KEYS, *_NO_TEXT]:
                for operation in (store.get, store.size, store.exists, store.delete, store.obstruction):
                    with _raises(StoreError):
                        operation(key)
                with _raises(StoreError):
                    store.set(key, b"x")
            assert [*store.list()] == []

    def test_bad_prefixes_are_refused(self) -> None:
        with self.make() as store:
            store.set("a/b", b"1")
            for prefix in _BAD_PREFIXES:
                with _raises(StoreError):
                    [*store.list_prefix(prefix)]
                with _raises(StoreError):
                    store.list_dir(prefix)
                with _raises(StoreError):
                    store.delete_prefix(prefix)
                with _raises(StoreError):
                    [*store.unreachable(prefix)]
            assert store.get("a/b") == b"1"

    def test_ranges(self) -> None:
        value = b"0123456789"
        with self.make() as store:
            store.set("a", value)
            for start, length in _RANGES:
                first = max(0, 10 + start) if start < 0 else start
                expected = value[first : None if length is None else first + length]
                assert store.get("a", (start, length)) == expected, (start, length)
            with _raises(StoreError):
                store.get("a", (0, -1))

    def test_many_at_once(self) -> None:
        with self.make() as store:
            store.set("a", b"0123456789")
            store.set("b/c", b"abc")
            found = store.get_many([("a", None), ("no", None), ("b/c", (1, 1)), ("a", (-2, None)), ("a", None)])
            assert found == [b"0123456789", None, b"b", b"89", b"0123456789"]
            assert store.get_many([]) == []

    def test_listings(self) -> None:
        keys = ["a", "ab/x", "b/c", "b/d/e", "b/d/f", "b.c", "zarr.json", "b/c.d/e"]
        with self.make() as store:
            assert [*store.list()] == []
            assert store.list_dir("") == ([], [])
            for key in keys:
                store.set(key, b"1")
            assert sorted(store.list()) == sorted(keys)
            assert sorted(store.list_prefix("")) == sorted(keys)
            assert sorted(store.list_prefix("b/")) == ["b/c", "b/c.d/e", "b/d/e", "b/d/f"]
            assert sorted(store.list_prefix("b/d/")) == ["b/d/e", "b/d/f"]
            assert [*store.list_prefix("a/")] == []
            assert [*store.list_prefix("no/such/")] == []
            assert store.list_dir("") == (["a", "b.c", "zarr.json"], ["ab/", "b/"])
            assert store.list_dir("b/") == (["b/c"], ["b/c.d/", "b/d/"])
            assert store.list_dir("b/d/") == (["b/d/e", "b/d/f"], [])
            assert store.list_dir("no/") == ([], [])
            assert store.list_dir("a/") == ([], [])

    def test_a_listing_may_be_interleaved_with_changes(self) -> None:
        with self.make() as store:
            keys = {f"c/{i}/{j}" for i in range(5) for j in range(5)}
            for key in keys:
                store.set(key, b"1")
            for key in store.list_prefix("c/"):
                assert key in keys
                store.delete(key)
                store.set("d/" + key, b"2")
            assert [*store.list_prefix("c/")] == []
            assert len([*store.list_prefix("d/")]) == 25

    def test_deleting_a_key(self) -> None:
        with self.make() as store:
            for key in ["a/b/c", "a/b/d", "ab"]:
                store.set(key, b"1")
            store.delete("a/b/c")
            store.delete("a/b/c")
            assert store.get("a/b/c") is None
            assert sorted(store.list()) == ["a/b/d", "ab"]
            store.delete("a/b/d")
            assert store.list_dir("") == (["ab"], [])
            store.set("a/b/c", b"2")
            assert store.get("a/b/c") == b"2"

    def test_deleting_a_prefix_is_no_way_to_delete_a_key(self) -> None:
        with self.make() as store:
            store.set("a/b/c", b"1")
            store.delete("a/b")
            store.delete("a")
            assert store.get("a/b/c") == b"1"

    def test_deleting_below_a_prefix(self) -> None:
        with self.make() as store:
            for key in ["a/b/c", "a/b/d/e", "a/bb", "ab/x", "abc"]:
                store.set(key, b"1")
            store.delete_prefix("a/b/")
            assert sorted(store.list()) == ["a/bb", "ab/x", "abc"]
            store.delete_prefix("a/bb/")
            store.delete_prefix("no/such/")
            assert sorted(store.list()) == ["a/bb", "ab/x", "abc"]
            store.delete_prefix("")
            assert [*store.list()] == []
            store.set("a/b/c", b"2")
            assert [*store.list()] == ["a/b/c"]

    def test_moving_a_prefix_is_done_in_whole_or_not_at_all(self) -> None:
        with self.make() as store:
            for key in ["a/b/c", "a/d", "ab", "x/y"]:
                store.set(key, b"1")
            moved = store.move_prefix("a/", store, "new/a/")
            names = ["new/a/b/c", "new/a/d"] if moved else ["a/b/c", "a/d"]
            assert sorted(store.list()) == sorted([*names, "ab", "x/y"])
            with suppress(AlreadyExistsError):
                assert not store.move_prefix("new/a/" if moved else "a/", store, "x/")
            assert sorted(store.list()) == sorted([*names, "ab", "x/y"])

    def test_a_key_below_a_key_is_stored_or_refused_whole(self) -> None:
        for first, second in [("a", "a/b/c"), ("a/b/c", "a")]:
            with self.make() as store:
                store.set(first, b"1")
                try:
                    store.set(second, b"2")
                except StoreError:
                    assert [*store.list()] == [first]
                else:
                    assert store.get(second) == b"2"
                assert store.get(first) == b"1"

    def test_unicode_keys_stay_apart(self) -> None:
        composed, decomposed = (unicodedata.normalize(form, "Zürich/é") for form in ("NFC", "NFD"))
        with self.make() as store:
            store.set("日本/\N{GRINNING FACE}", b"0")
            store.set(composed, b"1")
            try:
                store.set(decomposed, b"2")
            except StoreError:  # a file system that knows no difference
                assert store.get(composed) == b"1"
            else:
                assert store.get(composed) == b"1"
                assert store.get(decomposed) == b"2"
                assert sorted(store.list()) == sorted([composed, decomposed, "日本/\N{GRINNING FACE}"])

    def test_cases_stay_apart(self) -> None:
        with self.make() as store:
            store.set("foo/a", b"1")
            try:
                store.set("FOO/a", b"2")
            except StoreError:  # a file system that knows no difference
                assert store.get("FOO/a") is None
            else:
                assert store.get("FOO/a") == b"2"
            assert store.get("foo/a") == b"1"

    def test_a_generation_tells_each_state_from_the_last(self) -> None:
        with self.make() as store:
            seen = [store.set("a", b"%d" % i) for i in range(50)]
            assert len(set(seen)) == 50
            assert store.get("a", with_generation=True) == (b"49", seen[-1])
            assert store.get("a", (0, 1), with_generation=True) == (b"4", seen[-1])
            store.set("b", b"other")
            assert store.get("a", with_generation=True)[1] == seen[-1]
            store.delete("a")
            assert store.get("a", with_generation=True) == (None, ABSENT)

    def test_setting_the_same_value_again_is_noticed(self) -> None:
        """Unless others can be made to wait."""
        with self.make() as store:
            old = store.set("a/b", b"1")
            with store.turn("a/b") as alone:
                pass
            new = store.set("a/b", b"1")
            assert alone or new != old
            assert alone or store.get("a/b", with_generation=True)[1] == new

    def test_conditional_set(self) -> None:
        with self.make() as store:
            first = store.set("a/b", b"1", if_generation=ABSENT)
            with _raises(ConflictError, "a/b"):
                store.set("a/b", b"x", if_generation=ABSENT)
            second = store.set("a/b", b"2", if_generation=first)
            with _raises(ConflictError, "a/b"):
                store.set("a/b", b"x", if_generation=first)
            assert store.get("a/b", with_generation=True) == (b"2", second)
            store.delete("a/b")
            with _raises(ConflictError, "a/b"):
                store.set("a/b", b"x", if_generation=second)
            assert [*store.list()] == []

    def test_conditional_delete(self) -> None:
        with self.make() as store:
            store.delete("a/b", if_generation=ABSENT)
            first = store.set("a/b", b"1")
            second = store.set("a/b", b"2")
            for wrong in [first, ABSENT]:
                with _raises(ConflictError, "a/b"):
                    store.delete("a/b", if_generation=wrong)
            assert store.get("a/b") == b"2"
            store.delete("a/b", if_generation=second)
            assert store.get("a/b") is None
            with _raises(ConflictError, "a/b"):
                store.delete("a/b", if_generation=second)

    def test_of_several_threads_one_creates_a_key(self) -> None:
        with self.make() as store:
            for attempt in range(10):
                won: list[int] = []
                key = f"c/{attempt}"

                _run_together([partial(_create, store, key, number, won) for number in range(6)])
                assert len(won) == 1
                assert store.get(key) == b"%d" % won[0]

    def test_no_update_of_several_threads_is_lost(self) -> None:
        with self.make() as store:
            store.set("n", b"0")

            def count() -> None:
                for _ in range(25):
                    while True:
                        value, generation = store.get("n", with_generation=True)
                        with suppress(ConflictError):
                            store.set("n", b"%d" % (int(value or b"0") + 1), if_generation=generation)
                            break

            _run_together([count] * 4)
            assert store.get("n") == b"100"

    def test_readers_never_see_half_a_value(self) -> None:
        values = [bytes([number]) * size for number, size in [(1, 10), (2, 200_000), (3, 70_000)]]
        with self.make() as store:
            store.set("a", values[0])
            done = threading.Event()

            def write() -> None:
                try:
                    for turn in range(60):
                        store.set("a", values[turn % 3])
                finally:
                    done.set()

            def read() -> None:
                while not done.is_set():
                    assert store.get("a") in values
                    tail = store.get("a", (-10, None))
                    assert tail is not None
                    assert len(set(tail)) == 1

            _run_together([write, read, read])

    def test_keys_come_and_go_beside_each_other(self) -> None:
        """Directories that fall empty, say, must not vanish from under a writer."""
        with self.make() as store:

            def come_and_go(name: str) -> None:
                for turn in range(30):
                    store.set(f"a/b/{name}", b"%d" % turn)
                    assert store.get(f"a/b/{name}") == b"%d" % turn
                    store.delete(f"a/b/{name}")

            _run_together([partial(come_and_go, name) for name in "xyz"])
            assert [*store.list()] == []

    def test_flushing_completes_and_changes_nothing(self) -> None:
        with self.make() as store:
            store.flush()
            generation = store.set("a/b", b"1")
            store.flush()
            store.flush()
            assert store.get("a/b", with_generation=True) == (b"1", generation)
            reader = self.reopen_read_only(store)
            if reader is not None:
                reader.flush()
                assert reader.get("a/b") == b"1"
            store.set("a/b", b"2", if_generation=generation)
            assert store.get("a/b") == b"2"

    def test_a_pickled_store_has_the_same_values(self) -> None:
        if not self.picklable:
            return
        with self.make() as store:
            store.set("a/b", b"1")
            store.set("c", b"2")
            with pickle.loads(pickle.dumps(store)) as copy:
                assert type(copy) is type(store)
                assert sorted(copy.list()) == ["a/b", "c"]
                assert copy.get("a/b") == b"1"

    def test_a_read_only_store_refuses_to_change(self) -> None:
        with self.make() as store:
            store.set("a/b", b"1")
            assert store.read_only is False
            reader = self.reopen_read_only(store)
            if reader is None:
                return
            with reader:
                assert reader.read_only is True
                assert reader.get("a/b") == b"1"
                assert [*reader.list()] == ["a/b"]
                changes: list[Callable[[], object]] = [
                    lambda: reader.set("a/b", b"2"),
                    lambda: reader.set("new", b"2"),
                    lambda: reader.delete("a/b"),
                    lambda: reader.delete_prefix("a/"),
                    lambda: reader.delete_prefix(""),
                ]
                for change in changes:
                    with _raises(ReadOnlyError):
                        change()
                assert reader.get("a/b") == b"1"
                assert reader.get("new") is None

    def test_a_store_says_what_it_is(self) -> None:
        with self.make() as store:
            assert "://" in store.url
            assert repr(store).startswith(type(store).__name__)


def check_store(make: Callable[[], Store]) -> None:
    """Run the conformance suite, but for its read-only test, without pytest.

    Parameters
    ----------
    make : callable
        Returns a new, empty, writable store at each call.

    Raises
    ------
    AssertionError
        If the store does something else than `Store` promises.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> check_store(MemoryStore)
    """
    suite = type("Suite", (StoreConformance,), {"make": staticmethod(make)})()
    for name in dir(suite):
        if name.startswith("test_"):
            getattr(suite, name)()


@contextmanager
def _raises(kind: type[TegulaError], key: str | None = None) -> Iterator[None]:
    found = None
    try:
        yield
    except kind as error:
        found = error
    assert found is not None, f"no {kind.__name__} was raised"
    assert key is None or found.key == key, f"the error names the key {found.key!r}, not {key!r}"


def _create(store: Store, key: str, number: int, won: list[int]) -> None:
    with suppress(ConflictError):
        store.set(key, b"%d" % number, if_generation=ABSENT)
        won.append(number)


def _run_together(actions: Sequence[Callable[[], object]]) -> None:
    """Run each action in a thread of its own, all at the same time, and raise the first error of any."""
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> None:
        barrier.wait(60)
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        for future in [pool.submit(run, action) for action in actions]:
            future.result()
