"""The keys of an array: every chunk decoded, every other key accounted for, in one pass over a listing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Lock
from typing import Final

from tegula import engine
from tegula.codecs import lacking
from tegula.codecs.checksums import notices_changes
from tegula.engine import StoredArray
from tegula.engine.pool import for_each
from tegula.errors import MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.formats import Format
from tegula.integrity.documents import Place, below, own_keys
from tegula.integrity.examination import Examination
from tegula.integrity.lengths import check_counts, check_directory
from tegula.integrity.names import foreign, is_system_file
from tegula.metadata.nodes import ArrayMetadata

__all__ = ["check_arrays"]

Coords = tuple[int, ...]
_PARALLEL_BYTES: Final = 2**18
_TOLD: Final = 100  # missing chunks that are told one by one
_ATTEMPTS: Final = 20
_KINDS: Final = {
    "damaged": "damaged-chunk", "index": "damaged-index", "overlap": "overlapping-chunks", "excess": "trailing-bytes",
    "rows": "leftover-rows", "unsupported": "unsupported", "unreadable": "unreadable",
}  # fmt: skip


class _Checked:
    """An array of which the chunks are looked at.

    Attributes
    ----------
    metadata : ArrayMetadata
        What it is, as last read: others may change its shape meanwhile.
    stored : StoredArray or None
        How its chunks are read; ``None`` if they can't be.
    seen, inside, beyond : int
        Chunks of its grid that there are, their bytes, and the bytes of chunks outside.
    sure : bool
        Whether the chunks hold what the shape says, and no more.
    """

    def __init__(self, exam: Examination, place: Place, item: Format, metadata: ArrayMetadata) -> None:
        self.exam = exam
        self.place = place
        self.item = item
        self.metadata = metadata
        self.stored = self._stored()
        self.seen = self.inside = self.beyond = 0
        self.sure = self.stored is not None
        self._lock = Lock()

    def _stored(self) -> StoredArray | None:
        exam, path = self.exam, self.place.path
        try:
            stored = engine.stored_array(exam.store, path, self.metadata, allow_pickle=exam.allow_pickle)
            self._tell_unstated()
            return stored
        except (UnsupportedError, MetadataError) as error:
            limit = isinstance(error, MetadataError) and error.field == "chunks" and "max_chunk_bytes" in error.message
            kind = "unsupported" if limit or isinstance(error, UnsupportedError) else "metadata"
            codec = "" if error.codec is None else f" (codec {error.codec!r})"
            exam.find(kind, path, below(path, self.item.node_keys[0]), f"{error.message}{codec}")
            return None

    def _tell_unstated(self) -> None:
        """Tell which options of codecs the document leaves out, though others do not read it without them."""
        metadata = self.metadata
        found = lacking(metadata.codecs, metadata.data_type, ndim=metadata.ndim)
        if self.item.name != "zarr3":  # elsewhere the data type says the byte order
            found = [(codec, option) for codec, option in found if codec != "bytes"]
        if found:
            path, options = self.place.path, ", ".join(f"{option!r} of {codec}" for codec, option in found)
            message = f"the document does not state {options}, without which other libraries refuse it"
            self.exam.find("unstated-option", path, below(path, self.item.node_keys[0]), message)

    def coords(self, name: str) -> Coords | None:
        """Return the grid coordinates of a chunk by its key below the array; ``None`` if it is no chunk's."""
        return self.metadata.keys.decode(name, self.metadata.ndim)

    def contains(self, coords: Coords) -> bool:
        """Return whether a chunk belongs to the grid."""
        return all(number < count for number, count in zip(coords, self.metadata.grid.counts(self.metadata.shape)))

    def check(self, coords: Coords, key: str) -> None:
        """Look at one chunk; what is found counts if the array's documents were the same before and after."""
        for attempt in range(_ATTEMPTS):
            metadata = self.metadata
            if not self.contains(coords):
                if self._unchanged(metadata):
                    self._outside(key)
                    return
                continue
            if self.stored is None:
                self._count(inside=self.exam.store.size(key) or 0)
                return
            verdict = engine.verify_chunk(self.stored, coords, key)
            if verdict is None:
                return  # somebody has deleted it
            if verdict.faults and attempt == 0:
                continue  # somebody may just have been writing it
            if verdict.faults and not self._unchanged(metadata):
                continue
            self._count(inside=verdict.stored)
            self.exam.count(chunks=verdict.chunks, nbytes_stored=verdict.stored, nbytes_decoded=verdict.decoded)
            if verdict.faults:
                self.sure = False
            for kind, message in verdict.faults:
                self.exam.find(_KINDS[kind], self.place.path, key, message)
            return

    def _count(self, inside: int) -> None:
        with self._lock:
            self.seen += 1
            self.inside += inside

    def _outside(self, key: str) -> None:
        size = self.exam.store.size(key)
        if size is None:
            return
        with self._lock:
            self.beyond += size
            self.sure = False
        dense = self.metadata.dense
        message = "it lies behind the end of the array" if dense else f"no chunk of the shape {self.metadata.shape}"
        self.exam.find("chunk-outside", self.place.path, key, message, severity="note" if dense else None)

    def _unchanged(self, metadata: ArrayMetadata) -> bool:
        """Look at the documents again, and return whether they still say what they did; if not, go by the new ones.

        If the array was deleted or replaced, nothing that was found of it means anything.
        """
        exam, path = self.exam, self.place.path
        try:
            now = engine.read_metadata(exam.store, path, self.item.name)
        except TegulaError:
            return True
        if now is None or not isinstance(now, ArrayMetadata) or not now.has_chunks_of(metadata):
            raise NotFoundError("the array was deleted or replaced while it was looked at", path=path)
        if now.shape == metadata.shape and now.grid == metadata.grid:
            return True
        with self._lock:
            self.metadata = now
            if self.stored is not None:
                self.stored = replace(self.stored, metadata=now)
        return False

    def close(self) -> None:
        """Look for what is missing, once all keys have been looked at."""
        exam, place = self.exam, self.place
        if self.seen and self.stored is not None and not notices_changes(self.metadata.codecs):
            exam.count(arrays_without_checksum=1)
        with exam.listing(place.path, place.prefix):
            if not self._unchanged(self.metadata):
                pass  # what has come meanwhile is not missing
        if self.metadata.dense:
            total = self.metadata.grid.counts(self.metadata.shape)[0]
            missing = self._find_missing(total) if self.seen < total else 0
            check_directory(exam, place, self.metadata)
            if not missing and self.metadata.documents:
                check_counts(exam, place, self.item, self.metadata, (self.inside, self.beyond), self.sure)
        elif self.stored is not None or self.metadata.shape:
            exam.count(missing_chunks=max(0, _number(self.metadata) - self.seen))

    def _find_missing(self, total: int) -> int:
        """Look for each chunk of an array that must have them all."""
        exam, place = self.exam, self.place
        ndim = self.metadata.ndim
        missing = 0
        for number in range(total):
            key = place.prefix + self.metadata.keys.encode((number, *(0,) * (ndim - 1)))
            if exam.store.exists(key):
                continue
            before = self.metadata
            if not self._unchanged(before) and not self.contains((number,)):
                break
            if missing == _TOLD:
                rest = total - self.seen - missing
                exam.find("missing-chunk", place.path, place.prefix, f"so are {rest} others")
                break
            missing += 1
            obstacle = exam.store.obstruction(key)
            if obstacle:
                exam.find("obstructed-chunk", place.path, key, obstacle)
            else:
                exam.find(
                    "missing-chunk", place.path, key, "the chunk is missing, and the array has no rows without it"
                )
        return missing


def _number(metadata: ArrayMetadata) -> int:
    total = 1
    for count in metadata.grid.counts(metadata.shape):
        total *= count
    return total


def check_arrays(exam: Examination, place: Place) -> None:
    """Look at all keys below an array, of which a place may have descriptions of several formats."""
    checked = [
        _Checked(exam, place, item, node) for item, node in place.nodes if isinstance(node, ArrayMetadata)
    ]  # fmt: skip
    main = checked[0]
    total = main.metadata.data_type.itemsize
    for size in main.metadata.shape:
        total *= size
    chunk = main.stored.chunk_nbytes if main.stored is not None else 0
    done = 0
    known, obstructed = own_keys(place), set[str]()

    def keys() -> Iterator[tuple[_Checked, Coords, str]]:
        """Yield what is to be looked at: threads draw from here, one at a time."""
        nonlocal done
        exam.tell(place.path, 0, total)
        with exam.listing(place.path, place.prefix):
            for key in exam.store.list_prefix(place.prefix):
                name = key[len(place.prefix) :]
                if name in known:
                    continue
                found = next(((one, at) for one in checked if (at := one.coords(name)) is not None), None)
                if found is None:
                    _account_for(exam, place, checked, key, obstructed)
                else:
                    yield (*found, key)
                    done += chunk
                    exam.tell(place.path, done, total)

    def work(item: tuple[_Checked, Coords, str]) -> None:
        one, coords, key = item
        with exam.listing(place.path, key):
            one.check(coords, key)

    try:
        parallel = _number(main.metadata) * chunk >= _PARALLEL_BYTES or main.metadata.data_type.variable != ""
        for_each(work, keys(), parallel)
        for one in checked:
            one.close()
    except NotFoundError:
        return  # somebody has deleted it
    exam.tell(place.path, total, total)
    exam.count(arrays=1)


def _account_for(exam: Examination, place: Place, checked: list[_Checked], key: str, obstructed: set[str]) -> None:
    """Find out what a key below an array is that is none of its own."""
    if is_system_file(key):
        exam.pass_over(key)
        return
    of_others = foreign(key)
    if of_others is not None:
        exam.find(of_others[0], place.path, key, of_others[1])
        return
    name = key[len(place.prefix) :]
    parts = name.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        for one in checked:
            coords = one.coords(above)
            if coords is not None and one.contains(coords):
                if above not in obstructed and len(obstructed) < _TOLD:
                    obstructed.add(above)
                    exam.find("obstructed-chunk", place.path, place.prefix + above, f"{name!r} is in its place")
                return
    exam.find("stray-key", place.path, key, "it is no chunk of the array and none of its documents")
