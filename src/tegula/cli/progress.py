"""The progress line of long commands: bytes done, total, rate and remaining time of a whole hierarchy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from time import monotonic
from typing import TYPE_CHECKING, Any

from tegula.cli.reporting import print_message
from tegula.cli.targets import Node
from tegula.display.markup import printable
from tegula.errors import TegulaError
from tegula.hierarchy.walking import arrays_below, with_known_members
from tegula.jobs.managing import Done
from tegula.runtime.quantities import human_bytes, human_seconds

if TYPE_CHECKING:
    from tegula.extracts.windows import Window

__all__ = ["amounts", "byte_line", "progress_line", "reading_line"]

Report = Callable[[str, int, int], None]
_PERIOD = 30.0  # seconds for which the rate is the mean, or the time that the last step took


@contextmanager
def progress_line(
    quiet: bool,
    *nodes: Node,
    sizes: Callable[[], Mapping[str, int]] | None = None,
    command: str = "",
    earlier: Callable[[], Mapping[str, Done]] = dict,
) -> Iterator[Report | None]:
    """Show the progress of work on the elements of arrays, in a line on standard error, if that is a terminal.

    Parameters
    ----------
    quiet : bool
        Show no line.
    *nodes : Array, Group or Table
        The nodes to process. Their metadata, and for huge grids a listing of the stored chunks, give the total.
    sizes : callable, optional
        Returns the bytes to process by path, if they are not those of the arrays in the nodes.
    command : str
        The command that goes on after an interruption, with the option that it needs, which is said then.
    earlier : callable
        Returns what an earlier run has done, by array: the line begins there, and its rate does not count it.

    Yields
    ------
    callable or None
        Called with the path of an array below the node, its bytes done and its bytes in total; ``None`` if no line is
        shown.
    """
    with _line(quiet, command) as line:
        if line is None:
            yield None
            return
        # the total of all arrays is known from the beginning
        known = _amounts_of(nodes) if sizes is None else sizes()
        parts = {path: int(known[path] * done.share) for path, done in earlier().items() if path in known}
        finished = sum(parts.values())
        line.total(sum(known.values()), finished)

        def show(path: str, done: int, total: int) -> None:  # several arrays may be under way
            nonlocal finished
            weight = known.get(path, total)
            part = weight if done >= total else max(weight * done // max(1, total), parts.get(path, 0))
            finished += part - parts.get(path, 0)
            parts[path] = part
            line.show(path, finished)

        yield show


@contextmanager
def byte_line(
    quiet: bool, count: Callable[[], int], command: str = "", earlier: Callable[[], Mapping[str, Done]] = dict
) -> Iterator[Report | None]:
    """Show how many bytes have been copied, as `progress_line` does.

    Parameters
    ----------
    quiet : bool
        Show no line.
    count : callable
        Returns the total number of bytes; called only if the line is shown.
    command, earlier
        As for `progress_line`.

    Yields
    ------
    callable or None
        Called with the current path, the number of values and the number of bytes copied so far.
    """
    with _line(quiet, command) as line:
        if line is None:
            yield None
            return
        before = sum(done.written for done in earlier().values())
        line.total(count(), before)
        yield lambda path, values, nbytes: line.show(path, max(nbytes, before))


@contextmanager
def reading_line(quiet: bool, part: Window, name: str) -> Iterator[Window]:
    """Show how much of a window has been read, as `progress_line` does; yield the window to read from."""
    with byte_line(quiet, lambda: prod(part.shape) * part.array.dtype.itemsize) as show:
        watched: Any = part.array if show is None else _Watched(part.array, partial(show, name, 0))
        yield replace(part, array=watched)


class _Watched:
    """An array that reports the number of bytes that have been read."""

    def __init__(self, array: Any, report: Callable[[int], None]) -> None:
        self._array, self._report, self._done = array, report, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)

    def __getitem__(self, selection: Any) -> Any:
        values = self._array[selection]
        self._done += values.nbytes
        self._report(self._done)
        return values


class _Line:
    """The only task of a rich progress display."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        # times and bytes done, since this run began or a while ago: a unit of work may take minutes
        self._steps = [(monotonic(), 0)]
        bar.add_task("looking", total=None, line=self)

    @property
    def percent(self) -> int | None:
        """What is done of the total, in percent; ``None`` if the total is not known."""
        task = self._now
        return int(100 * task.completed / task.total) if task.total else None

    @property
    def rate(self) -> float:
        """The bytes that this run does in a second, until its last step; 0 if it has not made a step."""
        (begin, before), (end, done) = self._steps[0], self._steps[-1]
        return (done - before) / (end - begin) if end > begin else 0

    @property
    def left(self) -> float:
        """The seconds that the rest will take; 0 if that is not known."""
        task, rate = self._now, self.rate
        if not task.total or not rate:
            return 0
        left: float = (task.total - task.completed) / rate - (monotonic() - self._steps[-1][0])
        return max(0, left)

    @property
    def shown(self) -> dict[str, str]:
        """The texts of the columns, which are looked up each time that the line is drawn."""
        percent, rate, left = self.percent, int(self.rate), round(self.left)
        return {
            "percent": "" if percent is None else f"{percent} %",
            "rate": f"{human_bytes(rate)}/s" if rate else "",
            "left": f"{human_seconds(left)} left".replace(".0 s", " s") if left else "",
        }

    @property
    def _now(self) -> Any:
        return self._bar.tasks[0]

    def total(self, number: int, before: int) -> None:
        """Set the total number of bytes, and how many of them an earlier run has done."""
        self._steps = [(monotonic(), before)]
        self._bar.reset(self._now.id, total=number or None, completed=before, description="")

    def show(self, path: str, done: int) -> None:
        """Set the number of bytes done, and show the path."""
        now = monotonic()
        if done > self._steps[-1][1]:
            steps = [*self._steps, (now, done)]
            begin = max((place for place, (time, _) in enumerate(steps[:-1]) if time < now - _PERIOD), default=0)
            self._steps = steps[begin:]
        self._bar.update(self._now.id, completed=done, description=printable(path) or "array")


@contextmanager
def _line(quiet: bool, command: str) -> Iterator[_Line | None]:
    line = None
    try:
        with _shown(quiet) as line:
            yield line
    except KeyboardInterrupt:
        parts = [] if line is None or line.percent is None else [f"{line.percent} % done"]
        if command:
            parts.append(f"go on with: tegula {command}")
        print_message("interrupted", "; ".join(parts) or "the work is not complete")
        raise


@contextmanager
def _shown(quiet: bool) -> Iterator[_Line | None]:
    if quiet or not sys.stderr.isatty() or find_spec("rich") is None:
        yield None
        return
    rich, console = import_module("rich.progress"), import_module("rich.console").Console(stderr=True)
    name = import_module("rich.table").Column(no_wrap=True, overflow="ellipsis", max_width=24)
    parts = (
        rich.TextColumn("{task.description}", markup=False, table_column=name),
        rich.BarColumn(bar_width=None),
        rich.TextColumn("{task.fields[line].shown[percent]}"),
        rich.DownloadColumn(binary_units=True),  # as the reports
        rich.TextColumn("{task.fields[line].shown[rate]}"),
        rich.TextColumn("{task.fields[line].shown[left]}"),
    )
    with rich.Progress(*parts, console=console, transient=True, expand=True) as bar:
        yield _Line(bar)


def _amounts_of(nodes: tuple[Node, ...]) -> dict[str, int]:
    known: dict[str, int] = {}
    for node in nodes:
        with suppress(TegulaError):  # the command says what is wrong
            for path, amount in amounts(with_known_members(node)):
                known[path] = known.get(path, 0) + amount
    return known


def amounts(node: Node) -> Iterator[tuple[str, int]]:
    """Yield path and bytes of each array in a node; if few chunks of a huge grid are stored, the bytes of these.

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
        stored = array.stored
        number = prod(stored.metadata.grid.counts(array.shape))
        amount = array.nbytes
        if stored.store.listable and stored.is_sparse(number):
            amount = min(amount, sum(stored.chunk_nbytes for _ in stored.stored_chunks()))
        yield path, amount
