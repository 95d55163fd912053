"""The rows of a carray: stored ones, and those at the end that wait until there are whole chunks of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tegula
from tegula.chunking import whole_chunks

__all__ = ["Rows"]

_WAITING_BYTES = 2**18  # as many wait even if chunks are shorter,
_FAR_BYTES = 2**20  # and as many where each write of chunks is one of a file that tells their number, too
_BLOCK_BYTES = 2**22  # what is read at once when all rows are gone through
_OBJECT_BYTES = 1024  # what a Python object is taken for
_OBJECTS_BYTES = 5000  # of the Python objects around the chunks of one array, as measured
_NOTHING: Final[tuple[int, int, Callable[[int], Any]]] = (0, 0, int)


class Rows:
    """Rows that can be appended in small numbers without each time being stored.

    Parameters
    ----------
    array : tegula.Array
        Where they are stored.
    chunklen : int
        Rows of a chunk.
    """

    def __init__(self, array: tegula.Array, chunklen: int) -> None:
        self.array = array
        self.chunklen = chunklen
        """Rows of a chunk, which for Python objects, each stored for itself, is but a number."""
        self.inner = array.shape[1:]
        self.dtype = array.dtype
        row_nbytes = prod(self.inner) * self.dtype.itemsize if self.dtype.kind != "O" else _OBJECT_BYTES
        waiting = _WAITING_BYTES if isinstance(array.store, tegula.MemoryStore) else _FAR_BYTES
        self._step = whole_chunks(array.chunks[0], row_nbytes, waiting)
        self.block = whole_chunks(array.chunks[0], row_nbytes, _BLOCK_BYTES)
        self._waiting = 0
        self._buffer = np.empty((0, *self.inner), self.dtype)
        self._lock = threading.RLock()
        self._owner = 0
        self.kept = _NOTHING
        """First row, end, and a function that returns a row by its number, of the chunk read last."""

    def __len__(self) -> int:
        return self.array.metadata.shape[0] + self._waiting

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows: to those that wait, and together with them to the stored ones as soon as chunks are full."""
        with self._lock:
            room = self._step - self.array.metadata.shape[0] % self._step - self._waiting
            if len(rows) < room:
                self._wait(rows)
                return
            if before := self._waiting:
                self._wait(rows[:room])
                try:
                    self.settle()
                except BaseException:
                    self._waiting = before  # nothing of what could not be appended stays
                    raise
                rows = rows[room:]
                room = self._step
            whole = room + (len(rows) - room) // self._step * self._step if len(rows) >= room else 0
            if whole:
                self.array.append(rows[:whole])
                self.kept = _NOTHING
            if whole < len(rows):
                self._wait(rows[whole:])

    def _wait(self, rows: npt.NDArray[Any]) -> None:
        waiting = self._waiting + len(rows)
        if waiting > len(self._buffer):
            buffer = np.empty((min(self._step, max(64, 2 * waiting)), *self.inner), self.dtype)
            buffer[: self._waiting] = self._buffer[: self._waiting]
            self._buffer = buffer
        self._buffer[self._waiting : waiting] = rows
        self._waiting = waiting
        self._owner = os.getpid()

    def settle(self) -> None:
        """Store the rows that wait."""
        if self._waiting:
            with self._lock:
                if self._waiting:
                    self.array.append(self._buffer[: self._waiting])
                    self.discard()

    def settle_at_end(self) -> None:
        """Store the rows that wait when nobody can any more; not in a forked child, whose parent does it."""
        if self._waiting and self._owner == os.getpid():
            self.settle()

    def take(self) -> npt.NDArray[Any]:
        """Hand out the rows that wait."""
        rows = self._buffer[: self._waiting].copy()
        self.discard()
        return rows

    def discard(self) -> None:
        """Forget the rows that wait."""
        self._waiting = 0
        self._buffer = self._buffer[:0].copy()
        self.kept = _NOTHING

    def forget(self) -> None:
        """Give back the memory of the chunk read last."""
        self.kept = _NOTHING

    def booked(self) -> int:
        """Return the bytes of memory that all this takes if the array is in memory."""
        return _OBJECTS_BYTES + self.stored().nbytes_stored() + self._buffer.nbytes

    def stored(self) -> tegula.Array:
        """Return the array with all rows in it."""
        self.settle()
        return self.array

    def changing(self) -> tegula.Array:
        """Return the array with all rows in it, some of which will be changed."""
        self.settle()
        self.kept = _NOTHING
        return self.array

    def row(self, index: int) -> Any:
        """Return one row that exists, as an element if it has no axes; its chunk is kept for the next call."""
        stored = self.array.shape[0]
        if index >= stored and self._waiting:
            return self._getter(self._buffer)(index - stored)
        size = self.array.chunks[0]
        start = index // size * size
        chunk = self.array[start : start + size]
        self.kept = start, start + len(chunk), self._getter(chunk)
        return self.kept[2](index - start)

    def _getter(self, rows: npt.NDArray[Any]) -> Callable[[int], Any]:
        if self.inner:
            return lambda index: rows[index].copy()
        return rows.__getitem__ if self.dtype.kind == "O" else rows.item

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Yield the rows from `start` to `stop` in blocks of several chunks, each after the number of its first row."""
        self.settle()
        while start < stop:
            end = min(stop, (start // self.block + 1) * self.block)
            yield start, self.array[start:end]
            start = end
