"""Time mirrors: a sync where nothing, a hundredth or one row has changed, beside programs that compare files.

    python benches/syncing.py --quick                        a small array, two rounds
    python benches/syncing.py --dir /data --rclone rclone    4 GB; rclone has to have its command ``sync``

All contenders take their turn in every round. The peers are ``rclone sync`` and ``rsync -a``, where they are installed,
``cp -r``, which copies everything, and `tegula.convert` of everything into other chunks. The table gives the median
of the seconds; with ``--listing`` also that of the time that listing both sides takes alone.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tegula
from tegula.stores import LocalStore

MB = 10**6


def options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small array, and two rounds")
    parser.add_argument("--rounds", type=int, help="samples of each contender (default: 5; --quick: 2)")
    parser.add_argument("--dir", type=Path, help="where to put the arrays (default: a temporary directory)")
    parser.add_argument("--rclone", default="rclone", metavar="PROGRAM", help="a program with the command sync")
    parser.add_argument("--listing", action="store_true", help="also time listings alone")
    return parser.parse_args()


def has_command(program: str, *command: str) -> bool:
    """Return whether a program is installed, and knows a command."""
    if shutil.which(program) is None:
        return False
    return subprocess.run([program, *command], capture_output=True, check=False).returncode == 0


def run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True)


def copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    run("cp", "-r", source, target)


def listed(*paths: Path) -> None:
    for path in paths:
        for _ in LocalStore(path).list_states(""):
            pass


def contenders(given: argparse.Namespace, source: Path, root: Path) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name; each brings a target of its own up to date."""
    found: dict[str, Callable[[], object]] = {
        "tegula sync": lambda: tegula.sync(source, root / "sync.zarr"),
        "tegula sync, other chunks": lambda: tegula.sync(source, root / "chunks.zarr"),
        "tegula convert, other chunks": lambda: tegula.convert(
            source, root / "converted.zarr", chunks=(20, 2000), overwrite=True
        ),
        "cp -r": lambda: copied(source, root / "cp.zarr"),
    }
    if has_command(given.rclone, "sync", "--help"):
        found["rclone sync"] = lambda: run(given.rclone, "sync", source, root / "rclone.zarr")
    if has_command("rsync", "--version"):
        found["rsync -a"] = lambda: run("rsync", "-a", "--delete", f"{source}/", root / "rsync.zarr")
    if given.listing:
        found["listing of both sides"] = lambda: listed(source, root / "sync.zarr")
    return found


def main() -> None:
    given = options()
    rounds, rows = given.rounds or (2 if given.quick else 5), 400 if given.quick else 20_000
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        root = Path(folder)
        source, chance = root / "source.zarr", np.random.default_rng(0)
        array = tegula.create_array(source, shape=(rows, 2000), chunks=(10, 250), dtype="f8", codecs=False)
        for start in range(0, rows, 100):
            array[start : start + 100] = chance.random((100, 2000))
        tegula.sync(source, root / "chunks.zarr", chunks=(20, 2000))
        timed = contenders(given, source, root)
        for work in timed.values():
            work()

        def change_some() -> None:
            for row in chance.choice(rows // 10, rows // 1000 or 1, replace=False) * 10:
                array[row : row + 10] = chance.random((10, 2000))

        changes: dict[str, Callable[[], object]] = {
            "nothing": lambda: None,
            "a hundredth of the chunks": change_some,
            "one row is new": lambda: array.append(chance.random((1, 2000))),
        }
        print(f"{array.nbytes / MB:.0f} MB in {array.nchunks} chunks, median of {rounds} rounds, in seconds\n")
        print("| changed | " + " | ".join(timed) + " |\n" + "|---" * (len(timed) + 1) + "|")
        for name, change in changes.items():
            samples: dict[str, list[float]] = {one: [] for one in timed}
            for _ in range(rounds):
                change()
                for one, work in timed.items():
                    start_time = time.perf_counter()
                    work()
                    samples[one].append(time.perf_counter() - start_time)
            print(f"| {name} | " + " | ".join(f"{statistics.median(some):.3f}" for some in samples.values()) + " |")


if __name__ == "__main__":
    main()
