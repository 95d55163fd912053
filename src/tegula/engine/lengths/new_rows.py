"""Writing the new rows of an array into its chunks: the last chunk is extended, others are created."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.engine.documents.forgetting import forget_chunks
from tegula.engine.reading.executors import create_chunks
from tegula.engine.reading.preferred import PREFERRED
from tegula.engine.reading.remote import IN_FLIGHT
from tegula.engine.stored.array import NewRows, StoredArray
from tegula.engine.stored.visiting import batches
from tegula.errors import ConflictError, StoreError, TegulaError
from tegula.indexing import Plan, Projection, basic
from tegula.runtime import frozen
from tegula.stores import Generation

__all__ = ["Chunks", "RowWriter", "all_chunks", "chunk_name", "left_by_executor", "plan_of_rows", "read_chunk"]

Array = npt.NDArray[Any]
Chunks = dict[tuple[int, str], tuple[bytes | None, Generation]]
_BATCH = 2**12  # chunks that the executor writes at once


class RowWriter:
    """The new rows of one array, written into its chunks."""

    def __init__(self, array: StoredArray, stop: int, values: Array, start: int) -> None:
        self.array = array
        self.values = values
        self.start, self.stop = start, stop
        self.added = 0  # bytes by which the chunks have grown
        self._changes: list[int] = []  # threads can append, but not add
        self._blank: dict[tuple[int, ...], Any] = {}
        # the executor extends chunks that hold whole rows; but if all rows repeat one value, `_encoded` encodes it once
        chunk = array.metadata.grid.one_shape or (0,)
        self._size = chunk[0]
        self.is_extended = chunk[1:] == values.shape[1:] and any(values.strides) and array.executor is PREFERRED
        self.is_extended = self.is_extended and self._size > 0
        # the number of chunks of the new rows, and the number of the first one
        self.first = start // self._size if self.is_extended else 0
        self.nchunks = -(-stop // self._size) - self.first if self.is_extended else self.plan.nchunks

    @cached_property
    def plan(self) -> Plan:
        """Plan of the chunks that the new rows lie in."""
        return plan_of_rows(self.array, self.start, self.stop)

    def new_rows(self, number: int) -> NewRows:
        """Return the new rows of a chunk of whole rows for the executor."""
        first = number * self._size
        rows = self.values[max(0, first - self.start) : first + self._size - self.start]
        return self.array, (number,) + (0,) * (self.values.ndim - 1), max(0, self.start - first), rows

    def create(self, holds: Callable[[], bool]) -> Iterable[int]:
        """Let the executor create the whole new chunks while `holds` returns true; return the numbers of the others.

        A chunk is created on condition that it does not exist, so rows of another writer are never replaced, even if
        that writer has reserved the length in the meantime. If a chunk exists (a leftover), the caller has to write it.
        """
        size = self._size
        numbers = range(self.start // size, -(-self.stop // size))
        first, last = -(-self.start // size), self.stop // size  # the numbers of whole chunks
        if last - first < 2:
            return numbers
        grid, shape = self.array.metadata.grid, (self.stop, *self.values.shape[1:])
        grown = self.array.with_metadata(frozen.replace(self.array.metadata, shape=shape))
        done = first
        while done < last:
            if not holds():
                raise ConflictError("another writer has reserved the length")
            end = min(done + _BATCH, last)
            plan = basic(slice(done * size, end * size), shape, grid)
            try:
                nbytes = create_chunks(grown, plan, self.values[done * size - self.start : end * size - self.start])
            except ConflictError:
                break
            if nbytes is None:
                return numbers
            self.added += nbytes
            done = end
        return itertools.chain(range(numbers.start, first), range(done, numbers.stop))

    def count(self) -> None:
        """Add the bytes by which the chunks of a batch have grown."""
        self.added += sum(self._changes)
        self._changes.clear()

    def write(self, projection: Any, old: bytes | None, generation: Generation) -> None:
        """Write the new rows of one chunk on condition that it has this generation; `old` holds the rows that stay."""
        coords, selection, work_selection, _ = projection
        array = self.array
        key = array.key(coords)
        try:
            with IN_FLIGHT.hold(array.chunk_nbytes if array.store.is_remote else 0):
                new = self._encoded(coords, selection, self.values[work_selection], old)
                array.target.set(key, new, if_generation=generation)
            self._changes.append(len(new) - len(old or b""))
        except ConflictError:
            raise
        except MemoryError as error:
            raise array.out_of_memory(error) from error
        except TegulaError as error:
            array.locate(error, key)
            raise
        finally:
            forget_chunks(array.store, key)

    def _encoded(self, coords: tuple[int, ...], selection: Any, values: Array, old: bytes | None) -> Any:
        """Encode a chunk with new rows, even if it equals the fill value, since it must get a new generation."""
        array, dtype = self.array, self.array.dtype
        kept, stop = selection[0].start, selection[0].stop
        cell = array.metadata.grid.chunk_shape(coords)
        shape = (stop, *cell[1:]) if array.metadata.dense else cell
        if array.metadata.dense and not kept:
            if any(values.strides):
                return array.chain.encode(np.ascontiguousarray(values, dtype))
            if shape not in self._blank:  # all rows have one value, so all full chunks have the same bytes
                self._blank[shape] = array.chain.encode(np.ascontiguousarray(values, dtype))
            return self._blank[shape]
        chunk = np.empty(shape, dtype) if array.metadata.dense else np.full(shape, array.fill, dtype)
        if kept and old is not None:
            before = array.chain.decode(old, array.stored_shape(coords, old))
            chunk[:kept] = before[:kept]
        elif kept and array.metadata.dense:
            raise StoreError("the chunk is missing")
        chunk[selection] = values
        return array.chain.encode(chunk)


def plan_of_rows(array: StoredArray, start: int, stop: int) -> Plan:
    """Return the chunks that the rows from `start` to `stop` of a longer array lie in."""
    return basic(slice(start, None), (stop, *array.metadata.shape[1:]), array.metadata.grid)


def chunk_name(array: StoredArray, projection: Projection) -> tuple[int, str]:
    """Return a name for a chunk that is unique among columns in different stores, which may have the same keys."""
    return id(array.store), array.key(projection[0])


def read_chunk(array: StoredArray, projection: Projection) -> tuple[bytes | None, Generation]:
    """Return the present bytes of a chunk if some of its rows are kept, else ``None``; and its generation."""
    keeps = projection[1][0].start > 0
    old, generation = array.store.get(array.key(projection[0]), None if keeps else (0, 0), with_generation=True)
    return old if keeps else None, generation


def all_chunks(writers: Iterable[RowWriter]) -> Iterator[tuple[RowWriter, Projection]]:
    """Yield the chunks of all new rows, each with its writer."""
    return ((writer, projection) for writer in writers for projection in writer.plan)


def left_by_executor(writers: Sequence[RowWriter], holds: Callable[[], bool]) -> Iterable[tuple[RowWriter, Projection]]:
    """Let the executor write chunks as long as `holds` returns true, and return the chunks that the caller must write.

    Up to a batch of chunks is written at once; of more chunks those after the first batch are written during the
    iteration.
    """
    numbers: list[tuple[RowWriter, int]] = []
    for position, writer in enumerate(writers):
        if writer.nchunks > 1 or not writer.is_extended or len(numbers) == _BATCH:
            return _left_of_many(numbers, writers[position:], holds)
        numbers.append((writer, writer.first))
    return _extend(numbers, holds)


def _left_of_many(
    numbers: list[tuple[RowWriter, int]], writers: Sequence[RowWriter], holds: Callable[[], bool]
) -> Iterator[tuple[RowWriter, Projection]]:
    """Do what `left_by_executor` does, for any number of chunks and for arrays that the executor does not extend."""
    more = ((writer, number) for writer in writers if writer.is_extended for number in writer.create(holds))
    for some in batches(itertools.chain(numbers, more), _BATCH):
        yield from _extend(some, holds)
    yield from all_chunks(writer for writer in writers if not writer.is_extended)


def _extend(chunks: list[tuple[RowWriter, int]], holds: Callable[[], bool]) -> list[tuple[RowWriter, Projection]]:
    """Let the executor extend chunks if `holds` returns true; return the chunks that the caller must write."""
    rows = []
    for writer, number in chunks:
        rows.append(writer.new_rows(number))
    try:
        grown = PREFERRED.extend_chunks(rows, holds)
    except MemoryError as error:
        raise rows[0][0].out_of_memory(error) from error
    finally:
        for array, coords, *_ in rows:
            forget_chunks(array.store, array.key(coords))
    remaining = []
    for (writer, _), (_, coords, *_), nbytes in zip(chunks, rows, grown):
        if nbytes is not None:
            writer.added += nbytes
        elif (projection := writer.plan.at(coords)) is not None:
            remaining.append((writer, projection))
    return remaining
