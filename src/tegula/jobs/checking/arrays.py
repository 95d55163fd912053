"""Check of an array: every chunk is decoded and every other key classified, in one pass over a listing.

A runner or a ledger checks the chunks box by box instead; the findings and numbers of the boxes are added up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

from tegula import engine
from tegula.arrays.array import Array
from tegula.codecs import lacking
from tegula.codecs.compressors.checksums import notices_changes
from tegula.engine import StoredArray
from tegula.engine.concurrency.pool import for_each, results_of
from tegula.engine.reading.remote import UNITS
from tegula.engine.stored.array import blocked_chunk
from tegula.engine.stored.misplaced import Misplaced
from tegula.engine.stored.visiting import cells, is_inside
from tegula.errors import ConflictError, MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.formats import Format, find_format
from tegula.formats.documents import load, rewrite
from tegula.formats.keys import Style
from tegula.hierarchy.sources import Source
from tegula.jobs.checking.documents import Visit, set_members, visited, write_document
from tegula.jobs.checking.findings import Examination, Finding, Repair
from tegula.jobs.ledger import UNRECORDED
from tegula.jobs.sharing import Code, Share, shared_results
from tegula.jobs.units import Box, chunk_boxes
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.quantities import counted
from tegula.stores import Store
from tegula.stores.capabilities import BlockedKeys, EmptyDirectories, blocked_by

__all__ = ["CODE", "check_arrays"]

Coords = tuple[int, ...]
_BoxResult = tuple[dict[str, int], dict[str, int], tuple[Finding, ...]]
"""The numbers of an examination, the number of findings of each kind, and the findings that are kept."""
CODE: Final = Code[_BoxResult]()
"""Boxes without findings are recorded; others are checked again."""
_PARALLEL_BYTES: Final = 2**18
_REPORTED: Final = 100  # missing chunks that are reported one by one
_KEPT: Final = 1000  # findings in one box that are kept
_ATTEMPTS: Final = 20
_MOST_HELD: Final = 2**26  # bytes of a shard in memory
_HEADER: Final = 16  # bytes of the header of a chunk's file, which some libraries do not count


class _ArrayCheck:
    """An array that is being checked: its description as last read, and what was found about its chunks.

    The examination also counts: stored chunks in the grid (``seen``), their bytes (``inside``), the bytes of chunks
    outside the grid (``beyond``), chunks with zeros after their compressed data (``padded``), and reasons to be
    ``unsure`` whether the chunks hold exactly the rows that the shape implies.
    """

    def __init__(self, visit: Visit, fmt: Format, metadata: ArrayMetadata) -> None:
        self.visit = visit
        self.fmt = fmt
        self.metadata = metadata  # other processes may change the shape during the check
        self.stored = self._opened()  # None if the chunks can't be read
        self.misplaced = Misplaced()

    def _opened(self) -> StoredArray | None:
        """Return the array for reading, and report options of codecs that the document must state for other readers."""
        visit, exam, metadata, document = self.visit, self.visit.exam, self.metadata, self.fmt.node_keys[0]
        try:
            how: dict[str, Any] = {"allow_pickle": exam.allow_pickle, "missing_chunks": exam.missing_chunks}
            stored = engine.stored_array(exam.store, visit.path, metadata, **how)
            shape = metadata.grid.one_shape
            unstated = lacking(metadata.codecs, metadata.data_type, ndim=metadata.ndim, chunk_shape=shape)
        except (UnsupportedError, MetadataError) as error:
            visit.find_error(error, document)
            exam.count(unsure=1)
            return None
        if self.fmt.name != "zarr3":  # in other formats the data type has the byte order
            unstated = [(codec, option) for codec, option in unstated if codec != "bytes"]
        if unstated:
            options = ", ".join(f"{option!r} of {codec}" for codec, option in unstated)
            message = f"the document does not state {options}, without which other libraries refuse it"
            visit.find("unstated-option", document, message)
        return stored

    def coords(self, name: str) -> Coords | None:
        """Return the grid coordinates of the chunk with a key; ``None`` if it is not the key of a chunk."""
        return self.metadata.keys.decode(name, self.metadata.ndim)

    def check(self, coords: Coords, key: str) -> None:
        """Check one chunk; findings count only if the documents have not changed meanwhile."""
        exam = self.visit.exam
        for attempt in range(_ATTEMPTS):
            metadata = self.metadata
            if not is_inside(metadata, coords):
                if self._unchanged(metadata):
                    self._outside(key)
                    return
                continue
            if self.stored is None:
                exam.count(seen=1, inside=exam.store.size(key) or 0)
                return
            verdict = engine.verify_chunk(self.stored, coords, key)
            if verdict is None:
                return  # deleted since it was listed
            if verdict.faults and (attempt == 0 or not self._unchanged(metadata)):
                continue  # another process may be writing it; look again
            exam.count(seen=1, inside=verdict.stored, padded=verdict.padded, unsure=len(verdict.faults))
            exam.count(chunks=verdict.chunks, nbytes_stored=verdict.stored, nbytes_decoded=verdict.decoded)
            for kind, message in verdict.faults:
                exam.find(kind, self.visit.path, key, message)
            if verdict.absent and self.stored.is_strict:
                text = f"{counted(verdict.absent, 'inner chunk')} not stored, first {verdict.first}"
                exam.find("missing-chunk", self.visit.path, key, text)
            return

    def _outside(self, key: str) -> None:
        exam, dense = self.visit.exam, self.metadata.dense
        if (size := exam.store.size(key)) is not None:
            exam.count(beyond=size, unsure=1)
            message = "it lies beyond the end of the array" if dense else f"no chunk of the shape {self.metadata.shape}"
            exam.find("chunk-outside", self.visit.path, key, message, severity="note" if dense else None)

    def _unchanged(self, metadata: ArrayMetadata) -> bool:
        """Read the documents again, adopt a changed shape, and return whether shape and grid are the same."""
        path = self.visit.path
        try:
            now = engine.read_metadata(self.visit.exam.store, path, self.fmt.name)
        except TegulaError:
            return True
        if now is None or not isinstance(now, ArrayMetadata) or not now.has_chunks_of(metadata):
            # what was found is void
            raise NotFoundError("the array was deleted or replaced during the check", path=path)
        if now.shape == metadata.shape and now.grid == metadata.grid:
            return True
        self.metadata = now
        if self.stored is not None:
            self.stored = replace(self.stored, metadata=now)
        return False

    def close(self) -> None:
        """Find missing chunks and wrong counts, after all keys have been checked."""
        visit, numbers = self.visit, self.visit.exam.numbers
        seen = numbers["seen"]
        if seen and self.stored is not None and not notices_changes(self.metadata.codecs):
            visit.exam.count(arrays_without_checksum=1)
        if numbers["padded"]:
            chunks = counted(numbers["padded"], "chunk")
            visit.find("trailing-zeros", "", f"zeros follow the compressed data of {chunks}, as z5 writes them")
        self._unchanged(self.metadata)  # adopts a shape that was changed during the check
        if self.misplaced.counts:
            with visit.listing():
                self._find_misplaced()
        metadata, store = self.metadata, visit.exam.store
        if metadata.dense:
            total = metadata.grid.counts(metadata.shape)[0] if 0 not in metadata.shape else 0
            missing = self._find_missing(total) if seen < total else 0
            # bcolz requires the directory of the chunks even if it is empty
            name = metadata.keys.prefix.rpartition("/")[0] + "/"
            if isinstance(store, EmptyDirectories) and not store.has_prefix(visit.prefix + name):
                repair = Repair("create the directory", partial(store.make_prefix, visit.prefix + name))
                visit.find("missing-directory", name, "the directory does not exist", repair=repair)
            if not missing and self.metadata.documents:
                self._check_counts()
        elif self.stored is not None or metadata.shape:
            absent = max(0, prod(metadata.grid.counts(metadata.shape)) - seen)
            visit.exam.count(missing_chunks=absent)
            if absent and self.stored is not None and self.stored.is_strict:
                visit.find("missing-chunk", "", f"{absent} of the chunks are not stored")

    def _find_misplaced(self) -> None:
        """Report chunks under keys of another encoding; if there are no others, the document can be repaired."""
        visit, fmt = self.visit, self.fmt
        field, repair = self.misplaced.field_of(fmt), None
        if field is not None and not visit.exam.numbers["seen"]:
            act = partial(set_members, visit, fmt, dict([field]))
            repair = Repair(f"set {field[0]} to {json.dumps(field[1])}", act)
        encode, exists = self.metadata.keys.encode, visit.exam.store.exists
        twice = all(exists(visit.prefix + encode(coords)) for coords in self.misplaced.some)
        text, severity = self.misplaced.message(fmt, self.metadata), "warning" if twice else None
        visit.find("misplaced-chunks", fmt.shape_key, text, severity=severity, repair=repair)

    def _find_missing(self, total: int) -> int:
        """Look up every chunk of an array that must store all of them, and return the number of missing ones."""
        visit, store = self.visit, self.visit.exam.store
        zeros = (0,) * (self.metadata.ndim - 1)
        missing = 0

        def looked_up(number: int) -> tuple[int, str, bool]:
            name = self.metadata.keys.encode((number, *zeros))
            return number, name, store.exists(visit.prefix + name)

        for number, name, exists in results_of(looked_up, range(total), store.concurrency):
            if exists:
                continue
            if not self._unchanged(self.metadata) and not is_inside(self.metadata, (number,)):
                break
            if missing == _REPORTED:
                others = total - visit.exam.numbers["seen"] - missing
                visit.find("missing-chunk", "", f"{others} more chunks are missing")
                break
            missing += 1
            cause = blocked_by(store, visit.prefix + name)
            kind = "obstructed-chunk" if cause else "missing-chunk"
            visit.find(kind, name, cause or "the chunk is missing, so its rows can't be read")
        return missing

    def _check_counts(self) -> None:
        """Compare the numbers of bytes in ``meta/sizes`` of bcolz with those of the stored files.

        Libraries count the stored bytes differently: with the headers of the files or without, the rows of the last
        chunk uncompressed, twice, or not at all. The counts are rewritten only if the chunks end exactly where the
        length says, so that nothing but the counts can be wrong.
        """
        visit, metadata, numbers, document = self.visit, self.metadata, self.visit.exam.numbers, self.fmt.shape_key
        key, store = visit.prefix + document, visit.exam.store
        raw, generation = store.get(key, with_generation=True)
        if raw is None or raw != metadata.documents.get(document):
            return  # another process has changed it, and has counted again
        variable, length = metadata.data_type.variable, metadata.shape[0]
        row = prod(metadata.shape[1:]) * metadata.data_type.numpy.itemsize
        count, chunk = metadata.grid.counts(metadata.shape)[0], metadata.grid.largest_chunk()[0]

        # the least that libraries count: whole chunks without headers; and the most
        least, most = numbers["inside"] - _HEADER * count, numbers["inside"] + numbers["beyond"]
        if length % chunk:
            last = metadata.keys.encode((count - 1, *(0,) * (metadata.ndim - 1)))
            least -= max(0, (store.size(visit.prefix + last) or 0) - _HEADER)
        most += row * (metadata.extra.get("chunklen", 0) if variable else chunk)

        sizes = load(raw, key)
        nbytes, cbytes = sizes.get("nbytes"), sizes.get("cbytes")
        right: dict[str, int] = {}
        if not variable and nbytes is not None and nbytes != length * row:
            right["nbytes"] = length * row
        if cbytes is not None and not (type(cbytes) is int and least <= cbytes <= most):
            right["cbytes"] = least + (0 if variable else chunk * row)
        if right:
            new = rewrite({document: raw}, document, right, Style(indent=None, spaced=True, ending="\n"))
            act = partial(write_document, visit.exam, key, new, generation)
            repair = None if numbers["unsure"] else Repair("write the correct numbers", act)
            text = " and ".join(f"{name} is {sizes[name]!r:.40}, not {number}" for name, number in right.items())
            severity = None if "nbytes" in right else "note"
            visit.find("wrong-counts", document, text, severity=severity, repair=repair)


def _check_box(store: Store, path: str, metadata: ArrayMetadata, how: tuple[bool, str | None], box: Box) -> _BoxResult:
    """Check the chunks in a box of an array, in any process; `how` ends the arguments of an `Examination`."""
    visit = Visit(Examination(store, path, 0, None, *how), path)
    array = _ArrayCheck(visit, find_format(metadata.format), metadata)
    # another one, since findings about documents are reported once, not for each box
    exam = visit.exam = Examination(store, path, _KEPT, None, *how)
    chunks = cells(metadata.grid.touched(box))

    def check(coords: Coords) -> None:
        if array.stored is not None and (key := array.stored.key(coords)):
            with exam.listing(path, key):
                array.check(coords, key)

    for_each(check, chunks, parallel=True, requests=store.concurrency)
    return {**exam.numbers}, {**exam.counts}, tuple(finding for finding, _ in exam.findings)


def _check_boxes(main: _ArrayCheck, stored: StoredArray, share: Share[_BoxResult]) -> Iterator[int]:
    """Check the chunks of an array box by box; yield the number of elements of each box."""
    visit, exam = main.visit, main.visit.exam
    name = visit.path[len(exam.path) :].strip("/")
    if share.plan is not None and name not in share.plan.pieces:  # not readable when the plan was made
        share = replace(share, ledger=UNRECORDED, plan=None)
    array = Array(stored, name, read_only=True)
    how = exam.allow_pickle, exam.missing_chunks
    check = partial(_check_box, exam.store, visit.path, main.metadata, how)
    for (numbers, counts, findings), size in shared_results(share, name, check, chunk_boxes(array), array):
        part = exam.part()
        part.numbers.update(numbers)
        part.counts.update(counts)
        part.findings += ((finding, None) for finding in findings)
        exam.add(part)
        yield size


def check_arrays(exam: Examination, visit: Visit) -> None:
    """Check all keys below an array, which may be described by documents of several formats.

    An array that is replaced meanwhile is checked again: what was found belongs to no node. It is an error if it is
    replaced again and again, becomes a group, or was deleted and nothing else is checked.
    """
    for attempt in range(_ATTEMPTS):
        part = exam.part()
        try:
            _check_once(replace(visit, exam=part))
        except (ConflictError, NotFoundError) as error:
            visit = visited(exam.part(), visit.path)
            if not visit.nodes and not visit.damaged and visit.path != exam.path:
                return  # deleted since it was listed
            if not visit.arrays or exam.share is not None or attempt == _ATTEMPTS - 1:
                error.path = f"{exam.store.url}/{visit.path}".rstrip("/")
                raise
            continue
        exam.add(part)
        return


def _check_once(visit: Visit) -> None:
    """Check an array as its documents describe it."""
    exam = visit.exam
    changed = None if exam.share is None else exam.share.ledger.spoil
    sources: list[Source] = []
    with visit.listing():  # they are compared with the store at the end; their lengths are followed anyway
        sources.extend(Source(exam.store, visit.path, node, lengths="any", changed=changed) for _, node in visit.arrays)
    parts = [exam, *(exam.part() for _ in visit.arrays[1:])]  # one for each format, since each counts its own chunks
    checked = [_ArrayCheck(replace(visit, exam=part), *node) for part, node in zip(parts, visit.arrays)]

    # the size of the work, for the progress
    main = checked[0]
    itemsize, stored = main.metadata.data_type.itemsize, main.stored
    total = prod(main.metadata.shape) * itemsize
    chunk = stored.chunk_nbytes if stored is not None else 0
    done = 0
    # only a part of a large shard is in memory
    sharded = stored is not None and stored.chain.sharding is not None
    room = (min(chunk, _MOST_HELD) if sharded else chunk) if exam.store.is_remote else 0

    share = exam.share if len(checked) == 1 and stored is not None else None
    # one pass over the keys, in several threads if chunks are large
    known, obstructed = visit.own_keys(), set[str]()

    def keys() -> Iterator[tuple[_ArrayCheck, Coords, str]]:
        """Yield the chunks to check; threads take them from here one by one, under a lock."""
        nonlocal done
        exam.report_progress(visit.path, 0, total)
        with visit.listing():
            for key in exam.store.list_prefix(visit.prefix):
                name = key[len(visit.prefix) :]
                if name in known:
                    continue
                chunk_of = next(((one, at) for one in checked if (at := one.coords(name)) is not None), None)
                if chunk_of is None:
                    _report_key(visit, checked, name, obstructed)
                elif share is None or not is_inside(chunk_of[0].metadata, chunk_of[1]):  # others are checked in boxes
                    yield (*chunk_of, key)
                    done += chunk
                    exam.report_progress(visit.path, done, total)
            for name in store.blockers(visit.prefix) if isinstance(store := exam.store, BlockedKeys) else ():
                _find_obstructed(checked, below := name[len(visit.prefix) :], below, obstructed)

    def work(item: tuple[_ArrayCheck, Coords, str]) -> None:
        one, coords, key = item
        with exam.listing(visit.path, key), UNITS.hold(room):
            one.check(coords, key)

    # check each chunk, then find the missing ones
    chunks = prod(main.metadata.grid.counts(main.metadata.shape))
    parallel = chunks * chunk >= _PARALLEL_BYTES or main.metadata.data_type.variable != ""
    for_each(work, keys(), parallel, requests=exam.store.concurrency)
    if share is not None and main.stored is not None:
        for size in _check_boxes(main, main.stored, share):
            done += size * itemsize
            exam.report_progress(visit.path, done, total)
    for one, part in zip(checked, parts):
        one.close()
        if part is not exam:
            exam.add(part)
    with visit.listing():
        for source in sources:
            source.check()
    exam.report_progress(visit.path, total, total)
    exam.count(arrays=1)


def _report_key(visit: Visit, checked: list[_ArrayCheck], name: str, obstructed: set[str]) -> None:
    """Report a key below an array that is neither a chunk nor a document."""
    if visit.exam.find_foreign(visit.path, visit.prefix + name):
        return
    if any(one.misplaced.add(one.metadata, name) for one in checked):
        return
    if _find_obstructed(checked, name, name.rpartition("/")[0], obstructed):
        return
    for one in checked:
        found = blocked_chunk(visit.exam.store, visit.prefix, one.metadata, visit.prefix + name)
        if found is not None:
            visit.find("obstructed-chunk", found[0][len(visit.prefix) :], found[1])
            break
    else:
        visit.find("stray-key", name, "it is neither a chunk of the array nor one of its documents")


def _find_obstructed(checked: list[_ArrayCheck], name: str, top: str, obstructed: set[str]) -> bool:
    """Report a chunk whose place is `top`, or a directory above it; return whether there is one.

    Chunks of an array that stores all of them are reported as missing, with their reason.
    """
    parts = top.split("/")
    for above in ("/".join(parts[:count]) for count in range(1, len(parts) + 1)):
        for one in checked:
            coords = one.coords(above)
            if coords is not None and is_inside(one.metadata, coords):
                if above not in obstructed and len(obstructed) < _REPORTED and not one.metadata.dense:
                    obstructed.add(above)
                    cause = blocked_by(one.visit.exam.store, one.visit.prefix + above)
                    one.visit.find("obstructed-chunk", above, cause or f"{name!r} is in its place")
                return True
    return False
