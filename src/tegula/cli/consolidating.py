"""``tegula consolidate``."""

from __future__ import annotations

from typing import Annotated

import typer

from tegula.arrays import Array
from tegula.cli.completion import complete_place
from tegula.cli.places import opened
from tegula.cli.reporting import Quiet
from tegula.errors import UnsupportedError
from tegula.group import Group
from tegula.info import counted

__all__ = ["consolidate"]


def consolidate(
    place: Annotated[
        str, typer.Argument(metavar="PATH", show_default=False, help="The group.", autocompletion=complete_place)
    ],
    quiet: Quiet = False,
) -> None:
    """Write the metadata of all that is in a group into one document of it.

    Readers that ask for it then find everything with one request. It is a copy: consolidate again after members, shapes
    or attributes have changed.
    """
    with opened(place, "r+", allow_pickle=True) as node:  # nothing is unpickled here
        if not isinstance(node, Group):
            kind = "an array" if isinstance(node, Array) else "a table"
            raise UnsupportedError(f"consolidated metadata are those of a group, and this is {kind}", path=place)
        node.consolidate()
        if not quiet:
            members = sum(1 for _ in node.walk({}))
            typer.echo(f"{place}: metadata of {counted(members, 'member')} consolidated")
