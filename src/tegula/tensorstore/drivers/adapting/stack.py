"""The ``stack`` driver: several arrays as layers of one array."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tegula.errors import SelectionError, TegulaError
from tegula.indexing import Transform, whole
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Units
from tegula.tensorstore.context import Context, SpecBuilder
from tegula.tensorstore.drivers.virtual import VirtualSpec
from tegula.tensorstore.errors import invalid, stating
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json import array_of, obj, read_member
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening
from tegula.tensorstore.spec.spec import Spec
from tegula.tensorstore.views import Viewed
from tegula.views.joined import bases_of
from tegula.views.layers import Gap, arranged
from tegula.views.layers import Layer as Placed
from tegula.views.view import View, part_of, view_of

__all__ = ["Layer", "StackDriver", "StackSpec", "checked_layers"]

_Values = npt.NDArray[Any]


class Layer:
    """One layer of a stack: an open array, or a spec that is opened when the array is needed."""

    __slots__ = ("dimension_units", "domain", "dtype", "source")

    def __init__(self, source: Spec | Viewed) -> None:
        domain = source.domain
        if domain is None:
            raise invalid("Domain must be specified")
        self.domain, self.source = domain, source
        self.dtype, self.dimension_units = source.dtype, source.dimension_units

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


class LayerBase:
    """A layer as the base of the core's views, of which a stack asks for elements; see `tegula.views.base.Base`."""

    names = None
    location = ""
    concurrency = 0

    def __init__(self, layer: Layer, number: int, request: Opening, dtype: np.dtype[Any]) -> None:
        self.layer, self.number, self.request = layer, number, request
        self.shape, self.dtype = layer.domain.shape, dtype

    def opened(self, access: Literal["", "r", "w"]) -> Viewed:
        """Return the open array, which must allow an access."""
        opened = self.layer.open(self.request)
        if access not in opened.driver.mode:
            raise invalid(f"Layer {self.number}: mode {access} not supported")
        return opened

    def read(self, transform: Transform, field: None, out: _Values | None, *, is_point: bool) -> _Values:
        """Return elements, or `out` with the elements."""
        values = self.opened("r").read(transform)
        if out is None:
            return values
        out[...] = values
        return out

    def write(self, transform: Transform, field: None, values: _Values) -> None:
        """Write elements."""
        self.opened("w").write(transform, values)


class StackSpec(VirtualSpec):
    """The spec of a stack."""

    name: ClassVar[str] = "stack"
    parts: ClassVar[tuple[str, ...]] = ("layers",)
    layers: list[Spec]

    def read_members(self, members: dict[str, Any]) -> None:
        self.layers = read_member(members, "layers", partial(array_of, read=lambda value: Spec(obj(value))))
        for layer in checked_layers(self.layers, self.schema):
            if self.schema.dtype is None and layer.dtype is not None:
                self.schema._set_dtype(layer.dtype)

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        return {"layers": [layer._write(builder, include_defaults) for layer in self.layers]}

    def get_domain(self) -> IndexDomain | None:
        if self.schema.domain is not None or not self.layers:
            return self.schema.domain
        return _hull([layer.domain for layer in self.layers])

    def get_schema(self) -> Schema:
        schema = super().get_schema()
        return schema._put(dimension_units=_merged_units(schema, [layer.dimension_units for layer in self.layers]))

    def open(self, request: Opening) -> tuple[Driver, None]:
        usual = Schema(dtype=self.schema.dtype)
        sources = [spec._merged(schema=usual) if spec.dtype is None else spec for spec in self.layers]
        driver = StackDriver(checked_layers(sources, self.schema), self.schema, request.context, request.transaction)
        driver.mode = request.mode
        driver.bindings = self.bindings
        return driver, None


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
        self.domain = _hull([layer.domain for layer in layers]) if schema.domain is None else schema.domain
        self.dimension_units = _merged_units(schema, [layer.dimension_units for layer in layers])
        self.chunk_layout = ChunkLayout()
        self.slow = any(layer.opened is None or layer.opened.driver.slow for layer in layers)
        self._arranged: Placed | None = None

    def _view(self, transform: Transform | None) -> View:
        """Return elements as a view of the core, in which later layers hide earlier ones."""
        if self._arranged is None:
            request = Opening(self._context, self._transaction, "r" in self.mode, "w" in self.mode)
            dtype = self.dtype.numpy_dtype
            placed = [Placed(view_of(Gap(self.domain.shape, dtype, self.name)), self.domain.origin)]
            for number, layer in enumerate(self.layers):
                base: Any = LayerBase(layer, number, request, dtype)
                placed.append(Placed(view_of(base), layer.domain.origin))
            self._arranged = arranged(placed, self.name)
        view, begin = self._arranged
        offsets = [low - first for low, first in zip(self.domain.origin, begin)]
        own = whole(self.domain.shape) if transform is None else transform
        return part_of(view, own.moved(offsets, view.shape))

    def load(self, transform: Transform | None) -> None:
        with suppress(TegulaError):  # the operation itself raises the error
            for base in bases_of(self._view(transform)):
                if isinstance(base, LayerBase):
                    base.opened("").driver.load(None)

    def read(self, transform: Transform) -> _Values:
        try:
            return np.asarray(self._view(transform)._read(None, False))
        except SelectionError as error:
            raise invalid(error.message) from None

    def write(self, transform: Transform, values: _Values) -> None:
        view = self._view(transform)
        for base in bases_of(view):
            if not isinstance(base, LayerBase):
                raise invalid("the selection has elements that are in no layer of the stack")
            base.opened("w")
        view._write(values)

    def spec(self, *, minimal: bool = False) -> DriverSpec:
        spec = StackSpec()
        spec.layers = [layer.described(minimal) for layer in self.layers]
        spec.schema = Schema()._put(dtype=self.dtype, domain=self.domain, dimension_units=self.dimension_units)
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
        other._arranged = None
        return other


def checked_layers(sources: Sequence[Spec | Viewed], schema: Schema) -> list[Layer]:
    """Return the layers of arrays, which must fit together and fit a schema."""
    layers = []
    for number, source in enumerate(sources):
        with stating(f"Layer {number}"):
            layers.append(Layer(source))
    dtype, rank = schema.dtype, schema.rank
    for number, layer in enumerate(layers):
        dtype = dtype or layer.dtype
        if layer.dtype is not None and dtype is not None and layer.dtype != dtype:
            raise invalid(f"Layer {number}: dtype {layer.dtype.name} does not match {dtype.name}")
        rank = layer.domain.rank if rank is None else rank
        if layer.domain.rank != rank:
            raise invalid(f"Layer {number}: rank {layer.domain.rank} does not match {rank}")
    return layers


def _merged_units(schema: Schema, layers: Sequence[Units | None]) -> Units | None:
    """Return the units that a schema gives, and those on which the layers that have one agree."""
    known = [units for units in layers if units is not None]
    if not known:
        return schema.dimension_units
    merged = [
        units.pop() if len(units) == 1 else None
        for units in (set(units_of_axis) - {None} for units_of_axis in zip(*known))
    ]
    return tuple(own or unit for own, unit in zip(schema.dimension_units or [None] * len(merged), merged))


def _hull(domains: Sequence[IndexDomain | None]) -> IndexDomain:
    hull: IndexDomain | None = None
    for number, domain in enumerate(domains):
        with stating(f"Layer {number}"):
            hull = domain if hull is None or domain is None else hull.hull(domain)
    if hull is None:
        raise invalid("Domain must be specified")
    return hull.mark_bounds_implicit[False]
