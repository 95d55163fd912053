"""Output of commands: JSON and columns to standard output, messages to standard error."""

from __future__ import annotations

import os
import re
import shutil
import sys
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tegula.cli.help import ACCESS, OUTPUT
from tegula.display.markup import printable
from tegula.errors import UnsupportedError

if TYPE_CHECKING:
    from tegula.display.info import Info
    from tegula.display.tree import Tree
    from tegula.extracts.windows import Window

__all__ = [
    "AllowPickle",
    "AsJson",
    "Colour",
    "Colours",
    "MissingChunks",
    "QuietButJson",
    "Raw",
    "as_options",
    "print_json",
    "print_line",
    "print_message",
    "print_text",
    "say_decoded",
]

_ARGUMENT: Final = re.compile(r"(?:the option )?\b([a-z_]+)=(True|'[^']*'|\([^)]*\))")
_OPTIONS: Final = frozenset({"allow_pickle", "checksum", "method", "overwrite", "path", "scale_offset"})
_SETTINGS: Final = frozenset({"allow_http", "anonymous", "missing", "remote_protocol"})  # of storage
_STORAGE: Final = re.compile(r"\b(target_|second_)?storage_options\b")
# named without a value, too; no member of a stored document has such a name
_NAMED: Final = re.compile(r"(?:\bfield '|(?<![\w/'\"-]))(max_memory|scale_offset|visible_early)(?:'|(?![\w=/'\"]))")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
QuietButJson = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors, and JSON with --json.", rich_help_panel=OUTPUT)
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Take values as they are stored, without scale, offset, times and missing values.")
]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Unpickle Python objects, which can run any code: only for trusted data.",
        rich_help_panel=ACCESS,
    ),
]


MissingChunks = Annotated[
    str | None,
    typer.Option(
        "--missing-chunks",
        metavar="fill|error",
        help="What chunks that are not stored read as.",
        show_default=False,
        rich_help_panel=ACCESS,
    ),
]


class Colours(StrEnum):
    """When text has colours."""

    auto = "auto"
    always = "always"
    never = "never"


Colour = Annotated[
    Colours,
    typer.Option("--colour", "--color", help="Use colours; auto does on a terminal, unless NO_COLOR is set."),
]


def print_text(shown: Info | Tree, colour: Colours) -> None:
    """Print facts or a tree; on a terminal wrapped to its width, and in colours."""
    on_terminal = sys.stdout.isatty()
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    colours = colour is Colours.always or (colour is Colours.auto and on_terminal and not plain)
    width = shutil.get_terminal_size().columns if on_terminal else None
    typer.echo(shown.as_text(width, colours=colours), color=colours)


def print_line(text: object) -> None:
    """Print a line to standard output; letters that would control a terminal, or end the line, are escaped."""
    typer.echo(printable(str(text)))


def say_decoded(part: Window) -> None:
    """Say that stored values were decoded by their attributes, and how."""
    if part.conventions is not None:
        print_message("note", f"{part.conventions.describe()}; --raw takes what is stored")


def print_message(kind: str, message: object) -> None:
    """Print a message to standard error, in one line and without secrets of URLs.

    Parameters
    ----------
    kind : str
        ``"error"``, ``"warning"``, ``"note"``, ``"repair"`` or ``"interrupted"``.
    message : object
        The message, or an error.
    """
    redacted = import_module("tegula.stores.secrets").redacted  # imported here: most commands print no message
    line = as_options(redacted(" ".join(str(message).splitlines())))
    typer.echo(f"tegula: {kind}: {printable(line)}", err=True)


def as_options(text: str) -> str:
    """Replace the Python arguments that a message of the library names by the options of this program.

    Examples
    --------
    >>> as_options("pass allow_pickle=True if you trust its source")
    'pass --allow-pickle if you trust its source'
    >>> as_options("public data are read with the option anonymous=True; pass scale_offset=(1, 0)")
    'public data are read with --storage-option anonymous=true; pass --scale-offset 1,0'
    >>> as_options("raise max_memory to at least 100 (field 'max_memory')")
    'raise --max-memory to at least 100 (--max-memory)'
    """
    text = _STORAGE.sub(
        lambda match: f"--{match[1] or ''}storage-option".replace("_", "-"), _ARGUMENT.sub(_option, text)
    )
    return _NAMED.sub(lambda match: f"--{match[1]}".replace("_", "-"), text)


def _option(match: re.Match[str]) -> str:
    name, value = match.groups()
    if name in _SETTINGS:
        setting = value.lower() if value == "True" else value.strip("'").translate({40: "[", 41: "]", 32: ""})
        return f"--storage-option {name}={setting}"
    if name not in _OPTIONS:
        return match[0]
    option, plain = f"--{name.replace('_', '-')}", value.strip("'()").replace(", ", ",")
    return option if value == "True" else f"{option} {plain}"


def print_json(value: Any) -> None:
    """Print a value to standard output as strict JSON."""
    try:
        values = import_module("tegula.extracts.values")  # imported here: it needs NumPy, which messages do not
        text = values.json_text(values.to_json(value), indent=2)
    except RecursionError:
        raise UnsupportedError("the output is nested too deeply for JSON; print fewer levels, or omit --json") from None
    typer.echo(text)
