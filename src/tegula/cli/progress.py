"""The progress line of commands that take long: done, total, rate and remaining time of a whole hierarchy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from math import prod

from tegula.array import Array
from tegula.group import Group
from tegula.table import Table
from tegula.units import arrays_below

__all__ = ["amounts", "progress_line"]

Report = Callable[[str, int, int], None]


@contextmanager
def progress_line(quiet: bool, *nodes: Array | Group | Table) -> Iterator[Report | None]:
    """Show a progress line on standard error, if that is a terminal.

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
    if quiet or not sys.stderr.isatty():
        yield None
        return
    rich, console = import_module("rich.progress"), import_module("rich.console").Console(stderr=True)
    name = import_module("rich.table").Column(no_wrap=True, overflow="ellipsis", max_width=24)
    parts = (
        rich.TextColumn("{task.description}", markup=False, table_column=name),
        rich.BarColumn(bar_width=None),
        rich.DownloadColumn(binary_units=True),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(compact=True),
    )
    with rich.Progress(*parts, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("looking", total=None)
        known = _amounts_of(nodes)
        bar.update(task, total=sum(known.values()) or None)
        finished = 0
        current: tuple[str, int] | None = None

        def show(path: str, done: int, total: int) -> None:
            nonlocal finished, current
            weight = known.get(path, total)
            if current is not None and current[0] != path:
                finished += current[1]
            current = path, weight
            part = weight if done >= total else weight * done // max(1, total)
            bar.update(task, completed=finished + part, description=path or "array")

        yield show


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
