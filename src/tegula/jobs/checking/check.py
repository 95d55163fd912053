"""`tegula.check`: checks documents, chunks and other keys of nodes, and repairs the faults that it can without loss.

The walk visits every node below a path, with the names of one group in memory at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tegula import engine
from tegula.arrays.keywords import known_keywords
from tegula.display.markup import shorten
from tegula.engine import StoredArray
from tegula.engine.concurrency.pool import results_of
from tegula.engine.copying.verifying import ends_with_length
from tegula.engine.documents.implied_keys import listable
from tegula.errors import ConflictError, MetadataError, NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.formats import FORMATS
from tegula.hierarchy.drafts import place_of
from tegula.hierarchy.opening import open as open_any
from tegula.hierarchy.viewed import store_to_read
from tegula.hierarchy.walking import Node, arrays_below
from tegula.jobs.checking.arrays import CODE, check_arrays
from tegula.jobs.checking.documents import DOCUMENT_KEYS, ConsolidatedCheck, Visit, consolidated_checks, visited
from tegula.jobs.checking.findings import KINDS, CheckReport, Examination, Finding, Repair
from tegula.jobs.plans import Piece, Plan
from tegula.jobs.sharing import piece_for, sharing
from tegula.jobs.units import Progress, one_at_a_time
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store
from tegula.stores.capabilities import Reclaiming, UnreachableNames, lock
from tegula.stores.targets.opening import check_options
from tegula.stores.targets.paths import address_of, refuse_missing
from tegula.tables.columns import column_names

if TYPE_CHECKING:
    from tegula.arrays.arguments import Missing, SourceLike

__all__ = ["KINDS", "CheckReport", "Finding", "Progress", "check"]

_PAUSE: Final = 0.1  # seconds until a new temporary file has been locked by its writer
_READS: Final = 50  # attempts at reading the lengths of columns
_STEADY: Final = 5  # reads in a row that must give the same lengths
_BETWEEN: Final = 0.02  # seconds between two reads
_TOGETHER: Final = 8  # levels of a remote hierarchy with members checked at once; each level nests calls
_UNAMBIGUOUS: Final = [fmt for fmt in FORMATS.values() if fmt.name != "zarr1"]  # by the names of their documents
_NODE_NAMES: Final = {key.rpartition("/")[2] for key in DOCUMENT_KEYS} - {"attrs", "__attrs__", "__zattr__"}


@known_keywords
def check(
    source: SourceLike,
    *,
    path: str = "",
    repair: bool = False,
    dry_run: bool = False,
    max_findings: int = 10_000,
    progress: Progress | None = None,
    announce: Callable[[Finding], None] | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
    ledger: Any = None,
) -> CheckReport:
    """Check an array, or a group or table with all its members, for damaged, missing and stray data.

    Every document is parsed and every stored chunk decoded; one fault does not hide another. Chunks that are not stored
    are faults with ``missing_chunks="error"``. Nothing is changed unless `repair` is true:
    each finding then says what repairing would do. Memory is bounded by a few chunks, the names of
    the open groups, and the findings that are kept.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node, or where it is stored.
    path : str
        Path below it.
    repair : bool
        Repair faults that can be repaired without loss: remove temporary files of dead writers, rewrite consolidated
        metadata, wrong counts and members that a specification does not allow, state the keys that the chunks have,
        and cut off rows that were not written to all columns of a table.
    dry_run : bool
        Repair nothing, even if `repair` is true; the attribute `repair` of each finding says what would be done.
    max_findings : int
        Number of findings to keep; all are counted.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its total bytes.
    announce : callable, optional
        Called with a finding before it is repaired.
    allow_pickle : bool
        Allow unpickling of chunks, which can run any code.
    missing_chunks : {"fill", "error"}, optional
        Whether chunks that are not stored, inner chunks of shards included, are faults. By default the node says it, or
        else the setting.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    runner, workers : optional
        How the chunks are decoded, as for `tegula.convert`.
    ledger : str, path, mapping or Store, optional
        A directory or bucket that records which chunks have no faults, so that the same call can continue later.

    Returns
    -------
    CheckReport

    Raises
    ------
    NotFoundError
        If no node is found.
    ReadOnlyError
        If `repair` is true and the store, or the node, is read-only.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> g = tegula.create_group(store)
    >>> a = g.create_array("a", shape=4, dtype="u1")
    >>> g.consolidate()
    >>> a.attrs["unit"] = "m"
    >>> print(tegula.check(store, repair=True))
    memory:...: 1 group, 1 array, 0 chunks: nothing wrong, 1 repaired
    repaired: consolidated-differs: zarr.json: the copy of 'a' differs from the document
    """
    if type(max_findings) is not int or max_findings < 0:
        raise MetadataError(f"{max_findings!r:.80} is not a number of findings", field="max_findings")
    start = time.perf_counter()
    writes = repair and not dry_run
    source, path, _ = address_of(source, path)
    check_options(source, storage_options)
    if isinstance(source, Node):
        store, path = source.store, f"{source.path}/{path}".strip("/")
    else:
        if writes:
            refuse_missing(source)  # before an archive is created
        opened = store_to_read(source, read_only=not writes, storage_options=storage_options)
        store, path = place_of(opened, path)
        if store is opened:
            refuse_missing(source)
    try:
        if writes and (store.read_only or (isinstance(source, Node) and source.read_only)):
            raise ReadOnlyError('it was opened for reading; open it with mode="r+" to repair it', path=store.url)
        listed = listable(store, path, damaged=True)
        rule = source.missing_chunks if isinstance(source, Node) else None
        if missing_chunks is not None:
            rule = engine.missing_rule(missing_chunks)
        exam = Examination(listed, path, max_findings, one_at_a_time(progress), allow_pickle, rule)
        if listed is not store:
            message = "the store can't be listed, so only known keys are checked"
            exam.find("not-listed", path, f"{path}/" if path else "", message)
        plan, pieces = Plan("check", {}, exam.source, ""), partial(_pieces, listed, path, allow_pickle)
        with sharing(plan, CODE, pieces, [store], runner=runner, workers=workers, ledger=ledger) as exam.share:
            _examine(exam)
        failed_repairs = exam.repair(announce) if writes else {}
    finally:
        if store is not source and not isinstance(source, Node):
            store.close()
    report = exam.report()
    report.failed_repairs, report.seconds = failed_repairs, time.perf_counter() - start
    return report


def _pieces(store: Store, path: str, allow_pickle: bool) -> Iterator[Piece]:
    """Yield the arrays that can be read, for the plan of a job."""
    with suppress(TegulaError):
        node = open_any(store, path=path, allow_pickle=allow_pickle)
        for name, array in arrays_below(node, {}):
            yield piece_for(name, array)


@dataclass(slots=True)
class _OpenGroup:
    """A group whose members are being checked."""

    visit: Visit
    reachable: bool  # it and every group above it have documents, so that listing from the root finds it
    pending: Iterator[str]  # paths of the members still to be checked
    consolidated: list[ConsolidatedCheck]
    columns: tuple[str, ...] | None  # those that it lists, if it is a table
    members: dict[str, bool] = field(default_factory=dict)  # of a table: their names, and whether they are arrays


def _examine(exam: Examination) -> None:
    """Check the node at a path and everything below it."""
    root = visited(exam, exam.path)
    if not root.nodes and not root.damaged and _stray_keys(exam.part(), exam.path, root.prefix) is not None:
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
    stack = [*above]
    _enter(visit, stack)
    # a stack, since a hierarchy may be deeper than Python's recursion limit
    while len(stack) > len(above):
        current = stack[-1]
        exam = current.visit.exam
        if exam.store.is_remote and len(stack) <= _TOGETHER:

            def examined(path: str, groups: list[_OpenGroup] = stack, exam: Examination = exam) -> Examination:
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
            _enter(visited(exam, path), stack)


def _enter(visit: Visit, stack: list[_OpenGroup]) -> None:
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
        columns = _columns_of(visit)
        exam.count(**{"groups" if columns is None else "tables": 1})
    elif not visit.damaged:
        reachable = False
        exam.count(groups=1)
        formats = [fmt for fmt in FORMATS.values() if fmt.has_groups and not fmt.folders_are_groups]
        members = (fmt for fmt in formats if any(exam.store.prefixes_with(visit.prefix, fmt.node_keys)))
        if (fmt := next(members, None)) is not None:
            visit.find("implicit-group", "", f"there are {fmt.name} nodes, but no document of a group")
    stack.append(_OpenGroup(visit, reachable, iter(_members(visit)), consolidated, columns))


def _leave(group: _OpenGroup) -> None:
    """Check a table and consolidated metadata, after all members of a group have been checked."""
    visit = group.visit
    if group.columns is not None:
        with visit.listing():
            _check_table(visit, group.columns, group.members)
    for check in group.consolidated:
        with visit.listing():
            check.close()


def _members(visit: Visit) -> list[str]:
    """Return the paths of a group's members, and report everything else directly below it."""
    exam, members, own = visit.exam, list[str](), visit.own_keys()

    def surveyed(prefix: str) -> Examination | None:
        part = exam.part()
        with part.listing(visit.path, prefix):
            number = _stray_keys(part, visit.path, prefix)
            if number is None:
                return None
            if number and not visit.damaged:
                keys_below = f"there are {number} keys" if number > 1 else "there is one key"
                part.find("stray-prefix", visit.path, prefix, f"{keys_below} below it, but no node")
        return part

    with visit.listing():
        keys, prefixes = exam.store.list_dir(visit.prefix)
        for name in (key[len(visit.prefix) :] for key in keys):
            if name in own or visit.damaged or exam.find_foreign(visit.path, visit.prefix + name):
                continue
            if visit.nodes or name not in DOCUMENT_KEYS:
                visit.find("stray-key", name, "it is not a document of the group", severity="note")
        for prefix, part in zip(prefixes, results_of(surveyed, prefixes, exam.store.concurrency)):
            if part is None:
                members.append(prefix[:-1])
            else:
                exam.add(part)
    return members


def _stray_keys(exam: Examination, path: str, prefix: str) -> int | None:
    """Return the number of keys below a prefix, apart from those of other programs; ``None`` if there are nodes."""
    if prefix and any(engine.has_node(exam.store, prefix, fmt) for fmt in _UNAMBIGUOUS):
        return None  # without listing all its chunks
    number = 0
    for key in exam.store.list_prefix(prefix):
        name = key.rpartition("/")[2]
        if name in _NODE_NAMES and _makes_node(exam, prefix, key, name):
            return None
        number += not exam.find_foreign(path, key)
    return number


def _makes_node(exam: Examination, prefix: str, key: str, name: str) -> bool:
    if name in ("storage", "sizes"):  # those of bcolz, in a directory
        return key.endswith((f"/meta/{name}", f"{prefix}meta/{name}"))
    if name != "meta":
        return True
    return exam.store.exists(f"{key[:-4]}attrs") or (exam.store.get(key, (0, 1)) or b"") == b"{"


def _find_leftovers(exam: Examination, prefix: str) -> None:
    """Report temporary files of dead writers, which are not keys."""
    store = exam.store
    if not isinstance(store, Reclaiming):
        return

    def act() -> None:
        store.reclaim(prefix)
        leftover = next(store.leftovers(prefix), None)
        if leftover is not None:
            raise StoreError("it can't be removed", key=leftover)

    repair = Repair("remove it", act)
    leftovers = {*store.leftovers(prefix)}
    if leftovers:
        time.sleep(_PAUSE)
        leftovers &= {*store.leftovers(prefix)}
    for name in sorted(leftovers):
        exam.find("temporary-file", name.rpartition("/")[0], name, "left by a writer that died", repair=repair)


def _columns_of(visit: Visit) -> tuple[str, ...] | None:
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
    if names is None or group.members is not None:
        return names
    for name in names:
        with suppress(TegulaError):
            column = engine.read_metadata(visit.exam.store, visit.prefix + name, fmt.name)
            if isinstance(column, GroupMetadata):
                return None
    return names


def _check_table(visit: Visit, names: Sequence[str], members: Mapping[str, bool]) -> None:
    """Compare the columns that a table lists with its members, and their lengths with each other.

    `members` says of each member whether it is an array.
    """
    metadata = visit.nodes[0][1]
    sound = visit.exam.numbers["errors"] == visit.errors  # after an error in the table lengths are uncertain
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
        time.sleep(_BETWEEN)
    return {}


def _stored(visit: Visit, name: str, column: ArrayMetadata) -> tuple[StoredArray, str]:
    exam, path = visit.exam, visit.prefix + name
    return engine.stored_array(exam.store, path, column, allow_pickle=exam.allow_pickle), path
