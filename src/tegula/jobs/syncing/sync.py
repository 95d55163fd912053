"""`tegula.sync` and `tegula.diff`: a target that holds what a source holds, and what is missing for that."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import new_format
from tegula.arrays.keywords import known_keywords
from tegula.engine.documents.finding import SYNC_DIRECTORY
from tegula.engine.nodes.creating import check_path, check_reserved
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats import Format, find_format
from tegula.formats.documents import load
from tegula.hierarchy.group import Group
from tegula.hierarchy.walking import node_at, with_known_members
from tegula.jobs.ledger import share_of
from tegula.jobs.recording import claimed
from tegula.jobs.rewriting.array_job import Run
from tegula.jobs.rewriting.memory import bounded, memory_of
from tegula.jobs.rewriting.planning import layout_of, opened_target
from tegula.jobs.rewriting.report import ConvertReport
from tegula.jobs.rewriting.targets import Layout
from tegula.jobs.runners.runner import running
from tegula.jobs.syncing.array_job import SyncJob, refusal
from tegula.jobs.syncing.hierarchy import Syncing
from tegula.jobs.syncing.parts import divided, end_parts, finish_parts
from tegula.jobs.syncing.report import SyncedArray, SyncReport
from tegula.jobs.units import Progress, one_at_a_time
from tegula.metadata.nodes import NodeMetadata
from tegula.stores import Store
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import address_of, location_of, refuse_overlap
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import (
        ChunksLike,
        CodecsLike,
        DTypeLike,
        FormatName,
        Missing,
        ShardsLike,
        SourceLike,
        TargetLike,
    )

__all__ = ["SyncReport", "SyncedArray", "diff", "sync"]


@known_keywords
def sync(
    source: SourceLike,
    target: TargetLike,
    *,
    format: FormatName | None = None,
    chunks: ChunksLike | Mapping[str, ChunksLike] = None,
    shards: ShardsLike | Mapping[str, ShardsLike] = None,
    codecs: CodecsLike | Mapping[str, CodecsLike] = None,
    dtype: DTypeLike | Mapping[str, DTypeLike] | None = None,
    scale_offset: Any = None,
    bitround: Any = None,
    checksum: bool = False,
    path: str = "",
    delete: bool = False,
    force: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    consolidated: bool | Literal["auto"] = "auto",
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
    part: tuple[int, int] | None = None,
    max_memory: int | str | None = None,
) -> SyncReport:
    """Make a target hold what a source holds, and transfer only what has changed since the last sync.

    The first sync copies or converts everything, as `tegula.convert` does. It remembers in the target (in
    ``.tegula_sync``) in which state it saw each chunk. The next one lists both sides, and transfers the chunks whose
    state is another one: as they are stored if format, chunks and codecs are equal, if possible by the storage itself;
    otherwise it converts the parts of the target that hold elements of these chunks.

    New arrays appear, attributes are carried over, and arrays grow and shrink. An array that takes the place of
    another one, with other chunks, codecs or elements, is replaced as a whole. The documents of an array are written
    after its chunks; chunks change one by one.

    A sync that is interrupted at any moment is continued by the next one. One sync at a time works on a target.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node to sync from, or where it is stored.
    target : str, path, mapping or Store
        The mirror; must not be the source or lie within it.
    format : {"zarr3", "zarr2", "zarr1", "bcolz", "n5"}, optional
        Format of the target; by default the one that it has, or that the suffix of `target` or `path` implies, else
        that of the source.
    chunks, shards, codecs, dtype, scale_offset, bitround, checksum : optional
        What the arrays of the target are like, as for `tegula.convert`. If none is given, those of the last sync count;
        others make arrays anew.
    path : str
        Path in the target's store.
    delete : bool
        Delete nodes of the target that the source does not have. Nodes that no sync has made are only deleted with
        `force`.
    force : bool
        Overwrite what others have changed in the target.
    dry_run : bool
        Report what would be done, and write nothing; see `diff`.
    verify : bool
        Read both sides of each array at the end, and compare them. Arrays that differ, though by times and sizes
        nothing has changed, are transferred as a whole by the next sync.
    progress : callable, optional
        Called with the path of an array, the bytes of its elements that are done, and the total.
    allow_pickle, missing_chunks, consolidated : optional
        As for `tegula.convert`.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    target_storage_options : mapping, optional
        Settings of the target's storage; by default those of `source` if both URLs name the same bucket.
    runner, workers : optional
        How the work is done, as for `tegula.convert`.
    part : (int, int), optional
        Do one part of several, as for `tegula.convert`: the last part to finish completes the target. The source must
        stay the same from the first to the last part. An array that is replaced as a whole or cut is left to one of the
        parts, and a group that takes the place of an array to a sync without parts: parts do not wait for each other.
    max_memory : int or str, optional
        Maximum memory for values in each worker, in bytes or as ``"2GB"``.

    Returns
    -------
    SyncReport

    Raises
    ------
    ConflictError
        If the sync would overwrite what others have changed in the target; the message names it. Everything else is
        synced all the same: the attribute ``report`` of the error says what.
    AlreadyExistsError
        If another sync, or another job, works on the target.
    MetadataError
        If the target is the source, or an argument is not valid.
    NotFoundError
        If the source does not exist.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> source, target = tegula.MemoryStore(), tegula.MemoryStore()
    >>> x = tegula.create_array(source, data=np.arange(6), chunks=2)
    >>> tegula.sync(source, target).arrays[0].action
    'new'
    >>> x[3] = 30
    >>> tegula.sync(source, target).arrays[0]
    <tegula.SyncedArray '/' changed: 1 chunk is changed>
    >>> tegula.open(target)[:]
    array([ 0,  1,  2, 30,  4,  5])
    """
    return _Asked(
        source,
        target,
        path,
        format,
        encoding={
            "chunks": chunks,
            "shards": shards,
            "codecs": codecs,
            "dtype": dtype,
            "scale_offset": scale_offset,
            "bitround": bitround,
            "checksum": checksum or None,
        },
        consolidated=consolidated,
        opening={"missing_chunks": missing_chunks, "allow_pickle": allow_pickle, "storage_options": storage_options},
        target_options=target_storage_options,
        delete=delete,
        force=force,
        run=Run(
            dry_run=dry_run,
            verify=verify,
            progress=one_at_a_time(progress),
            max_memory=memory_of(max_memory),
            two_passes=False,
        ),
        workers=(runner, workers),
        part=part,
    ).synced()


@known_keywords
def diff(
    source: SourceLike,
    target: TargetLike,
    *,
    format: FormatName | None = None,
    path: str = "",
    delete: bool = False,
    missing_chunks: Missing | None = None,
    allow_pickle: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
) -> SyncReport:
    """Show what a sync would transfer and why: by array, box of elements and attribute. Nothing is written.

    While `tegula.compare` reads values and says where they differ, this compares what is stored with what the last
    sync saw, and reads no chunks unless the target is no mirror yet.

    Parameters
    ----------
    source, target, format, path, delete, missing_chunks, allow_pickle, storage_options, target_storage_options
        As for `tegula.sync`.

    Returns
    -------
    SyncReport
        As text, JSON (``to_json``) and HTML (``to_html``).

    Raises
    ------
    MetadataError, NotFoundError
        As `tegula.sync` does.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> source, target = tegula.MemoryStore(), tegula.MemoryStore()
    >>> x = tegula.create_array(source, data=np.arange(6), chunks=2)
    >>> report = tegula.sync(source, target)
    >>> x[3:] = 30
    >>> x.attrs["units"] = "m"
    >>> print(tegula.diff(source, target))
    1 array, 1 changed, 2 chunks to write, ...
    changed: /: 2 chunks are changed; attribute 'units' is new
      [2:6]
    """
    return _Asked(
        source,
        target,
        path,
        format,
        opening={"missing_chunks": missing_chunks, "allow_pickle": allow_pickle, "storage_options": storage_options},
        target_options=target_storage_options,
        delete=delete,
        run=Run(dry_run=True),
    ).synced()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a user asks of a sync, or of a dry run of one."""

    source: Any
    target: Any
    path: str
    format: Any
    _: KW_ONLY
    opening: Mapping[str, Any]  # options for the source
    target_options: Any
    run: Run
    encoding: Mapping[str, Any] = field(default_factory=dict)  # what the arrays of the target are like
    consolidated: Any = "auto"
    delete: bool = False
    force: bool = False
    workers: tuple[Any, int | None] = (None, None)
    part: Any = None

    def opened(self) -> Array | Group | Table:
        """Return the source as it is now."""
        return with_known_members(node_at(self.source, **self.opening))

    def synced(self) -> SyncReport:
        """Do it, and return the report."""
        start = time.perf_counter()
        target, path, format = address_of(self.target, self.path, self.format)
        options = options_of_both(self.source, target, self.opening["storage_options"], self.target_options)
        node = self.opened()
        with opened_target(target, options, dry_run=self.run.dry_run) as store:
            refuse_overlap(node.store, node.path, store, path)
            fmt, noted = _format_and_options(target, store, path, format, node)
            given = {name: value for name, value in self.encoding.items() if value is not None}
            layout = layout_of(fmt, node, given or noted, self.consolidated)
            walk = partial(self._walked, store, path, layout, bool(given))
            given = given or noted
            noted = given if fmt.has_groups or isinstance(node, Array) else {**given, "format": fmt.name}
            with bounded(self.run.max_memory):
                job = walk(self.run, node) if self.run.dry_run else self._done(walk, node, store, path, noted)
        arrays, found = job.arrays, job.report
        report = SyncReport(
            node.location,
            location_of(store, path),
            fmt.name,
            self.run.dry_run,
            [arrays.synced[name] for name in sorted(arrays.synced)],
            job.groups,
            job.extra,
            job.deleted,
            found.failed,
            found.notes,
            job.is_changing,
            time.perf_counter() - start,
            sum(left for left, _, _ in arrays.unfinished.values()),
            {name: (what,) for name, what in job.overwritten.items()}
            | {name: array.overwritten for name, array in arrays.synced.items() if array.overwritten},
        )
        if job.refused:
            raise refusal(job.refused, report)
        return report

    def _walked(
        self, store: Store, path: str, layout: Layout, has_new_rules: bool, run: Run, node: Array | Group | Table
    ) -> Syncing:
        """Go through the source once."""
        arrays = SyncJob(store, path, layout, run, ConvertReport(layout.fmt.name, run.dry_run))
        arrays.force, arrays.detailed = self.force, self.run.dry_run
        job = Syncing(arrays, delete=self.delete, remembered=not has_new_rules)
        job.run(node)
        return job

    def _done(
        self,
        walk: Callable[[Run, Array | Group | Table], Syncing],
        node: Array | Group | Table,
        store: Store,
        path: str,
        noted: Mapping[str, Any],
    ) -> Syncing:
        """Keep other processes from the target and sync it; once more if the members of a group have changed."""
        with ExitStack() as stack:
            run = replace(self.run, runner=stack.enter_context(running(*self.workers, node.store, store)))
            if self.part is None:
                end_parts(store, path)
                stack.enter_context(claimed(store, path))
            else:
                found = walk(replace(run, dry_run=True, verify=False, progress=None), node).arrays.pieces_found
                ledger, plan = stack.enter_context(divided(store, path, share_of(self.part), node, found))
                run = replace(run, ledger=ledger, plan=plan)
            _note_options(store, path, noted)
            job = walk(run, node)
            if job.is_changing and self.part is None:
                first, job = job, walk(run, self.opened())
                job.add(first)
            _note_options(store, path, noted)
            if self.part is not None:
                is_complete = not (job.arrays.unfinished or job.report.failed or job.refused)
                finish_parts(ledger, plan, is_complete=is_complete)
        return job


def _format_and_options(
    target: Any, store: Store, path: str, format: Any, node: Array | Group | Table
) -> tuple[Format, dict[str, Any]]:
    """Return the format of the target, and the options of the last sync."""
    there, noted = _node_at(store, path), _options_of(store, path)
    own = noted.pop("format", None)  # of arrays that no group holds
    if not isinstance(own, str):
        own = node.format if find_format(node.format).writable else "zarr3"
    fmt = find_format(new_format(target, path, format, own) if there is None or format else there.format)
    if not fmt.writable:
        raise UnsupportedError(f"{fmt.name} can be read, but not written", field="format")
    check_path(path, fmt)
    check_reserved(path, fmt)
    return fmt, noted


def _node_at(store: Store, path: str) -> NodeMetadata | None:
    with suppress(TegulaError):
        return engine.read_metadata(store, path)
    return None


def _options_key(path: str) -> str:
    return f"{path}/{SYNC_DIRECTORY}/options.json".lstrip("/")


def _options_of(store: Store, path: str) -> dict[str, Any]:
    """Return the options of the last sync that say what arrays are like."""
    raw = store.get(_options_key(path))
    if raw is None:
        return {}
    with suppress(MetadataError):
        found = load(raw, _options_key(path))
        if isinstance(found, dict):
            return found
    return {}


def _note_options(store: Store, path: str, given: Mapping[str, Any]) -> None:
    """Store the options that say what arrays are like, for the next sync."""
    try:
        raw = json.dumps(given, default=_plain, sort_keys=True).encode()
    except TypeError:  # a codec of another library: the next sync has to be told again
        raw = b"{}"
    key = _options_key(path)
    old = store.get(key)
    if old != raw and (old is not None or given):
        store.set(key, raw)


def _plain(value: Any) -> Any:
    """Return a value as one that JSON can hold."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "str") and hasattr(value, "kind"):
        return value.str
    if isinstance(value, type):
        import numpy as np  # noqa: PLC0415

        return np.dtype(value).str
    raise TypeError
