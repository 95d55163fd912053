"""Writers that are killed at random moments: what they leave behind, and whether the next one can go on."""

from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.workers import Worker, job

BLOCK = 37
"""Rows of an append."""

_PARTS = 8  # chunks, or parts of one
_LENGTH = 2**18  # elements: chunks of 128 KiB, or one of 1 MiB
_LONGEST = 0.03  # seconds that a writer has
_EACH = 25  # kills of one array, so that what one leaves is there when the next ones come

# what is written, in which layouts, by how many
CASES = {
    "whole chunks": ("chunks", ("zarr2", "zarr3", "own"), 1),
    "parts of one chunk": ("part", ("zarr2", "zarr3", "own"), 1),
    "parts of one chunk, 4 writers": ("part", ("zarr2", "zarr3", "own"), 4),
    "parts of one shard, 2 writers": ("part", ("shard",), 2),
    "appends": ("append", ("zarr3", "zarr2", "own"), 1),
    "appends to a bcolz table": ("append", ("table",), 1),
    "attributes, 2 writers": ("attributes", ("zarr3", "zarr2", "own"), 2),
}


# --- jobs


def create(library: Library, around: Any, path: str, kind: str, layout: str, workers: int) -> None:
    library.check(layout, kind)
    if workers > 1:
        library.check(layout, "writers")
    length = {"append": 0, "attributes": 8}.get(kind, _LENGTH)
    chunk = {"append": 1000, "attributes": 8, "chunks": _LENGTH // _PARTS}.get(kind, _LENGTH)
    library.create(path, layout, length, chunk, "none" if kind in ("chunks", "part") else "lz4")
    if kind == "attributes":
        node = library.open(path, layout)
        library.set_attribute(node, "first", 1)
        library.close(node)


def _place(part: int) -> slice:
    return slice(part * _LENGTH // _PARTS, (part + 1) * _LENGTH // _PARTS)


def grind(library: Library, around: Any, path: str, kind: str, layout: str, worker: int, workers: int) -> None:
    """Change the array until this process is killed, and record completed changes in a file."""
    said = os.open(f"{path}.said{worker}", os.O_RDWR | os.O_CREAT)
    done = struct.unpack("<q", os.pread(said, 8, 0) or bytes(8))[0]
    node = library.open(path, layout)
    around.start()
    while True:
        done += 1
        if kind == "append":
            length = done * BLOCK - BLOCK
            library.append(node, np.arange(length, length + BLOCK).astype("i4") + 1)
        elif kind == "attributes":
            library.set_attribute(node, f"worker{worker}", done)
        else:
            part = worker + done * workers % _PARTS
            library.write(node, _place(part), np.full(_LENGTH // _PARTS, done, "i4"))
        os.pwrite(said, struct.pack("<q", done), 0)


def verify(
    library: Library, around: Any, path: str, kind: str, layout: str, workers: int, goes_on: bool
) -> dict[str, Any]:
    """Return what is damaged, check that a write works, and record the present state."""
    certain = []
    for worker in range(workers):
        try:
            certain.append(struct.unpack("<q", Path(f"{path}.said{worker}").read_bytes())[0])
        except (OSError, struct.error):
            certain.append(0)
    node = library.open(path, layout)
    look = {"append": _check_rows, "attributes": _check_attributes}.get(kind, _check_parts)
    found, damage = look(library, node, certain)
    unfilled = False
    if goes_on and kind != "append":
        for worker, number in enumerate(found):
            _say(path, worker, number)
    elif goes_on:
        if len(library.read(node)) > found[0] * BLOCK:  # room that stays empty
            unfilled = True
            library.resize(node, found[0] * BLOCK)
            node = library.refresh(node, path, layout)
        done = found[0] + 1
        library.append(node, np.arange(found[0] * BLOCK, done * BLOCK).astype("i4") + 1)
        node = library.refresh(node, path, layout)
        damage += look(library, node, [done])[1]
        _say(path, 0, done)
    # and a write works, which also removes the temporary files of dead writers
    if kind == "attributes":
        library.set_attribute(node, "checked", time.monotonic_ns())
    elif kind != "append":
        before = library.read(node, slice(0, 2)).copy()
        library.write(node, slice(0, 1), before[1:2])
    library.close(node)
    return {"damage": damage[:3], "unfilled": unfilled}


def _say(path: str, worker: int, number: int) -> None:
    Path(f"{path}.said{worker}").write_bytes(struct.pack("<q", number))


def _check_parts(library: Library, node: Any, certain: list[int]) -> tuple[list[int], list[str]]:
    values = library.read(node)
    workers, damage = len(certain), []
    found = list(certain)
    for part in range(_PARTS):
        here = values[_place(part)]
        worker = part % workers
        if (here != here[0]).any():
            damage.append(f"part {part} is torn: {np.unique(here)[:5].tolist()}")
            continue
        # the last state that the worker has reported, or the change during which it was killed
        known = range(max(0, certain[worker] - _PARTS), certain[worker] + 1)
        wanted = [number for number in known if number == 0 or _is_at(number, part, workers)][-1:]
        wanted += [number for number in [certain[worker] + 1] if _is_at(number, part, workers)]
        if here[0] not in wanted:
            damage.append(f"part {part} holds {here[0]}, not one of {wanted}")
        found[worker] = max(found[worker], int(here[0]))
    return found, damage


def _is_at(number: int, part: int, workers: int) -> bool:
    return number > 0 and part % workers + number * workers % _PARTS == part


def _check_rows(library: Library, node: Any, certain: list[int]) -> tuple[list[int], list[str]]:
    values, damage = library.read(node), []
    blocks, rest = divmod(len(values), BLOCK)
    if rest or blocks not in (certain[0], certain[0] + 1):
        damage.append(f"there are {len(values)} rows, {certain[0] * BLOCK} of them for certain")
    wrong = np.flatnonzero(values != np.arange(len(values)) + 1)
    # rows that were reserved and not written hold the fill value
    if len(wrong) and (wrong[0] < certain[0] * BLOCK or values[wrong].any()):
        damage.append(f"{len(wrong)} rows are wrong, from {wrong[0]} on")
    return [blocks - bool(len(wrong))], damage


def _check_attributes(library: Library, node: Any, certain: list[int]) -> tuple[list[int], list[str]]:
    attributes = library.attributes(node)
    found = [int(attributes.get(f"worker{worker}", 0)) for worker in range(len(certain))]
    damage = [] if attributes.get("first") == 1 else ["an attribute that was not touched is gone"]
    for number, wanted in zip(found, certain):
        if number not in (wanted, wanted + 1):
            damage.append(f"an attribute is {number}, not {wanted} or the one after it")
    return found, damage


# --- the section


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Kill writers `count` times, shared among the cases that a library knows."""
    known = []
    for case, (kind, layouts, workers) in CASES.items():
        for layout in layouts:
            try:
                worker.ask(
                    "kills:create",
                    path=str(root / f"try-{len(known)}-{layout}-{kind}"),
                    kind=kind,
                    layout=layout,
                    workers=workers,
                )
            except Lacking:
                continue
            known.append((case, kind, layout, workers))
            break
    each = -(-count // max(1, len(known)))
    return [_run(worker, root, case, kind, layout, workers, each) for case, kind, layout, workers in known]


def _run(worker: Worker, root: Path, case: str, kind: str, layout: str, workers: int, count: int) -> Outcome:
    chance = random.Random(case)
    damaged, examples, left, unfilled, killed = 0, [], 0, 0, 0
    path = root
    fresh = True
    start = time.monotonic()
    for number in range(count):
        if fresh or number % _EACH == 0:
            left += leftovers(path) if path != root else 0
            path = root / f"{case.replace(' ', '-')}-{number}"
            what: dict[str, Any] = {"path": str(path), "kind": kind, "layout": layout}
            worker.ask("kills:create", **what, workers=workers)
        jobs = [job("kills:grind", **what, worker=worker, workers=workers) for worker in range(workers)]
        answers = worker.run(jobs, together=True, kill=chance.uniform(0, _LONGEST), limit=60)
        killed += any(answer["status"] == -9 for answer in answers)
        failed = [answer["error"] for answer in answers if "error" in answer]
        (answer,) = worker.run([job("kills:verify", **what, workers=workers, goes_on=True)], limit=60)
        damage = answer.get("value", {}).get("damage", [answer.get("error", f"status {answer['status']}")])
        unfilled += answer.get("value", {}).get("unfilled", False)
        fresh = bool(damage)
        damaged += fresh
        examples += [*damage, *failed][: 5 - len(examples)]
    left += leftovers(path)
    facts = {
        "kills": count, "killed": killed, "damaged": damaged, "examples": examples, "left": left, "unfilled": unfilled,
        "seconds": round(time.monotonic() - start, 1), "layout": layout, "writers": workers,
    }  # fmt: skip
    text = f"{damaged} of {count}"
    if unfilled:
        text += f"; {unfilled} times empty rows"
    if left:
        text += f"; {left} file{'s' * (left != 1)} left"
    return Outcome("kills", f"Killed at {case}: torn or lost", worker.name, text, facts)


def leftovers(path: Path) -> int:
    """Count temporary files and locks."""
    words = (".partial", ".tmp", ".tegula-", "__lock", ".lock")
    return sum(1 for file in path.rglob("*") if any(word in file.name for word in words)) if path.is_dir() else 0
