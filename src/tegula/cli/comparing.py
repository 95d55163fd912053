"""``tegula compare``."""

from __future__ import annotations

import errno
from typing import Annotated

import typer

from tegula.cli.completion import complete_place
from tegula.cli.places import opened
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, Quiet, one_line, print_json, tell
from tegula.comparing import Comparison
from tegula.comparing import compare as compare_nodes
from tegula.errors import TegulaError

__all__ = ["compare"]

_First = Annotated[
    str, typer.Argument(metavar="A", show_default=False, help="One node.", autocompletion=complete_place)
]
_Second = Annotated[
    str, typer.Argument(metavar="B", show_default=False, help="The other.", autocompletion=complete_place)
]


def compare(
    first: _First,
    second: _Second,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare the bits of values: -0.0 is not 0.0, nor each NaN another.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    allow_pickle: AllowPickle = False,
) -> None:
    """Compare two arrays, or two groups or tables with all that is in them, of any formats.

    Shapes, data types, names of dimensions, attributes and values must be equal, and the members the same; format,
    chunks, codecs and fill values may differ. NaN equals NaN, and -0.0 equals 0.0. For each difference there is a line.

    The exit code is 0 if both are equal, 1 if they differ, and 2 if that can't be found out.
    """
    try:
        report = _compared(first, second, exact, quiet, allow_pickle)
    except (TegulaError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE and not isinstance(error, TegulaError):
            raise
        tell("error", error)
        raise typer.Exit(2) from error
    if as_json:
        print_json(report.as_dict())
    elif not quiet:
        _print(report)
    for path, reason in report.failed.items():
        tell("error", f"/{path}: {reason}")
    if not report:
        raise typer.Exit(2 if report.failed else 1)


def _compared(first: str, second: str, exact: bool, quiet: bool, allow_pickle: bool) -> Comparison:
    with (
        opened(first, allow_pickle=allow_pickle) as one,
        opened(second, allow_pickle=allow_pickle) as other,
        progress_line(quiet, one) as progress,
    ):
        return compare_nodes(one, other, exact=exact, progress=progress)


def _print(report: Comparison) -> None:
    for found in report.differences:
        typer.echo(one_line(str(found)))
    left_out = sum(report.counts.values()) - len(report.differences)
    if left_out:
        typer.echo(f"... and {left_out} more")
    typer.echo(report.summary)
