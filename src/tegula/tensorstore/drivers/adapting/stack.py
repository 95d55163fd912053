"""The ``stack`` driver: several arrays as layers of one array."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Context, SpecBuilder
from tegula.tensorstore.drivers.viewed import Viewed, cells, result_shape
from tegula.tensorstore.drivers.virtual import VirtualSpec
from tegula.tensorstore.errors import StatusError, annotate, invalid
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, array_of, member, obj
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Indices, Opening
from tegula.tensorstore.spec.spec import Spec

if TYPE_CHECKING:
    from tegula.tensorstore.constraints.unit import Unit

__all__ = ["Layer", "StackDriver", "StackSpec", "checked_layers"]

_Values = npt.NDArray[Any]
_Units: TypeAlias = "tuple[Unit | None, ...]"


class Layer:
    """One layer of a stack: an open array, or a spec that is opened when the array is needed."""

    __slots__ = ("dimension_units", "domain", "dtype", "source")

    def __init__(self, source: Spec | Viewed) -> None:
        domain = source.domain
        if domain is None:
            raise invalid("Domain must be specified")
        self.domain, self.dtype, self.dimension_units, self.source = (
            domain,
            source.dtype,
            source.dimension_units,
            source,
        )

    @property
    def opened(self) -> Viewed | None:
        """The array, if it is open."""
        return self.source if isinstance(self.source, Viewed) else None

    def open(self, request: Opening) -> Viewed:
        """Return the array, opening it if necessary."""
        if isinstance(self.source, Spec):
            self.source = Viewed(*self.source._open(request))
        return self.source

    def described(self, minimal: bool) -> Spec:
        """Return the spec of the layer."""
        source = self.source
        if isinstance(source, Spec):
            return source
        return Spec._of(*source.driver.spec_of_view(source.view, minimal=minimal))


class StackSpec(VirtualSpec):
    """The spec of a stack."""

    name: ClassVar[str] = "stack"
    layers: list[Spec]

    def read_members(self, members: dict[str, Any]) -> None:
        with member("layers"):
            self.layers = array_of(members.pop("layers", MISSING), lambda value: Spec(obj(value)))
        for number, layer in enumerate(self.layers):
            if layer.domain is None:
                raise invalid(f"Layer {number}: Domain must be specified")
            if self.schema.dtype is None and layer.dtype is not None:
                self.schema._set_dtype(layer.dtype)

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        return {"layers": [layer._write(builder, include_defaults) for layer in self.layers]}

    def parts(self) -> dict[str, Any]:
        return {"layers": self.layers}

    def get_domain(self) -> IndexDomain | None:
        if self.schema.domain is not None:
            return self.schema.domain
        domains = [layer.domain for layer in self.layers]
        if not domains or any(domain is None for domain in domains):
            return None
        return _hull([domain for domain in domains if domain is not None])

    def get_schema(self) -> Schema:
        schema = super().get_schema()
        schema.update(dimension_units=_merged_units(schema, [layer.dimension_units for layer in self.layers]))
        return schema

    def open(self, request: Opening) -> Driver:
        sources = []
        for spec in self.layers:
            source = spec
            if self.schema.dtype is not None and spec.dtype is None:
                source = spec.copy()
                source.update(dtype=self.schema.dtype)
            sources.append(source)
        layers = checked_layers(sources, self.schema)
        driver = StackDriver(layers, self.schema, request.context, request.transaction)
        driver.mode = request.mode
        driver.bindings = self.bindings
        return driver


class StackDriver(Driver):
    """The driver of several arrays as layers of one array; later layers cover earlier ones."""

    name = "stack"
    resizes = False
    bindings: Any = None

    def __init__(self, layers: Sequence[Layer], schema: Schema, context: Context, transaction: Any = None) -> None:
        self.layers = list(layers)
        self._context, self._transaction = context, transaction
        dtype = schema.dtype or (layers[0].dtype if layers else None)
        if dtype is None:
            raise invalid("dtype must be specified")
        self.dtype = dtype
        domain = schema.domain
        if domain is None:
            if not layers:
                raise invalid("Domain must be specified")
            domain = _hull([layer.domain for layer in layers])
        self.domain = domain
        self.dimension_units = _merged_units(schema, [layer.dimension_units for layer in layers])
        self.chunk_layout = ChunkLayout()
        self.slow = any(layer.opened is None or layer.opened.driver.slow for layer in layers)
        ends = [bounds for layer in layers for bounds in (layer.domain.inclusive_min, layer.domain.exclusive_max)]
        self._edges = [np.unique(bounds) for bounds in zip(*ends)] if ends else [np.empty(0)] * domain.rank
        self._numbers: dict[tuple[int, ...], int] = {}

    def _layer_at(self, numbers: tuple[int, ...], access: Literal["r", "w"] | None = None) -> Viewed:
        """Return the topmost layer at a cell of the grid formed by the layers' bounds, for reading or writing."""
        if numbers not in self._numbers:
            self._numbers[numbers] = self._find_layer(numbers)
        number = self._numbers[numbers]
        layer = self.layers[number].open(Opening(self._context, self._transaction, "r" in self.mode, "w" in self.mode))
        if access and access not in layer.driver.mode:
            raise invalid(f"Layer {number}: mode {access} not supported")
        return layer

    def _find_layer(self, numbers: tuple[int, ...]) -> int:
        inside = [
            int(edges[number]) if 0 <= number < len(edges) else None for edges, number in zip(self._edges, numbers)
        ]
        if all(start is not None for start in inside):
            for number, layer in reversed(list(enumerate(self.layers))):
                ends = zip(layer.domain.inclusive_min, inside, layer.domain.exclusive_max)
                if all(start is not None and low <= start < high for low, start, high in ends):
                    return number
        raise invalid(f'the "stack" driver has no layer at {inside}')

    def _locate(self, axis: int, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._edges[axis], numbers, side="right") - 1

    def load(self, indices: Indices | None) -> None:
        if indices is None:
            indices = tuple(slice(*ends, 1) for ends in zip(self.domain.inclusive_min, self.domain.exclusive_max))
        with suppress(TegulaError):  # the operation itself raises the error
            for numbers, _, _ in cells(indices, self._locate):
                self._layer_at(numbers).driver.load(None)

    def read(self, indices: Indices) -> _Values:
        result = np.empty(result_shape(indices), self.dtype.numpy_dtype)
        for numbers, part, position in cells(indices, self._locate):
            result[position] = self._layer_at(numbers, "r").read(part)
        return result

    def write(self, indices: Indices, values: _Values) -> None:
        parts = [
            (self._layer_at(numbers, "w"), part, position) for numbers, part, position in cells(indices, self._locate)
        ]
        for layer, part, position in parts:
            layer.write(part, values[position])

    def spec(self, *, minimal: bool = False) -> DriverSpec:
        spec = StackSpec()
        spec.layers = [layer.described(minimal) for layer in self.layers]
        spec.schema = Schema(dtype=self.dtype, rank=self.domain.rank, domain=self.domain)
        spec.schema.update(dimension_units=self.dimension_units)
        spec.bindings = (self.bindings or spec.bindings).bound(self._context)
        return spec

    def with_transaction(self, transaction: Any) -> Driver:
        other = copy(self)
        other._transaction = transaction
        other.layers = []
        for layer in self.layers:
            source = layer.source
            if isinstance(source, Viewed):
                source = Viewed(source.driver.with_transaction(transaction), source.view)
            other.layers.append(Layer(source))
        other._numbers = {}
        return other


def checked_layers(sources: Sequence[Spec | Viewed], schema: Schema) -> list[Layer]:
    """Return the layers of arrays, which must fit together and fit a schema."""
    layers = []
    for number, source in enumerate(sources):
        try:
            layers.append(Layer(source))
        except StatusError as error:
            raise annotate(error, f"Layer {number}") from error
    dtype, rank = schema.dtype, schema.rank
    for number, layer in enumerate(layers):
        dtype = dtype or layer.dtype
        if layer.dtype is not None and dtype is not None and layer.dtype != dtype:
            raise invalid(f"Layer {number}: dtype {layer.dtype.name} does not match {dtype.name}")
        rank = layer.domain.rank if rank is None else rank
        if layer.domain.rank != rank:
            raise invalid(f"Layer {number}: rank {layer.domain.rank} does not match {rank}")
    return layers


def _merged_units(schema: Schema, layers: Sequence[_Units | None]) -> _Units | None:
    """Return the units that a schema gives, and those on which the layers that have one agree."""
    known = [units for units in layers if units is not None]
    if not known:
        return schema.dimension_units
    merged = [
        units.pop() if len(units) == 1 else None
        for units in (set(units_of_axis) - {None} for units_of_axis in zip(*known))
    ]
    return tuple(own or unit for own, unit in zip(schema.dimension_units or [None] * len(merged), merged))


def _hull(domains: Sequence[IndexDomain]) -> IndexDomain:
    hull = domains[0]
    for number, domain in enumerate(domains[1:], 1):
        try:
            hull = hull.hull(domain)
        except StatusError as error:
            raise annotate(error, f"Layer {number}") from error
    return hull.mark_bounds_implicit[False]
