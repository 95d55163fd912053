"""Rows that are measured in fresh processes."""

from __future__ import annotations

import json
import sys
from typing import Any

from cases import Case
from contenders import IN_A_WORKER
from contenders.interface import Contender, Lacking
from fresh import MODULES, ask
from places import Place
from regimes import REGIMES, Regime, Task
from runners import python_of
from timing import Effort, Row


def measure_imports(names: list[str], effort: Effort) -> Row:
    """Time the import of each contender's module; NumPy alone is the limit."""
    row = Row("import", "import", "ms", 1)
    for _ in range(max(3, effort.rounds)):
        for name, module in MODULES.items():
            python = python_of(name)
            if (name not in names and name != "numpy") or name in row.why:
                continue
            if python is None:
                row.why[name] = "no interpreter was named"
                continue
            try:
                seconds = ask(python, "import", module)["value"]
            except RuntimeError as error:
                row.why[name] = str(error)
                continue
            row.samples.setdefault("limit" if name == "numpy" else name, []).append(seconds)
    return row


def measure_fresh(runners: list[Any], regime: str, case: Case, place: Place, effort: Effort) -> Row:
    """Measure the first opening, or the growth of memory, in fresh processes."""
    row = Row(case.name, regime, "MB" if regime == "memory" else "ms", 1)
    paths = {}
    for runner in runners:
        if runner.name == "limit":
            continue
        try:
            paths[runner.name] = _path(runner, regime, case, place)
        except Lacking as error:
            row.why[runner.name] = str(error)
    text = json.dumps(case.as_json())
    job = "memory" if regime == "memory" else "first"
    for _ in range(min(2, effort.rounds) if regime == "memory" else effort.rounds):
        for name, path in paths.items():
            python = python_of(name) or sys.executable
            try:
                value = ask(python, job, name, text, path)["value"]
            except (RuntimeError, AssertionError) as error:
                row.why[name] = str(error)
                continue
            row.samples.setdefault(name, []).append(value)
    if regime == "memory":
        chunk = case.nbytes // max(1, _chunks(case))
        row.samples["limit"] = [case.nbytes + 8.0 * chunk]
    for runner in runners:
        if runner.name in paths:
            place.discard(runner.name)
    return row


def _chunks(case: Case) -> int:
    count = 1
    for length, chunk in zip(case.shape, case.chunks, strict=True):
        count *= length // chunk
    return count


def _path(runner: Any, regime: str, case: Case, place: Place) -> str:
    if runner.name in IN_A_WORKER:
        if case.format not in {"zarr2": ("zarr2", "n5")}.get(runner.name, ("zarr2", "zarr3")):
            raise Lacking("it does not know this format")
        return str(place.shared)
    contender: Contender = runner.contender
    Regime(regime, Task, "", lambda _: True).lacking(contender, case)
    try:
        return str(place.filled(contender))
    except Lacking:
        raise
    except Exception as error:  # whatever a library raises says that it can't do this
        raise Lacking(str(error)) from error


def applies(regime: str, case: Case) -> bool:
    """Return whether a case has a row of this regime."""
    if regime == "first open":
        return REGIMES["open"].applies(case)
    return case.codec == "lz4" and case.dtype == "u2" and case.format != "bcolz"
