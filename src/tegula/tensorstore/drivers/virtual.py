"""What the specs of drivers have in common that store nothing themselves: arrays in memory, and adapters of others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from functools import cache
from typing import Any, ClassVar

from tegula.errors import TegulaError
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Bindings, Context, SpecBuilder
from tegula.tensorstore.drivers.stored import read_schema, write_schema
from tegula.tensorstore.errors import annotate, status
from tegula.tensorstore.index.transform import IndexTransform, compose, identity
from tegula.tensorstore.json.binding import MISSING, expected, known_only, member, obj
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening, OpenMode
from tegula.tensorstore.spec.spec import Spec

__all__ = ["VirtualSpec", "default_context", "driver_spec_of_view", "open_base", "read_base", "write_spec"]


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
        """Take the driver's own members out of a spec."""

    @abstractmethod
    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        """Write the driver's own members."""

    def write(self, builder: SpecBuilder, include_defaults: bool = False) -> dict[str, Any]:
        json: dict[str, Any] = {"driver": self.name}
        self.bindings.write(json, builder, include_defaults)
        json.update(write_schema(self.schema, include_defaults))
        json.update(self.write_members(builder, include_defaults))
        return json

    def parts(self) -> dict[str, Any]:
        """Return the attributes that are specs themselves, or lists of them."""
        return {}

    @property
    def flags(self) -> OpenMode:  # type: ignore[override]  # those of what is below
        """What opening may do with the array below, if there is one."""
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
            raise status("INVALID_ARGUMENT", '"kvstore" not supported by driver')
        other = copy(self)
        base = self.parts().get("base")
        if flags is not None and isinstance(base, Spec):
            other = self._with_parts(lambda spec: Spec._of(spec._driver.merge(flags=flags), spec._view))
        if schema is not None:
            other.schema = self.schema.copy()
            other.schema.merge(schema)
        return other

    def _with_parts(self, change: Any) -> VirtualSpec:
        other = copy(self)
        for name, part in self.parts().items():
            setattr(other, name, [change(spec) for spec in part] if isinstance(part, list) else change(part))
        return other


@cache
def default_context() -> Context:
    """Return the context of what is made without one."""
    return Context()


def read_base(members: dict[str, Any], schema: Schema) -> Spec:
    """Take the ``base`` out of a spec; its data type is that of the spec if it has none of its own."""
    value = members.pop("base", MISSING)
    with member("base"):
        if not isinstance(value, dict):
            raise expected("object", value)
        json = dict(value)
        if schema.dtype is not None:
            json.setdefault("dtype", schema.dtype.name)
        return Spec(json)


def write_spec(spec: Spec, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
    """Return the JSON of a spec that is part of another one."""
    json = spec._driver.write(builder, include_defaults)
    transform = spec.transform
    if transform is not None:
        json["transform"] = transform.to_json()
    elif (rank := spec._driver.schema.rank) is not None:
        json["rank"] = rank
    return dict(sorted(json.items()))


def open_base(spec: Spec, request: Opening) -> tuple[Driver, IndexTransform]:
    """Open the array below: its driver, and the transform to it."""
    try:
        driver = spec._driver.open(request)
    except TegulaError as error:
        raise annotate(error, f'Error opening "{spec._driver.name}" driver') from error
    whole = identity(driver.domain)
    return driver, whole if spec._view is None else compose(whole, spec._view)


def driver_spec_of_view(driver: Driver, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
    """Return a spec of an open array, and the transform from a view of it to what the spec says."""
    found = getattr(driver, "spec_of_view", None)
    if found is None:
        return driver.spec(minimal=minimal), view
    shown: tuple[DriverSpec, IndexTransform] = found(view, minimal=minimal)
    return shown
