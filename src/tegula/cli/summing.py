"""``tegula stats``."""

from __future__ import annotations

import shutil
import sys
from typing import Final

import typer

from tegula.cli.places import Place, opened
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, Quiet, columns, one_line, print_json, tell
from tegula.measuring import Statistics, short, statistics

__all__ = ["stats"]

_RIGHT: Final = range(1, 7)
_WIDEST: Final = 32
_NARROWEST: Final = 8  # letters of a histogram
_SHORTEST: Final = 10  # letters of a name


def stats(place: Place, as_json: AsJson = False, quiet: Quiet = False, allow_pickle: AllowPickle = False) -> None:
    """Print minimum, maximum, mean, standard deviation, missing values and a histogram.

    Of a group there is a line for each array in it, of a table for each column. NaN, NaT and what the attributes
    _FillValue and missing_value name are missing values. Values are taken as they are stored, without scale and offset.
    Memory is bounded; chunks that are not stored are counted as fill values without being visited.

    The exit code is 1 if something could not be read.
    """
    with opened(place, allow_pickle=allow_pickle) as node, progress_line(quiet, node) as progress:
        found = statistics(node, progress=progress)
    if as_json:
        print_json(found.as_dict())
    elif not quiet:
        _print(found)
    for path, reason in found.failed.items():
        tell("error", f"/{path}: {reason}")
    if found.failed:
        raise typer.Exit(1)


def _print(found: Statistics) -> None:
    if found.kind == "array" and not found.parts:
        typer.echo(columns(_facts(found)))
        return
    rows = _fitted(found)
    if len(rows) > 1:
        typer.echo(columns(rows, right=_RIGHT))
    if not found.parts and not found.failed:
        typer.echo(f"there are no arrays in this {found.kind}")


def _facts(found: Statistics) -> list[list[str]]:
    total = found.count + found.missing
    share = f" ({found.missing / total:.1%} of {total})" if found.missing else ""
    rows = [
        ["Data type", found.dtype],
        ["Count", str(found.count)],
        ["Missing", f"{found.missing}{share}"],
        *([name, short(value)] for name, value in (("Min", found.min), ("Max", found.max))),
        *([name, short(value)] for name, value in (("Mean", found.mean), ("Std", found.std)) if value is not None),
    ]
    shown = found.histogram
    if shown is not None:
        rows.append(["Histogram", f"{short(shown.edges[0])} {shown} {short(shown.edges[-1])}"])
    return rows


def _fitted(found: Statistics) -> list[list[str]]:
    """Return the lines of a table; on a terminal with shorter histograms and names, as far as that makes them fit."""
    rows = _rows(found, _WIDEST)
    if not sys.stdout.isatty():
        return rows
    columns_there = shutil.get_terminal_size().columns
    excess = _width(rows) - columns_there
    if excess > 0:
        rows = _rows(found, max(_NARROWEST, max(len(row[-1]) for row in rows[1:]) - excess))
        excess = _width(rows) - columns_there
    width = max(_SHORTEST, max(len(row[0]) for row in rows) - max(0, excess))
    return [[name if len(name) <= width else f"…{name[1 - width :]}", *rest] for name, *rest in rows]


def _rows(found: Statistics, width: int) -> list[list[str]]:
    return [[one_line(row[0]), *row[2:]] for row in found.rows(width)]  # the data type `tegula ls -l` says


def _width(rows: list[list[str]]) -> int:
    return sum(max(map(len, column)) for column in zip(*rows)) + 2 * (len(rows[0]) - 1)
