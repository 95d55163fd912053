"""Zarr v1, and its predecessor, the layout of zarr 0.4.

An array of Zarr v1 has the keys ``meta`` (JSON), ``attrs`` (JSON) and one key for each chunk, such as ``0.3``. zarr 0.4
called the first two ``__zmeta__`` and ``__zattr__``, and stored chunks below ``__zdata__/``; it had only Blosc and C
order. That layout can be read, but not written.

Where existing data differ from the specification, the data take precedence: ``order: "F"`` applies only to Blosc (zarr
passed C-ordered bytes to the other compressors), ``gzip`` means a zlib stream, and ``fill_value`` may be any JSON value
that NumPy can convert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.chunk_grids import regular_grid_from_json
from tegula.formats.descriptions import complete, memoized
from tegula.formats.dimension_names import names_in, stored_attributes
from tegula.formats.documents import integers, load, load_attributes, member, replace_document, rewrite
from tegula.formats.keys import OLD_KEYS, ZARR1_KEYS, Style
from tegula.formats.layout import (
    byte_order_codec,
    fortran_order,
    is_fortran_order,
    shuffle_number,
    stated_endian,
    with_endian,
)
from tegula.formats.numpy_types import dtype_from_json, dtype_to_json
from tegula.metadata.chunk_keys import V1_KEYS, ChunkKeyEncoding
from tegula.metadata.data_types import DataType, holds_extended, packed
from tegula.metadata.fill_values import Fill, scalar_array, time_to_int
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, NodeMetadata

__all__ = [
    "DEFAULT_COMPRESSORS", "KEYS", "NAME", "NODE_KEYS", "OLD_KEYS", "OLD_NAME", "SHAPE_KEY", "adapt", "parse",
    "parse_old", "serialize",
]  # fmt: skip

NAME: Final = "zarr1"
OLD_NAME: Final = "zarr0.4"
KEYS: Final = ZARR1_KEYS
NODE_KEYS: Final = KEYS[:1]
SHAPE_KEY: Final = KEYS[0]
DEFAULT_COMPRESSORS: Final = (CodecSpec("numcodecs.blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1}),)
_STYLE: Final = Style(indent=4, sort_keys=True)
_OLD_CHUNK_KEYS: Final = ChunkKeyEncoding(".", "__zdata__/", ".blosc", "")
_BLOSC_DEFAULTS: Final = {"cname": "blosclz", "clevel": 5, "shuffle": 1}
_LZMA_DEFAULTS: Final = {"format": 1, "check": 0, "preset": 1, "filters": None}


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the documents of an array (Zarr v1, sections "Metadata" and "Attributes").

    Examples
    --------
    >>> array = parse({"meta": b'''{
    ...     "zarr_format": 1, "shape": [6, 3], "chunks": [4, 3], "dtype": "<i4", "order": "F",
    ...     "compression": "zlib", "compression_opts": 1, "fill_value": 0}'''})
    >>> [codec.name for codec in array.codecs]
    ['bytes', 'numcodecs.zlib']
    """
    raw = documents.get("meta")
    if raw is None:
        return None
    array = _describe(load(raw, "meta"))
    attributes = load_attributes(documents, "attrs")
    return complete(array, attributes, documents, names_in(attributes, array.ndim))


@memoized
def _describe(meta: dict[str, Any]) -> ArrayMetadata:
    """Read ``meta``."""
    if member(meta, "zarr_format", "meta") != 1:
        raise MetadataError(f"zarr_format is {meta['zarr_format']!r:.40}, not 1", key="meta", field="zarr_format")
    shape = integers(member(meta, "shape", "meta"), "shape", "meta", least=0)
    data_type = dtype_from_json(member(meta, "dtype", "meta"), "meta")
    if data_type.variable:
        raise UnsupportedError("Zarr v1 has no encoding for Python objects", key="meta", field="dtype")
    fortran = is_fortran_order(member(meta, "order", "meta"), "meta")
    compressor = _compressor(member(meta, "compression", "meta"), member(meta, "compression_opts", "meta"))
    codecs = [byte_order_codec(data_type.numpy), *([compressor] if compressor else [])]
    if fortran and compressor is not None and compressor.name == "numcodecs.blosc" and len(shape) > 1:
        codecs.insert(0, fortran_order(len(shape)))
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=regular_grid_from_json(member(meta, "chunks", "meta"), shape, "chunks", "meta"),
        keys=V1_KEYS,
        codecs=tuple(codecs),
        fill_value=_fill_from_json(member(meta, "fill_value", "meta"), data_type, "meta"),
        format=NAME,
    )


def parse_old(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the documents of an array written by zarr 0.4; return ``None`` if there is no ``__zmeta__``.

    Raises
    ------
    MetadataError
        If a document is not valid.
    """
    key = "__zmeta__"
    if key not in documents:
        return None
    meta = load(documents[key], key)
    shape = integers(member(meta, "shape", key), "shape", key, least=0)
    data_type = dtype_from_json(member(meta, "dtype", key), key)
    options = {name: member(meta, name, key) for name in ("cname", "clevel", "shuffle")}
    compressor = _compressor("blosc", options)
    attributes = load_attributes(documents, "__zattr__")
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=regular_grid_from_json(member(meta, "chunks", key), shape, "chunks", key),
        keys=_OLD_CHUNK_KEYS,
        codecs=(byte_order_codec(data_type.numpy), *([compressor] if compressor else [])),
        fill_value=_fill_from_json(member(meta, "fill_value", key), data_type, key),
        attributes=attributes,
        dimension_names=names_in(attributes, len(shape)),
        format=OLD_NAME,
        documents=documents,
    )


def _compressor(name: Any, options: Any) -> CodecSpec | None:
    """Read ``compression`` and ``compression_opts``; missing options have the defaults of zarr 1."""
    if name in (None, "none"):
        return None
    if name == "blosc":
        stated = options if isinstance(options, dict) else {}
        return CodecSpec("numcodecs.blosc", {k: stated.get(k, v) for k, v in _BLOSC_DEFAULTS.items()})
    if name in ("zlib", "gzip", "bz2"):
        level = options if type(options) is int else 1
        return CodecSpec("numcodecs.bz2" if name == "bz2" else "numcodecs.zlib", {"level": level})
    if name == "lzma":
        return CodecSpec("numcodecs.lzma", _lzma_options(options if isinstance(options, dict) else {}))
    raise UnsupportedError(f"Zarr v1 has no compression {name!r:.80}", key="meta", field="compression")


def _lzma_options(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return all four options; custom filters have presets of their own."""
    defaults = {**_LZMA_DEFAULTS, "preset": None} if stated.get("filters") else _LZMA_DEFAULTS
    return {name: stated.get(name, value) for name, value in defaults.items()}


def _fill_from_json(value: Any, data_type: DataType, key: str) -> Fill | None:
    """Convert a fill value as ``ndarray.fill`` in zarr 1 did: wrap integers, truncate fractions, parse strings."""
    dtype = data_type.numpy
    if value is None or (dtype.kind == "V" and value == 0 and _zero(data_type) is None):
        return None  # `open` of zarr 1 states 0 also for raw bytes, which it can't fill
    if isinstance(value, (dict, list)):
        raise MetadataError(f"{value!r:.80} is not a fill value", key=key, field="fill_value")
    try:
        if dtype.kind in "iu" and not isinstance(value, str):
            bits = np.array(int(value) % 2 ** (8 * dtype.itemsize), f"u{dtype.itemsize}")
            return bits.view(dtype.newbyteorder("=")).astype(dtype)
        if dtype.kind in "iufc" and isinstance(value, str):
            value = complex(value) if dtype.kind == "c" else float(value) if dtype.kind == "f" else int(value)
        return scalar_array(value, data_type)
    except (ValueError, OverflowError) as error:
        raise MetadataError(
            f"{value!r:.80} is not a fill value for {data_type}", key=key, field="fill_value"
        ) from error


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the documents of an array as zarr 1.1 writes them; documents that have not changed keep their bytes."""
    if not isinstance(metadata, ArrayMetadata):
        raise UnsupportedError("Zarr v1 has no groups")
    if metadata.format == OLD_NAME:
        raise UnsupportedError("the layout of zarr 0.4 is read-only; convert the array to write it")
    changes: dict[str, Any] = {"shape": [*metadata.shape]}
    if "meta" not in metadata.documents:
        changes = _document(metadata)
    elif 0 in load(metadata.documents["meta"], "meta")["chunks"] and 0 not in metadata.shape:
        # chunks of length 0 are valid only as long as the array is empty
        changes["chunks"] = [*metadata.grid.largest_chunk()]
    attributes = replace_document(metadata.documents, "attrs", metadata.attributes, _STYLE)
    return {"meta": rewrite(metadata.documents, "meta", changes, _STYLE), "attrs": attributes}


def _document(metadata: ArrayMetadata) -> dict[str, Any]:
    codecs = [*metadata.codecs]
    transposed = codecs[0].name == "transpose"
    compressors = codecs[2:] if transposed else codecs[1:]
    name, options = _compression(compressors)
    return {
        "zarr_format": 1,
        "shape": [*metadata.shape],
        "chunks": [*metadata.grid.largest_chunk()],
        "dtype": dtype_to_json(metadata.data_type),
        "compression": name,
        "compression_opts": options,
        "fill_value": _fill_to_json(metadata.fill_value, metadata.data_type),
        "order": "F" if transposed else "C",
    }


def _compression(codecs: list[CodecSpec]) -> tuple[str, Any]:
    if not codecs:
        return "none", None
    codec = codecs[0]
    if codec.name == "numcodecs.blosc":
        return "blosc", {name: codec.configuration.get(name, value) for name, value in _BLOSC_DEFAULTS.items()}
    if codec.name == "numcodecs.lzma":
        return "lzma", _lzma_options(codec.configuration)
    return codec.name.removeprefix("numcodecs."), codec.configuration.get("level", 1)


def _zero(data_type: DataType) -> bytes | None:
    """Return the bytes of an element that zarr 1 fills with 0, or ``None`` for raw bytes, which no number fills."""
    try:
        return scalar_array(0, data_type).tobytes()
    except MetadataError:
        return None


def _fill_to_json(fill: Fill | None, data_type: DataType) -> Any:
    """Convert a fill value to a form that zarr 1 reads back, or raise if there is none."""
    if fill is None:
        return None
    dtype = data_type.numpy
    value: Any = fill[()]
    if fill.tobytes() == _zero(data_type):
        return False if dtype.kind == "b" else 0  # as zarr 1 writes its default
    if dtype.kind in "biuf":
        return fill.astype("f8")[()].item() if dtype.kind == "f" else value.item()
    if dtype.kind in "Mm":
        return time_to_int(fill)
    if dtype.kind == "c" and value.imag == 0:
        return float(value.real)
    if dtype.kind == "U":
        return str(value)
    if dtype.kind == "S" and value.isascii():
        return value.decode("ascii")
    raise UnsupportedError(f"Zarr v1 has no fill value {value!r:.60} for {dtype}; use None", field="fill_value")


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Convert metadata to Zarr v1: byte order in the dtype, C or F order, and at most one of its four compressors."""
    # data type and grid
    dtype = packed(metadata.data_type.numpy)
    if metadata.data_type.variable or holds_extended(dtype):
        raise UnsupportedError(f"Zarr v1 has no data type {metadata.data_type}", field="dtype")
    if dtype.subdtype is not None or (dtype.names and any(dtype[name].subdtype for name in dtype.names)):
        raise UnsupportedError("Zarr v1 can't read subarray fields back", field="dtype")
    if not metadata.grid.is_regular:
        raise UnsupportedError("Zarr v1 supports only regular chunk grids", field="chunks")
    if metadata.ndim == 0:
        raise UnsupportedError("Zarr v1 has no chunk key for an array without dimensions", field="shape")

    # codecs
    dtype = with_endian(dtype, stated_endian(metadata.codecs))
    codecs = _adapt_codecs(metadata.codecs, metadata.ndim, dtype)

    # fill value
    fill = None if metadata.fill_value is None else metadata.fill_value.astype(dtype)
    data_type = DataType(dtype)
    if fill is not None and dtype.kind == "V" and not any(fill.tobytes()) and fill.tobytes() != _zero(data_type):
        fill = None  # no number means these zero bytes, but an undefined value is read as zero bytes, too
    _fill_to_json(fill, data_type)  # raises if there is no form for it
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=metadata.grid,
        keys=V1_KEYS,
        codecs=codecs,
        fill_value=fill,
        attributes=stored_attributes(metadata),
        dimension_names=metadata.dimension_names,
        format=NAME,
    )


def _adapt_codecs(wanted: Sequence[CodecSpec], ndim: int, dtype: np.dtype[Any]) -> tuple[CodecSpec, ...]:
    """Convert codecs to the order of axes, the byte order and one compressor."""
    transposes = [codec for codec in wanted if codec.name == "transpose"]
    for codec in transposes:
        if sorted(codec.configuration.get("order", []), key=str) != [*range(ndim)]:
            raise MetadataError("the order must name each axis once", codec="transpose")
    ends = [codec for codec in wanted if codec.name not in ("transpose", "bytes")]
    compressors = [_adapt_compressor(codec) for codec in ends]
    if len(compressors) > 1:
        raise UnsupportedError("Zarr v1 supports one compressor and no filters", codec=ends[0].name)
    codecs = [byte_order_codec(dtype), *compressors]
    # zarr 1 wrote Fortran order for Blosc only; for other compressors leaving it out changes no values
    if transposes and compressors and compressors[0].name == "numcodecs.blosc" and ndim > 1:
        if [*transposes[0].configuration.get("order", [])] != [*range(ndim)][::-1] or len(transposes) > 1:
            raise UnsupportedError("Zarr v1 supports only C and F order", codec="transpose")
        codecs.insert(0, fortran_order(ndim))
    return tuple(codecs)


def _adapt_compressor(codec: CodecSpec) -> CodecSpec:
    """Convert a compressor to the options of zarr 1."""
    options = dict(codec.configuration)
    if codec.name in ("blosc", "numcodecs.blosc"):
        shuffle = shuffle_number(options.get("shuffle", 1))
        if options.get("blocksize") or shuffle == -1:
            raise UnsupportedError("Zarr v1 has no block size and no automatic shuffle", codec=codec.name)
        kept = {"cname": options.get("cname", "lz4"), "clevel": options.get("clevel", 5), "shuffle": shuffle}
        return CodecSpec("numcodecs.blosc", kept)
    if codec.name in ("numcodecs.zlib", "numcodecs.bz2"):
        return CodecSpec(codec.name, {"level": options.get("level", 1)})
    if codec.name == "numcodecs.lzma":
        if options.get("check") == -1:
            options["check"] = 0
        return CodecSpec(codec.name, _lzma_options(options))
    raise UnsupportedError("Zarr v1 supports only the compressors blosc, zlib, bz2 and lzma", codec=codec.name)
