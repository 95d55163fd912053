"""Check of a table: its columns are those that it lists, and of one length."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from tegula import engine
from tegula.engine import StoredArray
from tegula.engine.copying.verifying import ends_with_length
from tegula.errors import ConflictError, MetadataError, TegulaError
from tegula.jobs.checking.documents import Visit
from tegula.jobs.checking.examination import Repair
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores.capabilities import lock
from tegula.tables.columns import column_names

__all__ = ["check_table", "columns_of"]

_READS: Final = 50  # attempts at reading the lengths of columns
_STEADY: Final = 5  # reads in a row that must give the same lengths
_PAUSE: Final = 0.02  # seconds between two reads


def columns_of(visit: Visit) -> tuple[str, ...] | None:
    """Return the columns of a table: a group that lists its columns, the existing ones of which are arrays.

    AnnData lists columns in the same attribute, but some are groups: categories, or values with a mask.
    """
    fmt, group = visit.nodes[0]
    if not isinstance(group, GroupMetadata):
        return None
    try:
        names = column_names(group)
    except MetadataError:
        return None  # the attribute of another program
    for name in names or () if group.members is None else ():
        with suppress(TegulaError):
            column = engine.read_metadata(visit.exam.store, visit.prefix + name, fmt.name)
            if isinstance(column, GroupMetadata):
                return None
    return names


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
