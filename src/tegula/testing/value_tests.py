"""Conformance tests of values and keys: what is set is read back, whole or in part, and nothing else is."""

from __future__ import annotations

import pickle
import threading
import unicodedata
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.errors import ReadOnlyError, StoreError
from tegula.stores import ABSENT
from tegula.stores.names import name_flaw
from tegula.testing.suite import BAD_KEYS, Suite, raises, run_together

__all__ = ["ValueTests"]

_NO_TEXT: list[Any] = [None, 1, b"a", ("a",)]
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


class ValueTests(Suite):
    """Tests of values and keys."""

    def test_a_value_comes_back(self) -> None:
        with self.store() as store:
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
                if store.local_directory is not None and name_flaw(key):  # on Windows
                    with raises(StoreError, key):
                        store.set(key, value)
                    continue
                store.set(key, value)
                found = store.get(key)
                assert found == value
                assert type(found) is bytes
                assert store.size(key) == len(value)
                assert store.exists(key)

    def test_a_missing_key_is_none(self) -> None:
        with self.store() as store:
            store.set("a", b"1")
            for key in ["b", "c/d", "aa", "A/x"]:
                assert store.get(key) is None
                assert store.get(key, (0, 1)) is None
                assert store.get(key, with_generation=True) == (None, ABSENT)
                assert store.size(key) is None
                assert not store.exists(key)
                store.delete(key)

    def test_an_empty_value_is_not_a_missing_one(self) -> None:
        with self.store() as store:
            store.set("a", b"")
            assert store.get("a") == b""
            assert store.get("a", (0, 5)) == b""
            assert store.get("a", (-5, None)) == b""
            assert store.size("a") == 0
            assert store.exists("a")
            assert [*store.list()] == ["a"]
            assert store.get("a", with_generation=True)[1] != ABSENT

    def test_a_shorter_value_leaves_no_tail(self) -> None:
        with self.store() as store:
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
        with self.store() as store:
            for value in values:
                store.set("a", value)
                assert store.get("a") == memoryview(value).tobytes()

    def test_the_buffer_of_the_caller_is_not_kept(self) -> None:
        with self.store() as store:
            value = bytearray(b"abc")
            store.set("a", value)
            value[:] = b"xyz"
            assert store.get("a") == b"abc"

    def test_other_values_are_refused(self) -> None:
        with self.store() as store:
            store.set("a", b"old")
            for value in [*_NO_BYTES, memoryview(b"abcdef")[::2], np.zeros((2, 3)).T]:
                for key in ["a", "new/key"]:
                    with raises(StoreError, key):
                        store.set(key, value)
            assert store.get("a") == b"old"
            assert [*store.list()] == ["a"]

    def test_bad_keys_are_refused(self) -> None:
        with self.store() as store:
            for key in [*BAD_KEYS, *_NO_TEXT]:
                for operation in (store.get, store.size, store.exists, store.delete):
                    with raises(StoreError):
                        operation(key)
                with raises(StoreError):
                    store.set(key, b"x")
            assert [*store.list()] == []

    def test_ranges(self) -> None:
        value = b"0123456789"
        with self.store() as store:
            store.set("a", value)
            for start, length in _RANGES:
                first = max(0, 10 + start) if start < 0 else start
                expected = value[first : None if length is None else first + length]
                assert store.get("a", (start, length)) == expected, (start, length)
            with raises(StoreError):
                store.get("a", (0, -1))

    def test_many_at_once(self) -> None:
        with self.store() as store:
            store.set("a", b"0123456789")
            store.set("b/c", b"abc")
            found = store.get_many([("a", None), ("no", None), ("b/c", (1, 1)), ("a", (-2, None)), ("a", None)])
            assert found == [b"0123456789", None, b"b", b"89", b"0123456789"]
            assert store.get_many([]) == []

    def test_a_key_below_a_key_is_stored_or_refused_whole(self) -> None:
        for first, second in [("a", "a/b/c"), ("a/b/c", "a")]:
            with self.store() as store:
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
        with self.store() as store:
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
        with self.store() as store:
            store.set("foo/a", b"1")
            try:
                store.set("FOO/a", b"2")
            except StoreError:  # a file system that knows no difference
                assert store.get("FOO/a") is None
            else:
                assert store.get("FOO/a") == b"2"
            assert store.get("foo/a") == b"1"

    def test_readers_never_see_half_a_value(self) -> None:
        values = [bytes([number]) * size for number, size in [(1, 10), (2, 200_000), (3, 70_000)]]
        with self.store() as store:
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

            run_together([write, read, read])

    def test_flushing_completes_and_changes_nothing(self) -> None:
        with self.store() as store:
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
        with self.store() as store:
            store.set("a/b", b"1")
            store.set("c", b"2")
            with pickle.loads(pickle.dumps(store)) as copy:
                assert type(copy) is type(store)
                assert sorted(copy.list()) == ["a/b", "c"]
                assert copy.get("a/b") == b"1"

    def test_a_read_only_store_refuses_to_change(self) -> None:
        with self.store() as store:
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
                    with raises(ReadOnlyError):
                        change()
                assert reader.get("a/b") == b"1"
                assert reader.get("new") is None

    def test_a_store_says_what_it_is(self) -> None:
        with self.store() as store:
            assert "://" in store.url
            assert repr(store).startswith(type(store).__name__)
