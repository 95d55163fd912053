"""Measurements that need a fresh process each time: importing, the first read, and the memory of a read.

``fresh.py import MODULE`` prints the seconds of importing a module; ``fresh.py first NAME CASE PATH`` those of a
contender's import, first opening and element, and those of the second opening and element; ``fresh.py memory NAME CASE
PATH`` by how many bytes the peak of resident memory grows while everything is read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES = {
    "numpy": "numpy",
    "tegula": "tegula",
    "ts": "tensorstore",
    "zarr3": "zarr",
    "zarr2": "zarr",
    "blosc2": "blosc2",
    "bcolz": "bcolz",
    "h5py": "h5py",
}


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def _import(module: str) -> dict[str, float]:
    start = time.perf_counter()
    getattr(import_module(module), "open", None)  # tegula imports what belongs to a name when that is first used
    return {"value": time.perf_counter() - start}


def _contender(name: str, text: str) -> Any:
    # only now, so that the timed import does not include them
    make = import_module("contenders").make
    Case = import_module("cases").Case  # noqa: N806 - a class
    return make(name), Case(**json.loads(text))


def _first(name: str, text: str, path: str) -> dict[str, float]:
    start = time.perf_counter()  # with the import, which some do bit by bit when something is first used
    contender, case = _contender(name, text)
    seconds = []
    with contender.active():
        for _ in range(2):
            contender.reader(contender.open(case, Path(path)))((0,) * len(case.shape))
            seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
    return {"value": seconds[0], "second": seconds[1]}


def _memory(name: str, text: str, path: str) -> dict[str, float]:
    contender, case = _contender(name, text)
    with contender.active():
        get = contender.reader(contender.open(case, Path(path)))
        get((0,) * len(case.shape))
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
        before = _status("VmHWM")
        kept = get(...)
        assert kept.nbytes == case.nbytes
    return {"value": _status("VmHWM") - before}


def ask(python: str, *arguments: str) -> dict[str, float]:
    """Run this file in a fresh process, with the modules that are found here."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "tegula-bench-pyc"))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process would compile its modules anew
    if python == sys.executable:
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [python, __file__, *arguments]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}")
    return dict(json.loads(done.stdout.strip().rpartition("\n")[2]))


if __name__ == "__main__":
    jobs = {"import": _import, "first": _first, "memory": _memory}
    print(json.dumps(jobs[sys.argv[1]](*sys.argv[2:])))
