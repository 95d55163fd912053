"""Chunks of texts and bytes of any length, with the kernel's help: Python objects are made here, their bytes there."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import config
from tegula.codecs import CodecChain
from tegula.engine.stored import StoredArray
from tegula.errors import UnsupportedError

__all__ = ["with_kernel"]

Chunk = npt.NDArray[Any]
_VLEN = "vlen"


class TextChain:
    """A chain of codecs that does what a `CodecChain` does with such chunks, sooner.

    Parameters
    ----------
    chain : CodecChain
        What it stands for.
    library : module
        The kernel.
    """

    sharding = None

    def __init__(self, chain: CodecChain, library: ModuleType) -> None:
        order, (_, text), buffers = chain.native  # type: ignore[misc]
        self._chain = chain
        self._order = order
        self._back = None if order is None else np.argsort(order)
        self._codec = library.Texts(text, buffers)

    def load(self) -> None:
        """Import the libraries of all codecs; see `CodecChain.load`."""
        self._chain.load()

    def decode(self, data: Any, shape: tuple[int, ...]) -> Chunk:
        """Make the chunk of bytes; see `CodecChain.decode`."""
        stored = shape if self._order is None else tuple([shape[axis] for axis in self._order])
        count = prod(shape)
        chunk: Chunk = np.empty(count, object)
        chunk[:] = self._codec.decode(bytes(data), count, config.current().max_chunk_bytes)
        chunk = chunk.reshape(stored)
        return chunk if self._back is None else chunk.transpose(self._back)

    def encode(self, chunk: Chunk) -> Any:
        """Make the bytes of a chunk; see `CodecChain.encode`."""
        stored = chunk if self._order is None else chunk.transpose(self._order)
        data = self._codec.encode(stored.ravel().tolist())
        return self._chain.encode(chunk) if data is None else data  # which says what is wrong with which element

    def rows(self, data: Any, shape: tuple[int, ...]) -> int:
        """Return how many rows are in the bytes of a chunk; see `CodecChain.rows`."""
        return self._chain.rows(data, shape)


def with_kernel(library: ModuleType, array: StoredArray) -> StoredArray | None:
    """Return the array with a chain that the kernel helps with, ``None`` if it can't."""
    native = array.chain.native
    if native is None or native[1][0] != _VLEN:
        return None
    try:
        chain: Any = TextChain(array.chain, library)
    except UnsupportedError:  # options that the kernel's codecs do not know
        return None
    return replace(array, chain=chain)
