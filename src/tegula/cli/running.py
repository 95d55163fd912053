"""The options of commands that run as jobs: how the work is done, and which part of it."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

import typer

from tegula.cli.help import WORK
from tegula.stores.names import ARCHIVES

__all__ = [
    "Dask", "Ledger", "MaxMemory", "Part", "Resume", "VisibleEarly", "Workers", "is_archive", "parse_part",
    "resume_argument", "runner_options",
]  # fmt: skip

_option = partial(typer.Option, rich_help_panel=WORK)

Resume = Annotated[bool, _option("--resume", help="Resume where the same command was interrupted, or begin.")]
VisibleEarly = Annotated[
    bool, _option("--visible-early", help="Create arrays before their chunks, so that they can be opened.")
]
MaxMemory = Annotated[
    str | None,
    _option("--max-memory", metavar="SIZE", help="Maximum memory for values in each worker, such as 2GB."),
]
Workers = Annotated[
    int | None, _option("--workers", metavar="N", min=1, help="Do the work in N processes. [default: threads]")
]
Dask = Annotated[
    str | None,
    _option(
        "--dask",
        metavar="ADDRESS|FILE|local",
        help="Do the work on a dask cluster: the address or file of its scheduler, or local to start one here.",
    ),
]

Ledger = Annotated[
    str | None,
    _option(
        "--ledger",
        metavar="PATH",
        help="Keep a record of what is done in this directory or bucket; after an interruption, the same command "
        "continues.",
    ),
]


def parse_part(text: str) -> tuple[int, int]:
    """Parse ``I/N``, one part of several.

    Examples
    --------
    >>> parse_part("3/16")
    (3, 16)
    """
    match = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise typer.BadParameter(f"{text!r:.40} is not I/N with I from 1 to N")
    return int(match[1]), int(match[2])


Part = Annotated[
    Any,
    _option(
        "--part",
        metavar="I/N",
        parser=parse_part,
        show_default=False,
        help="Do only part I of N, as one job of a batch system; the last part to finish completes the target.",
    ),
]


def runner_options(workers: int | None, dask: str | None) -> dict[str, Any]:
    """Return the arguments of `tegula.convert` that say how the work is done.

    Examples
    --------
    >>> runner_options(4, None), runner_options(2, "local")
    ({'runner': None, 'workers': 4}, {'runner': 'local', 'workers': 2})
    """
    if dask is not None and dask != "local" and workers is not None:
        raise typer.BadParameter("the cluster has its own workers", param_hint="--workers")
    if dask is not None and dask != "local" and "://" not in dask and not dask.endswith(".json"):
        dask = f"tcp://{dask}"
    return {"runner": dask, "workers": workers}


def resume_argument(resume: bool, target: str) -> bool | None:
    """Return the argument ``resume`` of `tegula.convert`: whether a job keeps a ledger, and resumes.

    An archive is written at the end, so there is nothing to resume.

    Examples
    --------
    >>> resume_argument(False, "x.zarr"), resume_argument(False, "x.zip"), resume_argument(True, "x.zarr")
    (False, None, True)
    """
    return True if resume else None if is_archive(target) else False


def is_archive(target: str) -> bool:
    """Return whether a target is a zip archive.

    Examples
    --------
    >>> is_archive("x.zip"), is_archive("x.zarr"), is_archive("zip::s3://bucket/x.zip")
    (True, False, True)
    """
    return target.rstrip("/").endswith(ARCHIVES) or target.startswith("zip::")
