"""The conversion of an array: its new metadata, its units, and its entry in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from tegula import config, engine
from tegula.arrays.array import Array
from tegula.arrays.creation import completing, new_array_of
from tegula.engine import can_copy_chunks, copy_chunks
from tegula.engine.creating import check_vacant, read_back
from tegula.engine.deleting import clear_place, delete_node, remove_incomplete
from tegula.errors import AlreadyExistsError, StoreError
from tegula.hierarchy.group import Group
from tegula.jobs.converting.budget import passes_of, unit_grid
from tegula.jobs.converting.estimating import estimate, estimate_of
from tegula.jobs.converting.passes import Passes
from tegula.jobs.converting.precision import Loss
from tegula.jobs.converting.report import ConvertedArray, ConvertReport
from tegula.jobs.converting.rewriting import check_amount, rewrite, same_attributes, stored_blocks
from tegula.jobs.converting.rules import Rules
from tegula.jobs.converting.targets import (
    Axis,
    Options,
    Target,
    keeps_codecs,
    selected_axes,
    target_metadata,
)
from tegula.jobs.converting.temporary import between_name, recorded_array, temporary_array
from tegula.jobs.converting.work import Converting, Mode, digest_of, loss_of
from tegula.jobs.ledger import Ledger
from tegula.jobs.plans import Piece, Plan
from tegula.jobs.publishing import Place, place_for, publish
from tegula.jobs.runners.runner import Runner, Threads
from tegula.jobs.running import do_units
from tegula.jobs.units import block_grid
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.nodes import inner_codecs
from tegula.stores import Store

__all__ = ["ArrayJob", "Conduct", "Prepared", "entry_of", "label_of"]


@dataclass(frozen=True, slots=True)
class Conduct:
    """The runner and the ledger of a conversion's units.

    Parameters
    ----------
    runner : Runner
        The runner that does the units.
    ledger : Ledger, optional
        The ledger that records finished units.
    plan : Plan, optional
        The units of each array, if there is a ledger.
    visible_early : bool
        Whether the documents of arrays are written before the chunks.
    in_group : bool
        Whether the caller creates the groups above the target.
    """

    runner: Runner = field(default_factory=Threads)
    ledger: Ledger | None = None
    plan: Plan | None = None
    visible_early: bool = False
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An array that is about to be converted.

    Parameters
    ----------
    name : str
        Its path below the source.
    axes : list
        The selected part of each axis.
    target : Target
        The new array's metadata.
    allowed : dict
        Options for opening the new array.
    draft : Array
        The new array, which is not stored yet.
    notes : tuple of str
        Notes for the report.
    """

    name: str
    axes: list[Axis | int]
    target: Target
    allowed: dict[str, Any]
    draft: Array
    notes: tuple[str, ...]


class ArrayJob:
    """The conversion of single arrays: its target, options and report.

    Parameters
    ----------
    store, path : Store, str
        The target.
    options : Options
        The arguments of the conversion.
    report : ConvertReport
        Receives the results.
    conduct : Conduct, optional
        How the units are done; by default on threads, without a ledger.
    """

    def __init__(
        self, store: Store, path: str, options: Options, report: ConvertReport, conduct: Conduct | None = None
    ) -> None:
        self._conduct = Conduct() if conduct is None else conduct
        self._store = store
        self._path = path
        self._options = options
        self._root: Group | None = None
        self._named: dict[str, bool] = {}
        self._to_consolidate: list[str] = []
        self.report = report
        self._misfits: dict[str, tuple[Rules, list[str], int]] = {}
        self._lock = Lock()  # for the report
        self._unfinished: list[tuple[Any, ...]] = []  # arguments of `array` for arrays with units left to other parts
        self._requests = max(store.concurrency, self._conduct.runner.workers)
        self._made: set[str] = set()  # groups, by their path below the target
        self.left_to = Counter[int]()  # units left to each of the other parts of the job

    def _planned(self, source: Array, axes: list[Axis | int], name: str) -> Target:
        return target_metadata(source, axes, self._options, self._names(source, name), label_of(source, name))

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Convert one array; `name` is its path below the source.

        Returns
        -------
        ConvertedArray
            What was done.
        tuple of Rules
            Rules that do not fit the array.
        """
        planned = self._prepared(source, name, select, *notes)
        if self._options.dry_run:
            return self._outlined(source, planned), planned.target.misfits
        if self._conduct.ledger is not None:
            return self._recorded(source, planned, select, *notes), planned.target.misfits
        return self._at_once(source, planned), planned.target.misfits

    def _prepared(self, source: Array, name: str, select: Any, *notes: str) -> Prepared:
        """Describe the new array, and check that it can be written."""
        axes, path = selected_axes(select, source.shape), self._place(name)
        planned = self._planned(source, axes, name)
        allowed: dict[str, Any] = {"allow_pickle": source._allow_pickle}
        if planned.complete:
            allowed["write_empty"] = True
        # as it will be read: a format may lack the sign of a zero, or the bits of a NaN, in fill values
        metadata = replace(read_back(self._options.item, planned.metadata, path), documents={})
        draft = Array(engine.stored_array(self._store, path, metadata, **allowed), path, read_only=True)
        check_amount(source, draft, planned.precision)
        if self._options.max_memory is not None:  # an array that does not fit is refused before anything is written
            passes_of(source, axes, draft, self._options.max_memory, two=False)
        return Prepared(name, axes, planned, allowed, draft, (*notes, *planned.notes, *self._reserved(name)))

    def _outlined(self, source: Array, planned: Prepared) -> ConvertedArray:
        """Return the entry for an array that would be converted."""
        mode = self._mode(source, planned, planned.draft)
        passes = self._passes(source, planned, planned.draft)
        with self._lock:
            found = estimate(source, planned.draft, mode == "copy") if passes is None else estimate_of(passes)
            if self._conduct.ledger is not None and self._conduct.plan is not None:
                found = found.left(self._conduct.ledger, self._conduct.plan, planned.name)
            self.report.estimate = self.report.estimate.merge(found)
            if passes is not None:
                self.report.passes[planned.name] = passes
        return entry_of(planned.draft, planned.name, before=_bytes_stored(source), notes=planned.notes)

    def _at_once(self, source: Array, planned: Prepared) -> ConvertedArray:
        """Convert an array without a ledger; documents come last, unless a draft hides the array or it may be seen."""
        options, store, name, path = self._options, self._store, planned.name, self._place(planned.name)
        item, metadata = options.item, planned.target.metadata
        created = planned.allowed | {"filled": False, "reserved": True, "has_parent": self._has_parent(name)}
        if self._conduct.visible_early or item.new_draft is not None:
            target = new_array_of(store, path, item, metadata, options.overwrite, **created)
            try:
                with completing(target):
                    sizes = self._move(source, planned, target)
            except BaseException:  # Ctrl-C, too
                delete_node(store, path)  # a half-written array would look complete
                raise
        else:
            if options.overwrite:
                clear_place(store, path)
                remove_incomplete(store, path)  # chunks that a killed conversion has left
            check_vacant(store, path, item, metadata, **planned.allowed)
            target = place_for(store, path, item, metadata, planned.allowed, visible=False).open()
            try:
                sizes = self._move(source, planned, target)
                target = new_array_of(store, path, item, metadata, False, has_chunks=True, **created)
            except AlreadyExistsError:  # another process has created a node here, and its chunks may have the same keys
                raise
            except BaseException:  # Ctrl-C, too
                remove_incomplete(store, path)
                raise
        verified, digest = self._verified(source, planned, target) if options.verify else (None, "")
        return entry_of(target, name, notes=planned.notes, verified=verified, digest=digest, **sizes)

    def _recorded(self, source: Array, planned: Prepared, select: Any, *notes: str) -> ConvertedArray:
        """Convert an array with a ledger: do the units without a record, then write the documents if all are done."""
        ledger, plan, name = self._conduct.ledger, self._conduct.plan, planned.name
        assert ledger is not None
        if plan is None or name not in plan.pieces:
            raise StoreError("the array was added to the source during the conversion", path=source._place)
        piece = plan.pieces[name]

        # the first of two passes
        target = self._publish(planned) if self._conduct.visible_early else None
        first = plan.pieces.get(between_name(name))
        begun, axes, between, left = source, planned.axes, None, Counter[int]()
        if first is not None and ledger.completed(piece.first) is None:
            between = recorded_array(self._store, self._place(first.name), first.chunks, planned.draft.shape, source)
            work = self._work(source, planned, "rewrite", visible=True, between=between)
            _, left = self._done(work, first, partial(self._show, planned, 0, half=0))
            if not left:
                ledger.complete(first.first, first.stop)
            begun, axes = between, [(0, 1, size) for size in between.shape]

        # the units
        if not left:
            mode = "rewrite" if first is not None else self._mode(source, planned, planned.draft)
            work = self._work(begun, replace(planned, axes=axes), mode, visible=target is not None)
            half = None if first is None else 1
            total, left = self._done(work, piece, partial(self._show, planned, 0, half=half))
        if left:
            with self._lock:
                self.report.units_left += left.total()
                self.left_to.update(left)
                self._unfinished.append((source, name, select, *notes))
            return entry_of(planned.draft, name, before=0, notes=planned.notes)

        # the documents
        if target is None:
            target = self._publish(planned)
        ledger.complete(piece.first, piece.stop)
        if first is not None:
            delete_node(self._store, self._place(first.name))
        self._report_progress(name, target.nbytes, target)

        # the comparison, and what the report says
        stored, after = target._stored.amount_stored()
        sizes: dict[str, Any] = {"before": _bytes_stored(source), "after": after, "stored": stored}
        sizes |= {"copied": total["copied"], **self._lost(planned, loss_of(total))}
        verified, digest = self._verified(source, planned, target) if self._options.verify else (None, "")
        return entry_of(target, name, notes=planned.notes, verified=verified, digest=digest, **sizes)

    def _work(
        self, source: Array, planned: Prepared, mode: Mode, *, visible: bool, between: Array | None = None
    ) -> Converting:
        """Return the work of a pass: into the target, or into the temporary array `between` two passes."""
        path, item = self._place(planned.name), self._options.item
        place = place_for(self._store, path, item, planned.target.metadata, planned.allowed, visible=visible)
        precision = planned.target.precision
        if between is not None:  # values change on their way to the target only
            place = Place(between.store, between.path, dict(between.metadata.documents), between.format, {}, True)
            precision = None
        limits = {}
        if self._options.max_memory is not None:
            limits["buffer_bytes"] = max(1, self._options.max_memory // 2)
            passes = passes_of(source, planned.axes, place.open(), self._options.max_memory, two=False)
            if passes is not None:
                limits["threads"] = passes.passes[0].threads
        return Converting(planned.name, source, planned.axes, place, mode, self._conduct.ledger, limits, precision)

    def _done(self, work: Converting, piece: Piece, show: Callable[[int], None]) -> tuple[Counter[str], Counter[int]]:
        """Do the units of an array, as `do_units` does, with no more threads than there is memory for."""
        here = self._conduct.runner.shares_memory and not work.requests
        with _limited(work.limits.get("threads") if here else None):
            return do_units(self._conduct.runner, work, piece, partial(work.stored, piece.grid), show)

    def _passes(self, source: Array, planned: Prepared, target: Array) -> Passes | None:
        """Return the passes of a conversion with `max_memory`; ``None`` without it."""
        memory = self._options.max_memory
        if memory is None or self._mode(source, planned, target) == "copy":
            return None
        copies = 2 if self._options.verify else 1  # both sides are compared in the same units
        found = passes_of(source, planned.axes, target, memory, two=self._options.two_passes, copies=copies)
        if found is not None and found.temporary is not None:
            grid = regular_grid(found.passes[-1].unit)
            some = stored_blocks(source, planned.axes, target, grid, planned.target.precision, compared=False)
            if some is not None:  # few chunks are stored
                return passes_of(source, planned.axes, target, memory, two=False, copies=copies)
        return found

    def _publish(self, planned: Prepared) -> Array:
        """Write the documents of an array, unless this job has done so before; return the array."""
        where = self._store, self._place(planned.name), self._options.item, planned.target.metadata
        return publish(*where, planned.allowed, has_parent=self._has_parent(planned.name))

    def _verified(self, source: Array, planned: Prepared, target: Array) -> tuple[bool, str]:
        """Compare an array with its source, unit by unit; return whether they are equal, and the digest of values."""
        conduct, plan = self._conduct, self._conduct.plan
        ledger = None if conduct.ledger is None else conduct.ledger.whole()
        work = self._work(source, planned, "verify", visible=True)
        work.ledger = ledger
        if plan is None:
            grid = unit_grid(source, planned.axes, target, self._options.max_memory, copies=2)
            piece = Piece(planned.name, target.shape, grid, 0, {}, "")
        else:  # the units have numbers of their own
            piece = plan.pieces[planned.name]
            piece = replace(piece, first=piece.first + plan.units)
        show = partial(self._show, planned, 1)
        total, _ = self._done(work, piece, show)
        if ledger is not None:
            ledger.complete(piece.first, piece.stop)
        self._report_progress(planned.name, 2 * target.nbytes, target)
        written = Array(target._stored, target.path, read_only=True)
        same = not total["different"] and same_attributes(written, planned.target.metadata.attributes)
        return same, digest_of(written, total) if same else ""

    def _show(self, planned: Prepared, passes: int, done: int, half: int | None = None) -> None:
        """Report progress; each of two passes counts half."""
        draft = planned.draft
        if half is not None:
            done = (done + half * draft.size) // 2
        self._report_progress(planned.name, passes * draft.nbytes + done * draft.itemsize, draft)

    def _mode(self, source: Array, planned: Prepared, target: Array) -> Mode:
        """Return whether the chunks of an array can be copied as they are stored."""
        whole = planned.axes == [(0, 1, size) for size in source.shape]
        kept = not planned.target.recoded or keeps_codecs(source, target.metadata, self._options.item)
        kept = kept and planned.target.precision is None
        return "copy" if whole and kept and can_copy_chunks(source._stored, target._stored) else "rewrite"

    def _reserved(self, name: str) -> list[str]:
        """Return a note if a name is kept that the target's format reserves."""
        item, last = self._options.item, name.rpartition("/")[2]
        prefix = item.reserved_prefix
        if not prefix or not last.startswith(prefix):
            return []
        return [f"the name {last!r} is kept, though {item.name} reserves names that begin with {prefix!r}"]

    def _names(self, source: Array, name: str) -> tuple[str | None, ...] | None:
        """Return the dimension names of an array; of a 0-d array an empty tuple, if arrays next to it have names.

        Zarr v3 can't tell an empty tuple from no names, but xarray expects it in the attributes of Zarr v2.
        """
        names = source.dimension_names if self._options.names is None else self._options.names
        if names is None and not source.ndim and self._root is not None and self._has_names(self._root, name):
            return ()
        return names

    def _has_names(self, root: Group, name: str) -> bool:
        """Return whether arrays next to a node have dimension names; if there are none, those in the groups above."""
        parent = name.rpartition("/")[0]
        if parent not in self._named:
            lost: dict[str, str] = {}
            group = root[parent] if parent else root
            arrays = (node for _, node in group.members(lost) if isinstance(node, Array) and node.ndim)
            first = next(arrays, None)
            if first is None:
                self._named[parent] = bool(parent) and self._has_names(root, parent)
            else:
                self._named[parent] = first.dimension_names is not None or any(node.dimension_names for node in arrays)
        return self._named[parent]

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")

    def _has_parent(self, name: str) -> bool:
        """Return whether this conversion has created the parent group of a node, or its caller does so."""
        return self._conduct.in_group or (bool(name) and name.rpartition("/")[0] in self._made)

    def _move(self, source: Array, planned: Prepared, target: Array) -> dict[str, Any]:
        """Copy the values.

        Returns
        -------
        dict
            For `entry_of`: chunks ``copied`` without decoding, chunks ``stored`` in the target, stored bytes ``before``
            and ``after``, and the errors if values change.
        """
        old, new, name = source._stored, target._stored, planned.name
        done = copied = stored = before = after = 0
        mode = self._mode(source, planned, target)
        passes = self._passes(source, planned, target)

        # in units, by a runner
        if passes is not None or not self._conduct.runner.shares_memory:
            grid = block_grid(source, target) if passes is None else regular_grid(passes.passes[-1].unit)
            piece = Piece(name, target.shape, grid, 0, {}, "")
            if passes is not None and passes.temporary is not None:
                total = self._two_passes(source, planned, target, passes, piece)
            else:
                work = self._work(source, planned, mode, visible=_is_visible(target))
                total, _ = self._done(work, piece, partial(self._show, planned, 0))
            stored, after = new.amount_stored()
            sizes = {"copied": total["copied"], "stored": stored, "before": _bytes_stored(source), "after": after}
            return sizes | self._lost(planned, loss_of(total))

        # in blocks, by decoding and encoding them
        if mode == "rewrite":
            loss = Loss()
            for size, part in rewrite(source, planned.axes, target, planned.target.precision):
                loss = loss.merge(part)
                done += size * target.itemsize
                self._report_progress(name, done, target)
            if done < target.nbytes:  # blocks without stored chunks
                self._report_progress(name, target.nbytes, target)
            stored, after = new.amount_stored()
            sizes = {"copied": 0, "stored": stored, "before": _bytes_stored(source), "after": after}
            return sizes | self._lost(planned, loss)

        # chunk by chunk, as they are
        most = self._options.max_memory
        with _limited(None if most is None else most // (2 * max(1, old.chunk_nbytes, new.chunk_nbytes))):
            for moved in copy_chunks(old, new):
                done, copied = done + moved.nbytes, copied + moved.copied
                stored, before, after = stored + moved.stored, before + moved.before, after + moved.after
                self._report_progress(name, done, target)
        return {"copied": copied, "stored": stored, "before": before, "after": after}

    @staticmethod
    def _lost(planned: Prepared, loss: Loss) -> dict[str, Any]:
        """Return the largest error of an array whose values change, for `entry_of`."""
        return {} if planned.target.precision is None else {"loss": loss}

    def _two_passes(
        self, source: Array, planned: Prepared, target: Array, passes: Passes, piece: Piece
    ) -> Counter[str]:
        """Write the values to a temporary array, and from there to the target; return the sums over the second pass."""
        chunks, shape = passes.temporary, target.shape
        assert chunks is not None
        where = self._store, target.path, self._options.temporary
        with temporary_array(*where, shape, chunks, source.metadata.data_type) as between:
            first = replace(piece, grid=regular_grid(passes.passes[0].unit))
            work = self._work(source, planned, "rewrite", visible=True, between=between)
            self._done(work, first, partial(self._show, planned, 0, half=0))
            whole = replace(planned, axes=[(0, 1, size) for size in shape])
            work = self._work(between, whole, "rewrite", visible=_is_visible(target))
            return self._done(work, piece, partial(self._show, planned, 0, half=1))[0]

    def _report_progress(self, name: str, done: int, target: Array) -> None:
        """Report how many bytes have been written and, with `verify`, read back."""
        if self._options.progress is not None:
            passes = 2 if self._options.verify else 1
            self._options.progress(name, done, target.nbytes * passes)


def _is_visible(array: Array) -> bool:
    """Return whether an array under creation has its documents already."""
    return bool(array.metadata.documents) and not engine.is_draft(array._stored)


def _limited(threads: int | None) -> AbstractContextManager[Any]:
    """Return a context with a limited number of threads, for units that are done one after the other."""
    now = config.current().threads
    return nullcontext() if threads is None or threads >= now else config.configure(threads=max(1, threads))


def entry_of(
    array: Array,
    name: str,
    *,
    before: int,
    notes: tuple[str, ...],
    after: int = 0,
    verified: bool | None = None,
    copied: int = 0,
    stored: int = 0,
    digest: str = "",
    loss: Loss | None = None,
) -> ConvertedArray:
    """Return the entry of the report for a new array."""
    shards, codecs = array.shards, tuple(codec.name for codec in inner_codecs(array.metadata.codecs))
    facts = array.shape, array.chunks, array.nbytes
    errors = (None, None) if loss is None else loss
    return ConvertedArray(
        name, *facts, before, after, verified, notes, copied, stored, shards, codecs, digest, str(array.dtype), *errors
    )


def _bytes_stored(source: Array) -> int:
    """Return the stored bytes of an array; 0 if counting them would need a request for each chunk of the grid."""
    return source.nbytes_stored() if source.store.listable else 0


def label_of(source: Array, name: str) -> str:
    """Return the name of an array for rules: its path below the source, or its own name if it is the source."""
    return name or source.path.rpartition("/")[2]
