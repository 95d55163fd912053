"""Base classes of drivers without storage of their own: arrays in memory, and adapters of other arrays."""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Any, Self

from tegula.indexing import Transform
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Context, SpecBuilder
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.json import integer, obj, read_member, take
from tegula.tensorstore.spec.interface import Driver, DriverSpec, OpenMode
from tegula.tensorstore.spec.spec import Spec

__all__ = ["AdapterDriver", "VirtualSpec", "default_context", "read_base", "write_base"]


class VirtualSpec(DriverSpec):
    """A spec without a ``kvstore``."""

    @property
    def flags(self) -> OpenMode:  # type: ignore[override]
        """The open mode of the underlying array, if there is one."""
        return OpenMode(open=True) if self.base is None else self.base._driver.flags

    def merge(
        self, *, flags: OpenMode | None = None, kvstore: Any = None, schema: Schema | None = None, **options: Any
    ) -> Self:
        if kvstore is not None:
            raise invalid('"kvstore" not supported by driver')
        other = super().merge(schema=schema)
        if flags is not None and "base" in self.parts:
            other = other._with_parts(other.bindings, lambda spec: spec._merged(flags=flags))
        return other


@cache
def default_context() -> Context:
    """Return the context of arrays that are created without one."""
    return Context()


def read_base(members: dict[str, Any], schema: Schema) -> Spec:
    """Remove ``base`` from a spec and read it; its data type and rank are those of a schema, if it says nothing else.

    It must have the rank of the schema.
    """
    usual = {} if schema.dtype is None else {"dtype": schema.dtype.name}

    def read(value: Any) -> Spec:
        members = {**usual, **obj(value)}
        if (rank := schema.rank) is not None:
            take(members, "rank", lambda given: integer(given, rank, rank))
        return Spec(members if rank is None else {**members, "rank": rank})

    return read_member(members, "base", read)


def write_base(base: Spec, schema: Schema, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
    """Write the base of a spec, without a data type and rank that it has from a schema: see `read_base`."""
    json = base._write(builder, include_defaults)
    given = [name for name in ("dtype", "rank") if getattr(schema, name) is not None]
    return json if include_defaults else {name: value for name, value in json.items() if name not in given}


class AdapterDriver(Driver):
    """A driver over another driver, its base, which determines its bounds and transactions."""

    base: Driver

    @abstractmethod
    def over(self, base: Driver) -> Driver:
        """Return the same driver over the base with other bounds or another transaction."""

    def load(self, transform: Transform | None) -> None:
        self.base.load(transform)

    def with_transaction(self, transaction: Any) -> Driver:
        return self.over(self.base.with_transaction(transaction))

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Any = None) -> Driver:
        return self.over(self.base.resolve(fix_resizable_bounds=fix_resizable_bounds, batch=batch))

    def latest(self, *, look: bool = True) -> Driver:
        base = self.base.latest(look=look)
        return self if base is self.base else self.over(base)
