"""The ``zarr.json`` of an array as TensorStore reads, checks and writes it.

`Constraints` are what a spec's ``metadata`` member says: any part of it. `Metadata` is a whole document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Final

import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.formats.zarr3 import codecs_from_json
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding, default_keys, v2_keys
from tegula.metadata.data_types import DataType, data_type_from_json
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.constraints.zarr3_codecs import Chain, chain_from_json, merge_chains
from tegula.tensorstore.drivers.elements import Elements
from tegula.tensorstore.drivers.zarr2_types import ZarrType
from tegula.tensorstore.drivers.zarr3_resolution import check_shapes, resolve_chain
from tegula.tensorstore.drivers.zarr3_types import element_of, fill_to_document, fill_value, no_fill, zarr_type
from tegula.tensorstore.errors import StatusError, annotate, as_status, status
from tegula.tensorstore.json.binding import (
    MISSING,
    array,
    at,
    dump,
    integer,
    invalid,
    known_only,
    member,
    obj,
    one_of,
    string,
)

__all__ = ["KEY", "Constraints", "KeyEncoding", "Metadata", "Units", "check_constraints", "parse_stored"]

KEY: Final = "zarr.json"
Units = tuple[Unit | None, ...]
_MAX_SIZE: Final = 2**63 - 2
_MAX_RANK: Final = 32


@dataclass(frozen=True, slots=True)
class KeyEncoding:
    """How chunk keys are spelled."""

    name: str = "default"
    separator: str = "/"

    @property
    def keys(self) -> ChunkKeyEncoding:
        """The same as the lower floors have it."""
        return (default_keys if self.name == "default" else v2_keys)(self.separator)

    def to_json(self) -> dict[str, Any]:
        """Write it; the usual separator is left out."""
        if self.separator == ("/" if self.name == "default" else "."):
            return {"name": self.name}
        return {"configuration": {"separator": self.separator}, "name": self.name}


@dataclass(frozen=True, slots=True)
class Constraints:
    """Any part of a ``zarr.json``; what is not there is None.

    Attributes
    ----------
    attributes, extensions : mapping
        The user's attributes, without the units; members that need not be understood.
    """

    zarr_format: int | None = None
    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    zarr: ZarrType | None = None
    fill: npt.NDArray[Any] | None = None
    keys: KeyEncoding | None = None
    codecs: Chain | None = None
    names: tuple[str | None, ...] | None = None
    units: Units | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """Number of dimensions, if that is known."""
        known = (self.shape, self.names, self.chunk_shape, self.units)
        return next((len(item) for item in known if item is not None), None)

    def to_json(self, *, stored: bool = False) -> dict[str, Any]:
        """Write what is there; ``stored`` is the form of a document, which leaves out what old readers do not know."""
        document = {**self.extensions, "node_type": "array"}
        if self.zarr_format is not None:
            document["zarr_format"] = self.zarr_format
        if self.shape is not None:
            document["shape"] = [*self.shape]
        if self.zarr is not None:
            document["data_type"] = self.zarr.document
            if self.fill is not None:
                document["fill_value"] = fill_to_document(self.fill, self.zarr)
        if self.chunk_shape is not None:
            document["chunk_grid"] = {"configuration": {"chunk_shape": [*self.chunk_shape]}, "name": "regular"}
        if self.keys is not None:
            document["chunk_key_encoding"] = self.keys.to_json()
        if self.codecs is not None:
            document["codecs"] = self.codecs.to_json(stored=stored)
        if self.names is not None and any(name is not None for name in self.names):
            document["dimension_names"] = [*self.names]
        attributes = dict(self.attributes)
        if self.units is not None:
            attributes["dimension_units"] = units_to_json(self.units)
        if attributes:
            document["attributes"] = attributes
        return document

    @staticmethod
    def from_json(value: Any) -> Constraints:
        """Read a spec's ``metadata``.

        Raises
        ------
        ValueError
            If a member is not valid.
        """
        return _read(obj(value), required=False)


def units_to_json(units: Units) -> list[str | None]:
    """Write units as text."""
    return [None if unit is None else str(unit) for unit in units]


ANYTHING: Final = Constraints()


@dataclass(frozen=True, slots=True)
class Metadata(Constraints):
    """A whole ``zarr.json``: nothing but the names' and units' values may be None."""

    shape: tuple[int, ...] = ()
    chunk_shape: tuple[int, ...] = ()
    zarr: ZarrType = field(default_factory=lambda: zarr_type("bool"))
    fill: npt.NDArray[Any] = field(default_factory=lambda: no_fill(zarr_type("bool")))
    keys: KeyEncoding = field(default_factory=KeyEncoding)
    codecs: Chain = field(default_factory=Chain)
    names: tuple[str | None, ...] = ()
    _nodes: list[ArrayMetadata] = field(default_factory=list, init=False, compare=False, repr=False)
    parts: dict[tuple[str, bool, bool], Elements] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What specs have shown of the elements, by `field`, `void` and `records`."""

    def encode(self) -> bytes:
        """Return the bytes of the document."""
        return dump(self.to_json(stored=True)).encode("utf-8", "surrogatepass")

    def resized(self, shape: tuple[int, ...]) -> Metadata:
        """Return the same with another shape."""
        return replace(self, shape=shape)

    def compatibility(self) -> str:
        """Return what must not change as long as the array is open, as text."""
        plain = replace(self, attributes={}, units=None, extensions={})
        return dump({name: value for name, value in plain.to_json(stored=True).items() if name != "shape"})

    def compatible(self, other: Metadata) -> bool:
        """Whether chunks mean the same in both."""
        return self.compatibility() == other.compatibility()

    def node(self) -> ArrayMetadata:
        """Return the array's description as the lower floors have it.

        Raises
        ------
        ValueError, NotImplementedError
            If they can't hold it.
        """
        if not self._nodes:
            self._nodes.append(self._node())
        return self._nodes[0]

    def _node(self) -> ArrayMetadata:
        zarr = self.zarr
        try:
            # what has fields or is raw bytes has other names in the lower floors
            known = zarr.named or zarr.fields[0].encoded == "raw_bytes"
            data_type = DataType(zarr.numpy) if known else data_type_from_json(zarr.document)
            codecs = codecs_from_json([_with_typesize(codec) for codec in self.codecs.to_json(stored=True)])
        except TegulaError as error:
            raise as_status(error) from error
        return ArrayMetadata(
            shape=self.shape,
            data_type=data_type,
            grid=regular_grid(self.chunk_shape),
            keys=self.keys.keys,
            codecs=codecs,
            fill_value=self.fill,
            attributes=self.attributes,
            dimension_names=self.names if any(name is not None for name in self.names) else None,
            format="zarr3",
        )


def _with_typesize(codec: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a codec; Blosc without shuffling looks at single bytes, which its JSON does not say."""
    configuration = dict(codec.get("configuration", {}))
    if codec["name"] == "blosc":
        configuration.setdefault("typesize", 1)
    elif codec["name"] == "sharding_indexed":
        configuration["codecs"] = [_with_typesize(inner) for inner in configuration["codecs"]]
    return {**codec, "configuration": configuration} if configuration else codec


@lru_cache(maxsize=64)
def parse_stored(raw: bytes) -> Metadata:
    """Read a stored document; what it says of one is remembered for a while.

    Raises
    ------
    ValueError
        If it is none of an array.
    """
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise status("DATA_LOSS", "Invalid JSON") from None
    try:
        found = _read(obj(value), required=True)
        known = {item.name: getattr(found, item.name) for item in fields(found)}
        rank = len(known["shape"])
        metadata = Metadata(**{**known, "names": known["names"] or (None,) * rank})
        resolve_chain(metadata.codecs, element_of(metadata.zarr), rank, constraints=False)
        check_shapes(metadata.codecs, metadata.chunk_shape, metadata.zarr.itemsize)
        metadata.fill.flags.writeable = False
        return metadata
    except TegulaError as error:
        raise status("FAILED_PRECONDITION", as_status(error).sentence) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _Reading:
    """Takes members out of a document; all of them have to agree about the rank."""

    def __init__(self, members: dict[str, Any], required: bool) -> None:
        self.members = members
        self.required = required
        self.rank: int | None = None
        self.found: dict[str, Any] = {}

    def take(self, name: str, attribute: str, read: Callable[[Any], Any], *, optional: bool = False) -> None:
        value = self.members.pop(name, MISSING)
        if value is MISSING and (optional or not self.required):
            return
        with member(name):
            self.found[attribute] = read(value)

    def items(self, value: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        values = array(value)
        if len(values) > _MAX_RANK:
            raise invalid(f"Rank {len(values)} is outside valid range [0, {_MAX_RANK}]")
        values = array(values, self.rank)
        self.rank = len(values)
        out = []
        for position, item in enumerate(values):
            with at(position):
                out.append(read(item))
        return tuple(out)


def _read(members: dict[str, Any], *, required: bool) -> Constraints:
    reading = _Reading(members, required)
    take, found = reading.take, reading.found
    take("zarr_format", "zarr_format", lambda value: integer(value, 3, 3))
    if required or "node_type" in members:
        with member("node_type"):
            one_of(members.pop("node_type", MISSING), ("array",))
    take("data_type", "zarr", zarr_type)
    with member("fill_value"):
        if "fill_value" in members and "zarr" not in found:
            raise invalid('must be specified in conjunction with "data_type"')
    take("fill_value", "fill", lambda value: fill_value(value, found["zarr"]))
    take("shape", "shape", lambda value: reading.items(value, lambda item: integer(item, 0, _MAX_SIZE)))
    take("dimension_names", "names", lambda value: reading.items(value, _string_or_null), optional=True)
    take("chunk_key_encoding", "keys", _keys)
    take("chunk_grid", "chunk_shape", lambda value: _chunk_shape(value, reading))
    take("codecs", "codecs", lambda value: chain_from_json(value, constraints=not required))
    take("storage_transformers", "", _no_transformers, optional=True)
    found.pop("", None)
    take("attributes", "attributes", lambda value: _attributes(value, reading), optional=True)
    for name in sorted(members):
        extension = members[name]
        if not (isinstance(extension, dict) and extension.get("must_understand") is False):
            raise invalid(f'Unsupported metadata field {dump(name)} is not marked {{"must_understand": false}}')
    return Constraints(**found, extensions=members)


def _string_or_null(value: Any) -> str | None:
    return None if value is None else string(value)


def _unit_or_null(value: Any) -> Unit | None:
    return None if value is None else Unit(string(value))


def _attributes(value: Any, reading: _Reading) -> dict[str, Any]:
    attributes = obj(value)
    if "dimension_units" in attributes:
        with member("dimension_units"):
            reading.found["units"] = reading.items(attributes.pop("dimension_units"), _unit_or_null)
    return attributes


def _no_transformers(value: Any) -> None:
    if array(value):
        raise invalid("No storage transformers supported")


def _keys(value: Any) -> KeyEncoding:
    members = obj(value)
    with member("name"):
        name = one_of(members.pop("name", MISSING), ("default", "v2"))
    usual = "/" if name == "default" else "."
    with member("configuration"):
        configuration = obj(members.pop("configuration", {}))
        with member("separator"):
            separator = one_of(configuration.pop("separator", usual), (".", "/"))
        known_only(configuration)
    known_only(members)
    return KeyEncoding(name, separator)


def _chunk_shape(value: Any, reading: _Reading) -> tuple[int, ...]:
    members = obj(value)
    with member("name"):
        one_of(members.pop("name", MISSING), ("regular",))
    with member("configuration"):
        configuration = obj(members.pop("configuration", MISSING))
        with member("chunk_shape"):
            lengths = configuration.pop("chunk_shape", MISSING)
            shape = reading.items(lengths, lambda item: integer(item, 1, _MAX_SIZE))
        known_only(configuration)
    known_only(members)
    return shape


# --- checks


def check_constraints(constraints: Constraints, metadata: Metadata) -> None:
    """Raise unless a stored document is as a spec says.

    Raises
    ------
    ValueError
        If a member is another one.
    """
    if constraints is ANYTHING:
        return
    wanted, stored = constraints.to_json(stored=True), metadata.to_json(stored=True)
    if constraints.zarr is not None and wanted["data_type"] != stored["data_type"]:
        raise _mismatch("data_type", dump(wanted["data_type"]), dump(stored["data_type"]))
    if constraints.fill is not None and constraints.fill.tobytes() != metadata.fill.tobytes():
        raise _mismatch("fill_value", wanted["fill_value"], stored["fill_value"])
    for name in ("shape", "chunk_shape"):
        value = getattr(constraints, name)
        if value is not None and value != getattr(metadata, name):
            raise _mismatch(name, value, getattr(metadata, name))
    if constraints.keys is not None and constraints.keys != metadata.keys:
        raise _mismatch("chunk_key_encoding", constraints.keys.to_json(), metadata.keys.to_json())
    try:
        merge_chains(metadata.codecs, constraints.codecs, strict=True)
    except StatusError as error:
        raise annotate(error, 'Mismatch in "codecs"') from None
    if constraints.names is not None and constraints.names != metadata.names:
        raise _mismatch("dimension_names", constraints.names, metadata.names)
    try:
        _check_subset(constraints.attributes, metadata.attributes)
    except StatusError as error:
        raise annotate(error, 'Mismatch in "attributes"') from None
    if constraints.units is not None:
        units = metadata.units or (None,) * len(constraints.units)
        if any(mine is not None and mine != other for mine, other in zip(constraints.units, units)):
            raise _mismatch("dimension_units", units_to_json(constraints.units), units_to_json(units))
    _check_subset(constraints.extensions, metadata.extensions)


def _check_subset(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    for name, value in sorted(wanted.items()):
        if name not in stored or dump(value) != dump(stored[name]):
            raise _mismatch(name, value, stored.get(name, MISSING))


def _mismatch(name: str, wanted: Any, stored: Any) -> StatusError:
    found = "<discarded>" if stored is MISSING else dump(stored)
    return status("FAILED_PRECONDITION", f"Expected {dump(name)} of {dump(wanted)} but received: {found}")
