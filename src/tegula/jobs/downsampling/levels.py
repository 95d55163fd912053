"""Levels: one array of a pyramid computed from the one before, in boxes of whole chunks or shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.creation import new_array_of, sharded
from tegula.engine.copying import part_of
from tegula.engine.visiting import cells, check_number, is_inside
from tegula.formats import find_format
from tegula.jobs import units
from tegula.jobs.downsampling.reducing import reduced
from tegula.jobs.sharing import Share, shared_results
from tegula.jobs.units import Box, Progress, block_grid, in_order, pieces
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.nodes import ArrayMetadata, inner_codecs
from tegula.stores import Store

__all__ = ["downsample_box", "fill_level", "level_boxes", "level_metadata", "new_level", "shapes_of"]

_MOST_LEVELS = 64


def shapes_of(
    shape: tuple[int, ...], chunks: tuple[int, ...], factors: Sequence[int], levels: int | None
) -> list[tuple[int, ...]]:
    """Return the shapes of the levels of a pyramid, from that of the whole array.

    By default there are levels until one lies within a chunk along each axis that gets shorter.

    Examples
    --------
    >>> shapes_of((5, 1000, 700), (1, 256, 256), (1, 2, 2), None)
    [(5, 1000, 700), (5, 500, 350), (5, 250, 175)]
    """
    found = [shape]
    while len(found) <= (_MOST_LEVELS if levels is None else levels):
        last = found[-1]
        inside = all(size <= chunk for size, chunk, factor in zip(last, chunks, factors) if factor > 1)
        if levels is None and inside:
            break
        found.append(tuple(-(-size // factor) for size, factor in zip(last, factors)))
    return found


def level_metadata(base: Array, shape: tuple[int, ...]) -> ArrayMetadata:
    """Describe a level of another shape: with the codecs, chunks and shards of the base, as far as it fills them."""
    chunks = base.metadata.grid.largest_chunk() if base.shards is None else base.chunks
    if base.shards is None:
        chunks = tuple(min(chunk, max(1, size)) for chunk, size in zip(chunks, shape))
    codecs = inner_codecs(base.metadata.codecs)
    metadata = replace(base.metadata, shape=shape, grid=regular_grid(chunks), codecs=codecs, documents={})
    if base.shards is None:
        return metadata
    whole = [max(1, -(-size // chunk)) * chunk for size, chunk in zip(shape, chunks)]
    return sharded(find_format("zarr3"), metadata, tuple(map(min, base.shards, whole)))


def new_level(store: Store, path: str, base: Array, shape: tuple[int, ...], *, overwrite: bool) -> Array:
    """Create the array of a level, with the fill value in all elements."""
    options: dict[str, Any] = {"allow_pickle": base._allow_pickle}
    return new_array_of(store, path, find_format("zarr3"), level_metadata(base, shape), overwrite, **options)


def level_boxes(
    source: Array, target: Array, factors: Sequence[int], method: str, masks: Sequence[Any]
) -> Iterator[Box]:
    """Yield the boxes of a level to compute: of whole chunks or shards, without boxes of nothing but fill values.

    Raises
    ------
    UnsupportedError
        If more than ``max_chunks`` chunks would have to be computed, since blocks of fill values become another one.
    """
    grid = target.metadata.grid
    counts = grid.counts(target.shape)
    number = prod(counts)
    stored = source._stored
    same = not target._stored.keeps_empty and _keeps_fill(source, factors, method, masks)
    if not (same and stored.is_sparse(number, target.nbytes)):
        if not same:
            check_number(target._stored, target.nchunks if target.nshards is None else target.nshards, "downsampling")
        joined = block_grid(target, target)
        every = cells([(0, count) for count in joined.counts(target.shape)])
        yield from (joined.region(coords, target.shape) for coords in every)
        return

    def found() -> Iterator[tuple[int, ...]]:
        for coords, _ in stored.stored_chunks():
            if not is_inside(stored, coords):
                continue
            box = []
            for part, factor, axis in zip(part_of(stored, coords), factors, grid.axes):
                first, last = part.start // factor, (part.stop - 1) // factor
                box.append((int(axis.locate(first)), int(axis.locate(last)) + 1))
            yield from cells(box)

    for coords in in_order(found):
        yield grid.region(coords, target.shape)


def _keeps_fill(source: Array, factors: Sequence[int], method: str, masks: Sequence[Any]) -> bool:
    """Return whether a block of fill values, whole or cut at the edges, becomes the fill value."""
    fill = source._stored.fill
    for shape in product(*({factor, size % factor or factor} for size, factor in zip(source.shape, factors))):
        block = np.empty(shape, source.dtype)
        block[...] = fill
        result = reduced(block, shape, method, masks).reshape(())
        if result.dtype.hasobject:
            if result.item() != fill.item():
                return False
        elif result.astype(fill.dtype).tobytes() != fill.tobytes():
            return False
    return True


def downsample_box(
    source: Array, target: Array, box: Box, *, factors: Sequence[int], method: str, masks: Sequence[Any]
) -> None:
    """Compute one box of a level, and write it at once.

    Parameters
    ----------
    source, target : Array
        The level before, and the level.
    box : tuple of slice
        Whole chunks or shards of the target.
    factors, method, masks
        As for `reduced`.
    """
    shape = tuple(part.stop - part.start for part in box)
    values = np.empty(shape, target.dtype)
    # pieces of whole chunks of the source, where these fit into memory
    longest = source.chunks if source.shards is not None else source.metadata.grid.largest_chunk()
    unit = tuple(min(size, -(-chunk // factor)) for chunk, factor, size in zip(longest, factors, shape))
    most = units.BLOCK_BYTES // (units.itemsize_of(source) * prod(factors))
    for piece in pieces(shape, unit, most):
        places = zip(box, piece, factors, source.shape)
        part = tuple(
            slice((outer.start + inner.start) * factor, min((outer.start + inner.stop) * factor, size))
            for outer, inner, factor, size in places
        )
        if method == "nearest":  # only the elements that are kept are read
            steps = tuple(slice(axis.start, axis.stop, factor) for axis, factor in zip(part, factors))
            values[piece] = source[steps]
        else:
            values[piece] = reduced(np.asarray(source[part]), factors, method, masks)
    target[box] = values


def fill_level(
    source: Array,
    target: Array,
    factors: Sequence[int],
    method: str,
    masks: Sequence[Any],
    progress: Progress | None,
    path: str,
    share: Share[None] | None = None,
) -> None:
    """Compute all boxes of a level."""
    work = partial(downsample_box, source, target, factors=factors, method=method, masks=masks)
    found = level_boxes(source, target, factors, method, masks)
    done = 0
    for _, size in shared_results(share, path, work, found, target, source):
        done += size
        if progress is not None:
            progress(path, done * target.itemsize, target.nbytes)
    source._stored.check_exists()  # chunks of a deleted array are absent, too
    if progress is not None:
        progress(path, target.nbytes, target.nbytes)
