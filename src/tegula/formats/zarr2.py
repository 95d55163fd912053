"""Zarr v2: ``.zarray``, ``.zgroup``, ``.zattrs`` and the consolidated ``.zmetadata``.

Filters and the compressor of a v2 array act on buffers, one after the other; in the model they follow the codec that
turns the chunk into a buffer (``bytes``, or the object codec, which v2 keeps as the first filter), as
``numcodecs.<id>``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.consolidated import Consolidated
from tegula.formats.descriptions import complete, remembering
from tegula.formats.dimension_names import attributes_with, names_in
from tegula.formats.documents import Style, dump, dump_members, integers, load, member, replace_document, rewrite
from tegula.formats.members import find_members
from tegula.formats.numpy_types import byte_order_codec, dtype_from_json, dtype_to_json
from tegula.metadata.chunk_grids import RegularAxis, regular_grid
from tegula.metadata.chunk_keys import v2_keys
from tegula.metadata.data_types import BYTES, EXTENDED, STRING, DataType, packed
from tegula.metadata.fill_values import decode_base64, fill_from_document, fill_to_json, scalar_array
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata

__all__ = [
    "CONSOLIDATED_KEY",
    "DEFAULT_COMPRESSORS",
    "KEYS",
    "NAME",
    "NODE_KEYS",
    "OBJECT_CODECS",
    "SHAPE_KEY",
    "STYLE",
    "adapt",
    "consolidate",
    "consolidated",
    "parse",
    "serialize",
]

NAME: Final = "zarr2"
KEYS: Final = (".zarray", ".zgroup", ".zattrs")
NODE_KEYS: Final = KEYS[:2]
SHAPE_KEY: Final = KEYS[0]
CONSOLIDATED_KEY: Final = ".zmetadata"
OBJECT_CODECS: Final = frozenset(
    f"numcodecs.{name}"
    for name in (
        "vlen-utf8",
        "vlen-bytes",
        "vlen-array",
        "json2",
        "json",
        "msgpack2",
        "msgpack",
        "categorize",
        "pickle",
    )
)
DEFAULT_COMPRESSORS: Final = (
    CodecSpec("numcodecs.blosc", {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": 1}),
)
_ARRAY_CODECS: Final = ("numcodecs.pcodec", "numcodecs.zfpy")
_COMPRESSORS: Final = frozenset(
    f"numcodecs.{name}" for name in ("blosc", "zlib", "gzip", "bz2", "lzma", "lz4", "zstd", "pcodec", "zfpy")
)
STYLE: Final = Style(indent=4, sort_keys=True)
_LARGE: Final = 2**15


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the documents of an array or a group; ``None`` if there is neither (Zarr v2, "arrays", "groups").

    Raises
    ------
    MetadataError, UnsupportedError
        If a document is not valid, or holds what can't be read.
    """
    attributes = load(documents[".zattrs"], ".zattrs") if ".zattrs" in documents else {}
    if ".zarray" in documents:
        array = _describe(load(documents[".zarray"], ".zarray"))
        return complete(array, attributes, documents, names_in(attributes, array.ndim))
    if ".zgroup" not in documents:
        return None
    group = load(documents[".zgroup"], ".zgroup")
    if member(group, "zarr_format", ".zgroup") != 2:
        raise MetadataError(f"zarr_format is {group['zarr_format']!r}, not 2", key=".zgroup", field="zarr_format")
    return GroupMetadata(attributes=attributes, format=NAME, documents=documents)


@remembering
def _describe(meta: dict[str, Any]) -> ArrayMetadata:
    key = ".zarray"
    if member(meta, "zarr_format", key) != 2:
        raise MetadataError(f"zarr_format is {meta['zarr_format']!r}, not 2", key=key, field="zarr_format")
    shape = integers(member(meta, "shape", key), "shape", key, least=0)
    chunks = integers(member(meta, "chunks", key), "chunks", key, least=0, ndim=len(shape))
    if any(chunk == 0 and size for chunk, size in zip(chunks, shape)):
        raise MetadataError("a chunk must be at least 1 long", key=key, field="chunks")
    data_type = dtype_from_json(member(meta, "dtype", key), key)
    order, separator = member(meta, "order", key), meta.get("dimension_separator", ".")
    if order not in ("C", "F"):
        raise MetadataError(f"order must be C or F, not {order!r}", key=key, field="order")
    if separator not in (".", "/"):
        raise MetadataError(f"the separator must be . or /, not {separator!r}", key=key, field="dimension_separator")
    filters = _codecs(member(meta, "filters", key), "filters")
    compressor = member(meta, "compressor", key)
    filters += _codecs(None if compressor is None else [compressor], "compressor")
    data_type, codecs = _chain(data_type, filters)
    if order == "F" and len(shape) > 1:
        codecs.insert(0, CodecSpec("transpose", {"order": [*range(len(shape))][::-1]}))
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=regular_grid([max(1, chunk) for chunk in chunks]),
        keys=v2_keys(separator),
        codecs=tuple(codecs),
        fill_value=_fill_from_json(member(meta, "fill_value", key), data_type),
        format=NAME,
    )


def _codecs(value: Any, field: str) -> list[CodecSpec]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MetadataError(f"{field} must be a list or null", key=".zarray", field=field)
    specs = []
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            raise MetadataError(f"{item!r:.80} is not a codec's configuration", key=".zarray", field=field)
        specs.append(CodecSpec(f"numcodecs.{item['id']}", {k: v for k, v in item.items() if k != "id"}))
    return specs


def _chain(data_type: DataType, codecs: list[CodecSpec]) -> tuple[DataType, list[CodecSpec]]:
    """Put the codec that makes a buffer of the chunk in its place, and find what the elements of objects are."""
    if data_type.variable:
        if not codecs or codecs[0].name not in OBJECT_CODECS:
            raise MetadataError(
                "an array of objects needs an object codec as first filter", key=".zarray", field="filters"
            )
        kind = {"numcodecs.vlen-utf8": STRING, "numcodecs.vlen-bytes": BYTES}.get(codecs[0].name, data_type)
        return kind, codecs
    if any(codec.name in _ARRAY_CODECS for codec in codecs):
        return data_type, codecs
    return data_type, [byte_order_codec(data_type.numpy), *codecs]


def _fill_from_json(value: Any, data_type: DataType) -> npt.NDArray[Any] | None:
    dtype = data_type.numpy
    if data_type.variable:
        if data_type.variable != "object" and isinstance(value, (list, dict)):
            raise MetadataError(f"{value!r:.80} is not a fill value for {data_type}", key=".zarray", field="fill_value")
        # zarr 2 returns the JSON value itself where no chunk is stored, null as None
        out = np.zeros((), object)
        out[()] = decode_base64(value) if data_type.variable == "bytes" and isinstance(value, str) else value
        return out
    if value is None:
        return None
    if dtype.kind == "c" and isinstance(value, (int, float, str)):
        value = [value, 0.0]
    elif dtype.kind in "SU" and isinstance(value, (int, float)):
        return scalar_array(str(value), data_type)  # as NumPy makes text of it for zarr 2
    elif dtype.kind == "S" and isinstance(value, str):
        return _lenient_bytes(value, data_type)
    elif dtype.kind == "V" and value == 0:
        return np.zeros((), dtype)
    elif dtype.names is not None and isinstance(value, str):
        value = base64.b64encode(decode_base64(value).ljust(dtype.itemsize, b"\0")).decode()
    return fill_from_document(value, data_type, zarr_format=2)


def _lenient_bytes(value: str, data_type: DataType) -> npt.NDArray[Any]:
    """Text that is not base64 is taken as it stands, as zarr 2 does."""
    try:
        raw = decode_base64(value)
    except MetadataError:
        raw = value.encode("utf-8", "surrogatepass")
    return scalar_array(raw, data_type)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the documents of a node, as zarr 2 writes them; those it was read from change only where it has.

    Raises
    ------
    UnsupportedError
        If the array is not one that `adapt` returns.
    """
    documents = metadata.documents
    out = {}
    if isinstance(metadata, GroupMetadata):
        out[".zgroup"] = documents.get(".zgroup") or dump({"zarr_format": 2}, ".zgroup", STYLE)
    else:
        changes = _document(metadata) if ".zarray" not in documents else {"shape": [*metadata.shape]}
        if ".zarray" in documents and 0 in load(documents[".zarray"], ".zarray")["chunks"] and 0 not in metadata.shape:
            changes["chunks"] = [*metadata.grid.largest_chunk()]  # a length of 0 did while there was nothing to hold
        out[".zarray"] = rewrite(documents, ".zarray", changes, STYLE)
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
        "fill_value": _fill_to_json(metadata.fill_value, metadata.data_type),
        "order": "F" if metadata.codecs[0].name == "transpose" else "C",
        "filters": [_codec_to_json(codec) for codec in codecs] or None,
    }
    if metadata.keys.separator != ".":
        document["dimension_separator"] = metadata.keys.separator
    return document


def _codec_to_json(codec: CodecSpec) -> dict[str, Any]:
    return {"id": codec.name.removeprefix("numcodecs."), **codec.configuration}


def _fill_to_json(fill: npt.NDArray[Any] | None, data_type: DataType) -> Any:
    if fill is None:
        return None
    dtype = data_type.numpy
    if data_type.variable == "bytes" and fill[()] == b"":
        return ""
    if not data_type.variable and (dtype.names is not None or dtype.kind == "V") and dtype not in EXTENDED.values():
        return base64.b64encode(fill.tobytes()).decode()
    if dtype.kind in "Mm":
        return int(fill.astype(dtype.newbyteorder("=")).view("i8"))
    return fill_to_json(fill, DataType(dtype, data_type.variable))


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Return the array as Zarr v2 would hold it: the same values, with codecs that v2 can name, and without shards.

    Raises
    ------
    UnsupportedError
        If the data type, the chunk grid or a codec has no form in Zarr v2.
    """
    grid, codecs = metadata.grid, [*metadata.codecs]
    if any(codec.name == "sharding_indexed" for codec in codecs):
        raise UnsupportedError("Zarr v2 has no shards", codec="sharding_indexed")
    if not all(isinstance(axis, RegularAxis) for axis in grid.axes):
        raise UnsupportedError("Zarr v2 has regular chunk grids only", field="chunks")
    data_type = DataType(packed(metadata.data_type.numpy), metadata.data_type.variable)
    endian = next((c.configuration.get("endian") for c in codecs if c.name == "bytes"), None)
    if endian is not None and data_type.is_fixed and data_type.numpy not in EXTENDED.values():
        data_type = DataType(data_type.numpy.newbyteorder("<" if endian == "little" else ">"))
    order, rest = _order(codecs, metadata.ndim)
    rest = [_adapt_codec(codec, data_type) for codec in rest if codec.name != "bytes"]
    if rest and rest[0].name == "numcodecs.packbits" and data_type.numpy.kind != "b":
        raise MetadataError(f"the filter packs bool, the array has {data_type}", field="codecs", codec=rest[0].name)
    if data_type.variable:
        rest.sort(key=lambda codec: codec.name not in OBJECT_CODECS)
        if not rest or rest[0].name not in OBJECT_CODECS:
            usual = {"string": "numcodecs.vlen-utf8", "bytes": "numcodecs.vlen-bytes"}
            if data_type.variable not in usual:
                raise UnsupportedError(
                    "an array of objects needs an object codec, such as {'id': 'json2'}", field="codecs"
                )
            rest.insert(0, CodecSpec(usual[data_type.variable]))
    elif any(codec.name.startswith("numcodecs.vlen-") for codec in rest):
        raise MetadataError(f"an object codec can't encode {data_type}", field="codecs")
    elif not any(codec.name in _ARRAY_CODECS for codec in rest):
        rest.insert(0, byte_order_codec(data_type.numpy))
    fill = metadata.fill_value
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=grid,
        keys=v2_keys(metadata.keys.separator if not metadata.keys.prefix else "."),
        codecs=tuple(order + rest),
        fill_value=None if fill is None else fill.astype(data_type.numpy),
        attributes=attributes_with(metadata.attributes, metadata.dimension_names),
        dimension_names=metadata.dimension_names,
        format=NAME,
    )


def _order(codecs: list[CodecSpec], ndim: int) -> tuple[list[CodecSpec], list[CodecSpec]]:
    transposes = [codec for codec in codecs if codec.name == "transpose"]
    rest = [codec for codec in codecs if codec.name != "transpose"]
    if not transposes or ndim < 2:
        return [], rest
    reverse = [*range(ndim)][::-1]
    given = transposes[0].configuration.get("order", [])
    order = {"C": reverse[::-1], "F": reverse}.get(given) if isinstance(given, str) else [*given]
    if len(transposes) > 1 or order not in (reverse, reverse[::-1]):
        raise UnsupportedError("Zarr v2 has C and F order only", codec="transpose")
    return [CodecSpec("transpose", {"order": reverse})] if order == reverse else [], rest


def _adapt_codec(codec: CodecSpec, data_type: DataType) -> CodecSpec:
    options = dict(codec.configuration)
    if codec.name in ("zstd", "numcodecs.zstd") and not options.get("checksum"):
        options.pop("checksum", None)  # TensorStore refuses the member, and numcodecs takes its absence for false
    if codec.name.startswith("numcodecs."):
        return CodecSpec(codec.name, options)
    if codec.name == "blosc":
        options.pop("typesize", None)
        options["shuffle"] = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}.get(options.get("shuffle", "shuffle"), 1)
        return CodecSpec("numcodecs.blosc", {"blocksize": 0, **options})
    plain = {"padding_encoding": "first_byte"}
    if codec.name == "packbits" and data_type.numpy.kind == "b" and options in ({}, plain):
        return CodecSpec("numcodecs.packbits")
    if codec.name in ("zstd", "gzip", "crc32c", "vlen-utf8", "vlen-bytes"):
        return CodecSpec(f"numcodecs.{codec.name}", options)
    raise UnsupportedError(f"Zarr v2 has no codec {codec.name!r}", codec=codec.name)


def consolidated(documents: Mapping[str, bytes]) -> Mapping[str, Mapping[str, bytes]] | None:
    """Read ``.zmetadata``: the documents of each member by its path, or ``None`` if there is none."""
    if CONSOLIDATED_KEY not in documents:
        return None
    raw = documents[CONSOLIDATED_KEY]
    levels = find_members(raw, ("metadata",)) if len(raw) > _LARGE else None
    if levels is not None and len(levels) == 2 and levels[0].get("zarr_consolidated_format") == b"1":
        return Consolidated(levels[1], names=KEYS)
    content = load(raw, CONSOLIDATED_KEY)
    entries = member(content, "metadata", CONSOLIDATED_KEY)
    if content.get("zarr_consolidated_format") != 1 or not isinstance(entries, dict):
        raise MetadataError("the consolidated metadata is not of format 1", key=CONSOLIDATED_KEY)
    nodes: dict[str, dict[str, bytes]] = {}
    for key, document in entries.items():
        path, _, name = key.rpartition("/")
        if name in KEYS and isinstance(document, dict):
            nodes.setdefault(path, {})[name] = dump(document, key, STYLE)
    return nodes


def consolidate(group: GroupMetadata, members: Iterable[tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """Write ``.zmetadata`` of a group with the documents of all its members, its own under the path ``""``."""
    found = {
        f"{path}/{name}" if path else name: raw
        for path, documents in members
        for name, raw in documents.items()
        if name in KEYS
    }
    entries = ((key, load(found[key], key.rpartition("/")[2])) for key in sorted(found))
    content = [("metadata", entries), ("zarr_consolidated_format", 1)]
    return {CONSOLIDATED_KEY: dump_members(content, CONSOLIDATED_KEY, STYLE)}
