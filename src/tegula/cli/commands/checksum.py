"""``tegula checksum``."""

from __future__ import annotations

from typing import Annotated

import typer

from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, MissingChunks, print_json, print_message
from tegula.cli.running import Dask, Ledger, Workers, runner_options
from tegula.cli.targets import StorageOptions, Target, open_target
from tegula.display.layout import columns
from tegula.jobs.checksum import checksum as checksum_of_node

__all__ = ["checksum"]


def checksum(
    target: Target,
    attributes: Annotated[bool, typer.Option("--attributes", help="Include attributes and dimension names.")] = False,
    workers: Workers = None,
    dask: Dask = None,
    ledger: Ledger = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the checksum of PATH itself.")] = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    storage_option: StorageOptions = None,
) -> None:
    """Print a checksum of the values, which does not depend on format, chunks or codecs.

    A group or table has a line for each array, and a last line for the whole. The checksum depends on shapes, data
    types, the names of arrays and every bit of the elements. A conversion leaves it the same.

    The exit code is 1 if an array could not be read.
    """
    with (
        open_target(target, "r", storage_option, allow_pickle=allow_pickle, missing_chunks=missing_chunks) as node,
        progress_line(quiet, node) as progress,
    ):
        how = {"ledger": ledger, **runner_options(workers, dask)}
        result = checksum_of_node(node, attributes=attributes, progress=progress, **how)
    if as_json:
        print_json(result.as_dict())
    elif result.ok and quiet:
        typer.echo(result.digest)
    elif not quiet:
        rows = [[digest, f"/{path}"] for path, digest in result.arrays.items() if path]
        rows += [[result.digest, target]] if result.ok else []
        if rows:
            typer.echo(columns(rows))
    for path, reason in result.failed.items():
        print_message("error", f"/{path}: {reason}")
    if result.failed:
        raise typer.Exit(1)
