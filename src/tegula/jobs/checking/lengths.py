"""Check of lengths: the counts in ``meta/sizes`` of bcolz, and the lengths of a table's columns."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from tegula import engine
from tegula.engine import StoredArray
from tegula.engine.copying.verifying import ends_with_length
from tegula.errors import ConflictError, TegulaError
from tegula.formats import Format
from tegula.formats.documents import load, rewrite
from tegula.formats.styles import Style
from tegula.jobs.checking.documents import Visit, write_document
from tegula.jobs.checking.examination import Repair
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores.capabilities import EmptyDirectories, lock

__all__ = ["check_counts", "check_directory", "check_table"]

_HEADER: Final = 16  # bytes of the header of a chunk's file, which some libraries do not count
_STYLE: Final = Style(indent=None, spaced=True, ending="\n")
_READS: Final = 50  # attempts at reading the lengths of columns
_STEADY: Final = 5  # reads in a row that must give the same lengths
_PAUSE: Final = 0.02  # seconds between two reads


def check_directory(visit: Visit, metadata: ArrayMetadata) -> None:
    """Check that the directory of the chunks exists, which bcolz requires even if it is empty."""
    name, store = metadata.keys.prefix.rpartition("/")[0] + "/", visit.exam.store
    if isinstance(store, EmptyDirectories) and not store.has_prefix(visit.prefix + name):
        repair = Repair("create the directory", lambda: store.make_prefix(visit.prefix + name))
        visit.find("missing-directory", name, "the directory does not exist", repair=repair)


def check_counts(visit: Visit, fmt: Format, metadata: ArrayMetadata, stored: tuple[int, int], sure: bool) -> None:
    """Compare the numbers of bytes in ``meta/sizes`` with those of the `stored` files, inside the grid and beyond it.

    Libraries count the stored bytes differently: with the headers of the files or without, the rows of the last chunk
    uncompressed, twice, or not at all. The counts are rewritten only if the chunks end exactly where the length says
    (`sure`), so that nothing but the counts can be wrong.
    """
    key, store = visit.prefix + fmt.shape_key, visit.exam.store
    raw, generation = store.get(key, with_generation=True)
    if raw is None or raw != metadata.documents.get(fmt.shape_key):
        return  # another process has changed it, and has counted again
    variable, length = metadata.data_type.variable, metadata.shape[0]
    row = math.prod(metadata.shape[1:]) * metadata.data_type.numpy.itemsize
    count, chunk = metadata.grid.counts(metadata.shape)[0], metadata.grid.largest_chunk()[0]

    # the least that libraries count: whole chunks without headers; and the most
    least, most = stored[0] - _HEADER * count, sum(stored)
    if length % chunk:
        last = visit.prefix + metadata.keys.encode((count - 1, *(0,) * (metadata.ndim - 1)))
        least -= max(0, (store.size(last) or 0) - _HEADER)
    most += row * (metadata.extra.get("chunklen", 0) if variable else chunk)

    sizes = load(raw, key)
    nbytes, cbytes = sizes.get("nbytes"), sizes.get("cbytes")
    wrong: dict[str, tuple[Any, int]] = {}
    if not variable and nbytes is not None and nbytes != length * row:
        wrong["nbytes"] = (nbytes, length * row)
    if cbytes is not None and not (type(cbytes) is int and least <= cbytes <= most):
        wrong["cbytes"] = (cbytes, least + (0 if variable else chunk * row))
    if not wrong:
        return
    new = rewrite({fmt.shape_key: raw}, fmt.shape_key, {name: true for name, (_, true) in wrong.items()}, _STYLE)
    text = " and ".join(f"{name} is {stated!r:.40}, not {true}" for name, (stated, true) in wrong.items())
    act = partial(write_document, visit.exam, key, new, generation)
    repair = Repair("write the correct numbers", act) if sure else None
    visit.find("wrong-counts", fmt.shape_key, text, severity=None if "nbytes" in wrong else "note", repair=repair)


def check_table(visit: Visit, names: Sequence[str], members: Mapping[str, bool], sound: bool) -> None:
    """Compare the columns that a table lists with its members, and their lengths with each other.

    `members` says of each member whether it is an array. After an error in the table, which is then not `sound`,
    lengths are uncertain, and are not repaired.
    """
    metadata = visit.nodes[0][1]
    arrays = {name for name, is_array in members.items() if is_array}
    for name in names:
        if name not in arrays:
            message = f"{name!r} is not an array" if name in members else f"there is no column {name!r}"
            visit.find("missing-column", f"{name}/", message)
    if isinstance(metadata, GroupMetadata) and metadata.members is not None:
        for name in sorted(arrays - {*names}):
            visit.find("unlisted-column", f"{name}/", f"the table does not list {name!r} among its columns")
    if present := [name for name in names if name in arrays]:
        # an unlisted array may be a column or something else, such as an index, so nothing is repaired
        _check_lengths(visit, present, sound and arrays == {*names})


def _check_lengths(visit: Visit, names: list[str], sound: bool) -> None:
    columns = _columns(visit, names)
    lengths = {name: column.shape[0] for name, column in columns.items()}
    rows = min(lengths.values(), default=0)
    shortest = [name for name, length in lengths.items() if length == rows]
    if len(shortest) == len(lengths):
        return

    def cut() -> None:
        now = _columns(visit, names)
        if {name: column.shape[0] for name, column in now.items()} != lengths:
            raise ConflictError("the columns have changed since they were checked")
        engine.level_rows([_stored(visit, name, column) for name, column in now.items()])

    unfinished = names[0] in shortest
    # the chunks of bcolz show where a column ends; if they hold more rows, its length may be damaged
    certain = unfinished or not visit.fmt.has_groups
    if sound and certain and not unfinished:
        certain = all(ends_with_length(_stored(visit, name, columns[name])[0]) for name in shortest)
    text = f"make all columns {rows} rows long, as the table is; the rows beyond stay in their chunks, unread"
    repair = Repair(text, cut) if sound and certain else None
    listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
    key, message = f"{shortest[0]}/{visit.fmt.shape_key}", f"the columns differ in length: {listed}"[:400]
    visit.find("unequal-columns", key, message, severity="warning" if unfinished else "error", repair=repair)


def _columns(visit: Visit, names: list[str]) -> dict[str, ArrayMetadata]:
    """Read columns under their lock; return none if they can't be read, or their lengths keep changing.

    An append holds the lock of the first column. In a store without locks, the lengths count if several reads in a
    row agree.
    """
    steady, last = 0, list[int]()
    for _ in range(_READS):
        columns = dict[str, ArrayMetadata]()
        try:
            with lock(visit.exam.store, f"{visit.prefix}{names[0]}/{visit.fmt.node_keys[0]}") as locked:
                for name in names:
                    column = engine.read_metadata(visit.exam.store, visit.prefix + name, visit.fmt.name)
                    if not isinstance(column, ArrayMetadata) or not column.ndim:
                        return {}
                    columns[name] = column
        except TegulaError:
            return {}
        lengths = [column.shape[0] for column in columns.values()]
        steady = steady + 1 if lengths == last else 0
        if locked or len({*lengths}) == 1 or steady == _STEADY:
            return columns
        last = lengths
        time.sleep(_PAUSE)
    return {}


def _stored(visit: Visit, name: str, column: ArrayMetadata) -> tuple[StoredArray, str]:
    exam, path = visit.exam, visit.prefix + name
    return engine.stored_array(exam.store, path, column, allow_pickle=exam.allow_pickle), path
