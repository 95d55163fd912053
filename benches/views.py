"""Time views: making them, reading through them, and arrays made of arrays, beside selections and other libraries.

``python benches/views.py`` makes views with tegula, TensorStore and dask (microseconds for a selection); reads an array
of Zarr v3 directly, through a view, and through views of TensorStore and dask (milliseconds); and reads ``--members``
arrays, of four formats in turn, as one array (milliseconds), beside the same chunks in one array, and beside
TensorStore's ``concat`` and dask's ``concatenate`` of arrays that are all Zarr v3. Contenders take turns, ``--rounds``
times; the table has the minimum and the median. Each read is compared with NumPy's selection first.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import tensorstore

import tegula

SHAPE, CHUNKS = (2000, 1000), (100, 100)
ROWS = np.random.default_rng(1).integers(0, SHAPE[0], 200)
COLUMNS = np.random.default_rng(2).integers(0, SHAPE[1], 200)
SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "an element": lambda a: a[5, 7],
    "part of a chunk": lambda a: a[10:60, 20:80],
    "rows": lambda a: a[500:700],
    "steps": lambda a: a[::-3, ::7],
    "a chain": lambda a: a[100:1900][::2][:, 10:],
    "rows by index": lambda a: a[ROWS],
    "all": lambda a: a[:],
}
FORMATS = ("zarr1", "zarr2", "zarr3", "bcolz")
Row = tuple[str, str, Callable[[], Any]]


def by_tensorstore(path: Path) -> Any:
    """Open an array of Zarr v3."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}, "context": {"cache_pool": {}}}
    return tensorstore.open(spec, open=True).result()


def makers(path: Path) -> list[Row]:
    """Return the selections that read nothing."""
    view, store, graph = tegula.open(path).lazy, by_tensorstore(path), da.from_array(tegula.open(path))
    steps: dict[str, Callable[[Any], Any]] = {
        "int": lambda a: a[5],
        "slices": lambda a: a[100:, ::2],
        "new axis": lambda a: a[None],
        "transpose": lambda a: a.T,
        "index array": lambda a: a[ROWS],
    }
    found: list[Row] = []
    for name, step in steps.items():
        for contender, array in (("tegula", view), ("tensorstore", store), ("dask", graph)):
            found.append((name, contender, lambda step=step, array=array: step(array)))
    return found


def readers(path: Path, values: Any) -> list[Row]:
    """Return the reads of one array."""
    array, store = tegula.open(path), by_tensorstore(path)
    view, graph = array.lazy, da.from_array(array, chunks=CHUNKS)
    found: list[Row] = []
    for name, select in SELECTIONS.items():
        run: dict[str, Callable[[], Any]] = {
            "view": lambda select=select: select(view)[...],
            "tensorstore": lambda select=select: select(store).read().result(),
            "dask": lambda select=select: select(graph).compute(scheduler="threads"),
        }
        if name != "a chain":
            run = {"direct": lambda select=select: select(array), **run}
        for contender, read in run.items():
            assert np.array_equal(read(), select(values)), (name, contender)
            found.append((name, contender, read))
    return found


def joins(folder: Path, count: int) -> list[Row]:
    """Return the reads of many arrays as one."""
    values = np.random.default_rng(3).random((10 * count, 100))
    mixed, alike = [], []
    for number in range(count):
        format, data = FORMATS[number % 4], values[10 * number : 10 * number + 10]
        mixed.append(folder / f"mixed{number}")
        alike.append(folder / f"alike{number}")
        tegula.create_array(mixed[-1], data=data, chunks=(10, 100), format=format)
        tegula.create_array(alike[-1], data=data, chunks=(10, 100))
    tegula.create_array(folder / "whole", data=values, chunks=(10, 100))
    tegula.save_view(tegula.concat(mixed), folder / "mixed.json")
    opened = {name: tegula.concat(paths) for name, paths in (("four formats", mixed), ("Zarr v3", alike))}
    document, whole = tegula.open(folder / "mixed.json"), tegula.open(folder / "whole")
    store = tensorstore.concat([by_tensorstore(path) for path in alike], axis=0)
    graph = da.concatenate([da.from_array(tegula.open(path)) for path in alike])
    found: list[Row] = [
        ("open by paths", "tegula", lambda: tegula.concat(mixed)),
        ("open by paths", "tensorstore", lambda: tensorstore.concat([by_tensorstore(path) for path in alike], axis=0)),
        ("open a document", "tegula", lambda: tegula.open(folder / "mixed.json")),
    ]
    selections = {"all of them": slice(None), "every 7th row": slice(None, None, 7), "rows of two": slice(15, 25)}
    for name, selection in selections.items():
        for contender, read in {
            "one array": lambda selection=selection: whole[selection],
            **{kind: lambda selection=selection, view=view: view[selection][...] for kind, view in opened.items()},
            "document": lambda selection=selection: document[selection][...],
            "tensorstore": lambda selection=selection: store[selection].read().result(),
            "dask": lambda selection=selection: graph[selection].compute(scheduler="threads"),
        }.items():
            assert np.array_equal(read(), values[selection]), (name, contender)
            found.append((name, contender, read))
    return found


def table(title: str, rows: list[Row], rounds: int, unit: float) -> None:
    """Time the rows in turn, and print them."""
    samples: dict[tuple[str, str], list[float]] = {(name, contender): [] for name, contender, _ in rows}
    repeats = {}
    for name, contender, act in rows:
        begin = time.perf_counter()
        act()
        repeats[name, contender] = max(1, min(2000, int(0.02 / (time.perf_counter() - begin + 1e-9))))
    for _ in range(rounds):
        for name, contender, act in rows:
            count = repeats[name, contender]
            begin = time.perf_counter()
            for _ in range(count):
                act()
            samples[name, contender].append((time.perf_counter() - begin) / count * unit)
    print(f"\n{title:34} {'minimum':>10} {'median':>10}")
    for (name, contender), found in samples.items():
        print(f"{name:20} {contender:13} {min(found):10.4g} {statistics.median(found):10.4g}")


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="samples of each contender (default: 7)")
    parser.add_argument("--members", type=int, default=1000, help="arrays that are read as one (default: 1000)")
    options = parser.parse_args()
    dask.config.set(num_workers=tegula.config.current().threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = np.random.default_rng(0).integers(0, 1000, SHAPE).astype("f4")
        tegula.create_array(folder / "array", data=values, chunks=CHUNKS)
        table("a selection, µs", makers(folder / "array"), options.rounds, 1e6)
        table("a read, ms", readers(folder / "array", values), options.rounds, 1e3)
        table(f"{options.members} arrays as one, ms", joins(folder, options.members), options.rounds, 1e3)


if __name__ == "__main__":
    main()
