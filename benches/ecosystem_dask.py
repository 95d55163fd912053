"""Time a mean that dask computes over arrays of tegula and of zarr-python, as a user would write it.

``rows(directory)`` returns the cases as ``(name, contender, function)``, for other programs to time; arrays that are in
the directory already are used again. By itself, ``python benches/ecosystem_dask.py DIRECTORY`` computes them in turn,
round after round, compares the results, and prints the minimum and the median in seconds. ``--gigabytes N`` sets the
size of the array (4), ``--rounds N`` the number of rounds (5).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr

import tegula

Row = tuple[str, str, Callable[[], float]]
CHUNK = (1024, 1024)
SHARD = (4096, 4096)
WIDTH = 16384
LAYOUTS: dict[str, dict[str, Any]] = {"chunks": {"chunks": CHUNK}, "shards": {"chunks": CHUNK, "shards": SHARD}}


def make(target: Path, layout: dict[str, Any], gigabytes: float) -> None:
    """Store an array of float32 that compresses as measurements do, with the default codecs of Zarr v3."""
    height = max(SHARD[0], round(gigabytes * 2**30 / 4 / WIDTH / SHARD[0]) * SHARD[0])
    a = tegula.create_array(target, shape=(height, WIDTH), dtype="f4", overwrite=True, **layout)
    for number, region in enumerate(a.iter_shards()):
        rng = np.random.default_rng(number)
        shape = tuple(item.stop - item.start for item in region)
        a[region] = np.round(rng.normal(15, 8, shape), 1).astype("f4")
    a.attrs["gigabytes"] = gigabytes  # last: the array is complete


def prepared(directory: Path, name: str, layout: dict[str, Any], gigabytes: float) -> Path:
    """Return the path of an array, which is made unless it is there."""
    path = directory / f"dask-{name}.zarr"
    try:
        ready = tegula.open_array(path).attrs.get("gigabytes") == gigabytes
    except tegula.errors.NotFoundError:
        ready = False
    if not ready:
        make(path, layout, gigabytes)
    return path


def mean(array: Any) -> float:
    """Compute the mean with dask's own choice of blocks, and its scheduler of threads."""
    return float(da.from_array(array).mean(dtype="f8").compute(scheduler="threads"))


def rows(directory: str | Path, gigabytes: float = 4) -> list[Row]:
    """Return the cases: the mean over some gigabytes, by chunks and by shards."""
    found: list[Row] = []
    for name, layout in LAYOUTS.items():
        path = prepared(Path(directory), name, layout, gigabytes)
        case = f"dask mean of {gigabytes:g} GiB by {name}"
        found.append((case, "tegula", lambda path=path: mean(tegula.open(path))))
        found.append((case, "zarr-python", lambda path=path: mean(zarr.open_array(path, mode="r"))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    cases = rows(options.directory, options.gigabytes)
    seconds: dict[tuple[str, str], list[float]] = {(name, contender): [] for name, contender, _ in cases}
    results: dict[str, set[float]] = {name: set() for name, _, _ in cases}
    for _ in range(options.rounds):
        for name, contender, compute in cases:
            start = time.perf_counter()
            results[name].add(compute())
            seconds[name, contender].append(time.perf_counter() - start)
    for name, values in results.items():
        if max(values) - min(values) > 1e-9 * abs(max(values)):
            raise SystemExit(f"{name}: the results differ: {sorted(values)}")
    for (name, contender), times in seconds.items():
        print(f"{name:32} {contender:12} min {min(times):7.2f} s  median {statistics.median(times):7.2f} s")


if __name__ == "__main__":
    main()
