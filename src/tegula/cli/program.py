"""The program: its commands, each imported when it is used, and its exit codes."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from tegula import config
from tegula.cli.help import Command, Commands
from tegula.cli.reporting import MissingChunks, print_message
from tegula.errors import TegulaError
from tegula.runtime.version import __version__

__all__ = ["app"]


class _Command(NamedTuple):
    """A command: its module in ``tegula.cli``, and the function or, for subcommands, the `typer.Typer` in it."""

    module: str
    name: str
    has_numbers: bool = False  # an unknown option may be a negative number


_COMMANDS: Final = {
    "info": _Command("listing", "info"),
    "tree": _Command("listing", "tree"),
    "ls": _Command("listing", "ls"),
    "head": _Command("head", "head"),
    "tail": _Command("tail", "tail"),
    "cat": _Command("cat", "cat", has_numbers=True),
    "stats": _Command("stats", "stats"),
    "plot": _Command("plot", "plot"),
    "serve": _Command("serve", "serve"),
    "attrs": _Command("attrs", "app"),
    "convert": _Command("convert", "convert"),
    "sync": _Command("sync", "sync"),
    "references": _Command("references", "references"),
    "downsample": _Command("downsample", "downsample"),
    "compare": _Command("compare", "compare"),
    "diff": _Command("sync", "diff"),
    "checksum": _Command("checksum", "checksum"),
    "check": _Command("check", "check"),
    "jobs": _Command("jobs", "app"),
    "consolidate": _Command("consolidate", "consolidate"),
    "cp": _Command("moving", "cp"),
    "mv": _Command("moving", "mv"),
    "rm": _Command("moving", "rm"),
    "doctor": _Command("doctor", "doctor"),
}
"""The commands in the order of the help."""
_SAME: Final = {"copy": "cp", "move": "mv", "delete": "rm", "statistics": "stats"}
"""Commands by the names of the functions that do the same, which the help leaves out."""


class _Program(Commands):
    """The group of all commands; turns errors of tegula and the operating system into one line and exit code 1."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in _COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        args = [*(_SAME.get(name, name) for name in args[:1]), *args[1:]]
        if args and args[0] not in _COMMANDS:  # typer suggests similar names from these
            self.commands = {name: _command(name) for name in _COMMANDS}
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _reported_errors():  # the version and the help are printed here
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _reported_errors():
            result = super().invoke(ctx)
            sys.stdout.flush()  # raises here, not at the end of the process, if the reader has closed the pipe
            return result


@contextmanager
def _reported_errors() -> Iterator[None]:
    try:
        yield
    except TegulaError as error:
        print_message("error", error)
    except OSError as error:
        if error.errno == errno.EPIPE:  # typer ends the process quietly
            raise
        print_message("error", f"{error.filename}: {error.strerror}" if error.filename else error)
    else:
        return
    raise typer.Exit(1)


_STYLE: Final[dict[str, Any]] = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}
_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}


def _command(name: str) -> Any:
    """Import a command and return it as an object that typer runs."""
    entry = _COMMANDS[name]
    function = getattr(import_module(f"tegula.cli.commands.{entry.module}"), entry.name)
    if not isinstance(function, typer.Typer):
        command = typer.Typer(**_STYLE)
        settings = {**_SETTINGS, "ignore_unknown_options": True} if entry.has_numbers else _SETTINGS
        command.command(name, cls=Command, context_settings=settings)(function)
        function = command
    click_command = typer.main.get_command(function)
    click_command.name = name
    return click_command


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tegula {__version__}")
        raise typer.Exit


app = typer.Typer(cls=_Program, **{**_STYLE, "add_completion": True}, no_args_is_help=True, context_settings=_SETTINGS)


@app.callback()
def _program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    missing_chunks: MissingChunks = None,
) -> None:
    """Inspect, print, check, compare and convert chunked arrays of bcolz, N5 and Zarr v1, v2 and v3.

    A PATH is a directory, a zip archive, or a URL such as s3://bucket/path; PATH::inner/path is a node inside it.
    """
    if missing_chunks is not None:
        context.with_resource(config.configure(missing_chunks=missing_chunks))
    # a missing kernel is no reason for a warning in every short process: `tegula doctor` reports it
    logging.getLogger("tegula").setLevel(logging.ERROR)
