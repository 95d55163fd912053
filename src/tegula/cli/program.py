"""The program as a whole: its commands, each imported when it is used, and how failures end."""

from __future__ import annotations

import errno
import logging
import sys
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from tegula import __version__
from tegula.cli.reporting import tell
from tegula.errors import TegulaError

__all__ = ["app"]


class _Command(NamedTuple):
    """Where a command is: its module below ``tegula.cli``, and its function or, for several, their `typer.Typer`."""

    module: str
    name: str
    has_numbers: bool = False  # what looks like an unknown option may be a negative number


_COMMANDS: Final = {
    "info": _Command("listing", "info"),
    "tree": _Command("listing", "tree"),
    "ls": _Command("listing", "ls"),
    "head": _Command("heading", "head"),
    "cat": _Command("reading", "cat", has_numbers=True),
    "stats": _Command("summing", "stats"),
    "attrs": _Command("attributes", "app"),
    "convert": _Command("converting", "convert"),
    "compare": _Command("comparing", "compare"),
    "check": _Command("checking", "check"),
    "consolidate": _Command("consolidating", "consolidate"),
    "cp": _Command("moving", "cp"),
    "mv": _Command("moving", "mv"),
    "rm": _Command("moving", "rm"),
    "doctor": _Command("doctor", "doctor"),
}
"""The commands in the order of the help."""


class _Program(TyperGroup):
    """The group of all commands; ends what tegula and the operating system raise as one line and exit code 1."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _made(cmd_name) if cmd_name in _COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS:  # typer looks for similar names among these
            self.commands = {name: _made(name) for name in _COMMANDS}
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first sentence of each command's help, wrapped; the inherited method cuts it off."""
        rows = [(name, _made(name).get_short_help_str(limit=10_000)) for name in _COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # so that a reader who has gone is noticed here, not at the end of the process
        except TegulaError as error:
            tell("error", error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # ends the process quietly, further up
                raise
            tell("error", f"{error.filename}: {error.strerror}" if error.filename else error)
        else:
            return result
        raise typer.Exit(1)


_STYLE: Final[dict[str, Any]] = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}
_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}


def _made(name: str) -> Any:
    """Import a command, and make what typer runs of it."""
    entry = _COMMANDS[name]
    found = getattr(import_module(f"tegula.cli.{entry.module}"), entry.name)
    if not isinstance(found, typer.Typer):
        command = typer.Typer(**_STYLE)
        settings = {**_SETTINGS, "ignore_unknown_options": True} if entry.has_numbers else _SETTINGS
        command.command(name, context_settings=settings)(found)
        found = command
    made = typer.main.get_command(found)
    made.name = name
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tegula {__version__}")
        raise typer.Exit


app = typer.Typer(cls=_Program, **{**_STYLE, "add_completion": True}, no_args_is_help=True, context_settings=_SETTINGS)


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Look at, print, check, compare and convert the chunked arrays of bcolz and Zarr v1, v2 and v3.

    A PATH is a directory, a zip archive or a file: URL; PATH::inner/path is a node inside it.
    """
    # that the kernel is missing `tegula doctor` says; each of many short processes need not
    logging.getLogger("tegula").setLevel(logging.ERROR)
