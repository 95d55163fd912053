"""The conversion of an array: its new metadata, its units, and its entry in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from tegula import config, engine
from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import Indices, indices_of
from tegula.arrays.creation import completing, new_array_of, replaced
from tegula.engine import can_copy_chunks
from tegula.engine.nodes.creating import check_vacant, read_back
from tegula.engine.nodes.deleting import delete_node, remove_incomplete
from tegula.engine.nodes.replacing import replacing
from tegula.engine.stored.misplaced import refuse_misplaced
from tegula.errors import AlreadyExistsError, ConflictError, StoreError
from tegula.formats import Format
from tegula.hierarchy.group import Group
from tegula.hierarchy.sources import Source, Sources
from tegula.jobs.ledger import UNRECORDED, Records
from tegula.jobs.plans import Piece, Plan, description_of
from tegula.jobs.publishing import Destination, publish
from tegula.jobs.rewriting.estimating import Estimate, estimate
from tegula.jobs.rewriting.memory import passes_of, unit_grid
from tegula.jobs.rewriting.passes import Passes
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.rewriting.rules import Rules
from tegula.jobs.rewriting.targets import (
    Layout,
    Target,
    keeps_codecs,
    target_metadata,
)
from tegula.jobs.rewriting.temporary import between_name, recorded_array, temporary_array
from tegula.jobs.rewriting.work import (
    Converting,
    Mode,
    check_amount,
    digest_of,
    loss_of,
    same_attributes,
    stored_blocks,
)
from tegula.jobs.runners.runner import Runner, Threads, do_units
from tegula.jobs.units import Progress
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.nodes import ArrayMetadata, inner_codecs
from tegula.reductions.precision import Loss
from tegula.stores import Store
from tegula.tables.table import Table

__all__ = [
    "ArrayJob",
    "Making",
    "Prepared",
    "Run",
    "bytes_stored",
    "entry_of",
    "label_of",
    "opened_anew",
    "reserved_note",
]


@dataclass(frozen=True, slots=True)
class Run:
    """How arrays are made: who does the units, what is recorded and reported, and how much memory that may take."""

    runner: Runner = field(default_factory=Threads)
    ledger: Records = UNRECORDED  # of finished units
    plan: Plan | None = None  # the units of each array; by default they are planned when the array is converted
    visible_early: bool = False  # whether the documents of arrays are written before the chunks
    in_group: bool = False  # whether the caller creates the groups above the target
    overwrite: bool = False  # this and what follows are arguments of `tegula.convert`
    dry_run: bool = False
    verify: bool = False
    progress: Progress | None = None
    max_memory: int | None = None
    temporary: Any = None
    two_passes: bool = True  # whether arrays may take two passes to stay within `max_memory`


@dataclass(frozen=True, slots=True)
class Prepared:
    """An array that is about to be converted."""

    name: str  # its path below the source
    axes: Indices  # those selected along each axis
    target: Target  # the new array's metadata
    allowed: dict[str, Any]  # options for opening the new array
    draft: Array  # the new array, which is not stored yet
    metadata: ArrayMetadata  # its metadata as the format will read it, with the documents
    mode: Mode  # whether its chunks are copied as they are stored
    notes: tuple[str, ...]  # for the report


@dataclass(slots=True)
class Making:
    """An array that is being made."""

    store: Store  # where it is made, which is its final place unless it replaces another
    path: str
    is_visible: bool = False  # whether its documents are stored, and are no draft
    target: Array | None = None  # the array, once its documents are stored
    left: Counter[int] = field(default_factory=Counter)  # number of units left to each of the other parts of the job


class ArrayJob:
    """What is done with each array of a conversion: it is converted, unless a subclass plans or checks its `entry`.

    The arrays are made at `store` and `path` or below, and `report` receives the results.
    """

    work_kind: type[Converting] = Converting

    def __init__(self, store: Store, path: str, layout: Layout, run: Run, report: ConvertReport) -> None:
        self.store, self._path = store, path
        self.layout, self.run, self.report = layout, run, report
        self.sources = Sources(None)
        self.left_to = Counter[int]()  # units left to each of the other parts of the job
        self._root: Group | None = None
        self._made: set[str] = set()  # groups, by their path below the target
        self._named: dict[str, bool] = {}
        self._lock = Lock()  # for the report
        self._unfinished: list[tuple[Array, Prepared]] = []  # arrays with units left to other parts

    def begin(self, source: Array | Group | Table) -> None:
        """Begin with the node that is converted: an array, or one that holds the arrays."""
        self.sources = Sources(source, implicit=True, changed=self.run.ledger.spoil)
        self._root = source if isinstance(source, Group) else None

    def container(self, node: Group | Table, name: str, made: bool) -> None:
        """Take note of a group or table that comes before its members, and whether a group was made for it."""
        if made:
            self._made.add(name)

    def path_of(self, name: str) -> str:
        """Return the path in the target of a node, given by its path below the source."""
        return f"{self._path}/{name}".strip("/")

    def replaces(self, name: str) -> bool:
        """Return whether a node may replace another; in a group that is new there is none."""
        return self.run.overwrite and not (name and self.layout.fmt.has_groups)

    def kept(self, name: str) -> str:
        """Return a prefix that stays when a node is replaced value by value."""
        return ""

    def has_parent(self, name: str) -> bool:
        """Return whether this conversion has created the parent group of a node, or its caller does so."""
        return self.run.in_group or (bool(name) and name.rpartition("/")[0] in self._made)

    def planned(self, source: Array, axes: Indices, name: str) -> Target:
        """Return the metadata of the new array."""
        return target_metadata(source, axes, self.layout, self._names(source, name), label_of(source, name))

    def finish(self) -> None:
        """Complete the arrays whose last units other parts of the job have done by now."""
        again, self._unfinished = self._unfinished, []
        if again:
            self.report.units_left -= self.left_to.total()
            self.left_to.clear()
        for source, planned in again:
            new = self._converted(source, planned)
            self.report.arrays = [new if old.path == new.path else old for old in self.report.arrays]

    def leave(self, name: str) -> None:
        """Count what is left of an array that can't be read now, so that the job does not end without it."""
        if self.run.plan is not None and (piece := self.run.plan.pieces.get(name)) is not None:
            with self._lock:
                self.report.units_left += max(1, self.run.ledger.left_of(piece))

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Convert one array; return what was done, and the rules that do not fit it."""
        prepared = self.prepared(source, name, select, *notes)
        return self.entry(source, prepared), prepared.target.misfits

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Convert an array, or in a dry run estimate that; return its entry in the report."""
        if self.run.plan is None:  # otherwise it was done when the job was planned
            refuse_misplaced(source.stored)
        return self._outlined(source, prepared) if self.run.dry_run else self._converted(source, prepared)

    def prepared(self, source: Array, name: str, select: Any = None, *notes: str) -> Prepared:
        """Describe the new array, and check that it can be written."""
        axes, path = indices_of(... if select is None else select, source.shape), self.path_of(name)
        planned = self.planned(source, axes, name)
        allowed: dict[str, Any] = {"allow_pickle": source.allow_pickle}
        if planned.complete:
            allowed["write_empty"] = True
        # as it will be read: a format may lack the sign of a zero, or the bits of a NaN, in fill values
        metadata = read_back(self.layout.fmt, planned.metadata, path)
        stored = engine.stored_array(self.store, path, replace(metadata, documents={}), **allowed)
        draft = Array(stored, path, read_only=True)
        check_amount(source, draft, planned.precision)
        if self.run.max_memory is not None:  # an array that does not fit is refused before anything is written
            passes_of(source, axes, draft, self.run.max_memory, two=False)
        notes = (*notes, *planned.notes, *reserved_note(self.layout.fmt, name))
        mode = self._mode(source, axes, planned, draft)
        return Prepared(name, axes, planned, allowed, draft, metadata, mode, notes)

    def _outlined(self, source: Array, planned: Prepared) -> ConvertedArray:
        """Return the entry for an array that would be converted."""
        passes = self._passes(source, planned, planned.draft)
        if passes is None:
            grid = self.pieces(source, planned)[1].grid
            amount = estimate(source, planned.draft, grid, planned.mode == "copy")
        else:
            amount = Estimate(passes.units, passes.bytes_read, passes.bytes_written, passes.requests, passes.memory)
        with self._lock:
            if self.run.plan is not None:
                amount = amount.left(self.run.ledger, self.run.plan, planned.name)
            self.report.estimate = self.report.estimate.merge(amount)
            if passes is not None:
                self.report.passes[planned.name] = passes
        return entry_of(planned.draft, planned.name, before=bytes_stored(source), notes=planned.notes)

    def _converted(self, source: Array, planned: Prepared) -> ConvertedArray:
        """Do the units of an array, then write its documents; with a ledger, units may be left to other parts."""
        ledger, name = self.run.ledger, planned.name
        first, piece = self._pieces(source, planned)
        mode: Mode = "rewrite" if first is not None else planned.mode
        read = self._source(source, mode)
        with self._making(planned) as made:
            total, made.left = self._do_passes(source, planned, made, first, piece, mode, read)
        if made.left:
            with self._lock:
                self.report.units_left += made.left.total()
                self.left_to.update(made.left)
                self._unfinished.append((source, planned))
            return entry_of(planned.draft, name, before=0, notes=planned.notes)
        target = made.target
        assert target is not None
        ledger.complete(piece)
        if first is not None and ledger.lasts:
            delete_node(self.store, self.path_of(first.name))
        self._report_progress(planned, 1)  # few chunks may be stored, and no other boxes are visited

        # the comparison, and what the report says
        sizes = self._sizes(source, planned, target, total, mode)
        verified, digest = self._verified(source, planned, piece, target, read) if self.run.verify else (None, "")
        return entry_of(target, name, notes=planned.notes, verified=verified, digest=digest, **sizes)

    def _pieces(self, source: Array, planned: Prepared) -> tuple[Piece | None, Piece]:
        """Return the units of an array: those of the first of two passes, if there are two, and those that write it."""
        plan, name = self.run.plan, planned.name
        if plan is None:
            return self.pieces(source, planned)
        if name not in plan.pieces:
            raise StoreError("the array was added to the source during the conversion", path=source.location)
        if description_of(source) != plan.pieces[name].described:
            raise ConflictError(
                "the source has changed since its units were planned; do it again when no other program changes it",
                path=source.location,
            )
        return plan.pieces.get(between_name(name)), plan.pieces[name]

    def pieces(self, source: Array, planned: Prepared) -> tuple[Piece | None, Piece]:
        """Plan the units of an array: of the first pass, if there are two, and of the pass that writes it."""
        passes, draft, name = self._passes(source, planned, planned.draft), planned.draft, planned.name
        if passes is not None and passes.temporary is not None:
            first, second = (regular_grid(each.unit) for each in passes.passes)
            between = Piece(between_name(name), draft.shape, first, chunks=passes.temporary)
            return between, Piece(name, draft.shape, second)
        copies = 2 if self.run.verify else 1
        grid = unit_grid(source, planned.axes, draft, self.run.max_memory, copies=copies)
        return None, Piece(name, draft.shape, grid)

    @contextmanager
    def _making(self, planned: Prepared) -> Iterator[Making]:
        """Say where to write the chunks of an array; then write its documents, unless it can be seen already.

        If no records last it may replace another array when it is complete, a draft hides it in some formats, and an
        error removes what was written.
        """
        store, name, fmt, metadata = self.store, planned.name, self.layout.fmt, planned.metadata
        path, has_parent, early = self.path_of(name), self.has_parent(name), self.run.visible_early
        if self.run.ledger.lasts:
            publishing = partial(publish, store, path, fmt, metadata, planned.allowed, has_parent=has_parent)
            made = Making(store, path, is_visible=early, target=publishing() if early else None)
            yield made
            if not made.left and made.target is None:
                made.target = publishing()
            return
        options: dict[str, Any] = {"reserved": True, "has_parent": has_parent, "keep": self.kept(name)}
        with replacing(store, path, fmt, self.replaces(name), "lazy", **options) as replacement:
            made = Making(replacement.store, replacement.path)
            created = planned.allowed | {"filled": False, **replacement.options}
            if early or fmt.new_draft is not None:
                target = made.target = new_array_of(made.store, made.path, fmt, metadata, **created)
                made.is_visible = bool(target.metadata.documents) and not engine.is_draft(target.stored)
                try:
                    with completing(target):
                        yield made
                except BaseException:  # Ctrl-C, too
                    delete_node(made.store, made.path)  # a half-written array would look complete
                    raise
            else:
                if created.pop("overwrite"):
                    remove_incomplete(made.store, made.path)  # chunks that a killed conversion has left
                check_vacant(made.store, made.path, fmt, metadata, **planned.allowed)
                try:
                    yield made
                    created["has_chunks"] = True
                    made.target = new_array_of(made.store, made.path, fmt, metadata, False, **created)
                except AlreadyExistsError:  # another process has created a node here; its chunks may have the same keys
                    raise
                except BaseException:  # Ctrl-C, too
                    remove_incomplete(made.store, made.path)
                    raise
        made.target = replaced(replacement, made.target)

    def _source(self, source: Array, mode: Mode) -> Source:
        """Return what is read, to be compared with the store before the documents are written."""
        return self.sources.array(source, "chunks" if mode == "copy" else "longer")

    def _do_passes(
        self,
        source: Array,
        planned: Prepared,
        made: Making,
        first: Piece | None,
        piece: Piece,
        mode: Mode,
        read: Source,
    ) -> tuple[Counter[str], Counter[int]]:
        """Do the units of one pass, or of two through a temporary array; return what `do_units` does."""
        ledger, half = self.run.ledger, None if first is None else 1
        with ExitStack() as stack:
            if first is not None and ledger.completed(piece.first) is None:
                between = self._between(source, planned, made, first, stack)
                work = self._work(source, planned, "rewrite", made, between=between)
                with read:
                    _, left = self._done(work, first, partial(self._report_progress, planned, 0, half=0))
                if left:
                    return Counter(), left
                ledger.complete(first)
                source, planned = between, replace(planned, axes=tuple(map(range, between.shape)))
            work = self._work(source, planned, mode, made)
            with read:
                return self._done(work, piece, partial(self._report_progress, planned, 0, half=half))

    def _between(self, source: Array, planned: Prepared, made: Making, first: Piece, stack: ExitStack) -> Array:
        """Return the temporary array between two passes; if no records last it is removed with the `stack`."""
        shape, chunks = planned.draft.shape, first.chunks
        if self.run.ledger.lasts:
            return recorded_array(self.store, self.path_of(first.name), chunks, shape, source)
        where = made.store, made.path, self.run.temporary
        return stack.enter_context(temporary_array(*where, shape, chunks, source.metadata.data_type))

    def _work(
        self, source: Array, planned: Prepared, mode: Mode, made: Making, *, between: Array | None = None
    ) -> Converting:
        """Return the work of a pass: into the temporary array `between` two passes, or into the target."""
        documents = {**planned.metadata.documents}
        destination = Destination(
            made.store, made.path, documents, self.layout.fmt.name, planned.allowed, made.is_visible
        )
        precision = planned.target.precision
        if between is not None:  # values change on their way to the target only
            destination = Destination(
                between.store, between.path, dict(between.metadata.documents), between.format, {}, True
            )
            precision = None
        limits = {}
        if self.run.max_memory is not None:
            limits["buffer_bytes"] = max(1, self.run.max_memory // 2)
            passes = passes_of(
                source, planned.axes, planned.draft if between is None else between, self.run.max_memory, two=False
            )
            if passes is not None:
                limits["threads"] = passes.passes[0].threads
        work = self.work_kind(planned.name, source, planned.axes, destination, mode, self.run.ledger, limits, precision)
        if between is None:
            work.target = destination.of(planned.metadata)  # here; elsewhere it is opened by its documents
        return work

    def _done(
        self, work: Converting, piece: Piece, show: Callable[[int], None], runner: Runner | None = None
    ) -> tuple[Counter[str], Counter[int]]:
        """Do the units of an array, as `do_units` does, with no more threads than there is memory for."""
        here = self.run.runner.shares_memory and not work.is_remote
        with _limited(work.limits.get("threads") if here else None):
            return do_units(runner or self.run.runner, work, piece, show)

    def _passes(self, source: Array, planned: Prepared, target: Array) -> Passes | None:
        """Return the passes of a conversion with `max_memory`; ``None`` without it."""
        memory = self.run.max_memory
        if memory is None or planned.mode == "copy":
            return None
        copies = 2 if self.run.verify else 1  # both sides are compared in the same units
        passes = passes_of(source, planned.axes, target, memory, two=self.run.two_passes, copies=copies)
        if passes is not None and passes.temporary is not None:
            grid = regular_grid(passes.passes[-1].unit)
            some = stored_blocks(source, planned.axes, target, grid, planned.target.precision, compared=False)
            if some is not None:  # few chunks are stored
                return passes_of(source, planned.axes, target, memory, two=False, copies=copies)
        return passes

    def _verified(
        self, source: Array, planned: Prepared, piece: Piece, target: Array, read: Source
    ) -> tuple[bool, str]:
        """Compare an array with its source, opened anew; return whether they are equal, and the digest of values."""
        ledger = self.run.ledger.undivided()
        if self.run.plan is not None:  # the units have numbers of their own
            piece = replace(piece, first=piece.first + self.run.plan.units)
        with read:
            made = Making(self.store, self.path_of(planned.name), is_visible=True)
            work = self._work(opened_anew(source), planned, "verify", made)
            work.ledger = ledger
            total, _ = self._done(work, piece, partial(self._report_progress, planned, 1))
        ledger.complete(piece)
        self._report_progress(planned, 2)
        written = Array(target.stored, target.path, read_only=True)
        written.missing_chunks = "fill"
        same = not total["different"] and same_attributes(written, planned.target.metadata.attributes)
        return same, digest_of(written, total) if same else ""

    def _report_progress(self, planned: Prepared, passes: int, done: int = 0, half: int | None = None) -> None:
        """Report how much has been written and, with `verify`, read back: passes over the array, and elements of one.

        Each of two passes through a temporary array counts half.
        """
        draft = planned.draft
        if self.run.progress is None or not draft.nbytes:
            return
        if half is not None:
            done = (done + half * draft.size) // 2
        total = draft.nbytes * (2 if self.run.verify else 1)
        self.run.progress(planned.name, passes * draft.nbytes + done * draft.itemsize, total)

    def _mode(self, source: Array, axes: Indices, planned: Target, target: Array) -> Mode:
        """Return whether the chunks of an array can be copied as they are stored."""
        is_whole = axes == tuple(map(range, source.shape))
        kept = not planned.recoded or keeps_codecs(source, target.metadata, self.layout.fmt)
        kept = kept and planned.precision is None
        return "copy" if is_whole and kept and can_copy_chunks(source.stored, target.stored) else "rewrite"

    def _names(self, source: Array, name: str) -> tuple[str | None, ...] | None:
        """Return the dimension names of an array; of a 0-d array an empty tuple, if arrays next to it have names.

        Zarr v3 can't tell an empty tuple from no names, but xarray expects it in the attributes of Zarr v2.
        """
        names = source.dimension_names if self.layout.names is None else self.layout.names
        if names is None and not source.ndim and self._root is not None and self._has_names(self._root, name):
            return ()
        return names

    def _has_names(self, root: Group, name: str) -> bool:
        """Return whether arrays next to a node have dimension names; if there are none, those in the groups above."""
        parent = name.rpartition("/")[0]
        if parent not in self._named:
            group = root[parent] if parent else root
            arrays = (node for _, node in group.members({}, strict=True) if isinstance(node, Array) and node.ndim)
            first = next(arrays, None)
            if first is None:
                self._named[parent] = bool(parent) and self._has_names(root, parent)
            else:
                self._named[parent] = first.dimension_names is not None or any(node.dimension_names for node in arrays)
        return self._named[parent]

    @staticmethod
    def _sizes(source: Array, planned: Prepared, target: Array, total: Mapping[str, int], mode: Mode) -> dict[str, Any]:
        """Return for `entry_of` the stored chunks and bytes and, if values change, the largest error."""
        if mode == "copy":
            return {"copied": total["copied"], "stored": total["stored"], "before": total["read"],
                "after": total["written"]}  # fmt: skip
        stored, after = target.stored.amount_stored()
        sizes: dict[str, Any] = {"stored": stored, "before": bytes_stored(source), "after": after}
        return sizes if planned.target.precision is None else {**sizes, "loss": loss_of(total)}


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


def opened_anew(source: Array) -> Array:
    """Return the array as its documents describe it now; consolidated metadata may describe one that has none."""
    metadata = engine.read_metadata(source.store, source.path, source.format)
    if not isinstance(metadata, ArrayMetadata):
        return source
    how: dict[str, Any] = {"allow_pickle": source.allow_pickle, "missing_chunks": source.missing_chunks}
    stored = engine.stored_array(source.store, source.path, metadata, **how)
    return Array(stored, source.path, read_only=True)


def bytes_stored(source: Array) -> int:
    """Return the stored bytes of an array; 0 if counting them would need a request for each chunk of the grid."""
    return source.nbytes_stored() if source.store.listable else 0


def reserved_note(fmt: Format, name: str) -> list[str]:
    """Return a note if a name is kept that the target's format reserves."""
    last, prefix = name.rpartition("/")[2], fmt.reserved_prefix
    if not prefix or not last.startswith(prefix):
        return []
    return [f"the name {last!r} is kept, though {fmt.name} reserves names that begin with {prefix!r}"]


def label_of(source: Array, name: str) -> str:
    """Return the name of an array for rules: its path below the source, or its own name if it is the source."""
    return name or source.path.rpartition("/")[2]
