"""``tegula compare``."""

from __future__ import annotations

import errno
from typing import Annotated

import typer

from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, MissingChunks, QuietButJson, print_json, print_line, print_message
from tegula.cli.running import Dask, Ledger, Workers, runner_options
from tegula.cli.targets import (
    Setting,
    StorageOptions,
    open_target,
    options_of_second,
    setting_option,
    target_argument,
)
from tegula.errors import TegulaError
from tegula.jobs.comparing.compare import Comparison
from tegula.jobs.comparing.compare import compare as compare_nodes

__all__ = ["compare"]


def compare(
    first: Annotated[str, target_argument("A", "An array, table or group.")],
    second: Annotated[str, target_argument("B", "The array, table or group to compare it with.")],
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare bits: -0.0 differs from 0.0, and NaNs may differ.")
    ] = False,
    workers: Workers = None,
    dask: Dask = None,
    ledger: Ledger = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    storage_option: StorageOptions = None,
    second_storage_option: Annotated[
        list[Setting] | None,
        setting_option(
            "--second-storage-option", "A setting of the storage of B. [default: as for A in the same bucket]"
        ),
    ] = None,
) -> None:
    """Compare two arrays, tables, or groups with all their members, in any formats.

    Shapes, data types, fill values, dimension names, attributes, members and values must be equal; format, chunks and
    codecs may differ. NaN equals NaN, and -0.0 equals 0.0. Each difference is printed on a line.

    The exit code is 0 if both are equal, 1 if they differ, and 2 if the comparison failed.
    """
    try:
        second_options = options_of_second(
            first, second, storage_option, second_storage_option, "second_storage_options"
        )
        with (
            open_target(
                first, "r", storage_option, allow_pickle=allow_pickle, missing_chunks=missing_chunks
            ) as first_node,
            open_target(
                second, "r", second_options, allow_pickle=allow_pickle, missing_chunks=missing_chunks
            ) as second_node,
            progress_line(quiet, first_node) as progress,
        ):
            options = {"ledger": ledger, **runner_options(workers, dask)}
            report = compare_nodes(first_node, second_node, exact=exact, progress=progress, **options)
    except (TegulaError, OSError) as error:
        # the program ends quietly if the reader of its output has closed the pipe
        if isinstance(error, OSError) and error.errno == errno.EPIPE and not isinstance(error, TegulaError):
            raise
        print_message("error", error)
        raise typer.Exit(2) from error
    if as_json:
        print_json(report.as_dict())
    elif not quiet:
        _print(report)
    for path, reason in report.failed.items():
        print_message("error", f"/{path}: {reason}")
    if not report:
        raise typer.Exit(2 if report.failed else 1)


def _print(report: Comparison) -> None:
    for difference in report.differences:
        print_line(difference)
    left_out = sum(report.counts.values()) - len(report.differences)
    if left_out:
        print_line(f"... and {left_out} more")
    print_line(report.summary)
