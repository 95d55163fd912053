"""Rows of the table: all contenders in turn, round after round."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cases import Case
from contenders.interface import Lacking
from places import Place
from regimes import REGIMES


@dataclass
class Row:
    """The measurements of one regime and case; less is better, whatever the unit."""

    case: str
    regime: str
    unit: str
    amount: float
    samples: dict[str, list[float]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    replaces: bool = False  # whether files are replaced, by some contenders in place


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: (
        float  # a contender that has taken this long on a row misses the rounds left; with one sample, twice this long
    )
    sample: float = 0.01  # how long a sample lasts at least, so that the clock does not matter


def amount_of(regime: str, case: Case) -> float:
    """Return the bytes or operations of a run."""
    if REGIMES[regime].unit == "MB/s":
        return case.nbytes
    counts = {
        "vectorised points": 500,
        "four chunks": 20,
        "columns": 2,
        "cold columns": 2,
        "update": case.changes,
        "grow": 10,
        "shrink": 1,
        "open": 1,
    }
    return counts.get(regime, case.operations)


def measure(runners: list[Any], regime: str, case: Case, place: Place, effort: Effort) -> Row:
    """Time one regime on one case."""
    row = Row(case.name, regime, REGIMES[regime].unit, amount_of(regime, case), replaces=REGIMES[regime].writes)
    present = []
    times: dict[str, int] = {}
    spent: dict[str, float] = {}
    for runner in runners:
        try:
            runner.begin(regime, case, place)
            present.append(runner)
            first = 0.0 if runner.single else runner.sample(1)
        except Lacking as error:
            row.why[runner.name] = str(error)
            if runner in present:
                present.remove(runner)
                with suppress(Lacking):
                    runner.end()
            continue
        times[runner.name] = 1 if runner.single else max(1, min(200, int(effort.sample / max(first, 1e-7))))
        spent[runner.name] = 0.0
        row.samples[runner.name] = []
    for _ in range(min(effort.rounds, REGIMES[regime].rounds)):
        for runner in present:
            samples = row.samples[runner.name]
            if samples and spent[runner.name] > effort.seconds * (1 if len(samples) > 1 else 2):
                continue
            if runner.name in row.why:
                continue
            start = time.perf_counter()
            try:
                samples.append(runner.sample(times[runner.name]))
            except Lacking as error:
                row.why[runner.name] = str(error)
                samples.clear()
            spent[runner.name] += time.perf_counter() - start
    for runner in present:
        with suppress(Lacking):  # a process that has ended
            runner.end()
    return row
