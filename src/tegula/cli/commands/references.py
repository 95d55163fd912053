"""``tegula references``."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from tegula.cli.reporting import AsJson, QuietButJson, print_json, print_line, print_message
from tegula.cli.targets import (
    StorageOptions,
    TargetStorageOptions,
    open_target,
    options_of_second,
    target_argument,
)
from tegula.references.writing import write

__all__ = ["references"]


class _Form(StrEnum):
    kerchunk = "kerchunk"
    parquet = "parquet"
    icechunk = "icechunk"


class _Unsupported(StrEnum):
    error = "error"
    skip = "skip"
    inline = "inline"


def references(
    source: Annotated[str, target_argument("SOURCE", "The array, table or group.")],
    target: Annotated[
        str, target_argument("TARGET", "Where to write: a file, or a directory for Parquet and icechunk.")
    ],
    form: Annotated[_Form, typer.Option(help="kerchunk writes JSON.")] = _Form.kerchunk,
    zarr_format: Annotated[
        int | None,
        typer.Option(
            metavar="2|3",
            min=2,
            max=3,
            show_default=False,
            help="Format of the metadata. [default: 3 for Zarr v3, else 2]",
        ),
    ] = None,
    path: Annotated[
        str, typer.Option(metavar="NAME", show_default=False, help="Path of SOURCE in the references.")
    ] = "",
    unsupported: Annotated[
        _Unsupported, typer.Option(help="What to do with arrays whose chunks can't be referenced.")
    ] = _Unsupported.error,
    inline_threshold: Annotated[
        int, typer.Option(min=0, metavar="BYTES", help="Store smaller chunks among the references.")
    ] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing references.")] = False,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
    target_storage_option: TargetStorageOptions = None,
) -> None:
    """Write references to the stored chunks, so that other libraries can read them in place.

    The chunks are not copied. kerchunk's references are read by fsspec and xarray, icechunk's by icechunk. The exit
    code is 1 if an array was left out.
    """
    options = options_of_second(source, target, storage_option, target_storage_option)
    with open_target(source, "r", storage_option) as node:
        report = write(
            node,
            target,
            form.value,
            zarr_format=zarr_format,  # type: ignore[arg-type]  # typer allows 2 and 3 only
            path=path,
            unsupported=unsupported.value,
            inline_threshold=inline_threshold,
            overwrite=overwrite,
            target_storage_options=options,
        )
    for name, reason in report.skipped.items():
        print_message("note", f"{name}: left out: {reason}")
    if as_json:
        print_json(asdict(report))
    elif not quiet:
        print_line(report)
    if report.skipped:
        raise typer.Exit(1)
