"""The walk of a check: every node below a path, with the names of one group in memory at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tegula import engine
from tegula.display.markup import shorten
from tegula.engine.concurrency.pool import results_of
from tegula.errors import MetadataError, NotFoundError, StoreError, TegulaError
from tegula.formats import FORMATS, Format
from tegula.jobs.checking.arrays import check_arrays
from tegula.jobs.checking.copies import Copies, copies_of
from tegula.jobs.checking.documents import ALL_KEYS, Place, below, own_keys, read_place
from tegula.jobs.checking.examination import Examination, Repair
from tegula.jobs.checking.lengths import check_table
from tegula.jobs.checking.names import foreign, is_record, is_system_file
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores.capabilities import Reclaiming, UnreachableNames
from tegula.tables.columns import column_names

__all__ = ["examine"]

_PAUSE: Final = 0.1  # seconds
_TOGETHER: Final = 8  # levels of a remote hierarchy with members checked at once; each level nests calls


@dataclass(slots=True)
class _OpenGroup:
    """A group whose members are being checked.

    Parameters
    ----------
    place : Place
        The group.
    item : Format or None
        Its format, if it has documents.
    reachable : bool
        Whether every group above it has documents, so that listing from the root finds it.
    pending : iterator of str
        Paths of the members still to be checked.
    copies : list of Copies
        The consolidated metadata it holds.
    members : list of (str, bool)
        Names of the nodes directly below it, and whether they are arrays; kept of tables only.
    errors : int
        Number of errors found before it.
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
    """Check the node at a path and everything below it.

    Raises
    ------
    NotFoundError
        If no node is found.
    """
    root = read_place(exam, exam.path)
    if not root.nodes and not root.damaged and not _survey(exam, root.prefix)[0]:
        raise NotFoundError("there is no array or group", path=f"{exam.store.url}/{exam.path}".rstrip("/"))
    _descend(exam, root, [])
    with exam.listing(exam.path, root.prefix):
        _find_leftovers(exam, root.prefix)
        _find_odd_names(exam, root.prefix)
    exam.close()


def _descend(exam: Examination, place: Place, above: list[_OpenGroup]) -> None:
    """Check the node at a place and everything below it, with an examination of its own.

    `above` holds the open groups that contain it. In a remote store the members of a group are checked at once.
    """
    stack = [*above]
    _enter(exam, place, stack, 0)
    # a stack, since a hierarchy may be deeper than Python's recursion limit
    while len(stack) > len(above):
        current = stack[-1]
        if exam.store.is_remote and len(stack) <= _TOGETHER:

            def examined(path: str, groups: list[_OpenGroup] = stack) -> Examination:
                part = exam.part()
                _descend(part, read_place(part, path), groups)
                return part

            for part in results_of(examined, current.pending, exam.requests):
                exam.add(part)
        path = next(current.pending, None)
        if path is None:
            stack.pop()
            _leave(exam, current)
        else:
            errors = exam.report.errors
            _enter(exam, read_place(exam, path), stack, errors)


def _enter(exam: Examination, place: Place, stack: list[_OpenGroup], errors: int) -> None:
    """Check the node at a path; push a group on the stack of open groups."""
    path = place.path
    above = stack[-1] if stack else None
    reachable = above is None or above.reachable

    # compare the node with its group
    first = place.nodes[0] if place.nodes else None
    if above is not None and above.item is not None and first is not None:
        if above.item is not first[0] and above.item not in (item for item, _ in place.nodes):
            message = f"a {first[0].name} node in a {above.item.name} group, whose readers do not see it"
            exam.find("other-format", path, place.prefix, message)
        if above.table:
            above.members.append((path[len(above.place.prefix) :], isinstance(first[1], ArrayMetadata)))

    # compare it with the consolidated metadata of the groups above
    for copies in (copies for group in stack for copies in group.copies):
        if place.damaged and not place.nodes:
            copies.skip(place)
        for item, metadata in place.nodes:
            copies.compare(place, metadata, item, reachable)

    # check an array
    if first is not None and isinstance(first[1], ArrayMetadata):
        check_arrays(exam, place)
        return

    # push a group, whose members come next
    opened = _OpenGroup(place, None if first is None else first[0], reachable, iter(()), errors=errors)
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
    """Return whether a group is a table: it lists its columns, and the existing ones are arrays.

    AnnData lists columns in the same attribute, but some are groups: categories, or values with a mask.
    """
    item, metadata = place.nodes[0]
    if not isinstance(metadata, GroupMetadata):
        return False
    if metadata.members is not None:
        return True
    try:
        names = column_names(metadata)
    except MetadataError:
        return False  # the attribute of another program
    return names is not None and not any(_is_group(exam, below(place.path, name), item) for name in names)


def _is_group(exam: Examination, path: str, item: Format) -> bool:
    with suppress(TegulaError):
        return isinstance(engine.read_metadata(exam.store, path, item.name), GroupMetadata)
    return False


def _leave(exam: Examination, group: _OpenGroup) -> None:
    """Check a table and consolidated metadata, after all members of a group have been checked."""
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
    """Return the paths of a group's members, and report everything else directly below it."""
    found: list[str] = []

    def surveyed(prefix: str) -> tuple[bool, Examination]:
        part = exam.part()
        with part.listing(place.path, prefix):
            holds, number, of_others = _survey(part, prefix)
            if holds:
                return True, part
            if of_others:
                for key in part.store.list_prefix(prefix):
                    part.find_foreign(place.path, key)
            if number and not place.damaged:
                keys_below = f"there are {number} keys" if number > 1 else "there is one key"
                part.find("stray-prefix", place.path, prefix, f"{keys_below} below it, but no node")
        return False, part

    with exam.listing(place.path, place.prefix):
        keys, prefixes = exam.store.list_dir(place.prefix)
        for key in keys:
            _report_key(exam, place, key)
        for prefix, (holds, part) in zip(prefixes, results_of(surveyed, prefixes, exam.requests)):
            exam.add(part)
            if holds:
                found.append(prefix[:-1])
    return found


def _survey(exam: Examination, prefix: str) -> tuple[bool, int, int]:
    """Return whether there are nodes below a prefix; if not, the numbers of keys and of other libraries' files."""
    if prefix and any(engine.has_node(exam.store, prefix, item) for item in _UNAMBIGUOUS):
        return True, 0, 0  # without listing all its chunks
    number = of_others = 0
    for key in exam.store.list_prefix(prefix):
        name = key.rpartition("/")[2]
        if name in _NODE_NAMES and _makes_node(exam, prefix, key, name):
            return True, 0, 0
        if foreign(key) is None and not is_system_file(key) and not is_record(key):
            number += 1
        else:
            of_others += 1
    return False, number, of_others


_UNAMBIGUOUS = [item for item in FORMATS.values() if item.name != "zarr1"]  # by the names of their documents
_NODE_NAMES = frozenset(key.rpartition("/")[2] for key in ALL_KEYS) - {"attrs", "__attrs__", "__zattr__"}


def _makes_node(exam: Examination, prefix: str, key: str, name: str) -> bool:
    if name in ("storage", "sizes"):  # those of bcolz, in a directory
        return key.endswith((f"/meta/{name}", f"{prefix}meta/{name}"))
    if name != "meta":
        return True
    return exam.store.exists(f"{key[:-4]}attrs") or (exam.store.get(key, (0, 1)) or b"") == b"{"


def _report_key(exam: Examination, place: Place, key: str) -> None:
    """Report a key directly below a group that is not one of its documents."""
    if key[len(place.prefix) :] in own_keys(place) or place.damaged:
        return
    if exam.find_foreign(place.path, key):
        return
    if place.nodes or key[len(place.prefix) :] not in ALL_KEYS:
        exam.find("stray-key", place.path, key, "it is not a document of the group", severity="note")


def _find_odd_names(exam: Examination, prefix: str) -> None:
    """Report values stored under names that are not valid keys."""
    names = exam.store.unreachable(prefix) if isinstance(exam.store, UnreachableNames) else ()
    for name in names:
        exam.find("odd-name", exam.path, shorten(name), "the name is not a valid key, so nothing reads it")


def _find_implicit(exam: Examination, place: Place) -> None:
    """Report a group without documents, if the format of its members has documents for groups."""
    exam.count(groups=1)
    for item in FORMATS.values():
        if item.has_groups:
            names = [*exam.store.prefixes_with(place.prefix, item.node_keys)]
            if names:
                exam.find(
                    "implicit-group",
                    place.path,
                    place.prefix,
                    f"there are {item.name} nodes, but no document of a group",
                )
                return


def _find_leftovers(exam: Examination, prefix: str) -> None:
    """Report temporary files of dead writers, which are not keys."""
    store = exam.store
    if not isinstance(store, Reclaiming):
        return

    def act() -> None:
        store.reclaim(prefix)
        left = next(store.leftovers(prefix), None)
        if left is not None:
            raise StoreError("it can't be removed", key=left)

    repair = Repair("remove it", act)
    found = {*store.leftovers(prefix)}
    if found:
        time.sleep(_PAUSE)  # the writer of a new file may not have locked it yet
        found &= {*store.leftovers(prefix)}
    for name in sorted(found):
        exam.find("temporary-file", name.rpartition("/")[0], name, "left by a writer that died", repair=repair)
