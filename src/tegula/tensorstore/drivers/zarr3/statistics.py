"""Counting the stored inner chunks of a sharded array."""

from __future__ import annotations

from tegula.codecs.serializers.sharding import EMPTY, Sharding
from tegula.engine import StoredArray
from tegula.indexing import Plan, refine
from tegula.metadata.chunk_grids import regular_grid

__all__ = ["count_inner_chunks"]


def count_inner_chunks(stored: StoredArray, sharding: Sharding, plan: Plan) -> tuple[int, int]:
    """Return the number of stored inner chunks, and of all inner chunks, that a plan touches."""
    shape = stored.metadata.grid.largest_chunk()
    size = sharding.index_nbytes(shape)
    count = total = 0
    for coords, selection, *_ in plan:
        inner = refine(selection, shape, regular_grid(sharding.inner_shape))
        total += inner.nchunks
        raw = stored.store.get(stored.key(coords), (0, size) if sharding.index_at_start else (-size, None))
        if raw is not None:
            index = sharding.decode_index(raw, shape)
            count += sum(int(index[inner_coords][0]) != EMPTY for inner_coords, *_ in inner)
    return count, total
