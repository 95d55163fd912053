"""Check of an array: every chunk is decoded and every other key classified, in one pass over a listing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Final

from tegula import engine
from tegula.codecs import lacking
from tegula.codecs.compressors.checksums import notices_changes
from tegula.display.info import counted
from tegula.engine import StoredArray
from tegula.engine.concurrency.pool import for_each, results_of
from tegula.engine.reading.remote import UNITS
from tegula.engine.stored.visiting import cells
from tegula.errors import ConflictError, MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.formats import Format, find_format
from tegula.hierarchy.sources import Source
from tegula.jobs.checking.boxes import BoxCheck, check_boxes
from tegula.jobs.checking.documents import Place, below, own_keys, read_place
from tegula.jobs.checking.examination import Examination, Repair
from tegula.jobs.checking.lengths import check_counts, check_directory
from tegula.jobs.misplaced import Misplaced, set_encoding
from tegula.jobs.units import Box
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.stores.capabilities import blocked_by

__all__ = ["check_arrays"]

Coords = tuple[int, ...]
_PARALLEL_BYTES: Final = 2**18
_REPORTED: Final = 100  # missing chunks that are reported one by one
_KEPT: Final = 1000  # findings in one box that are kept
_ATTEMPTS: Final = 20
_MOST_HELD: Final = 2**26  # bytes of a shard in memory
_KINDS: Final = {
    "damaged": "damaged-chunk", "index": "damaged-index", "overlap": "overlapping-chunks", "excess": "trailing-bytes",
    "rows": "leftover-rows", "unsupported": "unsupported", "unreadable": "unreadable",
}  # fmt: skip


class _Checked:
    """An array that is being checked.

    Attributes
    ----------
    metadata : ArrayMetadata
        Its description as last read; other processes may change its shape during the check.
    stored : StoredArray or None
        The array for reading; ``None`` if its chunks can't be read.
    seen, inside, beyond : int
        Number of stored chunks in the grid, their bytes, and the bytes of chunks outside the grid.
    padded : int
        Number of chunks with zeros after their compressed data.
    sure : bool
        Whether the chunks hold exactly the rows that the shape implies.
    """

    def __init__(self, exam: Examination, place: Place, item: Format, metadata: ArrayMetadata) -> None:
        self.exam = exam
        self.place = place
        self.item = item
        self.metadata = metadata
        self.stored = self._stored()
        self.seen = self.inside = self.beyond = self.padded = 0
        self.misplaced = Misplaced()
        self.sure = self.stored is not None
        self._lock = Lock()

    def _stored(self) -> StoredArray | None:
        exam, path = self.exam, self.place.path
        try:
            stored = engine.stored_array(exam.store, path, self.metadata, allow_pickle=exam.allow_pickle)
            self._find_unstated()
            return stored
        except (UnsupportedError, MetadataError) as error:
            limit = isinstance(error, MetadataError) and error.field == "chunks" and "max_chunk_bytes" in error.message
            kind = "unsupported" if limit or isinstance(error, UnsupportedError) else "metadata"
            codec = "" if error.codec is None else f" (codec {error.codec!r})"
            exam.find(kind, path, below(path, self.item.node_keys[0]), f"{error.message}{codec}")
            return None

    def _find_unstated(self) -> None:
        """Report options of codecs that the document leaves out and other libraries require."""
        metadata = self.metadata
        found = lacking(metadata.codecs, metadata.data_type, ndim=metadata.ndim)
        if self.item.name != "zarr3":  # in other formats the data type has the byte order
            found = [(codec, option) for codec, option in found if codec != "bytes"]
        if found:
            path, options = self.place.path, ", ".join(f"{option!r} of {codec}" for codec, option in found)
            message = f"the document does not state {options}, without which other libraries refuse it"
            self.exam.find("unstated-option", path, below(path, self.item.node_keys[0]), message)

    def coords(self, name: str) -> Coords | None:
        """Return the grid coordinates of the chunk with a key; ``None`` if it is not the key of a chunk."""
        return self.metadata.keys.decode(name, self.metadata.ndim)

    def contains(self, coords: Coords) -> bool:
        """Return whether a chunk belongs to the grid."""
        return all(number < count for number, count in zip(coords, self.metadata.grid.counts(self.metadata.shape)))

    def check(self, coords: Coords, key: str) -> None:
        """Check one chunk; findings count only if the documents have not changed meanwhile."""
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
                return  # deleted since it was listed
            if verdict.faults and attempt == 0:
                continue  # another process may be writing it; look again
            if verdict.faults and not self._unchanged(metadata):
                continue
            self._count(inside=verdict.stored, padded=verdict.padded)
            self.exam.count(chunks=verdict.chunks, nbytes_stored=verdict.stored, nbytes_decoded=verdict.decoded)
            if verdict.faults:
                self.sure = False
            for kind, message in verdict.faults:
                self.exam.find(_KINDS[kind], self.place.path, key, message)
            return

    def add(self, part: BoxCheck) -> None:
        """Add what was found in a box."""
        self.seen += part.seen
        self.inside += part.inside
        self.padded += part.padded
        self.sure = self.sure and part.sure

    def _count(self, inside: int, padded: int = 0) -> None:
        with self._lock:
            self.seen += 1
            self.inside += inside
            self.padded += padded

    def _outside(self, key: str) -> None:
        size = self.exam.store.size(key)
        if size is None:
            return
        with self._lock:
            self.beyond += size
            self.sure = False
        dense = self.metadata.dense
        message = "it lies beyond the end of the array" if dense else f"no chunk of the shape {self.metadata.shape}"
        self.exam.find("chunk-outside", self.place.path, key, message, severity="note" if dense else None)

    def _unchanged(self, metadata: ArrayMetadata) -> bool:
        """Read the documents again, adopt a changed shape, and return whether shape and grid are the same.

        Raises
        ------
        NotFoundError
            If the array was deleted or replaced, so that findings about it are void.
        """
        exam, path = self.exam, self.place.path
        try:
            now = engine.read_metadata(exam.store, path, self.item.name)
        except TegulaError:
            return True
        if now is None or not isinstance(now, ArrayMetadata) or not now.has_chunks_of(metadata):
            raise NotFoundError("the array was deleted or replaced during the check", path=path)
        if now.shape == metadata.shape and now.grid == metadata.grid:
            return True
        with self._lock:
            self.metadata = now
            if self.stored is not None:
                self.stored = replace(self.stored, metadata=now)
        return False

    def close(self) -> None:
        """Find missing chunks and wrong counts, after all keys have been checked."""
        exam, place = self.exam, self.place
        if self.seen and self.stored is not None and not notices_changes(self.metadata.codecs):
            exam.count(arrays_without_checksum=1)
        if self.padded:
            found = f"zeros follow the compressed data of {counted(self.padded, 'chunk')}, as z5 writes them"
            exam.find("trailing-zeros", place.path, place.prefix, found)
        with exam.listing(place.path, place.prefix):
            self._unchanged(self.metadata)  # adopts a shape that was changed during the check
        if self.misplaced.counts:
            with exam.listing(place.path, place.prefix):
                self._find_misplaced()
        if self.metadata.dense:
            total = self.metadata.grid.counts(self.metadata.shape)[0] if 0 not in self.metadata.shape else 0
            missing = self._find_missing(total) if self.seen < total else 0
            check_directory(exam, place, self.metadata)
            if not missing and self.metadata.documents:
                check_counts(exam, place, self.item, self.metadata, (self.inside, self.beyond), self.sure)
        elif self.stored is not None or self.metadata.shape:
            exam.count(missing_chunks=max(0, _number(self.metadata) - self.seen))

    def _find_misplaced(self) -> None:
        """Report chunks under keys of another encoding; if there are no others, the document can be repaired."""
        exam, place, item = self.exam, self.place, self.item
        field, repair = self.misplaced.field(item), None
        if field is not None and not self.seen:
            act = partial(set_encoding, exam.store, place.path, item, place.documents, field)
            repair = Repair(f"set {field[0]} to {json.dumps(field[1])}", act)
        unread = self.misplaced.unread(exam.store, place.prefix, self.metadata)
        text = self.misplaced.message(item, self.metadata)
        key = below(place.path, item.shape_key)
        exam.find("misplaced-chunks", place.path, key, text, severity=None if unread else "warning", repair=repair)

    def _find_missing(self, total: int) -> int:
        """Look up every chunk of an array that must store all of them, and return the number of missing ones."""
        exam, place = self.exam, self.place
        ndim = self.metadata.ndim
        missing = 0

        def looked_up(number: int) -> tuple[int, str, bool]:
            key = place.prefix + self.metadata.keys.encode((number, *(0,) * (ndim - 1)))
            return number, key, exam.store.exists(key)

        for number, key, exists in results_of(looked_up, range(total), exam.requests):
            if exists:
                continue
            before = self.metadata
            if not self._unchanged(before) and not self.contains((number,)):
                break
            if missing == _REPORTED:
                rest = total - self.seen - missing
                exam.find("missing-chunk", place.path, place.prefix, f"{rest} more chunks are missing")
                break
            missing += 1
            cause = blocked_by(exam.store, key)
            if cause:
                exam.find("obstructed-chunk", place.path, key, cause)
            else:
                exam.find("missing-chunk", place.path, key, "the chunk is missing, so its rows can't be read")
        return missing


def _check_box(store: Store, path: str, metadata: ArrayMetadata, allow_pickle: bool, box: Box) -> BoxCheck:
    """Check the chunks in a box of an array, in any process."""
    exam = Examination(store, path, _KEPT, None, allow_pickle)
    place = Place(path, metadata.documents, [], False)
    one = _Checked(exam, place, find_format(metadata.format), metadata)
    exam.report.findings.clear()  # findings about documents are reported once, not for each box
    exam.report.counts.clear()
    exam.report.errors = exam.report.warnings = exam.report.notes = exam.unread = 0
    axes = metadata.grid.axes
    chunks = cells([(int(a.locate(part.start)), int(a.locate(part.stop - 1)) + 1) for a, part in zip(axes, box)])

    def check(coords: Coords) -> None:
        if one.stored is not None and (key := one.stored.key(coords)):
            with exam.listing(place.path, key):
                one.check(coords, key)

    for_each(check, chunks, parallel=True, requests=store.concurrency)
    return BoxCheck.of(exam, (one.seen, one.inside, one.padded), one.sure)


def _number(metadata: ArrayMetadata) -> int:
    total = 1
    for count in metadata.grid.counts(metadata.shape):
        total *= count
    return total


def check_arrays(exam: Examination, place: Place) -> None:
    """Check all keys below an array, which may be described by documents of several formats.

    An array that is replaced meanwhile is checked again: what was found belongs to no node.

    Raises
    ------
    ConflictError, NotFoundError
        If it is replaced again and again, becomes a group, or was deleted and nothing else is checked.
    """
    for attempt in range(_ATTEMPTS):
        part = exam.part()
        try:
            _check_once(part, place)
        except (ConflictError, NotFoundError) as error:
            part = exam.part()
            place = read_place(part, place.path)
            if not place.nodes and not place.damaged and place.path != exam.path:
                return  # deleted since it was listed
            again = place.nodes and isinstance(place.nodes[0][1], ArrayMetadata) and exam.share is None
            if not again or attempt == _ATTEMPTS - 1:
                raise _located(error, exam, place) from None
            continue
        exam.add(part)
        return


def _located(error: TegulaError, exam: Examination, place: Place) -> TegulaError:
    error.path = f"{exam.store.url}/{place.path}".rstrip("/")
    return error


def _sources_of(exam: Examination, place: Place) -> list[Source]:
    """Return the arrays of a place, to be compared with the store at the end; their lengths are followed anyway."""
    ledger = None if exam.share is None else exam.share.ledger
    changed = None if ledger is None else ledger.spoil
    found: list[Source] = []
    with exam.listing(place.path, place.prefix):
        for _, node in place.nodes:
            if isinstance(node, ArrayMetadata):
                found.append(Source(exam.store, place.path, node, lengths="any", changed=changed))
    return found


def _check_once(exam: Examination, place: Place) -> None:
    """Check an array as its documents describe it."""
    sources = _sources_of(exam, place)
    checked = [
        _Checked(exam, place, item, node) for item, node in place.nodes if isinstance(node, ArrayMetadata)
    ]  # fmt: skip

    # the size of the work, for the progress
    main = checked[0]
    total = main.metadata.data_type.itemsize
    for size in main.metadata.shape:
        total *= size
    chunk = main.stored.chunk_nbytes if main.stored is not None else 0
    done = 0
    # only a part of a large shard is in memory
    sharded = main.stored is not None and main.stored.chain.sharding is not None
    room = (min(chunk, _MOST_HELD) if sharded else chunk) if exam.store.is_remote else 0

    shared = exam.share if len(checked) == 1 and main.stored is not None else None
    # one pass over the keys, in several threads if chunks are large
    known, obstructed = own_keys(place), set[str]()

    def keys() -> Iterator[tuple[_Checked, Coords, str]]:
        """Yield the chunks to check; threads take them from here one by one, under a lock."""
        nonlocal done
        exam.report_progress(place.path, 0, total)
        with exam.listing(place.path, place.prefix):
            for key in exam.store.list_prefix(place.prefix):
                name = key[len(place.prefix) :]
                if name in known:
                    continue
                found = next(((one, at) for one in checked if (at := one.coords(name)) is not None), None)
                if found is None:
                    _report_key(exam, place, checked, key, obstructed)
                elif shared is not None and found[0].contains(found[1]):
                    continue  # checked box by box below
                else:
                    yield (*found, key)
                    done += chunk
                    exam.report_progress(place.path, done, total)

    def work(item: tuple[_Checked, Coords, str]) -> None:
        one, coords, key = item
        with exam.listing(place.path, key), UNITS.hold(room):
            one.check(coords, key)

    # check each chunk, then find the missing ones
    parallel = _number(main.metadata) * chunk >= _PARALLEL_BYTES or main.metadata.data_type.variable != ""
    for_each(work, keys(), parallel, requests=exam.requests)
    if shared is not None and main.stored is not None:
        name = place.path[len(exam.path) :].strip("/") if exam.path else place.path
        check = partial(_check_box, exam.store, place.path, main.metadata, exam.allow_pickle)
        for part, size in check_boxes(shared, name, main.stored, check):
            part.add_to(exam)
            main.add(part)
            done += size * main.metadata.data_type.itemsize
            exam.report_progress(place.path, done, total)
    for one in checked:
        one.close()
    with exam.listing(place.path, place.prefix):
        for source in sources:
            source.check()
    exam.report_progress(place.path, total, total)
    exam.count(arrays=1)


def _report_key(exam: Examination, place: Place, checked: list[_Checked], key: str, obstructed: set[str]) -> None:
    """Report a key below an array that is neither a chunk nor a document."""
    if exam.find_foreign(place.path, key):
        return
    name = key[len(place.prefix) :]
    if any(one.misplaced.add(one.metadata, name) for one in checked):
        return
    parts = name.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        for one in checked:
            coords = one.coords(above)
            if coords is not None and one.contains(coords):
                if above not in obstructed and len(obstructed) < _REPORTED:
                    obstructed.add(above)
                    exam.find("obstructed-chunk", place.path, place.prefix + above, f"{name!r} is in its place")
                return
    exam.find("stray-key", place.path, key, "it is neither a chunk of the array nor one of its documents")
