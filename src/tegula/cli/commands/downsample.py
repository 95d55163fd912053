"""``tegula downsample``."""

from __future__ import annotations

from enum import StrEnum
from functools import cache, partial
from math import prod
from typing import Annotated, Any

import typer

from tegula.arrays.array import Array
from tegula.cli.encoding import parse_codecs, parse_lengths, parse_option, parse_rules
from tegula.cli.help import ENCODING
from tegula.cli.progress import progress_line
from tegula.cli.reporting import AsJson, MissingChunks, QuietButJson, print_json, print_line, print_message
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
from tegula.cli.values import parse_value
from tegula.display.layout import columns
from tegula.jobs.downsampling.downsample import Pyramid
from tegula.jobs.downsampling.downsample import downsample as downsample_array
from tegula.jobs.managing import Done
from tegula.runtime.quantities import counted

__all__ = ["downsample"]

_encoding = partial(typer.Option, rich_help_panel=ENCODING)


class _Method(StrEnum):
    mean = "mean"
    mode = "mode"
    nearest = "nearest"


class _Version(StrEnum):
    v05 = "0.5"
    v06 = "0.6"


def downsample(
    source: Annotated[str, target_argument("SOURCE", "The array.")],
    target: Annotated[
        str | None,
        target_argument("TARGET", "The group to write: PATH, or PATH::INNER. [default: the group of SOURCE]"),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Write a group of this name in the group of SOURCE. [default: SOURCE_pyramid beside other variables]",
        ),
    ] = None,
    factors: Annotated[
        str,
        typer.Option(
            metavar="N|N,N,...|AXIS=N,...",
            help="Factor between levels: one for all spatial axes, one for each axis, or by name.",
        ),
    ] = "2",
    levels: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of levels to compute. [default: until one fits into a chunk]",
            show_default=False,
        ),
    ] = None,
    method: Annotated[_Method, typer.Option(help="How a block of elements becomes one element.")] = _Method.mean,
    axes: Annotated[
        str | None,
        typer.Option(metavar="NAME,...|JSON", help="Axes, such as c,y,x. [default: the names of the dimensions]"),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="X|X,X,...|AXIS=X,...",
            help="Distance between elements, written like --factors. [default: what the attributes say, or 1]",
        ),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE|fill_value", help="A value that marks missing data. [default: _FillValue, missing_value]"
        ),
    ] = None,
    chunks: Annotated[str | None, _encoding(metavar="N,N,...", help="Chunk shape. [default: as in SOURCE]")] = None,
    shards: Annotated[str | None, _encoding(metavar="N,N,...", help="Shard shape. [default: as in SOURCE]")] = None,
    codecs: Annotated[str | None, _encoding(metavar="NAME,...|JSON", help="Codecs. [default: as in SOURCE]")] = None,
    name: Annotated[str, _encoding(metavar="NAME", help="Name of the pyramid in its metadata.")] = "",
    ome_version: Annotated[_Version, _encoding(help="Version of OME-Zarr of the metadata.")] = _Version.v05,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what exists at TARGET, or the old levels.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done, and its cost.")] = False,
    resume: Resume = False,
    workers: Workers = None,
    dask: Dask = None,
    part: Part = None,
    visible_early: VisibleEarly = False,
    max_memory: MaxMemory = None,
    missing_chunks: MissingChunks = None,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Write a multi-scale pyramid: smaller and smaller copies of an array, with OME-Zarr metadata.

    Without TARGET the array stays where it is, and the levels s1, s2, ... are written next to it. Beside other
    variables, as in a CF data set, the pyramid gets a group of its own, with a copy of the array. Means leave out
    missing values. For an image of labels, use --method mode.

    Until the pyramid is complete, its group keeps a record of what is done: after an interruption, run the same
    command again with --resume. An archive is written in one go and can't be resumed.
    """
    # read the options; a mistake in one is an error of the command line
    options: dict[str, Any] = {
        "factors": parse_option(_per_axis, factors, "--factors"),
        "scale": parse_option(_per_axis, scale, "--scale"),
        "axes": parse_option(_axes, axes, "--axes"),
        "missing": None if missing is None else parse_value(missing),
        "chunks": parse_option(parse_lengths, chunks, "--chunks"),
        "shards": parse_option(parse_lengths, shards, "--shards"),
        "codecs": parse_option(parse_codecs, codecs, "--codecs"),
        "levels": levels,
        "method": method.value,
        "name": name,
        "ome_version": ome_version.value,
        "overwrite": overwrite,
        "dry_run": dry_run,
        "part": part,
        "visible_early": visible_early,
        "max_memory": max_memory,
        **runner_options(workers, dask),
    }
    if into is not None and (target is not None or not into.strip("/")):
        raise typer.BadParameter("it is the name of a group beside SOURCE, and excludes TARGET", param_hint="--into")
    store, inner = (None, into or "") if target is None else split_target(target)
    options["path"] = inner
    if target is not None:
        target_options = options_of_second(source, target, storage_option, target_storage_option)
        options["target_storage_options"] = target_options
    options["resume"] = resume_argument(resume, split_target(source)[0] if store is None else store)
    # write the levels
    with open_target(
        source, "r" if target is not None or dry_run else "r+", storage_option, missing_chunks=missing_chunks
    ) as node:

        @cache
        def planned() -> Pyramid:
            return downsample_array(node, store, **{**options, "dry_run": True, "resume": None, "part": None})

        def sizes() -> dict[str, int]:
            levels = planned().levels  # which refuses all but arrays
            assert isinstance(node, Array)
            written = levels if levels[0].path == "s0" else levels[1:]  # without SOURCE, which stays where it is
            return {level.path: prod(level.shape) * node.dtype.itemsize for level in written}

        def earlier() -> dict[str, Done]:
            return done_at(planned().target, "", options.get("target_storage_options")) if resume else {}

        command = "" if options["resume"] is None else "downsample … --resume"
        with progress_line(quiet, sizes=sizes, command=command, earlier=earlier) as progress:
            pyramid = downsample_array(node, store, progress=progress, **options)
    if as_json:
        print_json(pyramid.as_dict())
    elif not quiet:
        if store is None and into is None and pyramid.levels[0].path == "s0":
            what = "the group has other variables, so the pyramid has a group of its own"
            print_message("note", f"{what}: {pyramid.target}")
        typer.echo(columns(_rows(pyramid)))
        if pyramid.dry_run:
            print_line(pyramid.estimate.summary)
        if pyramid.units_left:
            typer.echo(f"{counted(pyramid.units_left, 'unit')} left to other parts")


def _per_axis(text: str) -> Any:
    """Parse a number, several, or some by name."""
    numbers = parse_rules(text, lambda part: [_number(word) for word in part.split(",") if word.strip()])
    if isinstance(numbers, dict):
        return {name: values[0] for name, values in numbers.items()}
    return numbers[0] if len(numbers) == 1 and "," not in text else numbers


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _axes(text: str) -> Any:
    value = parse_value(text)
    return value if isinstance(value, list) else [name.strip() for name in text.split(",")]


def _rows(pyramid: Pyramid) -> list[list[str]]:
    names = ",".join(axis.name for axis in pyramid.axes)
    rows = [["array", "shape", "chunks", f"scale of {names}"]]
    for level in pyramid.levels:
        scale = ",".join(f"{distance:g}" for distance in level.scale)
        rows.append([f"/{level.path}", str(level.shape), str(level.chunks), scale])
    return rows
