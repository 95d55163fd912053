"""Processes that work on one job at once: each begins, joins, completes or removes it at any moment of another one."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any

import pytest
from tests.jobs.interrupting import a_source

import tegula
from tegula import MemoryStore
from tegula.jobs.ledger import COMPLETE, DIRECTORY, Ledger
from tegula.jobs.owners import Claim
from tegula.jobs.plans import Plan
from tegula.jobs.recording import Recording

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.usefixtures("small_units"), pytest.mark.slow]


class Watched(MemoryStore):
    """Calls a function before one of the accesses to it: what another process does at that moment."""

    left, watched = 10**9, DIRECTORY
    then: Any = None

    def _watch(self, key: str) -> None:
        if self.watched not in key:
            return
        self.left -= 1
        if self.left == 0 and self.then is not None:
            self.then()

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self._watch(key)
        return super().get(key, *args, **options)

    def set(self, key: str, *args: Any, **options: Any) -> Any:
        self._watch(key)
        return super().set(key, *args, **options)

    def exists(self, key: str) -> bool:
        self._watch(key)
        return super().exists(key)

    def list_prefix(self, prefix: str) -> Any:
        self._watch(f"{prefix}/{DIRECTORY}")
        return super().list_prefix(prefix)


@pytest.mark.parametrize("operation", ["convert", "copy", "downsample"])
def test_part_started_during_completion_sees_the_job_complete(operation: str) -> None:
    """The other part completes the job before each access to the ledger in turn."""
    # a job whose units are done, but whose last process was killed before it completed the target
    source = a_source()
    work: Any = getattr(tegula, operation)
    node = tegula.open(source)["a"] if operation == "downsample" else source
    options: dict[str, Any] = {"axes": "yx", "levels": 1} if operation == "downsample" else {}
    whole, killed = MemoryStore(), MemoryStore()
    work(node, whole, resume=True, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recording, "finish", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        while True:
            try:
                for number in (1, 2):
                    work(node, killed, part=(number, 2), **options)
            except KeyboardInterrupt:
                break
    dead = json.dumps({"host": socket.gethostname(), "pid": 2**22 + 1, "began": "1", "claim": "x", "seen": 1})
    root = next(key for key in killed.list_prefix("") if key.endswith("plan.json")).removesuffix("plan.json")
    killed.set(f"{root}owners/2of2", dead.encode())
    # the part starts again, and the other one is faster
    moments = 0
    while True:
        target = Watched()
        for key in killed.list_prefix(""):
            target.set(key, killed.get(key))
        moments += 1
        target.left, target.then = moments, lambda target=target: work(node, target, part=(1, 2), **options)
        source.reads = 0
        report = work(node, target, part=(2, 2), **options)
        assert report.units_left == 0
        assert source.reads == 0
        found = {key: target.get(key) for key in target.list_prefix("") if COMPLETE not in key}
        assert found == {key: whole.get(key) for key in whole.list_prefix("") if COMPLETE not in key}
        if target.left > 0:
            break
    assert moments > 10


@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize("operation", ["convert", "copy"])
def test_last_part_completes_the_target_in_any_order_of_ends(operation: str) -> None:
    source = a_source()
    work: Any = getattr(tegula, operation)
    whole = MemoryStore()
    work(source, whole)
    moments = 0
    while True:
        target = Watched()
        target.watched = ""
        moments += 1
        target.left, target.then = moments, lambda target=target: work(source, target, part=(1, 2))
        work(source, target, part=(2, 2))
        if target.left > 0:
            break
        found = {key: target.get(key) for key in target.list_prefix("") if COMPLETE not in key}
        assert found == {key: whole.get(key) for key in whole.list_prefix("")}
    assert moments > 10


@pytest.mark.parametrize("operation", ["convert", "copy", "downsample"])
@pytest.mark.parametrize("how", [{"part": (2, 2)}, {"resume": True}], ids=str)
def test_job_started_during_the_begin_of_the_same_job_joins_it(operation: str, how: dict[str, Any]) -> None:
    """The other process begins, and does a few units, before each access until there is an owner."""
    source = a_source()
    work: Any = getattr(tegula, operation)
    node = tegula.open(source)["a"] if operation == "downsample" else source
    options: dict[str, Any] = {"axes": "yx", "levels": 1} if operation == "downsample" else {}
    whole = MemoryStore()
    work(node, whole, **options)
    moments = 0
    while True:
        target = Watched()
        target.watched = ""

        def begin(target: Any = target) -> None:
            source.left = 3
            with pytest.raises(KeyboardInterrupt):
                work(node, target, **({"part": (1, 2)} if "part" in how else how), **options)
            source.left = 10**9

        def take(claim: Claim, job: float | None, where: str, target: Any = target, taken: Any = Claim.take) -> None:
            target.watched = "no more keys"
            taken(claim, job, where)

        moments += 1
        target.left, target.then = moments, begin
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Claim, "take", take)
            report = work(node, target, **how, **options)
        if target.left > 0:
            break
        if report.units_left:
            work(node, target, part=(1, 2), **options)
        found = {key: target.get(key) for key in target.list_prefix("") if COMPLETE not in key}
        assert found == {key: whole.get(key) for key in whole.list_prefix("")}
    assert moments > 10


@pytest.mark.sampled(one_in=24)
@pytest.mark.parametrize("operation", ["convert", "copy", "downsample"])
@pytest.mark.parametrize("how", [{"part": (1, 1)}, {"part": (2, 2)}, {"resume": True}, {"resume": False}], ids=str)
@pytest.mark.parametrize("begins_anew", [False, True])
def test_job_removed_while_under_way_does_not_complete_the_target(
    operation: str, how: dict[str, Any], begins_anew: bool
) -> None:
    """It is removed, and perhaps begun anew by a process that is killed, before each unit is recorded."""

    plans: list[Plan] = []

    def begin_noting(ledger: Ledger, plan: Plan, *given: Any, begin: Any = Ledger.begin, **more: Any) -> bool:
        plans.append(plan)
        return bool(begin(ledger, plan, *given, **more))

    class Noting(MemoryStore):
        left = 10**9
        then: Any = None

        def set(self, key: str, *args: Any, **options: Any) -> Any:
            self.left -= f"{DIRECTORY}/units/" in key
            then, self.then = (self.then, None) if not self.left else (None, self.then)
            if then is not None:
                then()
            return super().set(key, *args, **options)

    source = a_source()
    work: Any = getattr(tegula, operation)
    node = tegula.open(source)["a"] if operation == "downsample" else source
    options: dict[str, Any] = {"axes": "yx", "levels": 1} if operation == "downsample" else {}
    if operation == "copy" and how == {"resume": False}:
        return  # without a ledger
    whole = MemoryStore()
    work(node, whole, **options)
    contents = {key: whole.get(key) for key in whole.list_prefix("")}
    moments = 0
    while True:
        target: Any = Noting()

        def remove(target: Any = target) -> None:
            tegula.jobs.clean_job(target, force=True)
            if begins_anew:
                ledger = Ledger(target, "")
                ledger.begin(plans[-1], resume=True)
                ledger.release()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "begin", begin_noting)
            if how.get("part") == (2, 2):
                work(node, target, part=(1, 2), **options)
            moments += 1
            target.left, target.then = moments, remove
            with suppress(tegula.NotFoundError):
                work(node, target, **how, **options)
                assert target.left > 0
        if target.left > 0:
            break
        assert not [key for key in target.list_prefix("") if COMPLETE in key]
        left = [key.rpartition(f"{DIRECTORY}/")[2] for key in target.list_prefix("") if DIRECTORY in key]
        assert not [key for key in left if key.startswith("arrays/")]  # the new job does the rest of each array
        assert begins_anew or operation == "downsample" or not left
    assert moments > 2
    assert {key: target.get(key) for key in target.list_prefix("") if COMPLETE not in key} == contents
