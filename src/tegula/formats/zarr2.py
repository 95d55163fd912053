"""Zarr v2: ``.zarray``, ``.zgroup``, ``.zattrs`` and the consolidated ``.zmetadata``.

Filters and the compressor of a v2 array act on buffers. In the metadata model they are codecs ``numcodecs.<id>`` after
the array→bytes codec, which is ``bytes`` or the object codec (the first filter of an array of objects).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.errors import MetadataError, TegulaError
from tegula.formats.chunk_grids import regular_grid_from_json
from tegula.formats.descriptions import Recent, complete, memoized
from tegula.formats.dimension_names import names_in, netcdf_names
from tegula.formats.documents import integers, load, load_attributes, member, replace_document, rewrite
from tegula.formats.keys import CONSOLIDATED_KEY, NETCDF, NETCDF_KEY, ZARR2_KEYS, Style
from tegula.formats.layout import byte_order_codec, fortran_order, is_fortran_order, shuffle_number
from tegula.formats.leniency import Oddity, note_in, odd_attributes, plain_zarr2
from tegula.formats.numpy_types import dtype_from_json, dtype_to_json
from tegula.metadata.chunk_keys import ChunkKeyEncoding, v2_keys
from tegula.metadata.data_types import BYTES, EXTENDED_DTYPES, STRING, DataType
from tegula.metadata.fill_value_json import decode_base64, fill_from_document, fill_to_json
from tegula.metadata.fill_values import Fill, scalar_array, time_to_int
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata, is_fixed_vlen
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import base64

    from tegula.formats import json_encoding
    from tegula.formats.located import consolidated as consolidated_members
    from tegula.formats.located import members as located
else:
    json_encoding = Later("tegula.formats.json_encoding")
    base64, located = Later("base64"), Later("tegula.formats.located.members")
    consolidated_members = Later("tegula.formats.located.consolidated")

__all__ = [
    "ARRAY_CODECS",
    "CONSOLIDATED_KEY",
    "DEFAULT_COMPRESSORS",
    "KEYS",
    "NAME",
    "NODE_KEYS",
    "OBJECT_CODECS",
    "SHAPE_KEY",
    "STYLE",
    "codecs_from_json",
    "consolidate",
    "consolidated",
    "describe",
    "key_field",
    "oddities",
    "parse",
    "read_fill",
    "serialize",
    "with_serializer",
    "write_fill",
]

NAME: Final = "zarr2"
KEYS: Final = ZARR2_KEYS
NODE_KEYS: Final = KEYS[:2]
SHAPE_KEY: Final = KEYS[0]
OBJECT_CODECS: Final = frozenset(
    f"numcodecs.{name}"
    for name in (
        "vlen-utf8", "vlen-bytes", "vlen-array", "json2", "json", "msgpack2", "msgpack", "categorize", "pickle",
    )
)  # fmt: skip
"""Codecs that turn an array of objects into bytes: the first filter of such an array."""

DEFAULT_COMPRESSORS: Final = (
    CodecSpec("numcodecs.blosc", {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": 1}),
)
ARRAY_CODECS: Final = ("numcodecs.pcodec", "numcodecs.zfpy")
"""Compressors that take an array and not a buffer, so that no ``bytes`` codec comes before them."""

_COMPRESSORS: Final = frozenset(
    f"numcodecs.{name}" for name in ("blosc", "zlib", "gzip", "bz2", "lzma", "lz4", "zstd", "pcodec", "zfpy")
)
STYLE: Final = Style(indent=4, sort_keys=True)
ATTRIBUTES_AT: Final = (KEYS[2], (), STYLE)
_NETCDF: Final = ("_NCZARR_ARRAY", NETCDF)  # in documents of netCDF 4.8.1 to 4.9.2; later ones have an attribute
_recent: Final = Recent()
_LARGE: Final = 2**15  # bytes of `.zmetadata`, beyond which its members are located and not parsed


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the documents of an array or a group (Zarr v2, sections "Arrays", "Hierarchies" and "Attributes").

    Examples
    --------
    >>> parse({".zgroup": b'{"zarr_format": 2}', ".zattrs": b'{"units": "K"}'}).attributes
    {'units': 'K'}
    """
    attributes = load_attributes(documents, ".zattrs")
    if ".zarray" in documents:
        raw = documents[".zarray"]
        if (recent := _recent.get(raw)) is not None and recent[0] is not None:
            array = recent[0]
        else:
            try:
                array = describe(plain_zarr2(load(raw, ".zarray")))
            except TegulaError as error:
                error.within(key=".zarray")
                raise
            _recent.keep(raw, array, {})
        names = names_in(attributes, array.ndim)
        if names is None:
            names = array.dimension_names
        if names is None and NETCDF_KEY in documents:
            with suppress(TegulaError):  # it says nothing else of use
                names = netcdf_names(load(documents[NETCDF_KEY], NETCDF_KEY), array.ndim)
        return complete(array, attributes, documents, names)
    if ".zgroup" not in documents:
        return None
    raw = documents[".zgroup"]
    if _recent.get(raw) is None:
        version = member(load(raw, ".zgroup"), "zarr_format", ".zgroup")
        if version != 2:
            raise MetadataError(f"zarr_format is {version!r:.40}, not 2", key=".zgroup", field="zarr_format")
        _recent.keep(raw, None, {})
    return GroupMetadata(attributes=attributes, format=NAME, documents=documents)


def key_field(keys: ChunkKeyEncoding) -> tuple[str, Any] | None:
    """Return the member of ``.zarray`` that names a chunk key encoding, and its value; ``None`` if there is none."""
    return None if keys.prefix or keys.suffix else ("dimension_separator", keys.separator)


def oddities(documents: Mapping[str, bytes]) -> list[Oddity]:
    """Return what valid documents of a node have that the specification does not allow."""
    noted = odd_attributes(documents, ".zattrs")
    if ".zarray" in documents:
        note = partial(note_in, noted, ".zarray")
        array = describe(plain_zarr2(load(documents[".zarray"], ".zarray"), note))
        if any(is_fixed_vlen(codec, array.data_type) for codec in array.codecs):
            note("filters", "a codec of variable-length elements encodes those of fixed length")
    return noted


@memoized
def describe(meta: dict[str, Any]) -> ArrayMetadata:
    """Read the JSON description of an array, without its attributes; arrays with the same description share the result.

    Raises
    ------
    MetadataError
        If a member is missing or not valid.
    UnsupportedError
        If it describes an array that tegula can't read.
    """
    key = ".zarray"
    if member(meta, "zarr_format", key) != 2:
        raise MetadataError(f"zarr_format is {meta['zarr_format']!r:.40}, not 2", key=key, field="zarr_format")
    shape = integers(member(meta, "shape", key), "shape", key, least=0)
    grid = regular_grid_from_json(member(meta, "chunks", key), shape, "chunks", key)
    data_type = dtype_from_json(member(meta, "dtype", key), key)
    fortran, separator = is_fortran_order(member(meta, "order", key), key), meta.get("dimension_separator", ".")
    if separator not in (".", "/"):
        raise MetadataError(f"the separator must be . or /, not {separator!r:.9}", key=key, field="dimension_separator")
    filters = codecs_from_json(member(meta, "filters", key), "filters")
    compressor = member(meta, "compressor", key)
    filters += codecs_from_json(None if compressor is None else [compressor], "compressor")
    data_type, codecs = with_serializer(data_type, filters)
    if fortran and len(shape) > 1:
        codecs.insert(0, fortran_order(len(shape)))
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=grid,
        keys=v2_keys(separator),
        codecs=tuple(codecs),
        fill_value=read_fill(member(meta, "fill_value", key), data_type),
        dimension_names=netcdf_names(next((meta[name] for name in _NETCDF if name in meta), None), len(shape)),
        format=NAME,
    )


def codecs_from_json(value: Any, field: str) -> list[CodecSpec]:
    """Read a list of codecs, or null for none.

    Parameters
    ----------
    value : JSON value
        The list.
    field : str
        The member that it belongs to, for errors.

    Raises
    ------
    MetadataError
        If it is not such a list.

    Examples
    --------
    >>> codecs_from_json([{"id": "zlib", "level": 1}], "filters")[0].name
    'numcodecs.zlib'
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise MetadataError(f"{field} must be a list or null", key=".zarray", field=field)
    specs = []
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            raise MetadataError(f"{item!r:.80} is not a codec's configuration", key=".zarray", field=field)
        options = {k: v for k, v in item.items() if k != "id"}
        if item["id"] == "blosc" and "shuffle" in options:
            options["shuffle"] = shuffle_number(options["shuffle"])  # VirtualiZarr writes the names of Zarr v3
        specs.append(CodecSpec(f"numcodecs.{item['id']}", options))
    return specs


def with_serializer(data_type: DataType, codecs: list[CodecSpec]) -> tuple[DataType, list[CodecSpec]]:
    """Add ``bytes`` where no other codec turns an array into bytes; the object codec tells the type of objects.

    Raises
    ------
    MetadataError
        If elements are objects, but the first codec is no object codec.
    """
    if data_type.variable:
        if not codecs or codecs[0].name not in OBJECT_CODECS:
            raise MetadataError(
                "the first filter of an array of objects must be an object codec", key=".zarray", field="filters"
            )
        kind = {"numcodecs.vlen-utf8": STRING, "numcodecs.vlen-bytes": BYTES}.get(codecs[0].name, data_type)
        return kind, codecs
    if any(codec.name in ARRAY_CODECS for codec in codecs) or (codecs and is_fixed_vlen(codecs[0], data_type)):
        return data_type, codecs
    return data_type, [byte_order_codec(data_type.numpy), *codecs]


def read_fill(value: Any, data_type: DataType) -> Fill | None:
    """Read ``fill_value`` (Zarr v2, section "Fill value encoding"), in every form that zarr 2 reads.

    Raises
    ------
    MetadataError
        If it is not a value of the type.
    """
    dtype = data_type.numpy
    if data_type.variable:
        if data_type.variable != "object" and isinstance(value, (list, dict)):
            raise MetadataError(f"{value!r:.80} is not a fill value for {data_type}", key=".zarray", field="fill_value")
        # for a missing chunk zarr 2 returns the JSON value itself, None for null
        out = np.zeros((), object)
        out[()] = decode_base64(value) if data_type.variable == "bytes" and isinstance(value, str) else value
        return out
    if value is None:
        return None
    if dtype.kind == "c" and isinstance(value, (int, float, str)):
        value = [value, 0.0]
    elif dtype.kind in "iufmM" and isinstance(value, bool):
        value = int(value)
    elif dtype.kind in "SU" and isinstance(value, (int, float)):
        return scalar_array(str(value), data_type)  # zarr 2 lets NumPy convert a number to a string
    elif dtype.kind == "S" and isinstance(value, str):
        return _bytes_from_json(value, data_type)
    elif dtype.kind == "V" and value == 0 and not (type(value) is float and dtype in EXTENDED_DTYPES):
        return np.zeros((), dtype)
    elif dtype.names is not None and isinstance(value, str):
        value = base64.b64encode(decode_base64(value).ljust(dtype.itemsize, b"\0")).decode()
    return fill_from_document(value, data_type)


def _bytes_from_json(value: str, data_type: DataType) -> Fill:
    """Decode base64; like zarr 2, treat any other string as the bytes themselves."""
    try:
        raw = decode_base64(value)
    except MetadataError:
        raw = value.encode("utf-8", "surrogatepass")
    return scalar_array(raw, data_type)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the documents of a node as zarr 2 writes them; documents that have not changed keep their bytes."""
    documents = metadata.documents
    out = {}
    if isinstance(metadata, GroupMetadata):
        out[".zgroup"] = documents.get(".zgroup") or json_encoding.dump({"zarr_format": 2}, ".zgroup", STYLE)
    else:
        old = plain_zarr2(load(documents[".zarray"], ".zarray")) if ".zarray" in documents else None
        changes = _document(metadata) if old is None else {"shape": [*metadata.shape]}
        out[".zarray"] = rewrite(documents, ".zarray", changes, STYLE, old)
    if metadata.attributes or ".zattrs" in documents:
        out[".zattrs"] = replace_document(documents, ".zattrs", metadata.attributes, STYLE)
    return out


def _document(metadata: ArrayMetadata) -> dict[str, Any]:
    codecs = [codec for codec in metadata.codecs if codec.name not in ("transpose", "bytes")]
    compressor = None
    if codecs and codecs[-1].name in _COMPRESSORS:
        compressor = _codec_to_json(codecs.pop())
    document: dict[str, Any] = {
        "zarr_format": 2,
        "shape": [*metadata.shape],
        "chunks": [*metadata.grid.largest_chunk()],
        "dtype": dtype_to_json(metadata.data_type),
        "compressor": compressor,
        "fill_value": write_fill(metadata.fill_value, metadata.data_type),
        "order": "F" if metadata.codecs[0].name == "transpose" else "C",
        "filters": [_codec_to_json(codec) for codec in codecs] or None,
    }
    if metadata.keys.separator != ".":
        document["dimension_separator"] = metadata.keys.separator
    return document


def _codec_to_json(codec: CodecSpec) -> dict[str, Any]:
    return {"id": codec.name.removeprefix("numcodecs."), **codec.configuration}


def write_fill(fill: Fill | None, data_type: DataType) -> Any:
    """Convert a fill value to ``fill_value``, as zarr 2 writes it."""
    if fill is None:
        return None
    dtype = data_type.numpy
    if data_type.variable == "bytes" and fill[()] == b"":
        return ""
    if not data_type.variable and (dtype.names is not None or dtype.kind == "V") and dtype not in EXTENDED_DTYPES:
        return base64.b64encode(fill.tobytes()).decode()
    if dtype.kind in "Mm":
        return time_to_int(fill)
    return fill_to_json(fill, DataType(dtype, data_type.variable))


def consolidated(documents: Mapping[str, bytes]) -> Mapping[str, Mapping[str, bytes]] | None:
    """Read ``.zmetadata``.

    Returns
    -------
    mapping of str to mapping, or None
        The documents of each member, by path below the group; ``None`` if there is no ``.zmetadata``.

    Raises
    ------
    MetadataError
        If it is not valid.
    """
    if CONSOLIDATED_KEY not in documents:
        return None
    raw = documents[CONSOLIDATED_KEY]
    levels = located.find_members(raw, ("metadata",)) if len(raw) > _LARGE else None
    if levels is not None and len(levels) == 2 and levels[0].get("zarr_consolidated_format") == b"1":
        return consolidated_members.Consolidated(levels[1], names=KEYS)
    content = load(raw, CONSOLIDATED_KEY)
    entries = member(content, "metadata", CONSOLIDATED_KEY)
    if content.get("zarr_consolidated_format") != 1 or not isinstance(entries, dict):
        raise MetadataError("the consolidated metadata is not of format 1", key=CONSOLIDATED_KEY)
    nodes: dict[str, dict[str, bytes]] = {}
    for key, document in entries.items():
        path, _, name = key.rpartition("/")
        if name in KEYS and isinstance(document, dict):
            nodes.setdefault(path, {})[name] = json_encoding.dump(document, key, STYLE)
    return nodes


def consolidate(group: GroupMetadata, members: Iterable[tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """Write ``.zmetadata`` of a group with the documents of all its members.

    Parameters
    ----------
    group : GroupMetadata
        The group.
    members : iterable of (str, mapping of str to bytes)
        Path below the group and documents of each member; the path of the group itself is ``""``.

    Returns
    -------
    dict of str to bytes
        The document, by key.
    """
    documents_by_key = {
        f"{path}/{name}" if path else name: raw
        for path, documents in members
        for name, raw in documents.items()
        if name in KEYS
    }
    entries = ((key, load(documents_by_key[key], key.rpartition("/")[2])) for key in sorted(documents_by_key))
    content = [("metadata", entries), ("zarr_consolidated_format", 1)]
    return {CONSOLIDATED_KEY: json_encoding.dump_members(content, CONSOLIDATED_KEY, STYLE)}
