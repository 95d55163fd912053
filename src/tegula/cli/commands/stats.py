"""``tegula stats``."""

from __future__ import annotations

import shutil
from typing import Final

import typer

from tegula.cli.files import on_terminal
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, MissingChunks, QuietButJson, Raw, print_json, print_message
from tegula.cli.running import Dask, Ledger, Workers, runner_options
from tegula.cli.targets import StorageOptions, Target, open_target
from tegula.display.contents import short_text
from tegula.display.layout import cells_of, columns, cut
from tegula.display.markup import printable
from tegula.jobs.statistics.statistics import Statistics, statistics
from tegula.runtime.quantities import counted

__all__ = ["stats"]

_RIGHT: Final = range(1, 7)  # columns of numbers
_WIDEST_HISTOGRAM: Final = 32  # characters
_NARROWEST_HISTOGRAM: Final = 8
_SHORTEST_NAME: Final = 10


def stats(
    target: Target,
    workers: Workers = None,
    dask: Dask = None,
    ledger: Ledger = None,
    raw: Raw = False,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    storage_option: StorageOptions = None,
) -> None:
    """Print count, missing values, minimum, maximum, mean, standard deviation and a histogram.

    A group has a line for each array in it, a table one for each column. Missing values are NaN, NaT, and the values of
    the attributes _FillValue and missing_value. Packed numbers and times are decoded by their attributes (CF), unless
    --raw asks for what is stored. Memory is bounded, and chunks that are not stored count as fill values without being
    visited.

    The exit code is 1 if an array could not be read.
    """
    with (
        open_target(target, "r", storage_option, allow_pickle=allow_pickle, missing_chunks=missing_chunks) as node,
        progress_line(quiet, node) as progress,
    ):
        result = statistics(node, raw=raw, progress=progress, ledger=ledger, **runner_options(workers, dask))
    if as_json:
        print_json(result.as_dict())
    elif not quiet:
        _print(result)
    if not quiet and not as_json and (decoded := [part.decoded for _, part in result.leaves() if part.decoded]):
        what = decoded[0] if result.kind == "array" else f"{counted(len(decoded), 'array')} decoded by their attributes"
        print_message("note", f"{what}; --raw takes what is stored")
    for path, reason in result.failed.items():
        print_message("error", f"/{path}: {reason}")
    if result.failed:
        raise typer.Exit(1)


def _print(result: Statistics) -> None:
    if result.kind == "array" and not result.parts:
        typer.echo(columns(_facts(result)))
        return
    rows = _fitted(result)
    if len(rows) > 1:
        typer.echo(columns(rows, right=_RIGHT, width=shutil.get_terminal_size().columns if on_terminal() else None))
    if not result.parts and not result.failed:
        typer.echo(f"there are no arrays in this {result.kind}")


def _facts(result: Statistics) -> list[list[str]]:
    total = result.count + result.missing
    share = f" ({result.missing / total:.1%} of {total:,})" if result.missing else ""
    rows = [
        ["Data type", result.dtype],
        ["Count", f"{result.count:,}"],
        ["Missing", f"{result.missing:,}{share}"],
        *([name, short_text(value)] for name, value in (("Min", result.min), ("Max", result.max))),
        *(
            [name, short_text(value)]
            for name, value in (("Mean", result.mean), ("Std", result.std))
            if value is not None
        ),
    ]
    histogram = result.histogram
    if histogram is not None:
        rows.append(["Histogram", f"{short_text(histogram.edges[0])} {histogram} {short_text(histogram.edges[-1])}"])
    return rows


def _fitted(result: Statistics) -> list[list[str]]:
    """Return the rows of a table; shorten or omit histograms, then shorten names, to fit the width of a terminal."""
    rows = _rows(result, _WIDEST_HISTOGRAM)
    if not on_terminal():
        return rows
    terminal_width = shutil.get_terminal_size().columns
    excess = _width(rows) - terminal_width
    if excess > 0:
        rows = _rows(result, max(_NARROWEST_HISTOGRAM, max(len(row[-1]) for row in rows[1:]) - excess))
        excess = _width(rows) - terminal_width
    words = [max(cells_of(word) for cell in column for word in cell.split()) for column in [*zip(*rows)][1:]]
    if _SHORTEST_NAME + sum(words) + 2 * len(words) > terminal_width:  # even with times on two lines
        rows = [row[:-1] for row in rows]
        excess = _width(rows) - terminal_width
    width = max(_SHORTEST_NAME, max(cells_of(row[0]) for row in rows) - max(0, excess))
    return [[cut(name, width, end=True), *cells] for name, *cells in rows]


def _rows(result: Statistics, width: int) -> list[list[str]]:
    """Return the rows of a table without the data types, which `tegula ls -l` prints."""
    return [[printable(cell) for cell in (row[0], *row[2:])] for row in result.rows(width)]


def _width(rows: list[list[str]]) -> int:
    return sum(max(map(cells_of, column)) for column in zip(*rows)) + 2 * (len(rows[0]) - 1)
