"""The ``array`` driver: a NumPy array in memory."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tegula.indexing import Transform
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.casting import convert, convertible
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.fill_values import read_elements
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Bindings, SpecBuilder
from tegula.tensorstore.drivers.virtual import VirtualSpec
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.json import MAX_RANK, MISSING, nested_array, read_member
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening
from tegula.tensorstore.views import select

__all__ = ["ArrayDriver", "ArraySpec"]

_Values = npt.NDArray[Any]


class ArraySpec(VirtualSpec):
    """The spec of an array in memory, with its elements."""

    name: ClassVar[str] = "array"
    values: _Values

    @classmethod
    def of(cls, values: _Values, dtype: dtypes.dtype, bindings: Bindings) -> ArraySpec:
        """Return the spec of an array."""
        self = cls()
        self.bindings = bindings
        self.values = values
        self.schema = Schema(dtype=dtype, rank=values.ndim)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        dtype = self.schema._required("dtype")
        self.values = read_member(members, "array", lambda value: _parse(value, dtype, self.schema.rank))
        self.schema._set_rank(self.values.ndim)

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        dtype = self.schema.dtype
        assert dtype is not None
        if not convertible(dtype.name, "json"):
            raise invalid(f'"array": elements of the type {dtype.name} have no JSON')
        return {"array": convert(self.values, dtype.name, "json", np.dtype(object)).tolist()}

    def get_schema(self) -> Schema:
        # the array says the rest; constraints that it can't meet are refused when it is opened
        own = Schema()._put(dtype=self.schema.dtype, dimension_units=self.schema.dimension_units)
        return own._put(domain=self.get_domain(), chunk_layout=_layout(self.values))

    def get_domain(self) -> IndexDomain:
        return IndexDomain(shape=self.values.shape)

    def open(self, request: Opening) -> tuple[Driver, None]:
        schema = self.schema
        domain = self.get_domain()
        if schema.domain is not None and schema.domain.shape != domain.shape:
            raise invalid(f"the domain {schema.domain} of the schema does not fit the array's {domain}")
        schema._refuse("fill_value", "codec")
        if any(grid.shape for grid in (schema.chunk_layout.read_chunk, schema.chunk_layout.write_chunk)):
            raise invalid("chunking not supported")
        assert schema.dtype is not None
        bindings = self.bindings.bound(self.bindings.home(request.context))
        driver = ArrayDriver(self.values.copy(), schema.dtype, bindings)
        driver.dimension_units = schema.dimension_units
        driver.mode = request.mode
        return driver, None


class ArrayDriver(Driver):
    """The driver of an array in memory, which is not copied."""

    name = "array"
    resizes = False

    def __init__(self, values: _Values, dtype: dtypes.dtype, bindings: Bindings) -> None:
        self.values, self.dtype, self.bindings = values, dtype, bindings
        self.domain = IndexDomain(shape=values.shape)
        self.chunk_layout = _layout(values)

    def read(self, transform: Transform) -> _Values:
        elements = transform.take(self.values)
        return elements.copy() if np.may_share_memory(elements, self.values) else elements

    def write(self, transform: Transform, values: _Values) -> None:
        transform.put(self.values, values)

    def spec(self, *, minimal: bool = False) -> DriverSpec:
        return ArraySpec.of(self.values, self.dtype, self.bindings)

    def spec_of_view(self, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
        """Return a spec with only the elements of a view, and the transform from the view to them."""
        selection = select(view, self.domain)
        origin = view.domain.inclusive_min
        if 0 not in selection.shape:  # the indices of an empty view may be outside the array
            shown = selection.present(selection.transform.take(self.values))
            axes = [axis for axis, size in enumerate(shown.shape) if size != 1 and shown.strides[axis] != 0]
            compact = shown[(*(slice(None) if axis in axes else 0 for axis in range(shown.ndim)), ...)]
            output = [OutputIndexMap(input_dimension=axis, offset=-origin[axis]) for axis in axes]
        else:
            compact, output = np.empty(0, self.values.dtype), [OutputIndexMap(offset=0)]
        spec = ArraySpec.of(compact, self.dtype, self.bindings)
        if compact.ndim == len(self.dimension_units or ()):  # as in TensorStore, other arrays have no units
            spec.schema.update(dimension_units=self.dimension_units)
        return spec, IndexTransform(domain=view.domain, output=output)

    def with_transaction(self, transaction: Any) -> Driver:
        return self

    def storage_statistics(self, transform: Transform) -> tuple[bool, bool]:
        return False, True


def _layout(values: _Values) -> ChunkLayout:
    rank = values.ndim
    order = sorted(range(rank), key=lambda axis: -abs(values.strides[axis]))
    return ChunkLayout(rank=rank, grid_origin=[0] * rank, inner_order=order)


def _parse(value: Any, dtype: dtypes.dtype, rank: int | None) -> _Values:
    """Read an array from nested JSON arrays."""
    if dtype.name.startswith("complex") or not convertible("json", dtype.name):
        raise invalid(f"Conversion from JSON to {dtype.name} is not implemented")
    depth = MAX_RANK + 1 if rank is None or dtype != dtypes.json else rank  # elements of type JSON may be arrays
    elements = nested_array(None if value is MISSING else value, depth)
    if rank not in (None, elements.ndim):
        raise invalid(f"Array rank ({elements.ndim}) does not match expected rank ({rank})")
    return read_elements(elements, dtype)
