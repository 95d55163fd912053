"""The memory that a read takes beside its result, known from documents alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any, Final

import numpy as np

from tegula import config
from tegula.engine.stored.array import StoredArray

__all__ = ["decoding_cost", "element_bytes", "reading_cost"]

_OBJECT_BYTES: Final = 64  # estimate for a variable-length element
_INDEX_BYTES: Final = 16  # of each inner chunk in the index of a shard


def element_bytes(dtype: np.dtype[Any]) -> int:
    """Return the bytes that an element takes in memory; an estimate for Python objects."""
    return _OBJECT_BYTES if dtype.hasobject else max(1, dtype.itemsize)


def decoding_cost(array: StoredArray, number: int = 1) -> int:
    """Return the bytes that reading parts of some chunks takes: each is read, and decoded as a whole.

    Parameters
    ----------
    array : StoredArray
        The array. Of shards only inner chunks are decoded.
    number : int
        How many chunks are read; as many as there are threads are in memory at once.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=100, chunks=10, shards=50, dtype="f8")
    >>> decoding_cost(a.stored) == 2 * 10 * 8 + 5 * 16
    True
    """
    chain: Any = array.chain
    shape, index = array.metadata.grid.largest_chunk(), 0
    while chain.sharding is not None:
        inner = chain.sharding.inner_shape
        index += _INDEX_BYTES * prod(-(-size // part) for size, part in zip(shape, inner))
        shape, chain = inner, chain.sharding.inner
    each = 2 * prod(shape) * element_bytes(array.metadata.data_type.numpy) + index
    return max(1, min(number, config.current().threads)) * each


def reading_cost(array: StoredArray, axes: Sequence[int | range]) -> int:
    """Return the bytes that reading the chunks of a selection takes, beside the selected elements.

    Parameters
    ----------
    array : StoredArray
        The array.
    axes : sequence of int or range
        The selected indices along each axis; axes at the end may be left out, and are selected as a whole.
    """
    number = 1
    for axis, size, chosen in zip_longest(array.metadata.grid.axes, array.metadata.shape, axes):
        indices = range(size) if chosen is None else chosen
        if isinstance(indices, range):
            number *= min(len(indices), abs(axis.locate(indices[-1]) - axis.locate(indices[0])) + 1) if indices else 0
    return decoding_cost(array, number)
