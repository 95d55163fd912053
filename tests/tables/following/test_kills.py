"""Writers and followers are killed at random and begun again: every row is read once, in order.

The environment variable TEGULA_KILLS says how often, in all.
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
from tests.tables.following import writing

import tegula

CASES: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "chunks": (5, 2)},
    "shards": {"format": "zarr3", "chunks": (3, 2), "shards": (9, 2)},
    "zarr2": {"format": "zarr2", "chunks": (1, 3)},
    "bcolz": {"format": "bcolz", "chunks": (8, 3)},
    "table": {"format": "zarr3"},
    "ctable": {"format": "bcolz"},
}
KILLS = amount("KILLS", usual=12, nightly=1000)
PARTS = max(1, KILLS // 100)
"""Tests for each case, so that none of them takes many minutes."""
pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL"),
    pytest.mark.slow,
]


def start(errors: Path, **options: Any) -> subprocess.Popen[bytes]:
    paths = [str(Path(tegula.__file__).parents[1]), str(Path(writing.__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-m", "tests.tables.following.writing", json.dumps(options)]
    with errors.open("ab") as file:
        return subprocess.Popen(command, env=environment, stderr=file)


def create(target: Path, name: str) -> None:
    if "table" in name:
        columns = {"n": np.zeros(0, "i8"), "half": np.zeros(0, "f4"), "text": np.zeros(0, "U8")}
        tegula.create_table(target, columns, **CASES[name], chunks=6)
    else:
        tegula.create_array(target, shape=(0, 3), dtype="i4", **CASES[name])


@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", CASES)
def test_killed_writers_and_followers_lose_and_repeat_nothing(name: str, part: int, tmp_path: Path) -> None:
    chance = random.Random(SEED + part)
    kills = -(-KILLS // (len(CASES) * PARTS))
    rows = 40 * kills
    target, log, errors = tmp_path / "x", tmp_path / "log", tmp_path / "errors"
    create(target, name)
    writer: dict[str, Any] = {"writes": True, "target": str(target), "rows": rows, "pause": 0.01}
    follower: dict[str, Any] = {"writes": False, "target": str(target), "rows": rows, "log": str(log)}
    running = [start(errors, **writer), start(errors, **follower)]
    done = 0
    while any(process.poll() is None for process in running):
        time.sleep(chance.uniform(0, 1.5) if done < kills else 0.1)
        for number, (process, options) in enumerate(zip(running, (writer, follower))):
            if done < kills and process.poll() is None and chance.random() < 0.5:
                process.kill()
                process.wait()
                running[number] = start(errors, **options)
                done += 1
    assert [process.returncode for process in running] == [0, 0], errors.read_text()
    blocks = [json.loads(line) for line in log.read_text().splitlines()]
    found = [row for block in blocks for row in block["rows"]]
    assert [block["start"] for block in blocks] == [0, *np.cumsum([len(block["rows"]) for block in blocks])[:-1]]
    assert [row[0] for row in found] == [*range(1, rows + 1)]
    assert all(len({*row}) == 1 for row in found)
