"""``tegula cp``, ``mv`` and ``rm``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from tegula.arrays import Array
from tegula.cli.completion import complete_place
from tegula.cli.places import Place, opened, split_place
from tegula.cli.progress import byte_line
from tegula.cli.reporting import Quiet
from tegula.copying import CopyReport, copy, delete, move
from tegula.errors import NotFoundError, TegulaError
from tegula.info import counted, human_bytes
from tegula.table import Table
from tegula.units import arrays_below

__all__ = ["cp", "mv", "rm"]

_Source = Annotated[
    str, typer.Argument(metavar="SOURCE", show_default=False, help="The node.", autocompletion=complete_place)
]
_Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        help="Its new place. If it ends in / or is a directory without a node, the node is put into it.",
        autocompletion=complete_place,
    ),
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Delete the node that is there.")]


def cp(source: _Source, target: _Target, overwrite: _Overwrite = False, quiet: Quiet = False) -> None:
    """Copy an array, a table, or a group with all that is in it, as it is stored.

    Format, attributes and compressed chunks stay what they are, and nothing is decoded; `tegula convert` changes them.
    The copy is seen by readers when it is complete.
    """
    with _named(source, "r") as found, byte_line(quiet, lambda: _stored(source)) as progress:
        store, inner = _target(source, target)
        report = copy(found, store, path=inner, overwrite=overwrite, progress=progress)
    _print(report, quiet, "copied")


def mv(source: _Source, target: _Target, overwrite: _Overwrite = False, quiet: Quiet = False) -> None:
    """Move an array, a table, or a group with all that is in it to another place, or rename it.

    Within a file system that is one step. Elsewhere it is copied, and deleted when the copy is complete.
    """
    with _named(source, "r+") as found, byte_line(quiet, lambda: _stored(source)) as progress:
        store, inner = _target(source, target)
        report = move(found, store, path=inner, overwrite=overwrite, progress=progress)
    _print(report, quiet, "moved")


def rm(
    place: Place,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete an array, a table, or a group with all that is in it.

    On a terminal it asks before. What is left if it is interrupted can be deleted once more.
    """
    target, inner = split_place(place)
    if not yes and _can_ask() and not typer.confirm(f"Delete {_described(place)}?", err=True):
        typer.echo("nothing was deleted", err=True)
        raise typer.Exit(1)
    delete(target, path=inner)


def _can_ask() -> bool:
    return sys.stdin.isatty()


@contextmanager
def _named(place: str, mode: Any) -> Iterator[Any]:
    """Return what `tegula.copy` takes for a place: a node in a store only where there is no other name for it."""
    target, inner = split_place(place)
    if not inner:
        yield target
        return
    with opened(place, mode, allow_pickle=True) as node:  # nothing is unpickled here
        yield node


def _target(source: str, target: str) -> tuple[str, str]:
    """Return the store and path to copy to."""
    store, inner = split_place(target)
    name = source.rstrip("/").rpartition("::")[2].rpartition("/")[2]
    if inner or target.endswith("::"):
        return store, f"{inner}{name}" if inner.endswith("/") else inner
    if store.endswith("/") or (os.path.isdir(store) and not _is_node(store) and os.listdir(store)):
        return os.path.join(store, name), ""
    return store, ""


def _is_node(place: str) -> bool:
    try:
        with opened(place, allow_pickle=True):
            return True
    except NotFoundError:
        return False
    except TegulaError:
        return True  # there is one, which can't be opened


def _stored(place: str) -> int:
    """Return how many bytes are stored, as far as that can be told."""
    with suppress(TegulaError), opened(place, allow_pickle=True) as node:
        return sum(array.nbytes_stored() for _, array in arrays_below(node, {}))
    return 0


def _described(place: str) -> str:
    """Say what would be deleted; raise an error if there is nothing."""
    try:
        with opened(place, allow_pickle=True) as node:
            if isinstance(node, Array):
                return f"the array {place} of shape {node.shape}"
            if isinstance(node, Table):
                return f"the table {place} of {counted(len(node), 'row')}"
            return f"the group {place} with {counted(sum(1 for _ in node.walk({})), 'member')}"
    except NotFoundError:
        raise
    except TegulaError:
        return f"{place}, which can't be opened"


def _print(report: CopyReport, quiet: bool, done: str) -> None:
    if quiet:
        return
    if report.renamed:
        typer.echo("renamed")
        return
    nodes = f"{counted(report.arrays, 'array')} and {counted(report.groups, 'group')}"
    typer.echo(f"{nodes} {done}: {counted(report.values, 'value')}, {human_bytes(report.nbytes)}")
