"""Conversion of an array's metadata to the form of Zarr v2."""

from __future__ import annotations

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.dimension_names import stored_attributes
from tegula.formats.layout import (
    byte_order_codec,
    check_delta,
    check_lzma,
    fortran_order,
    shuffle_number,
    stated_endian,
    with_endian,
)
from tegula.formats.zarr2 import ARRAY_CODECS, NAME, OBJECT_CODECS
from tegula.metadata.chunk_keys import v2_keys
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType, holds_extended, packed
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, is_fixed_vlen

__all__ = ["adapt"]


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Convert metadata to Zarr v2: the byte order in the dtype, axes in C or F order, filters and a compressor."""
    codecs = [*metadata.codecs]
    if any(codec.name == "sharding_indexed" for codec in codecs):
        raise UnsupportedError("Zarr v2 has no shards", codec="sharding_indexed")
    if not metadata.grid.is_regular:
        raise UnsupportedError("Zarr v2 supports only regular chunk grids", field="chunks")
    data_type = DataType(packed(metadata.data_type.numpy), metadata.data_type.variable)
    if data_type.numpy.names is not None and holds_extended(data_type.numpy):
        raise UnsupportedError(f"Zarr v2 has no data type {metadata.data_type}", field="dtype")
    if data_type.is_fixed and data_type.numpy not in EXTENDED_DTYPES:
        data_type = DataType(with_endian(data_type.numpy, stated_endian(codecs)))
    order, others = _order(codecs, metadata.ndim)
    fill = metadata.fill_value
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=metadata.grid,
        keys=v2_keys(metadata.keys.separator if not metadata.keys.prefix else "."),
        codecs=(*order, *_buffer_codecs(others, data_type)),
        fill_value=None if fill is None else fill.astype(data_type.numpy),
        attributes=stored_attributes(metadata),
        dimension_names=metadata.dimension_names,
        format=NAME,
    )


def _buffer_codecs(codecs: list[CodecSpec], data_type: DataType) -> list[CodecSpec]:
    """Convert the codecs after ``transpose``: one that turns the array into bytes, then filters and a compressor."""
    check_delta(codecs, data_type.numpy)
    # zarr-python stores elements of fixed length with the codecs of variable-length ones in Zarr v3 only
    left_out = [codec for codec in codecs if codec.name == "bytes" or is_fixed_vlen(codec, data_type)]
    if data_type.variable in ("string", "bytes"):  # what zarrs calls the codecs of Zarr v2
        left_out += [codec for codec in codecs if codec.name in ("vlen-array", "zarrs.vlen_v2")]
    adapted = [_adapt_codec(codec, data_type) for codec in codecs if codec not in left_out]
    if adapted and adapted[0].name == "numcodecs.packbits" and data_type.numpy.kind != "b":
        raise MetadataError(f"packbits takes bool, the array has {data_type}", field="codecs", codec=adapted[0].name)
    if data_type.variable:
        # the object codec comes first
        adapted.sort(key=lambda codec: codec.name not in OBJECT_CODECS)
        if not adapted or adapted[0].name not in OBJECT_CODECS:
            defaults = {"string": "numcodecs.vlen-utf8", "bytes": "numcodecs.vlen-bytes"}
            if data_type.variable not in defaults:
                raise UnsupportedError(
                    "an array of objects needs an object codec, such as {'id': 'json2'}", field="codecs"
                )
            adapted.insert(0, CodecSpec(defaults[data_type.variable]))
    elif any(codec.name.startswith("numcodecs.vlen-") for codec in adapted):
        raise MetadataError(f"an object codec can't encode {data_type}", field="codecs")
    elif not (names := [codec.name for codec in adapted if codec.name in ARRAY_CODECS]):
        adapted.insert(0, byte_order_codec(data_type.numpy))
    elif not data_type.numpy.isnative:  # numcodecs accepts and returns only native byte order
        raise UnsupportedError(
            f"{names[0]} can't store elements of type {data_type} in Zarr v2; choose the machine's byte order",
            field="dtype",
            codec=names[0],
        )
    return adapted


def _order(codecs: list[CodecSpec], ndim: int) -> tuple[list[CodecSpec], list[CodecSpec]]:
    """Split codecs into the ``transpose`` of Fortran order, if there is one, and the rest."""
    transposes = [codec for codec in codecs if codec.name == "transpose"]
    others = [codec for codec in codecs if codec.name != "transpose"]
    if not transposes or ndim < 2:
        return [], others
    reverse = [*range(ndim)][::-1]
    stated = transposes[0].configuration.get("order", [])
    order = {"C": reverse[::-1], "F": reverse}.get(stated) if isinstance(stated, str) else [*stated]
    if len(transposes) > 1 or order not in (reverse, reverse[::-1]):
        raise UnsupportedError("Zarr v2 supports only C and F order", codec="transpose")
    return [fortran_order(ndim)] if order == reverse else [], others


def _adapt_codec(codec: CodecSpec, data_type: DataType) -> CodecSpec:
    options = dict(codec.configuration)
    check_lzma(codec)
    if codec.name in ("zstd", "numcodecs.zstd") and not options.get("checksum"):
        options.pop("checksum", None)  # TensorStore rejects this member; if it is missing, numcodecs assumes false
    if codec.name.startswith("numcodecs."):
        return CodecSpec(codec.name, options)
    if codec.name == "blosc":
        options.pop("typesize", None)  # the compressors of Zarr v2 take the item size of the array
        options["shuffle"] = shuffle_number(options.get("shuffle", "shuffle"))
        return CodecSpec("numcodecs.blosc", {"blocksize": 0, **options})
    plain = {"padding_encoding": "first_byte"}
    if codec.name == "packbits" and data_type.numpy.kind == "b" and options in ({}, plain):
        return CodecSpec("numcodecs.packbits")
    if codec.name == "bitround" and data_type.numpy.kind == "f":
        return CodecSpec("numcodecs.bitround", options)
    if codec.name in ("zstd", "gzip", "crc32c", "vlen-utf8", "vlen-bytes"):
        return CodecSpec(f"numcodecs.{codec.name}", options)
    raise UnsupportedError(f"Zarr v2 has no codec {codec.name!r}", codec=codec.name)
