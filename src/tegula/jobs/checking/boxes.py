"""Checks of an array's chunks box by box, by any runner; findings and counts of the boxes are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from math import prod

from tegula.arrays.array import Array
from tegula.engine import StoredArray, part_of
from tegula.engine.stored.visiting import cells, is_inside
from tegula.jobs.checking.examination import Examination
from tegula.jobs.checking.findings import CheckReport, Finding
from tegula.jobs.sharing import Code, Share, shared_results
from tegula.jobs.units import Box, block_grid

__all__ = ["CODE", "BoxCheck", "check_boxes"]


@dataclass(frozen=True, slots=True)
class BoxCheck:
    """Findings of the check of a box.

    Parameters
    ----------
    numbers : tuple of (str, int)
        The counts of the report that are not zero.
    seen, inside, padded : int
        Number of stored chunks, their bytes, and the number of those with zeros after their compressed data.
    sure : bool
        Whether the chunks hold exactly the rows that the shape implies.
    findings : tuple of Finding
        The findings that are kept.
    counts : tuple of (str, int)
        Number of findings of each kind.
    unread : int
        Number of nodes that can't be read.
    """

    numbers: tuple[tuple[str, int], ...] = ()
    seen: int = 0
    inside: int = 0
    padded: int = 0
    sure: bool = True
    findings: tuple[Finding, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    unread: int = 0

    @classmethod
    def of(cls, exam: Examination, counted: tuple[int, int, int], sure: bool) -> BoxCheck:
        """Return what an examination of a box has found."""
        report = exam.report
        numbers = ((item.name, getattr(report, item.name)) for item in fields(CheckReport) if item.type == "int")
        kept, counts = tuple(report.findings), tuple(report.counts.items())
        return cls(tuple(pair for pair in numbers if pair[1]), *counted, sure, kept, counts, exam.unread)

    def add_to(self, exam: Examination) -> None:
        """Add the findings and counts to the examination of the whole."""
        part = exam.part()
        for name, number in self.numbers:
            setattr(part.report, name, number)
        part.report.findings, part.report.counts, part.unread = [*self.findings], dict(self.counts), self.unread
        exam.add(part)


CODE: Code[BoxCheck] = Code((BoxCheck,))
"""Boxes without findings are recorded; others are checked again."""


def check_boxes(
    share: Share[BoxCheck], name: str, stored: StoredArray, check: Callable[[Box], BoxCheck]
) -> Iterator[tuple[BoxCheck, int]]:
    """Yield what was found in each box of an array, and the number of its elements.

    Parameters
    ----------
    share : Share
        The runner, and the ledger if there is one.
    name : str
        Path of the array below the source.
    stored : StoredArray
        The array.
    check : callable
        Checks a box; it can be pickled.
    """
    if share.plan is not None and name not in share.plan.pieces:  # not readable when the plan was made
        share = replace(share, ledger=None, plan=None)
    array = Array(stored, name, read_only=True)
    return shared_results(share, name, check, _boxes(array), array)


def _boxes(array: Array) -> Iterator[Box]:
    stored, shape = array.stored, array.metadata.shape
    if stored.is_sparse(prod(stored.metadata.grid.counts(shape))):
        yield from (part_of(stored, coords) for coords, _ in stored.stored_chunks() if is_inside(stored, coords))
        return
    grid = block_grid(array, array)
    yield from map(partial(grid.region, shape=shape), cells([(0, count) for count in grid.counts(shape)]))
