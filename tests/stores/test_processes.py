"""Several processes that change the same local files, on every system: no update is lost, and no reader fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import effort
from tests.stores.counting import COUNT_UP

import tegula
from tegula.jobs.owners import Owner
from tegula.runtime import system
from tegula.stores import LocalStore

pytestmark = pytest.mark.slow

_UPDATES = effort.amount("UPDATES", 100, 400)
_SECONDS = 3
_ADDS = f"{COUNT_UP}\nimport sys\ncount_up(LocalStore(sys.argv[1]), 'n', int(sys.argv[2]))"
_WRITES = """
import sys, time
from tegula.stores import LocalStore
store, end, number = LocalStore(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    store.set("v", bytes((number % 256,)) * 5000)
    number += 1
print(number)
"""
_READS = """
import sys, time
from tegula.stores import LocalStore
store, end, number = LocalStore(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    value = store.get("v")
    assert len(value) == 5000 and len({*value}) == 1, "a torn value"
    number += 1
print(number)
"""
_OWNS = """
import json, sys
from tegula.jobs.owners import Owner, new_claim
print(json.dumps(Owner.here(new_claim())), flush=True)
sys.stdin.readline()
"""


def start(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def outputs(processes: list[subprocess.Popen[str]]) -> list[str]:
    ended = [(process.communicate(timeout=500), process.returncode) for process in processes]
    assert [about for about in ended if about[1]] == []
    return [output for (output, _), _ in ended]


def test_no_update_of_four_processes_is_lost_and_nothing_is_left_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.set("n", b"0")
    outputs([start(_ADDS, store.root, _UPDATES) for _ in range(4)])
    assert store.get("n") == b"%d" % (4 * _UPDATES)
    assert os.listdir(store.root) == ["n"]
    store.delete("n")
    assert os.listdir(store.root) == []


def test_readers_and_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.set("v", bytes(5000))
    counts = outputs([start(code, store.root, _SECONDS) for code in (_READS, _READS, _READS, _WRITES, _WRITES)])
    assert all(int(count) > 0 for count in counts)
    assert os.listdir(store.root) == ["v"]


def test_whoever_holds_the_lock_of_a_key_can_replace_its_value(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("a/b", b"1")
    with store.lock("a/b") as held:
        assert held
        store.set("a/b", b"2")
        assert [*store.list()] == ["a/b"]
    assert os.listdir(tmp_path / "a") == ["b"]
    store.delete("a/b")
    assert os.listdir(tmp_path) == []


def test_a_living_process_owns_its_job_and_a_dead_one_does_not(tmp_path: Path) -> None:
    process = start(_OWNS)
    assert process.stdout is not None
    record = process.stdout.readline()
    owner = Owner(tegula.formats.documents.load(record.encode(), ""))
    assert owner.is_alive
    began = system.start_of(process.pid)
    assert began not in (None, "", system.start_of(os.getpid()))
    source, target = tegula.create_array(tmp_path / "s", data=range(9), chunks=3), tmp_path / "t"
    LocalStore(target).set(".tegula_job/owners/1of1", record.encode())
    with pytest.raises(tegula.AlreadyExistsError):
        tegula.convert(source, target, resume=True)
    outputs([process])
    assert system.start_of(process.pid) is None
    assert not owner.is_alive
