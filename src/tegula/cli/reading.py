"""``tegula cat``."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer

from tegula.cli.places import opened
from tegula.cli.selections import parse_selection, split_selection
from tegula.cli.windows import Window, window
from tegula.cli.writing import WRITERS
from tegula.errors import SelectionError, UnsupportedError
from tegula.group import Group

__all__ = ["cat"]


class _Output(StrEnum):
    npy = "npy"
    csv = "csv"
    json = "json"
    raw = "raw"


def cat(
    place: Annotated[str, typer.Argument(metavar="PATH", show_default=False, help="The array or table.")],
    selection: Annotated[
        str | None,
        typer.Argument(
            metavar="SELECTION", show_default=False, help="What to print, if it is not in brackets after PATH."
        ),
    ] = None,
    output: Annotated[
        _Output | None,
        typer.Option(
            show_default=False,
            help="The form; by default what the name of FILE ends in, or csv up to 2 dimensions and json beyond.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--file", metavar="FILE", help="Write to a file, not to standard output.")
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Unpickle Python objects, which can run any code: trust the data.")
    ] = False,
) -> None:
    """Print the elements of an array or the rows of a table, or of a part of it.

    A SELECTION is what NumPy takes between brackets: ints, slices with any step, ... and names of fields, as in
    tegula cat "x.zarr::temperature[0, ::2, -1]". Memory is bounded however large the array is.

    csv has a line for each row, below a line of names for structured elements; json nested lists, with NaN and the
    infinities as text; npy is NumPy's file format, raw the bytes of the elements in C order.
    """
    try:
        path, items = split_selection(place) if selection is None else (place, parse_selection(selection))
    except SelectionError as error:
        raise typer.BadParameter(str(error), param_hint="SELECTION") from error
    with opened(path, allow_pickle=allow_pickle) as node:
        if isinstance(node, Group):
            raise UnsupportedError("there is a group, not an array; name one of its arrays as PATH::INNER", path=path)
        part = window(node, items if items is not None else (...,))
        _write(part, _form(output, file, part), file)


def _form(output: _Output | None, file: Path | None, part: Window) -> str:
    if output is not None:
        return output.value
    ending = file.suffix[1:].lower() if file is not None else ""
    return ending if ending in WRITERS else "csv" if len(part.shape) <= 2 else "json"


def _write(part: Window, form: str, file: Path | None) -> None:
    if file is None and form in ("npy", "raw") and sys.stdout.isatty():
        raise typer.BadParameter(f"{form} is not for a terminal; use -o FILE", param_hint="--output")
    pieces = WRITERS[form](part)
    first = next(pieces, b"")  # what can't be written so is refused before the file is touched
    with _target(file) as stream:
        stream.write(first)
        stream.writelines(pieces)


@contextmanager
def _target(file: Path | None) -> Iterator[IO[bytes]]:
    if file is not None:
        with file.open("wb") as stream:
            yield stream
        return
    stdout = typer.get_binary_stream("stdout")
    if not isinstance(stdout, io.RawIOBase):
        yield stdout
        stdout.flush()
        return
    buffered = io.BufferedWriter(stdout)  # with PYTHONUNBUFFERED a write may be cut short, and would not say so
    try:
        yield buffered
        buffered.flush()
    finally:
        buffered.detach()
