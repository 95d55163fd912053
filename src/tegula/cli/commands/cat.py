"""``tegula cat``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tegula.cli.files import output as open_output
from tegula.cli.reporting import AllowPickle, Raw, say_decoded
from tegula.cli.targets import StorageOptions, needs_array, open_target, target_argument
from tegula.errors import SelectionError
from tegula.extracts.selections import parse_selection, split_selection
from tegula.extracts.windows import Window, window
from tegula.extracts.writing import SUFFIXES, WRITERS
from tegula.hierarchy.group import Group

__all__ = ["cat"]


class _Format(StrEnum):
    csv = "csv"
    npy = "npy"
    json = "json"
    text = "text"
    raw = "raw"


def cat(
    target: Annotated[str, target_argument("PATH", "The array or table, maybe with a selection: PATH[SELECTION].")],
    selection: Annotated[
        str | None,
        typer.Argument(
            metavar="SELECTION", show_default=False, help="The selection, if it is not in brackets after PATH."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", show_default=False, help="Write to FILE instead of standard output."
        ),
    ] = None,
    format: Annotated[
        _Format | None,
        typer.Option(
            show_default=False,
            help="The output format. By default the suffix of FILE chooses it (.csv .npy .json .txt .raw); without one "
            "it is csv for up to 2 dimensions and json for more.",
        ),
    ] = None,
    raw: Raw = False,
    allow_pickle: AllowPickle = False,
    storage_option: StorageOptions = None,
) -> None:
    """Print the elements of an array or the rows of a table, or a selection of them.

    A SELECTION is written as in NumPy: ints, slices with any step, ... and names of fields, as in
    tegula cat "x.zarr::temperature[0, ::2, -1]". Memory is bounded, however large the array is.

    csv has a line for each row, and a header line for tables and structured elements. json has nested lists, with NaN
    and the infinities as strings, and an object for each row of a table. npy is NumPy's file format. text can be read
    by numpy.loadtxt. raw is the bytes of the elements in C order.

    Values are decoded by the attributes of CF, as xarray does; --raw takes what is stored.

    FILE is written under a temporary name and renamed at the end: an error or Ctrl-C leaves an old FILE unchanged.
    """
    try:
        path, items = split_selection(target) if selection is None else (target, parse_selection(selection))
    except SelectionError as error:
        raise typer.BadParameter(str(error), param_hint="SELECTION") from error
    with open_target(path, "r", storage_option, allow_pickle=allow_pickle) as node:
        if isinstance(node, Group):
            raise needs_array(node, path)
        part = window(node, items if items is not None else (...,), decodes=not raw)
        _write(part, _output_format(format, output, part), output)
    say_decoded(part)


def _output_format(format: _Format | None, file: Path | None, part: Window) -> str:
    if format is not None:
        return format.value
    suffix = file.suffix.lower() if file is not None else ""
    if suffix and suffix not in SUFFIXES:
        raise typer.BadParameter(
            f"no format has the suffix {suffix!r}; use one of {' '.join(SUFFIXES)}, or choose with --format",
            param_hint="--output",
        )
    return SUFFIXES.get(suffix) or ("csv" if len(part.shape) <= 2 else "json")


def _write(part: Window, format: str, file: Path | None) -> None:
    if file is None and format in ("npy", "raw") and sys.stdout.isatty():
        raise typer.BadParameter(f"{format} can't be shown on a terminal; use -o FILE", param_hint="--format")
    pieces = WRITERS[format](part)
    first = next(pieces, b"")  # values that the format can't hold raise an error before the file is opened
    with open_output(file) as stream:
        stream.write(first)
        stream.writelines(pieces)
