"""Several processes that change the same chunk, shard, attributes or length: lost updates, and speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Failed, Worker, job

WORKERS = 4
_NAMES = 8  # attributes of each worker
_LONG, _SHORT = 40, 10  # lengths between which an array is resized
_PATIENCE = 60.0  # seconds of a worker, after which it leaves the rest

CASES = {
    "elements of one chunk, Zarr v2": ("elements", "zarr2"),
    "elements of one chunk, Zarr v3": ("elements", "zarr3"),
    "elements of one shard": ("elements", "shard"),
    "elements of one chunk, own format": ("elements", "own"),
    "attributes, Zarr v2": ("attributes", "zarr2"),
    "attributes, Zarr v3": ("attributes", "zarr3"),
    "attributes, own format": ("attributes", "own"),
    "appends, Zarr v2": ("appends", "zarr2"),
    "appends, Zarr v3": ("appends", "zarr3"),
    "appends, bcolz array": ("appends", "bcolz"),
    "appends, bcolz table": ("appends", "table"),
    "appends, own format": ("appends", "own"),
    "resizes, Zarr v2": ("resizes", "zarr2"),
    "resizes, Zarr v3": ("resizes", "zarr3"),
    "resizes, own format": ("resizes", "own"),
}
_LENGTHS = {"attributes": 8, "appends": 0, "resizes": _LONG}
_CHUNKS = {"appends": 1000, "resizes": 8, "attributes": 8}


# --- jobs: what happens in the processes of a library


def create(library: Library, around: Any, path: str, kind: str, layout: str, count: int) -> None:
    library.check(layout, {"appends": "append"}.get(kind, kind))
    if layout in ("bcolz", "table") and kind != "appends":
        raise Lacking("it is asked for its appends")
    library.create(path, layout, _LENGTHS.get(kind, count), _CHUNKS.get(kind, count), "lz4")
    if kind == "attributes":
        node = library.open(path, layout)
        library.set_attribute(node, "first", 1)
        library.close(node)


def update(
    library: Library,
    around: Any,
    path: str,
    kind: str,
    layout: str,
    worker: int,
    count: int,
    workers: int = WORKERS,
    patience: float = _PATIENCE,
) -> dict[str, Any]:
    """Make a worker's share of the updates, and return which were acknowledged."""
    one: Callable[[Library, Any, int, int, int], None] = _UPDATES[kind]
    library_node: Any = None
    errors: dict[str, int] = {}
    done = []
    around.start()
    start = time.monotonic()
    for number in range(worker, count, workers):
        try:
            if library_node is None:
                library_node = library.open(path, layout)
            one(library, library_node, worker, number, workers)
            done.append(number)
        except Lacking:
            raise
        except Exception as error:
            note(errors, error)
            library_node = None
        if layout == "own" and library_node is not None:  # where others can't open it as long as one has it open
            library.close(library_node)
            library_node = None
        if time.monotonic() - start > patience:
            break
    return {"done": done, "errors": errors, "seconds": time.monotonic() - start}


def note(errors: dict[str, int], error: Exception) -> None:
    """Count an error, by what it says."""
    text = f"{type(error).__name__}: {error}"[:200]
    errors[text] = errors.get(text, 0) + 1


def _element(library: Library, node: Any, worker: int, number: int, workers: int) -> None:
    library.write(node, slice(number, number + 1), number + 1)


def _attribute(library: Library, node: Any, worker: int, number: int, workers: int) -> None:
    library.set_attribute(node, f"{worker}.{number // workers % _NAMES}", number)


def _append(library: Library, node: Any, worker: int, number: int, workers: int) -> None:
    library.append(node, np.array([number + 1], "i4"))


def _resize(library: Library, node: Any, worker: int, number: int, workers: int) -> None:
    library.resize(node, _SHORT + number % (_LONG - _SHORT))
    library.write(node, slice(worker, worker + 1), number + 1)


_UPDATES = {"elements": _element, "attributes": _attribute, "appends": _append, "resizes": _resize}


def look(
    library: Library, around: Any, path: str, kind: str, layout: str, count: int, workers: int = WORKERS
) -> dict[str, Any]:
    """Read again and again until the others have ended, and at least once; count impossible states."""
    around.start()
    reads = torn = refused = 0
    errors: dict[str, int] = {}
    is_over = False
    while not (is_over and (reads or refused)):
        is_over = around.is_over
        try:
            node = library.open(path, layout)
            fine = _is_sound(library, node, kind, count, workers)
            library.close(node)
            reads += 1
            torn += not fine
        except Lacking:
            raise
        except Exception as error:
            if not (kind == "resizes" and getattr(error, "is_stale", False)):  # it was made smaller: look again
                refused += 1
                note(errors, error)
        time.sleep(0.002)  # it looks on, and leaves the processor to the others
    return {"reads": reads, "torn": torn, "refused": refused, "errors": errors}


def _is_sound(library: Library, node: Any, kind: str, count: int, workers: int = WORKERS) -> bool:
    if kind == "attributes":
        found = library.attributes(node)
        return found.get("first") == 1 and all(0 <= int(value) < count for value in found.values())
    values = library.read(node)
    if kind == "elements":
        return bool(((values == 0) | (values == np.arange(1, count + 1))).all())
    if kind == "appends":
        return bool(((values >= 0) & (values <= count)).all())
    return _SHORT <= len(values) <= _LONG and bool((values[workers:] == 0).all() and (values[:workers] <= count).all())


def check(library: Library, around: Any, path: str, kind: str, layout: str, shares: list[list[int]]) -> dict[str, Any]:
    """Compare the final state with the acknowledged updates of each worker."""
    workers = len(shares)
    node = library.open(path, layout)
    done = sorted(number for share in shares for number in share)
    if kind == "attributes":
        found = library.attributes(node)
        last = {f"{n % workers}.{n // workers % _NAMES}": n for share in shares for n in share}
        return {"lost": sum(int(found.get(name, -1)) != number for name, number in last.items()), "of": len(last)}
    values = library.read(node)
    if kind == "elements":
        missing = [number for number in done if values[number] != number + 1]
        return {"lost": len(missing), "of": len(done), "missing": missing}
    if kind == "appends":
        found = values.tolist()
        rows = [row for row in found if row]  # zeros are rows that a refused append has reserved and not written
        lost = len({n + 1 for n in done} - {*rows})
        return {"lost": lost, "of": len(done), "doubled": len(rows) - len({*rows}), "room": len(found) - len(rows)}
    last_written = [max(share, default=-1) + 1 for share in shares]
    lost = int((values[:workers] != last_written).sum())
    library.resize(node, workers)
    library.resize(node, _LONG)
    again = library.read(library.refresh(node, path, layout))
    return {"lost": lost, "of": len(last_written), "resurrected": int((again[workers:] != 0).sum())}


# --- the section


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Make `count` updates in each case that a library knows."""
    return [outcome for case in CASES if (outcome := trial(worker, root, case, count)) is not None]


def trial(worker: Worker, root: Path, case: str, count: int) -> Outcome | None:
    """Make `count` updates in one case; ``None`` if the library does not know it."""
    kind, layout = CASES[case]
    try:
        path = str(root / f"{kind}-{layout}")
        facts = race(worker, path, path, kind, layout, count)
    except Lacking:
        return None
    return Outcome("updates", f"Updates by {WORKERS} processes, {case}", worker.name, text_of(facts), facts)


def race(
    worker: Worker,
    path: str,
    clean: str,
    kind: str,
    layout: str,
    count: int,
    *,
    workers: int = WORKERS,
    patience: float = _PATIENCE,
) -> dict[str, Any]:
    """Make `count` updates of one node by several processes, and return the outcome.

    It is created and checked through `clean`, a path to the same node that has no faults on purpose.
    """
    what: dict[str, Any] = {"path": path, "kind": kind, "layout": layout}
    worker.ask("updates:create", **{**what, "path": clean}, count=count)
    share = {**what, "count": count, "workers": workers, "patience": patience}
    jobs = [job("updates:update", **share, worker=number) for number in range(workers)]
    looks = job("updates:look", follows=True, **what, count=count, workers=workers)
    answers = worker.run([*jobs, looks], together=True, limit=10 * patience)
    reader = answers.pop().get("value", {})
    shares = [answer.get("value", {}).get("done", []) for answer in answers]
    seconds = max((answer["value"]["seconds"] for answer in answers if "value" in answer), default=0)
    done = sum(map(len, shares))
    facts = {
        "updates": count,
        "acknowledged": done,
        "errors": [answer.get("value", answer).get("errors", answer) for answer in answers],
        "reader": reader,
        "per_second": round(done / seconds) if seconds else 0,
    }
    try:
        facts.update(worker.ask("updates:check", **{**what, "path": clean}, shares=shares))
    except Failed as error:
        facts["unreadable"] = str(error)
    return facts


def text_of(facts: dict[str, Any]) -> str:
    """Return the outcome of the updates in a few words."""
    if "unreadable" in facts:
        return "destroyed: can't be read any more"
    number = facts["of"] if facts["lost"] else facts["acknowledged"]
    text = f"{facts['lost']:,} of {number:,} lost"
    for name, number in (
        ("refused", facts["updates"] - facts["acknowledged"]),
        ("doubled", facts.get("doubled", 0)),
        ("times empty rows", facts.get("room", 0)),
        ("resurrected", facts.get("resurrected", 0)),
        ("torn reads", facts["reader"].get("torn", 0)),
        ("failed reads", facts["reader"].get("refused", 0)),
    ):
        if number:
            text += f", {number:,} {name}"
    return f"{text}; {facts['per_second']:,}/s"
