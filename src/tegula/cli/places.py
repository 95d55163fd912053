"""``PATH::inner/path``: where a node is, as text."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer

from tegula.arrays import Array
from tegula.cli.completion import complete_place
from tegula.group import Group
from tegula.opening import open as open_node
from tegula.table import Table

__all__ = ["Place", "opened", "split_place"]

Place = Annotated[
    str,
    typer.Argument(
        metavar="PATH", show_default=False, help="The array, table or group.", autocompletion=complete_place
    ),
]


def split_place(place: str) -> tuple[str, str]:
    """Split the path of a store from that of a node in it; what exists under the whole name is a path.

    Examples
    --------
    >>> split_place("x.zip::era/t"), split_place("file:///x.zarr")
    (('x.zip', 'era/t'), ('file:///x.zarr', ''))
    """
    if os.path.lexists(place):
        return place, ""
    if place.startswith("--"):
        raise typer.BadParameter(f"no such option: {place}")
    target, _, inner = place.partition("::")
    return target, inner


@contextmanager
def opened(place: str, mode: Literal["r", "r+"] = "r", **options: Any) -> Iterator[Array | Group | Table]:
    """Open the node at a place, and close its store at the end."""
    target, inner = split_place(place)
    node = open_node(target, mode, path=inner, **options)
    with node.store:
        yield node
