"""Time tegula behind TensorStore's names against TensorStore and against tegula's own arrays, in one run.

Every operation is done by all contenders in turn, round after round, on the same data, so that whatever else the
machine does hits them alike, and their answers are compared first. The table gives the minimum and the median of each
in microseconds, and two ratios of medians: TensorStore to the face (above 1: the face is faster), and what the face
adds to the array below it. Run it with ``python benches/tensorstore_face.py``; ``--root DIR`` says on which disk
(``/dev/shm`` is none), ``--only WORD`` does the operations whose names contain it, ``--json FILE`` keeps the figures,
``--rounds N`` sets the number of rounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

import tegula
import tegula.tensorstore

Thunk = Callable[[], Any]
Contenders = dict[str, Thunk]
Values = np.ndarray[Any, Any]
MODULES = {"face": tegula.tensorstore, "tensorstore": tensorstore}
FORMATS = {"zarr": "zarr2", "zarr3": "zarr3"}


def metadata(driver: str, values: Values, chunk: int) -> dict[str, Any]:
    """Return the metadata of a new array for a driver."""
    chunks = [chunk] * values.ndim
    if driver == "zarr":
        return {"shape": values.shape, "chunks": chunks, "dtype": values.dtype.str, "compressor": None}
    return {
        "shape": values.shape,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "data_type": values.dtype.name,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }


class Place:
    """An array in files or in memory, open by all contenders."""

    def __init__(self, root: Path, where: str, driver: str, values: Values, chunk: int) -> None:
        self.where, self.driver, self.format = where, driver, FORMATS[driver]
        self.path = str(root / f"{driver}-{len(values)}-{chunk}")
        self.contexts = {name: module.Context() for name, module in MODULES.items()}
        self.node_store: Any = self.path if where == "file" else tegula.MemoryStore()
        self.node = tegula.create_array(
            self.node_store,
            shape=values.shape,
            chunks=(chunk,) * values.ndim,
            dtype=values.dtype,
            codecs=None,
            format=self.format,
        )
        self.node[...] = values
        self.views = {}
        for name, module in MODULES.items():
            if where == "memory":
                spec = {**self.spec(), "metadata": metadata(driver, values, chunk)}
                made = module.open(spec, context=self.contexts[name], create=True)
                made.result().write(values).result()
            self.views[name] = self.open(name)

    def spec(self) -> dict[str, Any]:
        kvstore: dict[str, Any] = {"driver": "file", "path": self.path, "file_io_sync": False}
        if self.where == "memory":
            kvstore = {"driver": "memory", "path": "a/"}
        return {"driver": self.driver, "kvstore": kvstore, "recheck_cached_data": True}

    def open(self, name: str) -> Any:
        return MODULES[name].open(self.spec(), context=self.contexts[name], open=True).result()

    def opening(self) -> Contenders:
        return {
            "node": lambda: tegula.open(self.node_store),
            "face": lambda: self.open("face"),
            "tensorstore": lambda: self.open("tensorstore"),
        }

    def reading(self, key: Any) -> Contenders:
        face, real = self.views["face"], self.views["tensorstore"]
        return {
            "node": lambda: self.node[key],
            "face": lambda: face[key].read().result(),
            "tensorstore": lambda: real[key].read().result(),
        }

    def reading_again(self, key: Any) -> Contenders:
        """Reading through views that were made before."""
        face, real = self.views["face"][key], self.views["tensorstore"][key]
        return {
            "node": lambda: self.node[key],
            "face": lambda: face.read().result(),
            "tensorstore": lambda: real.read().result(),
        }

    def writing(self, key: Any, values: Values) -> Contenders:
        face, real = self.views["face"], self.views["tensorstore"]
        return {
            "node": lambda: self.node.__setitem__(key, values),
            "face": lambda: face[key].write(values).result(),
            "tensorstore": lambda: real[key].write(values).result(),
        }


def views(place: Place) -> Iterator[tuple[str, Contenders]]:
    """Making a view without reading; nodes have no views."""
    index = np.arange(0, 1000, 7)

    def by(make: Callable[[Any, Any], Any]) -> Contenders:
        def one(name: str) -> Thunk:
            view, d = place.views[name], MODULES[name].d
            return lambda: make(view, d)

        return {name: one(name) for name in MODULES}

    yield "view [10:500, 20:600]", by(lambda view, d: view[10:500, 20:600])
    yield "view [10:500:3, 20:600]", by(lambda view, d: view[10:500:3, 20:600])
    yield "view [5]", by(lambda view, d: view[5])
    yield "view [index array]", by(lambda view, d: view[index])
    yield "view .oindex[array, array]", by(lambda view, d: view.oindex[index, index])
    yield "view [d['x', 'y'].label]", by(lambda view, d: view[d[:].label["x", "y"]])
    yield "view [d[0].translate_to[0]]", by(lambda view, d: view[10:20][d[0].translate_to[0]])
    yield "view [d[1, 0].transpose[:]]", by(lambda view, d: view[d[1, 0].transpose[:]])


def operations(root: Path) -> Iterator[tuple[str, Contenders]]:
    """Return the functions that are timed."""
    side = 4096
    values = np.random.default_rng(1).integers(0, 2**32, (side, side), dtype="u4")  # 64 MiB
    for where in ("file", "memory"):
        for driver in FORMATS:
            yield f"open, {where}, {driver}", Place(root / where, where, driver, values[:512, :512], 256).opening()
    for where in ("file", "memory"):
        small = Place(root / where, where, "zarr", values, 128)
        large = Place(root / where, where, "zarr", values, 724)
        if where == "file":
            yield from views(small)
        chunk = (slice(128, 256), slice(256, 384))
        yield f"read a chunk of 64 KiB, {where}", small.reading(chunk)
        yield f"read it again, {where}", small.reading_again(chunk)
        yield f"read an element, {where}", small.reading((200, 300))
        yield f"read 64 MiB of 64 KiB, {where}", small.reading_again((slice(None),) * 2)
        yield f"read 64 MiB of 2 MiB, {where}", large.reading_again((slice(None),) * 2)
        yield f"write a chunk of 64 KiB, {where}", small.writing(chunk, values[chunk])
        yield f"write 64 MiB of 64 KiB, {where}", small.writing((slice(None),) * 2, values)
        yield f"write 64 MiB of 2 MiB, {where}", large.writing((slice(None),) * 2, values)


def measure(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    repeats = {}
    answers = []
    for name, work in contenders.items():
        answers.append(work())
        start = time.perf_counter()
        work()
        # each sample lasts some milliseconds, so that the clock does not matter
        repeats[name] = max(1, min(200, int(0.005 / max(1e-7, time.perf_counter() - start))))
    if isinstance(answers[0], np.ndarray):
        assert all(np.array_equal(answers[0], answer) for answer in answers[1:])
    elif (domain := getattr(answers[-1], "domain", None)) is not None:
        assert str(domain) == str(answers[-2].domain)
    del answers
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                work()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return times


def run(root: Path, rounds: int, only: str) -> list[dict[str, Any]]:
    rows = []
    for operation, contenders in operations(root):
        if only not in operation:
            continue
        times = measure(contenders, rounds)
        figures = {name: (min(samples), statistics.median(samples)) for name, samples in times.items()}
        ratio = figures["tensorstore"][1] / figures["face"][1]
        added = figures["face"][1] - figures["node"][1] if "node" in figures else None
        rows.append({"operation": operation, "seconds": figures, "ratio": ratio, "added": added})
        shown = "  ".join(f"{name} {low * 1e6:8.1f} ({mid * 1e6:8.1f})" for name, (low, mid) in figures.items())
        print(f"{operation:34s} {shown:>83s}  x{ratio:.2f}" + ("" if added is None else f"  {added * 1e6:+.1f}"))
        sys.stdout.flush()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="do the operations whose names contain this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--root", type=Path, help="where to put the arrays (default: a temporary directory)")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.root))
    print(
        f"tegula {tegula.__version__}, tensorstore {version('tensorstore')}, numpy {np.__version__};"
        " microseconds, min (median); ratio of tensorstore's median to the face's; what the face adds to the node"
    )
    try:
        rows = run(root, options.rounds, options.only)
    finally:
        shutil.rmtree(root)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
