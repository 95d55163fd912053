"""Targets on the command line: ``PATH`` of a store, or ``PATH::inner/path`` of a node inside it."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer

from tegula.arrays.array import Array
from tegula.cli.completion import complete_target
from tegula.hierarchy.group import Group
from tegula.hierarchy.opening import open as open_node
from tegula.tables.table import Table

__all__ = ["Node", "Target", "open_target", "split_target", "target_argument"]

Node = Array | Group | Table


def target_argument(metavar: str, help: str) -> Any:
    """Return a positional argument that names a node and is completed by the Tab key."""
    return typer.Argument(metavar=metavar, show_default=False, help=help, autocompletion=complete_target)


Target = Annotated[str, target_argument("PATH", "The array, table or group.")]


def split_target(target: str) -> tuple[str, str]:
    """Split a target into the path of a store and the path of a node inside it.

    Where a file or directory of the whole name exists, the whole name is the path of the store.

    Raises
    ------
    typer.BadParameter
        If the target looks like an option.

    Examples
    --------
    >>> split_target("x.zip::era/t"), split_target("file:///x.zarr")
    (('x.zip', 'era/t'), ('file:///x.zarr', ''))
    """
    if os.path.lexists(target):
        return target, ""
    if target.startswith("--"):
        raise typer.BadParameter(f"no such option: {target}")
    store, _, inner = target.partition("::")
    return store, inner


@contextmanager
def open_target(target: str, mode: Literal["r", "r+"] = "r", **options: Any) -> Iterator[Node]:
    """Open the node that a target names; leaving the ``with`` block closes its store.

    Parameters
    ----------
    target : str
        The target, as on the command line.
    mode : {"r", "r+"}
        Open for reading, or for reading and writing.
    **options
        Passed to `tegula.open`.
    """
    store, inner = split_target(target)
    node = open_node(store, mode, path=inner, **options)
    with node.store:
        yield node
