"""``tegula convert``."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tegula.cli.encoding import (
    BitRound,
    Chunks,
    Codecs,
    Consolidated,
    DType,
    Format,
    ScaleOffset,
    Shards,
    StoreChecksum,
    consolidated_argument,
    encoding_options,
    parse_option,
)
from tegula.cli.files import output
from tegula.cli.help import OUTPUT, WORK
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, MissingChunks, QuietButJson, print_json, print_line, print_message
from tegula.cli.running import Dask, MaxMemory, Part, Resume, VisibleEarly, Workers, resume_argument, runner_options
from tegula.cli.targets import (
    StorageOptions,
    TargetStorageOptions,
    open_target,
    options_of_second,
    split_target,
    target_argument,
)
from tegula.cli.unfinished import done_at
from tegula.display.layout import columns
from tegula.extracts.selections import parse_selection
from tegula.jobs.converting.convert import ConvertReport
from tegula.jobs.converting.convert import convert as convert_node
from tegula.runtime.quantities import human_bytes

__all__ = ["convert"]

_work = partial(typer.Option, rich_help_panel=WORK)


def convert(
    source: Annotated[str, target_argument("SOURCE", "The array, table or group to convert.")],
    target: Annotated[str, target_argument("TARGET", "Where to write: PATH, or PATH::INNER.")],
    format: Format = None,
    chunks: Chunks = None,
    shards: Shards = None,
    codecs: Codecs = None,
    dtype: DType = None,
    scale_offset: ScaleOffset = None,
    bitround: BitRound = None,
    checksum: StoreChecksum = False,
    select: Annotated[
        str | None, typer.Option(metavar="SELECTION", help="Convert only this part of an array: ints and slices.")
    ] = None,
    path: Annotated[str | None, typer.Option(metavar="INNER", help="Path of the node inside TARGET.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the array, table or group that exists at TARGET.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the result back and compare it with the source.")
    ] = False,
    allow_pickle: AllowPickle = False,
    missing_chunks: MissingChunks = None,
    consolidated: Consolidated = None,
    report_file: Annotated[
        str | None,
        typer.Option(
            "--report", rich_help_panel=OUTPUT, metavar="FILE.json|FILE.html", help="Write the report to a file, too."
        ),
    ] = None,
    resume: Resume = False,
    workers: Workers = None,
    dask: Dask = None,
    part: Part = None,
    visible_early: VisibleEarly = False,
    max_memory: MaxMemory = None,
    temporary: Annotated[
        str | None,
        _work("--temporary", metavar="TARGET", help="Where to put temporary arrays if TARGET is an archive."),
    ] = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Copy an array, a table, or a group with all its members into another format, chunk shape or codec.

    Values, attributes and names are kept; a note says what the format can't store. Compressed chunks are copied
    without decoding where nothing about them changes. The exit code is 1 if an array was left out, or if --verify
    finds a difference.

    Until it is complete, TARGET keeps a record of what is done: after an interruption, run the same command again with
    --resume. An archive is written in one go and can't be resumed.
    """
    # read the options; a mistake in one is an error of the command line
    options = {
        **encoding_options(format, chunks, shards, codecs, dtype, scale_offset, bitround, checksum=checksum),
        "select": parse_option(parse_selection, select, "--select"),
        "overwrite": overwrite,
        "dry_run": dry_run,
        "verify": verify,
        "consolidated": consolidated_argument(consolidated),
        "visible_early": visible_early,
        "part": part,
        "max_memory": max_memory,
        "temporary": temporary,
        **runner_options(workers, dask),
        "target_storage_options": options_of_second(source, target, storage_option, target_storage_option),
    }
    if report_file is not None and not report_file.endswith((".json", ".html")):
        raise typer.BadParameter("its name must end in .json or .html", param_hint="--report")
    store, inner = split_target(target)
    if path is not None and inner:
        raise typer.BadParameter("TARGET already names the path, as ::INNER", param_hint="--path")
    options["resume"] = resume_argument(resume, store)
    # convert, and print the report; the file of the report is opened first, so that a long job does not end with an
    # error, unless its folder does not exist yet or is replaced: the folder may lie in the target
    file = None if report_file is None else Path(report_file)
    with ExitStack() as stack:
        replaced = file is not None and overwrite and Path(store).resolve() in file.resolve().parents
        stream = None
        if file is not None and file.parent.exists() and not replaced:
            stream = stack.enter_context(output(file))
        with (
            open_target(source, "r", storage_option, allow_pickle=allow_pickle, missing_chunks=missing_chunks) as node,
            progress_line(
                quiet,
                node,
                command="" if options["resume"] is None else "convert … --resume",
                earlier=partial(done_at, target, path or "", options["target_storage_options"]) if resume else dict,
            ) as progress,
        ):
            report = convert_node(node, target, path=path or "", progress=progress, **options)
        if file is not None:
            text = report.to_json() if file.name.endswith(".json") else report.to_html()
            (stream or stack.enter_context(output(file))).write(text.encode())
    _print_report(report, as_json, quiet)
    if not report.ok:
        raise typer.Exit(1)


def _print_report(report: ConvertReport, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    elif not quiet:
        typer.echo(columns(_rows(report), right=[3] if report.dry_run else [3, 4, 5]))
        print_line(report.summary)
        for name, passes in report.passes.items():
            print_line(f"/{name}: {passes.summary}")
    if not (as_json or quiet):
        for array in report.arrays:
            for note in array.notes:
                print_message("note", f"/{array.path}: {note}")
        for name, notes in report.notes.items():
            for note in notes:
                print_message("note", f"/{name}: {note}" if name else note)
    for name, reason in report.failed.items():
        print_message("error", f"/{name}: {reason}")
    for array in report.arrays:
        if array.verified is False:
            print_message("error", f"/{array.path}: the written data differ from the source")


def _rows(report: ConvertReport) -> list[list[str]]:
    sharded = any(array.shards for array in report.arrays)
    done = ["codecs"] if report.dry_run else ["after", "copied as is", "verified"]
    lossy = any(array.error for array in report.arrays)
    more = [*(["shards"] if sharded else []), *(["largest error"] if lossy else [])]
    rows = [["array", "shape", "chunks", "stored before", *done, *more]]
    for array in report.arrays:
        verified = "-" if array.verified is None else "yes" if array.verified else "no"
        done = [human_bytes(array.nbytes_after), str(array.chunks_copied), verified]
        if report.dry_run:
            done = [", ".join(array.codecs)]
        facts = [f"/{array.path}", str(array.shape), str(array.chunks), human_bytes(array.nbytes_before)]
        more = [*([str(array.shards or "-")] if sharded else []), *([array.error or "-"] if lossy else [])]
        rows.append([*facts, *done, *more])
    return rows
