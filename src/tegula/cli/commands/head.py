"""``tegula head``."""

from __future__ import annotations

from typing import Annotated

import typer

from tegula.cli.reporting import AllowPickle, AsJson, Raw, print_json, say_decoded
from tegula.cli.rows import Settle, as_text, follow_rows, kind_of_rows, print_followed, window_of_rows, with_rows
from tegula.cli.targets import StorageOptions, Target, open_target
from tegula.extracts.values import array_to_json

__all__ = ["head"]

_ROWS = 10


def head(
    target: Target,
    rows: Annotated[
        int | None,
        typer.Option(
            "-n", "--rows", metavar="N", min=0, help="The number of rows to print. [default: 10]", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print all rows, or -n of them, and wait for those that are appended.")
    ] = False,
    settle: Settle = None,
    raw: Raw = False,
    as_json: AsJson = False,
    allow_pickle: AllowPickle = False,
    storage_option: StorageOptions = None,
) -> None:
    """Print the first rows of an array or a table.

    The middle of wide arrays is abbreviated, as NumPy does; `tegula cat` prints all elements. Values are decoded by the
    attributes of CF, as xarray does.
    """
    with open_target(target, "r", storage_option, allow_pickle=allow_pickle) as opened:
        node = with_rows(opened, target, "head")
        part = window_of_rows(node, target, slice(0, 0 if follow else _ROWS if rows is None else rows), raw=raw)
        if follow:
            print_followed(follow_rows(node, part, 0, rows, settle), as_json)
            return
        values = next(part.for_text().blocks())
    say_decoded(part)
    if as_json:
        print_json(array_to_json(values))
        return
    typer.echo(as_text(values))
    remaining = (node.shape[0] if node.shape else 0) - len(values) if values.ndim else 0
    if remaining > 0:
        typer.echo(f"... and {kind_of_rows(node, remaining, 'more')}")
