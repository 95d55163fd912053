"""The ``cast`` driver: an array with elements converted to another data type."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy.typing as npt

from tegula.indexing import Transform
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.casting import convert, convertible
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.virtual import AdapterDriver, VirtualSpec, read_base, write_base
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening, ResizeOptions, mode_of
from tegula.tensorstore.spec.spec import Spec

__all__ = ["CastDriver", "CastSpec"]

_Values = npt.NDArray[Any]


class CastSpec(VirtualSpec):
    """The spec of a converted array; its base has all constraints except the data type."""

    name: ClassVar[str] = "cast"
    parts: ClassVar[tuple[str, ...]] = ("base",)
    resources: ClassVar[tuple[str, ...]] = ()
    base: Spec

    @classmethod
    def of(cls, base: Spec, dtype: dtypes.dtype) -> CastSpec:
        """Return the spec of a converted array."""
        self = cls()
        self.base = base
        self.kvstore = base.kvstore
        self.schema = Schema(dtype=dtype, rank=base.rank)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        given, rank = self.schema, Schema()._put(rank=self.schema.rank)
        self.schema = rank.copy()._put(dtype=given.dtype)
        self.base = read_base(members, rank)._merged(schema=given._without("dtype", "rank"))
        self.kvstore = self.base.kvstore

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        return {"base": write_base(self.base, self.schema._without("dtype"), builder, include_defaults)}

    def get_schema(self) -> Schema:
        schema = self.schema.copy()
        below = self.base.schema
        if below.rank is not None:
            schema._put(rank=below.rank, domain=below.domain, chunk_layout=below._chunk_layout, codec=below.codec)
        stored, wanted, fill = below.dtype, schema.dtype, below.fill_value
        if stored is not None and wanted is not None and fill is not None and convertible(stored.name, wanted.name):
            schema.update(fill_value=convert(fill, stored.name, wanted.name, wanted.numpy_dtype))
        return schema

    def get_domain(self) -> IndexDomain | None:
        return self.base.domain

    def merge(self, *, schema: Schema | None = None, **options: Any) -> CastSpec:
        own = self.schema if schema is None else self.schema.copy()._put(dtype=schema.dtype)
        base = self.base._merged(schema=None if schema is None else schema._without("dtype"), **options)
        return self._changed(schema=own, base=base, kvstore=base.kvstore)

    def url_suffix(self) -> str:
        assert self.schema.dtype is not None
        return f"{self.base._driver.url_suffix()}|cast:{self.schema.dtype.name}"

    def open(self, request: Opening) -> tuple[Driver, IndexTransform | None]:
        dtype = self.schema._required("dtype")
        read, write = request.read, request.write
        driver, view = self.base._open(request)
        stored, wanted = driver.dtype.name, dtype.name
        if read and not write and not convertible(stored, wanted):
            raise invalid(f"Read access requires unsupported {stored} -> {wanted} conversion")
        if write and not read and not convertible(wanted, stored):
            raise invalid(f"Write access requires unsupported {wanted} -> {stored} conversion")
        return CastDriver(driver, dtype), view


class CastDriver(AdapterDriver):
    """The driver of an array that is converted to a data type as it is read and written."""

    name = "cast"

    def __init__(self, base: Driver, dtype: dtypes.dtype) -> None:
        stored = base.dtype
        reads = "r" in base.mode and convertible(stored.name, dtype.name)
        writes = "w" in base.mode and convertible(dtype.name, stored.name)
        if not (reads or writes):
            raise invalid(f"Cannot convert {stored.name} <-> {dtype.name}")
        self.base = base
        self.dtype = dtype
        self.mode = mode_of(reads, writes)
        self.domain, self.chunk_layout, self.codec = base.domain, base.chunk_layout, base.codec
        self.kvstore, self.dimension_units = base.kvstore, base.dimension_units
        self.slow, self.resizes = base.slow, base.resizes
        if base.fill_value is not None and convertible(stored.name, dtype.name):
            self.fill_value = convert(base.fill_value, stored.name, dtype.name, dtype.numpy_dtype)

    def over(self, base: Driver) -> CastDriver:
        return CastDriver(base, self.dtype)

    def read(self, transform: Transform) -> _Values:
        wanted = self.dtype
        return convert(self.base.read(transform), self.base.dtype.name, wanted.name, wanted.numpy_dtype)

    def write(self, transform: Transform, values: _Values) -> None:
        wanted = self.base.dtype
        self.base.write(transform, convert(values, self.dtype.name, wanted.name, wanted.numpy_dtype))

    def spec_of_view(self, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
        below, transform = self.base.spec_of_view(view, minimal=minimal)
        return CastSpec.of(Spec._of(below, None), self.dtype), transform

    def base_view(self, view: IndexTransform) -> tuple[Driver, IndexTransform]:
        return self.base, view

    def resize(self, options: ResizeOptions) -> Driver:
        return self.over(self.base.resize(options))

    def storage_statistics(self, transform: Transform) -> tuple[bool, bool]:
        return self.base.storage_statistics(transform)
