"""Check of lengths: the counts in ``meta/sizes`` of bcolz, and the lengths of a table's columns."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Final

from tegula import engine
from tegula.engine import StoredArray
from tegula.engine.copying.verifying import stored_rows
from tegula.errors import ConflictError, MetadataError, TegulaError
from tegula.formats import Format
from tegula.formats.documents import load, rewrite
from tegula.formats.styles import Style
from tegula.jobs.checking.documents import Place, below
from tegula.jobs.checking.examination import Examination, Repair
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores.capabilities import EmptyDirectories, lock
from tegula.tables.columns import column_names

__all__ = ["check_counts", "check_directory", "check_table"]

_HEADER: Final = 16  # bytes of the header of a chunk's file, which some libraries do not count
_STYLE: Final = Style(indent=None, spaced=True, ending="\n")
_READS: Final = 50  # attempts at reading the lengths of columns
_STEADY: Final = 5  # reads in a row that must give the same lengths
_PAUSE: Final = 0.02  # seconds between two reads


def check_directory(exam: Examination, place: Place, metadata: ArrayMetadata) -> None:
    """Check that the directory of the chunks exists, which bcolz requires even if it is empty."""
    prefix = place.prefix + metadata.keys.prefix.rpartition("/")[0] + "/"
    store = exam.store
    if isinstance(store, EmptyDirectories) and not store.has_prefix(prefix):
        repair = Repair("create the directory", lambda: store.make_prefix(prefix))
        exam.find("missing-directory", place.path, prefix, "the directory does not exist", repair=repair)


def check_counts(
    exam: Examination, place: Place, item: Format, metadata: ArrayMetadata, stored: tuple[int, int], sure: bool
) -> None:
    """Compare the numbers of bytes in ``meta/sizes`` with the stored files.

    Libraries count the stored bytes differently: with the headers of the files or without, the rows of the last chunk
    uncompressed, twice, or not at all. The counts are rewritten only if the chunks end exactly where the length says
    (`sure`), so that nothing but the counts can be wrong.
    """
    key = below(place.path, item.shape_key)
    raw, generation = exam.store.get(key, with_generation=True)
    if raw is None or raw != metadata.documents.get(item.shape_key):
        return  # another process has changed it, and has counted again
    sizes = load(raw, key)
    row = math.prod(metadata.shape[1:]) * metadata.data_type.numpy.itemsize
    frames, most = _stored_bytes(exam, place, metadata, stored)
    room = 0 if metadata.data_type.variable else metadata.grid.largest_chunk()[0] * row
    wrong: dict[str, tuple[Any, int]] = {}
    found = sizes.get("nbytes")
    if not metadata.data_type.variable and found is not None and found != metadata.shape[0] * row:
        wrong["nbytes"] = (found, metadata.shape[0] * row)
    found = sizes.get("cbytes")
    most += metadata.extra.get("chunklen", 0) * row if metadata.data_type.variable else room
    if found is not None and not (type(found) is int and frames <= found <= most):
        wrong["cbytes"] = (found, frames + room)
    if not wrong:
        return
    new = rewrite({item.shape_key: raw}, item.shape_key, {name: true for name, (_, true) in wrong.items()}, _STYLE)
    text = " and ".join(f"{name} is {found!r:.40}, not {true}" for name, (found, true) in wrong.items())

    def act() -> None:
        try:
            exam.store.set(key, new, if_generation=generation)
        finally:
            engine.forget(exam.store, key)

    repair = Repair("write the correct numbers", act) if sure else None
    exam.find("wrong-counts", place.path, key, text, severity=None if "nbytes" in wrong else "note", repair=repair)


def _stored_bytes(exam: Examination, place: Place, metadata: ArrayMetadata, stored: tuple[int, int]) -> tuple[int, int]:
    """Return the bytes of all whole chunks without headers, and the bytes of all files."""
    inside, beyond = stored
    count, chunk = metadata.grid.counts(metadata.shape)[0], metadata.grid.largest_chunk()[0]
    frames = inside - _HEADER * count
    if metadata.shape[0] % chunk:
        last = place.prefix + metadata.keys.encode((count - 1, *(0,) * (metadata.ndim - 1)))
        frames -= max(0, (exam.store.size(last) or 0) - _HEADER)
    return frames, inside + beyond


def check_table(
    exam: Examination,
    place: Place,
    node: tuple[Format, GroupMetadata],
    members: Sequence[tuple[str, bool]],
    sound: bool,
) -> None:
    """Compare the columns that a table lists with its members, and their lengths with each other.

    Parameters
    ----------
    exam, place, node
        The table.
    members : sequence of (str, bool)
        Names of its members, and whether each is an array.
    sound : bool
        Whether no errors were found in it; after an error lengths are uncertain, and are not repaired.
    """
    item, metadata = node
    try:
        names = column_names(metadata)
    except MetadataError as error:
        exam.find("metadata", place.path, below(place.path, item.node_keys[-1]), error.message)
        return
    if names is None:
        return
    arrays = {name for name, is_array in members if is_array}
    there = {name for name, _ in members}
    for name in names:
        if name not in there:
            exam.find("missing-column", place.path, below(place.path, name) + "/", f"there is no column {name!r}")
        elif name not in arrays:
            exam.find("missing-column", place.path, below(place.path, name) + "/", f"{name!r} is not an array")
    if metadata.members is not None:
        for name in sorted(arrays - {*names}):
            message = f"the table does not list {name!r} among its columns"
            exam.find("unlisted-column", place.path, below(place.path, name) + "/", message)
    present = [name for name in names if name in arrays]
    if present:
        # an unlisted array may be a column or something else, such as an index, so nothing is repaired
        whole = len(present) == len(names) and arrays == {*names}
        _check_lengths(exam, place, item, present, sound and whole)


def _check_lengths(exam: Examination, place: Place, item: Format, names: list[str], sound: bool) -> None:
    lengths = _lengths(exam, place, item, names)
    if lengths is None or len({*lengths.values()}) <= 1:
        return
    lead, shortest = lengths[names[0]], min(lengths.values())
    listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
    key = below(place.path, next(name for name in names if lengths[name] == shortest)) + f"/{item.shape_key}"
    unfinished = lead == shortest
    message = f"the columns differ in length: {listed}"[:400]
    repair = None
    short = [name for name in names if lengths[name] == shortest]
    if sound and (unfinished or _chunks_end_with_length(exam, place, item, short)):
        text = f"make all columns {shortest} rows long, as the table is; the rows beyond stay in their chunks, unread"
        repair = Repair(text, lambda: _cut_to_shortest(exam, place, item, names))
    exam.find("unequal-columns", place.path, key, message, severity="warning" if unfinished else "error", repair=repair)


def _columns(exam: Examination, place: Place, item: Format, names: list[str]) -> list[tuple[StoredArray, str]] | None:
    columns = []
    for name in names:
        path = below(place.path, name)
        metadata = engine.read_metadata(exam.store, path, item.name)
        if not isinstance(metadata, ArrayMetadata) or not metadata.ndim:
            return None
        columns.append((engine.stored_array(exam.store, path, metadata, allow_pickle=exam.allow_pickle), path))
    return columns


def _lengths(exam: Examination, place: Place, item: Format, names: list[str]) -> dict[str, int] | None:
    """Read the lengths of columns under their lock; return ``None`` if they can't be read, or keep changing.

    An append holds the lock of the first column. In a store without locks, the lengths count if several reads in a
    row agree.
    """
    steady, last = 0, None
    for _ in range(_READS):
        try:
            with lock(exam.store, _lead_key(exam, place, item, names[0])) as locked:
                found = _shapes(exam, place, item, names)
        except TegulaError:
            return None
        if locked or found is None or len({*found.values()}) == 1:
            return found
        steady = steady + 1 if found == last else 0
        last = found
        if steady == _STEADY:
            return found
        time.sleep(_PAUSE)
    return None


def _lead_key(exam: Examination, place: Place, item: Format, name: str) -> str:
    """Return the key that is locked while the length of a table changes."""
    path = below(place.path, name)
    documents = engine.fetch_documents(exam.store, path, item.node_keys)
    return below(path, next((key for key in item.node_keys if key in documents), item.node_keys[0]))


def _shapes(exam: Examination, place: Place, item: Format, names: list[str]) -> dict[str, int] | None:
    found: dict[str, Any] = {n: engine.read_metadata(exam.store, below(place.path, n), item.name) for n in names}
    if not all(isinstance(node, ArrayMetadata) and node.ndim for node in found.values()):
        return None
    return {name: node.shape[0] for name, node in found.items()}


def _chunks_end_with_length(exam: Examination, place: Place, item: Format, names: list[str]) -> bool:
    """Return whether the chunks of columns end where their lengths say.

    If they hold more rows, the length may be damaged, and can't be relied on.
    """
    columns = _columns(exam, place, item, names)
    if columns is None or item.has_groups:
        return False
    for array, _ in columns:
        length, grid = array.metadata.shape[0], array.metadata.grid
        count = grid.counts(array.metadata.shape)[0]
        zeros = (0,) * (array.metadata.ndim - 1)
        if exam.store.exists(array.key((count, *zeros))):
            return False
        if not count:
            continue
        last = (count - 1, *zeros)
        rows = stored_rows(array, last, array.key(last))
        if rows is None or grid.axes[0].start(count - 1) + rows > length:
            return False
    return True


def _cut_to_shortest(exam: Examination, place: Place, item: Format, names: list[str]) -> None:
    """Cut all columns to the length of the shortest, if the lengths are still as found."""
    lengths = _lengths(exam, place, item, names)
    columns = _columns(exam, place, item, names)
    if lengths is None or columns is None:
        raise ConflictError("the columns can no longer be read")
    shortest = [name for name in names if lengths[name] == min(lengths.values())]
    if names[0] not in shortest and not _chunks_end_with_length(exam, place, item, shortest):
        raise ConflictError("the columns have changed since they were checked")
    engine.level_rows(columns)
