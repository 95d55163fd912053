"""Workers and drivers of jobs are killed at random: the result is that of an undisturbed run, with little rework.

The environment variable TEGULA_KILLS says how often, for each runner.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.effort import SEED, amount
from tests.jobs import killing

import tegula
from tegula.jobs.plans import Unit
from tegula.jobs.runners import processes

OPTIONS: dict[str, dict[str, Any]] = {
    "convert": {"chunks": {"a": [5, 5]}, "codecs": "zstd"},
    "downsample": {"axes": "yx", "levels": 2, "codecs": "zstd"},
}
CHUNKS = {"convert": 12 * 10 + 5, "downsample": 12 * 10}  # of the source
KILLS = amount("KILLS", usual=2, nightly=30)
WORKERS = 2
pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group of two arrays, one of which has chunks that hold nothing but the fill value."""
    path = tmp_path_factory.mktemp("kills") / "source.zarr"
    group = tegula.create_group(path)
    values = np.random.default_rng(1).integers(0, 1000, (60, 50)).astype("i4")
    values[20:40] = 0
    group.create_array("a", data=values, chunks=(5, 5))
    group.create_array("b", data=values[0], chunks=(10,))
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def start(source: Path, target: Path, log: Path, **options: Any) -> subprocess.Popen[bytes]:
    text = json.dumps({"source": str(source), "target": str(target), **options})
    paths = [str(Path(tegula.__file__).parents[1]), str(Path(killing.__file__).parents[2])]
    environment = {**os.environ, killing.LOG: str(log), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-m", "tests.jobs.killing", text]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def children_of(pid: int) -> list[int]:
    """The workers that a process has started."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and b"spawn_main" in command and b"tracker" not in command:
            found.append(int(name))
    return found


def kill(process: subprocess.Popen[bytes], chance: random.Random, workers: bool) -> None:
    """Kill a driver, or one of its workers."""
    found = children_of(process.pid) if workers and os.path.isdir("/proc") and chance.random() < 0.5 else []
    with suppress(ProcessLookupError):
        os.kill(chance.choice(found) if found else process.pid, signal.SIGKILL)


def run_until_done(start_all: Any, kills: int, chance: random.Random, workers: bool, longest: float) -> int:
    """Run drivers until all succeed, and kill some of them; return the number of kills."""
    done = 0
    while True:
        running = start_all()
        while kills > done and any(one.poll() is None for one in running):
            time.sleep(chance.uniform(0, longest))
            living = [one for one in running if one.poll() is None]
            if living:
                kill(chance.choice(living), chance, workers)
                done += 1
        outputs = [one.communicate(timeout=120) for one in running]
        failed = [error for one, (_, error) in zip(running, outputs) if one.returncode not in (0, -signal.SIGKILL)]
        assert not failed, failed[0].decode()
        if all(one.returncode == 0 for one in running):
            return done


def test_parts_that_are_killed_and_started_again_complete_the_target(source: Path, tmp_path: Path) -> None:
    chance = random.Random(SEED + 3)
    tegula.convert(source, tmp_path / "plain.zarr", codecs="zstd")
    target, log = tmp_path / "t.zarr", tmp_path / "log"
    log.touch()
    kills = run_until_done(
        lambda: [start(source, target, log, part=[i, 3], resume=True, **OPTIONS["convert"]) for i in (1, 2, 3)],
        min(KILLS, 5),
        chance,
        False,
        1.5,
    )
    found = contents(target)
    assert found.pop("a/.tegula_complete")
    assert found == contents(tmp_path / "plain.zarr")
    read = Counter(log.read_text().split())
    assert len(read) == 12 * 10 + 5
    assert sum(read.values()) - len(read) <= kills


def test_parts_of_a_pyramid_that_are_killed_complete_it(source: Path, tmp_path: Path) -> None:
    options = {"operation": "downsample", **OPTIONS["downsample"], "resume": True}
    tegula.downsample(source / "a", tmp_path / "plain.zarr", **OPTIONS["downsample"])
    target, log = tmp_path / "t.zarr", tmp_path / "log"
    log.touch()
    kills = run_until_done(
        lambda: [start(source, target, log, part=[i, 3], **options) for i in (1, 2, 3)],
        min(KILLS, 5),
        random.Random(SEED + 5),
        False,
        1.5,
    )
    found = contents(target)
    assert found.pop("s0/.tegula_complete")
    assert found == contents(tmp_path / "plain.zarr")
    read = Counter(log.read_text().split())
    assert sum(read.values()) - len(read) <= kills


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("operation", OPTIONS)
@pytest.mark.parametrize("runner", ["threads", "processes", "dask"])
def test_a_job_that_is_killed_gives_the_result_of_one_that_is_not(
    source: Path, tmp_path: Path, runner: str, operation: str
) -> None:
    if runner == "dask":
        pytest.importorskip("distributed")
    chance = random.Random(SEED + 7)
    options: dict[str, Any] = {"operation": operation, **OPTIONS[operation], "resume": True}
    options |= {} if runner == "threads" else {"runner": runner, "workers": WORKERS}
    place = source / "a" if operation == "downsample" else source
    getattr(tegula, operation)(place, tmp_path / "plain.zarr", **OPTIONS[operation])
    expected = contents(tmp_path / "plain.zarr")
    left, attempt = KILLS, 0
    while left > 0:
        target, log = tmp_path / f"{attempt}.zarr", tmp_path / f"{attempt}.log"
        log.touch()
        most = min(left, 5)
        kills = run_until_done(
            lambda target=target, log=log: [start(source, target, log, **options)],
            most,
            chance,
            runner != "threads",
            4.0 if runner == "dask" else 1.5,
        )
        found = contents(target)
        assert found.pop("a/.tegula_complete" if operation == "convert" else "s0/.tegula_complete")
        assert found == expected
        read = Counter(log.read_text().split())
        assert len(read) == CHUNKS[operation]
        assert sum(read.values()) - len(read) <= WORKERS * kills
        left, attempt = left - max(1, kills), attempt + 1


def test_ctrl_c_does_not_reach_workers_even_while_they_import() -> None:
    worker = processes._Worker(1)
    try:
        for _ in range(50):
            os.kill(worker.process.pid or 0, signal.SIGINT)
            time.sleep(0.01)
        assert isinstance(worker.ask(pickle.dumps("no work"), Unit(0, ())), AssertionError)
    finally:
        worker.end()
        worker.process.join()
