"""What a changed shape does to chunks: nothing that was cut off may ever be seen again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.engine.chunks import merge_chunk
from tegula.engine.documents import back_off, read_metadata
from tegula.engine.pool import for_each
from tegula.engine.stored import StoredArray
from tegula.errors import CodecError, ConflictError, TegulaError
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata

__all__ = ["cut_off"]

Coords = tuple[int, ...]
Shape = tuple[int, ...]
_RETRIES = 10_000


def cut_off(array: StoredArray, path: str, holds: Callable[[], bool] | None = None) -> None:
    """Delete the chunks that lie outside an array, and clear what the outermost hold beyond it.

    The work is one listing and a few operations for each stored chunk outside or across the edge, however large the
    array was. What others append meanwhile is left alone: they take the room before they fill it, or else `holds` says
    after each look at a chunk whether the shape is still the one that the array was cut to.
    """
    shape, grid = array.metadata.shape, array.metadata.grid
    # the listing is complete before anything is deleted from under it
    affected = [item for item in array.stored_chunks() if _reach(grid, item[0], shape) != "inside"]
    for_each(lambda item: _settle(array, path, holds, *item), affected, parallel=True)


def _reach(grid: ChunkGrid, coords: Coords, shape: Shape) -> str:
    """Say whether a chunk lies inside of an array, outside, or across its edge."""
    if any(number >= count for number, count in zip(coords, grid.counts(shape))):
        return "outside"
    ends = (axis.start(n) + axis.length(n) for axis, n in zip(grid.axes, coords))
    return "across" if any(end > size for end, size in zip(ends, shape)) else "inside"


def _settle(array: StoredArray, path: str, holds: Callable[[], bool] | None, coords: Coords, key: str) -> None:
    store, metadata = array.store, array.metadata
    reach = _reach(metadata.grid, coords, metadata.shape)
    try:
        for attempt in range(_RETRIES):
            raw, generation = store.get(key, (0, 0) if reach == "outside" else None, with_generation=True)
            # the shape is looked up after the chunk: whoever has taken room since then changes the chunk, too
            if holds is not None:
                current: NodeMetadata | None = metadata if holds() else None
            else:
                current = read_metadata(store, path, metadata.format)
            if raw is None or not isinstance(current, ArrayMetadata):
                return
            before, reach = reach, _reach(metadata.grid, coords, current.shape)
            if reach == "inside":
                return
            if before == "outside" and reach != "outside":
                continue  # with all of its bytes
            try:
                new = None if reach == "outside" else _cleared(array, raw, coords, current.shape)
                if new is None:
                    store.delete(key, if_generation=generation)
                elif new != raw:
                    store.set(key, new, if_generation=generation)
                return
            except ConflictError:
                back_off(attempt)
        raise ConflictError("the chunk kept changing while it was cleared")
    except CodecError:
        return  # of a damaged chunk nothing can be seen
    except TegulaError as error:
        array.locate(error, key)
        raise


def _cleared(array: StoredArray, raw: bytes, coords: Coords, shape: Shape) -> Any | None:
    """Return the bytes of a chunk with the fill value beyond the edge, ``None`` if there is nothing else in it."""
    grid = array.metadata.grid
    chunk = array.stored_shape(coords, raw)
    if array.metadata.dense:  # such chunks end where the array does
        inside = shape[0] - grid.axes[0].start(coords[0])
        return raw if chunk[0] <= inside else array.chain.encode(array.chain.decode(raw, chunk)[:inside])
    new: Any | None = raw
    for axis, (part, number, length, size) in enumerate(zip(grid.axes, coords, chunk, shape)):
        inside = size - part.start(number)
        if new is not None and inside < length:
            selection = tuple(slice(inside, n) if a == axis else slice(0, n) for a, n in enumerate(chunk))
            beyond = np.broadcast_to(array.fill, [s.stop - s.start for s in selection])
            change = (selection, beyond, False)
            new = merge_chunk(array.chain, new, chunk, change, array.fill, None, array.keeps_empty)
    return new
