"""Base classes of drivers without storage of their own: arrays in memory, and adapters of other arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from functools import cache
from typing import Any, ClassVar

from tegula.indexing import Transform
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Bindings, Context, SpecBuilder
from tegula.tensorstore.drivers.stored import read_schema, write_schema
from tegula.tensorstore.errors import invalid
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.json.binding import MISSING, expected, known_only, member, obj
from tegula.tensorstore.spec.interface import Driver, DriverSpec, OpenMode
from tegula.tensorstore.spec.spec import Spec

__all__ = ["AdapterDriver", "VirtualSpec", "default_context", "read_base"]


class VirtualSpec(DriverSpec):
    """A spec without a ``kvstore``."""

    uses_kvstore: ClassVar[bool] = False
    resource_kinds: ClassVar[Mapping[str, str]] = {"data_copy_concurrency": "data_copy_concurrency"}

    def __init__(self) -> None:
        self.members = {}
        self.kvstore = None
        self.schema = Schema()
        self.bindings = Bindings(self.resource_kinds)

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> VirtualSpec:
        members = obj(json)
        self = cls()
        self.schema = read_schema(members)
        self.bindings.take(members)
        self.read_members(members)
        known_only(members)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        """Remove the driver's own members from a spec and read them."""

    @abstractmethod
    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        """Write the driver's own members."""

    @abstractmethod
    def get_domain(self) -> IndexDomain | None:
        """Return the domain; None if it is unknown."""

    def get_schema(self) -> Schema:
        schema = self.schema.copy()
        schema.update(domain=self.get_domain())
        return schema

    def write(self, builder: SpecBuilder, include_defaults: bool = False) -> dict[str, Any]:
        json: dict[str, Any] = {"driver": self.name}
        self.bindings.write(json, builder, include_defaults)
        json.update(write_schema(self.schema, include_defaults))
        json.update(self.write_members(builder, include_defaults))
        return json

    def parts(self) -> dict[str, Any]:
        """Return the attributes that are specs or lists of specs."""
        return {}

    @property
    def flags(self) -> OpenMode:  # type: ignore[override]
        """The open mode of the underlying array, if there is one."""
        base = self.parts().get("base")
        return base._driver.flags if isinstance(base, Spec) else OpenMode(open=True)

    def bound(self, context: Context) -> VirtualSpec:
        home = self.bindings.home(context)
        other = self._with_parts(lambda spec: Spec._of(spec._driver.bound(home), spec._view))
        other.bindings = self.bindings.bound(home)
        return other

    def stripped(self) -> VirtualSpec:
        other = self._with_parts(lambda spec: Spec._of(spec._driver.stripped(), spec._view))
        other.bindings = self.bindings.stripped()
        return other

    def merge(
        self, *, flags: OpenMode | None = None, kvstore: Any = None, schema: Schema | None = None, **options: Any
    ) -> VirtualSpec:
        if kvstore is not None:
            raise invalid('"kvstore" not supported by driver')
        other = copy(self)
        base = self.parts().get("base")
        if flags is not None and isinstance(base, Spec):
            other = self._with_parts(lambda spec: Spec._of(spec._driver.merge(flags=flags), spec._view))
        if schema is not None:
            other.schema = self.schema.copy()
            other.schema._merge(schema)
        return other

    def _with_parts(self, change: Any) -> VirtualSpec:
        other = copy(self)
        for name, part in self.parts().items():
            setattr(other, name, [change(spec) for spec in part] if isinstance(part, list) else change(part))
        return other


@cache
def default_context() -> Context:
    """Return the context of arrays that are created without one."""
    return Context()


def read_base(members: dict[str, Any], schema: Schema) -> Spec:
    """Remove ``base`` from the members of a spec and read it; its default data type is that of the spec."""
    value = members.pop("base", MISSING)
    with member("base"):
        if not isinstance(value, dict):
            raise expected("object", value)
        json = dict(value)
        if schema.dtype is not None:
            json.setdefault("dtype", schema.dtype.name)
        return Spec(json)


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
