"""Atomic append: several arrays gain or lose rows together, the chunks first and the length last.

1. The writer reads the length under a lock of the store. The lock is lost when the file of its key is replaced: in
   Zarr, when the length of the lead is written. If the store has no lock, the writer *reserves* the length: it writes
   the document of the length once more, which gives the document a new generation
   (`tegula.engine.concurrency.reservations`).
2. It reads the generations of the chunks it will write.
3. If the length still has the same generation, it writes each chunk on condition that its generation is the same,
4. and finally the new length, on the same condition.

If several writers append at the same time, at most one of them passes step 4; the others start again. A writer that is
killed leaves the old length. The rows beyond it are never read, and the next append overwrites them. A writer that
fails deletes them, since it may have failed because the disk is full.

In a remote store, an append reads the chunks and all lengths in one wave, before it reserves the length. The
reservation is made on condition that the length still has the generation that was read, so it also replaces the
comparison of step 3: a writer that reserves the length later also writes its chunks later, after this writer has read
them. Comparing clocks could not replace step 3, since a machine that has been paused can't tell for how long.

Step 3 needs a new generation for each write. If a generation is a hash, two attempts to add the same rows to a chunk
leave the same generation, and a writer that has read the chunk between them could overwrite rows that the second
attempt has added. So on such stores a writer starts only when no other writer has reserved the length.

The first of several arrays leads: its length is read first, is the length of all arrays, and is written last.

A program that appends again starts from the lengths that it wrote last, without reading them (step 1). If another
writer has changed one since then, step 3 or the condition of a write fails, and the next attempt reads the lengths.
In a local store, the executor takes steps 2 and 3 for the first and the last chunk of all arrays in one call, and
creates the whole chunks between them. It need not read a chunk that this array object has stored in its last append:
if another writer has changed the file since then, the condition of the write fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.engine.concurrency.pool import for_each, gather
from tegula.engine.concurrency.reservations import Reservation, needs_reservation
from tegula.engine.concurrency.retries import back_off
from tegula.engine.lengths.length_documents import LengthDocument, known_lengths, read_length
from tegula.engine.lengths.new_rows import RowWriter, all_chunks, chunk_name, left_by_executor, plan_of_rows, read_chunk
from tegula.engine.lengths.resizing import cut_off
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import batches, check_number
from tegula.errors import ConflictError, MetadataError, TegulaError
from tegula.formats import FORMATS
from tegula.indexing import Projection
from tegula.stores import ABSENT
from tegula.stores.capabilities import EmptyDirectories, lock

__all__ = ["append_rows", "complete_rows", "level_rows", "resize_rows"]

Array = npt.NDArray[Any]
Column = tuple[StoredArray, str]
_RETRIES = 10_000
_PARALLEL_BYTES = 2**18
_AHEAD = 2**6  # chunks of an array that are read together with its length
_BATCH = 2**12  # chunks whose generations are read before they are written
_rows = attrgetter("rows")


def append_rows(columns: Sequence[Column], values: Sequence[Array]) -> list[StoredArray]:
    """Add rows to the end of all arrays or of none, and return the longer arrays.

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


def resize_rows(columns: Sequence[Column], rows: int) -> list[StoredArray]:
    """Give all arrays the same length, and return the arrays of that length.

    Rows that are cut off are deleted; added rows hold the fill value. Arrays that differ in length can only be
    shortened, to the length of the shortest one or less.

    Raises
    ------
    MetadataError
        If an array that would grow has no defined fill value, or arrays that would grow differ in length.
    """
    return _retrying(columns, lambda lengths: _resize(lengths, rows))


def complete_rows(array: StoredArray, path: str) -> StoredArray:
    """Complete an array under creation: write its length, so that it can be opened, and return the array.

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

    def write(lengths: list[LengthDocument]) -> list[LengthDocument]:
        return [lengths[0].write(array.metadata)]

    return _retrying([(array, path)], write)[0]


def level_rows(columns: Sequence[Column]) -> list[StoredArray]:
    """Cut arrays to the length of the shortest of them, and return the arrays of that length.

    Only documents are written. The rows beyond the new end stay in their chunks, unread, until an append overwrites
    them.
    """
    return _retrying(columns, _level)


def _level(lengths: list[LengthDocument]) -> list[LengthDocument]:
    # each has its own condition: a concurrent append changes all of them, the first one last
    rows = min(length.rows for length in lengths)
    return [length.change(rows) if length.rows > rows else length for length in lengths]


def _retrying(
    columns: Sequence[Column], act: Callable[[list[LengthDocument]], list[LengthDocument]], added: int = 0
) -> list[StoredArray]:
    """Read, reserve and change the lengths, until no other writer interferes; the change adds `added` rows."""
    lead, path = columns[0]
    reservation = Reservation() if needs_reservation(lead.store) else None
    for attempt in range(_RETRIES):
        try:
            with lock(lead.store, _lock_key(lead)) as locked:
                # while this writer waits for another one, it requests only the first length
                together = not locked and not attempt and lead.store.is_remote
                lengths = known_lengths(columns) if added and reservation is None and not attempt else []
                if not lengths:
                    lengths = _read_together(columns, added) if together else [read_length(*columns[0])]
                first = lengths[0]
                if not locked:
                    first.reserve(reservation)
                try:
                    # a length that was read before the length of the lead may be older
                    if len(lengths) < len(columns) or min(map(_rows, lengths)) < first.rows:
                        others = gather(lambda column: read_length(*column), columns[1:], lead.store.concurrency)
                        lengths = [first, *others]
                    changed = act(lengths)
                    if reservation is not None:
                        for length in changed:
                            length.release()
                except ConflictError:  # the next attempt continues under the same reservation
                    raise
                except BaseException:  # other writers need not wait until the reservation is old
                    with suppress(TegulaError):
                        first.release()
                    raise
                return [*map(attrgetter("array"), changed)]
        except ConflictError:
            back_off(attempt)
        except TegulaError as error:
            error.within(path=f"{lead.store.url}/{path}".rstrip("/"))
            raise
    raise ConflictError("the length kept changing during the update", path=f"{lead.store.url}/{path}".rstrip("/"))


def _lock_key(lead: StoredArray) -> str:
    """Return the key that writers lock: the document without which the leading array does not exist."""
    names = FORMATS[lead.metadata.format].node_keys
    return lead.prefix + next(filter(lead.metadata.documents.__contains__, names))


def _read_together(columns: Sequence[Column], added: int) -> list[LengthDocument]:
    """Read all lengths, and the chunks to which `added` rows go if the first length is still the known one."""
    rows = columns[0][0].metadata.shape[0]
    items = [(array, projection) for array, _ in columns for projection in _few_chunks(array, rows, added)]

    def read(wanted: Any) -> Any:
        if isinstance(wanted[1], str):
            return read_length(*wanted)
        try:
            return chunk_name(*wanted), read_chunk(*wanted)
        except TegulaError:  # it is read again later, which raises the error
            return None, (None, ABSENT)

    results = gather(read, [*columns, *items], columns[0][0].store.concurrency)
    lengths: list[LengthDocument] = results[: len(columns)]
    if lengths[0].rows == rows:
        lengths[0].chunks = dict(results[len(columns) :])
    return lengths


def _few_chunks(array: StoredArray, start: int, added: int) -> Iterable[Projection]:
    plan = plan_of_rows(array, start, start + added)
    return plan if added and plan.nchunks <= _AHEAD else ()


def _append(lengths: list[LengthDocument], values: Sequence[Array]) -> list[LengthDocument]:
    lead = lengths[0]
    start, stop = lead.rows, lead.rows + len(values[0])
    if min(map(_rows, lengths)) < start:
        raise _unequal(lengths)
    writers = []
    for length, part in zip(lengths, values):
        writers.append(RowWriter(length.array, stop, part, start))
    for writer in writers:
        if writer.nchunks > 1:
            check_number(writer.array, writer.nchunks, "adding these rows")
    requests = lead.array.store.concurrency
    try:
        try:
            _write_chunks(lengths, writers)
        except TegulaError as error:
            if not _hold(*lengths):  # the lengths that are read next tell what is wrong
                raise ConflictError("another writer has changed a length") from error
            raise
        grown = gather(lambda pair: pair[0].change(stop, pair[1].added), [*zip(lengths, writers)][1:], requests)
        return [lead.change(stop, writers[0].added), *grown]
    except ConflictError:  # the rows beyond the end may be those of another writer
        raise
    except BaseException:  # also Ctrl-C
        with suppress(TegulaError):
            _take_back(lengths, stop)
        raise


def _write_chunks(lengths: list[LengthDocument], writers: list[RowWriter]) -> None:
    """Write the new rows into their chunks, as long as the length of the lead is unchanged."""
    lead = lengths[0]
    requests = lead.array.store.concurrency
    # in a local store the executor writes what it can
    chunks = all_chunks(writers) if lead.array.store.is_remote else left_by_executor(writers, lead.holds)
    if not chunks:
        return
    nbytes = sum(writer.values.size * writer.array.dtype.itemsize for writer in writers)
    # The generations of a batch of chunks are read first; the batch is written if the length is still the same then. A
    # writer that reserves the length later also reads the chunks later; and of two writers that have seen the same
    # generation of a chunk, only one can write it.
    for batch in batches(chunks, _BATCH):
        missing = [pair for pair in batch if chunk_name(pair[0].array, pair[1]) not in lead.chunks]
        fetched = gather(lambda pair: read_chunk(pair[0].array, pair[1]), missing, requests)
        lead.chunks.update((chunk_name(pair[0].array, pair[1]), chunk) for pair, chunk in zip(missing, fetched))
        work = [
            (writer, (projection, *lead.chunks.pop(chunk_name(writer.array, projection))))
            for writer, projection in batch
        ]
        if missing and not lead.holds():  # the others were read before the length was reserved
            raise ConflictError("another writer has reserved the length")
        parallel = len(work) > 1 and nbytes >= _PARALLEL_BYTES
        chains = [length.array.chain for length in lengths]
        for_each(lambda pair: pair[0].write(*pair[1]), work, parallel, chains, requests)
        for writer in writers:
            writer.count()


def _take_back(lengths: list[LengthDocument], stop: int) -> None:
    """Delete the new rows up to `stop` after a failed append, unless another writer has changed a length."""
    lead = lengths[0]
    for length in lengths:
        if length.rows == lead.rows:
            before = (stop, *length.array.metadata.shape[1:])
            cut_off(length.array, length.path, before, partial(_hold, lead, length))


def _hold(*lengths: LengthDocument) -> bool:
    return all(length.holds() for length in lengths)


def _unequal(lengths: list[LengthDocument]) -> TegulaError:
    """Return the error for arrays that differ in length; a `ConflictError` if another writer is changing them now."""
    if not _hold(*lengths):
        return ConflictError("another writer has reserved the length")
    stated = ", ".join(f"{length.path or '/'} has {length.rows}" for length in lengths)
    return MetadataError(f"the arrays differ in length, so they can only be cut to the shortest: {stated}")


def _resize(lengths: list[LengthDocument], rows: int) -> list[LengthDocument]:
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
        if not first.holds():  # an append started from the new length, and has changed the other lengths, too
            return [read_length(length.array, length.path) for length in lengths]
        if first is not lead:
            _clear(first, first)
        return [first, *gather(lambda length: _shorten(length, rows, first), lengths[1:], store.concurrency)]


def _shorten(length: LengthDocument, rows: int, lead: LengthDocument) -> LengthDocument:
    """Cut rows off one array, as long as the length of the lead is unchanged."""
    if length.rows == rows:
        return length
    shorter = length.change(rows, hold=True)
    _clear(shorter, lead)
    return shorter


def _clear(shorter: LengthDocument, lead: LengthDocument) -> None:
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
