"""The options of commands that run as jobs: who does the work, and which part of it."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

__all__ = ["Dask", "Ledger", "Part", "Resume", "Workers", "parse_part", "running"]

Resume = Annotated[
    bool, typer.Option("--resume", help="Go on where the same command was interrupted; begin if it was not.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Do the work in N processes. [default: threads]")
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS|FILE|local",
        help="Do the work on a dask cluster: its scheduler, or one started here.",
    ),
]

Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="PATH",
        help="Keep what is done in this directory or bucket: after an interruption the same command goes on.",
    ),
]


def parse_part(text: str) -> tuple[int, int]:
    """Parse ``I/N``, one part of several.

    Examples
    --------
    >>> parse_part("3/16")
    (3, 16)
    """
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"{text!r:.40} is not I/N with I from 1 to N")
    return int(found[1]), int(found[2])


Part = Annotated[
    Any,
    typer.Option(
        "--part",
        metavar="I/N",
        parser=parse_part,
        show_default=False,
        help="Do the I-th of N parts, as a job of a batch system; the last that ends completes the target.",
    ),
]


def running(workers: int | None, dask: str | None) -> dict[str, Any]:
    """Return who does the work, as `tegula.convert` takes it.

    Examples
    --------
    >>> running(4, None), running(2, "local")
    ({'runner': None, 'workers': 4}, {'runner': 'local', 'workers': 2})
    """
    if dask is not None and dask != "local" and workers is not None:
        raise typer.BadParameter("the cluster has its own workers", param_hint="--workers")
    if dask is not None and dask != "local" and "://" not in dask and not dask.endswith(".json"):
        dask = f"tcp://{dask}"
    return {"runner": dask, "workers": workers}
