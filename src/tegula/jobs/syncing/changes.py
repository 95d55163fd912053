"""Changes: what of an array has to be transferred, by what is stored on both sides and what the last sync saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine import StoredArray
from tegula.engine.concurrency.pool import gather
from tegula.engine.copying.chunk_copies import part_of, stores_all
from tegula.engine.copying.chunks import copier_of
from tegula.engine.documents.finding import children
from tegula.errors import TegulaError
from tegula.jobs.plans import digest
from tegula.jobs.rewriting.array_job import Prepared
from tegula.jobs.rewriting.work import same_fill
from tegula.jobs.syncing.memory import ANY_DOCUMENTS, Memory, Remembered
from tegula.jobs.syncing.states import States, Table, are_in, as_table, differences, listed, no_chunks, within
from tegula.jobs.units import selected
from tegula.metadata.chunk_grids import ChunkGrid, cells
from tegula.metadata.json_values import equal_json
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.stores import Store
from tegula.stores.capabilities import StateListing, state_in
from tegula.stores.targets.paths import location_of
from tegula.tables.columns import ORDER

__all__ = [
    "OTHER_ATTRIBUTES",
    "Action",
    "Change",
    "attribute_changes",
    "change_of",
    "copies_whole_chunks",
    "digest_of_attributes",
    "digest_of_documents",
    "foreign_at",
    "in_batches",
    "is_node",
    "listed_target",
    "states_now",
]  # fmt: skip

Action = Literal["new", "changed", "same", "replaced"]
Coords = tuple[int, ...]
OTHER_ATTRIBUTES: Final = "attributes of the group that others have written"
_OTHER_DOCUMENTS: Final = "documents that others have changed"
_NAMED: Final = 3  # chunks that a message names
_PAIRS: Final = 2**16  # chunks of one side, of which each touches some of the other


def digest_of_documents(node: NodeMetadata) -> str:
    """Return a digest of the documents of a node."""
    return digest(repr(sorted(node.documents.items())).encode())


def change_of(source: Array, planned: Prepared, store: Store, path: str, *, is_shared: bool = False) -> Change:
    """Find out what a sync does with an array, by one listing of each side.

    What looks as if others had changed it may be what another part was writing, if parts share the array: it counts
    only if the memory stays the same from before one looks at the target until afterwards.
    """
    draft, memory = planned.draft.stored, Memory(store, path, is_shared=is_shared)
    tasks: list[Callable[[], Any]] = [
        memory.read, partial(_node_at, store, path), partial(listed, source.stored), partial(listed_target, draft),
    ]  # fmt: skip
    # several requests at once where these take long
    found = gather(lambda task: task(), tasks, max(source.store.concurrency, store.concurrency))
    change = Change(source, planned, memory, *found)
    is_sure = not is_shared
    while change.overwritten and not is_sure:
        found = [task() for task in tasks]  # the memory comes first
        change = Change(source, planned, memory, *found)
        is_sure = memory.is_current()
    return change


def copies_whole_chunks(source: Array, planned: Prepared) -> bool:
    """Return whether each chunk of the target is made of whole chunks of the source.

    Shards that are taken apart give many chunks, of which some may have to be deleted.
    """
    draft = planned.draft.stored
    return copier_of(source.stored, draft).units is draft or source.metadata.grid == draft.metadata.grid


def _node_at(store: Store, path: str) -> NodeMetadata | TegulaError | None:
    try:
        return engine.read_metadata(store, path)
    except TegulaError as error:
        return error


def _description(metadata: ArrayMetadata) -> tuple[Any, ...]:
    """Return what must be the same for stored chunks to keep their meaning: all but shape, names and attributes."""
    fill = metadata.fill_value
    stored = None if fill is None else repr(fill[()]) if fill.dtype.hasobject else fill.tobytes()
    return metadata.format, metadata.data_type, metadata.grid, metadata.keys, metadata.codecs, stored


def listed_target(array: StoredArray) -> States:
    """Return the states of all chunks of a target; where listings have no states, their sizes stand for these."""
    if isinstance(array.store, StateListing):
        found = listed(array, is_planned=True)
        return replace(found, states=np.where(found.states == 0, (found.sizes + 1).astype(np.uint64), found.states))
    sized = array.sized_chunks(is_planned=True)
    return _table([(coords, nbytes, 0) for coords, _, nbytes in sized], array.metadata.ndim)


def states_now(array: StoredArray, coords: Table) -> States:
    """Return the states of some chunks of a target, as `listed_target` does."""
    store, chosen = array.store, [tuple(row) for row in coords.tolist()]

    def look(chunk: Coords) -> tuple[int, int] | None:
        if isinstance(store, StateListing):
            return state_in(store, array.key(chunk))
        nbytes = store.size(array.key(chunk))
        return None if nbytes is None else (nbytes, 0)

    found = zip(chosen, gather(look, chosen, store.concurrency))
    return _table([(chunk, *one) for chunk, one in found if one is not None], array.metadata.ndim)


def _table(rows: list[tuple[Coords, int, int]], ndim: int) -> States:
    """Return a table of chunks with their sizes and states; where a state is not known, the size stands for it."""
    rows.sort()
    table = np.array([chunk for chunk, _, _ in rows], np.int64).reshape(len(rows), ndim)
    states = np.array([state or nbytes + 1 for _, nbytes, state in rows], np.uint64)
    return States(table, states, np.array([nbytes for _, nbytes, _ in rows], np.int64))


def attribute_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return by name which attributes are new, changed or deleted."""
    found = {name: "new" if name not in old else "changed" for name, value in new.items()
             if name not in old or not equal_json(old[name], value)}  # fmt: skip
    return found | dict.fromkeys((name for name in old if name not in new), "deleted")


# --- what others have changed


def _has_other_documents(node: NodeMetadata, found: Remembered) -> bool:
    return digest_of_documents(node) not in found.documents and ANY_DOCUMENTS not in found.documents


def _named(chunks: Table, known: Remembered) -> list[str]:
    """Name the chunks that other programs have changed; chunks that a sync was about to write count as its own."""
    chunks = chunks[~are_in(chunks, known.targets.coords[known.targets.states == 0])]
    if not len(chunks):
        return []
    some = ", ".join(str(tuple(row)) for row in chunks[:_NAMED].tolist())
    more = f" and {len(chunks) - _NAMED} more" if len(chunks) > _NAMED else ""
    return [f"the chunk{'s' if len(chunks) > 1 else ''} {some}{more} that others have changed"]


def digest_of_attributes(attributes: Mapping[str, Any]) -> str:
    """Return a digest of the attributes of a group, of which the order of columns is no part."""
    own = {name: value for name, value in attributes.items() if name != ORDER}
    return digest(json.dumps(own, sort_keys=True, default=repr).encode())


def is_node(store: Store, path: str) -> bool:
    """Return whether there is a node, even one that can't be read."""
    try:
        return engine.read_node(store, path) is not None
    except TegulaError:
        return True


def foreign_at(store: Store, path: str) -> str:
    """Return what others have made or changed at or below a path of the target; ``""`` if that is nothing.

    Another part of the sync may delete the node at the same time: its memory, which says so, is the last that goes.
    """
    memory = Memory(store, path, is_shared=True)
    while what := _foreign_in(memory, store, path):
        if memory.is_current():
            break
    return what


def _foreign_in(memory: Memory, store: Store, path: str) -> str:
    found = memory.read()
    if found is None:
        return "a node that no sync has made" if is_node(store, path) else ""
    if not found.is_complete:
        return ""
    try:
        node = engine.read_metadata(store, path)
    except TegulaError:
        return "a node that others have changed"
    if isinstance(node, ArrayMetadata):
        if _has_other_documents(node, found):
            return _OTHER_DOCUMENTS
        with suppress(TegulaError):
            there = listed_target(engine.stored_array(store, path, node))
            if there.coords.shape[1] == found.targets.coords.shape[1]:
                return " and ".join(_named(differences(there, found.targets), found))
        return _OTHER_DOCUMENTS
    if node is not None and digest_of_attributes(node.attributes) not in found.documents:
        return OTHER_ATTRIBUTES
    prefix = f"{path}/" if path else ""
    members = [child[:-1] for child in children(store, prefix) if is_node(store, child[:-1])]
    return next(filter(None, gather(partial(foreign_at, store), members, store.concurrency)), "")


class Change:
    """What a sync does with an array.

    Parameters
    ----------
    source, planned : Array, Prepared
        The array, and the one to make of it.
    memory, found : Memory, Remembered or None
        What the last sync saw.
    node : NodeMetadata, TegulaError or None
        What is at the target now, or why it can't be read.
    now, there : States
        The stored chunks of the source and of the target.

    Attributes
    ----------
    action : {"new", "changed", "same", "replaced"}
        Whether the array is new, changed, the same, or takes the place of another node.
    why : list of str
        The reasons, in words.
    known : Remembered
        What the last sync saw, as far as it counts.
    described, wanted : str
        As `Remembered` has them, for what is to be there.
    changed : table
        Chunks of the source that are new, changed or gone.
    todo, gone : table
        Chunks to write and to delete, as units of the copy (`ChunkCopies.units`) or chunks of the target.
    outside : table
        Chunks of the target beyond its new shape.
    pairs : (array, table)
        For each chunk of `todo` and `gone` that a chunk of the source leads to: the position of that in `changed`.
    documents : bool
        Whether documents are written.
    is_remembered : bool
        Whether `known` is stored.
    overwritten : list of str
        What others have changed in the target, and the sync would overwrite.
    """

    def __init__(
        self,
        source: Array,
        planned: Prepared,
        memory: Memory,
        found: Remembered | None,
        node: NodeMetadata | TegulaError | None,
        now: States,
        there: States,
    ) -> None:
        self.source, self.planned, self.memory, self.there = source, planned, memory, there
        self.node = None if isinstance(node, TegulaError) else node
        self.is_unreadable = isinstance(node, TegulaError)
        self.now = now.where(within(now.coords, source.metadata.grid.counts(source.shape)))
        steps = [getattr(axis, "step", axis) for axis in planned.axes]
        facts = _description(source.metadata), _description(planned.metadata), planned.target.precision, steps
        self.described = digest(repr(facts).encode())
        self.wanted = digest(repr(sorted(planned.metadata.documents.items())).encode())
        self.target = planned.draft.stored
        self.copies = planned.mode == "copy"
        self.copier = copier_of(source.stored, self.target) if self.copies else None
        self.same_units = self.copier is not None and self.copier.units is source.stored
        self.fills = stores_all(self.target) or not same_fill(source, planned.draft, planned.target.precision)
        self.known = Remembered(sources=no_chunks(source.ndim), targets=no_chunks(planned.draft.ndim))
        self.found = None if found is not None and self._is_of_another(found) else found
        self.is_remembered = self.found is not None
        self.why, self.overwritten = list[str](), list[str]()
        self.changed, self.documents = self.now.coords, True
        self.todo = self.gone = self.outside = self._no_targets
        self.pairs = np.zeros(0, np.intp), self._no_targets
        self.action: Action = self._action()
        if self.action == "replaced":
            units = self._units(self._mapped(self.changed)[1])
            self.todo = units[self._have_values(units)]
        else:
            self._compare()

    @property
    def is_nothing(self) -> bool:
        """Whether source and target are in step."""
        return self.action == "same"

    @property
    def location(self) -> str:
        """Where the target is, for messages."""
        return location_of(self.memory.store, self.planned.draft.path)

    @property
    def is_cut(self) -> bool:
        """Whether the array that is there is longer than the new one along some axis."""
        old, new = self.node, self.planned.draft.shape
        return isinstance(old, ArrayMetadata) and any(after < before for before, after in zip(old.shape, new))

    @property
    def is_left(self) -> bool:
        """Whether there may be parts of another node, as a sync leaves them that is killed when it replaces one."""
        found = self.found
        return self.action == "new" and found is not None and found.described != self.described

    @property
    def is_undivided(self) -> bool:
        """Whether one of several parts has to do it alone, since it deletes what others may be writing."""
        return self.action == "replaced" or self.is_cut or self.is_left

    @property
    def seen(self) -> str:
        """A digest of the state of the source in which this was found."""
        return digest(b"".join([self.wanted.encode(), self.now.coords.tobytes(), self.now.states.tobytes()]))

    def _is_of_another(self, known: Remembered) -> bool:
        """Return whether no chunk is as it was left, so that the memory was copied along with a mirror.

        The same holds for one that does not fit the array it claims to be of.
        """
        targets = known.targets
        ndims = [self.source.ndim, self.there.coords.shape[1]]
        if [known.sources.coords.shape[1], targets.coords.shape[1]] != ndims:
            return known.described == self.described
        if not known.is_complete or not targets.states.all():  # a sync was about to write some
            return False
        return not (targets.at(self.there.coords) == self.there.states).any() and len(targets) > 0 < len(self.there)

    def _compare(self) -> None:
        """Compare everything."""
        known, node = self.known, self.node
        counts = self.target.metadata.grid.counts(self.target.metadata.shape)
        self.changed = differences(self.now, known.sources)
        redone = self._redone()
        old_shape = node.shape if isinstance(node, ArrayMetadata) else None
        if old_shape is not None and old_shape != self.target.metadata.shape:
            self.why.append(f"the shape was {old_shape}, and is {self.target.metadata.shape}")
            redone = np.concatenate([redone, self._edges(old_shape)])
        rows, led = self._mapped(self.changed)
        units = self._units(np.concatenate([led, redone]))
        writes = self._have_values(units)
        gone = units[~writes]
        self.todo, self.gone = units[writes], gone[are_in(gone, self.there.coords)]
        self.outside = self.there.coords[~within(self.there.coords, counts)]
        self.documents = node is None or known.wanted != self.wanted or ANY_DOCUMENTS in known.documents
        if isinstance(node, ArrayMetadata) and digest_of_documents(node) not in known.documents:
            self.documents = True
        chunks = self.changed, self.todo, self.gone, self.outside
        if self.action == "same" and (any(map(len, chunks)) or self.documents or not known.is_complete):
            self.action = "changed"
        self._explain()
        inside = within(led, counts)
        self.pairs = rows[inside], led[inside]

    @property
    def _no_targets(self) -> Table:
        return self.there.coords[:0]

    def _action(self) -> Action:
        """Decide what becomes of the node that is there, and which memory counts."""
        node, found = self.node, self.found
        alike = found is not None and found.described == self.described
        if node is None and not self.is_unreadable:
            self.why.append("it is not there")
            if found is not None and found.is_complete:
                self.overwritten.append("the array, which others have deleted,")
            elif found is not None and alike:
                self.known = found
            elif found is None and len(self.there):
                self.overwritten.append(f"{len(self.there)} chunks without an array")
            return "new"
        if not isinstance(node, ArrayMetadata) or node.format != self.planned.metadata.format or not alike:
            if found is None and isinstance(node, ArrayMetadata) and self._adopts(node):
                return "same"
            if found is None:
                self.overwritten.append("a node that no sync has made")
            elif foreign := foreign_at(self.memory.store, self.planned.draft.path):
                self.overwritten.append(foreign)
            self.why.append("the array was replaced, or has other chunks, codecs or elements")
            return "replaced"
        assert found is not None
        self.known = found
        if found.is_complete and _has_other_documents(node, found):
            self.overwritten.append(_OTHER_DOCUMENTS)
        return "same"

    def _adopts(self, node: ArrayMetadata) -> bool:
        """Take over an array that a sync has not made, but that stores the same: compare the values."""
        metadata = self.planned.metadata
        if not self.same_units or not metadata.has_chunks_of(node) or node.shape != metadata.shape:
            return False
        ours = self.there.where(self.now.sizes_at(self.there.coords) == self.there.sizes)
        chunks = [tuple(row) for row in ours.coords[are_in(ours.coords, self.now.coords)].tolist()]
        source, target = self.source.stored, self.target

        def is_same(chunk: Coords) -> bool:
            return source.store.get(source.key(chunk)) == target.store.get(target.key(chunk))

        requests = max(source.store.concurrency, target.store.concurrency)
        same = as_table(
            (chunk for chunk, one in zip(chunks, gather(is_same, chunks, requests)) if one), len(node.shape)
        )
        kept = self.known.sources.changed(same, self.now), self.known.targets.changed(same, self.there)
        documents = (digest_of_documents(node),)
        is_alike = not attribute_changes(node.attributes, metadata.attributes)
        if not is_alike:
            self.overwritten.append("attributes that no sync has written")
        self.known = Remembered(self.described, self.wanted if is_alike else "", documents, node.shape, True, *kept)
        return True

    def _redone(self) -> Table:
        """Return the chunks of the target that are not as they were left, and note those that others have changed."""
        known = self.known
        different = differences(self.there, known.targets)
        if known.is_complete and len(different):
            self.overwritten += _named(different, known)
        return different

    def _explain(self) -> None:
        known, changed = self.known, self.changed
        if not len(changed) or (self.why and not len(known.sources)):
            return
        before, after = known.sources.at(changed) != 0, are_in(changed, self.now.coords)
        for what, which in (("changed", before & after), ("new", ~before), ("gone", before & ~after)):
            if number := int(which.sum()):
                self.why.append(f"{number} chunk{'s are' if number > 1 else ' is'} {what}")

    def _edges(self, old: Coords) -> Table:
        """Return the chunks of the target across the old or new end of an axis whose length has changed.

        Chunks that are copied as they are need not change, unless the array is cut: then they are cleared beyond it.
        """
        new, grid = self.target.metadata.shape, self.target.metadata.grid
        is_cut = any(after < before for before, after in zip(old, new))
        dense = self.target.metadata.dense or self.source.metadata.dense
        if self.same_units and not is_cut and not dense:
            return self._no_targets
        rows = [self._no_targets]
        for axis, (before, after) in enumerate(zip(old, new)):
            for end in {min(before, after)} if before != after else ():
                number = int(grid.axes[axis].locate(end))
                if not end or (number >= grid.counts(new)[axis] and not is_cut):
                    continue
                start = int(grid.axes[axis].start(number))
                if start == end:
                    continue
                own = self.source.metadata.grid.axes[axis] if self.source.ndim == len(new) else None
                near = self.now.coords
                if own is not None:
                    first, last = (
                        int(own.locate(start)),
                        int(own.locate(max(start, min(end, self.source.shape[axis]) - 1))),
                    )
                    near = near[(near[:, axis] >= first) & (near[:, axis] <= last)]
                led = np.concatenate([self._mapped(near)[1], self.there.coords])
                rows.append(led[led[:, axis] == number])
        return np.concatenate(rows)

    def _mapped(self, coords: Table) -> tuple[npt.NDArray[np.intp], Table]:
        """Return the chunks to write for some chunks of the source: the position of each of these, and the chunk."""
        if self.same_units:
            return np.arange(len(coords)), coords
        grid, source, axes = self.target.metadata.grid, self.source.stored, self.planned.axes
        positions, chunks = list[int](), list[Coords]()
        for position, row in enumerate(coords.tolist()):
            region = _region(source, tuple(row))
            if region is not None and (part := selected(region, axes)) is not None:
                touched = [*cells(grid.touched(part))]
                positions += [position] * len(touched)
                chunks += touched
        ndim = self.target.metadata.ndim
        return np.array(positions, np.intp), np.array(chunks, np.int64).reshape(len(chunks), ndim)

    def _units(self, led: Table) -> Table:
        """Return the chunks of the target to write or delete, of which changed chunks lead to some."""
        counts = self.target.metadata.grid.counts(self.target.metadata.shape)
        if self.fills:
            every = np.argwhere(np.ones(counts, bool))
            led = np.concatenate([led, every[self.known.targets.at(every) == 0]])
        units = _unique(led)
        return units[within(units, counts)]

    def _have_values(self, units: Table) -> npt.NDArray[np.bool_]:
        """Return which chunks are to be written; the others are deleted, since the source stores nothing there."""
        if self.fills or not self.copies or not len(units):
            return np.ones(len(units), bool)
        if self.same_units:
            return are_in(units, self.now.coords)
        # shards that are put together of chunks, or of other shards
        stored = {tuple(row) for row in self.now.coords.tolist()}
        grid, shape = self.source.metadata.grid, self.target.metadata.shape
        every = (cells(grid.touched(self.target.metadata.grid.region(row, shape))) for row in units.tolist())
        return np.array([any(chunk in stored for chunk in chunks) for chunks in every], bool)


def _region(array: StoredArray, coords: Coords) -> tuple[slice, ...] | None:
    """Return the part of an array that a chunk holds; ``None`` beyond its edge, where chunks were before it was cut."""
    counts = array.metadata.grid.counts(array.metadata.shape)
    return part_of(array, coords) if all(one < count for one, count in zip(coords, counts)) else None


def _unique(coords: Table) -> Table:
    return np.unique(coords, axis=0) if coords.shape[1] and len(coords) else coords[:1]


def in_batches(
    change: Change, units: StoredArray, grid: ChunkGrid, most: int
) -> Iterator[tuple[list[tuple[Coords, Coords]], Table]]:
    """Yield the chunks to write, each with its box of a grid, and those to delete, a limited number at a time.

    Chunks of one box are in one batch.
    """
    chunks = np.concatenate([change.todo, change.gone])
    is_gone = np.arange(len(chunks)) >= len(change.todo)
    boxes = np.empty_like(chunks)
    for axis, (own, of_boxes) in enumerate(zip(units.metadata.grid.axes, grid.axes)):
        boxes[:, axis] = of_boxes.locate(own.start(chunks[:, axis]))
    order = np.lexsort([*chunks.T[::-1], *boxes.T[::-1]]) if chunks.shape[1] else np.arange(len(chunks))
    rows: Iterable[tuple[Coords, Coords, bool]] = (
        (tuple(box), tuple(chunk), bool(gone))
        for box, chunk, gone in zip(boxes[order].tolist(), chunks[order].tolist(), is_gone[order].tolist())
    )
    written, deleted = list[tuple[Coords, Coords]](), list[Coords]()
    ndim = chunks.shape[1]
    for _, several in groupby(rows, key=lambda row: row[0]):
        for box, chunk, gone in several:
            if gone:
                deleted.append(chunk)
            else:
                written.append((box, chunk))
        if len(written) + len(deleted) >= most:
            yield written, as_table(deleted, ndim)
            written, deleted = [], []
    if written or deleted:
        yield written, as_table(deleted, ndim)
