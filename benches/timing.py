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
    """What was measured of one regime and case; less is better, whatever the unit."""

    case: str
    regime: str
    unit: str
    amount: float
    samples: dict[str, list[float]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float  # a contender that has taken so long on a row misses the rounds left, once it has two samples
    sample: float = 0.01  # how long a sample lasts at least, so that the clock does not matter


def amount_of(regime: str, case: Case) -> float:
    """Return the bytes or operations of a run."""
    if REGIMES[regime].unit == "MB/s":
        return case.nbytes
    counts = {
        "vectorised points": 500,
        "four chunks": 20,
        "columns": 2,
        "update": max(4, case.operations // 4),
        "grow": 10,
        "shrink": 1,
        "open": 1,
    }
    return counts.get(regime, case.operations)


def measure(seats: list[Any], regime: str, case: Case, place: Place, effort: Effort) -> Row:
    """Time one regime on one case."""
    row = Row(case.name, regime, REGIMES[regime].unit, amount_of(regime, case))
    present = []
    times: dict[str, int] = {}
    spent: dict[str, float] = {}
    for seat in seats:
        try:
            seat.begin(regime, case, place)
            present.append(seat)
            first = 0.0 if seat.single else seat.sample(1)
        except Lacking as error:
            row.why[seat.name] = str(error)
            if seat in present:
                present.remove(seat)
                with suppress(Lacking):
                    seat.end()
            continue
        times[seat.name] = 1 if seat.single else max(1, min(200, int(effort.sample / max(first, 1e-7))))
        spent[seat.name] = 0.0
        row.samples[seat.name] = []
    for _ in range(min(effort.rounds, REGIMES[regime].rounds)):
        for seat in present:
            samples = row.samples[seat.name]
            if spent[seat.name] > effort.seconds and len(samples) >= 2:
                continue
            if seat.name in row.why:
                continue
            start = time.perf_counter()
            try:
                samples.append(seat.sample(times[seat.name]))
            except Lacking as error:
                row.why[seat.name] = str(error)
                samples.clear()
            spent[seat.name] += time.perf_counter() - start
    for seat in present:
        with suppress(Lacking):  # a process that has ended
            seat.end()
    return row
