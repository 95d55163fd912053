"""Disks that are full, closed, broken or gone at any system call of any operation: an error that says so, or success,
and nothing lost or left behind.

Some calls of each operation are tried, each with one error; a night tries more, which its seed chooses.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import ERRNOS, MOVES, Fail, Fault, Short, armed, open_files_below, runs_kernel
from operations import OPERATIONS, Operation, keys_of
from tests.effort import NIGHTLY, turn

import tegula
from tegula.errors import MetadataError, StoreError, TegulaError
from tegula.stores.local.directories import note_swept

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the calls are told apart by /proc")
MOST, MORE = 12, 60

# an archive that could not be written stays open for another attempt; when it is collected it reports what is lost
DROPPED = "ignore:Exception ignored in. <function ZipStore.__del__:pytest.PytestUnraisableExceptionWarning"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Make the calls come in the same order each time."""
    with tegula.config.configure(threads=1):
        yield


def copied(before: Path, path: Path) -> None:
    """Copy files into directories that count as swept: the kernel leaves the first write to any other to Python."""
    shutil.copytree(before, path)
    if runs_kernel():
        for folder, _, _ in os.walk(path):
            note_swept(os.path.join(folder, ""))


def prepared(name: str, folder: Path) -> tuple[Operation, Path, int]:
    """Prepare the files for an operation, and count its calls."""
    operation, before, clean = OPERATIONS[name], folder / "before", folder / "clean"
    before.mkdir()
    operation.prepare(str(before))
    copied(before, clean)
    count = Fault(str(clean))
    with armed(count):
        operation.act(str(clean))
    assert count.log
    return operation, before, len(count.log)


def numbers(name: str, count: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of calls, each with an error that it fails with."""
    step = max(1, count // MOST)
    start = sum(name.encode())  # so that not all operations fail in the same way
    usual = [(number, ERRNOS[(start + n) % len(ERRNOS)]) for n, number in enumerate(range(start % step, count, step))]
    yield from usual
    if NIGHTLY:
        others = {(number, code) for number in range(count) for code in ERRNOS}.difference(usual)
        yield from random.Random(turn(name)).sample(sorted(others), min(MORE, len(others)))


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_that_fails(name: str, tmp_path: Path) -> None:
    operation, before, count = prepared(name, tmp_path)
    old, new = keys_of(str(before)), keys_of(str(tmp_path / "clean"))
    failed = 0
    sample = [*numbers(name, count)]
    others = [(number, ERRNOS[0]) for number in range(count) if number not in dict(sample)]
    for tried, (number, code) in enumerate([*sample, *others]):
        if tried >= len(sample) and (failed or name.startswith("overwrite group")):
            break  # the others are tried only if no call of the sample has made the operation fail
        path = tmp_path / f"{number}-{code}"
        copied(before, path)
        fault = Fault(str(path), number, Fail(code))
        with armed(fault):
            failed += attempt(operation, path, code)
        assert fault.hits == 1
        check_nothing_leaked(path)
        found = keys_of(str(path))
        for key in {*found, *old, *new}:
            value = found.get(key)
            allowed = value in (old.get(key), new.get(key))
            assert allowed or (operation.between is not None and operation.between(key, value)), (key, number)
        operation.repeat(str(path))
        found = keys_of(str(path))
        left = {key for key in found if operation.leaves is not None and key not in new and operation.leaves(key)}
        assert {key: value for key, value in found.items() if key not in left} == new, number
        shutil.rmtree(path)
    assert failed or name.startswith("overwrite group")  # most calls delete the old one at the end


def attempt(operation: Operation, path: Path, code: int) -> bool:
    """Carry out an operation; return whether it failed, which must be with an error that says where and why."""
    try:
        operation.act(str(path))
    except TegulaError as error:
        check_error(error, path, code)
        return True
    return False


def check_error(error: TegulaError, path: Path, code: int) -> None:
    said = str(error)
    assert os.strerror(code) in said
    assert error.key is not None or error.path is not None or str(path) in said
    assert code in causes(error), said


def causes(error: BaseException | None) -> list[int]:
    """Return the numbers of the system's errors that an error was raised from."""
    found = []
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            found.append(error.errno)
        error = error.__cause__
    return found


def check_nothing_leaked(path: Path) -> None:
    """Look for temporary files, open files and locks below a directory."""
    assert [*path.rglob(".tegula-*")] == []
    assert open_files_below(path) == []
    for place in [path, *path.rglob("*")]:
        fd = os.open(place, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.filterwarnings(DROPPED)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_stays_full(name: str, tmp_path: Path) -> None:
    operation, before, _ = prepared(name, tmp_path)
    old, new = keys_of(str(before)), keys_of(str(tmp_path / "clean"))
    needs_room = frozenset("create write fallocate mkdir link".split())
    count = Fault(str(tmp_path / "clean"), calls=needs_room)
    shutil.rmtree(tmp_path / "clean")
    copied(before, tmp_path / "clean")
    with armed(count):
        operation.act(str(tmp_path / "clean"))
    step = 1 if NIGHTLY else max(1, len(count.log) // 4)
    for number in range(0, len(count.log), step):
        path = tmp_path / f"{number}"
        copied(before, path)
        fault = Fault(str(path), number, Fail(errno.ENOSPC), needs_room, lasting=True)
        with armed(fault):
            attempt(operation, path, errno.ENOSPC)
        assert fault.hits
        if "archive" not in name:
            check_nothing_leaked(path)
        for key, value in keys_of(str(path)).items():
            allowed = value in (old.get(key), new.get(key))
            assert allowed or (operation.between is not None and operation.between(key, value)), (key, number)
        operation.repeat(str(path))
        shutil.rmtree(path)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("most", [1, 7])
def test_short_reads_and_writes(name: str, most: int, tmp_path: Path) -> None:
    operation, before, _ = prepared(name, tmp_path)
    path = tmp_path / "short"
    copied(before, path)
    fault = Fault(str(path), 0, Short(most), MOVES, lasting=True)
    with armed(fault):
        operation.act(str(path))
    assert fault.hits or not fault.log
    assert keys_of(str(path)) == keys_of(str(tmp_path / "clean"))


@pytest.mark.parametrize("most", [1000, 4096])
def test_short_reads_are_continued(most: int, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path, shape=50_000, chunks=25_000, dtype="i4", codecs=None)
    array[...] = values = np.arange(50_000)
    sharded = tegula.create_array(tmp_path / "s", shape=50_000, chunks=5_000, shards=25_000, dtype="i4", codecs=None)
    sharded[...] = values
    fault = Fault(str(tmp_path), 0, Short(most), MOVES, lasting=True)
    with armed(fault):
        for found in (array, sharded):
            assert np.array_equal(found[...], values)
            assert np.array_equal(found[3000:9000], values[3000:9000])
            found[10:20_000] = values[10:20_000]
    assert fault.kernel > 50 or not runs_kernel()


@pytest.mark.filterwarnings(DROPPED)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_directory_that_vanishes(name: str, tmp_path: Path) -> None:
    operation, before, count = prepared(name, tmp_path)
    # what the process remembers of the first run may save the last calls
    for number in range(0, max(1, count - 4), 1 if NIGHTLY else max(1, count // 5)):
        path = tmp_path / f"{number}"
        copied(before, path)
        fault = Fault(str(path), number, lambda path=path: shutil.rmtree(path))
        with armed(fault), suppress(TegulaError):
            operation.act(str(path))
        assert fault.hits == 1
        assert open_files_below(path) == [] or "archive" in name
        assert [*path.rglob(".tegula-*")] == []
        with suppress(StoreError, MetadataError):
            keys_of(str(path))


def test_the_kernels_fault_hook_refuses_unknown_faults(kernel: Any, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path, shape=4, dtype="i4")
    array[...] = 1
    seen = []
    kernel.faults(lambda call, path: seen.append((call, path)))
    try:
        with tegula.config.configure(executor="kernel"):
            assert array[0] == 1
    finally:
        kernel.faults()
    count = len(seen)
    assert not runs_kernel() or any(call == "read" and path == str(tmp_path / "c/0") for call, path in seen)
    assert array[0] == 1
    assert len(seen) == count
