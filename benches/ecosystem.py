"""Integrations beside the libraries they are made for: the same program, with tegula and without.

Each row is one operation; its contenders take turns, and the shortest time of each counts. A family of rows is a
function that yields rows; `FAMILIES` names them all. Run ``python benches/ecosystem.py [FAMILY …] [--quick]``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], Any]


@dataclass
class Row:
    """One operation, and what each contender calls for it.

    Parameters
    ----------
    name : str
        What is done.
    contenders : dict of str to callable
        The calls; the first one is tegula's.
    defaults : tuple of str
        Contenders that users have without doing anything.
    """

    name: str
    contenders: dict[str, Run]
    defaults: tuple[str, ...] = ()
    times: dict[str, float] = field(default_factory=dict)

    def time(self, seconds: float) -> None:
        """Let the contenders take turns until each has run for `seconds`, and keep the shortest time of each."""
        for run in self.contenders.values():
            run()
        spent = dict.fromkeys(self.contenders, 0.0)
        turns = 0
        while turns < 3 or min(spent.values()) < seconds:
            for name, run in self.contenders.items():
                begin = time.perf_counter()
                run()
                taken = time.perf_counter() - begin
                spent[name] += taken
                self.times[name] = min(taken, self.times.get(name, taken))
            turns += 1

    @property
    def ratios(self) -> tuple[float, float]:
        """How many times as fast tegula is as the defaults, and as the best of all others."""
        own, *others = self.times
        best = min(self.times[name] for name in others)
        usual = min((self.times[name] for name in others if name in self.defaults), default=best)
        return usual / self.times[own], best / self.times[own]


def zarr_python(folder: Path, quick: bool) -> Iterator[Row]:
    """Codec pipelines of zarr-python: reading and writing whole arrays, slices, single elements and points."""
    zarr = import_module("zarr")
    import_module("tegula.zarr")
    paths = {
        "tegula": "tegula.zarr.Pipeline",
        "zarr-python": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    }
    if hasattr(import_module("zarr.core.codec_pipeline"), "FusedCodecPipeline"):
        paths["fused"] = "zarr.core.codec_pipeline.FusedCodecPipeline"
    if find_spec("zarrs") is not None:
        import_module("zarrs")
        paths["zarrs"] = "zarrs.ZarrsCodecPipeline"
    side = 1024 if quick else 4096
    values = np.random.default_rng(1).integers(-3, 4, (side, side), dtype="i4").cumsum(axis=1).astype("i4")
    zstd = zarr.codecs.ZstdCodec(level=1)
    lz4 = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    cases: dict[str, dict[str, Any]] = {
        "256 kB chunks, blosc": {"chunks": (256, 256), "compressors": lz4},
        "256 kB chunks, zstd": {"chunks": (256, 256), "compressors": zstd},
        "256 kB chunks, none": {"chunks": (256, 256), "compressors": None},
        "4 kB chunks, blosc": {"chunks": (32, 32), "shape": (side // 4, side // 4), "compressors": lz4},
        "shards of 64 chunks, blosc": {"chunks": (128, 128), "shards": (1024, 1024), "compressors": lz4},
    }
    for name, options in cases.items():
        for place in ("files", "memory"):
            arrays = {}
            shape = options.get("shape", values.shape)
            own = values[: shape[0], : shape[1]]
            for contender, path in paths.items():
                if contender == "zarrs" and place == "memory":
                    continue
                with zarr.config.set({"codec_pipeline.path": path}):
                    target = folder / f"{name}-{contender}" if place == "files" else {}
                    create = {**options, "shape": shape, "dtype": "i4"}
                    arrays[contender] = zarr.create_array(target, overwrite=True, **create)
            yield from _zarr_rows(f"{name}, {place}", arrays, own)


def _zarr_rows(name: str, arrays: dict[str, Any], values: Any) -> Iterator[Row]:
    half, rng = values.shape[0] // 2, np.random.default_rng(2)
    points = tuple(rng.integers(0, size, 200) for size in values.shape)
    rows = np.sort(rng.choice(values.shape[0], 50, replace=False))
    operations: dict[str, Callable[[Any], Any]] = {
        "write all": lambda a: a.__setitem__(..., values),
        "read all": lambda a: a[...],
        "read a slice": lambda a: a[half - 100 : half + 100, 10:-10],
        "read every 7th row": lambda a: a[::7],
        "read an element": lambda a: a[half, 5],
        "read 50 rows": lambda a: a.oindex[rows],
        "read 200 points": lambda a: a.vindex[points],
        "write a slice": lambda a: a.__setitem__((slice(half - 50, half + 50), slice(3, 203)), 1),
    }
    for operation, act in operations.items():
        contenders = {contender: (lambda a=array, act=act: act(a)) for contender, array in arrays.items()}
        yield Row(f"{name}: {operation}", contenders, defaults=("zarr-python",))


def _gathered(triples: Iterable[tuple[str, str, Run]]) -> Iterator[Row]:
    """Yield a row for each operation of (operation, contender, function), with tegula first."""
    rows: dict[str, dict[str, Run]] = {}
    for name, contender, run in triples:
        rows.setdefault(name, {})[contender] = run
    for name, contenders in rows.items():
        first = next(contender for contender in contenders if contender.startswith("tegula"))
        usual = tuple(contender for contender in contenders if contender.startswith("zarr-python"))
        yield Row(name, {first: contenders[first], **contenders}, defaults=usual)


def xarray(folder: Path, quick: bool) -> Iterator[Row]:
    """Engines of xarray: opening, loading, a time series and a map."""
    yield from _gathered(import_module("ecosystem_xarray").rows(folder, 4 if quick else 60))


def dask(folder: Path, quick: bool) -> Iterator[Row]:
    """Arrays of dask: a mean over all elements."""
    yield from _gathered(import_module("ecosystem_dask").rows(folder, 0.25 if quick else 4))


def tables(folder: Path, quick: bool) -> Iterator[Row]:
    """Queries of tables: by polars, DuckDB, pyarrow, bcolz, and by arrays alone."""
    yield from _gathered(import_module("ecosystem_tables").rows(folder, 10**6 if quick else 10**7))


def batches(folder: Path, quick: bool) -> Iterator[Row]:
    """Random batches for training: an epoch by the loader of the documentation, over arrays of each library."""
    yield from _gathered(import_module("ecosystem_batches").rows(folder, 2_000 if quick else 20_000))


FAMILIES: dict[str, Callable[[Path, bool], Iterator[Row]]] = {
    "zarr-python": zarr_python,
    "xarray": xarray,
    "dask": dask,
    "tables": tables,
    "batches": batches,
}


def main() -> int:
    """Time the families that are asked for, print a line for each row, and write all times as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY", help=f"which rows: {', '.join(FAMILIES)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="small arrays, little time")
    parser.add_argument("--seconds", type=float, default=None, help="time for each contender of a row")
    parser.add_argument("--json", type=Path, help="where to write the times")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seconds = options.seconds if options.seconds is not None else (0.05 if options.quick else 1.0)
    results = []
    folder = Path(tempfile.mkdtemp(prefix="ecosystem-"))
    try:
        for family in options.families or FAMILIES:
            for row in FAMILIES[family](folder, options.quick):
                row.time(seconds)
                usual, best = row.ratios
                shown = "  ".join(f"{name} {1000 * taken:.2f} ms" for name, taken in row.times.items())
                print(f"{usual:6.2f}x {best:6.2f}x  {row.name:60s} {shown}", flush=True)
                results.append({"row": row.name, "times": row.times, "default": usual, "best": best})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
