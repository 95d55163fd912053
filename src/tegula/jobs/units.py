"""Units of work: the arrays of a hierarchy, and boxes of whole chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from threading import Lock
from typing import Any, Final, Literal

from tegula.arrays.array import Array
from tegula.config import check_missing_chunks
from tegula.engine import StoredArray
from tegula.engine.concurrency.pool import results_of
from tegula.engine.copying.chunk_copies import part_of
from tegula.engine.documents.implied_keys import members_unknown
from tegula.engine.stored.visiting import cells, in_order, stored_inside
from tegula.errors import NotFoundError, TegulaError
from tegula.hierarchy.group import Group, with_options
from tegula.hierarchy.opening import Missing
from tegula.hierarchy.opening import open_stored as open_any
from tegula.hierarchy.sources import Sources
from tegula.metadata.chunk_grids import ChunkGrid, joined_grid
from tegula.stores.targets.opening import check_options
from tegula.tables.table import Table

__all__ = [
    "BLOCK_BYTES", "Box", "Node", "Progress", "arrays_below", "block_grid", "blocks_of", "boxes", "chunk_boxes",
    "in_boxes", "itemsize_of", "nbytes_stored", "node_at", "one_at_a_time", "opened", "pairs_in_order", "selected",
    "with_known_members",
]  # fmt: skip

BLOCK_BYTES: Final = 2**26
_BLOCK_CHUNKS: Final = 2**13
_OBJECT_BYTES: Final = 64  # assumed size of an element of variable length

Coords = tuple[int, ...]
Axis = tuple[int, int, int]  # first index, step, number of indices
Box = tuple[slice, ...]
Node = Array | Group | Table
Progress = Callable[[str, int, int], None]
"""Called with the path of an array, the bytes done, and its total bytes."""


def with_known_members(node: Node) -> Node:
    """Return a node; for a group in a store that can't be listed, take the members from its consolidated metadata.

    Raises
    ------
    UnsupportedError
        If there is no consolidated metadata.
    """
    if not isinstance(node, Group) or node.store.listable or node.knows_members:
        return node
    try:
        return node.from_consolidated()
    except NotFoundError as error:
        raise members_unknown(node.store, node.path) from error


def node_at(
    source: Any, mode: Literal["r", "r+"] = "r", *, missing_chunks: Missing | None = None, **options: Any
) -> Node:
    """Return the node to read: the source itself, or what is opened there with `options`, as `tegula.open` does.

    `missing_chunks` says what its chunks that are not stored read as; otherwise the node says it, or the setting.
    """
    if not isinstance(source, (Array, Group, Table)):
        node: Node = open_any(source, mode, missing_chunks=missing_chunks, **options)
        return node
    if missing_chunks is None:
        return source
    return with_options(source, missing_chunks=check_missing_chunks(missing_chunks))


@contextmanager
def opened(
    source: Any,
    path: str,
    allow_pickle: bool,
    storage_options: Mapping[str, Any] | None,
    missing_chunks: Missing | None = None,
) -> Iterator[Node]:
    """Open a source, unless it is a node already, and close it at the end; see `with_known_members` and `node_at`."""
    if isinstance(source, (Array, Group, Table)):
        check_options(source, storage_options)
        source = source[path] if path and not isinstance(source, Array) else source
        yield with_known_members(node_at(source, missing_chunks=missing_chunks))
        return
    where: dict[str, Any] = {"path": path, "allow_pickle": allow_pickle, "storage_options": storage_options}
    with node_at(source, missing_chunks=missing_chunks, **where) as node:
        yield with_known_members(node)


def arrays_below(
    node: Node, failed: dict[str, str], sources: Sources | None = None, **how: bool
) -> Iterator[tuple[str, Array]]:
    """Yield the path and the node of each array at and below a node, columns of tables included.

    `failed` receives the path of each node that can't be opened, and the reason; `sources` the nodes that are visited.
    `how` is passed to `Group.walk`.
    """
    if isinstance(node, Array):
        yield "", node
        return
    lost: dict[str, str] = {}
    for path, member in [("", node)] if isinstance(node, Table) else node.walk(lost, **how):
        if sources is not None:
            sources.see(member)
        if isinstance(member, Array):
            yield path, member
        for name in member.names if isinstance(member, Table) else ():
            inner = f"{path}/{name}".lstrip("/")
            try:
                yield inner, member[name]
            except TegulaError as error:
                failed[inner] = str(error)
    failed.update(lost)
    if sources is not None:
        for path in lost:
            sources.see_path(f"{node.path}/{path}".lstrip("/"))


def nbytes_stored(node: Node) -> int:
    """Return the bytes of the stored chunks at and below a node, without those that can't be listed or opened."""
    arrays = (array for _, array in arrays_below(node, {}) if array.store.listable)
    return sum(results_of(Array.nbytes_stored, arrays, node.store.concurrency))


def block_grid(source: Array, target: Array, most: int | None = None) -> ChunkGrid:
    """Return a grid of boxes of whole target chunks, joined up to the size of the source's chunks where memory allows.

    `most` is the maximum size of a box in bytes, by default `BLOCK_BYTES`.
    """
    grid, shape = target.metadata.grid, target.shape
    if not shape or not grid.is_regular:
        return grid
    most, itemsize = BLOCK_BYTES if most is None else most, itemsize_of(target)
    chunk = block = grid.largest_chunk()
    reach = source.metadata.grid.largest_chunk()
    if len(reach) == len(chunk) and reach != chunk:
        wider = tuple(-(-max(new, old) // new) * new for new, old in zip(chunk, reach))
        if prod(wider) * itemsize <= most and prod(wider) // prod(chunk) <= _BLOCK_CHUNKS:
            block = wider
    return joined_grid(block, shape, min(most // max(1, itemsize), _BLOCK_CHUNKS * prod(chunk)))


def itemsize_of(array: Array) -> int:
    """Return the bytes of an element in memory; an estimate for variable length."""
    dtype = array.dtype
    return _OBJECT_BYTES if dtype.hasobject else dtype.itemsize


def blocks_of(array: Array, axes: Iterable[Axis | int], grid: ChunkGrid) -> Iterator[Coords]:
    """Yield the coordinates of the blocks that hold stored chunks of an array, some of them several times.

    `axes` has the part of each axis that the grid covers: one index, or first index, step and number of indices.
    """
    axes = [*axes]
    for coords in stored_inside(array.stored):
        if (box := selected(part_of(array.stored, coords), axes)) is not None:
            yield from cells(grid.touched(box))


def selected(part: Box, axes: Iterable[Axis | int]) -> Box | None:
    """Return where a part of an array lies in a selection of it; ``None`` if nothing of the part is selected.

    Examples
    --------
    >>> selected((slice(10, 20), slice(0, 5)), [(12, 2, 10), 3]), selected((slice(0, 5),), [(5, 1, 3)])
    ((slice(0, 4, None),), None)
    """
    box = []
    for inside, axis in zip(part, axes):
        if isinstance(axis, int):
            if not inside.start <= axis < inside.stop:
                return None
            continue
        start, step, size = axis
        low, high = (inside.start, inside.stop - 1) if step > 0 else (inside.stop - 1, inside.start)
        first, last = max(0, -((start - low) // step)), min(size - 1, (high - start) // step)
        if first > last:
            return None
        box.append(slice(first, last + 1))
    return tuple(box)


def in_boxes(
    array: StoredArray, chunks: Callable[[], Iterator[Coords]], grid: ChunkGrid
) -> Iterator[tuple[Coords, Coords]]:
    """Yield for some chunks of an array the coordinates of the box in which each begins, and its own, in order.

    `chunks` returns them in any order, and may be called several times; `grid` is that of the boxes.
    """

    def pairs() -> Iterator[Coords]:
        for coords in chunks():
            starts = (axis.start(number) for axis, number in zip(array.metadata.grid.axes, coords))
            yield (*(int(axis.locate(int(start))) for axis, start in zip(grid.axes, starts)), *coords)

    return pairs_in_order(pairs, array.metadata.ndim)


def pairs_in_order(pairs: Callable[[], Iterator[Coords]], ndim: int) -> Iterator[tuple[Coords, Coords]]:
    """Yield the coordinates of boxes and of chunks in order; `pairs` returns both in one tuple, in any order."""
    return ((pair[:ndim], pair[ndim:]) for pair in in_order(pairs))


def boxes(array: Array) -> Iterator[Box]:
    """Yield boxes of an array that fit into memory and do not overlap.

    Where few chunks are stored, only boxes with stored chunks are yielded; all other elements hold the fill value.
    """
    for box in chunk_boxes(array):
        yield from _cut(array, box)


def chunk_boxes(array: Array) -> Iterator[Box]:
    """Yield boxes of whole chunks, as `boxes` does, but also shards that are too large for one block."""
    stored = array.stored
    if stored.is_sparse(prod(stored.metadata.grid.counts(array.shape)), array.nbytes):
        yield from (part_of(stored, coords) for coords in stored_inside(stored))
        return
    yield from block_grid(array, array).regions(array.shape)


def one_at_a_time(progress: Progress | None) -> Progress | None:
    """Return a function for several threads to call, which calls `progress` for one of them at a time."""
    if progress is None:
        return None
    lock, call = Lock(), progress

    def report(path: str, done: int, total: int) -> None:
        with lock:
            call(path, done, total)

    return report


def _cut(array: Array, box: Box) -> Iterator[Box]:
    """Cut a shard that is too large for one block along its first axes, at its inner chunks."""
    shape = tuple(part.stop - part.start for part in box)
    if array.shards is None or prod(shape) * itemsize_of(array) <= BLOCK_BYTES:
        yield box
        return
    for inner in joined_grid(array.chunks, shape, BLOCK_BYTES // itemsize_of(array)).regions(shape):
        yield tuple(slice(outer.start + part.start, outer.start + part.stop) for outer, part in zip(box, inner))
