"""``tegula convert``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tegula.cli.completion import complete_codecs
from tegula.cli.files import output
from tegula.cli.help import ENCODING, OUTPUT, WORK
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
from tegula.errors import SelectionError
from tegula.extracts.selections import parse_selection
from tegula.jobs.converting.convert import ConvertReport
from tegula.jobs.converting.convert import convert as convert_node
from tegula.runtime.quantities import human_bytes

__all__ = ["convert", "parse_codecs", "parse_lengths", "parse_numbers", "parse_option", "parse_rules"]

_encoding = partial(typer.Option, rich_help_panel=ENCODING)
_work = partial(typer.Option, rich_help_panel=WORK)


class _Format(StrEnum):
    zarr1 = "zarr1"
    zarr2 = "zarr2"
    zarr3 = "zarr3"
    bcolz = "bcolz"
    n5 = "n5"


def convert(
    source: Annotated[str, target_argument("SOURCE", "The array, table or group to convert.")],
    target: Annotated[str, target_argument("TARGET", "Where to write: PATH, or PATH::INNER.")],
    format: Annotated[
        _Format | None,
        _encoding(help="Storage format. [default: by the suffix of TARGET, else zarr3]"),
    ] = None,
    chunks: Annotated[
        str | None,
        _encoding(
            metavar="N,N,...|DIM=N,...|ARRAY=N,N,...;...|auto",
            help="Chunk shape, -1 for a whole axis: for all arrays of that number of dimensions, or by dimension "
            "(time=24,lat=45) or array (tas=24,45,90;model/*=auto). [default: as in SOURCE]",
        ),
    ] = None,
    shards: Annotated[
        str | None,
        _encoding(
            metavar="N,N,...|DIM=N,...|ARRAY=N,N,...;...|auto|none",
            help="Shard shape, written like --chunks. [default: as in SOURCE]",
        ),
    ] = None,
    codecs: Annotated[
        str | None,
        _encoding(
            metavar="NAME,...|JSON|ARRAY=NAME,...;...|auto|none",
            help="Codecs for all arrays, or by array (tas=zstd;time=none). [default: as in SOURCE]",
            autocompletion=complete_codecs,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        _encoding(metavar="TYPE|ARRAY=TYPE;...", help="Data type, such as f4, for numbers. [default: as in SOURCE]"),
    ] = None,
    scale_offset: Annotated[
        str | None,
        _encoding(
            metavar="SCALE,OFFSET|ARRAY=SCALE,OFFSET",
            help="Pack values in --dtype: value = packed * SCALE + OFFSET.",
        ),
    ] = None,
    bitround: Annotated[
        str | None,
        _encoding(metavar="BITS|ARRAY=BITS,...", help="Bits of the fraction of floating-point numbers to keep."),
    ] = None,
    checksum: Annotated[bool, _encoding("--checksum", help="Store a checksum with each chunk.")] = False,
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
    consolidated: Annotated[
        bool | None,
        _encoding(help="Write consolidated metadata. [default: if SOURCE has it]", show_default=False),
    ] = None,
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
        "format": None if format is None else format.value,
        "chunks": parse_option(_by_name(parse_lengths), chunks, "--chunks"),
        "shards": parse_option(_by_name(parse_lengths), shards, "--shards"),
        "codecs": parse_option(_by_name(parse_codecs), codecs, "--codecs"),
        "dtype": parse_option(_by_name(str.strip), dtype, "--dtype"),
        "scale_offset": parse_option(_by_name(parse_numbers), scale_offset, "--scale-offset"),
        "bitround": parse_option(_by_name(int), bitround, "--bitround"),
        "checksum": checksum,
        "select": parse_option(parse_selection, select, "--select"),
        "overwrite": overwrite,
        "dry_run": dry_run,
        "verify": verify,
        "consolidated": "auto" if consolidated is None else consolidated,
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
                command="" if options["resume"] is None else "convert",
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


def parse_option(parse: Any, text: str | None, option: str) -> Any:
    """Parse the value of an option that was given, with errors that name the option."""
    try:
        return None if text is None else parse(text)
    except (SelectionError, ValueError, RecursionError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _by_name(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: parse_rules(text, parse)


def parse_rules(text: str, parse: Callable[[str], Any]) -> Any:
    """Parse one value, or rules ``NAME=VALUE`` separated by ``,`` or ``;``.

    Parameters
    ----------
    text : str
        The value of an option.
    parse : callable
        Parses one value.

    Returns
    -------
    object
        The value, or a dict of values by name.

    Raises
    ------
    ValueError
        If a rule has no name or no value, or two rules have the same name.

    Examples
    --------
    >>> parse_rules("time=24,lat=45", parse_lengths), parse_rules("tas=24,45,90;lat=90", parse_lengths)
    ({'time': 24, 'lat': 45}, {'tas': (24, 45, 90), 'lat': 90})
    >>> parse_rules("tas=shuffle,zstd;*=none", parse_codecs), parse_rules("24,45", parse_lengths)
    ({'tas': ['shuffle', 'zstd'], '*': False}, (24, 45))
    """
    if "=" not in text or text.lstrip()[:1] in ("[", "{", '"'):
        return parse(text)
    # commas also separate the numbers of one value: a comma ends a rule only where NAME= follows
    rules: dict[str, Any] = {}
    for part in text.split(";"):
        is_json = re.match(r"[^=]*=\s*[\[{\"]", part)
        for piece in [part] if is_json else re.split(r",(?=[^,=]*=)", part):
            if not piece.strip():
                continue
            name, equals, value = (word.strip() for word in piece.partition("="))
            if not (name and equals and value):
                raise ValueError(f"{piece.strip()!r:.80} is not NAME=VALUE")
            if name in rules:
                raise ValueError(f"there are two rules for {name!r:.80}")
            rules[name] = parse(value)
    return rules


def parse_lengths(text: str) -> Any:
    """Parse the shape of chunks or shards.

    Examples
    --------
    >>> parse_lengths("100,-1"), parse_lengths("100"), parse_lengths("[[3, 4], 5]"), parse_lengths("auto")
    ((100, -1), 100, [[3, 4], 5], 'auto')
    """
    word = text.strip().lower()
    if word in ("auto", "none"):
        return "auto" if word == "auto" else False
    if word.startswith(("[", "{")):
        return json.loads(text)
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*(,\s*[+-]?[0-9]{1,18}\s*)*,?\s*", word):
        raise ValueError(f"{text!r:.80} is neither 'auto' nor a comma-separated list of ints")
    lengths = tuple(int(part) for part in word.split(",") if part.strip())
    return lengths if "," in word else lengths[0]


def parse_numbers(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas.

    Examples
    --------
    >>> parse_numbers("0.01,273.15")
    (0.01, 273.15)
    """
    return tuple(float(part) for part in text.split(","))


def parse_codecs(text: str) -> Any:
    """Parse names of codecs, or codecs in JSON.

    Examples
    --------
    >>> parse_codecs("shuffle,zstd"), parse_codecs('{"name": "zstd", "configuration": {"level": 9}}')
    (['shuffle', 'zstd'], {'name': 'zstd', 'configuration': {'level': 9}})
    """
    word = text.strip()
    if word in ("auto", "none"):
        return "auto" if word == "auto" else False
    if word.startswith(("[", "{", '"')):
        return json.loads(word)
    names = [name.strip() for name in word.split(",")]
    if not all(names):
        raise ValueError(f"{text!r:.80} is not a comma-separated list of codec names")
    return names


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
