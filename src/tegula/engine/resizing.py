"""What shrinking an array does to its chunks: nothing that was cut off may ever be seen again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.engine.pool import for_each
from tegula.engine.reference import write_chunk
from tegula.engine.stored import StoredArray

__all__ = ["cut_off"]


def cut_off(array: StoredArray, shape: tuple[int, ...]) -> None:
    """Delete the chunks that lie outside `shape`, and set what the outermost hold beyond it to the fill value.

    The work is one listing and one operation for each stored chunk outside or across the new edge, however large the
    array was.
    """
    grid = array.metadata.grid
    counts = grid.counts(shape)

    def settle(item: tuple[tuple[int, ...], str]) -> None:
        coords, key = item
        if any(number >= count for number, count in zip(coords, counts)):
            array.store.delete(key)
            return
        chunk = grid.chunk_shape(coords)
        for axis, (part, number, length, size) in enumerate(zip(grid.axes, coords, chunk, shape)):
            inside = size - part.start(number)
            if inside < length:
                selection: list[Any] = [slice(0, n) for n in chunk]
                selection[axis] = slice(inside, length)
                beyond = tuple(length - inside if a == axis else n for a, n in enumerate(chunk))
                write_chunk(array, coords, (tuple(selection), np.broadcast_to(array.fill, beyond), False))

    # the listing is complete before anything is deleted from under it
    for_each(settle, [*array.stored_chunks()], parallel=True)
