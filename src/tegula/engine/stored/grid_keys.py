"""Finding the chunks of an array in a store that can't be listed, by looking up each chunk of the grid."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tegula import config
from tegula.engine.concurrency.pool import results_of
from tegula.errors import UnsupportedError
from tegula.metadata.chunk_grids import cells
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store

__all__ = ["check_amount", "stored_in_grid"]

Coords = tuple[int, ...]


def check_amount(store: Store, prefix: str, number: int) -> None:
    """Refuse to look up more than ``max_chunks`` chunks of a store that can't be listed.

    Raises
    ------
    UnsupportedError
        If there are more.
    """
    limit = config.current().max_chunks
    if number > limit:
        raise UnsupportedError(
            f"the store can't be listed, so all {number} chunks of the grid would have to be looked up, more than "
            f"max_chunks, {limit}; convert a part of the array with tegula.convert(..., select=...), use a store that "
            "can be listed, or raise the limit with tegula.config.configure(max_chunks=...)",
            path=f"{store.url}/{prefix}".rstrip("/"),
        )


def stored_in_grid(store: Store, prefix: str, metadata: ArrayMetadata) -> Iterator[tuple[Coords, str]]:
    """Yield grid coordinates and key of each chunk of the grid that has a value, with many lookups under way.

    Raises
    ------
    UnsupportedError
        If the grid has more than ``max_chunks`` chunks.
    """
    counts = metadata.grid.counts(metadata.shape)
    check_amount(store, prefix, prod(counts))
    if not metadata.keys.template(metadata.ndim):  # a 0-d array of Zarr v1 has no chunk
        return

    def look(coords: Coords) -> tuple[Coords, str]:
        key = prefix + metadata.keys.encode(coords)
        return coords, key if store.exists(key) else ""

    for coords, key in results_of(look, cells([(0, count) for count in counts]), store.concurrency):
        if key:
            yield coords, key
