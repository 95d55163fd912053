"""The limit: the program in ``limit/``, built when it is needed, and what it is asked to do in each regime."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cases import SHARD, Box, Case, Values, box_key
from places import Place
from process import Process

from contenders.interface import Lacking

CRATE = Path(__file__).parents[1] / "limit"
CODECS = {"none": "none", "lz4": "blosc-lz4", "bzstd": "blosc-zstd", "zstd": "zstd"}


def build() -> Path:
    """Return the program, built for this machine's processor."""
    if shutil.which("cargo") is None:
        raise Lacking("there is no cargo to build it with")
    flags = os.environ.get("RUSTFLAGS", "-C target-cpu=native")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-j", "2"]
    done = subprocess.run(
        command, check=False, cwd=CRATE, env={**os.environ, "RUSTFLAGS": flags}, capture_output=True, text=True
    )
    if done.returncode:
        raise Lacking(f"it was not built: {done.stderr.strip()[-300:]}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", CRATE / "target"))
    return target / "release" / "limit"


def describe(case: Case, path: Path) -> dict[str, Any]:
    deflate = "zlib" if case.format == "zarr2" else "gzip"
    return {
        "path": str(path),
        "document": ".zarray" if case.format == "zarr2" else "zarr.json",
        "shape": case.shape,
        "chunk": case.chunks,
        "shard": SHARD if case.sharded else None,
        "item": case.item,
        "codec": CODECS.get(case.codec, deflate),
        "fortran": case.order == "F",
        "format": case.format,
    }


def _whole(case: Case) -> list[Box]:
    return [(0, case.shape[0], 0, case.shape[1])]


def _points(case: Case, points: list[tuple[int, ...]]) -> list[Box]:
    return [(row, row + 1, column, column + 1) for row, column in points]


AREAS: dict[str, Callable[[Case], list[Box]]] = {
    "read": _whole,
    "first read": _whole,
    "points": lambda case: _points(case, case.points(case.operations)),
    "element": lambda case: _points(case, case.points(1) * case.operations),
    "windows": lambda case: case.windows(case.operations),
    "four chunks": lambda case: case.fours(20),
    "columns": lambda case: [(0, case.shape[0], column, column + 1) for column in case.columns(2)],
}


class LimitSeat:
    """The limit, at the table with the others."""

    name = "limit"

    def __init__(self) -> None:
        self.process = Process([str(build())])
        self.single = False
        self.job: dict[str, Any] = {}

    def begin(self, regime: str, case: Case, place: Place) -> None:
        if case.format == "bcolz":
            raise Lacking("it reads and writes Zarr's chunks only")
        self.case, self.place, self.regime = case, place, regime
        self.single = regime in ("first read", "write", "append", "shrink")
        self.process.ask(do="values", path=str(place.values_file))
        try:
            self.prepare()
            self._before()
            self._check()
        except AssertionError as error:
            raise Lacking(f"AssertionError: {error}") from error

    def prepare(self) -> None:
        """Decide what is asked, and where."""
        case, regime = self.case, self.regime
        path = self.place.shared
        rows = [[0, case.shape[0]]]
        if regime in AREAS:
            self.job = {"do": "read", "areas": AREAS[regime](case), "fresh": regime == "first read"}
        elif regime == "vectorised points":
            self.job = {"do": "points", "points": case.points(500)}
        elif regime in ("write", "overwrite"):
            self.job = {"do": "write", "blocks": rows, "grows": False}
        elif regime == "append":
            self.job = {"do": "write", "blocks": case.blocks(), "grows": True}
        elif regime == "update":
            boxes = case.updates(max(4, case.operations // 4))
            self.job = {"do": "update", "areas": boxes, "value": list(np.array(7, case.dtype).tobytes())}
        elif regime == "open":
            self.job = {"do": "first"}
        elif regime in ("grow", "shrink"):
            self.job = {"do": regime}
        else:
            raise Lacking("it has no such regime")
        if regime in ("overwrite", "update", "grow"):
            path = self.place.private(self.name)
            self.place.discard(self.name)
            shutil.copytree(self.place.shared, path)
        self.open(path)

    def open(self, path: Path) -> None:
        self.process.ask(do="open", array=describe(self.case, path))

    def _before(self) -> None:
        if self.regime in ("write", "append"):
            self.open(self.place.bare(self.name))
        elif self.regime == "shrink":
            self.open(self.place.linked(self.name))

    def _check(self) -> None:
        """Do it once and compare what came of it."""
        job, values = self.job, self.place.values
        if job["do"] in ("read", "points"):
            saved = self.place.root / "saved"
            self.process.ask(**job, times=1, save=str(saved))
            found: Values = np.fromfile(saved, self.case.dtype)
            saved.unlink()
            source = values()
            if job["do"] == "points":
                expected = source[tuple(np.array(job["points"]).T)]
            else:
                expected = np.concatenate([source[box_key(box)].reshape(-1) for box in job["areas"]])
            assert np.array_equal(found, expected), "it read something else"
            return
        self.process.ask(**job, times=1)
        if job["do"] in ("write", "update"):
            expected = values()
            for box in job.get("areas", ()):
                expected[box_key(box)] = 7
            found = self.place.stored(self.place.private(self.name))
            assert np.array_equal(found, expected), "it wrote something else"

    def sample(self, times: int) -> float:
        self._before()
        job = dict(self.job)
        if job["do"] in ("read", "points"):
            job["save"] = None
        seconds = float(self.process.ask(**job, times=times)["seconds"])
        # a run of the others is ten changes of the length
        return seconds * 10 if job["do"] == "grow" else seconds

    def end(self) -> None:
        self.place.discard(self.name)

    def group(self, **job: Any) -> float:
        """Return the seconds of a job about a group."""
        return float(self.process.ask(**job, times=1)["seconds"])

    def stop(self) -> None:
        self.process.stop()
