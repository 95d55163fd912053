"""Cached reads against a NumPy model, while this process and others write, resize, delete and open arrays."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from remote_stores import RemoteStore, RevalidatingStore
from tests.effort import examples

import tegula
from tegula import config
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.stores import MemoryStore

pytestmark = pytest.mark.slow

BUDGET = 6000
LAYOUTS: list[dict[str, Any]] = [
    {"chunks": (3, 4), "format": "zarr3"},
    {"chunks": (3, 4), "format": "zarr2"},
    {"chunks": (3, 2), "shards": (6, 4), "format": "zarr3"},
    {"chunks": (4, 11), "format": "bcolz"},
]
VALUES = st.integers(-3, 3)
SETTINGS = settings(max_examples=examples(25), stateful_step_count=15)


class CachedReads(RuleBasedStateMachine):
    """`versions` are the successive contents of the array; a reader may see none older than the rule allows.

    A store with the same values and another identity stands for another process: no cache learns of its writes.
    """

    recheck: str | float = "open"

    @initialize(layout=st.sampled_from(LAYOUTS), kind=st.sampled_from([RemoteStore, RevalidatingStore, MemoryStore]))
    def create(self, layout: dict[str, Any], kind: type[MemoryStore]) -> None:
        self.settings = config.configure(cache_bytes=BUDGET, recheck=self.recheck)
        self.settings.__enter__()
        self.store = kind()
        self.others = Elsewhere(self.store)
        self.layout = layout
        tegula.create_array(self.store, shape=(10, 11), dtype="i2", fill_value=2, **layout)
        self.model = np.full((10, 11), 2, "i2")
        self.readers = [tegula.open_array(self.store, mode="r+")]
        self.stale = False  # whether another process has written values that readers may not have seen

    def selection(self, data: Any, shape: tuple[int, ...]) -> Any:
        parts = []
        for size in shape:
            start = data.draw(st.integers(0, size))
            parts.append(slice(start, data.draw(st.integers(start, size))))
        return tuple(parts)

    @rule(data=st.data(), value=VALUES)
    def write(self, data: Any, value: int) -> None:
        writer = data.draw(st.sampled_from(self.readers))
        writer.refresh()
        where = self.selection(data, self.model.shape)
        writer[where] = value
        self.model[where] = value

    @rule(data=st.data(), value=VALUES)
    def write_elsewhere(self, data: Any, value: int) -> None:
        where = self.selection(data, self.model.shape)
        tegula.open_array(self.others, mode="r+")[where] = value
        self.model[where] = value
        self.stale = True

    @rule(rows=st.integers(1, 14))
    def resize(self, rows: int) -> None:
        writer = self.readers[-1]
        writer.refresh()
        old = self.model
        writer.resize(rows, 11)
        self.model = np.full((rows, 11), 2, "i2")
        self.model[: len(old)] = old[:rows]

    @rule(rows=st.integers(1, 5), value=VALUES)
    def append(self, rows: int, value: int) -> None:
        writer = self.readers[0]
        writer.refresh()
        added = np.full((rows, 11), value, "i2")
        writer.append(added)
        self.model = np.concatenate([self.model, added])

    @rule()
    def overwrite(self) -> None:
        tegula.create_array(self.store, shape=(6, 11), dtype="i2", fill_value=2, overwrite=True, **self.layout)
        self.model = np.full((6, 11), 2, "i2")
        self.readers = [tegula.open_array(self.store, mode="r+")]
        self.stale = False

    @rule()
    def open(self) -> None:
        self.readers = [*self.readers[-2:], tegula.open_array(self.store, mode="r+")]

    @rule(data=st.data())
    def read_anew(self, data: Any) -> None:
        """An array opened now shows every write, unless the rule is never to compare."""
        array = tegula.open_array(self.store, mode="r")
        if self.recheck == "never" and self.stale:
            return
        where = self.selection(data, self.model.shape)
        assert np.array_equal(array[where], self.model[where])

    @precondition(lambda self: not self.stale or self.recheck == "always")
    @rule(data=st.data())
    def read(self, data: Any) -> None:
        array = data.draw(st.sampled_from(self.readers))
        array.refresh()
        where = self.selection(data, self.model.shape)
        assert np.array_equal(array[where], self.model[where])

    @rule(data=st.data())
    def read_as_it_comes(self, data: Any) -> None:
        """Fill the cache, also while it may hold old values."""
        self.readers[0].refresh() if self.layout["format"] == "bcolz" else None
        array = self.readers[0]
        try:
            array[self.selection(data, array.shape)]
        except tegula.SelectionError as error:
            if not error.is_stale:  # others have made it smaller
                raise

    @invariant()
    def the_budget_holds(self) -> None:
        assert CHUNKS.nbytes <= BUDGET
        sizes = sum(CHUNKS._entries.values())
        assert sizes == CHUNKS.nbytes

    def teardown(self) -> None:
        if hasattr(self, "settings"):
            self.settings.__exit__(None, None, None)


class Elsewhere(MemoryStore):
    """The storage of another store, without its identity."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._values, self._lock = store._values, store._lock
        self._of = store

    def _listed(self) -> Any:
        self._of._tree = self._tree = None
        return super()._listed()

    def set(self, *args: Any, **options: Any) -> Any:
        self._of._tree = self._tree = None
        return super().set(*args, **options)

    def delete(self, *args: Any, **options: Any) -> None:
        self._of._tree = self._tree = None
        super().delete(*args, **options)


@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("rule", ["open", "always", "never", 0])
def test_cached_reads_follow_the_model(rule: str | float) -> None:
    machine = type("Machine", (CachedReads,), {"recheck": rule})
    run_state_machine_as_test(machine, settings=SETTINGS)


def test_the_machine_finds_a_cache_that_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(CHUNKS), "_forget", lambda *_: None)
    machine = type("Machine", (CachedReads,), {"recheck": "never"})
    quick = settings(
        SETTINGS,
        max_examples=2000,
        phases=[Phase.generate],
        derandomize=False,
        report_multiple_bugs=False,
        database=None,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=quick)
