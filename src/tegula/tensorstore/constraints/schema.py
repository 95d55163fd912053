"""`Schema`: constraints on an array, or its properties, independent of its storage; also those of views of arrays.

In a view, a dimension corresponds to one of the array if exactly one output index map uses it; the stride and offset of
the map scale and translate the chunks. Other dimensions have no constraints. In the inner order, a dimension that
several maps use comes where the first of them does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import attrgetter, is_
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.runtime.frozen import attribute
from tegula.tensorstore.constraints import dtypes, fill_values
from tegula.tensorstore.constraints.chunk_layout import MAX_INDEX, ChunkLayout, Constraints, Member, Vector
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.fill_values import stripped
from tegula.tensorstore.constraints.unit import Unit, Units, merged_units
from tegula.tensorstore.errors import checked, index_error, invalid, stating, unhashable
from tegula.tensorstore.index.domain import IndexDomain, merge_domains
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import Indexable, IndexTransform, identity
from tegula.tensorstore.json import MAX_RANK, MISSING, array_of, check_rank, integer, optional, read_int64

__all__ = ["Schema", "fill_through", "layout_through", "units_through"]

_Sources: TypeAlias = "list[tuple[int, OutputIndexMap] | None]"


def _sources(transform: IndexTransform) -> _Sources:
    """Return the corresponding output dimension and its map for each input dimension; None if there is none."""
    maps_of: list[list[tuple[int, OutputIndexMap]]] = [[] for _ in range(transform.domain.rank)]
    for output, output_map in enumerate(transform.output):
        if output_map.input_dimension is not None and output_map.stride:
            maps_of[output_map.input_dimension].append((output, output_map))
    return [maps[0] if len(maps) == 1 else None for maps in maps_of]


def layout_through(layout: ChunkLayout, transform: IndexTransform) -> ChunkLayout:
    """Return the chunk layout of a view, from that of the array and the transform from the view's indices to its."""
    if layout.rank == -1:
        return layout.copy()  # without a rank, it constrains at most the number of elements
    sources = _sources(transform)
    view = ChunkLayout(rank=len(sources))
    if (order := layout._any_order) is not None:  # the dimensions as those of the array first use them
        output = transform.output
        dims = [output[axis].input_dimension for axis in order if output[axis].stride]
        ordered = dict.fromkeys([*(dim for dim in dims if dim is not None), *range(len(sources))])
        view._set("inner_order", [*ordered], layout.inner_order is not None)
    for part, kind in layout._own.items():
        for hard in (True, False):
            values = layout._vector(part).only(hard)
            if kind == "elements":
                view._merge_part(part, Vector(values, (hard and values[0] is not None,)))
            elif kind != "inner_order":
                found = (source and (values[source[0]], source[1]) for source in sources)
                changed = [one and (None if one[0] is None else _through(kind, *one)) for one in found]
                view._set(part, changed, hard)
    return view


def _through(kind: str, value: Any, output_map: OutputIndexMap) -> Any:
    """Return a constraint on one dimension for the dimension of a view that corresponds to it."""
    stride, offset = output_map.stride or 1, output_map.offset
    if kind == "shape":
        return value if value == -1 else value // math.gcd(value, stride)
    if kind == "aspect_ratio":
        return value / abs(stride)
    return -((offset - value) // stride) if stride > 0 else (offset - value) // -stride + 1


def units_through(units: Units, transform: IndexTransform) -> Units:
    """Return the dimension units of a view; see `layout_through`."""
    through: list[Unit | None] = []
    for source in _sources(transform):
        unit = None if source is None else units[source[0]]
        if unit is not None and source is not None and source[1].stride not in (1, -1):
            unit = unit * abs(source[1].stride or 1)
        through.append(unit)
    return tuple(through)


def fill_through(fill: npt.NDArray[Any], domain: IndexDomain | None, transform: IndexTransform) -> npt.NDArray[Any]:
    """Return the fill value of a view; see `layout_through`. It broadcasts to `domain`, that of the array, if known."""
    rank = transform.domain.rank
    outputs = list(transform.output)[len(transform.output) - fill.ndim :]
    origins = (domain or transform.domain).inclusive_min[-fill.ndim :] if domain and fill.ndim else (0,) * fill.ndim
    indices: list[Any] = []
    for size, output_map, origin in zip(fill.shape, outputs, origins, strict=True):
        if size == 1:
            indices.append(0)
        elif output_map.index_array is not None:
            indices.append(output_map.offset + (output_map.stride or 0) * output_map.index_array - origin)
        elif output_map.input_dimension is None:
            indices.append(output_map.offset - origin)
        else:
            indices.append(_along(output_map, rank, transform, size, origin if domain else None))
        if domain is None and not isinstance(indices[-1], np.ndarray) and size != 1:
            raise invalid(f"Error transforming fill_value: shape {[*fill.shape]}, but no domain")
    return stripped(fill[(*indices, ...)])


def _along(output_map: OutputIndexMap, rank: int, transform: IndexTransform, size: int, origin: int | None) -> Any:
    """Return the positions along one axis of the fill value that a dimension of the view selects."""
    axis = output_map.input_dimension or 0
    dim = transform.domain[axis]
    if origin is None or not dim.size <= MAX_INDEX:
        # without a known domain, the view contains all of it
        if output_map.stride not in (1, -1):
            raise invalid("Error transforming fill_value: the domain is unbounded")
        positions = np.arange(size)[:: output_map.stride]
    else:
        low = output_map.offset + (output_map.stride or 1) * dim.inclusive_min - origin
        positions = low + (output_map.stride or 1) * np.arange(dim.size)
    return positions.reshape([-1 if number == axis else 1 for number in range(rank)])


def _of_domain(name: str, doc: str) -> Any:
    """Return the property for one of the domain; None if the rank is unknown."""
    return property(lambda self: None if self._rank is None else getattr(self._any_domain(), name), doc=doc)


class Schema(Constraints, Indexable):
    """Constraints on an array; properties that are not given are unconstrained, contradictions are errors.

    Domains are merged; implicit infinite bounds and empty labels match any. `shape` is that of a domain with the origin
    0. A fill value broadcasts to the domain.

    Examples
    --------
    >>> schema = Schema(dtype="uint8", chunk_layout=ChunkLayout(grid_origin=[1, 2, 3], inner_order=[0, 2, 1]))
    >>> schema
    Schema({
      'chunk_layout': {'grid_origin': [1, 2, 3], 'inner_order': [0, 2, 1]},
      'dtype': 'uint8',
      'rank': 3,
    })
    >>> schema.rank
    3
    """

    __slots__ = ("_chunk_layout", "_codec", "_dimension_units", "_domain", "_dtype", "_fill_value", "_rank")
    _name: ClassVar[str] = "Schema"
    __hash__ = unhashable

    _rank: int | None
    _dtype: dtypes.dtype | None
    _domain: IndexDomain | None
    _chunk_layout: ChunkLayout | None
    """Constraints on the chunks; layouts of schemas are never changed."""
    _codec: CodecSpec | None
    _fill_value: npt.NDArray[Any] | None
    _dimension_units: Units | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rank = self._dtype = self._domain = self._chunk_layout = None
        self._codec = self._fill_value = self._dimension_units = None
        if args or kwargs:
            self._take(args, kwargs)

    @property
    def _is_empty(self) -> bool:
        return all(map(is_, _values(self), repeat(None)))

    def update(
        self,
        schema: Schema | None = None,
        *,
        rank: int | None = None,
        dtype: dtypes.DTypeLike | None = None,
        domain: IndexDomain | None = None,
        shape: Iterable[int] | None = None,
        chunk_layout: ChunkLayout | None = None,
        codec: CodecSpec | None = None,
        fill_value: Any = None,
        dimension_units: Iterable[Any] | None = None,
    ) -> None:
        """Add constraints; the parameters are those of the class. If they contradict each other, change nothing."""
        self._add(locals())

    def _put(self, **values: Any) -> Self:
        """Add constraints that are not None; return the schema."""
        for name, value in values.items():
            if value is not None:
                getattr(self, f"_set_{name}")(value)
        return self

    def _without(self, *names: str) -> Schema:
        new = self.copy()
        for name in names:
            setattr(new, f"_{name}", None)
        return new

    def _put_all(self, other: Schema) -> Self:
        """Add the constraints of another schema; return this one."""
        return self._put(**{name: getattr(other, f"_{name}") for name in _OWN})

    def _become(self, other: Schema) -> None:
        for name in Schema.__slots__:
            setattr(self, name, getattr(other, name))

    rank: int | None = attribute("_rank", "Number of dimensions; None if it is unknown.")
    ndim = rank
    dtype: dtypes.dtype | None = attribute("_dtype", "Data type; None if it is unconstrained.")
    domain: IndexDomain | None = attribute("_domain", "The domain; None if it is unconstrained.")

    shape: tuple[int, ...] | None = _of_domain("shape", "The domain's shape; None if the rank is unknown.")
    origin: tuple[int, ...] | None = _of_domain("origin", "The domain's lower bounds; None if the rank is unknown.")
    size: int | None = _of_domain("size", "The number of elements; None if the rank is unknown.")

    def _any_domain(self) -> IndexDomain:
        return IndexDomain(self._rank) if self._domain is None else self._domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Constraints on the chunks; a copy."""
        return ChunkLayout() if self._chunk_layout is None else self._chunk_layout.copy()

    codec: CodecSpec | None = attribute("_codec", "Constraints on how chunks are encoded.")

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """Value of elements that were never written."""
        return None if self._fill_value is None else self._fill_value.copy()

    @property
    def dimension_units(self) -> Units | None:
        """The physical unit of one step along each dimension; None if the rank is unknown."""
        units = self._dimension_units
        return (None,) * self._rank if units is None and self._rank is not None else units

    def _transform(self) -> IndexTransform:
        if self._rank is None:
            raise index_error("A schema without a rank can't be indexed")
        return identity(self._any_domain())

    def _with_transform(self, transform: IndexTransform) -> Schema:
        return self._through(transform, None if self._domain is None else transform.domain)

    def _through(self, transform: IndexTransform, domain: IndexDomain | None) -> Schema:
        """Return the schema of a view with the given domain; `transform` maps the view to the array."""
        new = Schema()
        new._rank, new._dtype, new._codec, new._domain = transform.input_rank, self._dtype, self._codec, domain
        if self._chunk_layout is not None:
            new._chunk_layout = layout_through(self._chunk_layout, transform)
        if self._fill_value is not None:
            new._fill_value = fill_through(self._fill_value, self._domain, transform)
        if self._dimension_units is not None:
            new._dimension_units = units_through(self._dimension_units, transform)
        return new

    def _required(self, name: str) -> Any:
        """Return a property; raise if it is unconstrained."""
        value = getattr(self, name)
        if value is None:
            raise invalid(f"{name} must be specified")
        return value

    def _refuse(self, *names: str, by: str = "") -> None:
        """Raise if there are constraints on properties that a driver lacks."""
        for name in names:
            if getattr(self, name) is not None:
                raise invalid(f"{name} not supported{by}")

    def _set_rank(self, rank: int, name: str = "rank") -> None:
        """Set the rank; `name` is the argument that errors refer to."""
        if self._rank is not None and self._rank != rank:
            raise invalid(f"Rank specified by {name} ({rank}) does not match the existing one ({self._rank})")
        if (fill := self._fill_value) is not None and fill.ndim > rank:
            raise invalid(f"Rank specified by {name} ({rank}) does not fit the fill_value of shape {[*fill.shape]}")
        self._rank = rank

    def _set_dtype(self, dtype: dtypes.dtype) -> None:
        if self._dtype is not None and self._dtype != dtype:
            raise invalid(f"Specified dtype ({dtype.name}) does not match existing value ({self._dtype.name})")
        self._dtype = dtype
        if self._fill_value is not None:
            self._fill_value = self._converted(self._fill_value)

    def _set_domain(self, domain: IndexDomain, name: str = "domain") -> None:
        self._set_rank(domain.rank, name)
        merged = domain if self._domain is None else merge_domains(self._domain, domain)
        if self._fill_value is not None:
            _check_fill(self._fill_value, merged)
        self._domain = merged

    def _set_chunk_layout(self, layout: ChunkLayout) -> None:
        if layout.rank != -1:
            self._set_rank(layout.rank, "chunk_layout")
        merged = layout.copy()
        if self._chunk_layout is not None:
            merged = self._chunk_layout.copy()
            merged._merge(layout)
        self._chunk_layout = merged

    def _set_codec(self, codec: CodecSpec) -> None:
        self._codec = codec if self._codec is None else self._codec._merged(codec)

    def _set_fill_value(self, value: npt.NDArray[Any]) -> None:
        value = self._converted(fill_values.stripped(value))
        if self._domain is not None:
            _check_fill(value, self._domain)
        elif self._rank is not None and value.ndim > self._rank:
            raise invalid(f"Invalid fill_value for rank {self._rank}: {value.tolist()}")
        old, wanted = self._fill_value, self._dtype
        if old is None:
            value.setflags(write=False)
            self._fill_value = value
            return
        if wanted is not None:  # values from JSON are not converted yet
            old, value = fill_values.as_dtype(old, wanted), fill_values.as_dtype(value, wanted)
        if not fill_values.equal(old, value):
            raise invalid(f"Specified fill_value {value.tolist()} does not match the existing one, {old.tolist()}")

    def _converted(self, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a fill value converted to the data type, if that is known; values from JSON are not converted."""
        if self._dtype is None:
            return value
        # the driver converts values from JSON; only pairs for complex numbers, which add a dimension, are joined here
        is_json = value.dtype.kind == "O" and self._dtype.numpy_dtype.kind != "c"
        return value if is_json else fill_values.as_dtype(value, self._dtype)

    def _set_dimension_units(self, units: Units) -> None:
        if not units:
            return
        check_rank(len(units))
        self._set_rank(len(units), "dimension_units")
        self._dimension_units = merged_units(self._dimension_units, units, Unit.to_json)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        first, second = self._fill_value, other._fill_value
        same_fill = first is second if first is None or second is None else fill_values.equal(first, second)
        return same_fill and self._state() == other._state()

    def _state(self) -> tuple[Any, ...]:
        layout = None if self._chunk_layout is None else self._chunk_layout.to_json()
        return self._rank, self._dtype, self._domain, layout or {}, self._codec, self.dimension_units


def _check_fill(value: npt.NDArray[Any], domain: IndexDomain) -> None:
    with stating("fill_value is incompatible with domain"):
        fill_values.check_broadcast(value, domain.shape)


def _units_argument(values: Any) -> Units:
    if isinstance(values, str):
        raise TypeError("one text")
    return tuple(None if value is None else value if isinstance(value, Unit) else Unit(value) for value in values)


def _layout_to_json(schema: Schema, include_defaults: bool) -> Any:
    """Write the chunk layout, which repeats the rank only with defaults."""
    json = {} if schema._chunk_layout is None else schema._chunk_layout.to_json()
    if not include_defaults:
        json.pop("rank", None)
    return json or MISSING


def _units_to_json(schema: Schema, _: bool) -> Any:
    units = schema._dimension_units or ()
    return [unit and unit.to_json() for unit in units] if any(unit is not None for unit in units) else MISSING


def _fill_to_json(schema: Schema, _: bool) -> Any:
    return MISSING if schema._fill_value is None else fill_values.to_json(schema._fill_value, schema._dtype)


def _to_json(name: str) -> Callable[[Schema, bool], Any]:
    return lambda schema, _: MISSING if (value := getattr(schema, name)) is None else value.to_json()


Schema._members = {
    "rank": Member(
        lambda schema, rank: None if rank == -1 else schema._set_rank(check_rank(rank)),
        lambda schema, json: schema._set_rank(integer(json, 0, MAX_RANK)),
        lambda schema, _: MISSING if schema._rank is None else schema._rank,
    ),
    "dtype": Member(
        lambda schema, dtype: schema._set_dtype(dtypes.dtype(dtype)),
        lambda schema, json: schema._set_dtype(dtypes.from_json(json)),
        _to_json("_dtype"),
    ),
    "domain": Member(
        lambda schema, domain: schema._set_domain(checked("domain", domain, IndexDomain)),
        lambda schema, json: schema._set_domain(IndexDomain(json=json)),
        _to_json("_domain"),
    ),
    "shape": Member(lambda schema, shape: schema._set_domain(IndexDomain(shape=[*map(read_int64, shape)]), "shape")),
    "chunk_layout": Member(
        lambda schema, layout: schema._set_chunk_layout(checked("chunk_layout", layout, ChunkLayout)),
        lambda schema, json: schema._set_chunk_layout(ChunkLayout(json)),
        _layout_to_json,
    ),
    "codec": Member(
        lambda schema, codec: schema._set_codec(checked("codec", codec, CodecSpec)),
        lambda schema, json: schema._set_codec(CodecSpec(json)),
        _to_json("_codec"),
    ),
    "fill_value": Member(
        lambda schema, value: schema._set_fill_value(fill_values.from_argument(value, schema._dtype)),
        lambda schema, json: schema._set_fill_value(fill_values.from_json(json, schema._dtype)),
        _fill_to_json,
    ),
    "dimension_units": Member(
        lambda schema, units: schema._set_dimension_units(_units_argument(units)),
        lambda schema, json: schema._set_dimension_units(tuple(array_of(json, optional(lambda unit: Unit(json=unit))))),
        _units_to_json,
    ),
    "schema": Member(lambda schema, other: schema._put_all(checked("schema", other, Schema))),
}
_values = attrgetter(*Schema.__slots__)
_OWN = tuple(name for name, member in Schema._members.items() if member.json is not None)
