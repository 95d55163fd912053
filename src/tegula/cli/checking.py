"""``tegula check``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Annotated

import typer

from tegula.arrays import Array
from tegula.checking import CheckReport, Finding
from tegula.checking import check as check_node
from tegula.cli.completion import complete_place
from tegula.cli.places import opened, split_place
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, Quiet, one_line, print_json, tell, with_options
from tegula.errors import TegulaError
from tegula.group import Group
from tegula.info import human_bytes
from tegula.table import Table

__all__ = ["check"]


def check(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", show_default=False, help="What to look at.", autocompletion=complete_place),
    ],
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended without losing anything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be repaired.")] = False,
    allow_pickle: AllowPickle = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Look at an array, or a group or table with all that is in it, for what is damaged, missing or out of place.

    Every document is parsed and every chunk decoded. The exit code is 1 if errors are left; warnings and notes are
    none.
    """
    target, inner = split_place(source)
    if dry_run:
        repair = False

    def announce(finding: Finding) -> None:
        if not quiet:
            tell("repair", f"{finding.key}: {finding.repair}")

    with ExitStack() as stack:
        nodes = [] if quiet or not sys.stderr.isatty() else _opened(source, stack)
        show = stack.enter_context(progress_line(quiet, *nodes))
        above = f"{nodes[0].path}/".lstrip("/") if nodes else ""

        def progress(path: str, done: int, total: int) -> None:
            if show is not None:
                show(path.removeprefix(above), done, total)

        report = check_node(
            target, path=inner, repair=repair, progress=progress, announce=announce, allow_pickle=allow_pickle
        )
    if as_json:
        print_json({"dry_run": dry_run, **report.as_dict()})
    else:
        for line in _lines(report, quiet, dry_run):
            typer.echo(line)
    for key, reason in report.failed_repairs.items():
        tell("warning", f"{key} could not be repaired: {reason}")
    if not report.ok:
        raise typer.Exit(1)


def _opened(source: str, stack: ExitStack) -> list[Array | Group | Table]:
    """Open the node for a look at how much there is to do; what is wrong with it the check will find."""
    with suppress(TegulaError):
        return [stack.enter_context(opened(source, allow_pickle=True))]
    return []


def _lines(report: CheckReport, quiet: bool, dry_run: bool) -> Iterator[str]:
    """Yield what is printed: the gravest first, each finding with what can be done about it, and a summary."""
    for severity in ("error", "warning", "note"):
        for found in report.findings:
            if found.severity != severity or (quiet and (severity != "error" or found.repaired)):
                continue
            yield one_line(with_options(str(found)))
            if found.repaired:
                yield one_line(f"    done: {found.repair}")
                continue
            if found.repair is not None and dry_run:
                yield one_line(f"    would be repaired: {found.repair}")
            elif found.repair is not None:
                yield one_line(f"    --repair: {found.repair}")
            elif severity != "note":
                yield one_line(f"    {with_options(found.remedy)}")
    left_out = sum(report.counts.values()) - len(report.findings)
    if left_out and not quiet:
        yield f"... and {left_out} more"
    if not quiet:
        stored, decoded = human_bytes(report.nbytes_stored), human_bytes(report.nbytes_decoded)
        yield one_line(f"{report.source}: {report.summary}")
        absent = "chunk is" if report.missing_chunks == 1 else "chunks are"
        missing = f"; {report.missing_chunks:,} {absent} not stored" if report.missing_chunks else ""
        yield f"{stored} read, {decoded} decoded{missing}"
        if report.checksum_note:
            remedy = "arrays get checksums with --checksum at convert, or checksum=True where they are created"
            yield f"{report.checksum_note}; {remedy}"
