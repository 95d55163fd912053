"""Running: does the units of an array that have no record in the ledger."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from tegula.jobs.ledger import RUN, Ledger, add_amounts
from tegula.jobs.plans import Piece, Unit, units_of
from tegula.jobs.runners.runner import Runner, Work

__all__ = ["Stored", "do_units"]

Stored = Callable[[], Iterator[Any] | None]
"""Returns the stored chunks to visit, as `units_of` takes them."""


def do_units(
    runner: Runner, work: Work, piece: Piece, stored: Stored, report: Callable[[int], None]
) -> tuple[Counter[str], Counter[int]]:
    """Do the units of an array.

    Parameters
    ----------
    runner, work, piece
        The runner, the work on each unit, and the units of the array.
    stored : callable
        Returns the stored chunks, if few are stored; called again to find the units left to other parts.
    report : callable
        Called with the number of elements done so far.

    Returns
    -------
    Counter
        The sums over all units that are done.
    Counter of int
        Number of units that are left to each of the other parts of the job.
    """
    ledger, done, nothing = work.ledger, 0, Counter[int]()
    if ledger is None:
        total: Counter[str] = Counter()
        for unit, result in runner.run(work, units_of(piece, stored())):
            add_amounts(total, result)
            done += unit.size
            report(done)
        return total, nothing
    if (known := ledger.completed(piece.first)) is not None:
        return Counter(known), nothing

    # units without a record, of this part of the job
    recorded: deque[int] = deque()
    before = 0

    def left() -> Iterator[Unit]:
        nonlocal before
        for unit in units_of(piece, stored()):
            if not ledger.is_mine(unit.number):
                continue
            recorded.append(unit.number)
            if unit.number in ledger:
                before += unit.size
            else:
                yield unit

    for count, (unit, result) in enumerate(runner.run(work, left()), start=1):
        ledger.note(unit.number, result)
        done += unit.size
        report(before + done)
        if not count % RUN:
            _gather(ledger, recorded)
    _gather(ledger, recorded)
    left_to_others = nothing
    if (parts := ledger.part[1]) > 1:
        ledger.read()
        if (known := ledger.completed(piece.first)) is not None:  # another part has just completed it
            return Counter(known), nothing
        numbers = (unit.number for unit in units_of(piece, stored()))
        left_to_others = Counter(number % parts + 1 for number in numbers if number not in ledger)
    return ledger.sum_of(piece.first, piece.stop), left_to_others


def _gather(ledger: Ledger, recorded: deque[int]) -> None:
    """Join the first records, `RUN` at a time, as long as all of those units are done."""
    while len(recorded) >= RUN and all(number in ledger for number, _ in zip(recorded, range(RUN))):
        ledger.gather([recorded.popleft() for _ in range(RUN)])
