"""Time jobs: copies beside ``cp -r``, other codecs beside the kernel's own rate, other chunks beside other libraries.

All contenders take their turn in every round, so that whatever else the machine does hits them alike. Arrays with new
chunks are compared with the source. The peers run in fresh processes of interpreters that have them:

    python benches/jobs.py --quick                              small arrays, two rounds
    python benches/jobs.py --dir /data --json jobs.json         4 GB
    python benches/jobs.py --peers ENV/bin/python --rechunker OTHER/bin/python

``--peers`` names an interpreter with dask, distributed, cubed and zarr 3, ``--rechunker`` one with rechunker and
zarr 2; ``zarrs_reencode`` is taken from the path. The tables give seconds, bytes a second, the ratio to the first row
(above 1: faster), and the peak of the resident memory above that of a process in which everything is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tegula
from tegula import config

HERE = Path(__file__).parent
MB = 10**6
Samples = dict[str, list[float]]


def options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small arrays, and two rounds")
    parser.add_argument("--rounds", type=int, help="samples of each contender (default: 5; --quick: 2)")
    parser.add_argument("--parts", default="copy,recompress,rechunk", help="what to measure (default: all)")
    parser.add_argument("--dir", type=Path, help="where to put the arrays (default: a temporary directory)")
    parser.add_argument("--memory", type=int, help="bytes of memory for new chunks (default: 512 MB; --quick: 64 MB)")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with dask, cubed and zarr 3")
    parser.add_argument("--rechunker", metavar="PYTHON", help="an interpreter with rechunker and zarr 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures")
    return parser.parse_args()


class Bench:
    """The measurements of one run."""

    def __init__(self, given: argparse.Namespace, root: Path) -> None:
        self.given, self.root = given, root
        self.rounds = given.rounds or (2 if given.quick else 5)
        self.figures: dict[str, Any] = {}

    # -- copies

    def copy(self) -> None:
        """Copy the same files by ``cp -r``, `tegula.copy` and `tegula.convert`."""
        total = 128 * MB if self.given.quick else 4000 * MB
        for chunk in (128 * 1024, 512 * 1024, 2048 * 1024):
            source = self.root / f"copy-{chunk}.zarr"
            number = total // chunk
            for codecs in (None, "lz4"):
                self._stored(source, number, chunk, codecs)
                nbytes = tegula.open_array(source).nbytes_stored()
                target = self.root / "copied.zarr"
                ways: dict[str, Callable[[], object]] = {
                    "cp -r": lambda s=source, t=target: subprocess.run(["cp", "-r", s, t], check=True),
                    "tegula.copy": lambda s=source, t=target: tegula.copy(s, t),
                    "tegula.convert": lambda s=source, t=target: tegula.convert(s, t, format="zarr3"),
                }
                name = f"copy {number} chunks of {chunk // 1024} KiB, {codecs or 'uncompressed'}"
                self._report(name, self._timed(ways, target), nbytes)
                shutil.rmtree(source)

    @staticmethod
    def _stored(source: Path, number: int, chunk: int, codecs: str | None) -> None:
        compressor = None if codecs is None else {"id": "blosc", "cname": "lz4", "shuffle": 1}
        length = chunk // 2
        array = tegula.create_array(
            source, shape=number * length, chunks=length, dtype="u2", codecs=compressor, format="zarr2"
        )
        noise = np.random.default_rng(1).integers(0, 2**12 if codecs else 2**16, 16 * length, "u2")
        for start in range(0, array.size, noise.size):
            array[start : start + noise.size] = (noise + np.uint16(start // length))[: array.size - start]

    # -- compression anew

    def recompress(self) -> None:
        """Give chunks another codec; the limit is what the kernel does with one thread in memory, times the cores."""
        rows, length = 64 if self.given.quick else 1024, 2**19
        shape, chunks = (rows * length,), (length,)
        values = np.random.default_rng(0).integers(-3, 4, (64, length), "i2").cumsum(1, "i2").reshape(-1)
        source = self.root / "packed.zarr"
        array = tegula.create_array(
            source, shape=shape, chunks=chunks, dtype="i2", codecs={"id": "lz4"}, format="zarr2"
        )
        for start in range(0, array.size, values.size):
            array[start : start + values.size] = values
        cores = config.current().threads
        memory = tegula.MemoryStore()
        tegula.convert(tegula.open_array(source), memory, select=slice(0, values.size))
        block = tegula.open_array(memory)
        for codecs in ("zstd", "gzip"):
            single: list[float] = []

            def alone(codecs: str = codecs, single: list[float] = single) -> None:
                with config.configure(threads=1):
                    target = tegula.create_array(
                        {}, shape=block.shape, chunks=chunks, dtype="i2", codecs=codecs, format="zarr3"
                    )
                    start = time.perf_counter()
                    target[...] = block[...]
                    single.append((time.perf_counter() - start) * rows / 64 / cores)

            target = self.root / "repacked.zarr"
            ways: dict[str, Callable[[], object]] = {
                "limit": alone,
                "tegula.convert": lambda codecs=codecs, t=target: tegula.convert(source, t, codecs=codecs),
            }
            samples = self._timed(ways, target)
            samples["limit"] = single
            self._report(f"lz4 to {codecs}, limit is one thread times {cores}", samples, array.nbytes)
        shutil.rmtree(source)

    # -- new chunks

    def rechunk(self) -> None:
        """Give maps the chunks of series, and back, in the same memory."""
        quick = self.given.quick
        memory = self.given.memory or (64 * MB if quick else 512 * MB)
        shape = (1000, 100, 200) if quick else (10_000, 300, 300)
        maps, series = (1, *shape[1:]), (shape[0], 10, 10)
        for name, old, new in (("maps to series", maps, series), ("series to maps", series, maps)):
            source = self.root / "old.zarr"
            codec = {"id": "blosc", "cname": "lz4", "shuffle": 1}
            array = tegula.create_array(source, shape=shape, chunks=old, dtype="f4", codecs=codec, format="zarr2")
            for start in range(0, shape[0], 500):
                values = np.random.default_rng(start).integers(0, 999, (500, *shape[1:]))
                array[start : start + 500] = values[: shape[0] - start]
            target = self.root / "new.zarr"
            peaks: dict[str, list[int]] = {}
            samples: Samples = {}
            why: dict[str, str] = {}
            for _ in range(self.rounds):
                for peer, command in self._peers(source, target, old, new, memory).items():
                    if peer in why:
                        continue
                    with cleared(target), cleared(self.root / "scratch"):
                        try:
                            seconds, peak = asked(command)
                            self._check(array, target, peer)
                        except (RuntimeError, AssertionError, tegula.errors.TegulaError) as error:
                            why[peer] = str(error)[-300:]
                            continue
                        samples.setdefault(peer, []).append(seconds)
                        peaks.setdefault(peer, []).append(peak)
            self._report(f"{name}, {array.nbytes / MB:.0f} MB in {memory / MB:.0f} MB", samples, array.nbytes, peaks)
            for peer, reason in why.items():
                print(f"    {peer}: {reason}")
            shutil.rmtree(source)

    def _peers(self, source: Path, target: Path, old: Any, new: Any, memory: int) -> dict[str, list[str]]:
        facts = json.dumps([str(source), str(target), str(self.root / "scratch"), new, memory, old])
        worker = str(HERE / "jobs_peers.py")
        found = {"tegula": [sys.executable, worker, "tegula", facts]}
        if self.given.rechunker:
            found["rechunker"] = [self.given.rechunker, worker, "rechunker", facts]
        if self.given.peers:
            found |= {peer: [self.given.peers, worker, peer, facts] for peer in ("dask", "cubed")}
        if shutil.which("zarrs_reencode"):
            found["zarrs_reencode"] = [sys.executable, worker, "zarrs_reencode", facts]
        return found

    @staticmethod
    def _check(array: tegula.Array, target: Path, peer: str) -> None:
        found = tegula.open_array(target)
        for start in (0, array.shape[0] // 2, array.shape[0] - 1):
            assert np.array_equal(found[start], array[start]), f"{peer} has changed the values"

    # -- what all have in common

    def _timed(self, ways: dict[str, Callable[[], object]], target: Path) -> Samples:
        samples: Samples = {name: [] for name in ways}
        for _ in range(self.rounds):
            for name, way in ways.items():
                with cleared(target):
                    start = time.perf_counter()
                    way()
                    samples[name].append(time.perf_counter() - start)
        return samples

    def _report(self, title: str, samples: Samples, nbytes: int, peaks: dict[str, list[int]] | None = None) -> None:
        print(f"\n{title}\n{'':16}{'least s':>10}{'median s':>10}{'MB/s':>9}{'ratio':>8}{'peak MB':>9}")
        first = next(iter(samples), None)
        for name, times in samples.items():
            ratio = statistics.median(samples[first or name]) / statistics.median(times)
            peak = f"{max(peaks[name]) / MB:9.0f}" if peaks else ""
            row = f"{min(times):10.3f}{statistics.median(times):10.3f}{nbytes / MB / min(times):9.0f}{ratio:8.2f}{peak}"
            print(f"{name:16}{row}", flush=True)
        self.figures[title] = {"seconds": samples, "nbytes": nbytes, "peak": peaks}


@contextmanager
def cleared(path: Path) -> Iterator[None]:
    """Remove a directory before and after."""
    shutil.rmtree(path, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)


def asked(command: list[str]) -> tuple[float, int]:
    """Return the seconds and the peak of memory that a process in which a peer works prints."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=3600, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:] or f"ended with {done.returncode}")
    seconds, peak = json.loads(done.stdout.strip().splitlines()[-1])
    return float(seconds), int(peak)


def main() -> None:
    given = options()
    root = Path(tempfile.mkdtemp(prefix="tegula-jobs-", dir=given.dir))
    try:
        bench = Bench(given, root)
        for part in given.parts.split(","):
            getattr(bench, part)()
        if given.json:
            given.json.write_text(json.dumps(bench.figures, indent=1))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
