"""``tegula sync`` and ``tegula diff``."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tegula.cli.encoding import (
    BitRound,
    Chunks,
    Codecs,
    Consolidated,
    DType,
    EncodingFormat,
    ScaleOffset,
    Shards,
    StoreChecksum,
    consolidated_argument,
    encoding_options,
)
from tegula.cli.files import output
from tegula.cli.help import ENCODING, OUTPUT
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, MissingChunks, QuietButJson, print_json, print_line, print_message
from tegula.cli.running import Dask, MaxMemory, Part, Workers, runner_options
from tegula.cli.targets import StorageOptions, TargetStorageOptions, open_target, options_of_second, target_argument
from tegula.errors import AlreadyExistsError
from tegula.jobs.syncing.array_job import OverwritingError
from tegula.jobs.syncing.sync import SyncReport
from tegula.jobs.syncing.sync import diff as diff_nodes
from tegula.jobs.syncing.sync import sync as sync_nodes

__all__ = ["diff", "sync"]

Source = Annotated[str, target_argument("SOURCE", "The array, table or group to sync from.")]
Mirror = Annotated[str, target_argument("TARGET", "The mirror: PATH, or PATH::INNER.")]
MirrorFormat = Annotated[
    EncodingFormat | None,
    typer.Option(
        rich_help_panel=ENCODING,
        help="Storage format. [default: that of TARGET, else by its suffix, else that of SOURCE]",
    ),
]
Delete = Annotated[bool, typer.Option("--delete", help="Delete what SOURCE no longer has.")]
Html = Annotated[
    str | None, typer.Option("--html", rich_help_panel=OUTPUT, metavar="FILE", help="Write the report as HTML, too.")
]


def sync(
    source: Source,
    target: Mirror,
    format: MirrorFormat = None,
    chunks: Chunks = None,
    shards: Shards = None,
    codecs: Codecs = None,
    dtype: DType = None,
    scale_offset: ScaleOffset = None,
    bitround: BitRound = None,
    checksum: StoreChecksum = False,
    consolidated: Consolidated = None,
    delete: Delete = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what others have changed in TARGET.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read both sides at the end, and compare them.")] = False,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", min=0, help="Sync again and again, with pauses of this length."),
    ] = None,
    html: Html = None,
    workers: Workers = None,
    dask: Dask = None,
    part: Part = None,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Make TARGET hold what SOURCE holds, and transfer only what has changed since the last sync.

    Formats, chunks and codecs of TARGET stay as they were at the first sync, which takes the same options as convert;
    by default they are those of SOURCE. Run the same command again after an interruption.

    The exit code is 1 if an array could not be synced, if --verify finds a difference, or if others have changed
    TARGET, unless --force is given.
    """
    if watch is not None and not watch <= threading.TIMEOUT_MAX:
        raise typer.BadParameter("the pauses must be a number of seconds", param_hint="--watch")
    options = {
        **encoding_options(format, chunks, shards, codecs, dtype, scale_offset, bitround, checksum=checksum),
        "consolidated": consolidated_argument(consolidated),
        "delete": delete,
        "force": force,
        "dry_run": dry_run,
        "verify": verify,
        "part": part,
        "max_memory": max_memory,
        "target_storage_options": options_of_second(source, target, storage_option, target_storage_option),
        **runner_options(workers, dask),
    }
    failed: dict[str, str] = {}
    while True:
        with (
            open_target(source, "r", storage_option, allow_pickle=allow_pickle, missing_chunks=missing_chunks) as node,
            progress_line(quiet, node, command="" if dry_run else "sync …") as progress,
        ):
            try:
                report = sync_nodes(node, target, progress=progress, **options)
            except OverwritingError as error:  # all others are in step
                report = error.report
            except AlreadyExistsError as error:  # another sync is at work: the next time it may be over
                if watch is None:
                    raise
                report = SyncReport(failed={"": error.message})
        if watch is None or not report.is_same or report.failed != failed:
            _print(report, html, as_json, quiet)
        if watch is None:
            break
        failed = report.failed
        time.sleep(watch)
    if not report.ok:
        raise typer.Exit(1)


def diff(
    source: Source,
    target: Mirror,
    format: MirrorFormat = None,
    delete: Delete = False,
    html: Html = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Show what a sync would transfer and why, by array, box of elements and attribute.

    The exit code is 0 if there is nothing to transfer, and 1 if there is, or if an array could not be synced.
    """
    options: dict[str, Any] = {
        "format": None if format is None else format.value,
        "delete": delete,
        "target_storage_options": options_of_second(source, target, storage_option, target_storage_option),
    }
    with open_target(source, "r", storage_option, allow_pickle=allow_pickle, missing_chunks=missing_chunks) as node:
        report = diff_nodes(node, target, **options)
    _print(report, html, as_json, quiet)
    if not (report.is_same and report.ok):
        raise typer.Exit(1)


def _print(report: SyncReport, html: str | None, as_json: bool, quiet: bool) -> None:
    if html is not None:
        with output(Path(html)) as stream:
            stream.write(report.to_html().encode())
    if as_json:
        print_json(report.as_dict())
    elif not quiet:
        for line in report.lines():
            if not line.startswith("failed: "):
                print_line(line)
        print_line(report.summary)
    for path, reason in report.failed.items():
        print_message("error", f"/{path}: {reason}")
