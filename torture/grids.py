"""Grids of any number of chunks, under a limit that the system sets to the memory of a process; tegula alone.

One-byte chunks are read, written and appended with room for their values and 64 MiB. Grids of 10**12 chunks and more,
of which one is stored, are looked at, converted, verified, checked, resized, appended to and overwritten.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from torture.libraries.interface import Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker

_ROOM = 2**26  # bytes beyond the values
_VAST = (((10**6, 10**6), (5, 7)), ((2**62,), (2**61,)), ((10**12,), (10**11,)))  # shapes, and what is stored


def _limit(nbytes: int) -> None:
    """Allow this process `nbytes` more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + nbytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _create(path: str, shape: tuple[int, ...]) -> Any:
    return import_module("tegula").create_array(path, shape=shape, chunks=1, dtype="i1", codecs=None)


# --- jobs


def many(library: Library, around: Any, path: str, number: int) -> dict[str, Any]:
    """Read, fill and append a row of `number` one-byte chunks; return what went wrong."""
    wrong: list[str] = []
    with import_module("tegula").config.configure(threads=1):  # each thread reserves memory of its own
        array = _create(path, (1, number))
        array[0, 5] = array[0, -5] = 1
        array[0, 5], array[:, 2:4]
        _limit(2 * number + _ROOM)
        if array[...].sum() != 2 or array[:, ::-1].sum() != 2:
            wrong.append("values read")
        row = np.zeros((1, number), "i1")
        row[0, 7] = 1
        array.append(row)
        if array[1].sum() != 1:
            wrong.append("values appended")
        array[0] = 0
        if array[0].any() or array.nchunks_initialized() != 1:
            wrong.append("values overwritten")
    return {"wrong": wrong}


def vast(library: Library, around: Any, path: str, shape: list[int], place: list[int]) -> dict[str, Any]:
    """Use an array of very many chunks, and record how long each operation took."""
    tegula = import_module("tegula")
    seconds: dict[str, float] = {}
    wrong: dict[str, str] = {}
    with tegula.config.configure(threads=1):
        array = _create(path, tuple(shape))
        array[tuple(place)] = 1
        _limit(4 * _ROOM)
        for name, act in _operations(array, tuple(place), path):
            start = time.monotonic()
            try:
                if not act():
                    wrong[name] = "another result"
            except tegula.TegulaError as error:
                wrong[name] = f"{type(error).__name__}: {error}"[:200]
            seconds[name] = round(time.monotonic() - start, 2)
    return {"seconds": seconds, "wrong": wrong}


def _operations(array: Any, place: tuple[int, ...], path: str) -> Iterator[tuple[str, Callable[[], bool]]]:
    tegula = import_module("tegula")
    shape = array.shape
    copies = f"{path}-copy", f"{path}-cut"
    yield "info", lambda: array.info["Chunks stored"] == f"1 of {array.nchunks:,}"
    yield "check", lambda: bool(tegula.check(path).ok)
    yield "copy chunks, verify", lambda: tegula.convert(path, copies[0], verify=True).arrays[0].verified is True
    yield "convert, verify", lambda: tegula.convert(path, copies[1], chunks=3, verify=True).arrays[0].verified is True
    yield "read the copies", lambda: all(tegula.open(copy)[place] == 1 for copy in copies)
    yield "write all", lambda: _is_refused(lambda: array.__setitem__(..., 1), tegula.UnsupportedError)
    yield "read all", lambda: _is_refused(lambda: array[...], tegula.SelectionError)
    yield "shrink", lambda: array.resize(tuple(n - 1 for n in shape)) is None and array[place] == 1
    yield "append", lambda: array.append(np.zeros((1, *array.shape[1:]), "i1"))[0] == shape[0]
    yield "fill", lambda: array.__setitem__(..., 0) is None and array.nchunks_initialized() == 0


def _is_refused(act: Callable[[], Any], error: type[Exception]) -> bool:
    try:
        act()
    except error:
        return True
    return False


# --- the section


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Use `count` one-byte chunks, and each of the vast grids."""
    if worker.entry.module != "tegula_nodes":
        return []
    try:
        facts = worker.ask("grids:many", path=str(root / "many"), number=count)
    except Failed as error:
        facts = {"wrong": [str(error)]}
    text = ", ".join(facts["wrong"]) or "done"
    promise = "One-byte chunks read, appended and filled with room for the values and 64 MiB"
    found = [Outcome("grids", promise, worker.name, f"{count:,} chunks: {text}", facts)]
    done, wrong, slowest = 0, [], 0.0
    for number, (shape, place) in enumerate(_VAST):
        try:
            facts = worker.ask("grids:vast", path=str(root / f"vast-{number}"), shape=shape, place=place)
        except Failed as error:
            facts = {"seconds": {}, "wrong": {"all": str(error)}}
        done += len(facts["seconds"])
        wrong += [f"{name} {text}" for name, text in facts["wrong"].items()]
        slowest = max(slowest, *facts["seconds"].values(), 0.0)
    promise = "Operations on grids of 10¹² to 2⁶² chunks, one stored, with 256 MiB: hang, run out of memory, are wrong"
    facts = {"operations": done, "wrong": wrong, "slowest": slowest}
    return [*found, Outcome("grids", promise, worker.name, f"{len(wrong)} of {done}; slowest {slowest:.1f} s", facts)]
