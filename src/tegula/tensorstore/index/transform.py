"""Index transforms: maps from the indices of a domain to indices of an output space, and lazy indexing with them."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar, cast

import numpy as np

from tegula.tensorstore.errors import invalid, status, type_error
from tegula.tensorstore.index.composition import Maps, Transform
from tegula.tensorstore.index.composition import compose as compose_pairs
from tegula.tensorstore.index.dim import Dim
from tegula.tensorstore.index.domain import Applicable, IndexDomain, bounds_from_arguments
from tegula.tensorstore.index.indexing import Mode, index_basic, index_directly, parse_expression
from tegula.tensorstore.index.intervals import INFINITY, effective, interval_text
from tegula.tensorstore.index.operations import Movable
from tegula.tensorstore.index.output_maps import OutputIndexMap, OutputIndexMaps, array_text
from tegula.tensorstore.index.subscripts import Subscript
from tegula.tensorstore.index.transform_json import (
    identity_maps,
    is_identity,
    transform_from_json,
    transform_to_json,
    validated,
)
from tegula.tensorstore.json.binding import dump
from tegula.tensorstore.json.values import to_json_value

__all__ = ["IndexTransform", "Indexable", "compose", "identity"]

Self = TypeVar("Self", bound="Indexable")
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
    def _with_transform(self: Self, transform: IndexTransform) -> Self: ...

    def _pair(self) -> Transform:
        return self._transform()._pair()

    def _with_pair(self: Self, pair: Transform) -> Self:
        return self._with_transform(IndexTransform._make(*pair))

    def __getitem__(self: Self, key: Any) -> Self:
        return self._with_transform(IndexTransform._make(*_indexed(self._transform()._pair(), key, "default")))

    @property
    def oindex(self: Self) -> Subscript[Self]:
        """``x.oindex[...]`` applies each index array to its own dimension."""
        return self._subscript("oindex", lambda pair, key: _indexed(pair, key, "oindex"))

    @property
    def vindex(self: Self) -> Subscript[Self]:
        """``x.vindex[...]`` broadcasts index arrays together; the resulting dimensions come first."""
        return self._subscript("vindex", lambda pair, key: _indexed(pair, key, "vindex"))


class IndexTransform(Indexable, Applicable):
    """A map from an input domain to an output space, with an `OutputIndexMap` for each output dimension.

    Parameters
    ----------
    input_rank : int, optional
        Number of input dimensions; or an `IndexDomain` or a sequence of `Dim`, which is the input domain.
    input_inclusive_min, input_exclusive_max, input_inclusive_max, input_shape : sequence of int, optional
        The bounds of the input domain.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        Whether each bound is implicit.
    input_labels : sequence of str, optional
        The labels of the input dimensions.
    output : sequence of OutputIndexMap, optional
        The output maps; by default the identity.
    json : Any, optional
        The JSON representation, instead of all other arguments.

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
        **json: Any,
    ) -> None:
        arguments = {
            "rank": input_rank,
            "inclusive_min": input_inclusive_min,
            "implicit_lower_bounds": implicit_lower_bounds,
            "exclusive_max": input_exclusive_max,
            "inclusive_max": input_inclusive_max,
            "shape": input_shape,
            "implicit_upper_bounds": implicit_upper_bounds,
            "labels": input_labels,
        }
        # positional forms: a domain or dimensions instead of a rank
        output = output_maps if output is None else output
        if domain is None and input_rank is not None and not hasattr(input_rank, "__index__"):
            domain = cast("IndexDomain", arguments.pop("rank"))
        if json:
            if set(json) != {"json"} or any(value is not None for value in (*arguments.values(), domain, output)):
                raise type_error(f"unexpected arguments: {', '.join(sorted(json))}")
            self._domain, self._maps = transform_from_json(to_json_value(json["json"]))
            return
        # the domain from bounds, or the given domain; by default the transform is the identity over it
        if domain is None:
            self._domain = IndexDomain._make(*bounds_from_arguments(arguments, "input_"))
        elif any(value is not None for value in arguments.values()):
            raise type_error("domain can only be combined with output")
        else:
            self._domain = domain if isinstance(domain, IndexDomain) else IndexDomain(cast("Any", domain))
        self._maps = identity_maps(self._domain.rank) if output is None else self._checked_maps(output)

    def _checked_maps(self, output: Iterable[OutputIndexMap]) -> Maps:
        maps = tuple(output)
        if not all(isinstance(output_map, OutputIndexMap) for output_map in maps):
            raise type_error("output must be OutputIndexMaps")
        return validated(self._domain, maps)

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

    @property
    def _is_identity(self) -> bool:
        """Whether output and input indices are the same."""
        return is_identity(self._maps, self._domain.rank)

    @property
    def domain(self) -> IndexDomain:
        """The input domain."""
        return self._domain

    @property
    def output(self) -> OutputIndexMaps:
        """The output maps."""
        return OutputIndexMaps(self._maps)

    @property
    def input_rank(self) -> int:
        """The number of input dimensions."""
        return len(self._domain._lower)

    ndim = input_rank
    """The number of input dimensions."""

    @property
    def output_rank(self) -> int:
        """The number of output dimensions."""
        return len(self._maps)

    @property
    def input_origin(self) -> tuple[int, ...]:
        """The first index of each input dimension."""
        return self._domain._lower

    origin = input_origin
    """The first index of each input dimension."""

    input_inclusive_min = input_origin
    """The first index of each input dimension."""

    @property
    def input_inclusive_max(self) -> tuple[int, ...]:
        """The last index of each input dimension."""
        return self._domain.inclusive_max

    @property
    def input_exclusive_max(self) -> tuple[int, ...]:
        """One more than the last index of each input dimension."""
        return self._domain._upper

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The size of each input dimension."""
        return self._domain.shape

    shape = input_shape
    """The size of each input dimension."""

    @property
    def size(self) -> int:
        """The number of elements of the input domain."""
        return self._domain.size

    @property
    def input_labels(self) -> tuple[str, ...]:
        """The label of each input dimension."""
        return self._domain._labels

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Whether the lower bound of each input dimension is implicit."""
        return self._domain._implicit_lower

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Whether the upper bound of each input dimension is implicit."""
        return self._domain._implicit_upper

    def to_json(self) -> Any:
        """Return the JSON representation."""
        return transform_to_json(self._domain, self._maps)

    def __call__(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Return the output indices for input indices.

        Raises
        ------
        ValueError
            If an index is outside the explicit bounds of the domain.
        """
        point = [operator.index(index) for index in indices]
        domain = self._domain
        if len(point) != domain.rank:
            raise invalid(f"{len(point)} indices do not fit the input rank {domain.rank}")
        for dim, index in enumerate(point):
            # implicit bounds may change later, so they are not checked; infinity is not an index
            lower, upper = effective(domain._bounds(dim))
            if not (lower <= index < upper and abs(index) < INFINITY):
                text = f"Index {index} is outside valid range {interval_text(*domain._bounds(dim))} of dimension {dim}"
                raise status("OUT_OF_RANGE", text)
        return tuple([self._output_index(output, output_map, point) for output, output_map in enumerate(self._maps)])

    def _output_index(self, output: int, output_map: OutputIndexMap, point: list[int]) -> int:
        value = 0 if output_map._dimension is None else point[output_map._dimension]
        if output_map._array is not None:
            places = zip(output_map._array.shape, point, self._domain._lower, strict=True)
            value = int(output_map._array[tuple([0 if size == 1 else index - low for size, index, low in places])])
            lower, upper = output_map._range
            if not lower <= value < upper:
                text = (
                    f"Index {value} is outside valid range {interval_text(lower, upper)} of output dimension {output}"
                )
                raise status("OUT_OF_RANGE", text)
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
        for dim in range(domain.rank):
            label = f" {dump(domain._labels[dim])}" if domain._labels[dim] else ""
            lines.append(f"    {dim}: {interval_text(*domain._bounds(dim))}{label}")
        lines.append("  Output index maps:")
        for output, output_map in enumerate(self._maps):
            lines.append(f"    out[{output}] = {_map_text(output_map)}")
        return "\n".join(lines) + "\n"


def identity(domain: IndexDomain) -> IndexTransform:
    """Return the identity transform over a domain."""
    return IndexTransform._make(domain, identity_maps(len(domain._lower)))


def compose(outer: IndexTransform, inner: IndexTransform) -> IndexTransform:
    """Return the transform that applies ``inner``, then ``outer``."""
    return IndexTransform._make(*compose_pairs(outer._pair(), inner._pair()))


def _indexed(pair: Transform, key: Any, mode: Mode) -> Transform:
    if mode == "default" and type(key) not in _PLAIN and isinstance(key, (IndexDomain, Applicable)):
        if isinstance(key, Applicable):
            return key._apply(pair)
        inner = pair[0]._sliced(key)
        return compose_pairs(pair, (inner, identity_maps(inner.rank)))
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
