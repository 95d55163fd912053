"""Columns that are followed: their present length, their rows, and which of these have certainly been written."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, product
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.codecs.exactness import effect_on_values
from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.generations import states_of
from tegula.engine.reading.executors import empty, read, read_anew, write
from tegula.engine.stored.array import StoredArray
from tegula.errors import CodecError, MetadataError, NotFoundError, SelectionError, TegulaError
from tegula.formats import find_format
from tegula.indexing import basic
from tegula.metadata.nodes import ArrayMetadata, inner_codecs
from tegula.runtime import frozen, system
from tegula.stores import Generation, MemoryStore, Store
from tegula.stores.capabilities import Revalidating, unchanged

__all__ = ["RACY", "Column", "directory_of"]

Stale = TypeVar("Stale", NotFoundError, SelectionError)
RACY: Final = 2.0
"""Seconds after which a value on a local disk is read once more, whatever its generation: more than a step of time."""
_AHEAD: Final = 16  # chunks that are looked at while rows are waited for


class Column:
    """An array that is followed along its first axis.

    Its chunks are read without a look at its documents, which would begin again as often as a writer appends. Whoever
    reads compares the documents before and after (`look`): if the array is the same and still has the rows, these are
    rows of that array, since appending changes no earlier one.

    Parameters
    ----------
    array : Array
        The array, in any store. Values that the store caches are not used.
    name : str
        The name of the column, for errors; ``""`` for an array of its own.
    is_exact : bool
        Whether the length in the document counts only rows that have been written.
    """

    def __init__(self, array: Array, name: str, is_exact: bool) -> None:
        store: Any = array.store
        while store.keeps_values and hasattr(store, "store"):
            store = store.store
        self.name, self.is_exact, self.path = name, is_exact or array.metadata.dense, array.path
        stored = array.stored if store is array.store else frozen.replace(array.stored, store=store, shared={})
        self.stored: StoredArray = stored
        self._read = frozen.replace(stored, document=None, shared={}, missing_chunks="fill")
        fmt = find_format(stored.metadata.format)
        names = [name for name in fmt.node_keys if name in stored.metadata.documents and name != fmt.shape_key]
        self._names = (fmt.shape_key, *names)
        self._generation: Generation | None = None
        self._read_at = math.inf  # when the document was first read in this generation; then once more, and not again
        self.identity = self._identity()

    @property
    def store(self) -> Store:
        """The store that is read."""
        return self.stored.store

    @property
    def metadata(self) -> ArrayMetadata:
        """The description, as last seen."""
        return self._read.metadata

    @property
    def document(self) -> str:
        """The key of the document that holds the length."""
        return self.stored.prefix + self._names[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of elements that are read."""
        return self.stored.dtype

    @property
    def is_strict(self) -> bool:
        """Whether chunks that are not stored are an error."""
        return self.stored.is_strict

    @property
    def longest(self) -> int:
        """The most rows of a chunk."""
        return self.metadata.grid.axes[0].longest()

    def look(self) -> int:
        """Return the length that the documents have now.

        Raises
        ------
        NotFoundError
            If the array has been deleted, moved or replaced.
        SelectionError
            If its rows have another shape now.
        MetadataError
            If a document can't be read, perhaps since it is being written.
        """
        array, store = self.stored, self.store
        if (node := array.node) is not None:
            node.check_count(store)
        if self._generation is not None and not self._is_racy() and self._is_unchanged(store):
            return self.metadata.shape[0]
        old = array.metadata
        states = states_of(store, self.path, self._names)
        documents = {**old.documents, **{name: raw for name, (raw, _) in states.items() if raw is not None}}
        if any(raw is None for raw, _ in states.values()):
            raise self._stale(NotFoundError("it has been deleted or moved while it was followed"))
        try:
            metadata = find_format(old.format).parse(documents)
        except MetadataError as error:
            array.locate(error)
            raise
        if node is not None:
            node.check(store, metadata)
        if self._identity() != self.identity:
            raise self._stale(NotFoundError("it has been replaced while it was followed"))
        if not isinstance(metadata, ArrayMetadata) or metadata.shape[1:] != old.shape[1:]:
            raise self._stale(SelectionError("its rows have got another shape while it was followed"))
        self._read = self._read.with_metadata(metadata)
        generation = states[self._names[0]][1]
        self._read_at = math.inf if generation == self._generation else time.monotonic()
        self._generation = generation
        return metadata.shape[0]

    def _is_racy(self) -> bool:
        """Return whether a document is to be read once more, since another may have got the same generation.

        Some file systems count time in steps, and give the number of a deleted file to the next one.
        """
        return not self.store.is_remote and time.monotonic() - self._read_at >= RACY

    def _is_unchanged(self, store: Store) -> bool:
        known: Any = self._generation
        if isinstance(store, Revalidating):
            return store.get_if_changed(self.document, known) is None
        return unchanged(store, self.document, known)

    def shortened(self, length: int, row: int) -> SelectionError:
        """Return the error for an array that has fewer rows now than have been read."""
        return self._stale(SelectionError(f"it has been shortened to {length} rows, and {row} have been read"))

    def _stale(self, error: Stale) -> Stale:
        error.is_stale = True
        self.locate(error)
        return error

    def locate(self, error: TegulaError) -> None:
        """Say in an error which array it is about."""
        self.stored.locate(error)
        if self.name:
            error.within(field=self.name)

    def _identity(self) -> str:
        directory = directory_of(self.store, self.path)
        try:
            return "" if directory is None else system.file_identity(directory)
        except OSError:  # it is gone for the moment; the documents say more
            return ""

    # --- rows

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows as they are stored now; where no chunk is stored, the fill value."""
        return self._rows(self._read, start, stop, read_anew)

    def read_strictly(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows; where no chunk is stored, what the array's `missing_chunks` says, which may be an error."""
        return self._rows(frozen.replace(self._read, missing_chunks=self.stored.missing_chunks), start, stop, read)

    def _rows(self, array: StoredArray, start: int, stop: int, reading: Any) -> npt.NDArray[Any]:
        metadata = array.metadata
        plan = basic((slice(start, stop), ...), metadata.shape, metadata.grid)
        out = empty(plan.work_shape, array.dtype)
        reading(array, plan, out)
        return out

    def doubtful(self, values: npt.NDArray[Any], start: int, complete: int) -> npt.NDArray[np.bool_]:
        """Return for each row and each chunk across it whether it can't be told from one that has not been written.

        A chunk is replaced in one step, and whoever appends rows writes all that a chunk gets of them at once. So a row
        has been written to a chunk if an element of it there differs from the fill value, and from what codecs that
        round make of it.

        Parameters
        ----------
        values : ndarray
            The rows.
        start : int
            The number of the first one.
        complete : int
            Rows that nobody writes any more, if there is only one writer; else -1. A row before another one in the
            same chunk has been written, too, then.
        """
        if self.is_exact or not values.size:
            return np.zeros((len(values), 1), bool)
        metadata, blanks = self.metadata, self._blanks
        if not blanks:
            return np.ones((len(values), math.prod(metadata.grid.counts(metadata.shape)[1:])), bool)
        axes = [
            [slice(axis.start(n), axis.start(n) + axis.length(n)) for n in range(axis.count(size))]
            for axis, size in zip(metadata.grid.axes[1:], metadata.shape[1:])
        ]
        doubts = np.stack([_are_blank(values[:, *part], blanks) for part in product(*axes)], axis=1)
        if complete >= 0:
            doubts[: max(0, complete - start)] = False
            axis = metadata.grid.axes[0]
            numbers = range(int(axis.locate(start)), axis.count(start + len(values)) if axis.longest() > 1 else 0)
            for number in numbers:
                first = max(0, axis.start(number) - start)
                rows = doubts[first : axis.start(number) + axis.length(number) - start]
                for cell in range(rows.shape[1]):
                    written = np.flatnonzero(~rows[:, cell])
                    if len(written):
                        rows[: written[-1], cell] = False
        return doubts

    @cached_property
    def _blanks(self) -> list[npt.NDArray[Any]]:
        """What unwritten elements can read as; empty if that depends on the other elements of a chunk."""
        array, fill = self._read, self._read.fill
        metadata = array.metadata
        effect = effect_on_values((*metadata.codecs, *inner_codecs(metadata.codecs)), array.dtype)
        if effect == "none":
            return [fill]
        shape = tuple(axis.length(0) for axis in metadata.grid.axes)
        if effect == "mixed" or array.dtype.names is not None or 0 in shape:
            return []
        # see what codecs make of the fill value beside another element, in a chunk that is stored in memory
        trial = frozen.replace(array, store=MemoryStore(), metadata=frozen.replace(metadata, shape=shape), shared={})
        first = basic((slice(0, 1),) * len(shape), shape, metadata.grid)
        other = next(value for value in _elements(fill) if not _are_blank(value.reshape(1), [fill])[0])
        try:
            write(trial, first, other.reshape(first.work_shape))
            found = self._rows(trial, 0, shape[0], read_anew).reshape(-1)[1:]
        except CodecError:
            return []
        changed = found[~_are_blank(found, [fill])] if len(found) else found
        return [fill, *(changed[:1].reshape(()) for _ in changed[:1])]

    def keys_of(self, row: int, doubts: npt.NDArray[np.bool_]) -> list[str]:
        """Return the keys of the chunks in which a row is doubtful, a few at most."""
        return [*islice(self._keys(row, np.flatnonzero(doubts)), _AHEAD)]

    def all_stored(self, row: int, doubts: npt.NDArray[np.bool_]) -> bool:
        """Return whether a row has been written because each chunk in which it is doubtful holds only that row."""
        axis = self.metadata.grid.axes[0]
        if axis.length(int(axis.locate(row))) != 1:
            return False
        return all(gather(self.store.exists, self._keys(row, np.flatnonzero(doubts)), self.store.concurrency))

    def keys_after(self, row: int, length: int) -> list[str]:
        """Return the keys of the first chunks from a row on, which a writer would write next."""
        axis = self.metadata.grid.axes[0]
        numbers = range(int(axis.locate(row)), axis.count(length))
        counts = self.metadata.grid.counts(self.metadata.shape)[1:]
        cells = product(numbers, *map(range, counts))
        return [self._read.key(cell) for cell in islice(cells, _AHEAD)]

    def _keys(self, row: int, cells: Iterable[Any]) -> Iterator[str]:
        number = int(self.metadata.grid.axes[0].locate(row))
        counts = self.metadata.grid.counts(self.metadata.shape)[1:]
        for cell in cells:
            across = np.unravel_index(int(cell), counts) if counts else ()
            yield self._read.key((number, *map(int, across)))


def directory_of(store: Store, path: str) -> str | None:
    """Return the directory of a node, if its store has directories."""
    directory = store.local_directory
    return None if directory is None else os.path.join(directory, *path.split("/")) if path else directory


def _are_blank(values: npt.NDArray[Any], blanks: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return for each row whether each of its elements is one of some values, bit by bit."""
    if values.dtype.itemsize == 0:
        return np.ones(len(values), bool)
    same = np.zeros((len(values), values.size // max(1, len(values))), bool)
    for blank in blanks:
        if values.dtype.hasobject:
            wanted = blank[()]
            equal = [type(item) is type(wanted) and item == wanted for item in values.flat]
            same |= np.array(equal, bool).reshape(same.shape)
        else:
            raw = np.ascontiguousarray(values).reshape(-1).view("u1")
            same |= (raw.reshape(*same.shape, -1) == np.frombuffer(blank.tobytes(), "u1")).all(axis=-1)
    return np.array(same.all(axis=1), bool)


def _elements(fill: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Yield elements of the type of a fill value, one of which differs from it."""
    for value in ("a", b"a", 1) if fill.dtype.hasobject else (1, 0):
        element = np.zeros((), fill.dtype)
        element[()] = value
        yield element
