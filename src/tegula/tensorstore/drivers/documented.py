"""Arrays of formats that TensorStore does not know, opened and created through tegula's own nodes.

A driver says which members its ``metadata`` has, how the documents of a new array are made of them, and which members
describe an array that is there; the rules of opening are here.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import tegula
from tegula.attributes import Attributes
from tegula.creation import new_array_of
from tegula.errors import AlreadyExistsError, TegulaError
from tegula.formats import find_format
from tegula.group import open_node
from tegula.metadata.nodes import ArrayMetadata
from tegula.table import Table
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.chunk_shapes import choose_shape
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.constraints.fill_values import to_json as fill_to_json
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.drivers.node import NodeDriver, new_shape
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.drivers.zarr2_layout import stored_bounds
from tegula.tensorstore.errors import StatusError, annotate, as_status, status
from tegula.tensorstore.index.domain import IndexDomain, merge_domains
from tegula.tensorstore.json.binding import MISSING, dump, invalid, known_only, member, obj
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, Opening, ResizeOptions

if TYPE_CHECKING:
    from tegula.tensorstore.kvstore.transaction import Transaction

__all__ = ["DocumentedDriver", "DocumentedSpec", "chunk_shape_of", "fill_json", "shape_of"]


class DocumentedSpec(StoredSpec):
    """The spec of an array of one of tegula's formats."""

    metadata_members: ClassVar[tuple[str, ...]]
    """What ``metadata`` may say."""
    key: ClassVar[str]
    """The document that messages name."""
    field: str = ""

    # --- what a format says

    @abstractmethod
    def new_documents(self) -> dict[str, bytes]:
        """Return the documents of a new array that is as the spec says."""

    @classmethod
    @abstractmethod
    def describe(cls, array: tegula.Array) -> dict[str, Any]:
        """Return what ``metadata`` says of an array that is there."""

    @classmethod
    @abstractmethod
    def codec_of(cls, described: dict[str, Any]) -> CodecSpec:
        """Return the codec that ``metadata`` describes."""

    # --- JSON

    def read_members(self, members: dict[str, Any]) -> None:
        if "metadata" in members:
            with member("metadata"):
                metadata = obj(members.pop("metadata"))
                known_only({name: value for name, value in metadata.items() if name not in self.metadata_members})
                self.members = {"metadata": metadata}
                if "dtype" in metadata:
                    with member("dtype"):
                        self.schema.set_dtype(_data_type(metadata["dtype"]))

    def write_members(self, *, include_defaults: bool) -> dict[str, Any]:
        json: dict[str, Any] = dict(self.members)
        if include_defaults:
            json.setdefault("metadata", {})
        if self.field:
            json["field"] = self.field
        return json

    @property
    def metadata(self) -> dict[str, Any]:
        """What the spec says of the metadata."""
        found: dict[str, Any] = self.members.get("metadata", {})
        return found

    def get_schema(self) -> Schema:
        schema = self.schema.copy()
        domain = self.get_domain()
        if domain is not None:
            schema.set_domain(domain, "domain")
        return schema

    def get_domain(self) -> IndexDomain | None:
        shape = self.metadata.get("shape")
        domain = None if shape is None else IndexDomain(shape=shape, implicit_upper_bounds=[True] * len(shape))
        wanted = self.schema.domain
        if domain is None or wanted is None:
            domain = wanted if domain is None else domain
        else:
            domain = merge_domains(wanted, domain)
        if domain is None or not domain.rank:
            return domain
        return stored_bounds(domain, [True] * domain.rank)

    def merge(self, *, minimal: bool = False, **options: Any) -> DocumentedSpec:
        other = super().merge(minimal=minimal, **options)
        assert isinstance(other, DocumentedSpec)
        if minimal:
            other.members = {}
        return other

    def described(self, members: dict[str, Any], data_type: dtype) -> DocumentedSpec:
        other = super().described(members, data_type)
        assert isinstance(other, DocumentedSpec)
        other.members = dict(members)
        return other

    def url_suffix(self) -> str:
        """Return what a URL says of the array after where it is."""
        if self.field:
            raise invalid(f"{self.name} URL syntax not supported with a field specified")
        return f"{self.name}:"

    # --- opening

    def open(self, request: Opening) -> Driver:
        flags = self.checked_flags(request)
        kvstore = self.opened_kvstore(request)
        try:
            array = None if flags.delete_existing else self._found(kvstore)
            if array is None:
                array = self._created(kvstore, flags.create, flags.delete_existing)
            elif not flags._opens:
                raise self._exists(kvstore)
            else:
                self._check_metadata(array)
            driver = DocumentedDriver(self, kvstore, array)
        except StatusError:
            raise
        except TegulaError as error:
            raise as_status(error) from error
        self._check(driver)
        driver.mode = request.mode
        return driver

    def _found(self, kvstore: KvStore) -> tegula.Array | None:
        path = kvstore._path.strip("/")
        node = open_node(kvstore._store, path, self.name, read_only=False)
        if isinstance(node, Table):
            if self.field not in node.names:
                names = dump([*node.names])
                if not self.field:
                    raise status("FAILED_PRECONDITION", f'Must specify a "field" that is one of: {names}')
                raise status("FAILED_PRECONDITION", f"Requested field {dump(self.field)} is not one of: {names}")
            node = node[self.field]
        elif self.field:
            text = f"Requested field {dump(self.field)} but there is no table"
            raise status("FAILED_PRECONDITION", text)
        return node if isinstance(node, tegula.Array) else None

    def _created(self, kvstore: KvStore, create: bool, overwrite: bool) -> tegula.Array:
        shown = kvstore.describe_key(self.key)
        if not create:
            raise status("NOT_FOUND", f"Metadata at {shown} does not exist")
        item = find_format(self.name)
        try:
            if self.field:
                raise invalid("columns are created with their table")
            metadata = item.parse(self.new_documents())
        except TegulaError as error:
            text = 'Cannot create using specified "metadata" and schema'
            raise annotate(annotate(as_status(error), text), f"Error writing {shown}") from None
        assert isinstance(metadata, ArrayMetadata)
        try:
            path = kvstore._path.strip("/")
            return new_array_of(kvstore._store, path, item, item.adapt(metadata), overwrite)
        except AlreadyExistsError:
            raise self._exists(kvstore) from None

    def _exists(self, kvstore: KvStore) -> StatusError:
        return status("ALREADY_EXISTS", f"Error writing {kvstore.describe_key(self.key)}")

    def _check_metadata(self, array: tegula.Array) -> None:
        """Raise unless the metadata of an array is as the spec says."""
        stored = self.describe(array)
        for name, value in self.metadata.items():
            if not _same(name, value, stored.get(name, MISSING)):
                text = f"Expected {dump(name)} of {dump(value)} but received: {dump(stored.get(name))}"
                raise status("FAILED_PRECONDITION", text)

    def _check(self, driver: DocumentedDriver) -> None:
        """Raise unless an array is as the schema wants it."""
        found = Schema()
        found.set_dtype(driver.dtype)
        found.set_domain(driver.domain, "domain")
        found.set_chunk_layout(driver.chunk_layout)
        if driver.codec is not None:
            found.set_codec(driver.codec)
        if driver.fill_value is not None:
            found.set_fill_value(driver.fill_value)
        try:
            found.merge(self.schema)
        except StatusError as error:
            raise annotate(
                status("FAILED_PRECONDITION", error.sentence), "Mismatch between metadata and schema"
            ) from None


class DocumentedDriver(NodeDriver):
    """The driver of an array of one of tegula's formats."""

    source: DocumentedSpec
    kvstore: KvStore

    def __init__(self, source: DocumentedSpec, kvstore: KvStore, array: tegula.Array) -> None:
        super().__init__(array, fill_missing=source.fill_missing)
        self.name = source.name
        self.source = source
        self.kvstore = kvstore
        described = source.describe(array)
        self.codec = source.codec_of(described)
        chunks = [*array.metadata.grid.largest_chunk(), *self.elements.shape]
        order = [*range(len(chunks))]
        if described.get("order") == "F":
            order[: array.ndim] = order[: array.ndim][::-1]
        self.chunk_layout = ChunkLayout(rank=len(chunks))
        if chunks:
            self.chunk_layout.update(chunk_shape=chunks, inner_order=order, grid_origin=[0] * len(chunks))

    @property
    def attributes(self) -> Attributes:
        """The user's attributes."""
        return self.array.attrs

    def spec_members(self) -> dict[str, Any]:
        return {"metadata": self.source.describe(self.array)}

    def with_transaction(self, transaction: Transaction | None) -> Driver:
        other = copy(self)
        other.kvstore = self.kvstore.with_transaction(transaction)
        vars(other).pop("newest", None)
        array = self.array
        other.array = tegula.Array(
            replace(array._stored, store=other.kvstore._store),
            array.path,
            read_only=array.read_only,
            allow_pickle=array._allow_pickle,
        )
        return other

    # --- other bounds

    def resize(self, options: ResizeOptions) -> Driver:
        array = self.shared()
        if all(bound is None for bound in options.exclusive_max[: self.array.ndim]):
            return self.latest()
        self._check_other_fields(options)
        try:
            array.refresh()
            shape = new_shape(array.shape, options)
            if shape != array.shape and options.metadata_only:
                array._update(lambda metadata: replace(metadata, shape=shape))
            elif shape != array.shape:
                array.resize(shape)
        except TegulaError as error:
            raise as_status(error) from error
        return self.at(array)

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Any = None) -> Driver:
        array = self.shared()
        try:
            array.refresh()
        except TegulaError as error:
            raise as_status(error) from error
        return self.at(array)


# --- what a new array gets


def _data_type(value: Any) -> dtype:
    try:
        return dtype(np.dtype(value) if isinstance(value, str) else np.dtype([tuple(item) for item in value]))
    except (TypeError, ValueError) as error:
        raise invalid(f"{dump(value)} is not a data type: {error}") from None


def _same(name: str, wanted: Any, stored: Any) -> bool:
    if name == "dtype" and stored is not MISSING:
        return bool(_data_type(wanted) == _data_type(stored))
    return dump(wanted) == dump(stored)


def shape_of(spec: DocumentedSpec) -> tuple[int, ...]:
    """Return the shape of a new array.

    Raises
    ------
    ValueError
        If nothing says what it is.
    """
    domain = spec.get_domain()
    if domain is None or any(size >= 2**62 for size in domain.shape):
        raise invalid("domain must be specified")
    if any(domain.inclusive_min):
        raise invalid("the domain must start at 0")
    return tuple(domain.shape)


def chunk_shape_of(spec: DocumentedSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Choose the shape of the chunks of a new array, to fit the constraints on it."""
    layout = spec.schema.chunk_layout
    grid = layout.read_chunk
    grid.merge(layout.write_chunk)
    rank = len(shape)
    sizes = [size or 0 for size in grid.shape_vector(rank).values]
    ratios = [ratio or 0.0 for ratio in grid.aspect_ratio_vector(rank).values]
    return choose_shape(sizes, ratios, None if grid.count is None else grid.count.value, shape)


def fill_json(spec: DocumentedSpec, wanted: dtype) -> Any:
    """Return the fill value that the schema asks for as JSON; 0 if it asks for none."""
    fill = spec.schema.fill_value
    return 0 if fill is None else fill_to_json(np.asarray(fill), wanted)
