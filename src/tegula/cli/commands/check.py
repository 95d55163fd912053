"""``tegula check``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Annotated

import typer

from tegula.cli.progress import progress_line
from tegula.cli.reporting import (
    AllowPickle,
    AsJson,
    MissingChunks,
    QuietButJson,
    as_options,
    print_json,
    print_line,
    print_message,
)
from tegula.cli.running import Dask, Ledger, Workers, runner_options
from tegula.cli.targets import Node, StorageOptions, open_target, split_target, target_argument
from tegula.errors import TegulaError
from tegula.jobs.checking.check import CheckReport, Finding
from tegula.jobs.checking.check import check as check_node
from tegula.runtime.quantities import human_bytes

__all__ = ["check"]


def check(
    source: Annotated[str, target_argument("SOURCE", "The array, table or group to check.")],
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired without loss.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be repaired.")] = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    workers: Workers = None,
    dask: Dask = None,
    ledger: Ledger = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Check an array, a table, or a group with all its members for damaged, missing and misplaced data.

    Every document is parsed and every chunk decoded. The exit code is 1 if errors are left; warnings and notes do not
    count as errors.
    """
    store, inner = split_target(source)
    if dry_run:
        repair = False

    def announce(finding: Finding) -> None:
        if not quiet:
            print_message("repair", f"{finding.key}: {finding.repair}")

    with ExitStack() as stack:
        # open the node a second time, for the progress line, which needs the sizes of all arrays in advance
        nodes = [] if quiet or not sys.stderr.isatty() else _opened(source, storage_option, stack)
        show = stack.enter_context(progress_line(quiet, *nodes))
        above = f"{nodes[0].path}/".lstrip("/") if nodes else ""

        def progress(path: str, done: int, total: int) -> None:
            if show is not None:
                show(path.removeprefix(above), done, total)

        report = check_node(
            store,
            path=inner,
            repair=repair,
            progress=progress,
            announce=announce,
            allow_pickle=allow_pickle,
            storage_options=dict(storage_option or ()),
            ledger=ledger,
            **{"missing_chunks": missing_chunks, **runner_options(workers, dask)},
        )
    # print the report: findings to standard output, failed repairs to standard error
    if as_json:
        print_json({"dry_run": dry_run, **report.as_dict()})
    else:
        for line in _lines(report, quiet, dry_run):
            print_line(line)
    for key, reason in report.failed_repairs.items():
        print_message("warning", f"{key} could not be repaired: {reason}")
    if not report.ok:
        raise typer.Exit(1)


def _opened(source: str, storage_option: StorageOptions, stack: ExitStack) -> list[Node]:
    """Open the node to find out how much there is to check; the check itself reports why it can't be opened."""
    with suppress(TegulaError):
        return [stack.enter_context(open_target(source, "r", storage_option, allow_pickle=True))]
    return []


def _lines(report: CheckReport, quiet: bool, dry_run: bool) -> Iterator[str]:
    """Yield the lines of a report: findings by severity, each followed by its remedy, and then a summary."""
    for severity in ("error", "warning", "note"):
        for finding in report.findings:
            if finding.severity != severity or (quiet and (severity != "error" or finding.repaired)):
                continue
            yield as_options(str(finding))
            if finding.repaired:
                yield f"    done: {finding.repair}"
                continue
            if finding.repair is not None and dry_run:
                yield f"    would be repaired: {finding.repair}"
            elif finding.repair is not None:
                yield f"    --repair: {finding.repair}"
            elif severity != "note":
                yield f"    {as_options(finding.remedy)}"
    left_out = sum(report.counts.values()) - len(report.findings)
    if left_out and not quiet:
        yield f"... and {left_out} more"
    if not quiet:
        yield from _summary(report)


def _summary(report: CheckReport) -> Iterator[str]:
    stored, decoded = human_bytes(report.nbytes_stored), human_bytes(report.nbytes_decoded)
    yield f"{report.source}: {report.summary}"
    absent = "chunk is" if report.missing_chunks == 1 else "chunks are"
    missing = f"; {report.missing_chunks:,} {absent} not stored" if report.missing_chunks else ""
    yield f"{stored} read, {decoded} decoded{missing}"
    if report.checksum_note:
        yield f"{report.checksum_note}; tegula convert --checksum adds them"
