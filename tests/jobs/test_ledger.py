"""Ledgers of a job that is removed by force and begun anew while a process still works on it."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from tegula.errors import AlreadyExistsError
from tegula.jobs.ledger import Ledger
from tegula.jobs.managing import discard
from tegula.jobs.plans import Piece, Plan
from tegula.metadata.chunk_grids import regular_grid
from tegula.stores import MemoryStore


def a_plan() -> Plan:
    plan = Plan("convert", {}, "a", "b")
    plan.add(Piece("x", (8,), regular_grid((1,))))
    return plan


@pytest.fixture
def replaced() -> tuple[Ledger, Ledger]:
    """The ledger of the process whose job was removed, and that of the process which has begun it anew."""
    store = MemoryStore()
    old, new = Ledger(store, "x"), Ledger(store, "x")
    assert old.begin(a_plan(), resume=True)
    discard(store, "x", force=True)
    assert new.begin(a_plan(), resume=True)
    return old, new


def test_the_new_owner_stays_when_the_old_process_ends(replaced: tuple[Ledger, Ledger]) -> None:
    old, new = replaced
    old.release()
    assert [*new.owners()] == ["1of1"]
    with pytest.raises(AlreadyExistsError, match="another job works on it"):
        Ledger(new.store, "x").begin(a_plan(), resume=True)
    assert new.is_kept
    assert not old.is_kept


def test_the_new_owner_stays_when_the_old_process_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.jobs.owners._RENEWED", 0.01)
    store = MemoryStore()
    old, new = Ledger(store, "x"), Ledger(store, "x")
    old.begin(a_plan(), resume=True)
    discard(store, "x", force=True)
    new.begin(a_plan(), resume=True)
    time.sleep(0.2)
    assert new.owners()["1of1"].facts["claim"] == new._claim.name
    old.release()
    new.release()


@pytest.mark.parametrize("is_worker", [False, True], ids=["driver", "worker"])
def test_a_unit_that_the_old_process_records_is_not_done_in_the_new_job(
    replaced: tuple[Ledger, Ledger], is_worker: bool
) -> None:
    old, new = replaced
    if is_worker:  # in another process, which gets the ledger by pickling
        made, arguments, state = old.__reduce__()
        old = made(*arguments)
        old.__dict__.update(pickle.loads(pickle.dumps(state)))
    old.record(5, {"read": 1})
    new.read()
    assert 5 not in new
    assert new.recorded(5) is None
    new.record(5, {"read": 2})
    again = Ledger(new.store, "x")
    again.job = new.job
    again.read()
    assert 5 in again
    assert again.sum_of(Piece("a", (8,), regular_grid((1,))))["read"] == 2


def test_joined_plan_stays_when_its_first_process_is_refused() -> None:
    store = MemoryStore()
    second = Ledger(store, "x")

    class Joined(Ledger):
        calls = 0

        def _refuse_others(self, where: str) -> None:
            self.calls += 1
            if self.calls == 2:  # the plan is stored
                assert second.begin(a_plan(), resume=True)
            super()._refuse_others(where)

    first = Joined(store, "x")
    with pytest.raises(AlreadyExistsError, match="another job works on it"):
        first.begin(a_plan(), resume=True)
    assert second.is_kept


@pytest.mark.parametrize("key", ["plan.json", "done"])
def test_removing_a_ledger_leaves_one_begun_meanwhile(key: str) -> None:
    class Meanwhile(MemoryStore):
        other: Any = None

        def list_prefix(self, prefix: str) -> Any:
            found = [*super().list_prefix(prefix)]
            other, self.other = self.other, None
            if other is not None:
                other()
            return iter(found)

    store = Meanwhile()
    old, new = Ledger(store, "x"), Ledger(store, "x")
    old.begin(a_plan(), resume=True)

    def begin_anew() -> None:
        discard(store, "x", force=True)
        new.begin(a_plan(), resume=True)
        if key == "done":
            store.set("x/.tegula_job/done", b"{ }")

    store.other = begin_anew
    old.finish()
    assert new.is_kept
    assert new.is_done is (key == "done")
