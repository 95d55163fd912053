"""Specs of arrays in a key-value store: their members, and the rules for opening or creating an array.

A driver reads its own members in `StoredSpec.read_members`, writes them in `write_members`, and derives a schema from
them in `get_schema`. `tegula.formats` decides what a document says. `Reader` brings its members into the form in which
TensorStore writes them, so that those of a spec can be compared with those that are stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy.typing as npt

from tegula.errors import AlreadyExistsError
from tegula.metadata.data_types import DataType
from tegula.metadata.fill_value_json import fill_from_json
from tegula.runtime.frozen import attribute
from tegula.tensorstore.constraints.codec_spec import READERS, Chain, CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.unit import Units
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.errors import StatusError, invalid, stating, status
from tegula.tensorstore.index.dim import EXCLUSIVE_INFINITY
from tegula.tensorstore.index.domain import IndexDomain, merge_domains
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.json import (
    MISSING,
    array,
    array_of,
    boolean,
    check_rank,
    dump,
    integer,
    member,
    obj,
    string,
    take,
)
from tegula.tensorstore.kvstore.kvstore import KvStore, open_bound
from tegula.tensorstore.spec.interface import FLAGS, Driver, DriverSpec, Opening, OpenMode, SpecMember, recheck

__all__ = [
    "SHOWN", "ArraySpec", "Metadata", "Ranks", "ReadFill", "Reader", "StoredSpec", "fill_of_spec", "inner_order",
    "mismatch", "path_of", "ranks",
]  # fmt: skip


ReadFill: TypeAlias = Callable[[Any, DataType], npt.NDArray[Any] | None]
_MAX_SIZE: Final = 2**63 - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Members of a metadata document; None for those that are not given."""

    json: Mapping[str, Any] = field(default_factory=dict)  # in the form that is written
    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    data_type: DataType | None = None
    fill: npt.NDArray[Any] | None = None  # a 0-d array
    # of Zarr v3, and of N5 except codecs and attributes
    codecs: Chain | None = None
    names: tuple[str | None, ...] | None = None
    units: Units | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)  # the user's

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        known = (self.shape, self.names, self.chunk_shape, self.units)
        return next((len(values) for values in known if values is not None), None)


class Reader:
    """A reader of members of an object, which it removes; those with an element per dimension have the same rank."""

    def __init__(self, members: dict[str, Any], rank: int | None = None) -> None:
        self.members, self.rank = members, rank
        self.json: dict[str, Any] = {}  # the members read so far, in the form that is written
        self.parts: dict[str, Any] = {}  # the values of those that are attributes of `Metadata`

    def take(
        self, name: str, read: Callable[[Any], Any], write: Callable[[Any], Any] | None = None, part: str = ""
    ) -> Any:
        """Return the value of a member, and note it and the form in which it is written; ``None`` if it is missing."""
        if name not in self.members:
            return None
        with member(name):
            result = read(self.members.pop(name))
            self.json[name] = result if write is None else write(result)
        if part:
            self.parts[part] = result
        return result

    def metadata(self, others: Mapping[str, Any], **parts: Any) -> Metadata:
        """Return all that was read, together with other members and parts."""
        return Metadata(json={**others, **self.json}, **self.parts, **parts)

    def per_dimension(self, value: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Read an array with an element for each dimension."""
        values = array(value, self.rank)
        self.rank = check_rank(len(values))
        return tuple(array_of(values, read))

    def sizes(self, value: Any, least: int = 0) -> tuple[int, ...]:
        """Read an array with a size for each dimension."""
        return self.per_dimension(value, lambda size: integer(size, least, _MAX_SIZE))

    def take_sizes(self, name: str, part: str, least: int = 0) -> None:
        """Read a member with a size for each dimension."""
        self.take(name, lambda value: self.sizes(value, least), list, part)

    def take_fill(
        self, type_name: str, data_type: DataType | None, read: ReadFill, write: Callable[[Any, DataType], Any]
    ) -> None:
        """Read the ``fill_value``, which needs the type of the elements beside it."""
        if data_type is not None:
            self.take("fill_value", lambda value: read(value, data_type), lambda fill: write(fill, data_type), "fill")
        elif "fill_value" in self.members:
            with member("fill_value"):
                raise invalid(f'must be specified in conjunction with "{type_name}"')


def fill_of_spec(value: Any, data_type: DataType) -> npt.NDArray[Any]:
    """Read a ``fill_value`` in a spec, for which fewer forms are accepted than in stored documents."""
    is_whole = isinstance(value, float) and value.is_integer()
    return fill_from_json(int(value) if is_whole and "int" in data_type.numpy.name else value, data_type)


def mismatch(name: str, wanted: Any, stored: Any) -> StatusError:
    """Return the error for a stored member that differs from the spec."""
    received = "nothing" if stored is MISSING else dump(stored)
    return status("FAILED_PRECONDITION", f"Expected {dump(name)} of {dump(wanted)} but received: {received}")


# --- dimensions: those of the array come first, then those of its elements


@dataclass(frozen=True, slots=True)
class Ranks:
    """The number of chunked dimensions and of all dimensions; None if unknown."""

    chunked: int | None
    full: int | None


def ranks(chunked: int | None, full: int | None, shown: Elements | None) -> Ranks:
    """Derive either number of dimensions from the other, if the shown part of the elements is known."""
    inner = None if shown is None else len(shown.shape)
    if inner is not None:
        if full is None and chunked is not None:
            full = chunked + inner
        elif full is not None and chunked is None:
            chunked = full - inner
    wrong = full is not None and chunked is not None and (chunked > full if inner is None else chunked + inner != full)
    if wrong or (chunked is not None and chunked < 0):
        raise invalid(f"Rank specified by schema ({full}) is not compatible with metadata")
    return Ranks(chunked, full)


def inner_order(order: str, chunked: int, full: int) -> tuple[int, ...]:
    """Return the order of the dimensions in a chunk, ``"C"`` or ``"F"``; those of an element always come last."""
    return (*range(chunked)[:: 1 if order == "C" else -1], *range(chunked, full))


_TO_OPEN = OpenMode(open=True)


class StoredSpec(DriverSpec):
    """A spec with ``kvstore``, cache options, flags and schema."""

    is_plain: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]] = ("kvstore",)
    directory: ClassVar[bool] = True
    """Whether the path of the key-value store is a directory, which ends with a slash."""
    creates: ClassVar[bool] = True
    """Whether there are flags for opening and creating."""
    members: ClassVar[Mapping[str, SpecMember]] = {
        "recheck_cached_metadata": SpecMember("recheck_metadata", recheck, True),
        "recheck_cached_data": SpecMember("recheck_data", recheck, True),
        "fill_missing_data_reads": SpecMember("fill_missing", boolean, True),
        "store_data_equal_to_fill_value": SpecMember("store_equal", boolean, True),
    }
    resources: ClassVar[tuple[str, ...]] = ("cache_pool", "metadata_cache_pool", "data_copy_concurrency")
    optional_resources: ClassVar[frozenset[str]] = frozenset(("metadata_cache_pool",))  # instead of `cache_pool`

    recheck_metadata: Any = "open"
    recheck_data: Any = True
    fill_missing: bool | None = None
    """What the spec says; if it says nothing, the setting ``missing_chunks`` decides."""
    store_equal: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.flags = _TO_OPEN

    def read_members(self, members: dict[str, Any]) -> None:
        self.kvstore = take(members, "kvstore", KvStore.Spec)
        path = take(members, "path", string)
        if path is not None and self.kvstore is None:
            raise invalid('"path" must be specified in conjunction with "kvstore"')
        self.kvstore = self.kvstore / path if path else self.kvstore
        self._make_directory()
        super().read_members(members)
        if self.creates:
            if not members.keys().isdisjoint(FLAGS):
                is_explicit = "open" in members or "create" in members
                flags = OpenMode(**{name: take(members, name, boolean, False) for name in FLAGS})
                assumed = flags.assume_cached_metadata and not flags.assume_metadata
                self.flags = replace(flags, open=flags.open or not is_explicit, assume_cached_metadata=assumed)
            if take(members, "allow_metadata_mismatch", boolean):
                raise invalid('"allow_metadata_mismatch" no longer supported')

    def _make_directory(self) -> None:
        if self.directory and self.kvstore is not None:
            path = self.kvstore.path
            if path and not path.endswith("/"):
                self.kvstore = self.kvstore + "/"

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        json = super().write_members(builder, include_defaults)
        if self.kvstore is not None:
            json["kvstore"] = self.kvstore._build(builder, include_defaults)
        if not self.creates:
            return json
        flags = {name: getattr(self.flags, name) for name in FLAGS if name != "open" or self.flags.create}
        shown = FLAGS[2:] if include_defaults else ()  # opening an existing array is the default
        return {**json, **{name: value for name, value in flags.items() if value or name in shown}}

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

    def opened_kvstore(self, request: Opening) -> KvStore:
        """Open the key-value store of the array."""
        if self.kvstore is None:
            raise invalid('"kvstore" must be specified')
        return open_bound(self.kvstore._bound(request.context), request.transaction)

    def described(self, members: dict[str, Any], data_type: dtype) -> Self:
        flags = OpenMode(open=True, assume_metadata=self.flags.assume_metadata)
        return self._changed(schema=Schema(dtype=data_type), flags=flags)


UNDETERMINED: Final = 'Cannot create using specified "metadata" and schema'
"""What errors say about a spec that does not determine an array."""
SHOWN: Final = {
    "field": SpecMember("field", string),
    "open_as_void": SpecMember("void", boolean),
    "open_as_records": SpecMember("records", boolean),
}
"""The members that choose the part of the elements to show."""


class ArraySpec(StoredSpec):
    """A spec of a stored array."""

    format_name: str = attribute("name", "The name of the format in tegula, which is also the URL scheme.")

    anything: ClassVar[Metadata] = Metadata()
    """Constraints that any array meets."""

    compared_otherwise: ClassVar[frozenset[str]] = frozenset()
    """Members of a document that are compared by rules of their own."""

    key: str
    """Key of the array's metadata document, relative to the path."""
    constraints: Metadata  # the member ``metadata``
    field: str = ""  # or column to show; empty if there is only one
    void: bool = False  # whether to show the bytes of whole elements
    records: bool = False  # whether to show whole elements with all their fields

    def __init__(self) -> None:
        super().__init__()
        self.constraints = self.anything

    mismatch_code: ClassVar[str] = "FAILED_PRECONDITION"
    """The status code for another domain or fill value than that of the array."""

    @classmethod
    @abstractmethod
    def read_constraints(cls, members: dict[str, Any]) -> Metadata:
        """Read the ``metadata`` of a spec."""

    def read_members(self, members: dict[str, Any]) -> None:
        super().read_members(members)
        if "metadata" in members:
            with member("metadata"):
                metadata = obj(members.pop("metadata"))
                self.constraints = self.read_constraints(metadata) if metadata else self.anything

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        json = super().write_members(builder, include_defaults)
        if include_defaults or self.constraints.json != self.anything.json:
            json["metadata"] = dict(sorted(self.constraints.json.items()))
        return json

    @classmethod
    def codec_of(cls, metadata: Metadata) -> CodecSpec:
        """Return the codec that metadata determines."""
        members = {**metadata.json, "codecs": metadata.codecs}  # a chain has the options that were given
        return CodecSpec._of(cls.name, **{name: members[name] for name in READERS[cls.name] if name in metadata.json})

    def domain_of(self, known: Ranks, shown: Elements | None) -> IndexDomain | None:
        """Return the domain that the metadata and the schema together determine; None if it is unknown.

        The upper bounds of the array's own dimensions are implicit, all others explicit.
        """
        metadata, wanted = self.constraints, self.schema.domain
        extents = known.chunked == 0 or metadata.shape is not None or metadata.names is not None
        complete = extents and (shown is not None or known.chunked == known.full)
        if known.full is None or (wanted is None and not complete):
            return None
        inner = () if shown is None else shown.shape
        outer = known.full - len(inner)
        labels = [name or "" for name in metadata.names or ("",) * outer]
        if any(name and labels.count(name) > 1 for name in labels):
            labels = [""] * outer
        domain = IndexDomain(
            inclusive_min=[0] * known.full,
            exclusive_max=(*(metadata.shape or (EXCLUSIVE_INFINITY,) * outer), *inner),
            implicit_upper_bounds=[*[True] * outer, *[False] * len(inner)],
            labels=(*labels, *[""] * len(inner)),
        )
        if wanted is None:
            return domain
        try:
            merged = merge_domains(wanted, domain)
        except StatusError as error:
            raise status(self.mismatch_code, error.sentence) from None
        flags = domain.implicit_upper_bounds
        return merged._of([(*bounds[:2], False, flag, bounds[4]) for bounds, flag in zip(merged._dims, flags)])

    def chosen(self) -> tuple[str, ...]:
        """Return the name of the member that chooses the part of the elements to show, if any; raise for several."""
        names = tuple(name for name in SHOWN if name in self.members and getattr(self, SHOWN[name].attribute))
        if len(names) > 1:
            raise invalid(f'"{names[0]}" and "{names[1]}" are mutually exclusive')
        return names

    def url_suffix(self) -> str:
        for name in self.chosen():
            raise invalid(f"{self.format_name} URL syntax not supported with {name} specified")
        return f"{self.format_name}:"

    @abstractmethod
    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        """Open the stored array; None if there is none. Raise if the flags do not allow opening it."""

    @abstractmethod
    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        """Create the array; with `overwrite`, first delete everything at its path."""

    def open(self, request: Opening) -> tuple[Driver, IndexTransform | None]:
        flags = self.flags._check()
        if flags.create and not request.write:
            raise invalid("Cannot specify an open mode of `create` without `write`")
        driver = self.open_or_create(self.opened_kvstore(request), flags)
        driver.mode = request.mode
        return driver, None

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
            with self.writing(kvstore):
                text = error.message.replace("overwrite=True", "delete_existing=True")
                raise status("ALREADY_EXISTS", text) from None

    def writing(self, kvstore: KvStore) -> stating:
        """Say in errors of a ``with`` block that the document is being written."""
        return stating(f"Error writing {self.shown_key(kvstore)}")

    def shown_key(self, kvstore: KvStore) -> str:
        """Return the document's key for messages."""
        return kvstore._describe_key(self.key)

    def check_members(self, stored: Metadata) -> None:
        """Raise unless a document has the members that the spec requires."""
        for name, value in self.constraints.json.items():
            found = stored.json.get(name, MISSING)
            if name not in self.compared_otherwise and (found is MISSING or dump(value) != dump(found)):
                raise mismatch(name, value, found)

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

    # --- other specs


def path_of(kvstore: KvStore) -> str:
    """Return the path of the node whose keys start with the path of a key-value store."""
    return kvstore._path.removesuffix("/")
