"""How much of a sharded array is stored, counted in the chunks inside of the shards."""

from __future__ import annotations

from tegula.codecs.sharding import EMPTY
from tegula.engine import StoredArray
from tegula.indexing import Plan, refine
from tegula.metadata.chunk_grids import regular_grid

__all__ = ["stored_parts"]


def stored_parts(stored: StoredArray, plan: Plan) -> tuple[int, int]:
    """Return how many of the inner chunks that a plan touches are stored, and how many it touches."""
    sharding = stored.chain.sharding
    if sharding is None:
        return sum(stored.store.exists(stored.key(coords)) for coords, *_ in plan), plan.nchunks
    shape = stored.metadata.grid.largest_chunk()
    size = sharding.index_nbytes(shape)
    count = total = 0
    for coords, selection, *_ in plan:
        inner = refine(selection, shape, regular_grid(sharding.inner_shape))
        total += inner.nchunks
        raw = stored.store.get(stored.key(coords), (0, size) if sharding.index_at_start else (-size, None))
        if raw is not None:
            index = sharding.decode_index(raw, shape)
            count += sum(int(index[place][0]) != EMPTY for place, *_ in inner)
    return count, total
