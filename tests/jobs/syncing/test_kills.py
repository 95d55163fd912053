"""Syncs are killed at random moments while the source changes: the last one makes the target equal.

At no time is there anything in the target that was not in some state of the source. The environment variable
TEGULA_KILLS says how often, in all.
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
from tests.jobs.test_kills import kill

import tegula

WAYS: dict[str, dict[str, Any]] = {
    "copied": {},
    "rewritten": {"chunks": {"x": [3, 3], "y": [4]}},
    "sharded": {"chunks": {"x": [2, 4], "y": [3]}, "shards": {"x": [8, 8], "y": [9]}},
    "by processes": {"workers": 2},
    "by dask": {"runner": "dask", "workers": 2},
    "in parts": {},
    "in parts, rewritten": {"chunks": {"x": [3, 3], "y": [4]}},
}
PLACES = ("of files", "of files to a bucket", "of a bucket to another")
KILLS = amount("KILLS", usual=50, nightly=315)
pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL"),
    pytest.mark.slow,
]


class Source:
    """A source that changes, and remembers each of its states."""

    def __init__(self, target: Any, chance: random.Random) -> None:
        self.chance = chance
        self.group = tegula.create_group(target)
        self.number = 0
        self.states: dict[str, list[np.ndarray[Any, Any]]] = {"x": [], "y": []}
        for name in self.states:
            self._create(name)

    def _create(self, name: str) -> None:
        shape: tuple[int, ...] = (30, 8) if name == "x" else (40,)
        chunks = self.chance.choice([(2, 4), (3, 3)] if name == "x" else [(3,), (5,)])
        values = self._values(shape).astype(self.chance.choice(["i4", "i8"]))
        self.group.create_array(name, data=values, chunks=chunks, overwrite=True)
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


def start(**options: Any) -> subprocess.Popen[bytes]:
    paths = [str(Path(tegula.__file__).parents[1]), str(Path(killed.__file__).parents[3])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-m", "tests.jobs.syncing.killed", json.dumps(options)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_and_kill(chance: random.Random, running: list[subprocess.Popen[bytes]], longest: float, meanwhile: Any) -> int:
    """Kill syncs at some moment after they have begun, or their workers; return how often."""
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    meanwhile()
    kills = 0
    for process in running:
        time.sleep(chance.uniform(0, longest))
        if process.poll() is None:
            kill(process, chance, workers=True)
            kills += 1
    for process in running:
        _, error = process.communicate(timeout=300)
        assert process.returncode in (0, -signal.SIGKILL), error.decode()
    return kills


@pytest.mark.sampled(one_in=7)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", WAYS)
def test_killed_syncs_of_a_changing_source_end_equal(
    request: pytest.FixtureRequest, tmp_path: Path, way: str, place: str
) -> None:
    if way == "by dask":
        pytest.importorskip("distributed")
    chance = random.Random(f"{SEED} {way} {place}")
    options: dict[str, Any] = {"source": str(tmp_path / "s.zarr"), "target": str(tmp_path / "t.zarr")}
    source_target: list[Any] = [tmp_path / "s.zarr", tmp_path / "t.zarr"]
    if "bucket" in place:
        bucket = request.getfixturevalue("s3_server").bucket()
        for number, name in enumerate(["target"] if "files" in place else ["target", "source"]):
            options[name] = f"{bucket.url}/{name}.zarr"
            options["target_storage_options" if number == 0 else "storage_options"] = bucket.storage_options
            source_target[1 - number] = bucket.store(f"{name}.zarr")
    source, target = Source(source_target[0], chance), source_target[1]
    parts: list[dict[str, Any]] = [{"part": [1, 2]}, {"part": [2, 2]}] if "parts" in way else [{}]
    options |= {"delete": True, **WAYS[way]}
    # parts need a source that stays the same, and each chunk of a target with other chunks is made of several values
    changes = [lambda: None] if "parts" in way or {"chunks", "shards"} & {*options} else [lambda: None, source.change]
    longest = (3.0 if "workers" in options else 0.6) + ("bucket" in place)
    kills, wanted = 0, -(-KILLS // (len(WAYS) * len(PLACES)))
    for _ in range(20 * wanted):
        running = [start(**options, **part) for part in parts]
        kills += run_and_kill(chance, running, longest, chance.choice(changes))
        source.check_possible(target)
        if chance.random() < 0.6:
            source.change()
        if kills >= wanted:
            break
    for part in parts if chance.random() < 0.5 else [{}]:
        report = tegula.sync(source_target[0], target, delete=True, verify=True, **part)
    assert report.ok, report
    assert not report.units_left
    assert tegula.compare(source_target[0], target).equal
    assert tegula.checksum(source_target[0]).digest == tegula.checksum(target).digest
    source.check_possible(target)
    assert tegula.sync(source_target[0], target).is_same
    # a store that is killed while it finds out what a bucket can do leaves what it tried
    assert not [found for found in tegula.check(target).findings if ".tegula-probe-" not in str(found)]
