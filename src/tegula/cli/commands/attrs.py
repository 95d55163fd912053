"""``tegula attrs``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tegula.cli.help import Command, Commands
from tegula.cli.reporting import print_json
from tegula.cli.targets import StorageOptions, Target, open_target
from tegula.cli.values import parse_value

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    help="Read and change the attributes of an array, a table or a group.",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_AsJson = Annotated[bool, typer.Option("--json", help="Print all attributes after the change as JSON.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The name of the attribute.")]


@app.command("get", cls=Command)
def _get(
    target: Target,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Print this attribute only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, which is the default here.")] = False,
    storage_option: StorageOptions = None,
) -> None:
    """Print all attributes, or the value of one, as JSON."""
    # attributes are JSON: nothing is unpickled
    with open_target(target, "r", storage_option, allow_pickle=True) as node:
        print_json(node.attrs.asdict() if name is None else node.attrs[name])


@app.command("set", cls=Command, context_settings={"ignore_unknown_options": True})  # a value may be a negative number
def _set(
    target: Target,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE", show_default=False, help="The new values; a single one may also be NAME VALUE."
        ),
    ],
    as_json: _AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Set one attribute, or several in one write.

    A VALUE is read as JSON, and taken as text if it is not valid JSON: 0.5 is a number, K is text, and so is '"0.5"'.
    """
    changes = _changes(words)
    with open_target(target, "r+", storage_option, allow_pickle=True) as node:
        node.attrs.update(changes)
        if as_json:
            print_json(node.attrs.asdict())


@app.command("unset", cls=Command)
def _unset(target: Target, name: _Name, as_json: _AsJson = False, storage_option: StorageOptions = None) -> None:
    """Remove an attribute."""
    with open_target(target, "r+", storage_option, allow_pickle=True) as node:
        del node.attrs[name]
        if as_json:
            print_json(node.attrs.asdict())


def _changes(words: list[str]) -> dict[str, Any]:
    """Read the words after the target: ``NAME VALUE``, or ``NAME=VALUE`` once or more."""
    if len(words) == 2 and "=" not in words[0]:
        return {words[0]: parse_value(words[1])}
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise typer.BadParameter("give NAME VALUE, or NAME=VALUE once or more", param_hint="NAME")
    return {name: parse_value(value) for name, _, value in pairs}
