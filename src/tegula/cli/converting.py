"""``tegula convert``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from tegula.cli.completion import complete_codecs, complete_place
from tegula.cli.places import opened, split_place
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AllowPickle, AsJson, Quiet, columns, one_line, print_json, tell
from tegula.cli.selections import parse_selection
from tegula.converting import ConvertReport
from tegula.converting import convert as convert_node
from tegula.errors import SelectionError
from tegula.info import human_bytes

__all__ = ["convert", "parse_codecs", "parse_lengths", "parse_rules"]


class _Format(StrEnum):
    zarr1 = "zarr1"
    zarr2 = "zarr2"
    zarr3 = "zarr3"
    bcolz = "bcolz"


def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", show_default=False, help="What to convert.", autocompletion=complete_place),
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", show_default=False, help="Where to.", autocompletion=complete_place)
    ],
    format: Annotated[
        _Format | None,
        typer.Option(help="The format of the target. [default: that of the suffix of TARGET, or zarr3]"),
    ] = None,
    chunks: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...|DIM=N,...|ARRAY=N,N,...;...|auto",
            help="Shape of the chunks, -1 for a whole axis: of arrays of as many dimensions, or by dimension "
            "(time=24,lat=45) or array (tas=24,45,90;model/*=auto). [default: as they are]",
        ),
    ] = None,
    shards: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...|DIM=N,...|ARRAY=N,N,...;...|auto|none",
            help="Shape of the shards, as for --chunks. [default: as they are]",
        ),
    ] = None,
    codecs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...|JSON|ARRAY=NAME,...;...|auto|none",
            help="The codecs of the chunks, of all arrays or by array (tas=zstd;time=none). [default: as they are]",
            autocompletion=complete_codecs,
        ),
    ] = None,
    checksum: Annotated[bool, typer.Option("--checksum", help="Store a checksum with each chunk.")] = False,
    select: Annotated[
        str | None, typer.Option(metavar="SELECTION", help="The part of an array to convert: ints and slices.")
    ] = None,
    path: Annotated[str | None, typer.Option(metavar="INNER", help="Path of the node in the target.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the node that is there.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read all back and compare it with the source.")] = False,
    allow_pickle: AllowPickle = False,
    consolidated: Annotated[
        bool | None,
        typer.Option(help="Write consolidated metadata. [default: where the source has them]", show_default=False),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Copy an array, or a group or table with all that is in it, into another format, chunk shape or codec.

    Values, attributes and names are kept; a note says what the format can't hold. Compressed chunks are copied as
    they are where nothing about them changes. The exit code is 1 if an array was left out, or is found different by
    --verify.
    """
    options = {
        "format": None if format is None else format.value,
        "chunks": _parsed(_by_name(parse_lengths), chunks, "--chunks"),
        "shards": _parsed(_by_name(parse_lengths), shards, "--shards"),
        "codecs": _parsed(_by_name(parse_codecs), codecs, "--codecs"),
        "checksum": checksum,
        "select": _parsed(parse_selection, select, "--select"),
        "overwrite": overwrite,
        "dry_run": dry_run,
        "verify": verify,
        "consolidated": "auto" if consolidated is None else consolidated,
    }
    store, inner = split_place(target)
    if path is not None and inner:
        raise typer.BadParameter("the target's path is given as ::INNER already", param_hint="--path")
    with opened(source, allow_pickle=allow_pickle) as node, progress_line(quiet, node) as progress:
        report = convert_node(node, store, path=path or inner, progress=progress, **options)
    _print_report(report, as_json, quiet)
    if not report.ok:
        raise typer.Exit(1)


def _parsed(parse: Any, text: str | None, option: str) -> Any:
    try:
        return None if text is None else parse(text)
    except (SelectionError, ValueError, RecursionError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _by_name(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: parse_rules(text, parse)


def parse_rules(text: str, parse: Callable[[str], Any]) -> Any:
    """Read one value, or rules ``NAME=VALUE`` with ``,`` or ``;`` between them.

    Parameters
    ----------
    text : str
        What stands on the command line.
    parse : callable
        What reads a value.

    Examples
    --------
    >>> parse_rules("time=24,lat=45", parse_lengths), parse_rules("tas=24,45,90;lat=90", parse_lengths)
    ({'time': 24, 'lat': 45}, {'tas': (24, 45, 90), 'lat': 90})
    >>> parse_rules("tas=shuffle,zstd;*=none", parse_codecs), parse_rules("24,45", parse_lengths)
    ({'tas': ['shuffle', 'zstd'], '*': False}, (24, 45))
    """
    if "=" not in text or text.lstrip()[:1] in ("[", "{", '"'):
        return parse(text)
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
    """Read the shape of chunks or shards.

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
        raise ValueError(f"{text!r:.80} is neither 'auto' nor ints separated by commas")
    lengths = tuple(int(part) for part in word.split(",") if part.strip())
    return lengths if "," in word else lengths[0]


def parse_codecs(text: str) -> Any:
    """Read names of codecs, or their JSON.

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
        raise ValueError(f"{text!r:.80} are not names separated by commas")
    return names


def _print_report(report: ConvertReport, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    elif not quiet:
        typer.echo(columns(_rows(report), right=[3] if report.dry_run else [3, 4, 5]))
        typer.echo(report.summary)
    if not (as_json or quiet):
        for item in report.arrays:
            for note in item.notes:
                tell("note", f"/{item.path}: {note}")
        for name, notes in report.notes.items():
            for note in notes:
                tell("note", f"/{name}: {note}")
    for name, reason in report.failed.items():
        tell("error", f"/{name}: {reason}")
    for item in report.arrays:
        if item.verified is False:
            tell("error", f"/{item.path}: what was written differs from the source")


def _rows(report: ConvertReport) -> list[list[str]]:
    sharded = any(item.shards for item in report.arrays)
    done = ["codecs"] if report.dry_run else ["after", "copied as is", "verified"]
    rows = [["array", "shape", "chunks", "stored before", *done, *(["shards"] if sharded else [])]]
    for item in report.arrays:
        verified = "-" if item.verified is None else "yes" if item.verified else "no"
        done = [human_bytes(item.nbytes_after), str(item.chunks_copied), verified]
        if report.dry_run:
            done = [", ".join(item.codecs)]
        facts = [f"/{one_line(item.path)}", str(item.shape), str(item.chunks), human_bytes(item.nbytes_before)]
        rows.append([*facts, *done, *([str(item.shards or "-")] if sharded else [])])
    return rows
