"""The ``zarr.json`` of an array: reading it with TensorStore's error messages, and comparing it with a spec."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, Final

from tegula.formats.zarr3 import describe
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.constraints.zarr3_codecs import chain_from_json, merge_chains
from tegula.tensorstore.drivers.metadata import Metadata, Reader, described, mismatch, parsed
from tegula.tensorstore.drivers.zarr3.resolution import check_shapes, resolve_chain
from tegula.tensorstore.drivers.zarr3.types import data_type, element_of, fill_to_document, fill_value
from tegula.tensorstore.errors import StatusError, annotate
from tegula.tensorstore.json.binding import (
    MISSING,
    array,
    dump,
    integer,
    invalid,
    known_only,
    member,
    obj,
    one_of,
    string,
)

__all__ = [
    "ANYTHING",
    "KEY",
    "Units",
    "check_constraints",
    "constraints_from_json",
    "node_of",
    "parse_stored",
    "units_to_json",
]

KEY: Final = "zarr.json"
Units = tuple[Unit | None, ...]
_MEMBERS: Final = frozenset(
    "zarr_format node_type shape data_type fill_value chunk_grid chunk_key_encoding codecs dimension_names"
    " attributes".split()
)


def units_to_json(units: Units) -> list[str | None]:
    """Write units as text."""
    return [None if unit is None else str(unit) for unit in units]


def constraints_from_json(value: Any) -> Metadata:
    """Read a spec's ``metadata``.

    Raises
    ------
    ValueError
        If a member is not valid.
    """
    return _read(obj(value), required=False)


ANYTHING: Final = Metadata(json={"node_type": "array"})


@lru_cache(maxsize=64)
def parse_stored(raw: bytes) -> Metadata:
    """Read a stored document; recent results are cached.

    Raises
    ------
    ValueError
        If the document does not describe an array.
    """
    return parsed(raw, _read_complete, "DATA_LOSS")


def _read_complete(members: dict[str, Any]) -> Metadata:
    """Read all members of a document, and check that the codecs can encode its chunks."""
    metadata = _read(members, required=True)
    shape, kind, codecs = metadata.chunk_shape or (), metadata.data_type, metadata.codecs
    if kind is not None and codecs is not None:
        resolve_chain(codecs, element_of(kind), len(shape), constraints=False)
        check_shapes(codecs, shape, kind.itemsize)
    return metadata


def _read(members: dict[str, Any], *, required: bool) -> Metadata:
    """Remove the members of a document from `members` and read them."""
    reader = Reader(members, required)
    take, json = reader.take, reader.json
    # the kind of document
    take("zarr_format", lambda value: integer(value, 3, 3))
    if required or "node_type" in members:
        with member("node_type"):
            one_of(members.pop("node_type", MISSING), ("array",))
    json["node_type"] = "array"
    # the elements
    kind: DataType | None = None
    if (read_type := take("data_type", data_type)) is not None:
        kind, json["data_type"] = read_type
    fill = None
    if kind is not None:
        fill = take("fill_value", partial(fill_value, data_type=kind))
        if fill is not None:
            json["fill_value"] = fill_to_document(fill, kind)
    elif "fill_value" in members:
        with member("fill_value"):
            raise invalid('must be specified in conjunction with "data_type"')
    # the dimensions and the chunks
    shape = take("shape", partial(reader.sizes, least=0))
    names = take("dimension_names", lambda value: reader.per_dimension(value, _string_or_null), optional=True)
    if not any(name is not None for name in names or ()):
        json.pop("dimension_names", None)
    take("chunk_key_encoding", _key_encoding)
    chunk_shape = take("chunk_grid", lambda value: _chunk_shape(value, reader))
    if chunk_shape is not None:
        json["chunk_grid"] = {"configuration": {"chunk_shape": [*chunk_shape]}, "name": "regular"}
    codecs = take("codecs", lambda value: chain_from_json(value, constraints=not required))
    if codecs is not None:
        json["codecs"] = codecs.to_json()
    take("storage_transformers", _no_transformers, optional=True)
    json.pop("storage_transformers", None)
    # the user's attributes, which include the units, and other members that need not be understood
    attributes = take("attributes", obj, optional=True) or {}
    with member("attributes"):
        units = _units(attributes, reader)
    if units is not None:
        json["attributes"] = {**attributes, "dimension_units": units_to_json(units)}
    elif not attributes:
        json.pop("attributes", None)
    for name in sorted(members):
        extension = members[name]
        if not (isinstance(extension, dict) and extension.get("must_understand") is False):
            raise invalid(f'Unsupported metadata field {dump(name)} is not marked {{"must_understand": false}}')
    return Metadata(
        json={**members, **json},
        shape=shape,
        chunk_shape=chunk_shape,
        data_type=kind,
        fill=fill,
        codecs=codecs,
        names=(None,) * len(shape) if names is None and required else names,
        units=units,
        attributes=attributes,
    )


def _string_or_null(value: Any) -> str | None:
    return None if value is None else string(value)


def _units(attributes: Mapping[str, Any], reader: Reader) -> Units | None:
    """Read the units of the dimensions from the attributes."""
    if "dimension_units" not in attributes:
        return None
    with member("dimension_units"):
        return reader.per_dimension(
            attributes["dimension_units"], lambda value: None if value is None else Unit(string(value))
        )


def _no_transformers(value: Any) -> None:
    if array(value):
        raise invalid("No storage transformers supported")


def _key_encoding(value: Any) -> dict[str, Any]:
    """Read the encoding of chunk keys; the result omits the default separator."""
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
    return {"name": name} if separator == usual else {"configuration": {"separator": separator}, "name": name}


def _chunk_shape(value: Any, reader: Reader) -> tuple[int, ...]:
    members = obj(value)
    with member("name"):
        one_of(members.pop("name", MISSING), ("regular",))
    with member("configuration"):
        configuration = obj(members.pop("configuration", MISSING))
        with member("chunk_shape"):
            shape = reader.sizes(configuration.pop("chunk_shape", MISSING), 1)
        known_only(configuration)
    known_only(members)
    return shape


def node_of(metadata: Metadata) -> ArrayMetadata:
    """Return the array that a complete document describes, without the user's attributes.

    Raises
    ------
    ValueError, NotImplementedError
        If the array cannot be read.
    """
    node = metadata.nodes.get("")
    if node is None:
        members = {name: value for name, value in metadata.json.items() if name in _MEMBERS - {"attributes"}}
        node = metadata.nodes[""] = described(describe, members)
    return node


def check_constraints(constraints: Metadata, metadata: Metadata) -> None:
    """Raise unless a stored document has the members that a spec requires.

    Raises
    ------
    ValueError
        If a member has a different value.
    """
    if constraints is ANYTHING:
        return
    wanted, stored = constraints.json, metadata.json
    # the elements and the chunks
    if "data_type" in wanted and dump(wanted["data_type"]) != dump(stored["data_type"]):
        raise mismatch("data_type", dump(wanted["data_type"]), dump(stored["data_type"]))
    if "fill_value" in wanted and dump(wanted["fill_value"]) != dump(stored["fill_value"]):
        raise mismatch("fill_value", wanted["fill_value"], stored["fill_value"])
    for name in ("shape", "chunk_shape"):
        value = getattr(constraints, name)
        if value is not None and value != getattr(metadata, name):
            raise mismatch(name, value, getattr(metadata, name))
    name = "chunk_key_encoding"
    if name in wanted and wanted[name] != stored[name]:
        raise mismatch(name, wanted[name], stored[name])
    try:
        merge_chains(metadata.codecs, constraints.codecs, strict=True)
    except StatusError as error:
        raise annotate(error, 'Mismatch in "codecs"') from None
    # the dimensions, the attributes and other members
    if constraints.names is not None and constraints.names != metadata.names:
        raise mismatch("dimension_names", constraints.names, metadata.names)
    try:
        _check_subset(_without(constraints.attributes, {"dimension_units"}), metadata.attributes)
    except StatusError as error:
        raise annotate(error, 'Mismatch in "attributes"') from None
    if constraints.units is not None:
        units = units_to_json(constraints.units), units_to_json(metadata.units or (None,) * len(constraints.units))
        if any(mine is not None and mine != other for mine, other in zip(*units)):
            raise mismatch("dimension_units", *units)
    _check_subset(_without(wanted, _MEMBERS), stored)


def _without(members: Mapping[str, Any], names: frozenset[str] | set[str]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in names}


def _check_subset(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    for name, value in sorted(wanted.items()):
        if name not in stored or dump(value) != dump(stored[name]):
            raise mismatch(name, value, stored.get(name, MISSING))
