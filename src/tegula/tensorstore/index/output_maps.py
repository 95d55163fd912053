"""Output index maps, and the composition of transforms.

A map computes one output coordinate from a constant, an input dimension, or an index array. Here a transform is a pair
of an input domain and output maps. The *inner* transform is applied first; its output space is the input space of the
*outer* one, which maps to the stored array: outer bounds propagate to the inner domain, and inner maps are put into
outer ones. Index arrays are composed as `tegula.indexing.transform` does it for views, whose domains have the origin 0.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tegula.indexing.transform import Affine, OutputMap, affine, composed
from tegula.runtime.frozen import attribute, computed
from tegula.tensorstore.errors import StatusError, annotate, checked_or_none, index_error, invalid, type_error
from tegula.tensorstore.index.dim import (
    EXCLUSIVE_INFINITY,
    INFINITY,
    MAX_INT64,
    UNBOUNDED,
    Bounds,
    Dim,
    Interval,
    affine_domain,
    closed,
    effective,
    explicit_intersection,
    interval_text,
    outside,
)
from tegula.tensorstore.json import array, array_of, each, int64, integer, nested_array, read_int64, read_object

__all__ = [
    "IndexArray", "Maps", "OutputIndexMap", "OutputIndexMaps", "OutputIndexMethod", "Transform", "array_text",
    "compose", "inherited", "is_explicitly_empty", "substituted", "with_inherited", "with_origin_0",
]  # fmt: skip


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

    The axes of an index array are the input dimensions; its size is 1 along those that do not affect the index, and
    `index_range` has the values that are valid in it.

    Examples
    --------
    >>> OutputIndexMap(input_dimension=1, offset=5, stride=2)
    OutputIndexMap(offset=5, stride=2, input_dimension=1)
    >>> OutputIndexMap(index_array=[3, 1]).method
    <OutputIndexMethod.array: 2>
    """

    __slots__ = ("_array", "_dimension", "_offset", "_range", "_stride")

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
            raise type_error("expected offset, input_dimension or index_array, offset, stride and index_range")
        arguments.update(members)
        self._offset = read_int64(arguments.get("offset", 0))
        self._stride = read_int64(arguments.get("stride", int(len(names) > 1)))
        self._dimension = read_int64(arguments["input_dimension"]) if "input_dimension" in arguments else None
        limits = checked_or_none("index_range", arguments.get("index_range"), Dim)
        self._range = UNBOUNDED if limits is None else limits._key()[:2]
        self._array: IndexArray | None = None
        if "index_array" in arguments:
            array = np.array(arguments["index_array"])
            if array.dtype.kind not in "iufb" and array.size:
                raise type_error("index_array must be an array of integers")
            self._array = array.astype(np.int64)
            self._array.flags.writeable = False

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
        given = read_object(json, _MEMBERS)
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
        if self._array is None or other._array is None:
            return self._array is other._array and self._key() == other._key()
        return self._key() == other._key() and np.array_equal(self._array, other._array)

    def _key(self) -> tuple[Any, ...]:
        return self._offset, self.stride, self._dimension, self._range

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self._array is None and self._dimension is None:
            return f"OutputIndexMap(offset={self._offset})"
        source = f"input_dimension={self._dimension}"
        if self._array is not None:
            source = f"index_array={array_text(self._array)}, index_range={interval_text(*self._range)}"
        return f"OutputIndexMap(offset={self._offset}, stride={self._stride}, {source})"


class OutputIndexMaps(tuple[OutputIndexMap, ...]):
    """A transform's output maps: a sequence of `OutputIndexMap`."""

    __slots__ = ()

    rank: int = computed(len, "The number of maps.")

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


def _bound_from_json(value: Any) -> int:
    if value in ("-inf", "+inf"):
        return INFINITY if value == "+inf" else -INFINITY
    return integer(value, -INFINITY, INFINITY, '64-bit signed integer or "-inf" or "+inf"')


_MEMBERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("offset", "stride", "input_dimension"), int64),
    "index_array": lambda value: each(nested_array(value), int64, np.dtype(np.int64)),
    "index_array_bounds": lambda value: Dim(*closed(*array_of(array(value, 2), _bound_from_json))),
}


Maps: TypeAlias = tuple[OutputIndexMap, ...]
Transform: TypeAlias = tuple[Any, Maps]
"""The domain, an `IndexDomain`, and the output maps over it."""


def compose(outer: Transform, inner: Transform) -> Transform:
    """Return the transform that applies ``inner``, then ``outer``."""
    if len(inner[1]) != outer[0].rank:
        raise index_error(f"a transform to {len(inner[1])} dimensions does not fit a domain of {outer[0].rank}")
    domain = _propagated(outer[0], *inner)
    return domain, substituted(*outer, domain, inner[1])


def is_explicitly_empty(domain: Any) -> bool:
    """Return whether a domain is empty in a dimension with explicit bounds, which a resize can't change."""
    for lower, upper, implicit_lower, implicit_upper, _ in domain._dims:
        if lower == upper and not (implicit_lower or implicit_upper):
            return True
    return False


def inherited(outer: Any, maps: Maps, *, is_checked: bool = False) -> dict[int, Bounds]:
    """Return the bounds that input dimensions inherit from the domain that output maps lead to.

    With `is_checked`, constants must be indices of that domain.
    """
    inferred: dict[int, Bounds] = {}
    for dim, (output_map, own) in enumerate(zip(maps, outer._dims, strict=True)):
        target = output_map._dimension
        if target is None:
            if output_map._array is None and is_checked:
                _check_index(output_map._offset, effective(own), f"output dimension {dim}")
            continue
        bounds: Bounds = own
        if output_map._stride != 1 or output_map._offset:
            try:
                interval = affine_domain(own[:2], output_map._offset, output_map._stride)
            except StatusError as error:
                raise annotate(error, f"bounds of dimension {dim} for input dimension {target}") from None
            bounds = (*interval, *(own[2:4] if output_map._stride > 0 else own[3:1:-1]), "")
        inferred[target] = explicit_intersection(inferred[target], bounds) if target in inferred else bounds
    return inferred


def with_inherited(bounds: Bounds, outermost: Bounds) -> Bounds:
    """Return bounds with the implicit ones replaced by inherited ones."""
    lower, upper, implicit_lower, implicit_upper, label = bounds
    if implicit_lower:
        lower, implicit_lower = outermost[0], outermost[2]
    if implicit_upper:
        upper, implicit_upper = outermost[1], outermost[3]
    return lower, max(lower, upper), implicit_lower, implicit_upper, label


def _propagated(outer: Any, inner: Any, maps: Maps) -> Any:
    """Return the inner domain with its implicit bounds inferred from the outer domain, after checking the others."""
    empty = is_explicitly_empty(inner)  # which leaves nothing to check
    result = [*inner._dims]
    for dim, outermost in sorted(inherited(outer, maps, is_checked=not empty).items()):
        result[dim] = with_inherited(result[dim], outermost)
        lower, upper = result[dim][:2]
        least, most = effective(outermost)
        if not empty and lower != upper and not least <= lower <= upper <= most:
            text = f"dimension {dim}: {interval_text(lower, upper)} is not within {interval_text(*outermost)}"
            raise index_error(text, "OUT_OF_RANGE")
    return inner._of(result)


def _check_index(index: int, bounds: Interval, what: str) -> None:
    if not bounds[0] <= index < bounds[1]:
        raise index_error(outside(what, index, bounds), "OUT_OF_RANGE")


def substituted(outer: Any, maps: Maps, domain: Any, inner: Sequence[OutputIndexMap]) -> Maps:
    """Put what the dimensions of the outer domain become, in terms of a new domain, into output maps."""
    new = []
    is_empty: bool | None = None
    for output, outer_map in enumerate(maps):
        dim = outer_map._dimension
        if dim is None:
            new.append(outer_map if outer_map._array is None else _of_array(outer, outer_map, domain, inner))
            continue
        change = inner[dim]
        offset, stride = outer_map._offset, outer_map._stride
        if change._array is None and not offset and stride == 1:
            new.append(change)
            continue
        offset, stride = offset + stride * change._offset, stride * change._stride
        if not (-MAX_INT64 - 1 <= offset <= MAX_INT64 and -MAX_INT64 - 1 <= stride <= MAX_INT64):
            raise index_error(f"the offset of output dimension {output} is too large")
        if change._array is None:
            new.append(OutputIndexMap._single(change._dimension, offset, 0 if change._dimension is None else stride))
            continue
        is_empty = is_explicitly_empty(domain) if is_empty is None else is_empty
        if is_empty:
            new.append(OutputIndexMap._constant(0))
            continue
        valid = _valid(outer, dim, change)
        if change._array.size != 1:
            new.append(OutputIndexMap._of_array(change._array, offset, stride, valid))
            continue
        value = int(change._array.item())
        _check_index(value, valid, "index array")
        new.append(OutputIndexMap._constant(offset + stride * value))
    return tuple(new)


def _valid(outer: Any, dim: int, inner: OutputIndexMap) -> Interval:
    """Return the values of an inner index array that are indices of a dimension of the outer domain."""
    bounds = effective(outer._dims[dim])
    if inner._offset or inner._stride != 1:
        bounds = affine_domain(bounds, inner._offset, inner._stride)
    lower, upper = max(bounds[0], inner._range[0]), min(bounds[1], inner._range[1])
    return lower, max(lower, upper)


def _of_array(outer: Any, outer_map: OutputIndexMap, domain: Any, inner: Sequence[OutputIndexMap]) -> OutputIndexMap:
    """Return an outer map with the elements of its index array that the inner transform selects."""
    array = outer_map._array
    assert array is not None
    if is_explicitly_empty(domain):
        return OutputIndexMap._constant(0)
    parts: list[OutputMap] = []
    for dim, (size, change) in enumerate(zip(array.shape, inner, strict=True)):
        if size != 1 and change._array is not None:
            lower, upper = _valid(outer, dim, change)
            if change._array.size and not lower <= change._array.min() <= change._array.max() < upper:
                wrong = change._array[(change._array < lower) | (change._array >= upper)].flat[0]
                _check_index(int(wrong), (lower, upper), f"index array for dimension {dim}")
        parts.append(Affine(-1, 0, 0) if size == 1 else with_origin_0(change, domain, outer._dims[dim][0]))
    values = composed(array, parts, domain.shape)
    if isinstance(values, Affine):
        _check_index(values.start, outer_map._range, "index array")
        return OutputIndexMap._constant(outer_map._offset + outer_map._stride * values.start)
    return OutputIndexMap._of_array(values, outer_map._offset, outer_map._stride, outer_map._range)


def with_origin_0(output_map: OutputIndexMap, domain: Any, origin: int) -> OutputMap:
    """Return an output map between domains moved to the origin 0; `origin` is that of the output dimension."""
    offset, stride, dim = output_map._offset - origin, output_map._stride, output_map._dimension
    if output_map._array is not None:
        return output_map._array * stride + offset if (offset, stride) != (0, 1) else output_map._array
    return affine((-1, offset, 0) if dim is None else (dim, offset + stride * domain._dims[dim][0], stride))
