"""Python and the kernel write to one directory at the same time, by the protocol of docs/design/local-files.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.injection.faults import Fault, armed, open_files_below
from tests.waiting import exit_code

import tegula
from tegula import config
from tegula.errors import ConflictError
from tegula.runtime import executors
from tegula.stores import ABSENT, LocalStore
from tegula.stores.local.directories import Directory

fcntl = pytest.importorskip("fcntl")
pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(executors.kernel() is None, reason="there is no kernel to run against"),
]

BOTH = ["kernel", "reference"]
WORKERS, ROUNDS = 4, 60


def opened(path: Path, executor: str) -> Any:
    """Open an array for one executor, which it keeps."""
    with config.configure(executor=executor, threads=1):
        array = tegula.open_array(path, "r+")
        array[:]
    return array


def write(array: Any, executor: str, where: Any, value: Any) -> None:
    with config.configure(executor=executor, threads=1):
        array[where] = value


def new_array(path: Path, **options: Any) -> None:
    array = tegula.create_array(path, shape=8, chunks=8, dtype="i4", fill_value=0, codecs=None, **options)
    array[...] = np.arange(8) + 10


def is_locked(path: Path) -> bool:
    """Return whether another descriptor holds the lock of a directory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("first", BOTH)
def test_a_change_between_any_two_system_calls_of_the_other_is_not_lost(
    tmp_path: Path, first: str, exists: bool
) -> None:
    second = BOTH[1 - BOTH.index(first)]
    steps: list[str] = []
    for at in range(1000):
        root = tmp_path / str(at)
        tegula.create_array(root, shape=8, chunks=8, dtype="i4", fill_value=0, codecs=None)
        tegula.LocalStore(root).set("c/neighbour", b"so that the directory stays")
        one, other = opened(root, first), opened(root, second)
        if exists:
            write(one, first, ..., np.arange(8) + 10)
        folder = root / "c"
        done = []

        def change(folder: Path = folder, other: Any = other, done: list[bool] = done) -> None:
            if not is_locked(folder):  # else it would wait for the writer that waits for it
                write(other, second, 5, 55)
                done.append(True)

        fault = Fault(str(root), at, change)
        with armed(fault):
            write(one, first, 2, 22)
        if at >= len(fault.log):
            break
        if not done:
            steps.append(fault.log[at][0])
            change()
        found = tegula.open_array(root)[:].tolist()
        wanted = [*range(10, 18)] if exists else [0] * 8
        wanted[2], wanted[5] = 22, 55
        assert found == wanted, (at, fault.log[at])
        assert sorted(path.name for path in folder.iterdir()) == ["0", "neighbour"]
    assert at > 8
    # under the lock of the directory the old file is compared, and the new one put in its place
    assert "replace" in steps or "link" in steps
    assert open_files_below(tmp_path) == []


@pytest.mark.parametrize("first", BOTH)
def test_the_place_is_taken_and_given_up_under_the_lock_of_the_directory(tmp_path: Path, first: str) -> None:
    new_array(tmp_path)
    array = opened(tmp_path, first)
    locked: list[tuple[str, bool]] = []

    def note(call: str, path: str, in_kernel: bool) -> None:
        if in_kernel == (first == "kernel") and call in ("create", "write", "replace"):
            locked.append((call, is_locked(tmp_path / "c")))

    with armed(note):
        write(array, first, 2, 22)
    assert ("replace", True) in locked
    assert ("replace", False) not in locked
    assert ("write", False) in locked  # other writers continue while the value is written
    assert ("write", True) not in locked


@pytest.mark.parametrize("first", BOTH)
def test_a_file_that_is_being_written_is_no_leftover_for_the_other(tmp_path: Path, first: str) -> None:
    new_array(tmp_path)
    array = opened(tmp_path, first)
    seen: list[list[str]] = []

    def look(call: str, path: str, in_kernel: bool) -> None:
        if call == "replace":
            names = [path.name for path in tmp_path.rglob(".tegula-*")]
            assert [*LocalStore(tmp_path).leftovers()] == []
            assert LocalStore(tmp_path).reclaim() == 0
            seen.append(names)

    with armed(look):
        write(array, first, 2, 22)
    [[name]] = seen
    assert re.fullmatch(rf"\.tegula-{os.getpid()}-[0-9a-f]{{16}}\.tmp", name)
    assert array[2] == 22


@pytest.mark.parametrize("first", BOTH)
def test_each_waits_for_the_lock_of_the_other(tmp_path: Path, first: str) -> None:
    """The lock is taken by hand here, as either takes it: the kernel's wait ends in Python's store, which waits on."""
    new_array(tmp_path)
    array = opened(tmp_path, first)
    with Directory(str(tmp_path / "c")) as directory:
        directory._lock(required=True)
        writer = threading.Thread(target=write, args=(array, first, 2, 22))
        writer.start()
        writer.join(1)
        assert writer.is_alive()
        assert tegula.open_array(tmp_path)[2] == 12
        directory._unlock(directory.mark)
        writer.join(60)
        assert not writer.is_alive()
    assert array[2] == 22


def test_both_read_one_generation(tmp_path: Path) -> None:
    new_array(tmp_path)
    store = LocalStore(tmp_path)
    arrays = {executor: opened(tmp_path, executor) for executor in BOTH}
    seen = []
    for number in range(20):
        executor = BOTH[number % 2]
        before = store.get("c/0", with_generation=True)[1]
        write(arrays[executor], executor, 3, number)
        with pytest.raises(ConflictError):
            store.set("c/0", b"", if_generation=before)
        seen.append(store.get("c/0", with_generation=True)[1])
    assert len({*seen}) == 20
    times = [generation[1] for generation in seen]
    assert all(time % 1000 for time in times)
    assert times == sorted(times)


def test_a_chunk_that_one_deletes_is_found_missing_by_the_other(tmp_path: Path) -> None:
    new_array(tmp_path)
    arrays = {executor: opened(tmp_path, executor) for executor in BOTH}
    for number in range(6):
        executor, other = BOTH[number % 2], BOTH[1 - number % 2]
        write(arrays[executor], executor, ..., 0)
        assert not (tmp_path / "c").exists()  # the directory went with its last file
        write(arrays[other], other, 4, number + 1)
        assert arrays[executor][:].tolist() == [0, 0, 0, 0, number + 1, 0, 0, 0]


WORKER = """
import sys
import tegula
path, worker, workers, rounds = sys.argv[1], *map(int, sys.argv[2:])
array = tegula.open_array(path, "r+")
sys.stdin.readline()
for number in range(rounds):
    array[worker] = number + 1
    if array.ndim == 1 and number % 7 == worker:
        array[8 + worker] = 0     # a chunk that comes and goes, with its directory
        array[8 + worker] = number + 1
"""


@pytest.mark.slow
@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize(
    "options", [{}, {"codecs": "zstd"}, {"shards": 16, "chunks": 2}], ids=["plain", "zstd", "shards"]
)
def test_processes_of_both_executors_lose_no_update(tmp_path: Path, options: dict[str, Any]) -> None:
    settings = {"shape": 16, "chunks": 8, "dtype": "i4", "fill_value": 0, "codecs": None, **options}
    tegula.create_array(tmp_path, **settings)
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    processes = [
        subprocess.Popen(
            [*command, str(worker), str(WORKERS), str(ROUNDS)],
            stdin=subprocess.PIPE,
            env={**os.environ, "TEGULA_EXECUTOR": BOTH[worker % 2], "TEGULA_THREADS": "1"},
        )
        for worker in range(WORKERS)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(300) for process in processes] == [0] * WORKERS
    found = tegula.open_array(tmp_path)[:].tolist()
    assert found[:WORKERS] == [ROUNDS] * WORKERS
    assert found[8 : 8 + WORKERS] == [max(n for n in range(ROUNDS) if n % 7 == w) + 1 for w in range(WORKERS)]
    assert not [*tmp_path.rglob(".tegula-*")]


def dead_writer(path: Path, executor: str, act: Callable[[Any], None]) -> None:
    """Have a child of this process die before it puts a chunk in place."""
    child = os.fork()
    if child == 0:
        try:
            array = opened(path, executor)
            with armed(lambda call, name, in_kernel: os._exit(9) if call == "replace" else None):
                act(array)
        finally:
            os._exit(1)
    assert exit_code(child) == 9


@pytest.mark.slow
@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize("dead", BOTH)
@pytest.mark.parametrize("living", BOTH)
def test_one_sweeps_what_the_other_left(tmp_path: Path, dead: str, living: str) -> None:
    new_array(tmp_path)
    dead_writer(tmp_path, dead, lambda array: write(array, dead, 2, 22))
    assert len([*tmp_path.rglob(".tegula-*.tmp")]) == 1
    program = "import sys, tegula; tegula.open_array(sys.argv[1], 'r+')[5] = 55"
    environment = {**os.environ, "TEGULA_EXECUTOR": living}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment, timeout=120)
    assert [*tmp_path.rglob(".tegula-*.tmp")] == []
    assert tegula.open_array(tmp_path)[:].tolist() == [10, 11, 12, 13, 14, 55, 16, 17]


# --- documents and other single values


@pytest.mark.parametrize("first", BOTH)
def test_no_change_of_a_document_between_any_two_system_calls_is_lost(tmp_path: Path, first: str) -> None:
    second = BOTH[1 - BOTH.index(first)]
    steps: list[str] = []
    for at in range(1000):
        root = tmp_path / str(at)
        new_array(root)
        one, other = opened(root, first), opened(root, second)
        done = []

        def change(root: Path = root, other: Any = other, done: list[bool] = done) -> None:
            if not is_locked(root):  # else it would wait for the writer that waits for it
                with config.configure(executor=second):
                    other.attrs["x"] = 5
                done.append(True)

        fault = Fault(str(root), at, change)
        with armed(fault), config.configure(executor=first):
            one.resize(9)
        if at >= len(fault.log):
            break
        if not done:
            steps.append(fault.log[at][0])
            change()
        found = tegula.open_array(root)
        assert (found.shape, found.attrs.asdict()) == ((9,), {"x": 5}), (at, fault.log[at])
        assert sorted(path.name for path in root.iterdir()) == ["c", "zarr.json"]
    assert "replace" in steps
    assert at > 10
    assert open_files_below(tmp_path) == []


@pytest.mark.parametrize("durability", ["rename", "fsync"])
@pytest.mark.parametrize("executor", BOTH)
def test_each_executor_sets_single_values_without_the_other(tmp_path: Path, executor: str, durability: Any) -> None:
    store = LocalStore(tmp_path, durability=durability)
    calls: list[tuple[str, bool]] = []
    with config.configure(executor=executor):
        first = store.set("a/b", b"one", if_generation=ABSENT)
        with armed(lambda call, path, in_kernel: calls.append((call, in_kernel))):
            second = store.set("a/b", b"two", if_generation=first)
            third = store.set("a/b", b"three")
            new = store.set("a/c", b"", if_generation=ABSENT)
        assert store.get("a/b", with_generation=True) == (b"three", third)
        assert store.get("a/c", with_generation=True) == (b"", new)
        for wrong in (first, second, ABSENT, "another", (1, 2, 3), (1, 2, 3, 4), 7):
            with pytest.raises(ConflictError, match="has changed since it was read") as caught:
                store.set("a/b", b"x", if_generation=wrong)
            assert caught.value.key == "a/b"
    assert len({first, second, third, new}) == 4
    assert (tmp_path / "a" / "b").read_bytes() == b"three"
    assert {in_kernel for _, in_kernel in calls} == {executor == "kernel"}
    assert [call for call, _ in calls].count("fsync") == (6 if durability == "fsync" else 0)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b", "c"]


@pytest.mark.parametrize("what", ["rounded", "link", "buffer"])
def test_the_kernel_leaves_single_values_that_are_unusual_to_python(tmp_path: Path, what: str) -> None:
    store = LocalStore(tmp_path)
    store.set("a/b", b"old")
    if what == "rounded":  # as on a file system with coarse times
        os.utime(tmp_path / "a" / "b", ns=(10**18, 10**18))
    if what == "link":
        (tmp_path / "a" / "b").rename(tmp_path / "a" / "c")
        (tmp_path / "a" / "b").symlink_to("c")
    calls: list[tuple[str, bool]] = []
    with config.configure(executor="kernel"), armed(lambda call, path, in_kernel: calls.append((call, in_kernel))):
        found, generation = store.get("a/b", with_generation=True)
        assert found == b"old"
        made = store.set("a/b", bytearray(b"new") if what == "buffer" else b"new", if_generation=generation)
    assert store.get("a/b", with_generation=True) == (b"new", made)
    assert ("replace", what == "link") in calls  # a link that is followed is as plain as its file
    assert not (tmp_path / "a" / "b").is_symlink()


@pytest.mark.parametrize("executor", BOTH)
def test_a_single_value_waits_for_the_lock_of_its_directory(tmp_path: Path, executor: str) -> None:
    store = LocalStore(tmp_path)
    old = store.set("a/b", b"old")

    def put() -> None:
        with config.configure(executor=executor):
            store.set("a/b", b"new", if_generation=old)

    with Directory(str(tmp_path / "a")) as directory:
        directory._lock(required=True)
        writer = threading.Thread(target=put)
        writer.start()
        writer.join(1)
        assert writer.is_alive()
        assert store.get("a/b") == b"old"
        assert store.reclaim() == 0  # what is being written is no leftover
        directory._unlock(directory.mark)
        writer.join(60)
        assert not writer.is_alive()
    assert store.get("a/b") == b"new"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
