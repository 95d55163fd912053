"""Appends to bcolz arrays and tables are atomic, also when killed and beside other writers and readers.

``TEGULA_KILLS`` sets the number of kills at random moments, for long runs; ``just torture --only kills`` does
thousands of them, and compares libraries.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import bcolz
import numpy as np
import pytest
from tests.effort import NIGHTLY, amount

import tegula

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"), pytest.mark.slow]
KILLS = amount("KILLS", usual=20, nightly=1000)
BLOCK = 37
CHUNKLENS = {"z": 100, "a": 64, "m": 50}
WORKERS = 3
APPENDS = 12

# A process that has everything imported and no threads, and forks a child for each job.
PROGRAM = """
import json, os, signal, struct, sys, time
import numpy as np, tegula

BLOCK = 37

def columns(start, stop):
    rows = np.arange(start, stop)
    return {"z": rows, "a": rows / 8, "m": np.stack([rows % 120, rows % 7], 1).astype("i1")}

def opened(path, kind):
    return tegula.open_array(path, mode="r+") if kind == "carray" else tegula.open_table(path, mode="r+")

def block(kind, start, stop):
    return np.arange(start, stop) if kind == "carray" else columns(start, stop)

def grow(path, kind, limit=10**9, pause=0):
    # says in a file how many rows there are for certain; readers see some of the steps if it pauses
    said = os.open(path + ".said", os.O_WRONLY | os.O_CREAT)
    rows = len(opened(path, kind))
    while rows < limit:
        opened(path, kind).append(block(kind, rows, rows + BLOCK))
        rows += BLOCK
        os.pwrite(said, struct.pack("<q", rows), 0)
        time.sleep(pause)

def die_at(path, kind, count, what):
    # ends as if it were killed, at a certain change of the file system by Python
    by_reference = tegula.config.configure(executor="reference")
    by_reference.__enter__()
    left = [count]
    changes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    def counted(name, action):
        def act(*arguments, **options):
            left[0] -= name != "open" or arguments[1] & changes != 0
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return action(*arguments, **options)
        return act
    node = opened(path, kind)
    rows = len(node)
    for name in ("open", "write", "replace", "rename", "link", "unlink", "remove"):
        setattr(os, name, counted(name, getattr(os, name)))
    if what == "append":
        node.append(block(kind, rows, rows + 3 * BLOCK))
    else:
        node.resize(rows - 3 * BLOCK)

def share(path, kind, worker, count):
    for number in range(count):
        start = (worker * count + number) * BLOCK
        opened(path, kind).append(block(kind, start, start + BLOCK))

def fork(job, arguments):
    child = os.fork()
    if child == 0:
        signal.alarm(240)  # one that hangs ends
        try:
            globals()[job](*arguments)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child

def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for line in sys.stdin:
    delay, jobs = json.loads(line)
    children = [fork(job, arguments) for job, *arguments in jobs]
    if delay is not None:
        time.sleep(delay)
        for child in children:
            os.kill(child, signal.SIGKILL)
    print(json.dumps([wait(child) for child in children]), flush=True)
"""

Run = Callable[..., Callable[[], list[int]]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Start jobs, each in a process of its own, kill them after a while if there is a `delay`; return how to wait."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tegula.__file__).parents[1])}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=pipe, stdout=pipe, env=environment) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        answers: list[list[int]] = []
        asked = 0

        def start(*jobs: list[Any], delay: float | None = None) -> Callable[[], list[int]]:
            nonlocal asked
            server.stdin.write(json.dumps([delay, jobs]).encode() + b"\n")
            server.stdin.flush()
            asked += 1
            return partial(answer, asked)

        def answer(number: int) -> list[int]:
            while len(answers) < number:
                answers.append(json.loads(server.stdout.readline()))
            return answers[number - 1]

        yield start
        answer(asked)


def create(path: Path, kind: str) -> None:
    if kind == "carray":
        tegula.create_array(path, shape=0, dtype="i8", chunks=100, format="bcolz")
        return
    chunks = {name: (CHUNKLENS[name], *values.shape[1:]) for name, values in columns(0).items()}
    tegula.create_table(path, columns(0), chunks=chunks, format="bcolz")


def columns(rows: int, start: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    numbers = np.arange(start, start + rows)
    return {"z": numbers, "a": numbers / 8, "m": np.stack([numbers % 120, numbers % 7], 1).astype("i1")}


def check_column(array: Any, name: str, whole: int) -> int:
    """Compare what is in a column, of either library, and return its length."""
    values = array[:]
    rows = len(values)
    assert rows == array.shape[0]
    assert rows % whole == 0
    assert np.array_equal(values, columns(rows)[name])
    return rows


def check(path: Path, kind: str, whole: int = BLOCK) -> int:
    """Read everything with both libraries, and return the number of rows."""
    if kind == "carray":
        rows = check_column(tegula.open_array(path), "z", whole)
        assert check_column(bcolz.carray(rootdir=str(path), mode="r"), "z", whole) == rows
        return rows
    table = tegula.open_table(path)
    lengths = {}
    for name in ("z", "a", "m"):
        lengths[name] = check_column(tegula.open_array(path / name), name, whole)
        assert check_column(bcolz.carray(rootdir=str(path / name), mode="r"), name, whole) == lengths[name]
    assert len(table) == min(lengths.values())
    for name, values in columns(len(table)).items():
        assert np.array_equal(table[:][name], values)
    return len(table)


def promised(path: Path) -> int:
    said = Path(f"{path}.said")
    return struct.unpack("<q", said.read_bytes())[0] if said.exists() and said.stat().st_size else 0


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("kind", ["carray", "ctable"])
def test_killed_at_any_moment(kind: str, tmp_path: Path, run: Run) -> None:
    random = np.random.default_rng(int(time.time()))
    progress = set()
    longest = 0.06  # seconds; more, as long as the writer does not get anywhere on a busy machine
    number = 0
    while number < KILLS // 2 or (len(progress) < 2 and number < 100):
        path = tmp_path / f"x{number // 10}"
        if number % 10 == 0:
            create(path, kind)
        before = check(path, kind)
        assert run(["grow", str(path), kind], delay=random.uniform(0.001, longest))() == [-signal.SIGKILL]
        rows = check(path, kind)
        certain = max(before, promised(path))
        assert rows in (certain, certain + BLOCK)
        progress.add(rows - before)
        longest *= 1.5 if progress == {0} else 1
        number += 1
        # the next writer notices nothing
        assert run(["grow", str(path), kind, rows + 1])() == [0]
        assert check(path, kind) == rows + BLOCK
    assert len(progress) > 1


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("what", ["append", "trim"])
@pytest.mark.parametrize("kind", ["carray", "ctable"])
def test_killed_at_every_step(kind: str, what: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "x"
    create(path, kind)
    wanted = 2 if what == "append" else 9
    rows = 0
    for step in range(0, 1000, 1 if NIGHTLY else 3):
        if rows > wanted * BLOCK:
            tegula.open(path, mode="r+").resize(wanted * BLOCK)
        elif rows < wanted * BLOCK:
            assert run(["grow", str(path), kind, wanted * BLOCK])() == [0]
        (ended,) = run(["die_at", str(path), kind, step, what])()
        after = wanted + 3 if what == "append" else wanted - 3
        rows = check(path, kind)
        assert rows in ({after * BLOCK} if ended == 0 else {wanted * BLOCK, after * BLOCK})
        if ended == 0:
            break
    assert ended == 0
    assert step > 5


@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("kind", ["carray", "ctable"])
def test_no_append_is_lost_or_torn(kind: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "x"
    create(path, kind)
    assert run(*[["share", str(path), kind, worker, APPENDS] for worker in range(WORKERS)])() == [0] * WORKERS
    if kind == "carray":
        found = {"z": tegula.open_array(path)[...]}
        theirs = {"z": bcolz.carray(rootdir=str(path), mode="r")[:]}
    else:
        table = tegula.open_table(path)
        found = {name: table[name][...] for name in columns(0)}
        stored = bcolz.ctable(rootdir=str(path), mode="r")
        theirs = {name: stored[name][:] for name in columns(0)}
    starts = found["z"][::BLOCK]
    assert sorted(starts) == [*range(0, WORKERS * APPENDS * BLOCK, BLOCK)]
    for name, values in found.items():
        expected = np.concatenate([columns(BLOCK, start)[name] for start in starts])
        assert np.array_equal(values, expected)
        assert np.array_equal(theirs[name], expected)


@pytest.mark.sampled(one_in=18)
@pytest.mark.parametrize("kind", ["carray", "ctable"])
def test_readers_see_what_was_there_at_one_moment(kind: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "x"
    create(path, kind)
    finished = run(["grow", str(path), kind, 60 * BLOCK, 0.01])
    seen = set()
    early = tegula.open(path)
    rows = len(early)
    while max(seen, default=0) < 60 * BLOCK:
        if kind == "carray":
            seen.add(check_column(tegula.open_array(path), "z", BLOCK))
            check_column(bcolz.carray(rootdir=str(path), mode="r"), "z", BLOCK)
        else:
            table = tegula.open_table(path)
            seen.add(len(table))
            assert len(table) % BLOCK == 0
            found = table[:]
            assert len(found) == len(table)
            for name, values in columns(len(table)).items():
                assert np.array_equal(found[name], values)
                check_column(bcolz.carray(rootdir=str(path / name), mode="r"), name, BLOCK)
        # an object opened earlier reads the old rows
        first = early[:] if kind == "carray" else early["z"][:rows]
        assert np.array_equal(first[:rows], np.arange(rows))
    assert finished() == [0]
    assert len(seen) > 2
