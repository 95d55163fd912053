"""What commands print: JSON and columns to standard output, messages to standard error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tegula.cli.values import plain
from tegula.errors import UnsupportedError

__all__ = ["AsJson", "columns", "print_json", "tell"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def tell(kind: str, message: object) -> None:
    """Print a message to standard error, in one line."""
    typer.echo(f"tegula: {kind}: {' '.join(str(message).splitlines())}", err=True)


def print_json(value: Any) -> None:
    """Print a value to standard output as strict JSON."""
    try:
        text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise UnsupportedError("it is nested too deeply for JSON; print fewer levels, or without --json") from None
    typer.echo(text)


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out a table as text.

    Parameters
    ----------
    rows : sequence of rows of str
        The cells, row by row.
    right : sequence of int
        The columns that are aligned at the right.

    Examples
    --------
    >>> print(columns([["array", "12", "x"], ["group", "9", "data"]], right=[1]))
    array  12  x
    group   9  data
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )
