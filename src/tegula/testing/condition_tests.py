"""Conformance tests of generations and conditions: no change is lost between threads, or between two open stores."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from unittest import SkipTest

from tegula.errors import ConflictError, UnsupportedError
from tegula.stores import ABSENT, Store
from tegula.testing.suite import Suite, raises, run_together

__all__ = ["ConditionTests"]


class ConditionTests(Suite):
    """Tests of generations and conditions."""

    def test_a_generation_tells_each_state_from_the_last(self) -> None:
        with self.store() as store:
            seen = [store.set("a", b"%d" % i) for i in range(50)]
            assert len(set(seen)) == 50
            assert store.get("a", with_generation=True) == (b"49", seen[-1])
            assert store.get("a", (0, 1), with_generation=True) == (b"4", seen[-1])
            store.set("b", b"other")
            assert store.get("a", with_generation=True)[1] == seen[-1]
            store.delete("a")
            assert store.get("a", with_generation=True) == (None, ABSENT)

    def test_setting_the_same_value_again_is_noticed(self) -> None:
        with self.store("fresh_generations") as store:
            old = store.set("a/b", b"1")
            new = store.set("a/b", b"1")
            assert new != old
            assert store.get("a/b", with_generation=True)[1] == new

    def test_conditional_set(self) -> None:
        with self.store() as store:
            first = store.set("a/b", b"1", if_generation=ABSENT)
            with raises(ConflictError, "a/b"):
                store.set("a/b", b"x", if_generation=ABSENT)
            second = store.set("a/b", b"2", if_generation=first)
            with raises(ConflictError, "a/b"):
                store.set("a/b", b"x", if_generation=first)
            assert store.get("a/b", with_generation=True) == (b"2", second)
            store.delete("a/b")
            with raises(ConflictError, "a/b"):
                store.set("a/b", b"x", if_generation=second)
            assert [*store.list()] == []

    def test_conditional_delete(self) -> None:
        with self.store("conditional_delete") as store:
            store.delete("a/b", if_generation=ABSENT)
            first = store.set("a/b", b"1")
            second = store.set("a/b", b"2")
            for wrong in [first, ABSENT]:
                with raises(ConflictError, "a/b"):
                    store.delete("a/b", if_generation=wrong)
            assert store.get("a/b") == b"2"
            store.delete("a/b", if_generation=second)
            assert store.get("a/b") is None
            with raises(ConflictError, "a/b"):
                store.delete("a/b", if_generation=second)

    def test_a_conditional_delete_that_can_not_be_had_is_refused(self) -> None:
        with self.store() as store:
            if store.conditional_delete:
                raise SkipTest("the store declares conditional_delete")
            generation = store.set("a/b", b"1")
            for condition in [generation, ABSENT]:
                with raises(UnsupportedError):
                    store.delete("a/b", if_generation=condition)
            assert store.get("a/b") == b"1"
            store.delete("a/b")
            assert not store.exists("a/b")

    def test_conditions_hold_between_two_open_stores(self) -> None:
        with self.store() as store:
            other = None if store.single_writer else self.reopen(store)
            if other is None:
                raise SkipTest("only one store may write at a time, or the suite can't open another one")
            with other:
                first = store.set("a/b", b"1", if_generation=ABSENT)
                assert other.get("a/b", with_generation=True) == (b"1", first)
                other.set("a/b", b"2", if_generation=first)
                with raises(ConflictError, "a/b"):
                    store.set("a/b", b"3", if_generation=first)
                run_together([partial(_count, each) for each in (store, other, store, other)])
                assert store.get("n") == other.get("n") == b"100"

    def test_of_several_threads_one_creates_a_key(self) -> None:
        with self.store() as store:
            for attempt in range(10):
                won: list[int] = []
                key = f"c/{attempt}"

                run_together([partial(_create, store, key, number, won) for number in range(6)])
                assert len(won) == 1
                assert store.get(key) == b"%d" % won[0]

    def test_no_update_of_several_threads_is_lost(self) -> None:
        with self.store() as store:
            run_together([partial(_count, store)] * 4)
            assert store.get("n") == b"100"


def _count(store: Store) -> None:
    """Add 25 to the number that is stored as ``n``, in as many steps."""
    for _ in range(25):
        while True:
            value, generation = store.get("n", with_generation=True)
            with suppress(ConflictError):
                store.set("n", b"%d" % (int(value or b"0") + 1), if_generation=generation)
                break


def _create(store: Store, key: str, number: int, won: list[int]) -> None:
    with suppress(ConflictError):
        store.set(key, b"%d" % number, if_generation=ABSENT)
        won.append(number)
