"""Conversion of an array's metadata to the form of Zarr v3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.dimension_names import attributes_without
from tegula.formats.layout import automatic_shuffle, check_delta, check_lzma, shuffle_name, stated_endian
from tegula.formats.zarr3 import NAME
from tegula.formats.zarr3_codecs import ARRAY_TO_ARRAY, ARRAY_TO_BYTES, codec_to_json, extensions_from_json
from tegula.metadata.chunk_keys import default_keys
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType, data_type_to_json, packed
from tegula.metadata.fill_values import Fill, scalar_array, undefined_fill
from tegula.metadata.nodes import ArrayMetadata, CodecSpec

__all__ = ["adapt"]

_MAX_TYPESIZE: Final = 255  # of Blosc's header
_INDEX_CODECS: Final = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Convert metadata to Zarr v3: the dtype in native byte order, byte order as a codec, registered codec names."""
    data_type = metadata.data_type
    if data_type.is_fixed and data_type.numpy not in EXTENDED_DTYPES:
        # as `data_type_from_json` reads them
        dtype = packed(data_type.numpy).newbyteorder("=" if data_type.numpy.names is None else "<")
        data_type = DataType(dtype, alias=data_type.alias)
    data_type_to_json(data_type)  # raises if Zarr v3 has no name for it
    attributes, names = metadata.attributes, metadata.dimension_names
    if metadata.format != NAME and names is not None:
        attributes = attributes_without(attributes)  # other formats keep the names there
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=metadata.grid,
        keys=metadata.keys if metadata.format == NAME else default_keys(),
        codecs=_adapt_codecs(metadata, data_type),
        fill_value=_adapt_fill(metadata.fill_value, data_type),
        attributes=attributes,
        dimension_names=names,
        format=NAME,
    )


def _adapt_fill(fill: Fill | None, data_type: DataType) -> Fill:
    if fill is None:
        return undefined_fill(data_type)  # Zarr v3 has no undefined fill value
    if data_type.variable:
        fill = scalar_array(fill[()], data_type)
    return fill.astype(data_type.numpy)


def _adapt_codecs(metadata: ArrayMetadata, data_type: DataType) -> tuple[CodecSpec, ...]:
    """Convert the codecs, and put them in the order array→array, array→bytes, bytes→bytes."""
    # Blosc needs the size of the elements; after the first bytes→bytes codec the data no longer consist of elements
    codecs = [codec for codec in metadata.codecs if codec.name != "bytes"]
    check_delta(codecs, data_type.numpy)
    first = next((n for n, c in enumerate(codecs) if c.name not in ARRAY_TO_ARRAY | ARRAY_TO_BYTES), 0)
    sizes = [_typesize(data_type) if number <= first else 1 for number in range(len(codecs))]
    codecs = [_adapt_codec(codec, data_type, typesize) for codec, typesize in zip(codecs, sizes)]

    # sort by kind
    before = [codec for codec in codecs if codec.name in ARRAY_TO_ARRAY]
    middle = [codec for codec in codecs if codec.name in ARRAY_TO_BYTES]
    after = [codec for codec in codecs if codec.name not in ARRAY_TO_ARRAY | ARRAY_TO_BYTES]

    # exactly one codec serializes the elements
    if metadata.format == NAME:  # keep its `bytes` as it is: codecs before it may have changed the data type
        middle = [codec for codec in metadata.codecs if codec.name in ARRAY_TO_BYTES]
    if not middle:
        middle = [_array_to_bytes(data_type, stated_endian(metadata.codecs))]
    if len(middle) > 1:
        raise UnsupportedError("a chain can have only one array→bytes codec", codec=middle[1].name)
    if middle[0].name == "sharding_indexed":
        middle = [_adapt_shards(middle[0], metadata)]
    return (*before, *middle, *after)


def _array_to_bytes(data_type: DataType, endian: str | None) -> CodecSpec:
    if data_type.variable == "string":
        return CodecSpec("vlen-utf8")
    if data_type.variable == "bytes":
        return CodecSpec("vlen-bytes")
    if (inner := data_type.inner) is not None:
        values = codec_to_json(_array_to_bytes(inner, endian))
        return CodecSpec("zarrs.optional", {"mask_codecs": [{"name": "packbits"}], "data_codecs": [values]})
    return CodecSpec("bytes", {"endian": endian or "little"}) if data_type.has_byte_order else CodecSpec("bytes")


def _adapt_codec(codec: CodecSpec, data_type: DataType, typesize: int) -> CodecSpec:
    """Give a codec of numcodecs its name in Zarr v3, and state the options that Zarr v3 requires."""
    options = dict(codec.configuration)
    check_lzma(codec)
    if codec.name == "numcodecs.blosc":
        return _adapt_blosc(options, data_type, typesize)
    if codec.name == "blosc":
        usual = {"typesize": typesize, "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
        return CodecSpec("blosc", {**usual, **options})
    if codec.name in ("numcodecs.zstd", "zstd"):
        return CodecSpec("zstd", {"level": 0, "checksum": False, **options})
    if codec.name in ("numcodecs.gzip", "gzip"):
        return CodecSpec("gzip", {"level": 5, **options})
    if codec.name in ("numcodecs.vlen-utf8", "numcodecs.vlen-bytes"):
        return CodecSpec(codec.name.removeprefix("numcodecs."))
    if codec.name == "numcodecs.crc32c" and options.get("location", "end") == "end":
        return CodecSpec("crc32c")
    if codec.name.startswith("numcodecs.") and data_type.variable == "object":
        raise UnsupportedError("Zarr v3 has no data type for Python objects", codec=codec.name)
    if codec.name in ("numcodecs.vlen-array", "numcodecs.pickle") and not data_type.variable:  # it would not be read
        raise MetadataError(f"an object codec can't encode {data_type}", field="codecs", codec=codec.name)
    return codec


def _adapt_blosc(options: Mapping[str, Any], data_type: DataType, typesize: int) -> CodecSpec:
    """Convert the options of numcodecs' Blosc, where shuffle is a number and the element size is not stated."""
    shuffle = options.get("shuffle", 1)
    name = shuffle_name(automatic_shuffle(shuffle, data_type.itemsize))
    if name is None:
        raise MetadataError(
            f"shuffle must be 0, 1, 2 or -1, not {shuffle!r:.40}", codec="numcodecs.blosc", field="shuffle"
        )
    return CodecSpec(
        "blosc",
        {
            "typesize": typesize,
            "cname": options.get("cname", "lz4"),
            "clevel": options.get("clevel", 5),
            "shuffle": name,
            "blocksize": options.get("blocksize", 0),
        },
    )


def _typesize(data_type: DataType) -> int:
    """Return Blosc's ``typesize``: the size of an element, or 1 if it is too large for Blosc's header."""
    return data_type.itemsize if data_type.is_fixed and 0 < data_type.itemsize <= _MAX_TYPESIZE else 1


def _adapt_shards(codec: CodecSpec, metadata: ArrayMetadata) -> CodecSpec:
    """Adapt the codecs of the inner chunks, and add defaults: the ``bytes`` codec, and an index at the end."""
    configuration = codec.configuration
    inner = replace(metadata, codecs=tuple(extensions_from_json(configuration.get("codecs", []), "codecs")), format="")
    filled = {
        "codecs": [codec_to_json(item) for item in adapt(inner).codecs],
        "index_codecs": configuration.get("index_codecs", _INDEX_CODECS),
        "index_location": configuration.get("index_location", "end"),
    }
    return replace(codec, configuration={**configuration, **filled})
