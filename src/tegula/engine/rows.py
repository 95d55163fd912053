"""Rows added to and cut off from arrays: data first and length last, over several arrays as one.

Whoever changes the length looks at it when nobody else can, or *claims* it: writes the document that says it again as
it is, which gives that a new generation. Then the chunks are looked at; if the length's generation still is the same,
they are written on condition that nobody has touched them since, and the new length if its generation is the same even
then. So of several that append at once, one at most goes through and the others begin anew; and one that is killed
leaves the old length, and behind it rows that nobody sees and the next one overwrites.

Of several arrays the first one leads: its length is looked at first, holds for all, and is written last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.engine.documents import back_off
from tegula.engine.lengths import current_length
from tegula.engine.pool import for_each
from tegula.engine.resizing import cut_off
from tegula.engine.stored import StoredArray
from tegula.engine.visiting import batches, check_number
from tegula.errors import ConflictError, MetadataError, StoreError, TegulaError
from tegula.formats import find_format
from tegula.indexing import Projection, basic
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Generation

__all__ = ["append_rows", "complete_rows", "level_rows", "resize_rows"]

Array = npt.NDArray[Any]
Column = tuple[StoredArray, str]
_RETRIES = 10_000
_PARALLEL_BYTES = 2**18
_BATCH = 2**12  # chunks that are looked at before they are written


@dataclass(slots=True)
class _Length:
    """The document that says the length of an array, as it was read."""

    array: StoredArray
    path: str
    key: str
    raw: bytes
    generation: Generation

    @property
    def rows(self) -> int:
        return self.array.metadata.shape[0]

    def claim(self) -> _Length:
        """Take a new generation, which whoever looked before will notice."""
        self.generation = self.array.store.set(self.key, self.raw, if_generation=self.generation)
        return self

    def holds(self) -> bool:
        return self.array.store.get(self.key, (0, 0), with_generation=True)[1] == self.generation

    def change(self, rows: int, added: int = 0) -> _Length:
        """Write another length, and what that does to the bytes stored; under creation only take note of it."""
        old = self.array.metadata
        nbytes = None if old.stored_nbytes is None else max(0, old.stored_nbytes + added)
        new = replace(old, shape=(rows, *old.shape[1:]), stored_nbytes=nbytes)
        if find_format(old.format).is_draft(self.raw):
            return _Length(replace(self.array, metadata=new), self.path, self.key, self.raw, self.generation)
        return self.write(new)

    def write(self, new: ArrayMetadata) -> _Length:
        """Write the document that says the length."""
        old = self.array.metadata
        item = find_format(old.format)
        raw = item.serialize(new)[item.shape_key]
        generation = self.array.store.set(self.key, raw, if_generation=self.generation)
        new = replace(new, documents={**old.documents, item.shape_key: raw})
        return _Length(replace(self.array, metadata=new), self.path, self.key, raw, generation)


def append_rows(columns: Sequence[Column], values: Sequence[Array]) -> list[ArrayMetadata]:
    """Add rows to the end of arrays, to all of them or to none, and return what has become of their metadata.

    Parameters
    ----------
    columns : sequence of (StoredArray, str)
        The arrays and their paths; the first one leads.
    values : sequence of ndarray
        As many rows for each, in its inner shape.

    Raises
    ------
    MetadataError
        If the first array has more rows than another; nothing is changed.
    CodecError, StoreError
        If a chunk can't be encoded or written; the rows there were remain.
    """
    return _retrying(columns, lambda lengths: _append(lengths, values))


def resize_rows(columns: Sequence[Column], rows: int) -> list[ArrayMetadata]:
    """Change the length of arrays, of all to the same, and return what has become of their metadata.

    What is cut off is gone; what is added holds the fill value. Arrays that differ in length may only be made as short
    as the shortest one.

    Raises
    ------
    MetadataError
        If an array is to grow whose fill value is not defined, or with others of another length.
    """
    return _retrying(columns, lambda lengths: _resize(lengths, rows))


def complete_rows(array: StoredArray, path: str) -> ArrayMetadata:
    """End the creation of an array: write its length, without which it can't be opened, and return its metadata.

    Parameters
    ----------
    array : StoredArray
        The array with the length that it gets; all its chunks are stored.
    path : str
        Its path.

    Raises
    ------
    MetadataError, NotFoundError
        If another array has been created at its place, or it has been deleted.
    """

    def write(lengths: list[_Length]) -> list[_Length]:
        return [lengths[0].write(array.metadata)]

    return _retrying([(array, path)], write)[0]


def level_rows(columns: Sequence[Column]) -> list[ArrayMetadata]:
    """Make arrays as long as the shortest of them, and return what has become of their metadata.

    Only documents are written: the rows behind stay in their chunks, where nobody sees them, until rows are added.
    """
    return _retrying(columns, _level)


def _level(lengths: list[_Length]) -> list[_Length]:
    # each on its own condition: whoever adds rows meanwhile changes all of them, the first one last
    rows = min(length.rows for length in lengths)
    return [length.change(rows) if length.rows > rows else length for length in lengths]


def _retrying(columns: Sequence[Column], act: Callable[[list[_Length]], list[_Length]]) -> list[ArrayMetadata]:
    lead, path = columns[0]
    item = find_format(lead.metadata.format)
    key = lead.prefix + next(name for name in item.node_keys if name in lead.metadata.documents)
    for attempt in range(_RETRIES):
        try:
            with lead.store.turn(key) as alone:
                lengths = [_look(*columns[0])]
                if not alone:
                    lengths = [lengths[0].claim()]
                lengths += [_look(*column) for column in columns[1:]]
                return [length.array.metadata for length in act(lengths)]
        except ConflictError:
            back_off(attempt)
        except TegulaError as error:
            error.within(path=f"{lead.store.url}/{path}".rstrip("/"))
            raise
    raise ConflictError("the length kept changing under the update", path=f"{lead.store.url}/{path}".rstrip("/"))


def _look(array: StoredArray, path: str) -> _Length:
    """Read how long an array is now, and see that it still is the one that was opened."""
    found, raw, generation = current_length(array)
    return _Length(found, path, array.prefix + find_format(array.metadata.format).shape_key, raw, generation)


def _append(lengths: list[_Length], values: Sequence[Array]) -> list[_Length]:
    lead = lengths[0]
    start, stop = lead.rows, lead.rows + len(values[0])
    if any(length.rows < start for length in lengths):
        raise _unequal(lengths)
    writers = [_Writer(length.array, stop, part, start) for length, part in zip(lengths, values)]
    for writer in writers:
        check_number(writer.array, writer.plan.nchunks, "adding these rows")
    nbytes = sum(part.size * writer.array.dtype.itemsize for writer, part in zip(writers, values))
    looked = ((writer, writer.look(item)) for writer in writers for item in writer.plan)
    # Each batch is looked at, and written if the length is still held after that. A writer that takes the length later
    # looks at the chunks later, too, and of two that have seen the same state of a chunk only one can write it.
    for work in batches(looked, _BATCH):
        if not lead.holds():
            raise ConflictError("another writer has claimed the length")
        parallel = len(work) > 1 and nbytes >= _PARALLEL_BYTES
        for_each(lambda pair: pair[0].write(*pair[1]), work, parallel, [length.array.chain for length in lengths])
        for writer in writers:
            writer.count()
    grown = [length.change(stop, writer.added) for length, writer in zip(lengths[1:], writers[1:])]
    return [lead.change(stop, writers[0].added), *grown]


def _unequal(lengths: list[_Length]) -> TegulaError:
    """Make the error for arrays that differ in length, unless it is somebody's change under way that is seen here."""
    if not lengths[0].holds():
        return ConflictError("somebody else has claimed the length")
    found = ", ".join(f"{length.path or '/'} has {length.rows}" for length in lengths)
    return MetadataError(f"the arrays differ in length, so rows can only be cut off to the shortest: {found}")


class _Writer:
    """Puts the new rows of one array into its chunks."""

    def __init__(self, array: StoredArray, stop: int, values: Array, start: int) -> None:
        self.array = array
        self.values = values
        self.shape = (stop, *array.metadata.shape[1:])
        self.plan = basic(slice(start, None), self.shape, array.metadata.grid)
        self.added = 0  # bytes by which the chunks have grown
        self._changes: list[int] = []  # threads can append, but not add
        self._blank: dict[tuple[int, ...], Any] = {}

    def count(self) -> None:
        """Add up what the chunks of a batch have grown by."""
        self.added += sum(self._changes)
        self._changes.clear()

    def look(self, item: Projection) -> tuple[Projection, bytes | None, Generation]:
        """Return a chunk to write, with what has to be kept of it and its generation."""
        array = self.array
        keeps = item[1][0].start > 0
        old, generation = array.store.get(array.key(item[0]), None if keeps else (0, 0), with_generation=True)
        return item, old if keeps else None, generation

    def write(self, item: Any, old: bytes | None, generation: Generation) -> None:
        coords, selection, place, _ = item
        array = self.array
        key = array.key(coords)
        try:
            new = self._encoded(coords, selection, self.values[place], old)
            array.target.set(key, new, if_generation=generation)
            self._changes.append(len(new) - len(old or b""))
        except ConflictError:
            raise
        except MemoryError as error:
            raise array.out_of_memory(error) from error
        except TegulaError as error:
            array.locate(error, key)
            raise

    def _encoded(self, coords: tuple[int, ...], selection: Any, values: Array, old: bytes | None) -> Any:
        """Encode a chunk with new rows; also one that equals the fill value, or others would not notice the change."""
        array, dtype = self.array, self.array.dtype
        kept, stop = selection[0].start, selection[0].stop
        cell = array.metadata.grid.chunk_shape(coords)
        shape = (stop, *cell[1:]) if array.metadata.dense else cell
        if array.metadata.dense and not kept:
            if any(values.strides):
                return array.chain.encode(np.ascontiguousarray(values, dtype))
            if shape not in self._blank:  # one value for all: the same bytes again and again
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


def _resize(lengths: list[_Length], rows: int) -> list[_Length]:
    lead = lengths[0]
    shortest = min(length.rows for length in lengths)
    if rows > lead.rows:
        if shortest < lead.rows:
            raise _unequal(lengths)
        return _append(lengths, [_filling(length.array, rows - lead.rows) for length in lengths])
    if rows > shortest:
        raise _unequal(lengths)
    cut = []
    for length in lengths:
        if length.rows == rows:
            cut.append(length)
            continue
        shorter = length.change(rows)
        holder = shorter if not cut else cut[0]
        cut_off(shorter.array, length.path, holds=holder.holds)
        if not rows:  # bcolz does not open an array without it
            length.array.target.make_prefix(length.array.chunk_prefix)
        cut.append(shorter)
    return cut


def _filling(array: StoredArray, rows: int) -> Array:
    metadata = array.metadata
    if metadata.fill_value is None and metadata.dense:
        raise MetadataError("the fill value is not one value for all, so rows have to be appended", field="fill_value")
    return np.broadcast_to(array.fill, (rows, *metadata.shape[1:]))
