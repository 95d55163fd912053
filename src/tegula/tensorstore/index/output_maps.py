"""Output index maps: each computes one output coordinate from a constant, an input dimension, or an index array."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import index_error, invalid, type_error
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, UNBOUNDED, Interval, closed, interval_text
from tegula.tensorstore.json.binding import (
    array,
    array_of,
    int64,
    int_argument,
    integer,
    known_only,
    nested_array,
    nested_shape,
    obj,
    take,
)

__all__ = [
    "IndexArray",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "array_text",
]

IndexArray = NDArray[np.int64]


class OutputIndexMethod(enum.Enum):
    """The kinds of output index maps."""

    constant = 0
    single_input_dimension = 1
    array = 2

    def __index__(self) -> int:
        return int(self.value)

    def __str__(self) -> str:
        return f"OutputIndexMethod.{self.name}"


class OutputIndexMap:
    """One output coordinate: ``offset``, or ``offset + stride * in[input_dimension]``, or an index array's element.

    Parameters
    ----------
    input_dimension : int, optional
        The input dimension to take the index from.
    index_array : array_like, optional
        The array to take the index from, instead of an input dimension. Its axes are the input dimensions; its size is
        1 along dimensions that do not affect the index.
    offset, stride : int, optional
        The index is multiplied by ``stride``, then ``offset`` is added.
    index_range : Dim, optional
        The values that are valid in ``index_array``.

    Examples
    --------
    >>> OutputIndexMap(input_dimension=1, offset=5, stride=2)
    OutputIndexMap(offset=5, stride=2, input_dimension=1)
    >>> OutputIndexMap(index_array=[3, 1]).method
    <OutputIndexMethod.array: 2>
    """

    __slots__ = ("_array", "_dimension", "_offset", "_range", "_stride")

    _offset: int
    _stride: int
    _dimension: int | None
    _array: IndexArray | None
    _range: Interval

    def __init__(self, *args: Any, **members: Any) -> None:
        first = args[0] if args else 0
        is_array = isinstance(first, np.ndarray) and first.ndim > 0
        names: tuple[str, ...]
        if "index_array" in members or is_array or not hasattr(first, "__index__"):
            names = ("index_array", "offset", "stride", "index_range")
        elif "input_dimension" in members or len(args) > 1 or (args and len(members) > 0):
            names = ("input_dimension", "offset", "stride")
        else:
            names = ("offset",)
        arguments = dict(zip(names, args, strict=False))
        if len(args) > len(names) or set(members) - set(names) or set(members) & set(arguments):
            raise type_error(
                "expected OutputIndexMap(offset), OutputIndexMap(input_dimension, offset, stride) or "
                "OutputIndexMap(index_array, offset, stride, index_range)"
            )
        arguments.update(members)
        self._offset = int_argument(arguments.get("offset", 0))
        self._stride = int_argument(arguments.get("stride", int(len(names) > 1)))
        self._dimension = int_argument(arguments["input_dimension"]) if "input_dimension" in arguments else None
        self._array = _index_array(arguments["index_array"]) if "index_array" in arguments else None
        self._range = _range(arguments.get("index_range"))

    @classmethod
    def _constant(cls, offset: int) -> OutputIndexMap:
        return cls._single(None, offset, 0)

    @classmethod
    def _single(cls, dimension: int | None, offset: int = 0, stride: int = 1) -> OutputIndexMap:
        self = cls.__new__(cls)
        self._offset, self._stride = offset, stride
        self._dimension, self._array, self._range = dimension, None, UNBOUNDED
        return self

    @classmethod
    def _of_array(
        cls, array: IndexArray, offset: int = 0, stride: int = 1, index_range: Interval = UNBOUNDED
    ) -> OutputIndexMap:
        self = cls.__new__(cls)
        self._offset, self._stride = offset, stride
        self._dimension, self._array, self._range = None, array, index_range
        array.setflags(write=False)
        return self

    @staticmethod
    def _of_json(json: Any) -> OutputIndexMap:
        """Read an output map."""
        members = obj(json)
        given = {name: take(members, name, read) for name, read in _MEMBERS.items() if name in members}
        known_only(members)
        kinds = [name for name in ("input_dimension", "index_array") if name in given]
        if len(kinds) > 1:
            raise invalid('"input_dimension" and "index_array" exclude each other')
        if not kinds and "stride" in given:
            raise invalid('"stride" needs "input_dimension" or "index_array"')
        limits = {"index_range": given.pop("index_array_bounds")} if "index_array_bounds" in given else {}
        if limits and "index_array" not in given:
            raise invalid('"index_array_bounds" needs "index_array"')
        return OutputIndexMap(**given, **limits)

    def _to_json(self) -> dict[str, Any]:
        """Convert an output map to JSON."""
        document: dict[str, Any] = {}
        if self._array is not None:
            document["index_array"] = self._array.tolist()
            lower, upper = self._range
            if self._array.size and not (lower <= int(self._array.min()) and int(self._array.max()) < upper):
                document["index_array_bounds"] = [
                    "-inf" if lower == -INFINITY else lower,
                    "+inf" if upper == EXCLUSIVE_INFINITY else upper - 1,
                ]
        if self._dimension is not None:
            document["input_dimension"] = self._dimension
        if self._offset:
            document["offset"] = self._offset
        if self._stride != 1 and (self._array is not None or self._dimension is not None):
            document["stride"] = self._stride
        return document

    @property
    def method(self) -> OutputIndexMethod:
        """The kind of the map."""
        if self._array is not None:
            return OutputIndexMethod.array
        return OutputIndexMethod.constant if self._dimension is None else OutputIndexMethod.single_input_dimension

    offset: int = attribute("_offset", "The offset.")

    @property
    def stride(self) -> int | None:
        """The multiplier of the index; None for a constant."""
        return None if self._dimension is None and self._array is None else self._stride

    input_dimension: int | None = attribute("_dimension", "The input dimension, if the map uses one.")
    index_array: IndexArray | None = attribute("_array", "The index array, if there is one.")

    @property
    def index_range(self) -> Dim | None:
        """The values that are valid in the index array."""
        return None if self._array is None else Dim._make(*self._range, False, False, "")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputIndexMap):
            return NotImplemented
        mine = (self._offset, self.stride, self._dimension, self._range)
        if mine != (other._offset, other.stride, other._dimension, other._range):
            return False
        if self._array is None or other._array is None:
            return self._array is other._array
        return np.array_equal(self._array, other._array)

    def __hash__(self) -> int:
        return hash((self._offset, self.stride, self._dimension, self._range))

    def __repr__(self) -> str:
        if self._array is not None:
            return (
                f"OutputIndexMap(offset={self._offset}, stride={self._stride}, "
                f"index_array={array_text(self._array)}, index_range={interval_text(*self._range)})"
            )
        if self._dimension is not None:
            return f"OutputIndexMap(offset={self._offset}, stride={self._stride}, input_dimension={self._dimension})"
        return f"OutputIndexMap(offset={self._offset})"


class OutputIndexMaps(tuple[OutputIndexMap, ...]):
    """A transform's output maps: a sequence of `OutputIndexMap`."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of maps."""
        return len(self)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return list(tuple.__getitem__(self, key))
        if not -len(self) <= operator.index(key) < len(self):
            raise index_error(f"Index {key} is outside valid range [{-len(self)}, {len(self)})")
        return tuple.__getitem__(self, key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


def array_text(array: IndexArray, short: bool | None = None) -> str:
    """Return an array as text in braces; a large one is abbreviated, unless `short` says otherwise."""
    if array.ndim == 0:
        return str(int(array))
    short = array.size > 1000 if short is None else short
    parts: list[Any] = [*array] if not short or len(array) <= 6 else [*array[:3], None, *array[-3:]]
    return f"{{{', '.join(['...' if part is None else array_text(part, short) for part in parts])}}}"


def _index_array(value: ArrayLike) -> IndexArray:
    array = np.array(value)
    if array.dtype.kind not in "iufb" and array.size:
        raise type_error("index_array must be an array of integers")
    indices = array.astype(np.int64)
    indices.flags.writeable = False
    return indices


def _range(value: Any) -> Interval:
    if value is not None and not isinstance(value, Dim):
        raise type_error("index_range must be a Dim")
    return UNBOUNDED if value is None else (value.inclusive_min, value.exclusive_max)


def _array_from_json(value: Any) -> IndexArray:
    elements = nested_array(value, nested_shape(value))
    indices = np.empty(elements.shape, np.int64)
    for position in np.ndindex(indices.shape):
        indices[position] = int64(elements[position])
    return indices


def _range_of_json(value: Any) -> Dim:
    array(value, 2)
    return Dim._make(*closed(*array_of(value, _bound_from_json)), False, False, "")


def _bound_from_json(value: Any) -> int:
    if value in ("-inf", "+inf"):
        return INFINITY if value == "+inf" else -INFINITY
    return integer(value, -INFINITY, INFINITY, '64-bit signed integer or "-inf" or "+inf"')


_MEMBERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("offset", "stride", "input_dimension"), int64),
    "index_array": _array_from_json,
    "index_array_bounds": _range_of_json,
}
