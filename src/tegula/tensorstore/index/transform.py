"""Index transforms: maps from indices of a domain to those of an output space; lazy indexing and resizing with them."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self, cast

import numpy as np

from tegula.runtime.frozen import attribute, computed
from tegula.tensorstore.errors import checked, invalid, status, type_error
from tegula.tensorstore.index.dim import INFINITY, Dim, effective, interval_text, outside
from tegula.tensorstore.index.domain import (
    Applicable,
    IndexDomain,
    bounds_from_arguments,
    bounds_from_json,
    bounds_to_json,
    sole_json,
)
from tegula.tensorstore.index.indexing import index_basic, index_directly, parse_expression
from tegula.tensorstore.index.operations import Mode, Movable, Subscript, by_arrays
from tegula.tensorstore.index.output_maps import (
    Maps,
    OutputIndexMap,
    OutputIndexMaps,
    Transform,
    array_text,
    inherited,
    is_explicitly_empty,
    with_inherited,
)
from tegula.tensorstore.index.output_maps import compose as compose_pairs
from tegula.tensorstore.json import MISSING, array, array_of, check_rank, dump, member, obj

__all__ = ["IndexTransform", "Indexable", "base_bounds", "check_implicit", "compose", "identity", "resolved_transform"]


_PLAIN = frozenset((int, slice, tuple, list, np.ndarray))


class Indexable(Movable):
    """Base class of objects with lazy indexing: each operation returns a new object with a new transform.

    A subclass defines `_transform` and `_with_transform`, and inherits indexing with square brackets, ``oindex``,
    ``vindex`` and the operations of `Movable`.
    """

    __slots__ = ()
    __iter__ = None

    @abstractmethod
    def _transform(self) -> IndexTransform: ...

    @abstractmethod
    def _with_transform(self, transform: IndexTransform) -> Self: ...

    def _pair(self) -> Transform:
        return self._transform()._pair()

    def _with_pair(self, pair: Transform) -> Self:
        return self._with_transform(IndexTransform._make(*pair))

    def __getitem__(self, key: Any) -> Self:
        return self._with_transform(IndexTransform._make(*_indexed(self._transform()._pair(), key, "default")))

    def _indexed(self, key: Any, mode: Mode) -> Self:
        return self._with_transform(IndexTransform._make(*_indexed(self._transform()._pair(), key, mode)))

    oindex: Subscript[Self] = by_arrays("oindex", "``x.oindex[...]`` applies each index array to its own dimension.")
    vindex: Subscript[Self] = by_arrays(
        "vindex", "``x.vindex[...]`` broadcasts index arrays together; the resulting dimensions come first."
    )


class IndexTransform(Indexable, Applicable):
    """A map from an input domain to an output space, with an `OutputIndexMap` for each output dimension.

    A domain, or a sequence of `Dim`, may be given in place of the rank. By default, the map is the identity.

    Examples
    --------
    >>> transform = IndexTransform(input_shape=[4, 5])
    >>> transform[1:3, 2]((2,))
    (2, 2)
    >>> transform[::2].to_json()["output"][0]
    {'input_dimension': 0, 'stride': 2}
    """

    __slots__ = ("_domain", "_maps")
    _domain: IndexDomain
    _maps: Maps

    def __init__(
        self,
        input_rank: int | IndexDomain | Iterable[Dim] | None = None,
        output_maps: Iterable[OutputIndexMap] | None = None,
        *,
        input_inclusive_min: Iterable[int] | None = None,
        implicit_lower_bounds: Iterable[bool] | None = None,
        input_exclusive_max: Iterable[int] | None = None,
        input_inclusive_max: Iterable[int] | None = None,
        input_shape: Iterable[int] | None = None,
        implicit_upper_bounds: Iterable[bool] | None = None,
        input_labels: Iterable[str | None] | None = None,
        output: Iterable[OutputIndexMap] | None = None,
        domain: IndexDomain | Iterable[Dim] | None = None,
        json: Any = MISSING,
    ) -> None:
        if json is not MISSING:
            self._domain, self._maps = _from_json(sole_json(locals()))
            return
        # positional forms: a domain or dimensions instead of a rank
        output = output_maps if output is None else output
        if domain is None and input_rank is not None and not hasattr(input_rank, "__index__"):
            domain, input_rank = cast("IndexDomain", input_rank), None
        # the domain from bounds, or the given domain; by default the transform is the identity over it
        if domain is None:
            self._domain = IndexDomain._of(bounds_from_arguments(locals(), "input_"))
        elif any(value is not None for name, value in locals().items() if name.startswith(("input_", "implicit_"))):
            raise type_error("domain can only be combined with output")
        else:
            self._domain = domain if isinstance(domain, IndexDomain) else IndexDomain(cast("Any", domain))
        self._maps = _identity_maps(self._domain.rank) if output is None else _validated(self._domain, output)

    @classmethod
    def _make(cls, domain: IndexDomain, maps: Maps) -> IndexTransform:
        self = cls.__new__(cls)
        self._domain, self._maps = domain, maps
        return self

    def _pair(self) -> Transform:
        return self._domain, self._maps

    def _transform(self) -> IndexTransform:
        return self

    def _with_transform(self, transform: IndexTransform) -> IndexTransform:
        return transform

    def _apply(self, pair: Transform) -> Transform:
        """Compose the given transform, as the outer one, with this one; without output maps, only the domains."""
        return compose_pairs(pair, self._pair())

    domain: IndexDomain = attribute("_domain", "The input domain.")

    output: OutputIndexMaps = computed(lambda self: OutputIndexMaps(self._maps), "The output maps.")
    input_rank: int = computed(lambda self: len(self._domain._dims), "The number of input dimensions.")
    ndim = input_rank
    output_rank: int = computed(lambda self: len(self._maps), "The number of output dimensions.")

    input_origin: tuple[int, ...] = attribute("_domain.inclusive_min", "The first index of each input dimension.")
    origin = input_inclusive_min = input_origin
    input_inclusive_max: tuple[int, ...] = attribute("_domain.inclusive_max", "The last index of each input dimension.")
    input_exclusive_max: tuple[int, ...] = attribute(
        "_domain.exclusive_max", "One more than the last index of each input dimension."
    )
    input_shape: tuple[int, ...] = attribute("_domain.shape", "The size of each input dimension.")
    shape = input_shape
    size: int = attribute("_domain.size", "The number of elements of the input domain.")
    input_labels: tuple[str, ...] = attribute("_domain.labels", "The label of each input dimension.")
    implicit_lower_bounds: tuple[bool, ...] = attribute(
        "_domain.implicit_lower_bounds", "Whether the lower bound of each input dimension is implicit."
    )
    implicit_upper_bounds: tuple[bool, ...] = attribute(
        "_domain.implicit_upper_bounds", "Whether the upper bound of each input dimension is implicit."
    )

    def to_json(self) -> Any:
        """Return the JSON representation; the output maps of the identity are left out."""
        document = bounds_to_json(self._domain._dims, "input_")
        if self._maps != _identity_maps(self._domain.rank):
            document["output"] = [output_map._to_json() for output_map in self._maps]
        return document

    def __call__(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Return the output indices for input indices, which must be inside the explicit bounds of the domain."""
        point = [operator.index(index) for index in indices]
        domain = self._domain
        if len(point) != domain.rank:
            raise invalid(f"{len(point)} indices do not fit the input rank {domain.rank}")
        for dim, index in enumerate(point):
            # implicit bounds may change later, so they are not checked; infinity is not an index
            lower, upper = effective(domain._dims[dim])
            if not (lower <= index < upper and abs(index) < INFINITY):
                raise status("OUT_OF_RANGE", outside(f"dimension {dim}", index, (lower, upper)))
        return tuple([self._output_index(output, output_map, point) for output, output_map in enumerate(self._maps)])

    def _output_index(self, output: int, output_map: OutputIndexMap, point: list[int]) -> int:
        value = 0 if output_map._dimension is None else point[output_map._dimension]
        if output_map._array is not None:
            places = zip(output_map._array.shape, point, self._domain.inclusive_min, strict=True)
            value = int(output_map._array[tuple([0 if size == 1 else index - low for size, index, low in places])])
            lower, upper = output_map._range
            if not lower <= value < upper:
                raise status("OUT_OF_RANGE", outside(f"output dimension {output}", value, (lower, upper)))
        return output_map._offset + output_map._stride * value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexTransform):
            return NotImplemented
        if self is other:
            return True
        if self._domain != other._domain or len(self._maps) != len(other._maps):
            return False
        return all(_same_map(*pair, self._domain.shape) for pair in zip(self._maps, other._maps, strict=True))

    def __hash__(self) -> int:
        return hash((self._domain, len(self._maps)))

    def __copy__(self) -> IndexTransform:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexTransform:
        return self

    def __repr__(self) -> str:
        domain = self._domain
        lines = [f"Rank {domain.rank} -> {len(self._maps)} index space transform:", "  Input domain:"]
        for dim, bounds in enumerate(domain._dims):
            lines.append(f"    {dim}: {interval_text(*bounds)}{f' {dump(bounds[4])}' if bounds[4] else ''}")
        lines.append("  Output index maps:")
        for output, output_map in enumerate(self._maps):
            lines.append(f"    out[{output}] = {_map_text(output_map)}")
        return "\n".join(lines) + "\n"


def _identity_maps(rank: int) -> Maps:
    return tuple([OutputIndexMap._single(dim) for dim in range(rank)])


def _validated(domain: IndexDomain, maps: Iterable[OutputIndexMap]) -> Maps:
    """Check output maps against their domain; return constants for stride 0 and for index arrays if it is empty."""
    empty, maps = is_explicitly_empty(domain), [checked("output", one, OutputIndexMap) for one in maps]
    check_rank(len(maps))
    return tuple([_validated_map(domain, output, output_map, empty) for output, output_map in enumerate(maps)])


def _validated_map(domain: IndexDomain, output: int, output_map: OutputIndexMap, empty: bool) -> OutputIndexMap:
    where = f"output dimension {output}"
    dim, values = output_map._dimension, output_map._array
    if dim is not None and not 0 <= dim < domain.rank:
        raise invalid(f"{where}: there is no input dimension {dim}")
    if not output_map._stride and (dim is not None or values is not None):
        return OutputIndexMap._constant(output_map._offset)
    if values is None:
        return output_map
    # an index array must fit the domain
    shape = domain.shape
    if values.ndim != len(shape) or any(size not in (1, full) for size, full in zip(values.shape, shape)):
        raise invalid(f"{where}: an index array of shape {values.shape} does not fit the input shape {shape}")
    for dim, size in enumerate(values.shape):
        if size != 1 and not empty and True in domain._dims[dim][2:4]:
            raise invalid(f"{where}: an index array depends on input dimension {dim}, which has implicit bounds")
    return OutputIndexMap._constant(0) if empty else output_map


def _from_json(json: Any) -> Transform:
    members = obj(json)  # of which `bounds_from_json` refuses unknown ones
    output = members.pop("output", MISSING)
    domain = IndexDomain._of(bounds_from_json(members, "input_"))
    if output is MISSING:
        return domain, _identity_maps(domain.rank)
    with member("output"):
        check_rank(len(array(output)))
        maps = array_of(output, OutputIndexMap._of_json)
    return domain, _validated(domain, maps)


def identity(domain: IndexDomain) -> IndexTransform:
    """Return the identity transform over a domain."""
    return IndexTransform._make(domain, _identity_maps(len(domain._dims)))


def compose(outer: IndexTransform, inner: IndexTransform) -> IndexTransform:
    """Return the transform that applies ``inner``, then ``outer``."""
    return IndexTransform._make(*compose_pairs(outer._pair(), inner._pair()))


def _indexed(pair: Transform, key: Any, mode: Mode) -> Transform:
    if mode == "default" and type(key) not in _PLAIN and isinstance(key, (IndexDomain, Applicable)):
        if isinstance(key, Applicable):
            return key._apply(pair)
        inner = pair[0]._sliced(key)
        return compose_pairs(pair, (inner, _identity_maps(inner.rank)))
    return index_basic(pair, key, mode) or index_directly(pair, parse_expression(key, mode))


def _same_map(first: OutputIndexMap, second: OutputIndexMap, shape: tuple[int, ...]) -> bool:
    if first == second:
        return True
    if first._array is None or second._array is None or first._array.shape == second._array.shape:
        return False
    same = (first._offset, first._stride, first._range) == (second._offset, second._stride, second._range)
    return same and np.array_equal(np.broadcast_to(first._array, shape), np.broadcast_to(second._array, shape))


def _map_text(output_map: OutputIndexMap) -> str:
    if output_map._array is not None:
        return (
            f"{output_map._offset} + {output_map._stride} * bounded({interval_text(*output_map._range)}, array(in)), "
            f"where array =\n      {array_text(output_map._array)}"
        )
    if output_map._dimension is not None:
        return f"{output_map._offset} + {output_map._stride} * in[{output_map._dimension}]"
    return str(output_map._offset)


_Bounds = tuple[int | None, ...]


def resolved_transform(transform: IndexTransform, base: IndexDomain) -> IndexTransform:
    """Return the transform of a view with its implicit bounds taken from the current bounds of the base."""
    old = transform._domain._dims
    for bounds in old:  # each read and write calls this, so the usual case must be fast
        if bounds[2] or bounds[3]:
            break
    else:
        return transform
    new = [*old]
    for dim, outermost in inherited(base, transform._maps).items():
        new[dim] = with_inherited(new[dim], outermost)
    return transform if new == [*old] else IndexTransform(IndexDomain._of(new), output=transform.output)


def check_implicit(domain: IndexDomain, inclusive_min: _Bounds, exclusive_max: _Bounds) -> None:
    """Refuse new bounds where those of a view are explicit."""
    for number, (bounds, *new) in enumerate(zip(domain._dims, inclusive_min, exclusive_max)):
        for word, bound, is_implicit in zip(("lower", "upper"), new, bounds[2:4]):
            if bound is not None and not is_implicit:
                raise invalid(f"the {word} bound of dimension {number} is explicit and can't be resized")


def base_bounds(
    transform: IndexTransform, base: IndexDomain, inclusive_min: _Bounds, exclusive_max: _Bounds, *, tied: bool
) -> tuple[_Bounds, _Bounds]:
    """Return the new bounds of the base for a resize of a view; None keeps a bound.

    A resize may add or remove elements outside the view only if it is `tied`.
    """
    lower: list[int | None] = [None] * base.rank
    upper: list[int | None] = [None] * base.rank
    if all(bound is None for bound in (*inclusive_min, *exclusive_max)):
        return tuple(lower), tuple(upper)
    # convert the bounds of each dimension of the view to those of the base
    seen: set[int] = set()
    for number, output in enumerate(transform._maps):
        axis, stride = output._dimension, output._stride
        if output._array is not None and not tied:
            raise invalid(f"output dimension {number} has an index array: `resize_tied_bounds` is needed")
        if axis is None:
            continue
        if axis in seen and not tied:
            raise invalid(f"dimension {axis} is a diagonal: `resize_tied_bounds` is needed")
        seen.add(axis)
        low, high = inclusive_min[axis], exclusive_max[axis]
        if stride not in (1, -1) and not (tied and low is None and high is None):
            raise invalid(f"output dimension {number} depends on dimension {axis} with the stride {stride}")
        if stride == -1:
            is_empty = low is not None and low == high  # the lower bound is reversed then, and nothing ends there
            low, high = None if high is None else 1 - is_empty - high, None if low is None else 1 - is_empty - low
        lower[number] = None if low is None else low + output._offset
        upper[number] = None if high is None else high + output._offset
    # the base must allow the change, and the view must contain all elements that the change affects
    _check_fixed(base, lower, upper)
    if not tied:
        _check_outside(transform, base, lower, upper)
    return tuple(lower), tuple(upper)


def _check_fixed(base: IndexDomain, lower: list[int | None], upper: list[int | None]) -> None:
    for at, word, new_bounds in ((0, "lower", lower), (1, "upper", upper)):
        for number, (bound, fixed) in enumerate(zip(new_bounds, base._dims)):
            if bound is None or fixed[at + 2]:
                continue
            if bound != fixed[at]:
                raise status("FAILED_PRECONDITION", f"the {word} bound of output dimension {number} is {fixed[at]}")
            new_bounds[number] = None


def _check_outside(
    transform: IndexTransform, base: IndexDomain, lower: list[int | None], upper: list[int | None]
) -> None:
    """Refuse a resize if the view omits a part of the base, except at the bounds that change."""
    for number, (output, (low, high, *_)) in enumerate(zip(transform._maps, base._dims)):
        start = last = output._offset
        if output._dimension is not None:
            begin, end = transform._domain._dims[output._dimension][:2]
            start, last = sorted(output._stride * index + output._offset for index in (begin, end - 1))
        before, after = start > low and lower[number] is None, last + 1 < high and upper[number] is None
        if before or after:
            outside = interval_text(low, start) if before else interval_text(last + 1, high)
            raise status("FAILED_PRECONDITION", f"output dimension {number}: {outside} needs `resize_tied_bounds`")
