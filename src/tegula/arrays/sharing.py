"""Arrays that tasks in other processes write to."""

from __future__ import annotations

import os
import uuid
from typing import Any

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import are_whole_chunks
from tegula.errors import StoreError

__all__ = ["SharedTarget"]

_IMPORT = uuid.uuid4().hex  # forked children share it


class SharedTarget:
    """An array that tasks write to, which refuses writes of other processes that would lose elements.

    Parameters
    ----------
    array : Array
        The array.
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        self._home = _process()
        self._in_memory = array.store.is_private

    def __setitem__(self, part: tuple[int | slice, ...], block: Any) -> None:
        if _process() != self._home:
            _check_shared(self._array, part, self._in_memory)
        self._array[part] = block


def _process() -> tuple[str, int]:
    """Return what is unique to this process among all processes on all machines."""
    return _IMPORT, os.getpid()


def _check_shared(target: Array, part: tuple[int | slice, ...], in_memory: bool) -> None:
    """Refuse to write from another process if elements would be lost."""
    how = "compute with scheduler='threads', or store the array in a directory or a bucket"
    if in_memory:
        raise StoreError(f"the values are in the memory of another process: {how}", path=target.path or None)
    if target.read_only:
        raise StoreError(f"only one process at a time can write to it: {how}", path=target.location)
    # writing a part of a chunk is a conditional write, before which a bucket is tested anyway
    if not are_whole_chunks(target.metadata.grid, part, target.shape) and target.store.probe().single_writer:
        raise StoreError(
            "the storage has no conditional writes, so processes that write parts of one chunk undo each other's "
            f"work: rechunk the dask array to multiples of {target.shards or target.chunks}, or {how}",
            path=target.location,
        )
