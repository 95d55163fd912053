"""What commands print: JSON and columns to standard output, messages to standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from tegula.errors import UnsupportedError

__all__ = ["AllowPickle", "AsJson", "Quiet", "columns", "one_line", "print_json", "tell", "with_options"]

_ARGUMENT: Final = re.compile(r"\b(allow_pickle|overwrite|checksum)=True\b")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only, and JSON if asked for.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Unpickle Python objects, which can run any code: trust the data.")
]


def tell(kind: str, message: object) -> None:
    """Print a message to standard error, in one line."""
    typer.echo(f"tegula: {kind}: {with_options(' '.join(str(message).splitlines()))}", err=True)


def with_options(text: str) -> str:
    """Name the program's options where a message of the library names arguments of Python.

    Examples
    --------
    >>> with_options("pass allow_pickle=True if you trust its source")
    'pass --allow-pickle if you trust its source'
    """
    return _ARGUMENT.sub(lambda match: f"--{match[1].replace('_', '-')}", text)


def one_line(text: str) -> str:
    r"""Escape what is not printable: names of files may hold anything.

    Examples
    --------
    >>> print(one_line("a\nb"))
    a\nb
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def print_json(value: Any) -> None:
    """Print a value to standard output as strict JSON."""
    try:
        plain = import_module("tegula.cli.values").plain  # only now: it imports numpy, which messages do not need
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
