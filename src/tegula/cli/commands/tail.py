"""``tegula tail``."""

from __future__ import annotations

from typing import Annotated

import typer

from tegula.cli.reporting import AllowPickle, AsJson, Raw
from tegula.cli.rows import Settle, follow_rows, print_followed, print_rows, window_of_rows, with_rows
from tegula.cli.targets import StorageOptions, Target, open_target

__all__ = ["tail"]


def tail(
    target: Target,
    rows: Annotated[int, typer.Option("-n", "--rows", metavar="N", min=0, help="The number of rows to print.")] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with the rows that are appended, until Ctrl-C.")
    ] = False,
    settle: Settle = None,
    raw: Raw = False,
    as_json: AsJson = False,
    allow_pickle: AllowPickle = False,
    storage_option: StorageOptions = None,
) -> None:
    """Print the last rows of an array or a table, and those that are appended.

    The middle of wide arrays is abbreviated, as NumPy does; `tegula cat` prints all elements. Values are decoded by the
    attributes of CF, as xarray does. With --follow each row is a line, or a JSON document.
    """
    with open_target(target, "r", storage_option, allow_pickle=allow_pickle) as opened:
        node = with_rows(opened, target, "tail")
        part = window_of_rows(node, target, slice(0, 0), raw=raw)
        length = node.shape[0] if node.shape else 0
        if follow:
            print_followed(follow_rows(node, part, max(0, length - rows), None, settle), as_json)
            return
        first = max(0, length - min(rows, part.most_rows))
        values = window_of_rows(node, target, slice(first, length), raw=raw).for_text().read()
    print_rows(node, part, values, as_json, first)
