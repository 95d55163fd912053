"""`tegula.check`: checks documents, chunks and other keys of nodes, and repairs the faults that it can without loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tegula.arrays.array import Array
from tegula.engine.documents.implied_keys import listable
from tegula.errors import MetadataError, ReadOnlyError, TegulaError
from tegula.hierarchy.group import Group
from tegula.hierarchy.opening import open as open_any
from tegula.jobs.checking.arrays import CODE
from tegula.jobs.checking.examination import Examination
from tegula.jobs.checking.findings import KINDS, CheckReport, Finding
from tegula.jobs.checking.walking import examine
from tegula.jobs.plans import Plan
from tegula.jobs.sharing import Entry, entry_for, sharing
from tegula.jobs.units import Progress, arrays_below
from tegula.stores import Store
from tegula.tables.table import Table
from tegula.targets.paths import clean, refuse_missing
from tegula.targets.stores import check_options, store_of

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
    storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
    ledger: Any = None,
) -> CheckReport:
    """Check an array, or a group or table with all its members, for damaged, missing and stray data.

    Every document is parsed and every stored chunk decoded; one fault does not hide another. Nothing is changed unless
    `repair` is true: each finding then says what repairing would do. Memory is bounded by a few chunks, the names of
    the open groups, and the findings that are kept.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node, or where it is stored.
    path : str
        Path below it.
    repair : bool
        Repair faults that can be repaired without loss: remove temporary files of dead writers, rewrite consolidated
        metadata and wrong counts, state the keys that the chunks have, and cut off rows that were not written to all
        columns of a table.
    dry_run : bool
        Repair nothing, even if `repair` is true; the attribute `repair` of each finding says what would be done.
    max_findings : int
        Number of findings to keep; all are counted.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its total bytes.
    announce : callable, optional
        Called with a finding before it is repaired.
    allow_pickle : bool
        Allow unpickling of chunks, which can run any code.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    runner, workers : optional
        How the chunks are decoded, as for `tegula.convert`.
    ledger : str, path, mapping or Store, optional
        A directory or bucket that records which chunks have no faults, so that the same call continues after an
        interruption. It is empty at the end.

    Returns
    -------
    CheckReport

    Raises
    ------
    NotFoundError
        If no node is found.
    ReadOnlyError
        If `repair` is true and the store, or the node, is read-only.

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
    repaired: consolidated-differs: zarr.json: the copy of 'a' differs from the document
    """
    if type(max_findings) is not int or max_findings < 0:
        raise MetadataError(f"{max_findings!r:.80} is not a number of findings", field="max_findings")
    start = time.perf_counter()
    writes = repair and not dry_run
    check_options(source, storage_options)
    path = clean(path)
    if isinstance(source, (Array, Group, Table)):
        store, path = source.store, f"{source.path}/{path}".strip("/")
    else:
        refuse_missing(source)
        store = store_of(source, read_only=not writes, storage_options=storage_options)
    try:
        if writes and (store.read_only or (isinstance(source, (Array, Group, Table)) and source.read_only)):
            raise ReadOnlyError('it was opened for reading; open it with mode="r+" to repair it', path=store.url)
        listed = listable(store, path, damaged=True)
        exam = Examination(listed, path, max_findings, progress, allow_pickle)
        if listed is not store:
            message = "the store can't be listed, so only known keys are checked"
            exam.find("not-listed", path, f"{path}/" if path else "", message)
        plan = Plan("check", {}, exam.source, "")
        who: dict[str, Any] = {"runner": runner, "workers": workers, "ledger": ledger}
        with sharing(plan, CODE, lambda: _entries(listed, path, allow_pickle), [store], **who) as exam.share:
            examine(exam)
        if writes:
            exam.repair(announce)
    finally:
        if store is not source and not isinstance(source, (Array, Group, Table)):
            store.close()
    report = exam.report()
    report.seconds = time.perf_counter() - start
    return report


def _entries(store: Store, path: str, allow_pickle: bool) -> Iterator[Entry]:
    """Yield the arrays that can be read, for the plan of a job."""
    with suppress(TegulaError):
        node = open_any(store, path=path, allow_pickle=allow_pickle)
        for name, array in arrays_below(node, {}):
            yield entry_for(name, array)
