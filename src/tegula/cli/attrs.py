"""``tegula attrs``."""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn

import typer

from tegula.cli.reporting import print_json
from tegula.cli.targets import Target, open_target

__all__ = ["app", "parse_value"]

app = typer.Typer(
    help="Read and change the attributes of an array, a table or a group.",
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The name of the attribute.")]


@app.command("get")
def _get(
    target: Target,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Print this attribute only.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, which is the default here.")] = False,
) -> None:
    """Print all attributes, or the value of one, as JSON."""
    with open_target(target, allow_pickle=True) as node:  # attributes are JSON: nothing is unpickled
        print_json(node.attrs.asdict() if name is None else node.attrs[name])


@app.command("set", context_settings={"ignore_unknown_options": True})  # a value may be a negative number
def _set(
    target: Target,
    words: Annotated[
        list[str], typer.Argument(metavar="NAME VALUE | NAME=VALUE", show_default=False, help="The new values.")
    ],
) -> None:
    """Set one attribute, or several in one write.

    A VALUE is read as JSON, and taken as text if it is not valid JSON: 0.5 is a number, K is text, and so is '"0.5"'.
    """
    changes = _changes(words)
    with open_target(target, "r+", allow_pickle=True) as node:
        node.attrs.update(changes)


@app.command("unset")
def _unset(target: Target, name: _Name) -> None:
    """Remove an attribute."""
    with open_target(target, "r+", allow_pickle=True) as node:
        del node.attrs[name]


def _changes(words: list[str]) -> dict[str, Any]:
    """Read the words after the target: ``NAME VALUE``, or ``NAME=VALUE`` once or more."""
    if len(words) == 2 and "=" not in words[0]:
        return {words[0]: parse_value(words[1])}
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise typer.BadParameter("give NAME VALUE, or NAME=VALUE once or more", param_hint="NAME")
    return {name: parse_value(value) for name, _, value in pairs}


def parse_value(text: str) -> Any:
    """Parse text as JSON, and return it unchanged if it is not valid JSON.

    Examples
    --------
    >>> parse_value("[1, 2.5]"), parse_value("m/s"), parse_value("NaN")
    ([1, 2.5], 'm/s', 'NaN')
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not valid JSON")
