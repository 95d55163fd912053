"""Conformance tests of capabilities: a store that declares one must pass its tests, others skip them."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import SkipTest

from tegula.errors import AlreadyExistsError, ConflictError, NotFoundError, ReadOnlyError, StoreError
from tegula.stores import ABSENT
from tegula.stores.capabilities import (
    Anchoring,
    BlockedKeys,
    Copying,
    EmptyDirectories,
    Locking,
    Ranged,
    Reclaiming,
    Renaming,
    Revalidating,
    StateListing,
    UnreachableNames,
    unchanged,
)
from tegula.testing.suite import BAD_KEYS, BAD_PREFIXES, Suite, raises, run_together

__all__ = ["CapabilityTests"]


class CapabilityTests(Suite):
    """Tests of capabilities."""

    def test_a_lock_is_held_by_one_thread_at_a_time(self) -> None:
        with self.store(Locking) as store:
            store.set("a/b", b"1")
            with store.lock("a/b") as held:
                pass
            if not held:
                raise SkipTest("the storage has no locks")
            inside: list[int] = []
            most: list[int] = []

            def enter() -> None:
                for _ in range(10):
                    with store.lock("a/b") as held:
                        assert held
                        inside.append(1)
                        time.sleep(0.0005)
                        most.append(len(inside))
                        inside.pop()

            run_together([enter] * 3)
            assert set(most) == {1}

    def test_listed_states_are_those_of_generations_and_change_with_values(self) -> None:
        with self.store(StateListing) as store:
            generations = {key: store.set(key, value) for key, value in (("a/b", b"1"), ("a/c/d", b"22"), ("e", b""))}
            listed = {key: (nbytes, state) for key, nbytes, state in store.list_states("a/")}
            assert {key: nbytes for key, (nbytes, _) in listed.items()} == {"a/b": 1, "a/c/d": 2}
            assert all(state in (0, store.state_of(generations[key])) for key, (_, state) in listed.items())
            store.set("a/b", b"2")
            now = {key: state for key, _, state in store.list_states("a/")}
            assert now["a/c/d"] == listed["a/c/d"][1]
            assert not now["a/b"] or now["a/b"] != listed["a/b"][1]
            assert store.state_of(store.get("a/b", with_generation=True)[1]) == now["a/b"]

    def test_a_copied_value_is_that_of_the_other_key(self) -> None:
        with self.store(Copying) as store:
            assert store.copies_from(store)
            for value in (b"", b"1", bytes(range(256)) * 5000):
                store.set("a/b", value)
                assert store.copy_from(store, "a/b", "c/d/e") == len(value)
                assert store.get("c/d/e") == value
                assert store.copy_from(store, "a/b", "a/c", nbytes=len(value)) == len(value)
                assert store.get("a/c") == store.get("a/b") == value
            assert store.copy_from(store, "a/d", "c/d/e") is None
            assert store.copy_from(store, "a/d", "x/y") is None
            assert sorted(store.list()) == ["a/b", "a/c", "c/d/e"]
            for bad in BAD_KEYS:
                with raises(StoreError):
                    store.copy_from(store, bad, "c")
                with raises(StoreError):
                    store.copy_from(store, "a/b", bad)
            assert sorted(store.list()) == ["a/b", "a/c", "c/d/e"]

    def test_a_copy_that_must_not_replace_anything_does_not(self) -> None:
        with self.store(Copying) as store:
            if not store.copies_from(store, create=True):
                raise SkipTest("the storage does not copy on condition")
            store.set("a/b", b"1")
            assert store.copy_from(store, "a/b", "c", create=True)
            kept = store.set("d", b"2")
            with raises(ConflictError, "d"):
                store.copy_from(store, "a/b", "d", create=True)
            assert store.get("d", with_generation=True) == (b"2", kept)
            assert store.get("c") == b"1"
            done: list[int] = []

            def copy() -> None:
                with suppress(ConflictError):
                    store.copy_from(store, "a/b", "e", create=True)
                    done.append(1)

            run_together([copy] * 6)
            assert done == [1]
            assert store.get("e") == b"1"

    def test_a_read_only_store_takes_no_copies(self) -> None:
        with self.store(Copying) as store:
            store.set("a", b"1")
            reader: Any = self.reopen_read_only(store)
            if reader is None:
                raise SkipTest("there is no read-only store")
            with reader, raises(ReadOnlyError, "b"):
                reader.copy_from(store, "a", "b")
            assert [*store.list()] == ["a"]

    def test_a_lock_ends_with_its_context(self) -> None:
        with self.store(Locking) as store:
            store.set("a/b", b"1")
            with suppress(RuntimeError), store.lock("a/b"):
                raise RuntimeError
            for key in ["a/b", "no/such"]:
                with store.lock(key):
                    pass
                waiting = threading.Thread(target=partial(_take, store, key), daemon=True)
                waiting.start()
                waiting.join(60)
                assert not waiting.is_alive()
            for key in BAD_KEYS:
                with raises(StoreError), store.lock(key):
                    pass

    def test_ranges_of_a_value_belong_to_one_state(self) -> None:
        value = bytes(range(256)) * 40
        ranges = [(0, 5), (10_000, 1000), (-7, None), (3, 0), (20_000, 1), (5, 9_000), (7, None)]
        with self.store(Ranged) as store:
            old = store.set("a", value)
            expected = [store.get("a", each) for each in ranges]
            found, state = store.get_ranges("a", ranges)
            assert found == expected
            assert state == old or store.single_writer  # some tokens depend on the whole value
            for token in (old, state):
                assert store.get_ranges("a", ranges[:2], token)[0] == expected[:2]
                assert store.get_ranges("a", [(5, 0), (20_000, 3)], token)[0] == [b"", b""]
                assert store.get_ranges("a", [], token)[0] == []
                assert unchanged(store, "a", token)
            assert store.get_ranges("a", [], state)[1] == store.get_ranges("a", ranges)[1] == state
            assert store.get_ranges("b", ranges) == store.get_ranges("b", []) == (None, ABSENT)
            assert store.get_ranges("b", [(0, 1)], ABSENT) == (None, ABSENT)
            store.set("a", value[1:])
            assert store.get_ranges("a", [(0, 1)])[0] == [b"\x01"]
            for key, generation in [("a", old), ("a", state), ("b", old), ("b", state), ("a", ABSENT)]:
                for wanted in ([(0, 1), (9_000, 2)], [(4, 0)], []):
                    with raises(ConflictError, key):
                        store.get_ranges(key, wanted, generation)
                assert not unchanged(store, key, generation)
            for key in BAD_KEYS:
                with raises(StoreError):
                    store.get_ranges(key, [(0, 1)])
            with raises(StoreError):
                store.get_ranges("a", [(0, -1)])

    def test_a_value_is_read_again_only_if_it_has_changed(self) -> None:
        with self.store(Revalidating) as store:
            old = store.set("a", b"1")
            assert store.get_if_changed("a", old) is None
            assert store.get_if_changed("a", ABSENT) == (b"1", old)
            new = store.set("a", b"2")
            assert store.get_if_changed("a", old) == (b"2", new)
            store.delete("a")
            assert store.get_if_changed("a", new) == (None, ABSENT)
            assert store.get_if_changed("a", ABSENT) is None
            for key in BAD_KEYS:
                with raises(StoreError):
                    store.get_if_changed(key, new)

    def test_what_blocks_a_key_is_said(self) -> None:
        with self.store(BlockedKeys) as store:
            store.set("a/b", b"1")
            for key in ["a/b", "c", "c/d", "a/c"]:
                assert store.blocked_by(key) is None
            assert store.blocked_by("a") is None or "a" in store.blocked_by("a")
            for key in BAD_KEYS:
                with raises(StoreError):
                    store.blocked_by(key)
            assert {*store.blockers("")}.isdisjoint(["a/b", "a", "c"])
            for prefix in BAD_PREFIXES:
                with raises(StoreError):
                    [*store.blockers(prefix)]

    def test_an_empty_directory_is_there_and_not_listed(self) -> None:
        with self.store(EmptyDirectories) as store:
            store.make_prefix("a/b/")
            store.make_prefix("")
            assert all(store.has_prefix(prefix) for prefix in ["a/b/", "a/", ""])
            assert [*store.list()] == []
            assert store.list_dir("") == ([], [])
            store.set("a/b/c", b"1")
            store.make_prefix("a/b/")
            assert [*store.list()] == ["a/b/c"]
            for prefix in BAD_PREFIXES:
                for operation in (store.make_prefix, store.has_prefix):
                    with raises(StoreError):
                        operation(prefix)

    def test_values_of_a_document_that_is_gone_get_no_directory(self) -> None:
        with self.store(Anchoring) as store:
            store.set("a/document", b"1")
            anchored = store.anchored("a/document")
            anchored.set("a/c/0", b"2")
            assert store.get("a/c/0") == b"2"
            store.delete_prefix("a/")
            for key in ["a/c/0", "a/1"]:
                with raises(NotFoundError, key):
                    anchored.set(key, b"3")
            assert [*store.list()] == []
            store.set("a/c/0", b"4")
            assert store.get("a/c/0") == b"4"
            for key in BAD_KEYS:
                with raises(StoreError):
                    store.anchored(key)

    def test_a_prefix_is_moved_in_whole_or_not_at_all(self) -> None:
        with self.store(Renaming) as store:
            for key in ["a/b/c", "a/d", "ab", "x/y"]:
                store.set(key, b"1")
            moved = store.move_prefix("a/", store, "new/a/")
            names = ["new/a/b/c", "new/a/d"] if moved else ["a/b/c", "a/d"]
            assert sorted(store.list()) == sorted([*names, "ab", "x/y"])
            with suppress(AlreadyExistsError):
                assert not store.move_prefix("new/a/" if moved else "a/", store, "x/")
            assert sorted(store.list()) == sorted([*names, "ab", "x/y"])

    def test_a_store_in_good_order_has_no_leftovers(self) -> None:
        with self.store(Reclaiming) as store:
            store.set("a/b", b"1")
            assert [*store.leftovers()] == [*store.leftovers("a/")] == [*store.leftovers("no/")] == []
            assert store.reclaim() == store.reclaim("a/") == 0
            assert store.get("a/b") == b"1"
            for prefix in BAD_PREFIXES:
                with raises(StoreError):
                    [*store.leftovers(prefix)]
                with raises(StoreError):
                    store.reclaim(prefix)
            reader: Any = self.reopen_read_only(store)
            if reader is not None:
                with reader, raises(ReadOnlyError):
                    reader.reclaim()

    def test_a_value_is_sent_if_it_has_changed(self) -> None:
        with self.store(Revalidating) as store:
            assert store.get_if_changed("a/b", ABSENT) is None
            old = store.set("a/b", b"1")
            assert store.get_if_changed("a/b", old) is None
            assert store.get_if_changed("a/b", ABSENT) == (b"1", old)
            new = store.set("a/b", b"2")
            assert store.get_if_changed("a/b", old) == (b"2", new) == store.get("a/b", with_generation=True)
            store.delete("a/b")
            assert store.get_if_changed("a/b", new) == (None, ABSENT)
            for key in BAD_KEYS:
                with raises(StoreError):
                    store.get_if_changed(key, new)

    def test_every_name_of_a_new_store_can_be_reached(self) -> None:
        with self.store(UnreachableNames) as store:
            store.set("a/b", b"1")
            assert [*store.unreachable()] == [*store.unreachable("a/")] == []
            for prefix in BAD_PREFIXES:
                with raises(StoreError):
                    [*store.unreachable(prefix)]


def _take(store: Locking, key: str) -> None:
    with store.lock(key):
        pass
