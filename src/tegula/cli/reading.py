"""``tegula cat``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tegula.cli.completion import complete_place
from tegula.cli.files import output as open_output
from tegula.cli.places import opened
from tegula.cli.reporting import AllowPickle
from tegula.cli.selections import parse_selection, split_selection
from tegula.cli.windows import Window, window
from tegula.cli.writing import SUFFIXES, WRITERS
from tegula.errors import SelectionError, UnsupportedError
from tegula.group import Group

__all__ = ["cat"]


class _Format(StrEnum):
    csv = "csv"
    npy = "npy"
    json = "json"
    text = "text"
    raw = "raw"


def cat(
    place: Annotated[
        str,
        typer.Argument(metavar="PATH", show_default=False, help="The array or table.", autocompletion=complete_place),
    ],
    selection: Annotated[
        str | None,
        typer.Argument(
            metavar="SELECTION", show_default=False, help="What to print, if it is not in brackets after PATH."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", show_default=False, help="Write to a file, not to standard output."
        ),
    ] = None,
    format: Annotated[
        _Format | None,
        typer.Option(
            show_default=False,
            help="The form; by default what the suffix of FILE says (.csv .npy .json .txt .raw), or else csv for up to "
            "2 dimensions and json for more.",
        ),
    ] = None,
    allow_pickle: AllowPickle = False,
) -> None:
    """Print the elements of an array or the rows of a table, or of a part of it.

    A SELECTION is what NumPy takes between brackets: ints, slices with any step, ... and names of fields, as in
    tegula cat "x.zarr::temperature[0, ::2, -1]". Memory is bounded however large the array is.

    csv has a line for each row, below a line of names for tables and structured elements; json has nested lists, with
    NaN and the infinities as strings, and an object for each row of a table; npy is NumPy's file format; text is what
    numpy.loadtxt reads; raw are the bytes of the elements in C order.

    A FILE appears when it is complete: an error or Ctrl-C leaves what was there before.
    """
    try:
        path, items = split_selection(place) if selection is None else (place, parse_selection(selection))
    except SelectionError as error:
        raise typer.BadParameter(str(error), param_hint="SELECTION") from error
    with opened(path, allow_pickle=allow_pickle) as node:
        if isinstance(node, Group):
            raise UnsupportedError("there is a group, not an array; name one of its arrays as PATH::INNER", path=path)
        part = window(node, items if items is not None else (...,))
        _write(part, _form(format, output, part), output)


def _form(format: _Format | None, file: Path | None, part: Window) -> str:
    if format is not None:
        return format.value
    implied = SUFFIXES.get(file.suffix.lower()) if file is not None else None
    return implied or ("csv" if len(part.shape) <= 2 else "json")


def _write(part: Window, form: str, file: Path | None) -> None:
    if file is None and form in ("npy", "raw") and sys.stdout.isatty():
        raise typer.BadParameter(f"{form} is not for a terminal; use -o FILE", param_hint="--format")
    pieces = WRITERS[form](part)
    first = next(pieces, b"")  # what can't be written so is refused before the file is touched
    with open_output(file) as stream:
        stream.write(first)
        stream.writelines(pieces)
