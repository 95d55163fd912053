"""``tegula head``."""

from __future__ import annotations

from typing import Annotated

import typer

from tegula.cli.reporting import AllowPickle, AsJson, Raw
from tegula.cli.rows import Settle, follow_rows, print_followed, print_rows, window_of_rows, with_rows
from tegula.cli.targets import StorageOptions, Target, open_target

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
    print_rows(node, part, values, as_json)
