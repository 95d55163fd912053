"""`tegula.statistics`: measures arrays box by box, and merges the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.keywords import known_keywords
from tegula.display.contents import short_text
from tegula.display.layout import columns
from tegula.hierarchy.walking import opened
from tegula.jobs.sharing import Code, reading
from tegula.jobs.units import Box, Progress, boxes
from tegula.reductions.moments import MOST_BINS, Bins, Moments, measure
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import Missing, SourceLike

__all__ = ["Histogram", "Statistics", "statistics", "statistics_of_blocks"]

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_LATEST: Final = 2**63 - 1  # units of the latest time; minus this of the earliest

Measured = dict[str, Moments]
"""Partial results by the path of a field, ``""`` for elements without fields."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram: counts of values in up to 32 bins of equal width, from the smallest to the largest value.

    Parameters
    ----------
    counts : tuple of int
        Values in each bin.
    edges : tuple
        Edges of the bins, one more than bins. Bin `i` holds values from ``edges[i]`` up to but not including
        ``edges[i + 1]``; the last bin includes its end. Inner edges are multiples of a power of two.

    Examples
    --------
    >>> print(Histogram((1, 9, 0, 4), (0.0, 0.5, 1.0, 1.5, 2.0)))
    ▁█ ▄
    """

    counts: tuple[int, ...]
    edges: tuple[Any, ...]

    def __str__(self) -> str:
        """Return a block character for each bin; a blank for an empty one."""
        return self.drawn()

    def drawn(self, width: int = MOST_BINS) -> str:
        """Return a drawing of at most `width` characters, each for one or several bins.

        Examples
        --------
        >>> Histogram((1, 9, 0, 4), (0.0, 0.5, 1.0, 1.5, 2.0)).drawn(2)
        '█▄'
        """
        step = -(-len(self.counts) // max(1, width))
        counts = [sum(self.counts[start : start + step]) for start in range(0, len(self.counts), step or 1)]
        most = max(counts, default=0)
        return "".join(_BLOCKS[-(-count * 8 // most) - 1] if count else " " for count in counts)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of an array; of a group, a table or structured elements, part by part.

    Parameters
    ----------
    path : str
        Path below the node, for a field with its name; ``""`` for the node itself.
    kind : {"array", "field", "table", "group"}
        Kind of the part; a column is an array.
    dtype : str
        Data type of the elements; ``""`` for tables and groups.
    count, missing : int
        Number of values and of missing ones; for tables and groups the sums.
    min, max : scalar or None
        The extremes; ``None`` without values or without an order. Text is ordered by code points.
    mean, std : scalar or None
        Mean and standard deviation (``ddof=0``) of numbers, booleans and times.
    histogram : Histogram or None
        Histogram of the finite values.
    decoded : str
        How stored values were decoded, such as ``"unpacked with scale_factor 0.1"``; ``""`` if they were not.
    parts : dict of str to Statistics
        Statistics of fields, columns, or the arrays of a group at any depth, by path.
    failed : dict of str to str
        Path and reason of each array that could not be read.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> g = tegula.create_group({})
    >>> g["x"] = [1.0, np.nan, 4.0]
    >>> s = tegula.statistics(g["x"])
    >>> s.count, s.missing, s.max, s.mean
    (2, 1, 4.0, 2.5)
    """

    path: str
    kind: str
    dtype: str = ""
    count: int = 0
    missing: int = 0
    min: Any = None
    max: Any = None
    mean: Any = None
    std: Any = None
    histogram: Histogram | None = None
    parts: Mapping[str, Statistics] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    decoded: str = ""

    def __getitem__(self, path: str) -> Statistics:
        """Return the statistics of a part."""
        return self.parts[path]

    def leaves(self) -> Iterator[tuple[str, Statistics]]:
        """Yield path and statistics of each array or field.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2], "b": [3, 4]})
        >>> [(path, part.max) for path, part in tegula.statistics(t).leaves()]
        [('a', 2), ('b', 4)]
        """
        if not self.parts and self.dtype:
            yield self.path, self
        for part in self.parts.values():
            yield from part.leaves()

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics as JSON values, in nested dictionaries."""
        names = ("path", "kind", "dtype", "count", "missing", "min", "max", "mean", "std")
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        shown = self.histogram
        out["histogram"] = None if shown is None else {"counts": list(shown.counts), "edges": list(shown.edges)}
        if self.decoded:
            out["decoded"] = self.decoded
        if self.parts or not self.dtype:
            out["parts"] = {path: part.as_dict() for path, part in self.parts.items()}
            out["failed"] = dict(self.failed)
        return out

    def __repr__(self) -> str:
        """Return a line for each part."""
        return columns(self.rows(), right=range(2, 8))

    def rows(self, width: int = 32) -> list[list[str]]:
        """Return the rows of the table that `print` shows, titles first.

        Parameters
        ----------
        width : int
            Width of a histogram in characters.

        Examples
        --------
        >>> import tegula
        >>> t = tegula.create_table({}, {"a": [1, 2, 4]})
        >>> tegula.statistics(t).rows()[1]
        ['a', 'int64', '3', '0', '1', '4', '2.3333', '1.2472', '██ █']
        """
        titles = ["name", "data type", "count", "missing", "min", "max", "mean", "std", "histogram"]
        return [titles, *(_row(path, part, width) for path, part in self.leaves())]


def _row(path: str, part: Statistics, width: int) -> list[str]:
    numbers = [short_text(value) for value in (part.min, part.max, part.mean, part.std)]
    dtype = part.dtype if len(part.dtype) <= 14 else f"{part.dtype[:13]}…"
    drawn = part.histogram.drawn(width).rstrip() if part.histogram is not None else ""
    return [path or "/", dtype, f"{part.count:,}", f"{part.missing:,}", *numbers, drawn]


@known_keywords
def statistics(
    source: SourceLike,
    *,
    path: str = "",
    raw: bool = False,
    progress: Progress | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
    ledger: Any = None,
) -> Statistics:
    """Find minimum, maximum, mean, standard deviation, missing values and a histogram.

    Values are decoded as xarray does, by the attributes of CF: ``scale_factor`` and ``add_offset``, and ``units`` of
    times. NaN, NaT and ``None`` are missing, and so are the values of ``_FillValue`` and ``missing_value``. In Zarr v2
    arrays with dimension names the fill value takes the place of ``_FillValue``. Infinities count, but not in the
    histogram.

    Memory is bounded by one block of 64 MiB, or one chunk if that is larger; for remote storage by the setting
    ``buffer_bytes``, since many arrays and blocks are read at once. If few chunks are stored, only these
    are visited; all other elements count as fill values.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node, or where it is stored.
    path : str
        Path below it.
    raw : bool
        Take the values as they are stored, without scale, offset and units.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its total bytes.
    allow_pickle, missing_chunks, storage_options : optional
        As for `tegula.open`.
    runner, workers : optional
        How the work is done, as for `tegula.convert`.
    ledger : str, path, mapping or Store, optional
        A directory or bucket that records what has been measured, so that the same call can continue later.

    Returns
    -------
    Statistics
        Statistics of an array; those of a group or table are in `Statistics.parts`, for each array or column.

    Raises
    ------
    NotFoundError
        If there is no node.
    CodecError, StoreError
        If a chunk of an array can't be read. For a group or table, such an array is reported in `Statistics.failed`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> g = tegula.create_group({})
    >>> g["x"] = np.arange(8)
    >>> g["y"] = [0.5, np.nan]
    >>> tegula.statistics(g)
    name  data type  count  missing  min  max  mean     std  histogram
    x     int64          8        0    0    7   3.5  2.2913  ████████
    y     float64        1        1  0.5  0.5   0.5       0  █
    """
    operation = "statistics of stored values" if raw else "statistics"
    who = {"runner": runner, "workers": workers, "ledger": ledger}
    with (
        opened(source, path, allow_pickle, storage_options, missing_chunks) as node,
        reading(operation, _CODE, [node], progress, **who) as reader,
    ):

        def measured(path: str, array: Array) -> Statistics:
            of_box, of_fill = partial(_measure_box, array, raw), partial(_measure_fill, array, raw)
            parts = reader.results(path, of_box, boxes(array), of_fill, array)
            return _of_array(array, path, array.dtype, reduce(_merged, parts), raw)

        parts, failed = reader.of_arrays(measured)
        if isinstance(node, Array):
            return parts[""]
        return _sum("", "table" if isinstance(node, Table) else "group", "", parts, failed)


def statistics_of_blocks(array: Array, blocks: Iterable[npt.NDArray[Any]]) -> Statistics:
    """Return the statistics of some elements of an array, which are measured block by block."""
    moments: Measured = {}
    dtype = array.dtype
    for values in blocks:
        dtype = dtype if dtype.names is None else values.dtype  # some of the fields may have been selected
        moments = _merged(moments, _measured(values, array, raw=False))
    return _of_array(array, "", dtype, moments, raw=False)


# --- parts of an array


def _measure_box(array: Array, raw: bool, box: Box) -> Measured:
    return _measured(np.asarray(array[box]), array, raw)


def _measure_fill(array: Array, raw: bool, number: int) -> Measured:
    """Measure `number` elements that hold the fill value, without reading any."""
    fill = array.stored.fill.reshape(1)[: min(number, 1)]
    return {name: moments.times(number) for name, moments in _measured(fill, array, raw).items()}


def _merged(one: Measured, other: Measured) -> Measured:
    return {name: one[name].merge(moments) if name in one else moments for name, moments in other.items()}


_CODE = Code[Measured]((Moments, Bins))


def _measured(values: npt.NDArray[Any], array: Array, raw: bool) -> Measured:
    masks = array.conventions.stored_masks
    if not raw:
        values, own = array.conventions.unpacked(values)
        masks = [mask[()] for mask in own]
    return {name: measure(part, masks) for name, part in _fields("", values)}


def _fields(name: str, values: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the fields of structured elements with their paths, other elements as they are."""
    if values.dtype.names is None:
        yield name, values
        return
    for inner in values.dtype.names:
        yield from _fields(f"{name}.{inner}" if name else inner, values[inner])


# --- results


def _of_array(array: Array, path: str, dtype: np.dtype[Any], moments: Measured, raw: bool) -> Statistics:
    conventions, text = array.conventions, str(array.metadata.data_type)
    if not raw and conventions.changes_values:
        dtype = conventions.decode(np.zeros(0, array.dtype)).dtype
        return replace(_result(path, "array", str(dtype), dtype, moments[""]), decoded=conventions.describe())
    if dtype.names is None:
        return _result(path, "array", text, dtype, moments[""])
    types = {name: part.dtype for name, part in _fields("", np.empty(0, dtype))}
    parts = {name: _result(f"{path}.{name}".lstrip("."), "field", str(kind), kind, moments[name])
             for name, kind in types.items()}  # fmt: skip
    return _sum(path, "array", text, parts, {})


def _sum(path: str, kind: str, dtype: str, parts: dict[str, Statistics], failed: Mapping[str, str]) -> Statistics:
    count, missing = sum(part.count for part in parts.values()), sum(part.missing for part in parts.values())
    return Statistics(path, kind, dtype, count, missing, parts=parts, failed=failed)


def _result(path: str, kind: str, text: str, dtype: np.dtype[Any], moments: Moments) -> Statistics:
    mean: Any = moments.average
    std: Any = moments.deviation
    low, high, bins = moments.low, moments.high, moments.bins
    histogram = None
    if bins is not None:
        edges: tuple[Any, ...] = bins.edges()
        if dtype.kind in "Mm":
            made: Any = type(low)
            unit: Any = np.datetime_data(dtype)
            mean, std = made(_in_range(mean), unit), np.timedelta64(_in_range(std or 0), unit)
            edges = tuple(made(_in_range(edge), unit) for edge in edges)
        # the outermost edges are the finite extremes
        inner = edges[1:-1] if dtype.kind in "biuMm" else map(float, edges[1:-1])
        histogram = Histogram(bins.counts, (_within(low, edges[0]), *inner, _within(high, edges[-1])))
    return Statistics(path, kind, text, moments.count, moments.missing, low, high, mean, std, histogram)


def _in_range(number: float) -> int:
    """Return a number of time units, clipped to the range of times, which rounding and edges of bins may exceed."""
    return min(max(round(number), -_LATEST), _LATEST)


def _within(extreme: Any, edge: Any) -> Any:
    if isinstance(extreme, (bool, np.datetime64, np.timedelta64)):
        return extreme
    return extreme if np.isfinite(extreme) else edge
