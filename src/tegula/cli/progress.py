"""The progress line of commands that take long: done, total, rate and remaining time of a whole hierarchy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

from tegula.arrays import Array
from tegula.cli.reporting import one_line
from tegula.group import Group
from tegula.table import Table
from tegula.units import arrays_below

__all__ = ["amounts", "byte_line", "progress_line"]

Report = Callable[[str, int, int], None]


@contextmanager
def progress_line(quiet: bool, *nodes: Array | Group | Table) -> Iterator[Report | None]:
    """Show how far work on the elements of arrays has come, in a line on standard error, if that is a terminal.

    Parameters
    ----------
    quiet : bool
        Show none.
    *nodes : Array, Group or Table
        What is gone through: its metadata, and for huge grids the listing of what is stored, say how much there is to
        do.

    Yields
    ------
    callable or None
        Takes path below the node, bytes done and bytes in all of the array at hand; ``None`` where nothing is shown.
    """
    with _line(quiet) as line:
        if line is None:
            yield None
            return
        known = _amounts_of(nodes)
        line.total(sum(known.values()))
        finished = 0
        current: tuple[str, int] | None = None

        def show(path: str, done: int, total: int) -> None:
            nonlocal finished, current
            weight = known.get(path, total)
            if current is not None and current[0] != path:
                finished += current[1]
            current = path, weight
            part = weight if done >= total else weight * done // max(1, total)
            line.show(path, finished + part)

        yield show


@contextmanager
def byte_line(quiet: bool, count: Callable[[], int]) -> Iterator[Report | None]:
    """Show how many bytes have been copied, as `progress_line` does.

    Parameters
    ----------
    quiet : bool
        Show none.
    count : callable
        Returns how many there are; called only where they are shown.

    Yields
    ------
    callable or None
        Takes the path at hand, the number of values and that of bytes that have been copied.
    """
    with _line(quiet) as line:
        if line is None:
            yield None
            return
        line.total(count())
        yield lambda path, values, nbytes: line.show(path, nbytes)


class _Line:
    """The one task of a rich progress display."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task = bar.add_task("looking", total=None)

    def total(self, number: int) -> None:
        """Say how many bytes there are in all."""
        self._bar.update(self._task, total=number or None, description="")

    def show(self, path: str, done: int) -> None:
        """Say how many of them are done."""
        self._bar.update(self._task, completed=done, description=one_line(path) or "array")


@contextmanager
def _line(quiet: bool) -> Iterator[_Line | None]:
    if quiet or not sys.stderr.isatty() or find_spec("rich") is None:
        yield None
        return
    rich, console = import_module("rich.progress"), import_module("rich.console").Console(stderr=True)
    name = import_module("rich.table").Column(no_wrap=True, overflow="ellipsis", max_width=24)
    parts = (
        rich.TextColumn("{task.description}", markup=False, table_column=name),
        rich.BarColumn(bar_width=None),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(compact=True),
    )
    with rich.Progress(*parts, console=console, transient=True, expand=True) as bar:
        yield _Line(bar)


def _amounts_of(nodes: tuple[Array | Group | Table, ...]) -> dict[str, int]:
    known: dict[str, int] = {}
    for node in nodes:
        for path, amount in amounts(node):
            known[path] = known.get(path, 0) + amount
    return known


def amounts(node: Array | Group | Table) -> Iterator[tuple[str, int]]:
    """Yield path and bytes to go through of each array in a node; of a grid with few stored chunks those of them.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=(10**9, 10**9), chunks=(100, 100), dtype="u1")
    >>> x[5, 5] = 1
    >>> [*amounts(g)]
    [('x', 10000)]
    """
    for path, array in arrays_below(node, {}):
        stored = array._stored
        number = prod(stored.metadata.grid.counts(array.shape))
        amount = array.nbytes
        if stored.is_sparse(number):
            amount = min(amount, sum(stored.chunk_nbytes for _ in stored.stored_chunks()))
        yield path, amount
