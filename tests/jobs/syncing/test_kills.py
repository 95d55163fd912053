"""Syncs are killed at random moments while the source changes: the last one makes the target equal.

At no time is there anything in the target that was not in some state of the source. The environment variable
TEGULA_KILLS says how often each kind of sync is killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.effort import SEED, amount
from tests.jobs.syncing import killed

import tegula

KILLS = amount("KILLS", usual=3, nightly=75)
pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL"),
    pytest.mark.slow,
]


class Source:
    """A source that changes, and remembers each of its states."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path, self.chance = path, chance
        self.group = tegula.create_group(path)
        self.number = 0
        self.states: dict[str, list[np.ndarray[Any, Any]]] = {"x": [], "y": []}
        for name in self.states:
            self._create(name)

    def _create(self, name: str) -> None:
        shape, chunks = ((30, 8), (2, 4)) if name == "x" else ((40,), (3,))
        self.group.create_array(name, data=self._values(shape), chunks=chunks, overwrite=True)
        self._note(name)

    def _values(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        self.number += 1
        return np.full(shape, self.number, "i4")

    def _note(self, name: str) -> None:
        self.states[name].append(self.group[name][:])

    def change(self) -> None:
        """Make some changes."""
        for _ in range(self.chance.randrange(1, 4)):
            name = self.chance.choice(["x", "y"])
            array = self.group[name]
            kind = self.chance.choice(["update", "update", "append", "cut", "create", "clear"])
            if kind == "create":
                self._create(name)
                continue
            if kind == "append" and len(array) < 80:
                array.append(self._values((self.chance.randrange(1, 9), *array.shape[1:])))
            elif kind == "cut" and len(array) > 9:
                array.resize(len(array) - self.chance.randrange(1, 9), *array.shape[1:])
            elif kind == "clear":
                array[: self.chance.randrange(9)] = 0
            else:
                start = self.chance.randrange(len(array))
                array[start : start + 5] = self._values(array[start : start + 5].shape)
            self._note(name)

    def check_possible(self, target: Any) -> None:
        """Check that each chunk of the target's arrays was in a state of the source."""
        try:
            group = tegula.open_group(target)
        except tegula.NotFoundError:
            return
        for name in self.states:
            if name not in group:
                continue
            array = group[name]
            values = array[:]
            for region in array.metadata.grid.regions(array.shape):
                assert any(_agree(values, state, region) for state in self.states[name]), (name, region, values[region])


def _agree(values: np.ndarray[Any, Any], state: np.ndarray[Any, Any], region: tuple[slice, ...]) -> bool:
    """Return whether a chunk is that of a state; beyond the end of the state nothing was stored."""
    mine = values[region]
    theirs = np.zeros_like(mine)
    there = state[region]
    theirs[tuple(map(slice, there.shape))] = there
    return np.array_equal(mine, theirs)


def start(source: Path, target: Any, **options: Any) -> subprocess.Popen[bytes]:
    text = json.dumps({"source": str(source), "target": str(target), **options})
    paths = [str(Path(tegula.__file__).parents[1]), str(Path(killed.__file__).parents[3])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-m", "tests.jobs.syncing.killed", text]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_and_kill(chance: random.Random, longest: float, *command: Any, **options: Any) -> bool:
    """Run a sync, and kill it at some moment after it has begun; return whether it was killed."""
    process = start(*command, **options)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(chance.uniform(0, longest))
    process.kill()
    _, error = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), error.decode()
    return process.returncode != 0


CASES: dict[str, dict[str, Any]] = {
    "copied": {},
    "rewritten": {"chunks": {"x": [3, 3], "y": [4]}},
    "by processes": {"workers": 2},
    "sharded": {"shards": {"x": [8, 8], "y": [9]}},
}


@pytest.mark.parametrize("case", CASES)
def test_killed_syncs_of_a_changing_source_end_equal(tmp_path: Path, case: str) -> None:
    chance = random.Random(f"{SEED} {case}")
    source, target = Source(tmp_path / "s.zarr", chance), tmp_path / "t.zarr"
    longest, kills = (3.0 if "workers" in CASES[case] else 0.6), 0
    for _ in range(20 * KILLS):
        kills += run_and_kill(chance, longest, source.path, target, delete=True, **CASES[case])
        source.check_possible(target)
        if chance.random() < 0.6:
            source.change()
        if kills >= KILLS:
            break
    report = tegula.sync(source.path, target, delete=True, verify=True)
    assert report.ok, report
    assert tegula.compare(source.path, target).equal
    source.check_possible(target)
    assert tegula.sync(source.path, target).is_same
    assert not tegula.check(target).findings


def test_killed_syncs_to_a_bucket_end_equal(tmp_path: Path, s3_server: Any) -> None:
    chance = random.Random(f"{SEED} bucket")
    bucket = s3_server.bucket()
    source, store = Source(tmp_path / "s.zarr", chance), bucket.store("t.zarr")
    options = {"target_storage_options": bucket.storage_options}
    url, kills = f"{bucket.url}/t.zarr", 0
    for _ in range(20 * KILLS):
        kills += run_and_kill(chance, 2.0, source.path, url, delete=True, **options)
        source.check_possible(store)
        source.change()
        if kills >= KILLS:
            break
    assert tegula.sync(source.path, store, delete=True).ok
    assert tegula.compare(source.path, store).equal
    assert tegula.sync(source.path, store).is_same


def test_killed_parts_are_continued_by_a_whole_sync(tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} parts")
    source, target = Source(tmp_path / "s.zarr", chance), tmp_path / "t.zarr"
    tegula.sync(source.path, target)
    for number in range(KILLS):
        source.change()
        for part in ([1, 2], [2, 2]):
            run_and_kill(chance, 0.6, source.path, target, part=part, delete=True)
            source.check_possible(target)
        if number % 2:
            for part in ((1, 2), (2, 2)):
                report = tegula.sync(source.path, target, part=part, delete=True)
            if report.failed:  # an array was replaced as a whole
                tegula.sync(source.path, target)
        else:
            tegula.sync(source.path, target)
        assert tegula.compare(source.path, target).equal
