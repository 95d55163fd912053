"""The sync of an array: only the chunks that differ are transferred, and its documents come last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.copying.chunks import copier_of
from tegula.engine.documents.finding import SYNC_DIRECTORY
from tegula.engine.nodes.creating import read_back
from tegula.engine.nodes.deleting import remove_incomplete
from tegula.engine.reading.remote import delete_keys
from tegula.engine.stored.misplaced import refuse_misplaced
from tegula.errors import ConflictError
from tegula.formats import Format
from tegula.hierarchy.sources import source_of
from tegula.jobs.ledger import UNRECORDED
from tegula.jobs.plans import Piece
from tegula.jobs.publishing import publish
from tegula.jobs.rewriting.array_job import ArrayJob, Making, Prepared, entry_of, opened_anew
from tegula.jobs.rewriting.memory import unit_grid
from tegula.jobs.rewriting.report import ConvertedArray
from tegula.jobs.rewriting.rules import Rules
from tegula.jobs.rewriting.work import parts_of
from tegula.jobs.syncing.changes import (
    Change,
    attribute_changes,
    change_of,
    copies_whole_chunks,
    digest_of_documents,
    in_batches,
    listed_target,
    states_now,
)
from tegula.jobs.syncing.memory import ANY_DOCUMENTS, Memory, OvertakenError, Remembered
from tegula.jobs.syncing.report import SyncedArray, SyncReport
from tegula.jobs.syncing.states import States, Table, are_in, as_table, boxes_of, no_chunks, within
from tegula.jobs.syncing.work import Counting, Syncing
from tegula.metadata.chunk_grids import cells, regular_grid
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.frozen import replace as replace_metadata
from tegula.runtime.quantities import counted
from tegula.stores import Store
from tegula.stores.capabilities import Renaming
from tegula.stores.targets.paths import location_of

__all__ = ["OverwritingError", "SyncJob", "refusal", "would_overwrite"]

Coords = tuple[int, ...]
_ATTEMPTS: Final = 3  # on an array whose source changes meanwhile
_BATCH_BYTES: Final = 2**30  # of chunks in memory, after which the states are remembered
_LEAST: Final = 2**6  # chunks in a batch
_MOST: Final = 2**16
_BOXES: Final = 1000  # in the report of an array
_NAMED: Final = 5  # nodes that an error names
_ALONE: Final = "undivided"  # in the facts of a piece: one part does the array alone


class OverwritingError(ConflictError):
    """Others have changed what a sync would overwrite: `what`. `report` says what was done all the same."""

    what = ""
    report: SyncReport


def would_overwrite(what: str, where: str) -> OverwritingError:
    """Return the error for a target that others have changed."""
    error = OverwritingError(
        f"the sync would overwrite {what}: pass force=True to do it, or see what differs with `tegula diff`", path=where
    )
    error.what = what
    return error


def refusal(errors: Sequence[OverwritingError], report: SyncReport) -> OverwritingError:
    """Return the error for everything that a sync has left as others have changed it."""
    error = errors[0]
    if len(errors) > 1:
        some = [f"{one.what} in {one.path}" for one in errors[:_NAMED]]
        more = [f"more in {counted(len(errors) - _NAMED, 'other node')}"] if len(errors) > _NAMED else []
        error = would_overwrite("; ".join([*some, *more]), report.target)
    error.report = report
    return error


class SyncJob(ArrayJob):
    """What a sync does with each array: it transfers the chunks that differ.

    Attributes
    ----------
    force : bool
        Whether to overwrite what others have changed in the target.
    detailed : bool
        Whether the report says which boxes have changed.
    synced : dict of str to SyncedArray
        The entries of the report, by path below the source.
    unfinished : dict of str to (int, Array, Prepared)
        By path, how many units of an array are left to other parts.
    before_change : callable
        Called before anything of an array is written.
    pieces_found : dict of str to (bool, Piece)
        In a dry run, by path, whether chunks of the array are to be transferred, and its units.
    """

    work_kind = Syncing
    force = detailed = False

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.synced: dict[str, SyncedArray] = {}
        self.unfinished: dict[str, tuple[int, Array, Prepared]] = {}
        self.pieces_found: dict[str, tuple[bool, Piece]] = {}
        self.before_change: Callable[[], None] = lambda: None
        self._tallies: dict[str, Counter[str]] = {}  # by path, what this run has written, in all attempts
        self._replaced: Change | None = None  # in a copy of this object for one array: what it takes the place of

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Sync an array; again, if its source changes meanwhile."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return super().array(source, name, select, *notes)
            except OverwritingError:
                raise
            except ConflictError:
                source = opened_anew(source)
        return super().array(source, name, select, *notes)

    def finish(self) -> None:
        """Complete the arrays whose last units other parts of the job have done by now."""
        again, self.unfinished = self.unfinished, {}
        for name, (left, source, prepared) in again.items():
            made = self.synced[name]
            try:
                self.entry(source, prepared)
            except ConflictError:  # the next run sees what has changed
                self.unfinished[name] = left, source, prepared
            self.synced[name] = replace(made, verified=self.synced[name].verified)

    def replaces(self, name: str) -> bool:
        """Return whether an array takes the place of another node."""
        return self._replaced is not None

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Sync an array, or in a dry run say what that would do."""
        refuse_misplaced(source.stored)
        engine.check_complete(source.stored)
        name, run = prepared.name, self.run
        if prepared.mode == "copy" and not copies_whole_chunks(source, prepared):
            prepared = replace(prepared, mode="rewrite")
        piece = None if run.plan is None else run.plan.pieces.get(name)
        number, parts = run.ledger.part
        if piece is None or not piece.source.get(_ALONE):
            made = self._shared(source, prepared, piece)
        elif piece.first % parts == number - 1:
            alone = copy(self)  # nothing is recorded: no other process can know where a new array is made
            alone.run = replace(run, ledger=UNRECORDED, plan=None)
            made = alone._synced(source, prepared, piece)
            run.ledger.complete(piece)
        else:  # what is there now says nothing
            change = change_of(source, prepared, self.store, self.path_of(name))
            if not change.is_nothing:
                self.unfinished[name] = 1, source, prepared
            made = replace(self._entry(source, prepared, change), overwritten=())
        with self._lock:
            self.synced[name] = made
        return entry_of(prepared.draft, name, before=0, notes=prepared.notes)

    def _shared(self, source: Array, prepared: Prepared, piece: Piece | None) -> SyncedArray:
        """Sync an array; begin again each time another part has written the memory first, which it does a few times."""
        while True:
            with suppress(OvertakenError):
                return self._synced(source, prepared, piece)

    def _synced(self, source: Array, prepared: Prepared, piece: Piece | None) -> SyncedArray:
        """Sync an array with what is there now, in the units of a `piece` if there is a plan."""
        name, path, plan = prepared.name, self.path_of(prepared.name), self.run.plan
        change = change_of(source, prepared, self.store, path, is_shared=plan is not None)
        made = self._entry(source, prepared, change)
        if self.run.dry_run:
            self.pieces_found[name] = not change.is_nothing, self._piece(source, prepared, change)
            return made
        if change.overwritten and not self.force:
            raise would_overwrite(" and ".join(change.overwritten), location_of(self.store, path))
        if change.is_nothing:
            if not change.is_remembered:  # it was found equal
                change.memory.write(change.known)
        else:
            self._check_planned(source, change, piece)
            self.before_change()
            act = self._replace if change.action == "replaced" else self._transfer
            made = act(source, prepared, change, made)
        if self.run.verify and made.verified is None and name not in self.unfinished:
            made = replace(made, verified=self._equal(source, prepared))
            if not made.verified:  # by times and sizes alone nothing has changed
                change.memory.doubt()
        return made

    def _check_planned(self, source: Array, change: Change, piece: Piece | None) -> None:
        """Refuse to do as a part what is not in the plan.

        Raises
        ------
        ConflictError
            If the source, or what there is to do, has changed since the units were planned.
        """
        if piece is not None and piece.source["state"] == change.seen:
            if self.run.plan is None:
                return
            if not change.is_undivided and not (change.overwritten and self._is_completed(piece)):
                return
            raise ConflictError("others have changed the array since its units were planned", path=change.location)
        if piece is not None or self.run.plan is not None:
            raise ConflictError("the source has changed since its units were planned", path=source.location)

    def _is_completed(self, piece: Piece) -> bool:
        """Return whether the parts have completed an array, as it is recorded now."""
        self.run.ledger.read()
        return self.run.ledger.completed(piece.first) is not None

    # --- what differs

    def _entry(self, source: Array, planned: Prepared, change: Change) -> SyncedArray:
        """Return the entry of the report for a change that is about to be made."""
        node, new = change.node, planned.metadata
        boxes: tuple[tuple[tuple[int, int], ...], ...] = ()
        old = node.attributes if isinstance(node, ArrayMetadata) else {}
        attributes = {} if change.action == "same" else attribute_changes(old, new.attributes)
        if self.detailed:
            counts = source.metadata.grid.counts(source.shape)
            inside = change.changed[within(change.changed, counts)]
            some = boxes_of(inside, _BOXES) if source.ndim else []
            axes = source.metadata.grid.axes
            boxes = tuple(
                tuple(
                    (int(axis.start(start)), min(int(axis.start(stop - 1) + axis.length(stop - 1)), size))
                    for axis, (start, stop), size in zip(axes, box, source.shape)
                )
                for box in some
            )
        return SyncedArray(
            planned.name,
            change.action,
            tuple(change.why),
            chunks=len(change.now),
            chunks_changed=len(change.changed),
            nbytes_changed=int(change.now.sizes_at(change.changed).sum()),
            chunks_written=len(change.todo),
            chunks_deleted=len(change.gone) + len(change.outside),
            documents=len(new.documents) if change.documents else 0,
            boxes=boxes,
            attributes=attributes,
            overwritten=tuple(change.overwritten),
            notes=planned.notes,
        )

    # --- an array that is replaced as a whole

    def _replace(self, source: Array, planned: Prepared, change: Change, made: SyncedArray) -> SyncedArray:
        """Make an array anew, in the place of another node."""
        path, alone = self.path_of(planned.name), copy(self)
        alone._replaced = change
        done = alone._converted(source, planned)
        node = engine.read_metadata(self.store, path)
        assert isinstance(node, ArrayMetadata)
        memory = Memory(self.store, path)
        known = memory.read()
        if known is None or not known.is_complete:  # its values were copied
            known = self._remembered(change, listed_target(planned.draft.stored))
        memory.write(replace(known, documents=(digest_of_documents(node),), shape=node.shape))
        sizes: dict[str, Any] = {"nbytes_read": done.nbytes_before, "nbytes_written": done.nbytes_after}
        return replace(made, chunks_written=done.chunks_stored, verified=done.verified, **sizes)

    @staticmethod
    def _remembered(change: Change, targets: States) -> Remembered:
        """Return what is to be remembered of an array that was made anew, but for its documents."""
        shape = change.planned.draft.shape
        return Remembered(change.described, change.wanted, (ANY_DOCUMENTS,), shape, True, change.now, targets)

    @contextmanager
    def _making(self, planned: Prepared) -> Iterator[Making]:
        """Do as for every conversion.

        The new array says itself what it was made of, before it is in its place. Where it gets there value by value,
        the memory of the old node says from the beginning that what is there is about to be deleted.
        """
        change, path = self._replaced, self.path_of(planned.name)
        assert change is not None
        empty = no_chunks(planned.draft.ndim)
        left = Remembered(documents=(ANY_DOCUMENTS,), shape=planned.draft.shape, sources=empty, targets=empty)
        with super()._making(planned) as made:
            is_beside = (made.store, made.path) != (self.store, path)
            if not is_beside:
                change.memory.write(left)
            yield made
            if is_beside and isinstance(self.store, Renaming):  # where files keep their states
                metadata = replace_metadata(planned.metadata, documents={})
                new = engine.stored_array(made.store, made.path, metadata, **planned.allowed)
                Memory(made.store, made.path).write(self._remembered(change, listed_target(new)))
            if is_beside:
                change.memory.write(left)

    def kept(self, name: str) -> str:
        """Return a prefix that stays when a node is replaced value by value: that of the memory."""
        return f"{self.path_of(name)}/{SYNC_DIRECTORY}/".lstrip("/")

    # --- an array of which chunks are transferred

    def _transfer(self, source: Array, planned: Prepared, change: Change, made: SyncedArray) -> SyncedArray:
        """Write the chunks that differ, then the documents, then delete what lies beyond the new shape."""
        path, memory = self.path_of(planned.name), change.memory
        target = planned.draft.stored
        known = replace(change.known, described=change.described, shape=change.known.shape or target.metadata.shape)
        if change.documents and ANY_DOCUMENTS not in known.documents:
            known = replace(known, documents=(*known.documents, ANY_DOCUMENTS))
        if change.is_left:
            remove_incomplete(self.store, path)
        known = self._cut(planned, change, known, path)
        tally: Any = self._tallies.setdefault(planned.name, Counter(chunks_written=0))
        with source_of(source, "longer"):  # compared with the store before the documents are written
            known = self._units(source, planned, change, known, tally)
        if planned.name in self.unfinished:
            return replace(made, **tally)
        self._write_documents(planned, change, path, memory, known)
        delete_keys(self.store, [target.key(tuple(row)) for row in change.outside.tolist()])
        node = engine.read_metadata(self.store, path)
        assert isinstance(node, ArrayMetadata)
        targets = known.targets.where(~are_in(known.targets.coords, change.outside))
        unknown = targets.coords[targets.states == 0]  # for example deleted by another part, or before a kill
        targets = targets.changed(unknown, states_now(target, unknown))
        known = replace(known, targets=targets, is_complete=True, sources=change.now, shape=node.shape)
        memory.write(replace(known, wanted=change.wanted, documents=(digest_of_documents(node),)))
        engine.forget(self.store, target.prefix)
        if self.run.plan is not None:
            self.run.ledger.complete(self.run.plan.pieces[planned.name])
        return replace(made, **tally)

    def _cut(self, planned: Prepared, change: Change, known: Remembered, path: str) -> Remembered:
        """Cut the array that is there to the lengths of the new one, if it is longer."""
        node, shape = change.node, planned.draft.shape
        if not isinstance(node, ArrayMetadata) or not change.is_cut:
            return known
        # the chunks at and beyond the new edge are about to change
        touched = np.concatenate([change.todo, change.gone, change.outside])
        known = replace(known, targets=known.targets.marked(touched))
        known = replace(known, documents=(*known.documents, ANY_DOCUMENTS))
        change.memory.write(known)
        stored = engine.stored_array(self.store, path, node, **planned.allowed)
        Array(stored, path, read_only=False).resize(*map(min, shape, node.shape))
        return known

    def _units(
        self, source: Array, planned: Prepared, change: Change, known: Remembered, tally: Counter[str]
    ) -> Remembered:
        """Write and delete chunks, batch by batch; return what is to be remembered of them."""
        target, memory = planned.draft.stored, change.memory
        piece = self._piece(source, planned, change)
        work = self._work(source, planned, planned.mode, Making(self.store, self.path_of(planned.name)))
        assert isinstance(work, Syncing)
        copies = planned.mode == "copy"
        units = copier_of(source.stored, target).units if copies else target
        most = (
            len(change.todo) + len(change.gone)
            if memory.is_shared
            else max(_LEAST, min(_MOST, _BATCH_BYTES // max(1, units.chunk_nbytes)))
        )
        left = _Left(change)
        number, done = len(change.todo) + len(change.gone), 0
        pending: Table | None = None
        for writes, deletes in in_batches(change, units, piece.grid, most):
            boxes = [(box, chunk if copies else (1, *chunk)) for box, chunk in writes]
            touched = self._touched(source, planned, piece, boxes, writes, deletes)
            if known.is_complete:  # what is there now must not be taken for the work of others
                memory.write(replace(known, targets=known.targets.marked(touched)))
            elif pending is None or len(pending):
                memory.write(known)
            work.some = boxes
            if boxes:
                _, others = self._done(work, piece, lambda _: None, Counting(self.run.runner, tally))
                if others:
                    self.unfinished[planned.name] = others.total(), source, planned
                    return known
            keys = [target.key(tuple(row)) for row in deletes.tolist()]
            delete_keys(self.store, keys)
            if keys:
                engine.forget(self.store, target.prefix)
            known = replace(
                known,
                targets=known.targets.changed(touched, states_now(target, touched)),
                sources=known.sources.changed(left.after([chunk for _, chunk in writes], deletes), change.now),
            )
            pending = touched
            done += len(writes) + len(deletes)
            self._show(planned, done, number)
        return known

    def _piece(self, source: Array, planned: Prepared, change: Change) -> Piece:
        """Return the units of an array: those of the plan if there is one."""
        if self.run.plan is not None:
            return self.run.plan.pieces[planned.name]
        facts: dict[str, Any] = {"state": change.seen}
        if self.run.dry_run and change.is_undivided:
            whole = regular_grid(tuple(max(1, length) for length in planned.draft.shape))
            return Piece(planned.name, planned.draft.shape, whole, source={**facts, _ALONE: True})
        grid = unit_grid(source, planned.axes, planned.draft, self.run.max_memory)
        return Piece(planned.name, planned.draft.shape, grid, source=facts)

    def _show(self, planned: Prepared, done: int, number: int) -> None:
        if self.run.progress is not None:
            nbytes = planned.draft.nbytes
            self.run.progress(planned.name, nbytes * done // max(1, number), nbytes)

    def _touched(
        self,
        source: Array,
        planned: Prepared,
        piece: Piece,
        boxes: list[tuple[Coords, Coords]],
        writes: list[tuple[Coords, Coords]],
        deletes: Table,
    ) -> Table:
        """Return the chunks of the target that a batch may change: of elements that are rewritten, also neighbours."""
        grid, ndim = planned.draft.metadata.grid, planned.draft.ndim
        chunks = [chunk for _, chunk in writes]
        if planned.mode == "copy":
            return as_table([*chunks, *map(tuple, deletes.tolist())], ndim)
        together: dict[Coords, list[Coords]] = {}
        for box, chunk in boxes:
            together.setdefault(box, []).append(chunk)
        for box, some in together.items():
            region = piece.grid.region(box, piece.shape)
            parts = parts_of(source, planned.axes, planned.draft, region, some)
            if parts == [region] and len(some) < prod(stop - start for start, stop in grid.touched(region)):
                chunks += cells(grid.touched(region))
        return as_table(chunks, ndim)

    def _write_documents(self, planned: Prepared, change: Change, path: str, memory: Memory, known: Remembered) -> None:
        """Write the documents of an array whose chunks are there."""
        fmt, metadata = self.layout.fmt, planned.metadata
        if not change.documents:
            return
        if not (memory.is_shared and memory.expects_documents):
            memory.write(known)
        if metadata.dense:  # such a format counts the bytes of its chunks
            counted = replace_metadata(metadata, stored_nbytes=planned.draft.stored.amount_stored()[1], documents={})
            metadata = read_back(fmt, counted, path)
        if change.node is None:
            publish(self.store, path, fmt, metadata, planned.allowed, has_parent=self.has_parent(planned.name))
            return
        _put_documents(self.store, path, fmt, metadata)

    def _equal(self, source: Array, planned: Prepared) -> bool:
        """Read both sides, and return whether they are equal."""
        grid = unit_grid(source, planned.axes, planned.draft, self.run.max_memory, copies=2)
        path, metadata = self.path_of(planned.name), engine.read_metadata(self.store, self.path_of(planned.name))
        if not isinstance(metadata, ArrayMetadata):
            return False
        target = Array(engine.stored_array(self.store, path, metadata, **planned.allowed), path, read_only=True)
        piece = Piece(planned.name, planned.draft.shape, grid)
        return (
            target.shape == planned.draft.shape and self._verified(source, planned, piece, target, source_of(source))[0]
        )


def _put_documents(store: Store, path: str, fmt: Format, metadata: ArrayMetadata) -> None:
    """Write the documents of an array that a sync has made before; the one with its shape comes last."""
    prefix = f"{path}/" if path else ""
    old = engine.fetch_documents(store, path, fmt.keys)
    for key in sorted({*old, *metadata.documents}, key=lambda key: (key == fmt.shape_key, key)):
        new = metadata.documents.get(key)
        if new is None:
            store.delete(prefix + key)
        elif new != old.get(key):
            store.set(prefix + key, new)
    engine.forget(store, prefix)


class _Left:
    """Chunks of the source of which chunks of the target are still to be written."""

    def __init__(self, change: Change) -> None:
        rows, led = change.pairs
        self._changed = change.changed
        self._led: dict[Coords, list[int]] = {}
        self._number = np.bincount(rows, minlength=len(change.changed))
        for position, chunk in zip(rows.tolist(), led.tolist()):
            self._led.setdefault(tuple(chunk), []).append(position)

    def after(self, written: list[Coords], deleted: Table) -> Table:
        """Return the chunks of the source of which nothing is left once some more are written and deleted."""
        done = list[int]()
        for chunk in (*written, *map(tuple, deleted.tolist())):
            for position in self._led.pop(chunk, ()):
                self._number[position] -= 1
                if not self._number[position]:
                    done.append(position)
        return self._changed[sorted(done)]
