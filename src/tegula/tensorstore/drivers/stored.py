"""The common parts of specs, of those of arrays in a key-value store, and the rules for opening or creating an array.

A driver reads its own members in `StoredSpec.read_members`, writes them in `write_members`, and derives a schema from
them in `get_schema`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from tegula import config
from tegula.errors import AlreadyExistsError
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Bindings, Context, SpecBuilder
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.json.binding import (
    MISSING,
    boolean,
    expected,
    in_member,
    invalid,
    known_only,
    member,
    obj,
    string,
)
from tegula.tensorstore.kvstore.kvstore import KvStore, open_bound
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening, OpenMode

__all__ = ["ArraySpec", "BoundSpec", "StoredSpec", "path_of", "read_recheck", "read_schema", "write_schema"]

FLAGS = ("open", "create", "delete_existing", "assume_metadata", "assume_cached_metadata")
_TO_OPEN = OpenMode(open=True)
_ONLY_IF_GIVEN = frozenset(("metadata_cache_pool",))  # by default, `cache_pool` is used


class BoundSpec(DriverSpec):
    """A spec with resources of a context and a schema."""

    resource_kinds: ClassVar[Mapping[str, str]] = {"data_copy_concurrency": "data_copy_concurrency"}
    """The members that are resources, with the kind of each."""

    def __init__(self) -> None:
        self.kvstore = None
        self.schema = Schema()
        self.bindings = Bindings(self.resource_kinds)

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> Self:
        members = obj(json)
        self = cls()
        self.schema = read_schema(members)
        self.bindings.take(members, only_if_given=_ONLY_IF_GIVEN & self.resource_kinds.keys())
        self.read_members(members)
        known_only(members)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        """Remove the driver's own members from a spec and read them."""

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        """Write the driver's own members."""
        return {}

    def write(self, builder: SpecBuilder, include_defaults: bool = False) -> dict[str, Any]:
        json: dict[str, Any] = {"driver": self.name}
        self.bindings.write(json, builder, include_defaults)
        json.update(write_schema(self.schema, include_defaults))
        json.update(self.write_members(builder, include_defaults))
        return json

    def stripped(self) -> Self:
        other = copy(self)
        other.bindings = self.bindings.stripped()
        return other

    def merge(
        self, *, flags: OpenMode | None = None, kvstore: Any = None, schema: Schema | None = None, **options: Any
    ) -> Self:
        other = copy(self)
        if schema is not None:
            other.schema = self.schema.copy()
            other.schema._merge(schema)
        return other


class StoredSpec(BoundSpec):
    """A spec with ``kvstore``, cache options, flags and schema."""

    is_plain: ClassVar[bool] = True
    directory: ClassVar[bool] = True
    """Whether the path of the key-value store is a directory, which ends with a slash."""
    creates: ClassVar[bool] = True
    """Whether there are flags for opening and creating."""
    options: ClassVar[tuple[str, ...]] = (
        *("recheck_cached_metadata", "recheck_cached_data"),
        *("fill_missing_data_reads", "store_data_equal_to_fill_value"),
    )
    """The members with defaults."""

    resource_kinds: ClassVar[Mapping[str, str]] = {
        "cache_pool": "cache_pool",
        "metadata_cache_pool": "cache_pool",
        "data_copy_concurrency": "data_copy_concurrency",
    }

    recheck_metadata: Any = "open"
    recheck_data: Any = True
    fill_missing: bool | None = None
    """What the spec says; if it says nothing, the setting ``missing_chunks`` decides."""
    store_equal: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.flags = _TO_OPEN

    def read_members(self, members: dict[str, Any]) -> None:
        self._read_kvstore(members)
        for name in self.options:
            if name in members:
                attribute, read = _OPTIONS[name]
                setattr(self, attribute, read(members, name))
        if self.creates:
            self.flags = read_flags(members)
            if "allow_metadata_mismatch" in members:
                _refuse_mismatch(members)

    def _read_kvstore(self, members: dict[str, Any]) -> None:
        value = members.pop("kvstore", MISSING)
        if value is not MISSING:
            try:
                self.kvstore = value if isinstance(value, KvStore.Spec) else KvStore.Spec(value)
            except StatusError as error:
                raise in_member("kvstore", error) from error.__cause__
        path = members.pop("path", MISSING)
        if path is not MISSING:
            with member("path"):
                name = string(path)
                if self.kvstore is None:
                    raise invalid('"path" must be specified in conjunction with "kvstore"')
                self.kvstore = self.kvstore / name
        self._make_directory()

    def _make_directory(self) -> None:
        if self.directory and self.kvstore is not None:
            path = self.kvstore.path
            if path and not path.endswith("/"):
                self.kvstore = self.kvstore + "/"

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        json: dict[str, Any] = {}
        if self.kvstore is not None:
            json["kvstore"] = self.kvstore._build(builder, include_defaults)
        for name in self.options:
            attribute, _ = _OPTIONS[name]
            value, default = getattr(self, attribute), getattr(type(self), attribute)
            if default is None:  # true is left out, as by TensorStore, unless the setting is another one
                usual = config.current().missing_chunks == "fill"
                value, default = (usual, usual) if value is None else (value, usual or None)
            if include_defaults or value != default or type(value) is not type(default):
                json[name] = value
        return {**json, **write_flags(self.flags, include_defaults)} if self.creates else json

    def bound(self, context: Context) -> Self:
        other = self.__copy__()
        home = self.bindings.home(context)
        other.bindings = self.bindings.bound(home)
        if self.kvstore is not None:
            other.kvstore = self.kvstore._bound(home)
        return other

    def stripped(self) -> Self:
        other = super().stripped()
        if self.kvstore is not None:
            other.kvstore = self.kvstore._stripped()
        return other

    def merge(
        self, *, flags: OpenMode | None = None, kvstore: Any = None, schema: Schema | None = None, **options: Any
    ) -> Self:
        if kvstore is not None and self.kvstore is not None:
            raise invalid('"kvstore" is already specified')
        other = super().merge(schema=schema)
        if flags is not None:
            other.flags = flags
        if kvstore is not None:
            other.kvstore = kvstore
            other._make_directory()
        other.recheck_metadata = options.get("recheck_cached_metadata", self.recheck_metadata)
        other.recheck_data = options.get("recheck_cached_data", self.recheck_data)
        return other

    def checked_flags(self, request: Opening) -> OpenMode:
        """Return the flags."""
        flags = self.flags._check()
        if flags.create and not request.write:
            raise invalid("Cannot specify an open mode of `create` without `write`")
        if self.kvstore is None:
            raise invalid('"kvstore" must be specified')
        return flags

    @property
    def rechecks(self) -> bool:
        """Whether each read and write reads the metadata again."""
        moment = self.recheck_metadata
        return moment is True or (isinstance(moment, float) and moment > time.time())

    def opened_kvstore(self, request: Opening) -> KvStore:
        """Open the key-value store of the array."""
        if self.kvstore is None:
            raise invalid('"kvstore" must be specified')
        return open_bound(self.kvstore._bound(request.context), request.transaction)

    def described(self, members: dict[str, Any], data_type: dtype) -> Self:
        other = copy(self)
        other.schema = Schema(dtype=data_type)
        assumed = self.flags.assume_metadata
        other.flags = OpenMode(open=True, assume_metadata=assumed)
        return other


class ArraySpec(StoredSpec):
    """A spec of a stored array.

    Attributes
    ----------
    constraints
        The ``metadata`` member.
    field : str
        Name of the field or column to show; empty if there is only one.
    """

    anything: ClassVar[Metadata] = Metadata()
    """Constraints that any array meets."""

    key: str
    """Key of the array's metadata document, relative to the path."""
    constraints: Metadata
    field: str = ""

    def __init__(self) -> None:
        super().__init__()
        self.constraints = self.anything

    @abstractmethod
    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        """Open the stored array; None if there is none. Raise if the flags do not allow opening it."""

    @abstractmethod
    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        """Create the array; with `overwrite`, first delete everything at its path."""

    def open(self, request: Opening) -> Driver:
        flags = self.checked_flags(request)
        kvstore = self.opened_kvstore(request)
        driver = self.open_or_create(kvstore, flags)
        driver.mode = request.mode
        return driver

    def open_or_create(self, kvstore: KvStore, flags: OpenMode) -> Driver:
        """Open the array or create it, as the flags allow."""
        driver = None if flags.delete_existing else self.open_existing(kvstore, flags)
        if driver is not None:
            return driver
        if not flags.create:
            raise status("NOT_FOUND", f"Metadata at {self.shown_key(kvstore)} does not exist")
        try:
            return self.create(kvstore, overwrite=flags.delete_existing)
        except AlreadyExistsError as error:
            driver = self.open_existing(kvstore, flags)  # another process has created the array
            if driver is not None:
                return driver
            text = error.message.replace("overwrite=True", "delete_existing=True")
            raise annotate(status("ALREADY_EXISTS", text), f"Error writing {self.shown_key(kvstore)}") from None

    def already_exists_error(self, kvstore: KvStore) -> StatusError:
        """Return the error for an array that must not be opened."""
        return status("ALREADY_EXISTS", f"Error writing {self.shown_key(kvstore)}")

    def undetermined_error(self, error: BaseException) -> StatusError:
        """Return the error for a spec that does not determine an array."""
        return annotate(error, 'Cannot create using specified "metadata" and schema')

    def write_error(self, kvstore: KvStore, error: BaseException) -> StatusError:
        """Return the error for an array that cannot be created."""
        return annotate(error, f"Error writing {self.shown_key(kvstore)}")

    def shown_key(self, kvstore: KvStore) -> str:
        """Return the document's key for messages."""
        return kvstore._describe_key(self.key)

    # --- other specs

    def merge(self, *, minimal: bool = False, **options: Any) -> Self:
        other = super().merge(minimal=minimal, **options)
        if minimal:
            other.constraints = self.anything
        return other

    def described(self, members: dict[str, Any], data_type: dtype) -> Self:
        other = super().described(members, data_type)
        other.constraints = members.get("metadata", self.anything)
        other.field = members.get("field", self.field)
        return other


def path_of(kvstore: KvStore) -> str:
    """Return the path of the node whose keys start with the path of a key-value store."""
    return kvstore._path.removesuffix("/")


def read_schema(members: dict[str, Any]) -> Schema:
    """Remove ``schema``, ``dtype`` and ``rank`` from a spec and read them."""
    schema = Schema()
    if "schema" in members:
        with member("schema"):
            schema = Schema(obj(members.pop("schema")))
    name = members.pop("dtype", MISSING)
    if name is not MISSING:
        with member("dtype"):
            schema._set_dtype(_data_type(name))
    rank = members.pop("rank", MISSING)
    if rank is not MISSING:
        with member("rank"):
            if type(rank) is not int or not 0 <= rank <= 32:
                raise expected("integer in the range [0, 32]", rank)
            schema._set_rank(rank)
    return schema


def _data_type(value: Any) -> dtype:
    name = string(value)
    try:
        return dtype(name)
    except ValueError:
        raise invalid(f'Unsupported data type: "{name}"') from None


def write_schema(schema: Schema, include_defaults: bool) -> dict[str, Any]:
    """Write ``schema`` and ``dtype``; ``rank`` is written with the transform."""
    full = schema.to_json(include_defaults=include_defaults)
    shown = full if include_defaults else {k: v for k, v in full.items() if k not in ("dtype", "rank")}
    json: dict[str, Any] = {"schema": shown} if shown or include_defaults else {}
    if schema.dtype is not None:
        json["dtype"] = schema.dtype.to_json()
    return json


def read_flags(members: dict[str, Any]) -> OpenMode:
    """Remove the flags from a spec and read them."""
    if members.keys().isdisjoint(FLAGS):
        return _TO_OPEN
    is_explicit = "open" in members or "create" in members
    flags = OpenMode(**{name: _boolean(members, name) for name in FLAGS})
    if flags.assume_metadata:
        flags = replace(flags, assume_cached_metadata=False)
    return flags if is_explicit else replace(flags, open=True)


def write_flags(flags: OpenMode, include_defaults: bool) -> dict[str, Any]:
    """Write the flags; opening an existing array is the default."""
    json: dict[str, Any] = {}
    if flags.create:
        json["create"] = True
        if flags.open:
            json["open"] = True
    for name in FLAGS[2:]:
        if getattr(flags, name) or include_defaults:
            json[name] = getattr(flags, name)
    return json


def read_recheck(members: dict[str, Any], name: str) -> Any:
    """Remove and read a member that says when to revalidate cached data."""
    value = members.pop(name)
    if isinstance(value, bool) or value == "open":
        return value
    if isinstance(value, (int, float)):
        return float(value)
    with member(name):
        raise expected('boolean, number, or "open"', value)


def _refuse_mismatch(members: dict[str, Any]) -> None:
    """Remove an obsolete member; raise if it is set."""
    with member("allow_metadata_mismatch"):
        if boolean(members.pop("allow_metadata_mismatch")):
            raise invalid('"allow_metadata_mismatch" no longer supported')


def _boolean(members: dict[str, Any], name: str) -> bool:
    value = members.pop(name, False)
    if isinstance(value, bool):
        return value
    with member(name):
        return boolean(value)


_OPTIONS: Final[dict[str, tuple[str, Callable[[dict[str, Any], str], Any]]]] = {
    "recheck_cached_metadata": ("recheck_metadata", read_recheck),
    "recheck_cached_data": ("recheck_data", read_recheck),
    "fill_missing_data_reads": ("fill_missing", _boolean),
    "store_data_equal_to_fill_value": ("store_equal", _boolean),
}
"""Members with defaults: the attribute and the reader of each."""
