"""Rows as text and JSON: the first ones, the last ones, and those that are being appended."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer

from tegula.arrays.array import Array
from tegula.arrays.node import Node
from tegula.cli.help import ACCESS
from tegula.cli.reporting import print_json, say_decoded
from tegula.cli.targets import needs_array
from tegula.display.layout import columns
from tegula.errors import UnsupportedError
from tegula.extracts.values import array_to_json, json_text
from tegula.extracts.windows import Window, window
from tegula.hierarchy.group import Group
from tegula.runtime.quantities import counted
from tegula.tables.following.follower import follow
from tegula.tables.table import Table

__all__ = ["Settle", "as_text", "follow_rows", "print_followed", "print_rows", "window_of_rows", "with_rows"]

Settle = Annotated[
    float | None,
    typer.Option(
        "--settle",
        metavar="SECONDS",
        min=0,
        help="How long to wait for rows that read as the fill value, since they may not be written yet. [default: 10]",
        show_default=False,
        rich_help_panel=ACCESS,
    ),
]


def with_rows(node: Node, target: str, command: str) -> Array | Table:
    """Return the node that a command has opened.

    Raises
    ------
    UnsupportedError
        If it is a group, which has no rows.
    """
    if isinstance(node, Group):
        raise needs_array(node, target, command)
    opened: Any = node
    found: Array | Table = opened
    return found


def window_of_rows(node: Array | Table, target: str, rows: slice, *, raw: bool) -> Window:
    """Return the window of some rows.

    Raises
    ------
    UnsupportedError
        If a row does not fit into memory.
    """
    part = window(node, (rows, ...) if node.shape else (...,), decodes=not raw)
    if not part.fits:
        raise UnsupportedError("a row does not fit into memory; print a part of it with `tegula cat`", path=target)
    return part


def print_rows(node: Array | Table, part: Window, values: np.ndarray[Any, Any], as_json: bool, first: int = 0) -> None:
    """Print rows as they are shown, and how many there are before and after them; or a JSON document."""
    say_decoded(part)
    if as_json:
        print_json(array_to_json(values))
        return

    def kind(number: int, where: str) -> str:
        return f"{number:,} {where} along the first axis" if len(node.shape) > 1 else counted(number, f"{where} row")

    if first:
        typer.echo(f"{kind(first, 'earlier')} ...")
    typer.echo(as_text(values))
    if values.ndim and (remaining := node.shape[0] - first - len(values)) > 0:
        typer.echo(f"... and {kind(remaining, 'more')}")


def as_text(values: np.ndarray[Any, Any], *, with_names: bool = True) -> str:
    """Return values as text; the middle of wide arrays is abbreviated, and records are lines below their names.

    Examples
    --------
    >>> print(as_text(np.array([(1, "x"), (20, "y")], [("n", "i4"), ("t", "U1")])))
     n  t
     1  x
    20  y
    >>> print(as_text(np.arange(6).reshape(2, 3)))
    [[0 1 2]
     [3 4 5]]
    """
    names = values.dtype.names
    if names is not None and values.ndim == 1:
        cells = [[_cell(row[name]) for name in names] for row in array_to_json(values)]
        right = [column for column, name in enumerate(names) if values.dtype[name].kind in "biuf"]
        return columns([names, *cells] if with_names else cells, right=right)
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] == "generic":
        values = values.view(values.dtype.str.replace("M", "m"))  # dates without a unit have no text
    width = shutil.get_terminal_size().columns
    return np.array2string(values, max_line_width=width, threshold=1000, floatmode="unique")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def follow_rows(
    node: Array | Table, part: Window, first: int, limit: int | None, settle: float | None
) -> Iterator[Any]:
    """Yield blocks of rows from the first one on, as `part` shows them, up to a limit if there is one."""
    if not node.shape:
        raise UnsupportedError("a single element has no rows to follow", path=node.location)
    say_decoded(part)
    shown = part.for_text()
    left = limit
    if left == 0:
        return
    for rows in follow(node, from_row=first, settle=settle):
        values = rows.values if left is None else rows.values[:left]
        axes = (range(rows.start, rows.start + len(values)), *shown.axes[1:])
        yield replace(shown, axes=axes).present(values)
        if left is not None:
            left -= len(values)
            if left == 0:
                return


def print_followed(blocks: Iterator[Any], as_json: bool) -> None:
    """Print blocks of rows as they come: a line for each row, or a JSON document."""
    is_first = True
    for values in blocks:
        if as_json:
            lines = [json_text(row) for row in array_to_json(values)]
        elif values.dtype.names is not None and values.ndim == 1:
            lines = [as_text(values, with_names=is_first)]
        else:
            # an element is taken as an array of one, which keeps its type
            rows = values if values.ndim > 1 else values[:, np.newaxis]
            lines = [as_text(row) if values.ndim > 1 else as_text(row)[1:-1] for row in rows]
        typer.echo("\n".join(lines))
        is_first = False
