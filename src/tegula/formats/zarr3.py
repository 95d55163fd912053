"""Zarr v3: one document ``zarr.json`` for each node, which for a group may contain consolidated metadata.

Implements the core specification (version 3.1) and the registered extensions. A bare name is accepted for an extension
object; unknown members are an error unless they state ``must_understand: false``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.chunk_grids import grid_from_extension, grid_to_json
from tegula.formats.descriptions import Recent, complete, memoized
from tegula.formats.documents import integers, load, member, rewrite
from tegula.formats.key_encodings import keys_from_json, keys_to_json
from tegula.formats.keys import DRAFTS, NETCDF, Style
from tegula.formats.leniency import Oddity, note_in, plain_zarr3
from tegula.formats.zarr3_codecs import (
    KEY,
    codec_to_json,
    codecs_from_json,
    extension_from_json,
    extensions_from_json,
)
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.data_types import DataType, data_type_from_json, data_type_to_json
from tegula.metadata.fill_value_json import fill_from_document, fill_from_json, fill_to_json
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula.formats import dimension_names, json_encoding
    from tegula.formats.located import consolidated as consolidated_members
    from tegula.formats.located import members as located
    from tegula.formats.located.consolidated import Consolidated
    from tegula.formats.located.members import Members
    from tegula.metadata import fill_values
else:
    json_encoding, fill_values = Later("tegula.formats.json_encoding"), Later("tegula.metadata.fill_values")
    dimension_names = Later("tegula.formats.dimension_names")
    located, consolidated_members = (
        Later("tegula.formats.located.members"),
        Later("tegula.formats.located.consolidated"),
    )

__all__ = [
    "DEFAULT_COMPRESSORS",
    "KEYS",
    "NAME",
    "NODE_KEYS",
    "SHAPE_KEY",
    "STYLE",
    "consolidate",
    "consolidated",
    "describe",
    "key_field",
    "keys_from_json",
    "oddities",
    "parse",
    "serialize",
    "write_fill",
]

NAME: Final = "zarr3"
KEYS: Final = (KEY,)
NODE_KEYS: Final = KEYS
SHAPE_KEY: Final = KEYS[0]
DEFAULT_COMPRESSORS: Final = (CodecSpec("zstd", {"level": 0, "checksum": False}),)
STYLE: Final = Style(indent=2)
ATTRIBUTES_AT: Final = (SHAPE_KEY, ("attributes",), STYLE)
_ARRAY_MEMBERS: Final = frozenset(
    "zarr_format node_type shape data_type chunk_grid chunk_key_encoding fill_value codecs attributes dimension_names"
    " storage_transformers".split()
)
_GROUP_MEMBERS: Final = frozenset("zarr_format node_type attributes consolidated_metadata".split())
_CONSOLIDATED: Final = "consolidated_metadata"
_CONSOLIDATED_AT: Final = (_CONSOLIDATED, "metadata")
_recent: Final = Recent()
_LARGE: Final = 2**15  # in a document of more bytes, consolidated metadata are located but not parsed


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the document of a node (Zarr v3 core, sections "Array metadata" and "Group metadata").

    Examples
    --------
    >>> parse({"zarr.json": b'{"zarr_format": 3, "node_type": "group", "attributes": {"units": "K"}}'}).attributes
    {'units': 'K'}
    """
    if KEY not in documents:
        return None
    raw = documents[KEY]
    if (recent := _recent.get(raw)) is not None:
        shared, attributes = recent
        if shared is None:
            return GroupMetadata(attributes=attributes, format=NAME, documents=documents)
        return complete(shared, attributes, documents, _names(shared, attributes))
    document, located_members = _load(raw)
    document = plain_zarr3(document)

    # the members of every node
    if str(member(document, "zarr_format", KEY)).startswith(DRAFTS):
        return None  # `zarr3_draft` reads it
    if type(document["zarr_format"]) is not int or document["zarr_format"] != 3:
        raise MetadataError(f"zarr_format is {document['zarr_format']!r:.40}, not 3", key=KEY, field="zarr_format")
    kind = member(document, "node_type", KEY)
    if kind not in ("array", "group"):
        raise MetadataError(f"node_type must be array or group, not {kind!r:.40}", key=KEY, field="node_type")
    known = _ARRAY_MEMBERS if kind == "array" else _GROUP_MEMBERS
    for name in document.keys() - known:
        extension = document[name]
        if not (isinstance(extension, dict) and extension.get("must_understand") is False):
            raise UnsupportedError(f"unknown member {name!r:.40}, which must be understood", key=KEY, field=name)
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise MetadataError("attributes must be an object", key=KEY, field="attributes")
    if kind == "group":
        if located_members is None:
            _recent.keep(raw, None, attributes)
        return GroupMetadata(attributes=attributes, format=NAME, documents=documents, consolidated=located_members)

    # arrays that differ only in their attributes share one description
    try:
        document.pop("attributes", None)
        array = describe(document)
        _recent.keep(raw, array, attributes)
        return complete(array, attributes, documents, _names(array, attributes))
    except (MetadataError, UnsupportedError) as error:
        error.within(key=KEY)
        raise


def _load(raw: bytes) -> tuple[dict[str, Any], Consolidated | None]:
    """Parse a document, except for large consolidated metadata in it, whose members are located but not parsed."""
    if len(raw) > _LARGE and f'"{_CONSOLIDATED}"'.encode() in raw:
        levels = located.find_members(raw, _CONSOLIDATED_AT)
        if levels is not None and levels[0].get("node_type") == b'"group"':
            return levels[0].parsed(without=_CONSOLIDATED), _located_members(levels)
    return load(raw, KEY), None


def _located_members(levels: list[Members]) -> Consolidated | None:
    if len(levels) == len(_CONSOLIDATED_AT) + 1 and levels[1].get("kind") == b'"inline"':
        return consolidated_members.Consolidated(levels[-1], only=KEY)
    return None


def key_field(keys: ChunkKeyEncoding) -> tuple[str, Any]:
    """Return the member that names a chunk key encoding, and its value."""
    return "chunk_key_encoding", keys_to_json(keys)


def oddities(documents: Mapping[str, bytes]) -> list[Oddity]:
    """Return what the valid document of a node has that the specification does not allow."""
    noted: list[Oddity] = []
    document, _ = _load(documents[KEY])
    note = partial(note_in, noted, KEY)
    plain = plain_zarr3(document, note)
    if plain["node_type"] == "array":
        try:
            fill_from_json(plain["fill_value"], data_type_from_json(plain["data_type"]))
        except MetadataError as error:
            note("fill_value", f"{error.message} in the specification")
    return noted


@memoized
def describe(document: dict[str, Any]) -> ArrayMetadata:
    """Read the JSON description of an array, without its attributes; arrays with the same description share the result.

    Raises
    ------
    MetadataError
        If a member is missing or not valid.
    UnsupportedError
        If it describes an array that tegula can't read.
    """
    shape = integers(member(document, "shape", KEY), "shape", KEY, least=0)
    data_type = data_type_from_json(member(document, "data_type", KEY))
    for transformer in extensions_from_json(document.get("storage_transformers", []), "storage_transformers"):
        if transformer.must_understand:
            raise UnsupportedError(
                f"unknown storage transformer {transformer.name!r:.40}", key=KEY, field="storage_transformers"
            )
    codecs = codecs_from_json(member(document, "codecs", KEY))
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=_grid_from_json(member(document, "chunk_grid", KEY), shape),
        keys=keys_from_json(member(document, "chunk_key_encoding", KEY)),
        codecs=codecs,
        fill_value=fill_from_document(member(document, "fill_value", KEY), data_type),
        dimension_names=_dimension_names(document.get("dimension_names"), len(shape)),
        format=NAME,
    )


def _grid_from_json(value: Any, shape: tuple[int, ...]) -> ChunkGrid:
    return grid_from_extension(extension_from_json(value, "chunk_grid"), shape, KEY)


def _names(array: ArrayMetadata, attributes: Mapping[str, Any]) -> tuple[str | None, ...] | None:
    """Return the dimension names of the document, or of an attribute of the netCDF library."""
    names = array.dimension_names
    if names is not None or NETCDF not in attributes:
        return names
    return dimension_names.netcdf_names(attributes[NETCDF], array.ndim)


def _dimension_names(value: Any, ndim: int) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(name is None or isinstance(name, str) for name in value):
        raise MetadataError("dimension_names must be a list of strings and nulls", key=KEY, field="dimension_names")
    if len(value) != ndim:
        raise MetadataError(f"{len(value)} names for {ndim} dimensions", key=KEY, field="dimension_names")
    return tuple(value)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the document of a node as zarr-python writes it; members that have not changed keep their bytes."""
    documents = metadata.documents
    old = plain_zarr3(load(documents[KEY], KEY)) if KEY in documents else None
    changes: dict[str, Any] = {}
    if isinstance(metadata, GroupMetadata):
        if old is None:
            changes = {"attributes": metadata.attributes, "zarr_format": 3, "node_type": "group"}
    elif old is None:
        changes = _document(metadata)
    else:
        changes = {"shape": [*metadata.shape]}
        if not (metadata.grid.is_regular or _has_grid(old, metadata)):
            changes["chunk_grid"] = grid_to_json(metadata.grid)
    if old is not None and (metadata.attributes or "attributes" in old):
        changes["attributes"] = metadata.attributes
    return {KEY: rewrite(documents, KEY, changes, STYLE, old)}


def _has_grid(document: Mapping[str, Any], metadata: ArrayMetadata) -> bool:
    """Return whether the chunk grid of a document is that of an array, also with its new shape."""
    grid, shape = extension_from_json(document["chunk_grid"], "chunk_grid"), tuple(document["shape"])
    if grid.name != "rectilinear" and shape != metadata.shape:
        return False  # its chunks end where the array does
    return grid_from_extension(grid, shape, KEY) == metadata.grid


def _document(metadata: ArrayMetadata) -> dict[str, Any]:
    fill = metadata.fill_value if metadata.fill_value is not None else fill_values.undefined_fill(metadata.data_type)
    document = {
        "shape": [*metadata.shape],
        "data_type": data_type_to_json(metadata.data_type),
        "chunk_grid": grid_to_json(metadata.grid),
        **dict([key_field(metadata.keys)]),
        "fill_value": write_fill(fill, metadata.data_type),
        "codecs": [codec_to_json(codec) for codec in metadata.codecs],
        "attributes": metadata.attributes,
    }
    if metadata.dimension_names is not None:
        document["dimension_names"] = [*metadata.dimension_names]
    return {**document, "zarr_format": 3, "node_type": "array", "storage_transformers": []}


def write_fill(fill: Any, data_type: DataType) -> Any:
    """Convert a fill value to ``fill_value``, as zarr-python writes it."""
    # zarr-python writes times as integers, NaT included
    return fill_values.time_to_int(fill) if data_type.numpy.kind in "Mm" else fill_to_json(fill, data_type)


def consolidated(documents: Mapping[str, bytes]) -> Mapping[str, Mapping[str, bytes]] | None:
    """Read the consolidated metadata in the document of a group.

    Returns
    -------
    mapping of str to mapping, or None
        The documents of each member, by path below the group; ``None`` if there is no consolidated metadata.

    Raises
    ------
    MetadataError
        If it is not valid.
    UnsupportedError
        If it is of another kind than ``"inline"``.
    """
    if KEY not in documents:
        return None
    _, located_members = _load(documents[KEY])
    if located_members is not None:
        return located_members
    content = load(documents[KEY], KEY).get("consolidated_metadata")
    if content is None:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise MetadataError("the consolidated metadata is not an object", key=KEY, field="consolidated_metadata")
    if content.get("kind") != "inline":
        raise UnsupportedError(
            "consolidated metadata of kinds other than 'inline' is not supported",
            key=KEY,
            field="consolidated_metadata.kind",
        )
    return {
        path: {KEY: json_encoding.dump(node, KEY, STYLE)}
        for path, node in content["metadata"].items()
        if isinstance(node, dict)
    }


def consolidate(group: GroupMetadata, members: Iterable[tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """Write the document of a group with the documents of all its members in it.

    Parameters
    ----------
    group : GroupMetadata
        The group.
    members : iterable of (str, mapping of str to bytes)
        Path below the group and documents of each member; consumed one by one, so that memory holds only the text.

    Returns
    -------
    dict of str to bytes
        The new document, by key.
    """
    document: dict[str, Any] = {"attributes": group.attributes, "zarr_format": 3}
    if KEY in group.documents:
        document, _ = _load(group.documents[KEY])
    node_type = document.pop("node_type", "group")
    nodes = ((path, _for_consolidated(documents[KEY])) for path, documents in members if path)
    content = iter([("kind", "inline"), ("must_understand", False), ("metadata", nodes)])
    document = {**document, _CONSOLIDATED: content, "node_type": node_type}
    return {KEY: json_encoding.dump_members(document.items(), KEY, STYLE)}


def _for_consolidated(raw: bytes) -> dict[str, Any]:
    """Return a member's entry in consolidated metadata: its document, in which a group states that it has none."""
    node, _ = _load(raw)
    if node.get("node_type") != "group":
        return node
    node_type = node.pop("node_type")
    empty = {"kind": "inline", "must_understand": False, "metadata": {}}
    return {**node, _CONSOLIDATED: empty, "node_type": node_type}
