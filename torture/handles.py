"""Handles whose array others create, shorten or move at that moment: an error that says so, and no wrong values."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker, job

_ROWS = 4000
_CHUNK = 100
_LONGEST = 120  # seconds that a reader waits for what others create
MOVED = {"Zarr v2": "zarr2", "Zarr v3": "zarr3", "bcolz array": "bcolz", "own format": "own"}


# --- jobs


def create(library: Library, around: Any, path: str, layout: str, rounds: int) -> None:
    """Create arrays, one after the other."""
    library.check(layout)
    around.start()
    for number in range(rounds):
        library.create(f"{path}-{number}", layout, _ROWS, _CHUNK)


def look(library: Library, around: Any, path: str, layout: str, rounds: int) -> dict[str, int]:
    """Open each array again and again until it is whole; count what is seen before."""
    library.check(layout)
    around.start()
    seen = {"whole": 0, "part": 0, "error": 0}
    end = time.monotonic() + _LONGEST
    for number in range(rounds):
        while time.monotonic() < end:
            try:
                node = library.open(f"{path}-{number}", layout)
                whole = len(library.read(node)) == _ROWS
                library.close(node)
            except Exception:
                seen["error"] += 1
                continue
            seen["whole" if whole else "part"] += 1
            if whole:
                break
    return seen


def shorten(library: Library, around: Any, path: str, layout: str, rounds: int) -> None:
    """Make an array shorter and longer."""
    library.check(layout, "writers")
    around.start()
    for _ in range(rounds):
        node = library.open(path, layout)
        library.resize(node, 130)
        library.append(node, np.zeros(170, "i4"))
        library.close(node)


def read(library: Library, around: Any, path: str, layout: str, rounds: int) -> dict[str, int]:
    """Read all and the first rows of that array; count what is called damage and what says what has happened."""
    library.check(layout, "writers")
    around.start()
    seen = {"read": 0, "shortened": 0, "damage": 0, "wrong": 0}
    for _ in range(rounds):
        node = None
        for part in (slice(None), slice(0, 130), slice(99, 101)):
            try:
                node = library.open(path, layout) if node is None else node
                values = library.read(node, part)
                seen["wrong" if (values != 0).any() else "read"] += 1
            except Exception as error:
                seen["shortened" if "shortened" in str(error) else "damage"] += 1
        if node is not None:
            library.close(node)
    return seen


def move(library: Library, around: Any, path: str, layout: str) -> dict[str, Any]:
    """Rename the directory of an open array, and read and write it."""
    library.check(layout)
    library.create(path, layout, _ROWS, _CHUNK)
    node = library.open(path, layout)
    library.write(node, slice(0, 2 * _CHUNK), np.ones(2 * _CHUNK, "i4"))
    if Path(path).is_file():
        raise Lacking("its arrays are no directories")
    os.rename(path, f"{path}-moved")
    found: dict[str, Any] = {}
    for name, act in (
        ("read", lambda: library.read(node, slice(0, _CHUNK))),
        ("write", lambda: library.write(node, slice(0, _CHUNK), np.full(_CHUNK, 2, "i4"))),
    ):
        try:
            values = act()
            found[name] = "old values" if values is not None and (values == 1).all() else "no error"
        except Exception as error:  # as it should be
            found[name] = "error"
            found[f"{name}_message"] = f"{type(error).__name__}: {error}"[:300]
    return {**found, "made": Path(path).exists()}


# --- the section


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Create, shorten and move arrays that others have open."""
    root.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for trial in (_creation, _shortening):
        try:
            outcomes.append(trial(worker, root, count))
        except Lacking:
            continue
    for case, layout in MOVED.items():
        try:
            facts = worker.ask("handles:move", path=str(root / f"moved-{layout}"), layout=layout)
            text = f"read: {facts['read']}, write: {facts['write']}" + (", made anew" if facts["made"] else "")
        except Lacking:
            continue
        except Failed as error:
            facts, text = {"failed": str(error)}, "crash or no answer"
        outcomes.append(
            Outcome("handles", f"A directory renamed under an open array, {case}", worker.name, text, facts)
        )
    return outcomes


def _creation(worker: Worker, root: Path, count: int) -> Outcome:
    what: dict[str, Any] = {"path": str(root / "created"), "layout": "bcolz", "rounds": count}
    _, looked = worker.run([job("handles:create", **what), job("handles:look", **what)], limit=300)
    facts = looked.get("value", looked)
    looks = sum(facts.get(name, 0) for name in ("whole", "part", "error"))
    text = f"{facts['part']} of {looks:,} looks" if "part" in facts else "crash or no answer"
    return Outcome(
        "handles", f"{count} bcolz arrays under creation: seen with less than all rows", worker.name, text, facts
    )


def _shortening(worker: Worker, root: Path, count: int) -> Outcome:
    path = root / "shortened"
    worker.ask("handles:create_one", path=str(path), layout="bcolz")
    what: dict[str, Any] = {"path": str(path), "layout": "bcolz", "rounds": 5 * count}
    _, looked = worker.run([job("handles:shorten", **what), job("handles:read", **what)], limit=300)
    facts = looked.get("value", looked)
    reads = sum(value for value in facts.values() if isinstance(value, int))
    text = "crash or no answer"
    if "damage" in facts:
        text = f"{facts['damage']} of {reads:,} reads" + (f", {facts['wrong']} wrong" if facts["wrong"] else "")
    return Outcome("handles", "Reads of a bcolz array that others shorten: called damage", worker.name, text, facts)


def create_one(library: Library, around: Any, path: str, layout: str) -> None:
    """Create the array that others shorten and read."""
    library.check(layout, "writers")
    library.create(path, layout, 300, _CHUNK)
