"""Ledgers after a power loss or a kill: records that are empty or cut, a lost plan, and a job that is all but done."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import CHANGES, Fault, armed
from tests.effort import NIGHTLY
from tests.jobs.interrupting import a_source, contents

import tegula
from tegula import MemoryStore
from tegula.jobs.ledger import COMPLETE, DIRECTORY
from tegula.testing import Crash

pytestmark = pytest.mark.usefixtures("small_units")

OPERATIONS: dict[str, Any] = {
    "convert": partial(tegula.convert, codecs="zstd"),
    "copy": tegula.copy,
    "downsample": lambda source, target, **how: tegula.downsample(
        tegula.open(source)["a"], target, axes="yx", levels=1, **how
    ),
}


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("how", [{"resume": True}, {"resume": True, "overwrite": True}], ids=str)
@pytest.mark.parametrize("left", [7, 11])
def test_each_file_of_a_ledger_may_be_cut_at_any_length(
    operation: str, how: dict[str, Any], left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tegula.jobs.runners.runner.RUN", 3)
    monkeypatch.setattr("tegula.jobs.ledger.RUN", 3)
    source, whole, killed, work = a_source(), MemoryStore(), MemoryStore(), OPERATIONS[operation]
    work(source, whole)
    source.left = left
    with pytest.raises(KeyboardInterrupt):
        work(source, killed, resume=True)
    source.left = 10**9
    records = [key for key in killed.list() if DIRECTORY in key]
    assert any("/runs/" in key or "/arrays/" in key for key in records)
    for key in records:
        raw = killed.get(key) or b""
        for length in sorted({*range(min(8, len(raw))), *range(0, len(raw), max(1, len(raw) // 6)), len(raw) - 1}):
            target = MemoryStore({one: killed.get(one) or b"" for one in killed.list()})
            target.set(key, raw[:length])
            work(source, target, **how)
            found = {one: value for one, value in contents(target).items() if COMPLETE not in one}
            assert found == contents(whole), (key, length)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_any_name_of_its_job_a_lost_plan_is_only_overwritten(operation: str) -> None:
    source, whole, target, work = a_source(), MemoryStore(), MemoryStore(), OPERATIONS[operation]
    work(source, whole)
    source.left = 3
    with pytest.raises(KeyboardInterrupt):
        work(source, target, resume=True)
    source.left = 10**9
    for key in [key for key in target.list() if key.endswith("plan.json") or f"{DIRECTORY}/of/" in key]:
        target.set(key, b"") if key.endswith("plan.json") else target.delete(key)
    assert "can't be read" in str(tegula.jobs.show_job(target))
    with pytest.raises(tegula.MetadataError, match="plan can't be read"):
        work(source, target, resume=True)
    with pytest.raises(tegula.AlreadyExistsError):
        work(source, target)
    work(source, target, resume=True, overwrite=True)
    assert {key: value for key, value in contents(target).items() if COMPLETE not in key} == contents(whole)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_resume_recognises_a_command_completed_without_it(operation: str) -> None:
    source, target, work = a_source(), MemoryStore(), OPERATIONS[operation]
    work(source, target, resume=False)
    before, source.reads = contents(target), 0
    report = work(source, target, resume=True)
    assert source.reads == 0
    assert operation != "convert" or report.notes[""] == ["the target was complete already"]
    assert contents(target) == before


def test_a_copy_that_lacks_a_chunk_is_not_found_complete() -> None:
    source, target = a_source(), MemoryStore()
    tegula.copy(source, target)
    target.delete("a/c/0/0")
    with pytest.raises(tegula.AlreadyExistsError):
        tegula.copy(source, target, resume=True)


class Dying(MemoryStore):
    """Dies before a change of a value, and makes none after it."""

    left = 10**9

    def _die(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash("killed")

    def set(self, *args: Any, **options: Any) -> Any:
        self._die()
        return super().set(*args, **options)

    def delete(self, *args: Any, **options: Any) -> None:
        self._die()
        super().delete(*args, **options)


@pytest.mark.slow
@pytest.mark.sampled(one_in=22)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("resumed", [True, False])
def test_nothing_is_left_of_a_job_that_was_killed_while_it_completed(operation: str, resumed: bool) -> None:
    """It is killed before each change of the store from its last unit on; the same command cleans up."""
    source, whole, work = a_source(), MemoryStore(), OPERATIONS[operation]
    if operation == "copy" and not resumed:
        return  # without a ledger
    work(source, whole, resume=resumed)
    moments, changes = 0, 10**9
    while True:
        target = Dying()
        target.left = moments
        try:
            work(source, target, resume=resumed)
            break
        except Crash:
            pass
        moments += 1
        target.left = changes
        work(source, target, resume=True)
        assert contents(target) == contents(whole), moments
        if resumed:
            continue
        with pytest.raises(tegula.AlreadyExistsError):
            work(source, target, resume=False)
        assert contents(target) == contents(whole)
    assert moments > 20


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the calls are told apart by /proc")
@pytest.mark.parametrize("again", [{"resume": True}, {"resume": False}, {}], ids=str)
def test_no_directory_is_left_of_a_job_that_was_killed_while_it_completed(
    tmp_path: Path, again: dict[str, Any]
) -> None:
    """It is killed at each change of the disk from its last unit on; the next command removes what is left."""
    source, count = tmp_path / "source", [*range(200)]
    tegula.save(source, np.arange(12))
    calls = [entry for entry in _killed(source, tmp_path / "whole", -1) if entry[0] in CHANGES]
    first = max(number for number, (_, path) in enumerate(calls) if f"{DIRECTORY}/units" in path)
    for number in count[first : len(calls) : 1 if NIGHTLY else 3]:
        target = tmp_path / f"{number}"
        _killed(source, target, number)
        with suppress(tegula.AlreadyExistsError):
            tegula.convert(source, target, **again)
        if again != {"resume": True} and tegula.jobs.list_jobs(target):
            tegula.convert(source, target, resume=True)
        assert tegula.compare(source, target)
        assert not [*target.rglob(DIRECTORY)], (number, calls[number])


def _killed(source: Path, target: Path, at: int) -> list[tuple[str, str]]:
    """Convert in a process that is killed at one of its changes of the disk; return the calls if there is none."""
    inner, outer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - killed
        hook = Fault(str(target), at, calls=CHANGES)
        with armed(hook):
            tegula.convert(source, target, resume=True)
        os.write(outer, json.dumps(hook.log).encode())
        os._exit(0)
    os.close(outer)
    with open(inner, "rb") as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (0 if at < 0 else -9)
    return [tuple(entry) for entry in json.loads(said or "[]")]
