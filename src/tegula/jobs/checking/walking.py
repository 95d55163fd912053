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
from tegula.formats import FORMATS
from tegula.jobs.checking.arrays import check_arrays
from tegula.jobs.checking.consolidated import ConsolidatedCheck, consolidated_checks
from tegula.jobs.checking.documents import DOCUMENT_KEYS, Visit, visited
from tegula.jobs.checking.examination import Examination, Repair, foreign_key
from tegula.jobs.checking.lengths import check_table
from tegula.metadata.nodes import GroupMetadata
from tegula.stores.capabilities import Reclaiming, UnreachableNames
from tegula.tables.columns import column_names

__all__ = ["examine"]

_PAUSE: Final = 0.1  # seconds
_TOGETHER: Final = 8  # levels of a remote hierarchy with members checked at once; each level nests calls
_UNAMBIGUOUS: Final = [fmt for fmt in FORMATS.values() if fmt.name != "zarr1"]  # by the names of their documents
_NODE_NAMES: Final = {key.rpartition("/")[2] for key in DOCUMENT_KEYS} - {"attrs", "__attrs__", "__zattr__"}


@dataclass(slots=True)
class _OpenGroup:
    """A group whose members are being checked.

    Parameters
    ----------
    visit : Visit
        The group.
    reachable : bool
        Whether it and every group above it has documents, so that listing from the root finds it.
    errors : int
        Number of errors found before it.
    pending : iterator of str
        Paths of the members still to be checked.
    consolidated : list of ConsolidatedCheck
        The consolidated metadata it holds.
    columns : sequence of str, optional
        The columns that it lists, if it is a table.
    members : dict of str to bool
        Names of the nodes directly below it, and whether they are arrays; kept of tables only.
    """

    visit: Visit
    reachable: bool
    errors: int
    pending: Iterator[str]
    consolidated: list[ConsolidatedCheck]
    columns: tuple[str, ...] | None
    members: dict[str, bool] = field(default_factory=dict)


def examine(exam: Examination) -> None:
    """Check the node at a path and everything below it.

    Raises
    ------
    NotFoundError
        If no node is found.
    """
    root = visited(exam, exam.path)
    if not root.nodes and not root.damaged and not _survey(exam, root.prefix)[0]:
        raise NotFoundError("there is no array or group", path=exam.source)
    _descend(root, [])
    with root.listing():
        _find_leftovers(exam, root.prefix)
        # values under names that are not valid keys
        names = exam.store.unreachable(root.prefix) if isinstance(exam.store, UnreachableNames) else ()
        for name in names:
            exam.find("odd-name", exam.path, shorten(name), "the name is not a valid key, so nothing reads it")
    exam.close()


def _descend(visit: Visit, above: list[_OpenGroup]) -> None:
    """Check the node of a visit and everything below it, with an examination of its own.

    `above` holds the open groups that contain it. In a remote store the members of a group are checked at once.
    """
    exam, stack = visit.exam, [*above]
    _enter(visit, stack, 0)
    # a stack, since a hierarchy may be deeper than Python's recursion limit
    while len(stack) > len(above):
        current = stack[-1]
        if exam.store.is_remote and len(stack) <= _TOGETHER:

            def examined(path: str, groups: list[_OpenGroup] = stack) -> Examination:
                part = exam.part()
                _descend(visited(part, path), groups)
                return part

            for part in results_of(examined, current.pending, exam.store.concurrency):
                exam.add(part)
        path = next(current.pending, None)
        if path is None:
            stack.pop()
            _leave(current)
        else:
            errors = exam.numbers["errors"]
            _enter(visited(exam, path), stack, errors)


def _enter(visit: Visit, stack: list[_OpenGroup], errors: int) -> None:
    """Check the node of a visit; push a group on the stack of open groups."""
    exam, above = visit.exam, stack[-1] if stack else None
    reachable = above is None or above.reachable

    # compare the node with its group
    if above is not None and above.visit.nodes and visit.nodes:
        group = above.visit.fmt
        if all(fmt is not group for fmt, _ in visit.nodes):
            message = f"a {visit.fmt.name} node in a {group.name} group, whose readers do not see it"
            visit.find("other-format", "", message)
        if above.columns is not None:
            above.members[visit.path[len(above.visit.prefix) :]] = bool(visit.arrays)

    # compare it with the consolidated metadata of the groups above
    for check in (check for group in stack for check in group.consolidated):
        check.compare(visit, reachable)

    # check an array, or push a group, whose members come next
    if visit.arrays:
        check_arrays(exam, visit)
        return
    consolidated, columns = consolidated_checks(visit), None
    if visit.nodes:
        for check in consolidated:
            check.compare(visit, reachable)
        columns = _columns(visit)
        exam.count(**{"groups" if columns is None else "tables": 1})
    elif not visit.damaged:
        reachable = False
        _find_implicit(visit)
    stack.append(_OpenGroup(visit, reachable, errors, iter(_members(visit)), consolidated, columns))


def _columns(visit: Visit) -> tuple[str, ...] | None:
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


def _leave(group: _OpenGroup) -> None:
    """Check a table and consolidated metadata, after all members of a group have been checked."""
    visit = group.visit
    if group.columns is not None:
        with visit.listing():
            check_table(visit, group.columns, group.members, visit.exam.numbers["errors"] == group.errors)
    for check in group.consolidated:
        with visit.listing():
            check.close()


def _members(visit: Visit) -> list[str]:
    """Return the paths of a group's members, and report everything else directly below it."""
    exam, members, own = visit.exam, list[str](), visit.own_keys()

    def surveyed(prefix: str) -> tuple[bool, Examination]:
        part = exam.part()
        with part.listing(visit.path, prefix):
            holds, number, of_others = _survey(part, prefix)
            if holds:
                return True, part
            if of_others:
                for key in part.store.list_prefix(prefix):
                    part.find_foreign(visit.path, key)
            if number and not visit.damaged:
                keys_below = f"there are {number} keys" if number > 1 else "there is one key"
                part.find("stray-prefix", visit.path, prefix, f"{keys_below} below it, but no node")
        return False, part

    with visit.listing():
        keys, prefixes = exam.store.list_dir(visit.prefix)
        for name in (key[len(visit.prefix) :] for key in keys):
            if name in own or visit.damaged or exam.find_foreign(visit.path, visit.prefix + name):
                continue
            if visit.nodes or name not in DOCUMENT_KEYS:
                visit.find("stray-key", name, "it is not a document of the group", severity="note")
        for prefix, (holds, part) in zip(prefixes, results_of(surveyed, prefixes, exam.store.concurrency)):
            exam.add(part)
            if holds:
                members.append(prefix[:-1])
    return members


def _survey(exam: Examination, prefix: str) -> tuple[bool, int, int]:
    """Return whether there are nodes below a prefix; if not, the numbers of keys and of other programs' files."""
    if prefix and any(engine.has_node(exam.store, prefix, fmt) for fmt in _UNAMBIGUOUS):
        return True, 0, 0  # without listing all its chunks
    number = of_others = 0
    for key in exam.store.list_prefix(prefix):
        name = key.rpartition("/")[2]
        if name in _NODE_NAMES and _makes_node(exam, prefix, key, name):
            return True, 0, 0
        if foreign_key(key) is None:
            number += 1
        else:
            of_others += 1
    return False, number, of_others


def _makes_node(exam: Examination, prefix: str, key: str, name: str) -> bool:
    if name in ("storage", "sizes"):  # those of bcolz, in a directory
        return key.endswith((f"/meta/{name}", f"{prefix}meta/{name}"))
    if name != "meta":
        return True
    return exam.store.exists(f"{key[:-4]}attrs") or (exam.store.get(key, (0, 1)) or b"") == b"{"


def _find_implicit(visit: Visit) -> None:
    """Report a group without documents, if the format of its members has documents for groups."""
    visit.exam.count(groups=1)
    for fmt in FORMATS.values():
        if fmt.has_groups and next(visit.exam.store.prefixes_with(visit.prefix, fmt.node_keys), None) is not None:
            visit.find("implicit-group", "", f"there are {fmt.name} nodes, but no document of a group")
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
    leftovers = {*store.leftovers(prefix)}
    if leftovers:
        time.sleep(_PAUSE)  # the writer of a new file may not have locked it yet
        leftovers &= {*store.leftovers(prefix)}
    for name in sorted(leftovers):
        exam.find("temporary-file", name.rpartition("/")[0], name, "left by a writer that died", repair=repair)
