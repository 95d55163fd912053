"""The append buffer of a carray: appended rows stay in memory until they fill whole chunks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tegula
from tegula.arrays.chunking import whole_chunks

__all__ = ["NO_CHUNK", "BufferedRows"]

_BUFFER_BYTES: Final = 2**18  # bytes that are buffered even if chunks are smaller
_DIRECTORY_BUFFER_BYTES: Final = 2**20  # in a directory, where a write also changes the file of the length
_BLOCK_BYTES: Final = 2**22  # bytes that are read at once when iterating over all rows
_OBJECT_BYTES: Final = 1024  # estimate for a Python object
_OVERHEAD_BYTES: Final = 5000  # bytes of the Python objects that belong to one array, as measured
NO_CHUNK: Final[tuple[int, int, Callable[[int], Any]]] = (0, 0, int)


class BufferedRows:
    """The rows of an array, and rows appended to it that are not stored yet.

    Parameters
    ----------
    array : tegula.Array
        The array that stores the rows.
    chunklen : int
        Rows of a chunk. For an array of Python objects the number has no effect, since each object is a chunk of its
        own.

    Attributes
    ----------
    count : int
        The number of rows that are not stored yet.
    """

    def __init__(self, array: tegula.Array, chunklen: int) -> None:
        self.array = array
        self.chunklen = chunklen
        self.row_shape = array.shape[1:]
        self.dtype = array.dtype
        row_nbytes = prod(self.row_shape) * self.dtype.itemsize if self.dtype.kind != "O" else _OBJECT_BYTES
        limit = _BUFFER_BYTES if array.store.in_memory else _DIRECTORY_BUFFER_BYTES
        self._capacity = whole_chunks(array.chunks[0], row_nbytes, limit)
        self.block_length = whole_chunks(array.chunks[0], row_nbytes, _BLOCK_BYTES)
        self.count = 0
        self._buffer = np.empty((0, *self.row_shape), self.dtype)
        self._lock = threading.RLock()
        self._owner = 0
        self.cached = NO_CHUNK
        """First row and end of the chunk that was read last, and a function that returns a row by its number in it."""

    def __len__(self) -> int:
        return self.array.stored.metadata.shape[0] + self.count

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Append rows to the buffer; as soon as it holds whole chunks, store them.

        Rows that could not be stored are not kept in the buffer.
        """
        with self._lock:
            # the usual case: the rows fit into the buffer
            room = self._capacity - self.array.stored.metadata.shape[0] % self._capacity - self.count
            if len(rows) < room:
                self._put(rows)
                return
            # fill up the buffer and store it
            if before := self.count:
                self._put(rows[:room])
                try:
                    self._store()
                except BaseException:
                    self.count = before
                    raise
                rows = rows[room:]
                room = self._capacity
            # store all rows that fill whole buffers directly, and keep the rest
            whole = room + (len(rows) - room) // self._capacity * self._capacity if len(rows) >= room else 0
            if whole:
                self.array.append(rows[:whole])
                self.cached = NO_CHUNK
            if whole < len(rows):
                self._put(rows[whole:])

    def _put(self, rows: npt.NDArray[Any]) -> None:
        count = self.count + len(rows)
        if count > len(self._buffer):
            buffer = np.empty((min(self._capacity, max(64, 2 * count)), *self.row_shape), self.dtype)
            buffer[: self.count] = self._buffer[: self.count]
            self._buffer = buffer
        self._buffer[self.count : count] = rows
        self.count = count
        self._owner = os.getpid()

    def _store(self) -> None:
        """Store the buffered rows, and keep the memory for those that follow."""
        self.array.append(self._buffer[: self.count])
        self.count = 0
        self.cached = NO_CHUNK

    def flush(self) -> None:
        """Store the buffered rows, and free the buffer."""
        if len(self._buffer):
            with self._lock:
                if self.count:
                    self._store()
                self.discard()

    @property
    def are_pending(self) -> bool:
        """Whether rows have to be stored when the object or the process ends; a fork leaves that to its parent."""
        return self.count > 0 and self._owner == os.getpid()

    def pop(self) -> npt.NDArray[Any]:
        """Remove the buffered rows and return them."""
        rows = self._buffer[: self.count].copy()
        self.discard()
        return rows

    def discard(self) -> None:
        """Drop the buffered rows without storing them."""
        self.count = 0
        self._buffer = self._buffer[:0].copy()
        self.cached = NO_CHUNK

    def drop_cache(self) -> None:
        """Free the memory of the chunk that was read last."""
        self.cached = NO_CHUNK

    def memory_nbytes(self) -> int:
        """Return the bytes of memory in use if the array is stored in memory."""
        return _OVERHEAD_BYTES + self.flushed().nbytes_stored() + self._buffer.nbytes

    def flushed(self) -> tegula.Array:
        """Store the buffered rows, and return the array for reading."""
        self.flush()
        return self.array

    def flushed_for_writing(self) -> tegula.Array:
        """Store the buffered rows, and return the array for changing it."""
        self.flush()
        self.cached = NO_CHUNK
        return self.array

    def row(self, index: int) -> Any:
        """Return the row at a valid index, as a scalar if it has no axes; keep its chunk for the next call."""
        stored = self.array.shape[0]
        if index >= stored and self.count:
            return self._getter(self._buffer)(index - stored)
        size = self.array.chunks[0]
        start = index // size * size
        chunk = self.array[start : start + size]
        self.cached = start, start + len(chunk), self._getter(chunk)
        return self.cached[2](index - start)

    def _getter(self, rows: npt.NDArray[Any]) -> Callable[[int], Any]:
        if self.row_shape:
            return lambda index: rows[index].copy()
        return rows.__getitem__ if self.dtype.kind == "O" else rows.item

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Yield the rows from `start` to `stop` in blocks of several chunks, as pairs of first row and block."""
        self.flush()
        while start < stop:
            end = min(stop, (start // self.block_length + 1) * self.block_length)
            yield start, self.array[start:end]
            start = end
