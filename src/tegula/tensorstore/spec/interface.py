"""The interface of drivers: `DriverSpec` describes an array, `Driver` is the open array; drivers are found by name.

A `Driver` reads and writes a *base* array by transforms of the core; callers handle views, broadcasting and the
conversion of values. A `DriverSpec` is immutable: methods such as `merge` return a new spec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib import import_module
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast

import numpy.typing as npt

from tegula.engine import fills_missing
from tegula.indexing import Transform
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.context import Bindings, Context, SpecBuilder
from tegula.tensorstore.errors import invalid, status, type_error, unhashable
from tegula.tensorstore.future import Batch
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.json import expected, known_only, obj, take
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction

__all__ = [
    "DRIVERS", "FLAGS", "URL_SCHEMES", "Driver", "DriverSpec", "OpenMode", "Opening", "RecheckCacheOption",
    "ResizeOptions", "SpecMember", "find_driver", "mode_of", "on_demand", "recheck",
]  # fmt: skip

T = TypeVar("T")

Mode: TypeAlias = Literal["r", "w", "rw"]
RecheckCacheOption: TypeAlias = bool | float | Literal["open"]
"""When to revalidate cached values: always (``True``), never (``False``), or if they are older than the opening
(``"open"``) or a time in seconds since the epoch."""


def mode_of(read: bool, write: bool) -> Mode:
    """Return the mode for read and write access; ``"w"`` for neither."""
    return "rw" if read and write else "r" if read else "w"


DRIVERS: Final[dict[str, str]] = {
    "zarr": "tegula.tensorstore.drivers.zarr2:ZarrSpec",
    "zarr2": "tegula.tensorstore.drivers.zarr2:ZarrSpec",
    "zarr3": "tegula.tensorstore.drivers.zarr3:Zarr3Spec",
    "n5": "tegula.tensorstore.drivers.n5:N5Spec",
    "zarr1": "tegula.tensorstore.drivers.documented:Zarr1Spec",
    "bcolz": "tegula.tensorstore.drivers.documented:BcolzSpec",
    "json": "tegula.tensorstore.drivers.json:JsonSpec",
    "auto": "tegula.tensorstore.drivers.auto:AutoSpec",
    "array": "tegula.tensorstore.drivers.array:ArraySpec",
    "cast": "tegula.tensorstore.drivers.adapting.cast:CastSpec",
    "downsample": "tegula.tensorstore.drivers.adapting.downsample:DownsampleSpec",
    "stack": "tegula.tensorstore.drivers.adapting.stack:StackSpec",
}
"""Drivers by name, as ``module:class``; each is imported when it is first used."""

URL_SCHEMES: Final = frozenset(("zarr2", "zarr3", "n5", "zarr1", "bcolz", "json", "auto"))
"""Drivers that are also the scheme a URL may end in, such as ``zarr2`` in ``file:///tmp/a|zarr2:``."""


def recheck(value: Any) -> Any:
    """Read a member that says when to revalidate cached data."""
    if isinstance(value, bool) or value == "open":
        return value
    if isinstance(value, (int, float)):
        return float(value)
    raise expected('boolean, number, or "open"', value)


@cache
def find_driver(name: str) -> type[DriverSpec]:
    """Return the spec class of a driver."""
    try:
        module, _, attribute = DRIVERS[name].partition(":")
    except KeyError:
        raise invalid(f'Error parsing object member "driver": "{name}" is not a registered driver') from None
    spec_type: type[DriverSpec] = getattr(import_module(module), attribute)
    return spec_type


@dataclass(slots=True, kw_only=True, repr=False)
class OpenMode:
    """The actions that are allowed on opening; by default, only opening an existing array.

    The metadata of the spec are used, and stored ones not read on opening (`assume_cached_metadata`), or neither read
    nor written at all (`assume_metadata`).

    Examples
    --------
    >>> mode = OpenMode(open=True)
    >>> mode.create = True
    >>> mode
    OpenMode(open=True, create=True)
    """

    __hash__ = unhashable

    open: bool = False
    create: bool = False
    delete_existing: bool = False
    assume_metadata: bool = False
    assume_cached_metadata: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, (int, type(None))):
            raise type_error(f"{name} must be true or false, not {value!r:.80}")
        object.__setattr__(self, name, bool(value))

    def __repr__(self) -> str:
        return f"OpenMode({', '.join(f'{flag.name}=True' for flag in fields(self) if getattr(self, flag.name))})"

    @property
    def _opens(self) -> bool:
        """Whether an existing array may be opened."""
        return self.open or not self.create

    def _check(self) -> OpenMode:
        """Return the open mode if its flags are compatible."""
        if self.delete_existing and not self.create:
            raise invalid("Cannot specify an open mode of `delete_existing` without `create`")
        opens = self.open or self.assume_metadata or self.assume_cached_metadata
        if opens and self.create and (self.delete_existing or not self.open):
            raise invalid(f"Cannot specify an open mode that deletes, or does not open, and opens: {self}")
        return self


FLAGS: Final = tuple(field.name for field in fields(OpenMode))


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments for opening a spec: the access that is required, and the batch that may delay reading metadata."""

    context: Context
    transaction: Transaction | None = None
    read: bool = True
    write: bool = True
    batch: Batch | None = None

    @property
    def mode(self) -> Mode:
        """The mode for this access; ``"w"`` for neither."""
        return mode_of(self.read, self.write)


@dataclass(frozen=True, slots=True)
class ResizeOptions:
    """The new bounds of a base array (``None`` keeps a bound), and restrictions on the resize."""

    inclusive_min: tuple[int | None, ...]
    exclusive_max: tuple[int | None, ...]
    metadata_only: bool = False
    tied_bounds: bool = False
    expand_only: bool = False
    shrink_only: bool = False


def _copied(instance: T, **changes: Any) -> T:
    """Return a shallow copy with other attributes, faster than `copy.copy`."""
    other: T = object.__new__(type(instance))
    other.__dict__.update(instance.__dict__, **changes)
    return other


def on_demand(make: Callable[[Any], T]) -> T:
    """Return an attribute that is computed on first access: few programs need all properties of an array."""
    return cast(T, cached_property(make))


class Driver(ABC):
    """An opened base array: `dtype` is that of the elements that `read` returns, the other properties are its schema's.

    A property is ``None`` if it has no value; the fill value broadcasts to the domain.
    """

    name: str
    dtype: dtype
    domain: IndexDomain
    chunk_layout: ChunkLayout
    codec: CodecSpec | None = None
    fill_value: npt.NDArray[Any] | None = None
    dimension_units: tuple[Unit | None, ...] | None = None
    kvstore: KvStore | None = None
    mode: Mode = "rw"
    """The access that is possible."""
    slow: bool = False
    """Whether even small reads and writes may take long, so that they run in another thread."""
    resizes: bool = True
    """Whether the driver can resize at all."""
    source: DriverSpec
    """The spec that it was opened from, bound to its context."""

    def __copy__(self) -> Self:
        return _copied(self)

    @property
    def requests(self) -> int:
        """The number of concurrent requests to the storage; 0 for local storage."""
        return 0 if self.kvstore is None else self.kvstore._requests

    @property
    def is_remote(self) -> bool:
        """Whether a request to the storage takes long."""
        return self.kvstore is not None and self.kvstore._is_remote

    @abstractmethod
    def read(self, transform: Transform) -> npt.NDArray[Any]:
        """Return elements in an array that shares no data with the stored one.

        The indices of the transform count from the origin of the domain, and each axis is used by a map.
        """

    @abstractmethod
    def write(self, transform: Transform, values: npt.NDArray[Any]) -> None:
        """Store `values`, with the dtype and the shape that `read` would return."""

    def load(self, transform: Transform | None) -> None:
        """Open layers and import modules that `read` and `write` need; ``None`` means the whole array.

        The thread that starts an operation calls this, as threads of the pool must not import modules; see
        `CodecChain.load`.
        """
        return

    def spec_members(self) -> dict[str, Any]:
        """Return the spec members that describe the stored array completely (``metadata`` and the like)."""
        return {}

    def spec(self, *, minimal: bool = False) -> DriverSpec:
        """Return a spec that opens this array again; a minimal spec has only the location."""
        spec = self.source.described({} if minimal else self.spec_members(), self.dtype)
        if spec.schema.rank is None:
            spec.schema._set_rank(self.domain.rank)
        return spec

    def spec_of_view(self, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
        """Return a spec of this array, and the transform from a view of it to the spec's array."""
        return self.spec(minimal=minimal), view

    def base_view(self, view: IndexTransform) -> tuple[Driver, IndexTransform] | None:
        """Return the array below, and the view of it that corresponds to a view of this one; None if there is none."""
        return None

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        """Return the same array with another transaction, or none, for reads and writes."""
        if transaction is None:
            return self
        raise status("UNIMPLEMENTED", f'"{self.name}" driver does not support transactions')

    def resize(self, options: ResizeOptions) -> Driver:
        """Change the implicit bounds of the base array and return it with the new domain."""
        raise status("UNIMPLEMENTED", "Resize not supported")

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Batch | None = None) -> Driver:
        """Return the array with its current bounds in storage."""
        return self

    def latest(self, *, look: bool = True) -> Driver:
        """Return the array with the latest bounds known from a resize or `resolve`; itself if it has these bounds.

        Reads and writes use them for the implicit bounds of views. If the spec requires that each operation reads the
        stored bounds, this method does so unless `look` is false.
        """
        return self

    def storage_statistics(self, transform: Transform) -> tuple[bool, bool]:
        """Return whether none, and whether all, of some elements are stored."""
        raise status("UNIMPLEMENTED", "Storage statistics not supported")


class SpecMember(NamedTuple):
    """A member of a spec: the attribute with its value, whose default is that of the class, and its reader.

    If it `is_shown`, it is written together with other defaults.
    """

    attribute: str
    read: Callable[[Any], Any]
    is_shown: bool = False


class DriverSpec(ABC):
    """The description of an array of one driver, in the array's own coordinates.

    A driver reads its own members in `read_members`, writes them in `write_members`, and derives a schema from them in
    `get_schema`.
    """

    name: ClassVar[str]
    uses_kvstore: ClassVar[bool] = True
    is_plain: ClassVar[bool] = False
    """Whether specs with the same JSON may share an object, as they have no values or resources of their own."""
    resources: ClassVar[tuple[str, ...]] = ("data_copy_concurrency",)
    """The members that are resources."""
    optional_resources: ClassVar[frozenset[str]] = frozenset()
    """Those that the spec has only if they are given."""
    members: ClassVar[Mapping[str, SpecMember]] = {}
    """The members with defaults."""
    parts: ClassVar[tuple[str, ...]] = ()
    """The attributes that are specs, or lists of specs, with resources of their own."""

    kvstore: Any
    schema: Schema
    flags: OpenMode
    base: Any = None
    """The spec of the array that this one adapts."""

    def __init__(self) -> None:
        self.kvstore = None
        self.schema = Schema()
        self.bindings = Bindings(self.resources)

    def __copy__(self) -> Self:
        return _copied(self)

    # --- JSON

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> Self:
        """Read the members of a spec (the caller has removed ``transform`` and ``driver``)."""
        members = obj(json)
        self = cls()
        if "schema" in members:
            self.schema = take(members, "schema", lambda value: Schema(obj(value)))
        self.schema._bind_members(members, ("dtype", "rank"))
        self.bindings.take(members, only_if_given=self.optional_resources)
        self.read_members(members)
        known_only(members)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        """Remove the driver's own members from a spec and read them."""
        for name, (attribute, read, _) in self.members.items():
            if name in members:
                setattr(self, attribute, take(members, name, read))

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        """Write the driver's own members."""
        json = {}
        for name, (attribute, _, is_shown) in self.members.items():
            value, default = getattr(self, attribute), getattr(type(self), attribute)
            if default is None:  # true is left out, as by TensorStore, unless the setting is another one
                usual = fills_missing()
                value, default = (usual, usual) if value is None else (value, usual or None)
            if (include_defaults and is_shown) or value != default or type(value) is not type(default):
                json[name] = value
        return json

    def write(self, builder: SpecBuilder, include_defaults: bool = False) -> dict[str, Any]:
        """Return all members including ``driver`` but not ``transform``; `builder` finishes the resources."""
        json: dict[str, Any] = {"driver": self.name}
        self.bindings.write(json, builder, include_defaults)
        schema = self.schema.to_json(include_defaults)
        if "dtype" in schema:
            json["dtype"] = schema["dtype"]
        shown = schema if include_defaults else {k: v for k, v in schema.items() if k not in ("dtype", "rank")}
        if shown or include_defaults:
            json["schema"] = shown
        return {**json, **self.write_members(builder, include_defaults)}

    def url_suffix(self) -> str:
        """Return the URL components after those of the kvstore."""
        raise status("UNIMPLEMENTED", "URL representation not supported")

    # --- resources

    def bound(self, context: Context) -> Self:
        """Return the spec with its resources bound to a context."""
        home = self.bindings.home(context)
        return self._with_parts(self.bindings.bound(home), lambda part: part._bound(home))

    def stripped(self) -> Self:
        """Return the spec without resources; those of the context are used when it is opened."""
        return self._with_parts(Bindings(self.bindings._kinds), lambda part: part._stripped())

    def _changed(self, **attributes: Any) -> Self:
        """Return a copy with other attributes."""
        return _copied(self, **attributes)

    def _with_parts(self, bindings: Bindings, change: Callable[[Any], Any]) -> Self:
        new = {name: part for name in self.parts if (part := getattr(self, name)) is not None}
        for name, part in new.items():
            new[name] = [*map(change, part)] if isinstance(part, list) else change(part)
        return self._changed(bindings=bindings, **new)

    def unbound(self) -> DriverSpec:
        """Return the spec with bound resources replaced by their specs."""
        builder = SpecBuilder()
        json = builder.finish(self.write(builder))
        return type(self).from_json({name: value for name, value in json.items() if name != "driver"})

    # --- properties before opening, in base coordinates

    def get_schema(self) -> Schema:
        """Return the constraints of the schema and of the driver's members."""
        return self.schema

    def get_rank(self) -> int | None:
        """Return the number of dimensions, if it is known."""
        return self.get_schema().rank

    def get_domain(self) -> IndexDomain | None:
        """Return the domain as far as it is known."""
        return self.get_schema().domain

    def get(self, name: str) -> Any:
        """Return one property of the schema, even if other constraints contradict each other."""
        own = getattr(self, f"get_{name}", None)
        return getattr(self.get_schema(), name) if own is None else own()

    # --- derived specs

    def merge(
        self, *, flags: OpenMode | None = None, kvstore: Any = None, schema: Schema | None = None, **options: Any
    ) -> Self:
        """Return the spec with further constraints, which are in base coordinates.

        Flags replace those of the spec. Options are ``recheck_cached_metadata``, ``recheck_cached_data``, and
        ``minimal`` to drop members that only matter when the array is created.
        """
        return self._changed() if schema is None else self._changed(schema=self.schema.copy()._put_all(schema))

    def described(self, members: dict[str, Any], data_type: dtype) -> DriverSpec:
        """Return the spec of an open array, with the given members and without flags and constraints."""
        raise NotImplementedError

    # --- opening

    @abstractmethod
    def open(self, request: Opening) -> tuple[Driver, IndexTransform | None]:
        """Open or create the array; return its driver, and the view of it that this spec describes (None for all)."""
