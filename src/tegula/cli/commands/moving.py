"""``tegula cp``, ``mv`` and ``rm``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from tegula.arrays.array import Array
from tegula.cli.progress import byte_line
from tegula.cli.reporting import AsJson, MissingChunks, QuietButJson, print_json
from tegula.cli.running import Dask, Part, Resume, Workers, runner_options
from tegula.cli.targets import (
    StorageOptions,
    Target,
    TargetStorageOptions,
    open_target,
    options_of_second,
    split_target,
    target_argument,
)
from tegula.cli.unfinished import done_at
from tegula.display.markup import printable
from tegula.errors import NotFoundError, TegulaError
from tegula.hierarchy.copying import CopyReport, delete, move
from tegula.hierarchy.walking import nbytes_stored
from tegula.jobs.copying import copy
from tegula.jobs.ledger import DIRECTORY
from tegula.runtime.quantities import counted, human_bytes
from tegula.stores.secrets import redacted
from tegula.stores.targets.paths import links
from tegula.tables.table import Table

__all__ = ["cp", "mv", "rm"]

_Source = Annotated[str, target_argument("SOURCE", "The array, table or group.")]
_Destination = Annotated[
    str,
    target_argument(
        "TARGET",
        "Its new path. If TARGET ends in / or is a directory that is not a node, the node is put into it under its "
        "own name.",
    ),
]
_Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the array, table or group that exists at TARGET.")
]


def cp(
    source: _Source,
    target: _Destination,
    overwrite: _Overwrite = False,
    resume: Resume = False,
    workers: Workers = None,
    dask: Dask = None,
    part: Part = None,
    missing_chunks: MissingChunks = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Copy an array, a table, or a group with all its members, as it is stored.

    Format, attributes and compressed chunks are copied without decoding; `tegula convert` changes them. Readers see the
    copy when it is complete.
    """
    options = options_of_second(source, target, storage_option, target_storage_option)
    store, inner = _destination(source, target)
    earlier = partial(done_at, store, inner, options) if resume else dict
    with (
        _source(source, "r", storage_option) as (origin, origin_options),
        byte_line(
            quiet, lambda: _stored(source, storage_option), "cp … --resume" if resume else "", earlier
        ) as progress,
    ):
        report = copy(
            origin, store, path=inner, overwrite=overwrite, progress=progress,
            storage_options=origin_options, target_storage_options=options, resume=resume, part=part,
            **{"missing_chunks": missing_chunks, **runner_options(workers, dask)},
        )  # fmt: skip
    _print(report, "copied", as_json, quiet)


def mv(
    source: _Source,
    target: _Destination,
    overwrite: _Overwrite = False,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Move or rename an array, a table, or a group with all its members.

    Within a file system this is one rename. Otherwise the node is copied, and SOURCE is deleted when the copy is
    complete.
    """
    options = options_of_second(source, target, storage_option, target_storage_option)
    with (
        _source(source, "r+", storage_option) as (origin, origin_options),
        byte_line(quiet, lambda: _stored(source, storage_option)) as progress,
    ):
        store, inner = _destination(source, target)
        report = move(
            origin, store, path=inner, overwrite=overwrite, progress=progress,
            storage_options=origin_options, target_storage_options=options,
        )  # fmt: skip
    _print(report, "moved", as_json, quiet)


def rm(
    target: Target,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Delete an array, a table, or a group with all its members.

    On a terminal, it asks first. After an interruption, run it again to delete the rest.
    """
    store, inner = split_target(target)
    if not yes and _can_ask() and not typer.confirm(f"Delete {_described(target, storage_option)}?", err=True):
        typer.echo("nothing was deleted", err=True)
        raise typer.Exit(1)
    delete(store, path=inner, storage_options=dict(storage_option or ()))
    if as_json:
        print_json({"deleted": redacted(target)})


def _can_ask() -> bool:
    return sys.stdin.isatty()


@contextmanager
def _source(target: str, mode: Any, storage_option: StorageOptions) -> Iterator[tuple[Any, dict[str, Any] | None]]:
    """Yield a target as `tegula.copy` expects it: a path and its options, or an open node if it lies inside a store."""
    store, inner = split_target(target)
    if not inner:
        yield store, dict(storage_option or ())
        return
    # no elements are read: nothing is unpickled
    with open_target(target, mode, storage_option, allow_pickle=True) as node:
        yield node, None


def _destination(source: str, target: str) -> tuple[str, str]:
    """Return the store and the path inside it to copy to."""
    store, inner = split_target(target)
    name = links(source.rstrip("/"))[-1].rpartition("/")[2]
    if inner or target.endswith("::"):
        return store, f"{inner}/{name}" if target.endswith("/") else inner
    if store.endswith("/") or _is_plain_directory(store):
        return os.path.join(store, name), ""
    return store, ""


def _is_plain_directory(path: str) -> bool:
    """Return whether a path is a directory with entries that is neither a node nor the target of a copy to resume."""
    names = os.listdir(path) if os.path.isdir(path) else []
    return bool(names) and DIRECTORY not in names and not _is_node(path)


def _is_node(target: str) -> bool:
    try:
        with open_target(target, "r", None, allow_pickle=True):
            return True
    except NotFoundError:
        return False
    except TegulaError:
        return True  # a node that can't be opened


def _stored(target: str, storage_option: StorageOptions) -> int:
    """Return the bytes stored in a node, 0 if it can't be read or listed."""
    with suppress(TegulaError), open_target(target, "r", storage_option, allow_pickle=True) as node:
        return nbytes_stored(node)
    return 0


def _described(target: str, storage_option: StorageOptions) -> str:
    """Describe the node that would be deleted.

    Raises
    ------
    NotFoundError
        If there is no node.
    """
    shown = printable(redacted(target))
    try:
        with open_target(target, "r", storage_option, allow_pickle=True) as node:
            if isinstance(node, Array):
                return f"the array {shown} of shape {node.shape}"
            if isinstance(node, Table):
                return f"the table {shown} of {counted(len(node), 'row')}"
            return f"the group {shown} with {counted(sum(1 for _ in node.walk({})), 'member')}"
    except NotFoundError:
        raise
    except TegulaError:
        return f"{shown}, which can't be opened"


def _print(report: CopyReport, done: str, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(asdict(report))
    elif report.renamed and not quiet:
        typer.echo("moved at once, without copying data")
    elif not quiet:
        kinds = ((report.arrays, "array"), (report.groups, "group"))
        nodes = " and ".join(counted(number, kind) for number, kind in kinds if number)
        typer.echo(f"{nodes or 'nothing'} {done}: {counted(report.values, 'file')}, {human_bytes(report.nbytes)}")
        if report.units_left:
            typer.echo(f"{counted(report.units_left, 'unit')} left to other parts")
