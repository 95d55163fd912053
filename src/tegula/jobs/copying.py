"""`tegula.copy`: copies nodes as they are stored, at once or as a job that can be resumed and divided into parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.keywords import known_keywords
from tegula.engine.concurrency.pool import for_each, gather
from tegula.engine.documents.finding import children
from tegula.engine.nodes.deleting import clear_place
from tegula.engine.stored.visiting import cells, is_inside, stored_inside
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.hierarchy import copying
from tegula.hierarchy.copier import Copier, CopyProgress
from tegula.hierarchy.copying import CopyReport
from tegula.hierarchy.sources import Source, Sources, source_of
from tegula.hierarchy.walking import arrays_below, opened
from tegula.jobs.ledger import Ledger, is_ledger_key, share_of
from tegula.jobs.managing import refuse_running
from tegula.jobs.plans import Piece, Plan, Unit, fingerprint_of
from tegula.jobs.recording import Recording
from tegula.jobs.runners.runner import Runner, Work, do_units, running
from tegula.jobs.units import block_grid, in_boxes
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store
from tegula.stores.capabilities import Copying
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import location_of, refuse_overlap

if TYPE_CHECKING:
    from tegula.arrays.arguments import Missing, SourceLike

__all__ = ["CopyProgress", "CopyReport", "copy"]

Coords = tuple[int, ...]


@known_keywords
def copy(
    source: SourceLike,
    target: SourceLike,
    *,
    path: str = "",
    overwrite: bool = False,
    progress: CopyProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    resume: bool = False,
    runner: Any = None,
    workers: int | None = None,
    part: tuple[int, int] | None = None,
    missing_chunks: Missing | None = None,
) -> CopyReport:
    """Copy an array, a table, or a group with everything below it, without decoding chunks.

    The copy has the format of the source; documents, chunks and other stored values are the same byte for byte, even
    unknown members of documents and consolidated metadata. Only stored values are visited, a few at a time. To change
    format, chunks or codecs, use `tegula.convert`.

    Documents are written last: those of an array after its chunks, those of a group after its members. So readers do
    not see an incomplete array, even after a process was killed. After any other error the copy is deleted, unless it
    is a job (`resume`, `runner`, `workers` or `part`), which can be resumed.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node to copy, or where it is stored.
    target : str, path, mapping, Store, Array, Group or Table
        Where to copy it; a node stands for its path. It must not be the source, lie within it or contain it.
    path : str
        Path below the target; groups above it are created.
    overwrite : bool
        Replace an existing node, with all its members, when the copy is complete.
    progress : callable, optional
        Called with the path of the current node, and the numbers of values and bytes copied so far.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    target_storage_options : mapping, optional
        Settings of the target's storage; by default those of `source` if both URLs name the same bucket.
    resume : bool
        Resume a copy that was interrupted, or begin one that can be resumed.
    runner, workers, part : optional
        How the work is done, and which part of it, as for `tegula.convert`.
    missing_chunks : {"fill", "error"}, optional
        ``"error"`` refuses to copy arrays of which a chunk, or an inner chunk of a shard, is not stored. By default the
        node says it, or else the setting.

    Raises
    ------
    NotFoundError
        If the source does not exist.
    AlreadyExistsError
        If the target exists and `overwrite` is false, or another process writes there.
    MetadataError
        If the target is the source, lies within it or contains it, or if its suffix implies another format.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, x=np.arange(6), y=np.ones(2))
    >>> report = tegula.copy(store, tegula.MemoryStore())
    >>> report.arrays, report.groups
    (2, 1)
    """
    _refuse_incomplete(source, missing_chunks, storage_options)
    where: dict[str, Any] = {"storage_options": storage_options, "target_storage_options": target_storage_options}
    if not resume and runner is None and workers is None and part is None:
        return copying.copy(
            source, target, path=path, overwrite=overwrite, progress=progress, check=refuse_running, **where
        )
    target_options = options_of_both(source, target, storage_options, target_storage_options)
    share = share_of(part)
    with (
        copying.source_store(source, options=storage_options, read_only=True) as (store, old),
        copying.target_store(target, path, target_options) as (new_store, new),
        running(runner, workers, store, new_store) as who,
    ):
        refuse_overlap(store, old, new_store, new)  # before leftovers at the target are deleted
        job = _Job(store, old, new_store, new, Ledger(new_store, new, share), progress)
        return job.run(who, overwrite, resume or part is not None)


def _refuse_incomplete(source: Any, missing_chunks: Missing | None, options: Mapping[str, Any] | None) -> None:
    """Refuse a source of which a chunk is not stored, if that is an error for what would read it."""
    said = getattr(source, "missing_chunks", None) if missing_chunks is None else engine.missing_rule(missing_chunks)
    if engine.fills_missing(said):
        return
    with ExitStack() as stack:
        try:
            node = stack.enter_context(opened(source, "", False, options, missing_chunks))
        except (MetadataError, UnsupportedError):
            return  # what can't be read is copied as it is
        for _, array in arrays_below(node, {}, implicit=True):
            engine.check_complete(array.stored)


class _Job:
    """A copy in progress: its units are chunks of arrays; all other values are copied when the units are done."""

    def __init__(
        self, store: Store, old: str, new_store: Store, new: str, ledger: Ledger, progress: CopyProgress | None
    ) -> None:
        self.store, self.old, self.new_store, self.new, self.made = store, old, new_store, new, new
        self.ledger, self.progress = ledger, progress
        self.plan = Plan("copy", {}, location_of(store, old), location_of(new_store, new))
        self.arrays: dict[str, Array] = {}
        self._sources: dict[str, Source] = {}
        self._unread = False  # whether there are nodes that are no units
        self._values = self._nbytes = 0

    def run(self, runner: Runner, overwrite: bool, resumes: bool) -> CopyReport:
        """Copy everything; see `copy`."""
        self._find_nodes()
        recording = Recording(
            self.ledger,
            self.plan,
            resumes=resumes,
            overwrite=overwrite,
            is_taken=lambda: False,  # a copy skips no array
            looks_complete=lambda is_noted: self._is_copied(),
        )
        # the chunks, then the rest
        try:
            with recording.under_way(
                check=lambda: copying.prepare(self.store, self.old, self.new_store, self.new, overwrite),
                clear=partial(clear_place, self.new_store, self.new),
            ) as ledger:
                if ledger is None:
                    return CopyReport(len(self.arrays), len(self.plan.groups))
                self.made = ledger.made
                self._begin_reading()
                number_left = self._units(runner)
                if number_left and not self._left():  # other parts have done the rest meanwhile
                    number_left = self._units(runner)
                if not recording.is_over() and number_left:
                    shown = self._values, self._nbytes
                    return CopyReport(len(self.arrays), len(self.plan.groups), *shown, units_left=number_left)
                others = _OtherValues(
                    self.store, self._prefix(self.old), self.new_store, self._prefix(self.made), self._progress
                )
                others.recorded = {self._prefix(array.path): array for array in self.arrays.values()}
                others.begun = {array.path: self._sources[name] for name, array in self.arrays.items()}
                others.reports_to(ledger)
                others.tree()
                recording.finish(is_noted=resumes)
        finally:
            engine.forget(self.new_store, self._prefix(self.new))
        return CopyReport(others.arrays, others.groups, self._values + others.values, self._nbytes + others.nbytes)

    def _is_copied(self) -> bool:
        """Return whether the target has the documents and chunks of the source, as after a copy without a ledger."""
        if self._unread:
            return False

        def is_same(name: str) -> bool:
            path, array = f"{self.new}/{name}".strip("/"), self.arrays.get(name)
            node = self._node_at(self.new_store, path)
            if array is None or not isinstance(node, ArrayMetadata):
                return array is None and node is not None and fingerprint_of(node) == self.plan.groups[name]
            if node.documents != array.metadata.documents:
                return False
            stored = engine.stored_array(self.new_store, path, node, missing_chunks="fill")
            return stored.amount_stored() == array.stored.amount_stored()

        wanted, requests = [*self.plan.groups, *self.arrays], max(self.store.concurrency, self.new_store.concurrency)
        return self.store.listable and self.new_store.listable and all(gather(is_same, wanted, requests))

    def _begin_reading(self) -> None:
        """Note the arrays as they are before the first chunk is copied."""
        arrays, changed = [*self.arrays.values()], self.ledger.spoil
        sources = gather(lambda array: source_of(array, "same", changed), arrays, self.store.concurrency)
        self._sources = dict(zip(self.arrays, sources))

    def _find_nodes(self) -> None:
        """Find the nodes, and plan the units of all arrays whose metadata can be read."""
        level = [self.old]
        while level:
            nodes = gather(partial(self._node_at, self.store), level, self.store.concurrency)
            groups = [path for path, node in zip(level, nodes) if not isinstance(node, ArrayMetadata)]
            for path, node in zip(level, nodes):
                name = path[len(self.old) :].strip("/")
                if isinstance(node, GroupMetadata):
                    self.plan.groups[name] = fingerprint_of(node)
                elif isinstance(node, ArrayMetadata):
                    try:
                        stored = engine.stored_array(self.store, path, node, missing_chunks="fill")
                        self.arrays[name] = Array(stored, path, read_only=True)
                    except TegulaError:
                        self._unread = True
                        continue  # its values are copied with the rest
            below = gather(lambda path: children(self.store, self._prefix(path)), groups, self.store.concurrency)
            level = [child[:-1] for children_of in below for child in children_of]
        self.arrays = dict(sorted(self.arrays.items()))
        keys = self.store.list_prefix(self._prefix(self.old))
        if not self.arrays and not self.plan.groups and next(iter(keys), None) is None:
            raise NotFoundError("there is no array or group", path=location_of(self.store, self.old))
        for name, array in self.arrays.items():
            self.plan.add(Piece(name, array.shape, block_grid(array, array), fingerprint_of(array)))

    def _node_at(self, store: Store, path: str) -> Any:
        try:
            return engine.read_metadata(store, path)
        except TegulaError:
            self._unread = True
            return None

    def _left(self) -> int:
        """Return the number of units without a record."""
        self.ledger.read()
        return self.ledger.left_in(self.plan)

    def _units(self, runner: Runner) -> int:
        """Copy the chunks of all arrays; return the number of units that are left to other parts."""
        self._values = self._nbytes = 0
        return sum(self._chunks(runner, name, array) for name, array in self.arrays.items())

    def _chunks(self, runner: Runner, name: str, array: Array) -> int:
        """Copy the chunks of an array; return the number of units that are left to other parts."""
        piece = self.plan.pieces[name]
        work = _Chunks(name, array, self.new_store, self._prefix(f"{self.made}/{name}".strip("/")), self.ledger)
        before = self._values, self._nbytes

        def report(_: int) -> None:
            total = self.ledger.sum_of(piece)
            self._show(name, before[0] + total["copied"], before[1] + total["written"])

        with self._sources[name]:
            total, left = do_units(runner, work, piece, report)
        self._values, self._nbytes = before[0] + total["copied"], before[1] + total["written"]
        if not left:
            self.ledger.complete(piece)
        return left.total()

    def _show(self, name: str, values: int, nbytes: int) -> None:
        if self.progress is not None:
            self.progress(name, values, nbytes)

    def _progress(self, name: str, values: int, nbytes: int) -> None:
        self._show(name, self._values + values, self._nbytes + nbytes)

    @staticmethod
    def _prefix(path: str) -> str:
        return f"{path}/" if path else ""


class _Chunks(Work):
    """Copies the stored chunks of an array byte for byte."""

    def __init__(self, name: str, array: Array, target: Store, prefix: str, ledger: Ledger) -> None:
        self.name, self.array, self.target, self.prefix, self.ledger = name, array, target, prefix, ledger
        self.requests = max(array.store.concurrency, target.concurrency)
        self.is_remote = array.store.is_remote or target.is_remote

    def do(self, unit: Unit) -> dict[str, int]:
        """Copy the chunks of a unit."""
        sizes: list[int] = []
        source, target = self.array.store, self.target
        by_storage = isinstance(target, Copying) and target.copies_from(source)

        def one(coords: Coords) -> None:
            key = self.array.stored.key(coords)
            if not key:
                return
            new = self.prefix + key[len(self.array.stored.prefix) :]
            if by_storage and isinstance(target, Copying):
                if (nbytes := target.copy_from(source, key, new)) is not None:
                    sizes.append(nbytes)  # appending is safe in threads, adding is not
            elif (data := source.get(key)) is not None:
                target.set(new, data)
                sizes.append(len(data))

        chosen = unit.chosen or cells(self.array.metadata.grid.touched(unit.box))
        for_each(one, chosen, parallel=True, requests=self.requests)
        return {"read": sum(sizes), "written": sum(sizes), "copied": len(sizes)}

    def nbytes(self, unit: Unit) -> int:
        """Return approximately how many bytes a unit takes in memory."""
        return unit.size * self.array.itemsize

    def stored(self, grid: ChunkGrid) -> Iterator[tuple[Coords, Coords]] | None:
        """Return what to visit if few chunks are stored; see `Work.stored`."""
        old = self.array.stored
        if not old.is_sparse(prod(old.metadata.grid.counts(old.metadata.shape))):
            return None
        return in_boxes(old, partial(stored_inside, old), grid)


class _OtherValues(Copier):
    """A copier of all values except the chunks that were units; it keeps values that an interrupted copy has left."""

    recorded: Mapping[str, Array]
    begun: Mapping[str, Source]

    def reports_to(self, ledger: Ledger) -> None:
        """Note in a ledger if the source has changed."""
        self._sources = Sources(None, self.old.rstrip("/"), implicit=True, changed=ledger.spoil)

    def _check_sources(self) -> None:
        super()._check_sources()
        for prefix, array in self.recorded.items():
            if not isinstance(self._nodes.get(prefix), Source):  # it was not there when its group was listed
                self.begun[array.path].check()
                where = location_of(self.source, array.path)
                raise ConflictError("the source was moved away and back while it was copied; copy it again", path=where)

    def _array_at(self, path: str, metadata: ArrayMetadata) -> Source:
        return self.begun.get(path) or super()._array_at(path, metadata)

    def _values(self, keys: Any) -> None:
        super()._values(item for item in keys if not is_ledger_key(item[0]) and not self._is_unit(item[0]))

    def _is_unit(self, key: str) -> bool:
        parts = key.split("/")
        for count in range(len(parts)):
            prefix = "".join(f"{part}/" for part in parts[:count])
            if (array := self.recorded.get(prefix)) is not None:
                coords = array.metadata.keys.decode("/".join(parts[count:]), array.ndim)
                return coords is not None and is_inside(array.metadata, coords)
        return False

    def _copy(self, key: str, nbytes: int, known: bytes | None = None) -> None:
        try:
            super()._copy(key, nbytes, known)
        except AlreadyExistsError:
            data = known if known is not None else self.source.get(key)
            if data is None or data != self.target.get(self.new + key[len(self.old) :]):
                raise
            with self._lock:
                self.values += 1
                self.nbytes += len(data)
