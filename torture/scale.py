"""A group of many arrays: what converting, consolidating, checking, drawing and deleting it takes, beside a plain loop.

The loop creates the same directories and files with nothing but calls of the system. A large document of attributes is
changed, too, beside what parsing and writing it takes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture.libraries.interface import Library
from torture.outcome import Outcome
from torture.workers import Worker

_ATTRIBUTES = 4  # for each array, in one document
_STEPS = {
    "loop": "a plain loop creates the same files",
    "convert": "convert from Zarr v2 to v3",
    "consolidate": "consolidate",
    "check": "check",
    "tree": "tree",
    "delete": "delete",
    "parse": "parse and write as many attributes as JSON",
    "attribute": "change one of as many attributes",
}


def _create(root: Path, count: int) -> None:
    """Make a group of Zarr v2 from the documents and the chunk of one array."""
    import tegula  # other libraries run under interpreters without it

    store = tegula.MemoryStore()
    group = tegula.create_group(store, format="zarr2")
    group.create_array("x", shape=10, chunks=10, dtype="i4", attributes={"unit": "m"})[...] = 1
    files = {key[2:]: store.get(key) or b"" for key in store.list_prefix("x/")}
    root.mkdir()
    (root / ".zgroup").write_bytes(store.get(".zgroup") or b"")
    _loop(root, count, files)


def _loop(root: Path, count: int, files: dict[str, bytes]) -> None:
    above = sorted({os.path.dirname(name) for name in files} - {""})
    for number in range(count):
        path = f"{root}/a{number:06d}"
        os.mkdir(path)
        for name in above:
            os.mkdir(f"{path}/{name}")
        for name, data in files.items():
            with open(f"{path}/{name}", "wb", buffering=0) as file:
                file.write(data)


def measure(library: Library, around: Any, path: str, step: str, count: int) -> dict[str, float]:
    """Do one step, and return the seconds of the processor and of the clock, and the megabytes that it took."""
    import tegula
    from tegula.engine.nodes.deleting import delete_node

    old, new, wide = (Path(path) / name for name in ("old", "new.zarr", "wide.zarr"))
    if step == "create":
        _create(old, count)
        return {}
    if step == "parse":
        attributes = {f"a{number:07d}": {"value": number, "unit": "m"} for number in range(_ATTRIBUTES * count)}
        tegula.create_group(wide, attributes=attributes)
        del attributes
    files = {name: (old / "a000000" / "0").read_bytes() for name in ("zarr.json", "c/0")}
    steps: dict[str, Callable[[], object]] = {
        "loop": lambda: _loop(Path(path) / "loop", count, files),
        "convert": lambda: tegula.convert(old, new, format="zarr3"),
        "consolidate": lambda: tegula.open_group(new, mode="r+").consolidate(),
        "check": lambda: tegula.check(new),
        "tree": lambda: str(tegula.open_group(new).tree()),
        "delete": lambda: delete_node(tegula.LocalStore(new), ""),
        "parse": lambda: json.dumps(json.loads((wide / "zarr.json").read_bytes()), indent=2),
        "attribute": lambda: tegula.open_group(wide, mode="r+").attrs.update(unit="m"),
    }
    if step == "loop":
        (Path(path) / "loop").mkdir()
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    found: Any = steps[step]()
    after, end = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    right = {
        "convert": lambda: found.ok and len(found.arrays) == count,
        "check": lambda: found.ok and found.arrays == count,
        "tree": lambda: found.count("\n") == count,
        "delete": lambda: not new.exists() or not [*new.iterdir()],
        "attribute": lambda: tegula.open_group(wide).attrs["unit"] == "m",
    }.get(step, lambda: True)()
    return {
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "seconds": end - start,
        "mb": (after.ru_maxrss - before.ru_maxrss) / 1024,
        "right": right,
    }


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Do everything with a group of `count` arrays."""
    if worker.entry.module != "tegula_nodes":
        return []
    root.mkdir(parents=True, exist_ok=True)
    outcomes = []
    try:
        worker.ask("scale:measure", path=str(root), step="create", count=count)
        for step, title in _STEPS.items():
            facts = worker.ask("scale:measure", path=str(root), step=step, count=count)
            wrong = "" if facts["right"] else ", WRONG"
            text = f"{facts['cpu']:.1f} s of the processor, {max(0, facts['mb']):.0f} MB{wrong}"
            outcomes.append(Outcome("scale", f"{count:,} arrays in a group: {title}", worker.name, text, facts))
            if step == "loop":
                shutil.rmtree(root / "loop")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return outcomes
