"""Windows: selections of an array or table that are read block by block, in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import indices_of, selection_of
from tegula.arrays.node import Node
from tegula.extracts.projections import Projection
from tegula.indexing import split_fields
from tegula.metadata.conventions import Conventions

__all__ = ["Picked", "Window", "window"]

_BLOCK_BYTES: Final = 2**26
_FEW_DECIMALS: Final = 9
_OBJECT_BYTES: Final = 64  # estimate for a variable-length element


class _Rows(ABC):
    """Rows as an array of one axis, of which a selection may name fields."""

    ndim = 1

    def __getitem__(self, selection: tuple[Any, ...]) -> Any:
        names, rows = split_fields(selection)
        if isinstance(rows, tuple):
            rows = rows[0] if rows else slice(None)
        return self._read(names, rows)

    @abstractmethod
    def _read(self, names: Any, rows: Any) -> Any:
        """Read rows, of the fields that are named, or of all for ``None``."""


class _Records(_Rows):
    """The rows of a table as an array of structured elements."""

    def __init__(self, table: Any) -> None:
        self.shape = table.shape
        self.dtype = table.dtype
        self.chunks = (max((table[name].chunks[0] for name in table.names), default=1),)
        self._table = table

    def _read(self, names: Any, rows: Any) -> Any:
        return self._table[[*self._table.names] if names is None else names, rows]


def _records_of(node: Any) -> Any:
    """Return an array whose elements are the rows of a node: the node itself, unless it is a table."""
    return _Records(node) if isinstance(node, Node) and node.kind == "table" else node


class Picked(_Rows):
    """Some rows of a table or array, in an order of their own, as an array of one axis.

    Examples
    --------
    >>> import tegula
    >>> picked = Picked(tegula.create_table({}, {"a": [1, 2, 3]}), np.array([2, 0]))
    >>> picked.shape, picked[:1,]["a"].tolist()
    ((2,), [3])
    """

    chunks = (1,)

    def __init__(self, node: Node, numbers: npt.NDArray[np.intp]) -> None:
        self._rows = _records_of(node)
        self._numbers = numbers
        self.shape = numbers.shape
        self.dtype = self._rows.dtype

    def _read(self, names: Any, rows: Any) -> Any:
        numbers = self._numbers[rows]
        return self._rows[numbers if names is None else (names, numbers)]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of an array: an int or a range of indices for each axis, and optionally some fields.

    Parameters
    ----------
    array : Array or Projection
        The array.
    fields : tuple
        Empty, or the item of the selection that names fields.
    axes : tuple of int or range
        The indices along each axis; an int drops the axis.
    dtype : numpy.dtype
        Type of the elements.
    inner_shape : tuple of int
        Shape of an element, for a field that is an array itself.
    block_bytes : int
        The most bytes to read at once.
    conventions : Conventions, optional
        How stored values are decoded; `dtype` is the type of the decoded ones.
    decimals : int, optional
        The number of decimals to round to; see `for_text`.
    """

    array: Array | Projection | _Records
    fields: tuple[Any, ...]
    axes: tuple[int | range, ...]
    dtype: np.dtype[Any]
    inner_shape: tuple[int, ...]
    block_bytes: int
    conventions: Conventions | None = None
    decimals: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return (*(len(axis) for axis in self.axes if isinstance(axis, range)), *self.inner_shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: the values at one index of the first axis that is not dropped."""
        return prod(self.shape[1:]) * (_OBJECT_BYTES if self.dtype.hasobject else self.dtype.itemsize)

    @property
    def most_rows(self) -> int:
        """The most rows to read at once."""
        return max(1, self.block_bytes // max(1, self.row_bytes))

    @property
    def fits(self) -> bool:
        """True if a row is small enough to be read at once."""
        return self.row_bytes <= self.block_bytes or not self.has_rows

    @property
    def has_rows(self) -> bool:
        """True if an axis is not dropped."""
        return any(isinstance(axis, range) for axis in self.axes)

    def for_text(self) -> Window:
        """Return the window with the values of fewest digits that stand for the stored ones: their text is shorter.

        Values unpacked from ints get the decimals of scale and offset, which is exact, if these are few. Others become
        float32, if that tells all stored ones apart. Times that are whole numbers of a unit have no parts of it.

        Examples
        --------
        >>> import tegula
        >>> x = tegula.create_array({}, data=np.array([28504], "i2"), attributes={"scale_factor": 0.01})
        >>> part = window(x, (...,), decodes=True)
        >>> part.read(), part.for_text().read()
        (array([285.04]), array([285.04]))
        """
        way = self.conventions
        if way is not None and way.times is not None and way.read_as.kind in "iu" and not way.is_packed:
            return replace(self, dtype=way.times.coarsest)
        if way is None or self.dtype != np.float64 or way.read_as.kind not in "iuf":
            return self
        scale, offset, stored = float(1 if way.scale is None else way.scale), float(way.offset or 0), way.read_as
        if stored.kind == "f":
            is_enough = stored.itemsize <= 4 and 1e-6 <= abs(scale) <= 1 and abs(offset) < 1e6
        else:
            decimals = max(_decimals(scale), _decimals(offset))
            if decimals <= _FEW_DECIMALS:
                return replace(self, decimals=decimals)
            # the distance between floats around the largest value must be less than that between packed values
            largest = abs(offset) + abs(scale) * 2 ** (8 * stored.itemsize)
            is_enough = abs(scale) > 1e-30 and largest < 1e30 and largest * np.finfo(np.float32).eps < abs(scale)
        return replace(self, dtype=np.dtype(np.float32)) if is_enough else self

    def _first(self) -> tuple[int, range]:
        return next((number, axis) for number, axis in enumerate(self.axes) if isinstance(axis, range))

    def read(self) -> npt.NDArray[Any]:
        """Read all values."""
        # ints are read as slices: an element of an object array may be no array
        parts = selection_of(tuple(axis if isinstance(axis, range) else range(axis, axis + 1) for axis in self.axes))
        return self.present(self.array[(*self.fields, *(parts or (...,)))])

    def present(self, found: Any) -> npt.NDArray[Any]:
        """Return stored values of the window as they are shown: decoded and rounded."""
        if self.conventions is not None:
            found = self.conventions.decode(np.asarray(found, self.conventions.stored))
        if self.decimals is not None:
            found = np.round(found, self.decimals)
        return np.asarray(found, self.dtype).reshape(self.shape)

    def rows(self) -> Iterator[Window]:
        """Yield the window of each index of the first axis."""
        number, axis = self._first()
        for index in axis:
            yield self._with(number, index)

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the values in blocks of rows, at least one; whole chunks if memory allows."""
        if not self.has_rows or 0 in self.shape:
            yield self.read()
            return
        number, axis = self._first()
        chunk = self.array.chunks[number]
        for part in _parts(axis, max(chunk) if isinstance(chunk, tuple) else chunk, self.row_bytes, self.block_bytes):
            yield self._with(number, part).read()

    def pieces(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the values in C order, in blocks of rows; rows that are too large are divided further."""
        if self.fits:
            yield from self.blocks()
        else:
            for row in self.rows():
                yield from row.pieces()

    def _with(self, number: int, axis: int | range) -> Window:
        return replace(self, axes=(*self.axes[:number], axis, *self.axes[number + 1 :]))


def window(
    node: Node | Projection | Any,
    selection: tuple[Any, ...],
    block_bytes: int | None = None,
    *,
    decodes: bool = False,
) -> Window:
    """Return the window of a selection.

    Parameters
    ----------
    node : Array, Projection or Table
        The array, or the table whose rows are selected.
    selection : tuple
        Ints, slices, ranges, ``...`` and names of fields, as from `tegula.extracts.selections.parse_selection`.
    block_bytes : int, optional
        The most bytes to read at once; by default 64 MiB.
    decodes : bool
        Whether values of an array are decoded by its attributes, as xarray does; missing ones are NaN or NaT then.

    Raises
    ------
    SelectionError
        If the selection does not fit the array.
    """
    array = _records_of(node)
    names, rest = split_fields(selection_of(selection))
    fields = () if names is None else (names,)
    axes = indices_of(rest, array.shape)
    nothing: tuple[Any, ...] = (slice(0, 0),) * array.ndim or (...,)
    sample = np.asarray(array[(*fields, *nothing)])  # read for its data type
    dtype = array.dtype if not fields else sample.dtype
    conventions = None
    if decodes and isinstance(node, (Array, Projection)) and not fields and not node.conventions.is_plain:
        conventions = node.conventions
        dtype = conventions.decode(np.zeros(0, conventions.stored)).dtype
    return Window(array, fields, axes, dtype, sample.shape[array.ndim :], block_bytes or _BLOCK_BYTES, conventions)


def _decimals(value: float) -> int:
    """Return the number of decimals of the shortest text of a number."""
    return max(0, -int(Decimal(repr(value)).normalize().as_tuple().exponent))


def _parts(axis: range, chunk: int, row_bytes: int, block_bytes: int) -> Iterator[range]:
    """Split a range of indices at multiples of a span: as many indices as fit into memory, whole chunks if possible."""
    span = max(1, block_bytes // max(1, row_bytes)) * abs(axis.step)
    span -= span % chunk if span > chunk else 0
    done = 0
    while done < len(axis):
        first = axis[done]
        room = span - first % span if axis.step > 0 else first % span + 1
        count = -(-room // abs(axis.step))
        yield axis[done : done + count]
        done += count
