"""``tegula head``."""

from __future__ import annotations

import shutil
from typing import Annotated, Any

import numpy as np
import typer

from tegula.arrays.array import Array
from tegula.cli.reporting import AllowPickle, AsJson, Raw, print_json, say_decoded
from tegula.cli.targets import StorageOptions, Target, needs_array, open_target
from tegula.display.layout import columns
from tegula.errors import UnsupportedError
from tegula.extracts.values import array_to_json, json_text
from tegula.extracts.windows import window
from tegula.hierarchy.group import Group
from tegula.runtime.quantities import counted

__all__ = ["head"]


def head(
    target: Target,
    rows: Annotated[int, typer.Option("-n", "--rows", min=0, help="The number of rows to print.")] = 10,
    raw: Raw = False,
    as_json: AsJson = False,
    allow_pickle: AllowPickle = False,
    storage_option: StorageOptions = None,
) -> None:
    """Print the first rows of an array or a table.

    The middle of wide arrays is abbreviated, as NumPy does; `tegula cat` prints all elements. Values are decoded by the
    attributes of CF, as xarray does.
    """
    with open_target(target, "r", storage_option, allow_pickle=allow_pickle) as node:
        if isinstance(node, Group):
            raise needs_array(node, target, "head")
        part = window(node, (slice(0, rows), ...) if node.shape else (...,), decodes=not raw)
        if not part.fits:
            raise UnsupportedError("a row does not fit into memory; print a part of it with `tegula cat`", path=target)
        values = next(part.for_text().blocks())
    say_decoded(part)
    if as_json:
        print_json(array_to_json(values))
    elif values.dtype.names is not None and values.ndim == 1:
        typer.echo(_as_table(values))
    else:
        typer.echo(_as_array(values))
    remaining = (node.shape[0] if node.shape else 0) - len(values) if values.ndim else 0
    if remaining > 0 and not as_json:
        kind = "index" if isinstance(node, Array) and node.ndim > 1 else "row"
        typer.echo(
            f"... and {counted(remaining, 'row') if kind == 'row' else f'{remaining:,} more along the first axis'}"
        )


def _as_table(values: np.ndarray[Any, Any]) -> str:
    names = values.dtype.names or ()
    cells = [[_cell(row[name]) for name in names] for row in array_to_json(values)]
    right = [column for column, name in enumerate(names) if values.dtype[name].kind in "biuf"]
    return columns([names, *cells], right=right)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def _as_array(values: np.ndarray[Any, Any]) -> str:
    width = shutil.get_terminal_size().columns
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] == "generic":
        values = values.view(values.dtype.str.replace("M", "m"))  # dates without a unit have no text
    return np.array2string(values, max_line_width=width, threshold=1000)
