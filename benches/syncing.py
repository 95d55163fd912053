"""Time mirrors: a sync where nothing, a hundredth or one row has changed, beside programs that compare files.

    python benches/syncing.py --quick                        a small array, two rounds
    python benches/syncing.py --dir /data --rclone rclone    4 GB; rclone has to have its command ``sync``
    python benches/syncing.py --bucket --rclone rclone       into a bucket of ``rclone serve s3``; it needs its backend

All contenders take their turn in every round. The peers are ``rclone sync`` and, of files, ``rsync -a``, where they are
installed, ``cp -r``, which copies everything, and `tegula.convert` of everything into other chunks. The tables give the
least and the median of the seconds, and the least processor time of this machine without that of the bucket's server;
with ``--listing`` also those of a listing of both sides alone.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tegula
from tegula.stores import LocalStore

MB = 10**6
KEYS = ("key", "secret")
Seconds = tuple[float, float]
"""By the clock, and of processors."""


def options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small array, and two rounds")
    parser.add_argument("--rounds", type=int, help="samples of each contender (default: 5; --quick: 2)")
    parser.add_argument("--rows", type=int, help="rows of the array, of 16 KB each (default: 20000; --quick: 400)")
    parser.add_argument("--dir", type=Path, help="where to put the arrays (default: a temporary directory)")
    parser.add_argument("--rclone", default="rclone", metavar="PROGRAM", help="a program with the command sync")
    parser.add_argument("--bucket", action="store_true", help="sync into a bucket, not to files")
    parser.add_argument("--listing", action="store_true", help="also time listings alone")
    return parser.parse_args()


def has_command(program: str, *command: str) -> bool:
    """Return whether a program is installed, and knows a command."""
    if shutil.which(program) is None:
        return False
    return subprocess.run([program, *command], capture_output=True, check=False).returncode == 0


def run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True)


@dataclass(frozen=True)
class Place:
    """Where mirrors are kept."""

    root: str  # as tegula and as rclone name it
    rclone_root: str
    storage: dict[str, Any]  # options for tegula

    @property
    def is_local(self) -> bool:
        """Whether mirrors are files."""
        return not self.storage

    def options(self) -> dict[str, Any]:
        """Return the arguments of functions of tegula with a target there."""
        return {} if self.is_local else {"target_storage_options": self.storage}

    def flags(self) -> list[str]:
        """Return the same for the program."""
        pairs = [["--target-storage-option", f"{name}={value}"] for name, value in self.storage.items()]
        return [word for pair in pairs for word in pair]

    def store(self, name: str) -> Any:
        """Return the store of a mirror."""
        path = f"{self.root}/{name}"
        return LocalStore(path) if self.is_local else tegula.store_of(path, storage_options=self.storage)


@contextmanager
def bucket(rclone: str, folder: Path) -> Iterator[Place]:
    """Serve a bucket."""
    (folder / "buckets" / "mirrors").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    server = subprocess.Popen(
        [rclone, "serve", "s3", "--addr", address, "--auth-key", ",".join(KEYS), "--config", "", folder / "buckets"],
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        keys = {"access_key_id": KEYS[0], "secret_access_key": KEYS[1], "region": "us-east-1"}
        remote = f":s3,provider=Rclone,access_key_id={KEYS[0]},secret_access_key={KEYS[1]},endpoint='http://{address}'"
        storage = {**keys, "endpoint": f"http://{address}", "allow_http": "true"}
        yield Place("s3://mirrors", f"{remote}:mirrors", storage)
    finally:
        server.terminate()
        server.wait()


def copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    run("cp", "-r", source, target)


def listed(*stores: Any) -> None:
    for store in stores:
        for _ in store.list_states(""):
            pass


def contenders(given: argparse.Namespace, source: Path, place: Place) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name; each brings a target of its own up to date."""
    root, options, program = place.root, place.options(), [sys.executable, "-m", "tegula", "sync", "-q", *place.flags()]
    found: dict[str, Callable[[], object]] = {
        "`tegula.sync`": lambda: tegula.sync(source, f"{root}/sync.zarr", **options),
        "tegula sync": lambda: run(*program, source, f"{root}/program.zarr"),
        "tegula.sync, other chunks": lambda: tegula.sync(source, f"{root}/chunks.zarr", **options),
        "tegula.convert, other chunks": lambda: tegula.convert(
            source, f"{root}/converted.zarr", chunks=(20, 2000), overwrite=True, **options
        ),
    }
    if has_command(given.rclone, "sync", "--help"):
        rclone = given.rclone, "sync", "--config", ""
        found["rclone sync"] = lambda: run(*rclone, source, f"{place.rclone_root}/rclone.zarr")
    if place.is_local:
        found["cp -r"] = lambda: copied(source, Path(root, "cp.zarr"))
        if has_command("rsync", "--version"):
            found["rsync -a"] = lambda: run("rsync", "-a", "--delete", f"{source}/", f"{root}/rsync.zarr")
    if given.listing:
        stores = LocalStore(source), place.store("sync.zarr")
        found["listing of both sides"] = lambda: listed(*stores)
    return found


def now() -> Seconds:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    given = options()
    rounds, rows = given.rounds or (2 if given.quick else 5), given.rows or (400 if given.quick else 20_000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.dir)))
        place = Place(str(folder), str(folder), {})
        if given.bucket:
            place = stack.enter_context(bucket(given.rclone, folder))
        source, chance = folder / "source.zarr", np.random.default_rng(0)
        array = tegula.create_array(source, shape=(rows, 2000), chunks=(10, 250), dtype="f8", codecs=False)
        for start in range(0, rows, 100):
            array[start : start + 100] = chance.random((min(100, rows - start), 2000))
        tegula.sync(source, f"{place.root}/chunks.zarr", chunks=(20, 2000), **place.options())
        timed = contenders(given, source, place)
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
        print(f"{array.nbytes / MB:.0f} MB in {array.nchunks} chunks, {rounds} rounds")
        print("Seconds: the least and the median by the clock, the least of processors\n")
        print("| changed | " + " | ".join(timed) + " |\n" + "|---" * (len(timed) + 1) + "|")
        for name, change in changes.items():
            samples: dict[str, list[Seconds]] = {one: [] for one in timed}
            for _ in range(rounds):
                change()
                for one, work in timed.items():
                    before = now()
                    work()
                    after = now()
                    samples[one].append((after[0] - before[0], after[1] - before[1]))
            cells = []
            for some in samples.values():
                clock, used = zip(*some)
                cells.append(f"{min(clock):.3f}, {statistics.median(clock):.3f}, {min(used):.3f}")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
