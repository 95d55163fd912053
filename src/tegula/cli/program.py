"""The program as a whole: its commands, and how failures end."""

from __future__ import annotations

import errno
import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tegula import __version__
from tegula.cli.attributes import get_attributes, set_attributes, unset_attribute
from tegula.cli.checking import check
from tegula.cli.converting import convert
from tegula.cli.doctor import doctor
from tegula.cli.listing import info, ls, tree
from tegula.cli.reading import cat
from tegula.cli.reporting import tell
from tegula.errors import TegulaError

__all__ = ["app"]


class _Program(TyperGroup):
    """The group of all commands; turns what tegula and the operating system raise into one line and exit code 1."""

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


app = typer.Typer(
    cls=_Program,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_attrs = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

# what looks like an unknown option may be a negative number
_WITH_NUMBERS = {"ignore_unknown_options": True}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tegula {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Look at, print, check and convert the chunked arrays of bcolz and Zarr v1, v2 and v3.

    A PATH is that of a directory or a zip archive, or a file: URL; PATH::inner/path means a node inside it.
    """
    # that the kernel is missing `tegula doctor` says; each of many short processes need not
    logging.getLogger("tegula").setLevel(logging.ERROR)


app.command("info")(info)
app.command("tree")(tree)
app.command("ls")(ls)
app.command("cat", context_settings=_WITH_NUMBERS)(cat)
app.add_typer(_attrs, name="attrs", help="Read and change the attributes of an array or a group.")
_attrs.command("get")(get_attributes)
_attrs.command("set", context_settings=_WITH_NUMBERS)(set_attributes)
_attrs.command("unset")(unset_attribute)
app.command("convert")(convert)
app.command("check")(check)
app.command("doctor")(doctor)
