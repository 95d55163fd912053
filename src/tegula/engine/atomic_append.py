"""Atomic append: several arrays gain or lose rows together, the chunks first and the length last.

1. The writer reads the length under a lock of the store. A lock ends when the file of its key is replaced: in Zarr,
   when the length of the lead is written. If the store has no lock that holds, the writer *reserves* the length: it
   writes the document of the length once more, which gives the document a new generation
   (`tegula.engine.reservations`).
2. It reads the generations of the chunks it will write.
3. If the length still has the same generation, it writes each chunk on condition that its generation is the same,
4. and finally the new length, on the same condition.

If several writers append at the same time, at most one of them passes step 4; the others start again. A writer that is
killed leaves the old length. The rows beyond it are never read, and the next append overwrites them.

In a far store, an append reads the chunks and all lengths in one wave, before it reserves the length. The reservation
is made on condition that the length still has the generation that was read, so it also replaces the comparison of step
3: a writer that reserves the length later also writes its chunks later, after this writer has read them. Comparing
clocks could not replace step 3, since a machine that has been paused can't tell for how long.

Step 3 needs a new generation for each write. If a generation is a hash, two attempts to add the same rows to a chunk
leave the same generation, and a writer that has read the chunk between them could overwrite rows that the second
attempt has added. So on such stores a writer starts only when no other writer has reserved the length.

The first of several arrays leads: its length is read first, is the length of all arrays, and is written last.

A program that appends again begins with the lengths that it has written itself, without reading them (step 1). If
another writer has changed one since then, step 3 or the condition of a write fails, and the next attempt reads them.
In a near store, the executor takes steps 2 and 3 for the first and the last chunk of all arrays in one call, and
creates the whole chunks between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import frozen
from tegula.engine.caches import forget
from tegula.engine.documents import back_off
from tegula.engine.executors import create_chunks
from tegula.engine.far import IN_FLIGHT
from tegula.engine.lengths import current_length
from tegula.engine.pool import for_each, gather
from tegula.engine.preferred import PREFERRED
from tegula.engine.reservations import Reservation, needs_reservation, unmarked
from tegula.engine.resizing import cut_off
from tegula.engine.stored import NewRows, StoredArray
from tegula.engine.visiting import batches, check_number
from tegula.errors import ConflictError, MetadataError, StoreError, TegulaError
from tegula.formats import find_format
from tegula.indexing import Plan, Projection, basic
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import ABSENT, Generation
from tegula.stores.capabilities import EmptyDirectories, lock

__all__ = ["append_rows", "complete_rows", "level_rows", "resize_rows"]

Array = npt.NDArray[Any]
Column = tuple[StoredArray, str]
Chunks = dict[tuple[int, str] | None, tuple[bytes | None, Generation]]
_RETRIES = 10_000
_PARALLEL_BYTES = 2**18
_AHEAD = 2**6  # chunks of an array that are read together with its length
_BATCH = 2**12  # chunks whose generations are read before they are written


@dataclass(slots=True)
class _Length:
    """The document that holds the length of an array, as it was read, with its reservation if there is one."""

    array: StoredArray
    path: str
    key: str
    raw: bytes
    generation: Generation
    reservation: Reservation | None = None
    chunks: Chunks = field(default_factory=dict)
    """The chunks, of all columns, that were read before the length was reserved."""

    @property
    def rows(self) -> int:
        return self.array.metadata.shape[0]

    @property
    def is_draft(self) -> bool:
        """``True`` while the array is under creation and the document is a placeholder."""
        return find_format(self.array.metadata.format).is_draft(self.raw)

    def reserve(self, reservation: Reservation | None) -> _Length:
        """Write the document again, so that it gets a new generation, which other writers notice.

        Raises
        ------
        ConflictError
            If the document has changed since it was read, or has the reservation of another writer.
        """
        if reservation is not None and not self.is_draft:
            if not reservation.may_start(self.raw):
                raise ConflictError("another writer has reserved the length")
            self.reservation = reservation
            self.raw = reservation.renew(self.raw)
        self.generation = self._set(self.raw)
        return self

    def holds(self) -> bool:
        """Return whether the document is unchanged since it was read; renew a reservation that is getting old."""
        if self.reservation is not None and self.reservation.is_old:
            try:
                self.reserve(self.reservation)
            except ConflictError:
                return False
            return True
        return self.array.store.get(self.key, (0, 0), with_generation=True)[1] == self.generation

    def release(self) -> None:
        """End the reservation: write the document without it."""
        if self.reservation is not None and self.reservation.marks(self.raw):
            self.raw = unmarked(self.raw)
            self.generation = self._set(self.raw)

    def change(self, rows: int, added: int = 0, *, hold: bool = False) -> _Length:
        """Write another length and number of stored bytes; for an array under creation, only remember them.

        With `hold`, keep the reservation.
        """
        old = self.array.metadata
        nbytes = None if old.stored_nbytes is None else max(0, old.stored_nbytes + added)
        new = frozen.replace(old, shape=(rows, *old.shape[1:]), stored_nbytes=nbytes)
        if self.is_draft:
            return replace(self, array=self.array.with_metadata(new))
        return self.write(new, hold=hold)

    def _set(self, raw: bytes) -> Generation:
        try:
            return self.array.store.set(self.key, raw, if_generation=self.generation)
        finally:
            forget(self.array.store, self.key)

    def write(self, new: ArrayMetadata, *, hold: bool = False) -> _Length:
        """Write the document that holds the length."""
        old = self.array.metadata
        item = find_format(old.format)
        raw = unmarked(item.serialize(new)[item.shape_key])
        new = frozen.replace(new, documents={**old.documents, item.shape_key: raw})
        if hold and self.reservation is not None:
            raw = self.reservation.renew(raw)
        generation = self._set(raw)
        self.array.shared["length"] = raw, generation
        return _Length(
            self.array.with_metadata(new), self.path, self.key, raw, generation, self.reservation, self.chunks
        )


def append_rows(columns: Sequence[Column], values: Sequence[Array]) -> list[ArrayMetadata]:
    """Add rows to the end of all arrays or of none, and return their new metadata.

    Parameters
    ----------
    columns : sequence of (StoredArray, str)
        The arrays and their paths; the first one leads.
    values : sequence of ndarray
        The new rows of each array, the same number for each: shape ``(rows, *array.shape[1:])``.

    Raises
    ------
    MetadataError
        If the first array has more rows than another; nothing is changed.
    CodecError, StoreError
        If a chunk can't be encoded or written. The arrays keep their length.
    """
    return _retrying(columns, lambda lengths: _append(lengths, values), len(values[0]))


def resize_rows(columns: Sequence[Column], rows: int) -> list[ArrayMetadata]:
    """Give all arrays the same length, and return their new metadata.

    Rows that are cut off are deleted; added rows hold the fill value. Arrays that differ in length can only be
    shortened, to the length of the shortest one or less.

    Raises
    ------
    MetadataError
        If an array that would grow has no defined fill value, or arrays that would grow differ in length.
    """
    return _retrying(columns, lambda lengths: _resize(lengths, rows))


def complete_rows(array: StoredArray, path: str) -> ArrayMetadata:
    """Complete an array under creation: write its length, so that it can be opened, and return its metadata.

    Parameters
    ----------
    array : StoredArray
        The array with its final length; all its chunks are stored.
    path : str
        Its path.

    Raises
    ------
    MetadataError, NotFoundError
        If another array has been created in its place, or the array has been deleted.
    """

    def write(lengths: list[_Length]) -> list[_Length]:
        return [lengths[0].write(array.metadata)]

    return _retrying([(array, path)], write)[0]


def level_rows(columns: Sequence[Column]) -> list[ArrayMetadata]:
    """Cut arrays to the length of the shortest of them, and return their new metadata.

    Only documents are written. The rows beyond the new end stay in their chunks, unread, until an append overwrites
    them.
    """
    return _retrying(columns, _level)


def _level(lengths: list[_Length]) -> list[_Length]:
    # each has its own condition: a concurrent append changes all of them, the first one last
    rows = min(length.rows for length in lengths)
    return [length.change(rows) if length.rows > rows else length for length in lengths]


def _retrying(
    columns: Sequence[Column], act: Callable[[list[_Length]], list[_Length]], added: int = 0
) -> list[ArrayMetadata]:
    """Read the lengths, reserve them and change them, until no other writer interferes; rows will be `added`."""
    lead, path = columns[0]
    reservation = Reservation() if needs_reservation(lead.store) else None
    for attempt in range(_RETRIES):
        known: list[_Length] = []
        try:
            with lock(lead.store, _lock_key(lead)) as locked:
                # while this writer waits for another one, it requests only the first length
                together = lead.store.concurrency > 0 and not locked and not attempt
                known = _known_lengths(columns) if added and reservation is None and not attempt else []
                lengths = known
                if not known:
                    lengths = _read_together(columns, added) if together else [_read_length(*columns[0])]
                first = lengths[0]
                if not locked:
                    first.reserve(reservation)
                with _released_on_error(first):
                    # a length that was read before the length of the lead may be older
                    if len(lengths) < len(columns) or any(length.rows < first.rows for length in lengths):
                        others = gather(lambda column: _read_length(*column), columns[1:], lead.store.concurrency)
                        lengths = [first, *others]
                    changed = act(lengths)
                    for length in changed:
                        length.release()
                return [length.array.metadata for length in changed]
        except ConflictError:
            back_off(attempt)
        except TegulaError as error:
            if known:  # which may be out of date: the lengths that are read tell what is wrong
                continue
            error.within(path=f"{lead.store.url}/{path}".rstrip("/"))
            raise
    raise ConflictError("the length kept changing during the update", path=f"{lead.store.url}/{path}".rstrip("/"))


def _lock_key(lead: StoredArray) -> str:
    """Return the key that writers lock: the document that shows that the leading array exists."""
    item = find_format(lead.metadata.format)
    return lead.prefix + next(name for name in item.node_keys if name in lead.metadata.documents)


@contextmanager
def _released_on_error(first: _Length) -> Iterator[None]:
    """End the reservation after an error, so that other writers need not wait until it is old."""
    try:
        yield
    except ConflictError:  # the next attempt goes on under the same reservation
        raise
    except BaseException:
        with suppress(TegulaError):
            first.release()
        raise


def _read_length(array: StoredArray, path: str) -> _Length:
    """Read the present length of an array, and check that it is still the array that was opened."""
    found, raw, generation = current_length(array)
    return _Length(found, path, array.prefix + find_format(array.metadata.format).shape_key, raw, generation)


def _known_lengths(columns: Sequence[Column]) -> list[_Length]:
    """Return the lengths as this process last wrote them, or nothing if it has not written all of them.

    They may be out of date: each is written on condition that it has not changed, and so is each chunk, after the
    first length has been compared.
    """
    lengths = []
    for array, path in columns:
        key = find_format(array.metadata.format).shape_key
        raw, generation = array.shared.get("length", (None, None))
        if raw is None or raw != array.metadata.documents.get(key):
            return []
        lengths.append(_Length(array, path, array.prefix + key, raw, generation))
    return lengths


def _read_together(columns: Sequence[Column], added: int) -> list[_Length]:
    """Read all lengths, and the chunks to which `added` rows go if the first length is still the known one."""
    rows = columns[0][0].metadata.shape[0]
    items = [(array, item) for array, _ in columns for item in _few_chunks(array, rows, added)]

    def read(wanted: Any) -> Any:
        if isinstance(wanted[1], str):
            return _read_length(*wanted)
        try:
            return _place(*wanted), _fetch(*wanted)
        except TegulaError:  # it will be read again, and raise the error
            return None, (None, ABSENT)

    found = gather(read, [*columns, *items], columns[0][0].store.concurrency)
    lengths: list[_Length] = found[: len(columns)]
    if lengths[0].rows == rows:
        lengths[0].chunks = dict(found[len(columns) :])
    return lengths


def _few_chunks(array: StoredArray, start: int, added: int) -> Iterable[Projection]:
    plan = _new_rows(array, start, start + added)
    return plan if added and plan.nchunks <= _AHEAD else ()


def _new_rows(array: StoredArray, start: int, stop: int) -> Plan:
    return basic(slice(start, None), (stop, *array.metadata.shape[1:]), array.metadata.grid)


def _place(array: StoredArray, item: Projection) -> tuple[int, str]:
    """Return a name for a chunk; columns may be in different stores and have the same keys."""
    return id(array.store), array.key(item[0])


def _fetch(array: StoredArray, item: Projection) -> tuple[bytes | None, Generation]:
    """Return the generation of a chunk and, if some of its rows are kept, its present bytes."""
    keeps = item[1][0].start > 0
    old, generation = array.store.get(array.key(item[0]), None if keeps else (0, 0), with_generation=True)
    return old if keeps else None, generation


def _append(lengths: list[_Length], values: Sequence[Array]) -> list[_Length]:
    lead = lengths[0]
    start, stop = lead.rows, lead.rows + len(values[0])
    if any(length.rows < start for length in lengths):
        raise _unequal(lengths)
    writers = [_Writer(length.array, stop, part, start) for length, part in zip(lengths, values)]
    for writer in writers:
        check_number(writer.array, writer.nchunks, "adding these rows")
    nbytes = sum(part.size * writer.array.dtype.itemsize for writer, part in zip(writers, values))
    requests = lead.array.store.concurrency
    # in a near store the executor writes what it can
    chunks = _left_by_executor(writers, lead.holds) if not requests else _all_chunks(writers)
    # The generations of a batch of chunks are read first; the batch is written if the length is still the same then. A
    # writer that reserves the length later also reads the chunks later; and of two writers that have seen the same
    # generation of a chunk, only one can write it.
    for batch in batches(chunks, _BATCH):
        missing = [pair for pair in batch if _place(pair[0].array, pair[1]) not in lead.chunks]
        fetched = gather(lambda pair: _fetch(pair[0].array, pair[1]), missing, requests)
        lead.chunks.update((_place(pair[0].array, pair[1]), found) for pair, found in zip(missing, fetched))
        work = [(writer, (item, *lead.chunks.pop(_place(writer.array, item)))) for writer, item in batch]
        if missing and not lead.holds():  # the others were read before the length was reserved
            raise ConflictError("another writer has reserved the length")
        parallel = len(work) > 1 and nbytes >= _PARALLEL_BYTES
        chains = [length.array.chain for length in lengths]
        for_each(lambda pair: pair[0].write(*pair[1]), work, parallel, chains, requests)
        for writer in writers:
            writer.count()
    grown = gather(lambda pair: pair[0].change(stop, pair[1].added), [*zip(lengths, writers)][1:], requests)
    return [lead.change(stop, writers[0].added), *grown]


def _all_chunks(writers: Iterable[_Writer]) -> Iterator[tuple[_Writer, Projection]]:
    return ((writer, item) for writer in writers for item in writer.plan)


def _left_by_executor(writers: Sequence[_Writer], holds: Callable[[], bool]) -> Iterator[tuple[_Writer, Projection]]:
    """Let the executor write chunks as long as `holds` returns true, and yield the chunks that are left to write."""
    extended = [writer for writer in writers if writer.is_extended]
    numbers = ((writer, number) for writer in extended for number in writer.create(holds))
    for some in batches(numbers, _BATCH):
        yield from _extend(some, holds)
    yield from _all_chunks(writer for writer in writers if not writer.is_extended)


def _extend(chunks: list[tuple[_Writer, int]], holds: Callable[[], bool]) -> Iterator[tuple[_Writer, Projection]]:
    """Let the executor add the new rows to chunks, if `holds` returns true in between; yield those left to write."""
    rows = [writer.new_rows(number) for writer, number in chunks]
    try:
        grown = PREFERRED.extend_chunks(rows, holds)
    except MemoryError as error:
        raise rows[0][0].out_of_memory(error) from error
    finally:
        for array, coords, *_ in rows:
            forget(array.store, array.key(coords))
    for (writer, _), (_, coords, *_), nbytes in zip(chunks, rows, grown):
        if nbytes is not None:
            writer.added += nbytes
        elif (item := writer.plan.at(coords)) is not None:
            yield writer, item


def _unequal(lengths: list[_Length]) -> TegulaError:
    """Return the error for arrays that differ in length; a `ConflictError` if another writer is changing them now."""
    if not lengths[0].holds():
        return ConflictError("another writer has reserved the length")
    found = ", ".join(f"{length.path or '/'} has {length.rows}" for length in lengths)
    return MetadataError(f"the arrays differ in length, so they can only be cut to the shortest: {found}")


class _Writer:
    """The new rows of one array, written into its chunks."""

    def __init__(self, array: StoredArray, stop: int, values: Array, start: int) -> None:
        self.array = array
        self.values = values
        self.start, self.stop = start, stop
        self.added = 0  # bytes by which the chunks have grown
        self._changes: list[int] = []  # threads can append, but not add
        self._blank: dict[tuple[int, ...], Any] = {}
        # the executor extends chunks that hold whole rows; a value that is repeated is encoded once, by `_encoded`
        self._size, *others = array.metadata.grid.largest_chunk()
        whole_rows = array.metadata.grid.is_regular and (*others,) == values.shape[1:]
        self.is_extended = whole_rows and any(values.strides) and array.executor is PREFERRED

    @cached_property
    def plan(self) -> Plan:
        """The chunks of the new rows."""
        return _new_rows(self.array, self.start, self.stop)

    @property
    def nchunks(self) -> int:
        """Number of chunks of the new rows."""
        return -(-self.stop // self._size) - self.start // self._size if self.is_extended else self.plan.nchunks

    def new_rows(self, number: int) -> NewRows:
        """Return the new rows of a chunk of whole rows for the executor."""
        first = number * self._size
        rows = self.values[max(0, first - self.start) : first + self._size - self.start]
        return self.array, (number,) + (0,) * (self.values.ndim - 1), max(0, self.start - first), rows

    def create(self, holds: Callable[[], bool]) -> Iterable[int]:
        """Let the executor create the new whole chunks while `holds` returns true; return the numbers of those left.

        A chunk is created on condition that it does not exist, so rows of another writer are never replaced, even if
        that writer has reserved the length in the meantime. If chunks exist (leftovers), the caller has to write them.
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

    def write(self, item: Any, old: bytes | None, generation: Generation) -> None:
        coords, selection, place, _ = item
        array = self.array
        key = array.key(coords)
        try:
            with IN_FLIGHT.hold(array.chunk_nbytes if array.store.concurrency else 0):
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
        finally:
            forget(array.store, key)

    def _encoded(self, coords: tuple[int, ...], selection: Any, values: Array, old: bytes | None) -> Any:
        """Encode a chunk with new rows, even if it equals the fill value: other writers must see a new generation."""
        array, dtype = self.array, self.array.dtype
        kept, stop = selection[0].start, selection[0].stop
        cell = array.metadata.grid.chunk_shape(coords)
        shape = (stop, *cell[1:]) if array.metadata.dense else cell
        if array.metadata.dense and not kept:
            if any(values.strides):
                return array.chain.encode(np.ascontiguousarray(values, dtype))
            if shape not in self._blank:  # all rows are one value, so all full chunks have the same bytes
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
        return _append(lengths, [_fill_rows(length.array, rows - lead.rows) for length in lengths])
    if rows > shortest:
        raise _unequal(lengths)
    # the reservation stays until the rows that are cut off have been deleted
    first = lead.change(rows, hold=True) if lead.rows != rows else lead
    store, key = lead.array.store, _lock_key(lead.array)
    # in Zarr, storing the length has replaced the locked file: lock the new one, or `cut_off` deletes appended chunks
    with lock(store, key) if key == first.key and first is not lead else nullcontext():
        if not first.holds():  # an append went on from the new length, and has changed the other lengths, too
            return [_read_length(length.array, length.path) for length in lengths]
        if first is not lead:
            _clear(first, first)
        return [first, *gather(lambda length: _shorten(length, rows, first), lengths[1:], store.concurrency)]


def _shorten(length: _Length, rows: int, lead: _Length) -> _Length:
    """Cut rows off one array, as long as the length of the lead is unchanged."""
    if length.rows == rows:
        return length
    shorter = length.change(rows, hold=True)
    _clear(shorter, lead)
    return shorter


def _clear(shorter: _Length, lead: _Length) -> None:
    """Delete the rows beyond the end of an array, as long as the length of the lead is unchanged."""
    cut_off(shorter.array, shorter.path, holds=lead.holds)
    target = shorter.array.target
    if not shorter.rows and isinstance(target, EmptyDirectories):  # bcolz does not open an array without the document
        target.make_prefix(shorter.array.chunk_prefix)


def _fill_rows(array: StoredArray, rows: int) -> Array:
    """Return rows that hold the fill value."""
    metadata = array.metadata
    if metadata.fill_value is None and metadata.dense:
        raise MetadataError(
            "the array has no single fill value, so it can't be enlarged; append rows instead", field="fill_value"
        )
    return np.broadcast_to(array.fill, (rows, *metadata.shape[1:]))
