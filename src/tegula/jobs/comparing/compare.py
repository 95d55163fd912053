"""`tegula.compare`: compares arrays, tables and hierarchies of any formats, pair by pair and box by box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from tegula.arrays.array import Array
from tegula.errors import MetadataError, TegulaError
from tegula.formats.dimension_names import attributes_without
from tegula.hierarchy.group import Group
from tegula.jobs.comparing.comparison import Comparison, Difference, What
from tegula.jobs.comparing.differences import (
    Differing,
    Gap,
    are_comparable,
    compare_box,
    compare_fills,
    decodes_alike,
    equal_json,
    units,
)
from tegula.jobs.converting.masks import mask_of
from tegula.jobs.measuring.statistics import Progress, opened
from tegula.tables.columns import ORDER, column_names
from tegula.tables.table import Table
from tegula.targets.stores import options_of_both

__all__ = ["Comparison", "Difference", "compare"]

Container = Group | Table
AnyNode = Array | Container
_MASK = "_FillValue"


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
) -> Comparison:
    """Compare two arrays, or two groups or tables with all their members, of any formats, chunks and codecs.

    Shapes, data types, names of dimensions, attributes and values must be equal, and groups must have the same members;
    fill values, chunks and codecs may differ. Byte order does not count. Values are equal if ``==`` says so; NaN
    equals NaN, NaT equals NaT, and -0.0 equals 0.0. With `exact` all bits of the elements must be equal, those of NaN
    included. Numbers of different types are compared, too, after NumPy's conversion, beside the difference in type. For
    data of xarray the value that marks missing data counts as an attribute, wherever the format stores it.

    Memory is bounded by two blocks of 64 MiB, or two chunks if these are larger. Chunks that both store as the same
    bytes, under codecs that decode alike, are not decoded; where few chunks are stored the others are not visited.

    Parameters
    ----------
    first, second : str, path, mapping, Store, Array, Group or Table
        The two nodes, or where they are stored.
    exact : bool
        Compare the bits of values.
    max_differences : int
        Number of differences to keep; all are counted.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its bytes in all.
    allow_pickle : bool
        Allow unpickling of chunks, which can run any code.
    storage_options : mapping, optional
        Settings of the storage, if `first` is a URL; see `tegula.store_of`.
    second_storage_options : mapping, optional
        Those of `second`; by default those of `first` if both URLs name the same bucket.

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
        report = Comparison(one._place, other._place, exact)
        run = _Run(report, max_differences, progress)
        # a stack, since a hierarchy may be deeper than Python lets functions call each other
        pending: list[Iterator[tuple[str, AnyNode, AnyNode]]] = [iter([("", one, other)])]
        while pending:
            pair = next(pending[-1], None)
            if pair is None:
                pending.pop()
            elif (containers := run.nodes(*pair)) is not None:
                pending.append(run.members(pair[0], *containers))
    report.seconds = perf_counter() - start
    return report


class _Run:
    """The state of a comparison."""

    def __init__(self, report: Comparison, most: int, progress: Progress | None) -> None:
        self.report = report
        self._most = most
        self._progress = progress

    def find(self, path: str, what: What, one: Any = None, other: Any = None, **more: Any) -> None:
        """Add a difference."""
        self.report.counts[what] = self.report.counts.get(what, 0) + 1
        if len(self.report.differences) < self._most:
            self.report.differences.append(Difference(path, what, one, other, **more))

    def nodes(self, path: str, one: AnyNode, other: AnyNode) -> tuple[Container, Container] | None:
        """Compare two nodes without their members; return them if they are groups or tables."""
        if isinstance(one, Array) and isinstance(other, Array):
            try:
                self._arrays(path, one, other)
            except TegulaError as error:
                self.report.failed[path] = str(error)
            return None
        if isinstance(one, Array) or isinstance(other, Array):
            self.find(path, "kind", type(one).__name__.lower(), type(other).__name__.lower())
            return None
        if isinstance(one, Table) and isinstance(other, Table):
            self.report.tables += 1
        else:
            self.report.groups += 1
        columns, others = _columns(one), _columns(other)
        if columns and others and columns != others and {*columns} == {*others}:
            self.find(path, "columns", columns, others)
        hidden = {ORDER} if isinstance(one, Table) or isinstance(other, Table) else set()
        self._attributes(path, one.attrs.asdict(), other.attrs.asdict(), hidden)
        return one, other

    def members(self, path: str, one: Container, other: Container) -> Iterator[tuple[str, Any, Any]]:
        """Yield path and nodes of common members; report the others as differences."""
        names = [{*(node.names if isinstance(node, Table) else node)} for node in (one, other)]
        for name in sorted(names[0] | names[1]):
            inner = f"{path}/{name}".lstrip("/")
            if name not in names[0]:
                self.find(inner, "only in the second")
            elif name not in names[1]:
                self.find(inner, "only in the first")
            else:
                try:
                    pair = one[name], other[name]
                except TegulaError as error:
                    self.report.failed[inner] = str(error)
                    continue
                yield inner, *pair

    def _attributes(self, path: str, one: dict[str, Any], other: dict[str, Any], hidden: set[str]) -> None:
        names = [name for name in {**one, **other} if name not in hidden]
        differ = [name for name in names if not (name in one and name in other and equal_json(one[name], other[name]))]
        if differ:
            old, new = ({name: values[name] for name in differ if name in values} for values in (one, other))
            self.find(path, "attributes", old, new)

    def _arrays(self, path: str, one: Array, other: Array) -> None:
        self.report.arrays += 1
        types = one.metadata.data_type, other.metadata.data_type
        native = [(item.numpy.newbyteorder("="), item.variable) for item in types]
        if native[0] != native[1]:
            self.find(path, "data type", *map(str, types))
        if one.dimension_names != other.dimension_names:
            self.find(path, "dimension names", one.dimension_names, other.dimension_names)
        self._attributes(path, _attributes_of(one), _attributes_of(other), set())
        if one.shape != other.shape:
            self.find(path, "shape", one.shape, other.shape)
        elif not are_comparable(*types):
            self.find(path, "values", size=one.size)
        else:
            found = self._values(path, one, other)
            self.report.elements += one.size
            self.report.chunks_skipped += found.skipped
            if found.count:
                more = {"count": found.count, "size": one.size, "index": found.index}
                self.find(path, "values", found.one, found.other, **more)

    def _values(self, path: str, one: Array, other: Array) -> Differing:
        """Compare the boxes of two arrays, then the elements they leave out, and merge the results."""
        found, gap, done = Differing(), Gap(), 0
        exact, alike = self.report.exact, decodes_alike(one, other)
        for box in units(one, other, gap):
            found = found.merge(compare_box(one, other, box, exact=exact, alike=alike))
            done += prod(part.stop - part.start for part in box) * one.dtype.itemsize
            self._report_progress(path, done, one.nbytes)
        for array in (one, other):
            array._stored.check_exists()  # chunks of a deleted array are absent, too
        self._report_progress(path, one.nbytes, one.nbytes)
        return found.merge(compare_fills(one, other, gap, exact=exact))

    def _report_progress(self, path: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(path, done, total)


def _columns(node: Container) -> tuple[str, ...] | None:
    """Return the names of the columns in order; ``None`` if the node does not list them."""
    if isinstance(node, Table):
        return node.names
    try:
        return column_names(node.metadata)
    except MetadataError:  # the attribute of another program
        return None


def _attributes_of(array: Array) -> dict[str, Any]:
    """Return the attributes; for data of xarray with the value that marks missing data, as ``_FillValue``."""
    attributes = dict(array.attrs.asdict())
    if array.dimension_names is None:
        return attributes
    attributes = {**attributes_without(attributes)}
    mask, kind = mask_of(array), array.dtype.kind
    if kind in "biufc":  # xarray has masks of these types only
        attributes.pop(_MASK, None)
        if mask is not None and not (kind in "fc" and np.isnan(mask)):  # NaN is missing anyway
            attributes[_MASK] = mask.item()
    return attributes
