"""Time tegula against zarr-python and TensorStore on the same data, in one run.

Every case is done by all contenders in turn, round after round, so that whatever else the machine does hits them alike;
the table gives the minimum and the median of each, and the ratio of tegula to the fastest of the others (above 1:
tegula is faster). Run it with ``python benches/compare.py``; ``--json FILE`` keeps the figures, and ``--rounds N`` sets
the number of rounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts
import zarr

import tegula

warnings.simplefilter("ignore")
Thunk = Callable[[], Any]


def spec(path: str, format: int) -> dict[str, Any]:
    kvstore = {"driver": "file", "path": path, "file_io_sync": False}
    return {"driver": "zarr" if format == 2 else "zarr3", "kvstore": kvstore, "recheck_cached_data": True}


class Case:
    """One array on disk, written by tegula, and the operations timed on it."""

    def __init__(
        self, root: Path, label: str, format: int, side: int, chunk: int, codecs: Any, shards: int | None
    ) -> None:
        self.label, self.format = label, format
        walk = np.random.default_rng(1).integers(-3, 4, side * side).cumsum()
        self.values = walk.astype("u2").reshape(side, side)
        self.path = str(root / label)
        options: dict[str, Any] = {"shards": (shards, shards)} if shards else {}
        self.tegula = tegula.create_array(
            self.path,
            shape=(side, side),
            chunks=(chunk, chunk),
            dtype="u2",
            codecs=codecs,
            format=f"zarr{format}",
            **options,
        )
        self.tegula[...] = self.values
        self.zarr = zarr.open_array(self.path, mode="r+")
        self.ts = ts.open(spec(self.path, format), open=True).result()
        rng = np.random.default_rng(2)
        self.points = rng.integers(0, side, (200, 2)).tolist()
        self.scattered = tuple(rng.integers(0, side, (2, 500)))
        self.side, self.chunk = side, chunk

    def operations(self) -> dict[str, dict[str, Thunk]]:
        values, points, scattered = self.values, self.points, self.scattered
        window = (slice(self.chunk // 2, 2 * self.chunk),) * 2
        small = (slice(3, 35), slice(5, 37))

        def each(read: Callable[[int, int], Any]) -> Thunk:
            return lambda: [read(i, j) for i, j in points]

        def update_tegula() -> None:
            self.tegula[small] = 7

        def update_zarr() -> None:
            self.zarr[small] = 7

        return {
            "open": {
                "tegula": lambda: tegula.open(self.path),
                "zarr": lambda: zarr.open_array(self.path, mode="r"),
                "tensorstore": lambda: ts.open(spec(self.path, self.format), open=True).result(),
            },
            "read all": {
                "tegula": lambda: self.tegula[...],
                "zarr": lambda: self.zarr[...],
                "tensorstore": lambda: self.ts.read().result(),
            },
            "write all": {
                "tegula": lambda: self.tegula.__setitem__(..., values),
                "zarr": lambda: self.zarr.__setitem__(..., values),
                "tensorstore": lambda: self.ts.write(values).result(),
            },
            "4 chunks": {
                "tegula": lambda: self.tegula[window],
                "zarr": lambda: self.zarr[window],
                "tensorstore": lambda: self.ts[window].read().result(),
            },
            "200 points": {
                "tegula": each(lambda i, j: self.tegula[i, j]),
                "zarr": each(lambda i, j: self.zarr[i, j]),
                "tensorstore": each(lambda i, j: self.ts[i, j].read().result()),
            },
            "500 coordinates": {
                "tegula": lambda: self.tegula.vindex[scattered],
                "zarr": lambda: self.zarr.vindex[scattered],
                "tensorstore": lambda: self.ts.vindex[scattered].read().result(),
            },
            "update 32 x 32": {
                "tegula": update_tegula,
                "zarr": update_zarr,
                "tensorstore": lambda: self.ts[small].write(7).result(),
            },
        }


def blosc(format: int) -> Any:
    if format == 2:
        return {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    return {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}}


def cases(root: Path) -> list[Case]:
    return [
        Case(root, "v2 8 KiB blosc-lz4", 2, 1024, 64, blosc(2), None),
        Case(root, "v2 128 KiB blosc-lz4", 2, 4096, 256, blosc(2), None),
        Case(root, "v2 2 MiB none", 2, 4096, 1024, None, None),
        Case(root, "v3 128 KiB zstd", 3, 2048, 256, "zstd", None),
        Case(root, "v3 128 KiB gzip", 3, 1024, 256, {"name": "gzip", "configuration": {"level": 1}}, None),
        Case(root, "v3 shards 8 MiB of 128 KiB blosc-lz4", 3, 4096, 256, blosc(3), 2048),
    ]


def measure(contenders: dict[str, Thunk], rounds: int) -> dict[str, tuple[float, float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    repeats = {}
    for name, work in contenders.items():
        work()
        start = time.perf_counter()
        work()
        # each sample lasts some milliseconds, so that the clock does not matter
        repeats[name] = max(1, min(100, int(0.005 / max(1e-7, time.perf_counter() - start))))
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                work()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: (min(samples), statistics.median(samples)) for name, samples in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--root", type=Path, help="where to put the arrays (default: a temporary directory)")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.root))
    rows, ratios = [], []
    print(
        f"tegula {tegula.__version__}, zarr {zarr.__version__}, tensorstore, numpy {np.__version__};"
        " microseconds, min (median)"
    )
    try:
        for case in cases(root):
            for operation, contenders in case.operations().items():
                found = measure(contenders, options.rounds)
                best = min(median for name, (_, median) in found.items() if name != "tegula")
                ratio = best / found["tegula"][1]
                ratios.append(ratio)
                rows.append({"case": case.label, "operation": operation, "ratio": ratio, "seconds": found})
                figures = "  ".join(f"{name} {low * 1e6:9.1f} ({mid * 1e6:9.1f})" for name, (low, mid) in found.items())
                print(f"{case.label:38s} {operation:16s} {figures}  x{ratio:.2f}")
                sys.stdout.flush()
    finally:
        shutil.rmtree(root)
    print(f"geometric mean of the ratios to the faster of the others: {statistics.geometric_mean(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
