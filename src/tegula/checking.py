"""Checking what is stored: documents, chunks, and that everything that is there belongs there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tegula.arrays import Array
from tegula.errors import MetadataError, NotFoundError, ReadOnlyError
from tegula.group import Group
from tegula.integrity.examination import Examination, Progress
from tegula.integrity.findings import KINDS, CheckReport, Finding
from tegula.integrity.walking import examine
from tegula.places import clean, local_path, store_of
from tegula.stores import Store
from tegula.table import Table

__all__ = ["KINDS", "CheckReport", "Finding", "Progress", "check"]


def check(
    source: Any,
    *,
    path: str = "",
    repair: bool = False,
    dry_run: bool = False,
    max_findings: int = 10_000,
    progress: Progress | None = None,
    announce: Callable[[Finding], None] | None = None,
    allow_pickle: bool = False,
) -> CheckReport:
    """Look at an array, or a group or table with all below it, and say what is damaged, missing or out of place.

    Every document is parsed and every stored chunk decoded; a fault never hides another. Only what is found and what
    repairing would do is told, unless `repair` is true. Memory is bounded by a few chunks, the names of the groups that
    are open, and the findings that are kept.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        What to look at.
    path : str
        Path in the store, below that of a node.
    repair : bool
        Mend what can be mended without losing anything: remove the temporary files of dead writers, write consolidated
        metadata and wrong counts anew, take back the lengths of rows that were never all written.
    dry_run : bool
        Repair nothing, whatever `repair` says; each finding's `repair` says what would be done.
    max_findings : int
        How many findings are kept; all are counted.
    progress : callable, optional
        Called with path, bytes done and bytes in all of the array at hand.
    announce : callable, optional
        Called with a finding before it is repaired.
    allow_pickle : bool
        Whether chunks may be unpickled, which can run any code.

    Returns
    -------
    CheckReport

    Raises
    ------
    NotFoundError
        If there is nothing that looks like a node.
    ReadOnlyError
        If something is to be repaired through a store, or a node, that is only read.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> g = tegula.create_group(store)
    >>> a = g.create_array("a", shape=4, dtype="u1")
    >>> g.consolidate()
    >>> a.attrs["unit"] = "m"
    >>> print(tegula.check(store, repair=True))
    memory:...: 1 group, 1 array, 0 chunks: nothing wrong, 1 repaired
    repaired: consolidated-differs: zarr.json: the copy of 'a' is another one
    """
    if type(max_findings) is not int or max_findings < 0:
        raise MetadataError(f"{max_findings!r:.80} is no number of findings", field="max_findings")
    start = time.perf_counter()
    writes = repair and not dry_run
    store, path = _place(source, clean(path), writes)
    try:
        if writes and (store.read_only or (isinstance(source, (Array, Group, Table)) and source.read_only)):
            raise ReadOnlyError('it was opened for reading; open it with mode="r+" to repair it', path=store.url)
        exam = Examination(store, path, max_findings, progress, allow_pickle)
        examine(exam)
        if writes:
            exam.repair(announce)
    finally:
        if store is not source and not isinstance(source, (Array, Group, Table)):
            store.close()
    exam.report.seconds = time.perf_counter() - start
    return exam.report


def _place(source: Any, path: str, writes: bool) -> tuple[Store, str]:
    if isinstance(source, (Array, Group, Table)):
        return source.store, f"{source.path}/{path}".strip("/")
    local = local_path(source)
    if local is not None and not os.path.lexists(local):
        raise NotFoundError("there is no array or group", path=local)
    return store_of(source, read_only=not writes), path
