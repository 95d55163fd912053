"""`tegula.compare`: compares arrays, tables and hierarchies of any formats, pair by pair and box by box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial, reduce
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from tegula.arrays.array import Array
from tegula.arrays.masks import attributes_of
from tegula.display.info import shown
from tegula.errors import MetadataError, TegulaError
from tegula.hierarchy.ahead import Ahead
from tegula.hierarchy.group import Group
from tegula.hierarchy.walking import Node, opened
from tegula.jobs.comparing.differences import (
    Differing,
    Largest,
    compare_box,
    compare_fills,
    decodes_alike,
    equal_fills,
    units,
)
from tegula.jobs.plans import Piece
from tegula.jobs.sharing import Code, Reading, piece_for, reading
from tegula.jobs.units import Progress
from tegula.metadata.json_values import equal_json
from tegula.reductions.equality import are_comparable, native
from tegula.runtime.quantities import counted
from tegula.stores.targets.opening import options_of_both
from tegula.tables.columns import ORDER, column_names
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import Missing, SourceLike

__all__ = ["Comparison", "Difference", "compare"]

_Pair = tuple[str, Any, Any]
"""A path, and for each side the node there, the error from opening it, or ``None``."""

_CODE = Code[Differing]((Differing, Largest))

What = Literal[
    "only in the first", "only in the second", "kind", "shape", "data type", "fill value", "dimension names", "columns",
    "attributes", "values",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two nodes.

    Parameters
    ----------
    path : str
        Path of the node below the two compared nodes; ``""`` for these themselves.
    what : str
        The kind: ``"only in the first"``, ``"only in the second"``, ``"kind"``, ``"shape"``, ``"data type"``,
        ``"fill value"``, ``"dimension names"``, ``"columns"`` (their order), ``"attributes"`` or ``"values"``.
    one, other : object
        What each side has: the differing attributes, or the values at `index`.
    count, size : int
        For values: how many differ, of how many.
    index : tuple of int or None
        For values: the index of the first difference in C order; ``None`` if they can't be compared.
    largest : tuple or None
        For numbers: the index of the largest difference, and the value of each side there.

    Examples
    --------
    >>> largest = (7, 0), 1.5, 9.0
    >>> print(Difference("era/t", "values", 1.5, 2.5, count=3, size=600, index=(4, 19), largest=largest))
    /era/t: 3 of 600 values differ, the first at [4, 19]: 1.5 and 2.5, the largest at [7, 0]: 1.5 and 9.0
    """

    path: str
    what: What
    one: Any = None
    other: Any = None
    count: int = 0
    size: int = 0
    index: tuple[int, ...] | None = None
    largest: tuple[tuple[int, ...], Any, Any] | None = None

    def __str__(self) -> str:
        path = f"/{self.path}"
        if self.what in ("only in the first", "only in the second"):
            return f"{path}: {self.what}"
        if self.what == "values":
            if self.index is None:
                return f"{path}: values of these types are not compared"
            places = [("first", self.index, self.one, self.other)]
            if self.largest is not None and self.count > 1:
                places.append(("largest", *self.largest))
            if len(places) == 2 and self.largest is not None and self.largest[0] == self.index:
                places = [("first and largest", self.index, self.one, self.other)]
            said = (f"the {which} at {_place(at)}: {_short(one)} and {_short(two)}" for which, at, one, two in places)
            return f"{path}: {self.count:,} of {self.size:,} values differ, {', '.join(said)}"
        if self.what == "attributes":
            return f"{path}: attributes: {_short_pairs(self.one, self.other)}"
        plain = self.what in ("kind", "data type")
        one, other = (str(value) if plain else _short(value) for value in (self.one, self.other))
        return f"{path}: {self.what}: {one} and {other}"


def _place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else "[()]"


def _short(value: Any, most: int = 100) -> str:
    """Return the repr of a value, shortened."""
    text = f"{shown(value)!r}"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _short_pairs(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return the names of attributes with the values of both sides."""
    parts = []
    for name in {**one, **other}:
        sides = [_short(values[name], 40) if name in values else "nothing" for values in (one, other)]
        parts.append(f"{name} ({sides[0]} and {sides[1]})")
    return ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")


@dataclass(slots=True)
class Comparison:
    """The report of `tegula.compare`; true if both are equal.

    Parameters
    ----------
    first, second : str
        URLs of the compared nodes.
    exact : bool
        Whether the bits of values were compared.
    arrays, groups, tables : int
        Pairs of nodes that were compared; columns of tables count as arrays.
    elements : int
        Elements of the arrays whose values were compared.
    chunks_skipped : int
        Chunks that both store as the same bytes, which were not decoded.
    differences : list of Difference
        The differences, up to `max_differences`.
    counts : dict of str to int
        Number of differences of each kind, including those not kept in `differences`.
    failed : dict of str to str
        Path and reason of each node that could not be read, and so was not compared.
    seconds : float
        Duration.

    Examples
    --------
    >>> import tegula
    >>> one, other = tegula.create_group({}), tegula.create_group({}, format="zarr2")
    >>> one["x"], other["x"] = [1, 2, 3], [1, 2, 4]
    >>> report = tegula.compare(one, other)
    >>> report.equal, report.differences[0].index
    (False, (2,))
    """

    first: str
    second: str
    exact: bool = False
    arrays: int = 0
    groups: int = 0
    tables: int = 0
    elements: int = 0
    chunks_skipped: int = 0
    differences: list[Difference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """``True`` if everything could be read, and nothing differs."""
        return not self.counts and not self.failed

    def __bool__(self) -> bool:
        return self.equal

    @property
    def summary(self) -> str:
        """One line with the counts and the result.

        Examples
        --------
        >>> Comparison("a.zarr", "b.zarr", arrays=2, groups=1, elements=12).summary
        '1 group, 2 arrays, 12 elements: equal'
        """
        numbers = ((self.groups, "group"), (self.tables, "table"), (self.arrays, "array"), (self.elements, "element"))
        nodes = ", ".join(counted(number, name) for number, name in numbers if number) or "nothing to compare"
        results = [counted(sum(self.counts.values()), "difference")] if self.counts else []
        results += [f"{counted(len(self.failed), 'node')} not readable"] if self.failed else []
        return f"{nodes}: {', '.join(results) or 'equal'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values.

        Examples
        --------
        >>> Comparison("a", "b").as_dict()["equal"]
        True
        """
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "differences"}
        names = Difference.__slots__
        differences = [{name: getattr(difference, name) for name in names} for difference in self.differences]
        return {"equal": self.equal, **plain, "differences": differences}

    def __str__(self) -> str:
        left_out = sum(self.counts.values()) - len(self.differences)
        failed = [f"/{path}: {reason}" for path, reason in self.failed.items()]
        more = [f"... and {left_out} more"] if left_out else []
        return "\n".join([self.summary, *map(str, self.differences), *more, *failed])

    def __repr__(self) -> str:
        return f"<tegula.Comparison of {self.first!r} and {self.second!r}: {self.summary}>"


def compare(
    first: SourceLike,
    second: SourceLike,
    *,
    exact: bool = False,
    max_differences: int = 10_000,
    progress: Progress | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
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
    missing_chunks : {"fill", "error"}, optional
        What chunks that are not stored give, as for `tegula.open`; by default what the node says.
    storage_options : mapping, optional
        Settings of the storage, if `first` is a URL; see `tegula.store_of`.
    second_storage_options : mapping, optional
        Those of `second`; by default those of `first` if both URLs name the same bucket.
    runner, workers : optional
        How the work is done, as for `tegula.convert`.
    ledger : str, path, mapping or Store, optional
        A directory or bucket that records what has been compared, so that the same call can continue later.

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
    operation = f"compare{' exactly' if exact else ''}"
    who = {"runner": runner, "workers": workers, "ledger": ledger}
    with (
        opened(first, "", allow_pickle, storage_options, missing_chunks) as one,
        opened(second, "", allow_pickle, others, missing_chunks) as other,
        reading(operation, _CODE, [one, other], progress, partial(_pieces, one, other), **who) as reader,
    ):
        report = Comparison(one.location, other.location, exact)
        for part in reader.each(partial(_compared, reader, exact), _pairs(one, other)):
            _add(report, part, max_differences)
    report.seconds = perf_counter() - start
    return report


def _add(report: Comparison, part: Comparison, most: int) -> None:
    """Add the results for two nodes; at most `most` differences are kept."""
    for difference in part.differences:
        report.counts[difference.what] = report.counts.get(difference.what, 0) + 1
    report.differences += part.differences[: max(0, most - len(report.differences))]
    report.failed.update(part.failed)
    for name in ("arrays", "groups", "tables", "elements", "chunks_skipped"):
        setattr(report, name, getattr(report, name) + getattr(part, name))


# --- pairs of nodes


def _pieces(one: Node, other: Node) -> Iterator[Piece]:
    """Yield the arrays whose values are compared, for the plan of a job."""
    for path, first, second in _pairs(one, other):
        if isinstance(first, Array) and isinstance(second, Array) and first.shape == second.shape:
            yield piece_for(path, first, second)


def _pairs(one: Node, other: Node) -> Iterator[_Pair]:
    """Yield the pairs of nodes to compare: the two nodes, then all members, ``None`` where a side lacks it."""
    ahead = [node.ahead() if isinstance(node, Group) else None for node in (one, other)]
    # a stack, since a hierarchy may be deeper than Python's recursion limit
    pending: list[Iterator[_Pair]] = [iter([("", one, other)])]
    while pending:
        pair = next(pending[-1], None)
        if pair is None:
            pending.pop()
            continue
        yield pair
        path, *nodes = pair
        if _have_pairs_below(nodes):
            pending.append(_pairs_below(path, [_members(node, looker) for node, looker in zip(nodes, ahead)]))


def _have_pairs_below(nodes: Sequence[Any]) -> bool:
    """Return whether the members of two nodes are compared, too."""
    return all(isinstance(node, Group | Table) for node in nodes)


def _pairs_below(path: str, sides: list[Iterator[tuple[str, Any]]]) -> Iterator[_Pair]:
    """Yield the pairs of the members of two groups or tables; few members are in memory at once."""
    heads = [next(side, None) for side in sides]
    while any(heads):
        name = min(head[0] for head in heads if head is not None)
        nodes: list[Any] = [None, None]
        for number, head in enumerate(heads):
            if head is not None and head[0] == name:
                nodes[number], heads[number] = head[1], next(sides[number], None)
        yield f"{path}/{name[:-1]}".lstrip("/"), nodes[0], nodes[1]


def _members(node: Group | Table, ahead: Ahead | None) -> Iterator[tuple[str, Any]]:
    """Yield the prefix of each member, in order, and its node or the error from opening it."""
    if isinstance(node, Group):
        yield from ((f"{name}/", member) for name, member in node.entries(ahead))
        return
    for prefix in sorted(f"{name}/" for name in node.names):
        try:
            yield prefix, node[prefix[:-1]]
        except TegulaError as error:
            yield prefix, error


def _compared(reader: Reading[Differing], exact: bool, pair: _Pair) -> Comparison:
    """Compare two nodes without their members."""
    path, *nodes = pair
    one, other = nodes
    part = Comparison("", "", exact)
    for node, sources in zip(nodes, reader.sources):
        if _have_pairs_below(nodes):
            sources.see(node)
        elif node is not None:  # whatever is below it is not visited
            sources.see_path(f"{sources.root}/{path}".strip("/"))
    error = next((node for node in nodes if isinstance(node, TegulaError)), None)
    if one is None or other is None:
        part.differences.append(Difference(path, "only in the second" if one is None else "only in the first"))
        return part
    if error is None and isinstance(one, Array) and isinstance(other, Array):
        error = reader.attempt(partial(_compare_arrays, reader, part, path, one, other), one, other)
    elif error is None and (isinstance(one, Array) or isinstance(other, Array)):
        part.differences.append(Difference(path, "kind", one.kind, other.kind))
    elif error is None:
        _compare_containers(part, path, one, other)
    if error is not None:
        part.failed[path] = str(error)
    return part


def _compare_containers(part: Comparison, path: str, one: Group | Table, other: Group | Table) -> None:
    are_tables = [isinstance(node, Table) for node in (one, other)]
    if all(are_tables):
        part.tables += 1
    else:
        part.groups += 1
    columns, others = _columns(one), _columns(other)
    if columns and others and columns != others and {*columns} == {*others}:
        part.differences.append(Difference(path, "columns", columns, others))
    _compare_attributes(part, path, one.attrs.asdict(), other.attrs.asdict(), {ORDER} if any(are_tables) else set())


def _columns(node: Group | Table) -> tuple[str, ...] | None:
    """Return the names of the columns in order; ``None`` if the node does not list them."""
    if isinstance(node, Table):
        return node.names
    try:
        return column_names(node.metadata)
    except MetadataError:  # the attribute of another program
        return None


def _compare_attributes(
    part: Comparison, path: str, one: dict[str, Any], other: dict[str, Any], hidden: Set[str] = frozenset()
) -> None:
    names = [name for name in {**one, **other} if name not in hidden]
    differ = [name for name in names if not (name in one and name in other and equal_json(one[name], other[name]))]
    if differ:
        old, new = ({name: values[name] for name in differ if name in values} for values in (one, other))
        part.differences.append(Difference(path, "attributes", old, new))


def _compare_arrays(reader: Reading[Differing], part: Comparison, path: str, one: Array, other: Array) -> None:
    def find(what: What, *sides: Any, **more: Any) -> None:
        part.differences.append(Difference(path, what, *sides, **more))

    part.arrays += 1
    types = one.metadata.data_type, other.metadata.data_type
    if native(types[0]) != native(types[1]) or types[0].variable != types[1].variable:
        find("data type", *map(str, types))
    # in data of xarray, formats disagree on whether the fill value marks missing data, so only that mark is compared
    names = one.dimension_names, other.dimension_names
    if names == (None, None) and are_comparable(*types) and not equal_fills(one, other, part.exact):
        find("fill value", one.fill_value, other.fill_value)
    if names[0] != names[1]:
        find("dimension names", *names)
    _compare_attributes(part, path, attributes_of(one), attributes_of(other))
    if one.shape != other.shape:
        find("shape", one.shape, other.shape)
    elif not are_comparable(*types):
        find("values", size=one.size)
    else:
        absent: list[tuple[int, ...]] = []
        of_box = partial(compare_box, one, other, exact=part.exact, alike=decodes_alike(one, other))
        of_fill = partial(compare_fills, one, other, absent, exact=part.exact)
        parts = reader.results(path, of_box, units(one, other, absent), of_fill, one, other)
        differing = reduce(Differing.merge, parts)
        part.elements += one.size
        part.chunks_skipped += differing.skipped
        if differing.count:
            sides = differing.one, differing.other
            most = differing.largest
            largest = None if most is None else (most.index, most.one, most.other)
            find("values", *sides, count=differing.count, size=one.size, index=differing.index, largest=largest)
