"""``tegula cat``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tegula.cli.files import on_terminal
from tegula.cli.files import output as open_output
from tegula.cli.progress import reading_line
from tegula.cli.reporting import AllowPickle, Raw, say_decoded
from tegula.cli.targets import StorageOptions, needs_array, open_target, target_argument
from tegula.display.markup import printable
from tegula.errors import SelectionError
from tegula.extracts.selections import parse_selection, split_selection
from tegula.extracts.windows import Window, window
from tegula.extracts.writing import SUFFIXES, WRITERS, writer
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
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    raw: Raw = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only values and errors.")] = False,
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

    On a terminal, letters of text that would control it are escaped, as \\x1b.

    FILE is written under a temporary name and renamed at the end: an error or Ctrl-C leaves an old FILE unchanged.
    """
    form = _output_format(_Format.json if as_json else format, output)
    try:
        path, items = split_selection(target) if selection is None else (target, parse_selection(selection))
    except SelectionError as error:
        raise typer.BadParameter(str(error), param_hint="SELECTION") from error
    with open_target(path, "r", storage_option, selects=selection is None or None, allow_pickle=allow_pickle) as node:
        if isinstance(node, Group):
            raise needs_array(node, path, "cat")
        part = window(node, items if items is not None else (...,), decodes=not raw)
        form = form or ("csv" if len(part.shape) <= 2 else "json")
        with reading_line(quiet or output is None, part, node.name) as watched:
            _write(watched if form in ("npy", "raw") else watched.for_text(), form, output)
    if not quiet:
        say_decoded(part)


def _output_format(format: _Format | None, file: Path | None) -> str | None:
    """Return the format that the command line chooses; ``None`` if it depends on the number of dimensions."""
    if format is not None:
        form: str | None = format.value
    else:
        suffix = file.suffix.lower() if file is not None else ""
        if suffix and suffix not in SUFFIXES:
            raise typer.BadParameter(
                f"no format has the suffix {suffix!r}; use one of {' '.join(SUFFIXES)}, or choose with --format",
                param_hint="--output",
            )
        form = SUFFIXES.get(suffix)
    if form in ("npy", "raw") and on_terminal(file):
        raise typer.BadParameter(f"{form} can't be shown on a terminal; use -o FILE", param_hint="--format")
    return form


def _write(part: Window, format: str, file: Path | None) -> None:
    pieces = (writer(format, printable) if on_terminal(file) else WRITERS[format])(part)
    first = next(pieces, b"")  # values that the format can't hold raise an error before the file is opened
    with open_output(file) as stream:
        stream.write(first)
        stream.writelines(pieces)
