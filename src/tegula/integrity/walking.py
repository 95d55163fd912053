"""The walk: every node below a path, whatever is wrong with others, with the names of one group in memory at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tegula import engine
from tegula.columns import column_names
from tegula.errors import MetadataError, NotFoundError, StoreError, TegulaError
from tegula.formats import FORMATS, Format
from tegula.integrity.arrays import check_arrays
from tegula.integrity.copies import Copies, copies_of
from tegula.integrity.documents import ALL_KEYS, Place, below, look, own_keys
from tegula.integrity.examination import Examination, Repair
from tegula.integrity.lengths import check_table
from tegula.integrity.names import foreign, is_system_file
from tegula.markup import shorten
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata

__all__ = ["examine"]

_PAUSE: Final = 0.1  # seconds


@dataclass(slots=True)
class _Open:
    """A group whose members are being looked at.

    Parameters
    ----------
    place : Place
        The group.
    item : Format or None
        Its format, if it has documents.
    reachable : bool
        Whether every group above it has documents, so that a walk from the root comes here.
    pending : iterator of str
        Paths of what is below it and still to be looked at.
    copies : list of Copies
        The consolidated metadata it holds.
    members : list of (str, bool)
        Names of the nodes directly below it, and whether they are arrays; kept of tables only.
    errors : int
        How many errors there were before it was come to.
    table : bool
        Whether it is a table.
    """

    place: Place
    item: Format | None
    reachable: bool
    pending: Iterator[str]
    copies: list[Copies] = field(default_factory=list)
    members: list[tuple[str, bool]] = field(default_factory=list)
    errors: int = 0
    table: bool = False


def examine(exam: Examination) -> None:
    """Look at everything at a path and below it.

    Raises
    ------
    NotFoundError
        If there is nothing that looks like a node.
    """
    root = look(exam, exam.path)
    if not root.nodes and not root.damaged and not _survey(exam, root.prefix)[0]:
        raise NotFoundError("there is no array or group", path=f"{exam.store.url}/{exam.path}".rstrip("/"))
    stack: list[_Open] = []
    _enter(exam, root, stack, 0)
    while stack:
        current = stack[-1]
        path = next(current.pending, None)
        if path is None:
            stack.pop()
            _leave(exam, current)
        else:
            errors = exam.report.errors
            _enter(exam, look(exam, path), stack, errors)
    with exam.listing(exam.path, root.prefix):
        _find_leftovers(exam, root.prefix)
        _find_odd_names(exam, root.prefix)
    exam.close()


def _enter(exam: Examination, place: Place, stack: list[_Open], errors: int) -> None:
    """Look at one place; if it is a group, put it on the stack of those to be gone through."""
    path = place.path
    above = stack[-1] if stack else None
    reachable = above is None or above.reachable
    first = place.nodes[0] if place.nodes else None
    if above is not None and above.item is not None and first is not None:
        if above.item is not first[0] and above.item not in (item for item, _ in place.nodes):
            message = f"a node of {first[0].name} in a group of {above.item.name}, whose readers do not see it"
            exam.find("other-format", path, place.prefix, message)
        if above.table:
            above.members.append((path[len(above.place.prefix) :], isinstance(first[1], ArrayMetadata)))
    for copies in (copies for group in stack for copies in group.copies):
        if place.damaged and not place.nodes:
            copies.skip(place)
        for item, metadata in place.nodes:
            copies.compare(place, metadata, item, reachable)
    if first is not None and isinstance(first[1], ArrayMetadata):
        check_arrays(exam, place)
        return
    opened = _Open(place, None if first is None else first[0], reachable, iter(()), errors=errors)
    if first is None and not place.damaged:
        opened.reachable = False
        _find_implicit(exam, place)
    else:
        for item, metadata in place.nodes:
            mine = copies_of(exam, place, item, metadata)
            if mine is not None:
                mine.compare(place, metadata, item, reachable)
                opened.copies.append(mine)
        if first is not None:
            opened.table = _is_table(exam, place)
            exam.count(**{"tables" if opened.table else "groups": 1})
    opened.pending = iter(_members(exam, place))
    stack.append(opened)


def _is_table(exam: Examination, place: Place) -> bool:
    """Return whether a group is a table: one that lists its columns, all of them arrays as far as they are there.

    AnnData lists columns in the same attribute that are groups: of categories, say, or of values and their mask.
    """
    item, metadata = place.nodes[0]
    if not isinstance(metadata, GroupMetadata):
        return False
    if metadata.members is not None:
        return True
    try:
        names = column_names(metadata)
    except MetadataError:
        return False  # the attribute is one of another program
    return names is not None and not any(_is_group(exam, below(place.path, name), item) for name in names)


def _is_group(exam: Examination, path: str, item: Format) -> bool:
    with suppress(TegulaError):
        return isinstance(engine.read_metadata(exam.store, path, item.name), GroupMetadata)
    return False


def _leave(exam: Examination, group: _Open) -> None:
    if group.item is not None and group.table:
        metadata = group.place.nodes[0][1]
        if isinstance(metadata, GroupMetadata):
            with exam.listing(group.place.path, group.place.prefix):
                sound = exam.report.errors == group.errors
                check_table(exam, group.place, (group.item, metadata), group.members, sound)
    for copies in group.copies:
        with exam.listing(group.place.path, group.place.prefix):
            copies.close()


def _members(exam: Examination, place: Place) -> list[str]:
    """Return the paths below a group that hold nodes, and account for everything else directly below it."""
    found: list[str] = []
    with exam.listing(place.path, place.prefix):
        keys, prefixes = exam.store.list_dir(place.prefix)
        for key in keys:
            _account_for(exam, place, key)
        for prefix in prefixes:
            with exam.listing(place.path, prefix):
                holds, number, of_others = _survey(exam, prefix)
                if holds:
                    found.append(prefix[:-1])
                    continue
                if of_others:
                    _find_foreign(exam, place, prefix)
                if number and not place.damaged:
                    keys_below = f"there are {number} keys" if number > 1 else "there is one key"
                    exam.find("stray-prefix", place.path, prefix, f"{keys_below} below it, and no node")
    return found


def _survey(exam: Examination, prefix: str) -> tuple[bool, int, int]:
    """Return whether there are nodes below a prefix; if not, how many keys, and how many of them other libraries'."""
    if prefix and any(engine.has_node(exam.store, prefix, item) for item in _TOLD_BY_NAME):
        return True, 0, 0  # without going through the names of all chunks
    number = of_others = 0
    for key in exam.store.list_prefix(prefix):
        name = key.rpartition("/")[2]
        if name in _NODE_NAMES and _makes_node(exam, prefix, key, name):
            return True, 0, 0
        if foreign(key) is None and not is_system_file(key):
            number += 1
        else:
            of_others += 1
    return False, number, of_others


_TOLD_BY_NAME = [item for item in FORMATS.values() if item.name != "zarr1"]
_NODE_NAMES = frozenset(key.rpartition("/")[2] for key in ALL_KEYS) - {"attrs", "__attrs__", "__zattr__"}


def _makes_node(exam: Examination, prefix: str, key: str, name: str) -> bool:
    if name in ("storage", "sizes"):  # those of bcolz, in a directory
        return key.endswith((f"/meta/{name}", f"{prefix}meta/{name}"))
    if name != "meta":
        return True
    return exam.store.exists(f"{key[:-4]}attrs") or (exam.store.get(key, (0, 1)) or b"") == b"{"


def _account_for(exam: Examination, place: Place, key: str) -> None:
    if key[len(place.prefix) :] in own_keys(place) or place.damaged:
        return
    of_others = foreign(key)
    if is_system_file(key):
        exam.pass_over(key)
    elif of_others is not None:
        exam.find(of_others[0], place.path, key, of_others[1])
    elif place.nodes or key[len(place.prefix) :] not in ALL_KEYS:
        exam.find("stray-key", place.path, key, "it is no document of the group", severity="note")


def _find_foreign(exam: Examination, place: Place, prefix: str) -> None:
    for key in exam.store.list_prefix(prefix):
        of_others = foreign(key)
        if is_system_file(key):
            exam.pass_over(key)
        elif of_others is not None:
            exam.find(of_others[0], place.path, key, of_others[1])


def _find_odd_names(exam: Examination, prefix: str) -> None:
    """Tell of what is stored under names that can't be keys."""
    for name in exam.store.unreachable(prefix):
        exam.find("odd-name", exam.path, shorten(name), "the name can't be a key, so nothing reads what is there")


def _find_implicit(exam: Examination, place: Place) -> None:
    """Tell of a group without documents, if its members are of a format that has documents for groups."""
    exam.count(groups=1)
    for item in FORMATS.values():
        if item.has_groups:
            names = [*exam.store.prefixes_with(place.prefix, item.node_keys)]
            if names:
                exam.find("implicit-group", place.path, place.prefix, f"there are nodes of {item.name}, and no group")
                return


def _find_leftovers(exam: Examination, prefix: str) -> None:
    """Tell of the temporary files of writers that died, which are no keys."""
    store = exam.store

    def act() -> None:
        store.reclaim(prefix)
        left = next(store.leftovers(prefix), None)
        if left is not None:
            raise StoreError("it can't be removed", key=left)

    repair = Repair("remove it", act)
    found = {*store.leftovers(prefix)}
    if found:
        time.sleep(_PAUSE)  # of one that was made just now it can't be told yet that its writer is at work
        found &= {*store.leftovers(prefix)}
    for name in sorted(found):
        exam.find("temporary-file", name.rpartition("/")[0], name, "a writer that died has left it", repair=repair)
