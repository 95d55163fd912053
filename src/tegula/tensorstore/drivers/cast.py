"""The ``cast`` driver: an array with its elements converted to another data type."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

import numpy.typing as npt

from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.casting import convert, convertible
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.virtual import VirtualSpec, driver_spec_of_view, open_base, read_base
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.json.binding import invalid
from tegula.tensorstore.spec.interface import (
    Driver,
    DriverSpec,
    Indices,
    Mode,
    Opening,
    ResizeOptions,
    mode_of,
)
from tegula.tensorstore.spec.spec import Spec

__all__ = ["CastDriver", "CastSpec", "cast_driver"]

_Values = npt.NDArray[Any]


class CastSpec(VirtualSpec):
    """The spec of an array that is converted; what selects from it is no part of its base."""

    name: ClassVar[str] = "cast"
    uses_kvstore: ClassVar[bool] = True
    resource_kinds: ClassVar[Mapping[str, str]] = {}
    base: Spec
    inner_view: IndexTransform | None = None

    @classmethod
    def of(cls, base: Spec, dtype: dtypes.dtype) -> CastSpec:
        """Return the spec of a converted array."""
        self = cls()
        self.base = base
        self.kvstore = base.kvstore
        self.schema = Schema(dtype=dtype)
        if base.rank is not None:
            self.schema.update(rank=base.rank)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        base = read_base(members, Schema())
        self.base, self.inner_view = Spec._of(base._driver, None), base._view
        self.kvstore = base.kvstore

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        base = self.base
        json = base._driver.write(builder, include_defaults)
        if include_defaults and (rank := base.rank) is not None:
            json["rank"] = rank
        return {"base": dict(sorted(json.items()))}

    def parts(self) -> dict[str, Any]:
        return {"base": self.base}

    def get_schema(self) -> Schema:
        schema = self.schema.copy()
        below = self.base.schema
        if below.rank is not None:
            schema.update(rank=below.rank, domain=below.domain, chunk_layout=below.chunk_layout, codec=below.codec)
        return schema

    def get_domain(self) -> IndexDomain | None:
        return self.base._driver.get_domain()

    def merge(self, *, schema: Schema | None = None, **options: Any) -> CastSpec:
        other = copy(self)
        rest = None
        if schema is not None:
            other.schema = self.schema.copy()
            if schema.dtype is not None:
                other.schema.update(dtype=schema.dtype)
            json = {name: value for name, value in schema.to_json().items() if name not in ("dtype", "fill_value")}
            rest = Schema(json) if json else None
        base = self.base
        below = base._driver.merge(schema=rest, **options)
        other.base = Spec._of(below, base._view)
        other.kvstore = other.base.kvstore
        return other

    def url_suffix(self) -> str:
        assert self.schema.dtype is not None
        return f"{self.base._driver.url_suffix()}|cast:{self.schema.dtype.name}"

    def open(self, request: Opening) -> Driver:
        if self.schema.dtype is None:
            raise invalid("dtype must be specified")
        read, write = request.read, request.write
        driver, _ = open_base(self.base, request)
        found, wanted = driver.dtype.name, self.schema.dtype.name
        if read and not write and not convertible(found, wanted):
            raise invalid(f"Read access requires unsupported {found} -> {wanted} conversion")
        if write and not read and not convertible(wanted, found):
            raise invalid(f"Write access requires unsupported {wanted} -> {found} conversion")
        return cast_driver(driver, self.schema.dtype)


class CastDriver(Driver):
    """The driver of an array that is converted as it is read and written.

    Parameters
    ----------
    base : Driver
        What is converted.
    dtype : dtype
        To what.
    mode : str
        What the conversions allow.
    """

    name = "cast"

    def __init__(self, base: Driver, dtype: dtypes.dtype, mode: Mode) -> None:
        self.base = base
        self.dtype = dtype
        self.mode = mode
        self.domain, self.chunk_layout, self.codec = base.domain, base.chunk_layout, base.codec
        self.kvstore, self.dimension_units = base.kvstore, base.dimension_units
        self.slow, self.resizes = base.slow, base.resizes
        found = base.dtype
        if base.fill_value is not None and convertible(found.name, dtype.name):
            self.fill_value = convert(base.fill_value, found.name, dtype.name, dtype.numpy_dtype)

    def _again(self, base: Driver) -> CastDriver:
        return CastDriver(base, self.dtype, self.mode)

    def load(self, indices: Indices | None) -> None:
        self.base.load(indices)

    def read(self, indices: Indices) -> _Values:
        wanted = self.dtype
        return convert(self.base.read(indices), self.base.dtype.name, wanted.name, wanted.numpy_dtype)

    def write(self, indices: Indices, values: _Values) -> None:
        wanted = self.base.dtype
        self.base.write(indices, convert(values, self.dtype.name, wanted.name, wanted.numpy_dtype))

    def spec_members(self) -> dict[str, Any]:
        return {}

    def spec_of_view(self, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
        """Return a spec of a view, and the transform to it."""
        below, transform = driver_spec_of_view(self.base, view, minimal=minimal)
        return CastSpec.of(Spec._of(below, None), self.dtype), transform

    def base_view(self, view: IndexTransform) -> tuple[Driver, IndexTransform]:
        """Return the base, and a view of it that shows what a view of this shows."""
        return self.base, view

    def with_transaction(self, transaction: Any) -> Driver:
        return self._again(self.base.with_transaction(transaction))

    def resize(self, options: ResizeOptions) -> Driver:
        return self._again(self.base.resize(options))

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Any = None) -> Driver:
        return self._again(self.base.resolve(fix_resizable_bounds=fix_resizable_bounds, batch=batch))

    def latest(self, *, look: bool = True) -> Driver:
        base = self.base.latest(look=look)
        return self if base is self.base else self._again(base)

    def storage_statistics(
        self, indices: Indices, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> dict[str, Any]:
        return self.base.storage_statistics(
            indices, query_not_stored=query_not_stored, query_fully_stored=query_fully_stored
        )


def cast_driver(base: Driver, dtype: dtypes.dtype) -> CastDriver:
    """Return the driver that converts what another one reads and writes.

    Raises
    ------
    ValueError
        If there is a conversion in neither direction that the other one allows.
    """
    found = base.dtype.name
    reads = "r" in base.mode and convertible(found, dtype.name)
    writes = "w" in base.mode and convertible(dtype.name, found)
    if not (convertible(found, dtype.name) or convertible(dtype.name, found)):
        raise invalid(f"Cannot convert {found} <-> {dtype.name}")
    if not (reads or writes):
        raise invalid(f"Cannot convert {found} <-> {dtype.name}")
    return CastDriver(base, dtype, mode_of(reads, writes))
