"""`tegula.compare`: compares arrays, tables and hierarchies of any formats, pair by pair and box by box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import Any

from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import gather, results_of
from tegula.errors import MetadataError, TegulaError
from tegula.formats.json_encoding import equal_json
from tegula.hierarchy.ahead import Ahead
from tegula.hierarchy.group import Group
from tegula.hierarchy.sources import Source, Sources
from tegula.jobs.comparing.comparison import Comparison, Difference, What
from tegula.jobs.comparing.differences import (
    Differing,
    Gap,
    are_comparable,
    compare_box,
    compare_fills,
    decodes_alike,
    equal_values,
    native,
    units,
)
from tegula.jobs.masks import attributes_of
from tegula.jobs.misplaced import refuse_misplaced
from tegula.jobs.plans import Plan
from tegula.jobs.sharing import Code, Entry, Share, entry_for, shared_results, sharing, sources_for
from tegula.jobs.units import Progress, one_at_a_time, opened
from tegula.tables.columns import ORDER, column_names
from tegula.tables.table import Table
from tegula.targets.stores import options_of_both

__all__ = ["Comparison", "Difference", "compare"]

Container = Group | Table
AnyNode = Array | Container
_Pair = tuple[str, Any, Any]
"""A path, and for each side the node there, the error from opening it, or ``None``."""

_CODE = Code[Differing]((Differing,))


def compare(
    first: Any,
    second: Any,
    *,
    exact: bool = False,
    max_differences: int = 10_000,
    progress: Progress | None = None,
    allow_pickle: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    second_storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
    ledger: Any = None,
) -> Comparison:
    """Compare two arrays, or two groups or tables with all their members, of any formats, chunks and codecs.

    Shapes, data types, fill values, names of dimensions, attributes and values must be equal, and groups must have the
    same members; chunks and codecs may differ. An undefined fill value counts as zero. Byte order does not
    count. Values are equal if ``==`` says so; NaN equals NaN, NaT equals NaT, and -0.0 equals 0.0. With
    `exact` all bits of the elements must be equal, those of NaN included. Numbers of different types are compared
    after NumPy's conversion, and the difference in type is reported, too. For data from xarray (arrays with dimension
    names) the value that marks missing data counts as an attribute, wherever the format stores it, and the fill value
    only if elements hold it.

    Memory is bounded by two blocks of 64 MiB, or two chunks if these are larger; for remote storage by the setting
    ``buffer_bytes``, since many arrays and blocks are read at once. A chunk is not decoded if both nodes store the
    same bytes for it, with equivalent codecs. If few chunks are stored, only these are visited.

    Parameters
    ----------
    first, second : str, path, mapping, Store, Array, Group or Table
        The two nodes, or where they are stored.
    exact : bool
        Compare the bits of values.
    max_differences : int
        Number of differences to keep; all are counted.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its total bytes.
    allow_pickle : bool
        Allow unpickling of chunks, which can run any code.
    storage_options : mapping, optional
        Settings of the storage, if `first` is a URL; see `tegula.store_of`.
    second_storage_options : mapping, optional
        Those of `second`; by default those of `first` if both URLs name the same bucket.
    runner, workers : optional
        How the work is done, as for `tegula.convert`.
    ledger : str, path, mapping or Store, optional
        A directory or bucket that records what has been compared, so that the same call continues after an
        interruption. It is empty at the end.

    Returns
    -------
    Comparison
        True if both are equal.

    Raises
    ------
    NotFoundError
        If one of them is missing.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, x=[1.5, 2.5], format="zarr2")
    >>> copied = tegula.MemoryStore()
    >>> report = tegula.convert(store, copied, format="zarr3")
    >>> tegula.compare(store, copied).equal
    True
    >>> tegula.open(copied, "r+")["x"][0] = 7
    >>> print(tegula.compare(store, copied))
    1 group, 1 array, 2 elements: 1 difference
    /x: 1 of 2 values differ, the first at [0]: 1.5 and 7.0
    """
    if type(max_differences) is not int or max_differences < 0:
        raise MetadataError(f"{max_differences!r:.80} is not a number of differences", field="max_differences")
    start = perf_counter()
    others = options_of_both(first, second, storage_options, second_storage_options, "second_storage_options")
    with ExitStack() as stack:
        one = stack.enter_context(opened(first, "", allow_pickle, storage_options))
        other = stack.enter_context(opened(second, "", allow_pickle, others))
        report = Comparison(one.location, other.location, exact)
        run = _Run(exact, one_at_a_time(progress))
        plan = Plan(f"compare{' exactly' if exact else ''}", {}, one.location, other.location)
        who: dict[str, Any] = {"runner": runner, "workers": workers, "ledger": ledger}
        run.share = stack.enter_context(
            sharing(plan, _CODE, partial(run.entries, one, other), (one.store, other.store), **who)
        )
        run.sources = sources_for(one, run.share), sources_for(other, run.share)
        run.requests = max(one.store.concurrency, other.store.concurrency)
        for part in results_of(run.compared, run.pairs(one, other), max(run.requests, run.workers)):
            _add(report, part, max_differences)
        gather(Sources.check, run.sources, run.requests)
    report.seconds = perf_counter() - start
    return report


def _add(report: Comparison, part: Comparison, most: int) -> None:
    """Add the results for two nodes; at most `most` differences are kept."""
    report.differences += part.differences[: max(0, most - len(report.differences))]
    for what, number in part.counts.items():
        report.counts[what] = report.counts.get(what, 0) + number
    report.failed.update(part.failed)
    for name in ("arrays", "groups", "tables", "elements", "chunks_skipped"):
        setattr(report, name, getattr(report, name) + getattr(part, name))


class _Run:
    """A comparison under way, in which threads compare pairs of nodes."""

    def __init__(self, exact: bool, progress: Progress | None) -> None:
        self.exact = exact
        self.share: Share[Differing] | None = None
        self.sources: tuple[Sources, ...] = ()
        self.requests = 0
        self._progress = progress

    @property
    def workers(self) -> int:
        """Number of boxes that a runner compares at once; 0 without a runner."""
        return 0 if self.share is None else self.share.runner.workers

    def entries(self, one: AnyNode, other: AnyNode) -> Iterator[Entry]:
        """Yield the arrays whose values are compared, for the plan of a job."""
        for path, first, second in self.pairs(one, other):
            if isinstance(first, Array) and isinstance(second, Array) and first.shape == second.shape:
                yield entry_for(path, first, second)

    def pairs(self, one: AnyNode, other: AnyNode) -> Iterator[_Pair]:
        """Yield the pairs of nodes to compare: the two nodes, then all members, ``None`` where a side lacks it."""
        yield "", one, other
        ahead = _ahead(one), _ahead(other)
        # a stack, since a hierarchy may be deeper than Python's recursion limit
        pending: list[Iterator[_Pair]] = []
        pair: _Pair | None = ("", one, other)
        while pair is not None or pending:
            if pair is None:
                pending.pop()
            elif isinstance(pair[1], Container) and isinstance(pair[2], Container):
                pending.append(_members(*pair, ahead))
            pair = next(pending[-1], None) if pending else None
            if pair is not None:
                yield pair

    def compared(self, pair: _Pair) -> Comparison:
        """Compare two nodes without their members."""
        path, one, other = pair
        part = _Part(self, path)
        for node, sources in zip((one, other), self.sources):
            if isinstance(node, (Array, Group, Table)):
                sources.see(node)
            elif node is not None:
                sources.see_path(f"{sources.root}/{path}".strip("/"))
        if one is None or other is None:
            part.find("only in the second" if one is None else "only in the first")
        elif isinstance(one, TegulaError) or isinstance(other, TegulaError):
            part.report.failed[path] = str(one if isinstance(one, TegulaError) else other)
        elif isinstance(one, Array) and isinstance(other, Array):
            try:
                sides = [*zip(self.sources, (one, other))]
                found = gather(lambda side: side[0].array(side[1]), sides, self.requests)
                with Source.all_of(found):  # what is missing in another node would count as fill values
                    part.arrays(one, other)
            except TegulaError as error:
                part.report.failed[path] = str(error)
        elif isinstance(one, Array) or isinstance(other, Array):
            part.find("kind", type(one).__name__.lower(), type(other).__name__.lower())
        else:
            part.containers(one, other)
        return part.report

    def report_progress(self, path: str, done: int, total: int) -> None:
        """Call the user's function for the progress, if there is one."""
        if self._progress is not None:
            self._progress(path, done, total)


class _Part:
    """The comparison of two nodes, with a report of its own."""

    def __init__(self, run: _Run, path: str) -> None:
        self.report = Comparison("", "", run.exact)
        self._run = run
        self._path = path

    def find(self, what: What, one: Any = None, other: Any = None, **more: Any) -> None:
        """Add a difference."""
        self.report.counts[what] = self.report.counts.get(what, 0) + 1
        self.report.differences.append(Difference(self._path, what, one, other, **more))

    def containers(self, one: Container, other: Container) -> None:
        """Compare two groups or tables."""
        if isinstance(one, Table) and isinstance(other, Table):
            self.report.tables += 1
        else:
            self.report.groups += 1
        columns, others = _columns(one), _columns(other)
        if columns and others and columns != others and {*columns} == {*others}:
            self.find("columns", columns, others)
        hidden = {ORDER} if isinstance(one, Table) or isinstance(other, Table) else set()
        self._attributes(one.attrs.asdict(), other.attrs.asdict(), hidden)

    def _attributes(self, one: dict[str, Any], other: dict[str, Any], hidden: set[str]) -> None:
        names = [name for name in {**one, **other} if name not in hidden]
        differ = [name for name in names if not (name in one and name in other and equal_json(one[name], other[name]))]
        if differ:
            old, new = ({name: values[name] for name in differ if name in values} for values in (one, other))
            self.find("attributes", old, new)

    def arrays(self, one: Array, other: Array) -> None:
        """Compare two arrays."""
        self.report.arrays += 1
        types = one.metadata.data_type, other.metadata.data_type
        if native(types[0]) != native(types[1]) or types[0].variable != types[1].variable:
            self.find("data type", *map(str, types))
        if _fills_differ(one, other, self._run.exact):
            self.find("fill value", one.fill_value, other.fill_value)
        if one.dimension_names != other.dimension_names:
            self.find("dimension names", one.dimension_names, other.dimension_names)
        self._attributes(attributes_of(one), attributes_of(other), set())
        if one.shape != other.shape:
            self.find("shape", one.shape, other.shape)
        elif not are_comparable(*types):
            self.find("values", size=one.size)
        else:
            found = self._values(one, other)
            self.report.elements += one.size
            self.report.chunks_skipped += found.skipped
            if found.count:
                more = {"count": found.count, "size": one.size, "index": found.index}
                self.find("values", found.one, found.other, **more)

    def _values(self, one: Array, other: Array) -> Differing:
        """Compare the boxes of two arrays, then the elements they leave out, and merge the results."""
        gather(refuse_misplaced, (one, other), self._run.requests)
        found, gap, done = Differing(), Gap(), 0
        exact, alike = self._run.exact, decodes_alike(one, other)
        compared = partial(compare_box, one, other, exact=exact, alike=alike)
        for part, size in shared_results(self._run.share, self._path, compared, units(one, other, gap), one, other):
            found = found.merge(part)
            done += size * one.itemsize
            self._run.report_progress(self._path, done, one.nbytes)
        self._run.report_progress(self._path, one.nbytes, one.nbytes)
        return found.merge(compare_fills(one, other, gap, exact=exact))


def _members(path: str, one: Container, other: Container, ahead: tuple[Ahead | None, Ahead | None]) -> Iterator[_Pair]:
    """Yield the path and both nodes of each member of two groups or tables, ``None`` for a side that lacks it.

    Both sides are listed in the order of their prefixes, so that few members are in memory at once.
    """
    sides = [_entries(node, looker) for node, looker in zip((one, other), ahead)]
    heads = [next(side, None) for side in sides]
    while any(heads):
        name = min(head[0] for head in heads if head is not None)
        pair = [head[1] if head is not None and head[0] == name else None for head in heads]
        heads = [next(side, None) if head is not None and head[0] == name else head for side, head in zip(sides, heads)]
        yield f"{path}/{name[:-1]}".lstrip("/"), pair[0], pair[1]


def _ahead(node: AnyNode) -> Ahead | None:
    return node.ahead() if isinstance(node, Group) else None


def _entries(node: Container, ahead: Ahead | None) -> Iterator[tuple[str, Any]]:
    """Yield in order the prefix of each member, and its node or the error from opening it."""
    if isinstance(node, Group):
        yield from ((f"{name}/", member) for name, member in node.entries(ahead))
        return
    for prefix in sorted(f"{name}/" for name in node.names):
        try:
            yield prefix, node[prefix[:-1]]
        except TegulaError as error:
            yield prefix, error


def _columns(node: Container) -> tuple[str, ...] | None:
    """Return the names of the columns in order; ``None`` if the node does not list them."""
    if isinstance(node, Table):
        return node.names
    try:
        return column_names(node.metadata)
    except MetadataError:  # the attribute of another program
        return None


def _fills_differ(one: Array, other: Array, exact: bool) -> bool:
    """Return whether two arrays would read elements that were never written as different fill values.

    For data of xarray, formats disagree on whether the fill value marks missing data, so only that mark is compared.
    """
    types = one.metadata.data_type, other.metadata.data_type
    if one.dimension_names is not None or other.dimension_names is not None or not are_comparable(*types):
        return False
    old, new = (array.stored.fill.reshape(1) for array in (one, other))
    return not bool(equal_values(old, new, types, exact)[0])
