"""Shapes, automatic chunks and shards, and the number of chunks in a block.

A chunk takes at most 1 MiB in memory. Starting from the shape of the array, the longest axis is halved (rounding up)
until the chunk is small enough. This gives the number of chunks along each axis; their lengths are then made as equal
as possible. So a small array is one chunk, chunks are as close to cubes as the array allows, and no thin chunk is left
at the edge.

An axis of length 0 is expected to grow, and counts as 16,384 long.

With shards, the rule gives the inner chunks; a shard holds whole inner chunks, of at most 16 MiB together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, brief

__all__ = [
    "CHUNK_BYTES",
    "SHARD_BYTES",
    "as_length",
    "as_shape",
    "automatic_chunks",
    "automatic_shards",
    "whole_chunks",
]

CHUNK_BYTES: Final = 2**20
SHARD_BYTES: Final = 2**24
GROWING: Final = 2**14


def as_shape(value: Any) -> tuple[int, ...]:
    """Convert an int or a sequence of ints to a shape.

    Raises
    ------
    MetadataError
        If the value is neither, or a length is negative or does not fit 63 bits.
    """
    items = [value] if hasattr(value, "__index__") and not isinstance(value, np.ndarray) else value
    try:
        shape = tuple(map(int, map(index, items)))
    except (TypeError, AttributeError) as error:
        raise MetadataError(f"{brief(value)} is not a shape", field="shape") from error
    if min(shape, default=0) < 0 or max(shape, default=0) >= 2**63 or len(shape) > 32:
        raise MetadataError(f"{brief(value)} is not a shape", field="shape")
    return shape


def as_length(value: Any, field: str) -> int:
    """Convert an argument that is a number of rows to an int.

    Raises
    ------
    MetadataError
        If it is not an integer from 0 that fits 63 bits.
    """
    if not hasattr(value, "__index__") or isinstance(value, np.ndarray) or not 0 <= value.__index__() < 2**63:
        said = "" if isinstance(value, int) else f", not {brief(value)}"
        raise MetadataError(f"{field} must be an integer from 0 to 2**63{said}", field=field)
    return int(value)


def automatic_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the chunk shape for an array.

    Parameters
    ----------
    shape : sequence of int
        The array's shape.
    itemsize : int
        Bytes of one element in memory.

    Examples
    --------
    >>> automatic_chunks((1_000_000,), 8), automatic_chunks((4000, 3000), 4), automatic_chunks((10, 10), 8)
    ((125000,), (500, 375), (10, 10))
    """
    shape = [size or GROWING for size in shape]
    lengths = [*shape]
    while prod(lengths) * max(1, itemsize) > CHUNK_BYTES and max(lengths) > 1:
        longest = lengths.index(max(lengths))
        lengths[longest] = -(-lengths[longest] // 2)
    counts = [-(-size // length) for size, length in zip(shape, lengths)]
    return tuple(-(-size // count) for size, count in zip(shape, counts))


def automatic_shards(shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the shard shape for an array with inner chunks of a given shape.

    Examples
    --------
    >>> automatic_shards((4000, 4000), (500, 500), 4)
    (2000, 2000)
    """
    multiples = [max(1, -(-size // chunk)) for size, chunk in zip(shape, chunks)]
    chunk_bytes = prod(chunks) * max(1, itemsize)
    while prod(multiples) * chunk_bytes > SHARD_BYTES and max(multiples) > 1:
        longest = multiples.index(max(multiples))
        multiples[longest] = -(-multiples[longest] // 2)
    return tuple(multiple * chunk for multiple, chunk in zip(multiples, chunks))


def whole_chunks(length: int, row_nbytes: int, nbytes: int) -> int:
    """Return the number of rows in a block of whole chunks: as many as fit into `nbytes`, but at least one chunk.

    Parameters
    ----------
    length : int
        Rows of a chunk.
    row_nbytes : int
        Bytes of a row in memory.
    nbytes : int
        Bytes of a block in memory.

    Examples
    --------
    >>> whole_chunks(1000, 8, 2**16), whole_chunks(1000, 8, 2**10)
    (8000, 1000)
    """
    return length * max(1, nbytes // (length * max(1, row_nbytes)))
