"""How rates grow with threads, shown on a machine with few cores: with stores that wait, as disks and networks do.

Waiting needs no core. So if each request takes two milliseconds, N threads finish N times as many chunks in the same
time, unless something lets only one thread at a time go on: a lock, or the interpreter's. What remains is processor
time, which needs as many cores: rows without a wait show it, on a machine that has them.

    python benches/scaling.py                     # the table
    python benches/scaling.py --only 'local'      # some of the rows
    python benches/scaling.py --locks             # calls of futex for each chunk: waits for locks (needs strace)

The first column is the rate with one thread, the others say how many times as much it is with more.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tegula
from tegula import config
from tegula.runtime import executors
from tegula.stores import MemoryStore

CHUNKS, ROWS = 512, 1024
THREADS = (1, 2, 4, 8, 16)
Run = Callable[[], Any]


class WaitingStore(MemoryStore):
    """Values in memory that take a time to come and to go; a local store, so that the setting `threads` is in force."""

    wait = 0.0

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        """Wait, and return a value."""
        if self.wait:
            time.sleep(self.wait)
        return super().get(key, *args, **options)

    def set(self, key: str, *args: Any, **options: Any) -> Any:
        """Wait, and store a value."""
        if self.wait:
            time.sleep(self.wait)
        return super().set(key, *args, **options)


@dataclass(frozen=True)
class Case:
    """One row: makes an array in a store, and the work of `threads` threads on it."""

    name: str
    make: Callable[[Path, float], Any]
    work: Callable[[Any, int], int]
    waits: bool = True
    executor: str = "kernel"


# --- arrays


def local(path: Path, wait: float, **options: Any) -> Any:
    """Make an array of local files; the kernel waits before it opens a file for reading, and before it renames one."""
    array = _filled(path / "x.zarr", **options)
    library = executors.choose("kernel")
    assert library is not None
    places = {"openat2", "renameat"}
    library.faults((lambda call, path: time.sleep(wait) if call in places and "c" in path else None) if wait else None)
    return array


def python(path: Path, wait: float, **options: Any) -> Any:
    """Make an array in a store that is written in Python."""
    store = WaitingStore()
    array = _filled(store, **options)
    store.wait = wait
    return array


def sharded(path: Path, wait: float) -> Any:
    """Make an array of shards in a store that is written in Python."""
    return python(path, wait, shards=ROWS * 4)


def cached(path: Path, wait: float) -> Any:
    """Make an array of local files, all of whose chunks are kept decoded."""
    array = local(path, wait)
    config._put(cache_bytes=2**28)
    array[...]
    return array


def _filled(target: Any, **options: Any) -> Any:
    array = tegula.create_array(target, shape=CHUNKS * ROWS, chunks=ROWS, dtype="i8", **options)
    array[...] = np.arange(array.size)
    return array


# --- work: each returns the number of chunks


def read(array: Any, threads: int) -> int:
    """Read the whole array in one call."""
    with config.configure(threads=threads):
        array[...]
    return CHUNKS


def write(array: Any, threads: int) -> int:
    """Write the whole array in one call."""
    with config.configure(threads=threads):
        array[...] = np.arange(array.size)
    return CHUNKS


def update(array: Any, threads: int) -> int:
    """Change one element of each chunk in one call."""
    with config.configure(threads=threads):
        array[::ROWS] = 1
    return CHUNKS


def points(array: Any, threads: int) -> int:
    """Read single elements, each in a call of its own, in threads of Python."""
    each = CHUNKS * 4 // threads

    def run(first: int) -> None:
        for number in range(each):
            array[(first + number * 7) % CHUNKS * ROWS + 5]

    return _in_threads([lambda first=first: run(first * 31) for first in range(threads)]) * each


def opened(array: Any, threads: int) -> int:
    """Open the array again, and read an element, in threads of Python."""
    each = 512 // threads
    target = array.store

    def run() -> None:
        for _ in range(each):
            tegula.open_array(target)[5]

    return _in_threads([run] * threads) * each


def _in_threads(runs: list[Run]) -> int:
    with config.configure(threads=1):
        threads = [threading.Thread(target=run) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return len(runs)


CASES = [
    Case("local files that wait: read", local, read),
    Case("local files that wait: write", local, write),
    Case("local files that wait: update", local, update),
    Case("local files that wait: points in Python threads", local, points),
    Case("Python store that waits: read", python, read),
    Case("Python store that waits: write", python, write),
    Case("Python store that waits: update", python, update),
    Case("Python store that waits: read shards", sharded, read),
    Case("Python store that waits: points in Python threads", python, points),
    Case("Python store that waits: points in shards, Python threads", sharded, points),
    Case("Python store that waits: open and read in Python threads", python, opened),
    Case("reference executor, Python store that waits: read", python, read, executor="reference"),
    Case("reference executor, Python store that waits: write", python, write, executor="reference"),
    Case("local files: read", local, read, waits=False),
    Case("local files: write", local, write, waits=False),
    Case("local files: update", local, update, waits=False),
    Case("local files: points in Python threads", local, points, waits=False),
    Case("chunks kept: points in Python threads", cached, points, waits=False),
    Case("memory: points in Python threads", python, points, waits=False),
    Case("memory: open and read in Python threads", python, opened, waits=False),
]


def main() -> None:
    """Print the table, or the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression that the names of rows match")
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wait", type=float, default=2, help="milliseconds that a request takes")
    parser.add_argument("--place", type=Path, help="where local files are put (default: a temporary directory)")
    parser.add_argument("--locks", action="store_true", help="count the waits for locks instead of measuring rates")
    parser.add_argument("--times", type=int, default=0, help="do the work of one row this often, and print nothing")
    given = parser.parse_args()
    cases = [case for case in CASES if re.search(given.only, case.name)]
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'with' if gil else 'without'} the interpreter's lock;", end=" ")
    print(f"{config._usable_cores()} cores; chunks of {ROWS * 8} bytes; a wait takes {given.wait:g} ms")
    if given.locks:
        count_waits(cases, max(given.threads))
        return
    if not given.times:
        print("| |", " | ".join(f"{threads}" for threads in given.threads), "|")
        print("|---|", "---|" * len(given.threads))
    for case in cases:
        with tempfile.TemporaryDirectory(dir=given.place) as place, config.configure(executor=case.executor):
            array = case.make(Path(place), given.wait / 1000 if case.waits else 0)
            if given.times:
                for _ in range(given.times):
                    case.work(array, given.threads[0])
            else:
                print(f"| {case.name} |", " | ".join(rates(case, array, given)), "|", flush=True)
            config._put(cache_bytes=0)
            if library := executors.choose("auto"):
                library.faults(None)


def rates(case: Case, array: Any, given: argparse.Namespace) -> list[str]:
    """Return the rate with the first number of threads, in chunks or calls a second, and the others relative to it."""
    best = dict.fromkeys(given.threads, 0.0)
    for _ in range(1 if case.waits else given.rounds):
        for threads in given.threads:
            start = time.perf_counter()
            done = case.work(array, threads)
            best[threads] = max(best[threads], done / (time.perf_counter() - start))
    first, *others = best.values()
    return [f"{first:,.0f}/s", *(f"{rate / first:.2f}" for rate in others)]


def count_waits(cases: list[Case], threads: int) -> None:
    """Print the calls of futex for each chunk and number of threads: what more rounds of the same work add."""
    print(f"| {threads} threads | futex calls a chunk |\n|---|---|")
    for case in cases:
        few, many = (_futex_calls(case, threads, times) for times in (2, 6))
        chunks = 4 * (CHUNKS * 4 if case.work is points else 512)
        print(f"| {case.name} | {(many - few) / chunks:.3f} |", flush=True)


def _futex_calls(case: Case, threads: int, times: int) -> int:
    command = [sys.executable, __file__, "--only", f"^{re.escape(case.name)}$", "--threads", f"{threads}"]
    with tempfile.NamedTemporaryFile("r") as report:
        tracing = ["strace", "-f", "-c", "-e", "trace=futex", "-o", report.name]
        subprocess.run([*tracing, *command, "--times", f"{times}"], check=True, stdout=subprocess.DEVNULL)
        lines = [line.split() for line in report if line.rstrip().endswith("futex")]
    return int(lines[0][3]) if lines else 0


if __name__ == "__main__":
    main()
