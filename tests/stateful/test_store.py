"""Stores behave as a dict with generations does, through any number of handles, and reopened any number of times."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tegula.errors import ConflictError, StoreError
from tegula.stores import ABSENT, MemoryStore
from tegula.stores.capabilities import lock
from tegula.testing import Crash

# keys below keys, names that sort between others, and names that a file system may interpret
KEYS = st.sampled_from(["a", "a/b", "a/b/c", "a.b", "a-", "b/x", "b/y", "b/é", "c/0/0", "c/0/1", ".zattrs"])
PREFIXES = st.sampled_from(["", "a/", "a/b/", "b/", "c/", "c/0/", "z/"])
VALUES = st.binary(max_size=12) | st.integers(0, 255).map(lambda byte: bytes([byte]) * 70_000)


class StoreMachine(RuleBasedStateMachine):
    """One place, two stores on it, and a dict of values with all earlier generations."""

    def __init__(self, new_place: Any) -> None:
        super().__init__()
        self.new_place = new_place
        self.place: Any = None

    @initialize(
        kind=st.sampled_from(
            ["memory", "local", "mapping", "zip", "faulty memory", "faulty local", "faulty mapping", "faulty zip"]
        )
    )
    def begin(self, kind: str) -> None:
        self.place = self.new_place(kind)
        self.model: dict[str, bytes] = {}
        self.seen: dict[str, list[Any]] = {}
        self.enter()

    def enter(self) -> None:
        """Open two stores on the place; generations are valid in one process."""
        self.stores = [self.place.store, self.place.other()]
        if self.place.kind == "zip":  # a commit of another process gives other generations
            self.seen = {}

    def teardown(self) -> None:
        if self.place is not None:
            self.place.leave()

    def draw_store(self, data: st.DataObject) -> Any:
        return data.draw(st.sampled_from(self.stores), label="store")

    def is_blocked(self, key: str) -> bool:
        """Whether a file stands where a directory would have to be, or the other way round."""
        return self.place.kind == "local" and any(
            known.startswith(f"{key}/") or key.startswith(f"{known}/") for known in self.model
        )

    def note(self, key: str, value: bytes | None, generation: Any) -> None:
        """Record a change, and check that its generation is new."""
        if value is None:
            self.model.pop(key, None)
            return
        old = self.seen.setdefault(key, [])
        if self.place.kind != "mapping":  # whose generations are digests
            assert generation not in old
        self.model[key] = value
        old.append(generation)

    @rule(data=st.data(), key=KEYS, value=VALUES)
    def set(self, data: st.DataObject, key: str, value: bytes) -> None:
        store = self.draw_store(data)
        if self.is_blocked(key):
            with pytest.raises(StoreError):
                store.set(key, value)
        else:
            self.note(key, value, store.set(key, value))

    @rule(data=st.data(), key=KEYS | st.just("b/x"), value=st.none() | VALUES)
    def change_conditionally(self, data: st.DataObject, key: str, value: bytes | None) -> None:
        store = self.draw_store(data)
        if self.is_blocked(key):
            return
        current = self.draw_store(data).get(key, with_generation=True)[1]
        assert (current == ABSENT) is (key not in self.model)
        expected = data.draw(st.sampled_from([current, ABSENT, *self.seen.get(key, [])[-2:]]))
        generation = None
        try:
            if value is None:
                store.delete(key, if_generation=expected)
            else:
                generation = store.set(key, value, if_generation=expected)
        except ConflictError as error:
            refused = error.key
        else:
            refused = None
            self.note(key, value, generation)
        assert refused == (None if expected == current else key)

    @rule(data=st.data(), key=KEYS)
    def delete(self, data: st.DataObject, key: str) -> None:
        if not self.is_blocked(key):
            self.draw_store(data).delete(key)
            self.model.pop(key, None)

    @rule(data=st.data(), prefix=PREFIXES)
    def delete_prefix(self, data: st.DataObject, prefix: str) -> None:
        self.draw_store(data).delete_prefix(prefix)
        self.model = {key: value for key, value in self.model.items() if not key.startswith(prefix)}

    @rule(data=st.data(), start=st.integers(-15, 15), length=st.none() | st.integers(0, 15))
    def read_ranges(self, data: st.DataObject, start: int, length: int | None) -> None:
        requests = [(key, (start, length)) for key in ["a.b", *sorted(self.model)]]
        expected: list[bytes | None] = []
        for key, _ in requests:
            value = self.model.get(key)
            first = start if start >= 0 else max(0, start + len(value or b""))
            expected.append(None if value is None else value[first : None if length is None else first + length])
        store = self.draw_store(data)
        assert store.get_many(requests) == expected
        for (key, byte_range), answer in zip(requests, expected):
            value, generation = store.get(key, byte_range, with_generation=True)
            assert (value, generation) == (answer, store.get(key, with_generation=True)[1])

    @rule(data=st.data(), prefix=PREFIXES)
    def list_children(self, data: st.DataObject, prefix: str) -> None:
        below = [key[len(prefix) :] for key in self.model if key.startswith(prefix)]
        keys = sorted(prefix + name for name in below if "/" not in name)
        prefixes = sorted({prefix + name.partition("/")[0] + "/" for name in below if "/" in name})
        store = self.draw_store(data)
        assert store.list_dir(prefix) == (keys, prefixes)
        holders = [child for child in prefixes if any(child + name in self.model for name in ("b", "1", "x"))]
        assert [*store.prefixes_with(prefix, ["b", "1", "x"])] == holders

    @rule(key=KEYS)
    def hold_the_lock(self, key: str) -> None:
        with lock(self.place.store, key):
            if not self.is_blocked(key):
                assert self.place.store.get(key) == self.model.get(key)

    @rule()
    def reopen(self) -> None:
        self.place.reopen()
        self.enter()

    @rule()
    def pickle(self) -> None:
        self.stores[1] = pickle.loads(pickle.dumps(self.place.below))
        if isinstance(self.stores[1], MemoryStore) or self.place.kind == "mapping":
            assert {key: self.stores[1].get(key) for key in self.stores[1].list()} == self.model
            self.stores[1] = self.place.other()  # a copy is another place
        elif self.place.kind == "zip":  # and this one only reads what is committed
            assert {key: self.stores[1].get(key) for key in self.stores[1].list()} == self.model
            self.stores[1] = self.place.other()

    @precondition(lambda self: self.place.faulty)
    @rule(data=st.data(), key=KEYS, value=VALUES, what=st.sampled_from(["set", "delete", "delete_prefix", "get"]))
    def meet_a_fault(self, data: st.DataObject, key: str, value: bytes, what: str) -> None:
        if self.is_blocked(key):
            return
        store, old = self.place.store, dict(self.model)
        below = f"{key.partition('/')[0]}/"
        acts: dict[str, Any] = {
            "set": lambda: store.set(key, value),
            "delete": lambda: store.delete(key),
            "delete_prefix": lambda: store.delete_prefix(below),
            "get": lambda: store.get(key),
        }
        outcome = self.place.meet(acts[what], data.draw(self.place.faults))
        if isinstance(outcome, Crash):
            self.enter()
        store = self.place.store
        # each key is old or new, and nothing else has changed
        new = {
            "set": {**old, key: value},
            "delete": {name: known for name, known in old.items() if name != key},
            "delete_prefix": {name: known for name, known in old.items() if not name.startswith(below)},
            "get": old,
        }[what]
        for name in {*old, *new}:
            found, generation = store.get(name, with_generation=True)
            assert found in ((old.get(name), new.get(name)) if outcome is not None else (new.get(name),))
            if found is not None and generation not in self.seen.setdefault(name, []):
                self.seen[name].append(generation)
        self.model = new
        if what == "set":
            self.note(key, value, store.set(key, value))
        else:
            getattr(store, what)(below if what == "delete_prefix" else key)

    @invariant()
    def every_store_holds_the_model(self) -> None:
        if self.place is None:
            return
        for store in self.stores:
            assert sorted(store.list()) == sorted(self.model)
            for key, value in self.model.items():
                assert store.get(key) == value
                assert store.size(key) == len(value)
                assert store.exists(key)
        generations = [{key: store.get(key, with_generation=True)[1] for key in self.model} for store in self.stores]
        assert generations[0] == generations[1]
        self.place.check_files()


def test_stores(new_place: Any, run_machine: Any) -> None:
    run_machine(lambda: StoreMachine(new_place), examples=250)
