"""The documents that hold the lengths of arrays, and changes on condition that no other writer has changed them."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.engine.concurrency.reservations import Reservation, unmarked
from tegula.engine.documents.forgetting import forget
from tegula.engine.lengths.new_rows import Chunks
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.lengths import current_length
from tegula.errors import ConflictError
from tegula.formats import FORMATS
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime import frozen
from tegula.stores import Generation

__all__ = ["LengthDocument", "known_lengths", "read_length"]


class LengthDocument:
    """The document that holds the length of an array, as it was read.

    Attributes
    ----------
    array, path
        The array, with the length that the document holds.
    raw, generation
        The document.
    key : str
        Its key.
    rows : int
        The length.
    is_draft : bool
        ``True`` while the array is under creation and the document is a placeholder.
    reservation : Reservation or None
        Its reservation, if it has one.
    chunks : dict
        The chunks of all columns that were read before the length was reserved.
    """

    __slots__ = ("array", "chunks", "generation", "is_draft", "key", "path", "raw", "reservation", "rows")

    def __init__(
        self, array: StoredArray, path: str, raw: bytes, generation: Generation, *, is_draft: bool = False
    ) -> None:
        self.array, self.path = array, path
        self.key = array.prefix + FORMATS[array.metadata.format].shape_key
        self.raw, self.generation, self.is_draft = raw, generation, is_draft
        self.rows = array.metadata.shape[0]
        self.reservation: Reservation | None = None
        self.chunks: Chunks = {}

    def _changed(
        self, array: StoredArray, raw: bytes, generation: Generation, *, is_draft: bool = False
    ) -> LengthDocument:
        """Return the document of the array with another length, under the same reservation."""
        made = LengthDocument(array, self.path, raw, generation, is_draft=is_draft)
        made.reservation, made.chunks = self.reservation, self.chunks
        return made

    def reserve(self, reservation: Reservation | None) -> LengthDocument:
        """Write the document again, so that other writers notice its new generation.

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
        """Return whether the document has not changed since it was read; renew a reservation that is getting old."""
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

    def change(self, rows: int, added: int = 0, *, hold: bool = False) -> LengthDocument:
        """Write a new length and number of stored bytes; for an array under creation, only remember them.

        With `hold`, keep the reservation.
        """
        old = self.array.metadata
        nbytes = None if old.stored_nbytes is None else max(0, old.stored_nbytes + added)
        new = frozen.replace(old, shape=(rows, *old.shape[1:]), stored_nbytes=nbytes)
        if self.is_draft:
            return self._changed(self.array.with_metadata(new), self.raw, self.generation, is_draft=True)
        return self.write(new, hold=hold)

    def _set(self, raw: bytes) -> Generation:
        try:
            return self.array.store.set(self.key, raw, if_generation=self.generation)
        finally:
            forget(self.array.store, self.key)

    def write(self, new: ArrayMetadata, *, hold: bool = False) -> LengthDocument:
        """Write the document that holds the length."""
        old = self.array.metadata
        fmt = FORMATS[old.format]
        raw = unmarked(fmt.serialize(new)[fmt.shape_key])
        new = frozen.replace(new, documents={**old.documents, fmt.shape_key: raw})
        if hold and self.reservation is not None:
            raw = self.reservation.renew(raw)
        generation = self._set(raw)
        self.array.shared["length"] = raw, generation
        return self._changed(self.array.with_metadata(new), raw, generation)


def read_length(array: StoredArray, path: str) -> LengthDocument:
    """Read the present length of an array, and check that it is still the array that was opened."""
    current, raw, generation = current_length(array)
    is_draft = FORMATS[current.metadata.format].is_draft(raw)
    return LengthDocument(current, path, raw, generation, is_draft=is_draft)


def known_lengths(columns: Sequence[tuple[StoredArray, str]]) -> list[LengthDocument]:
    """Return the lengths as this process last wrote them, or nothing if it has not written all of them.

    They may be out of date, but each length is written on condition that it has not changed. So is each chunk, after
    the first length has been compared.
    """
    lengths = []
    for array, path in columns:
        raw, generation = array.shared.get("length", (None, None))
        if raw is None or raw != array.metadata.documents.get(FORMATS[array.metadata.format].shape_key):
            return []
        lengths.append(LengthDocument(array, path, raw, generation))
    return lengths
