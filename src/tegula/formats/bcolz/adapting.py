"""Conversion of an array's metadata to the form of bcolz."""

from __future__ import annotations

from typing import Any

from tegula.errors import UnsupportedError
from tegula.formats.bcolz.chunks import automatic_chunklen
from tegula.formats.bcolz.codecs import CONTAINER, PICKLE, QUANTIZE, chain
from tegula.formats.bcolz.defaults import default_to_json
from tegula.formats.bcolz.documents import NAME
from tegula.formats.dimension_names import stored_attributes
from tegula.formats.layout import automatic_shuffle, shuffle_number, stated_endian, with_endian
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.chunk_keys import BCOLZ_KEYS
from tegula.metadata.data_types import OBJECT, DataType, holds_extended
from tegula.metadata.fill_values import undefined_fill
from tegula.metadata.nodes import ArrayMetadata, CodecSpec

__all__ = ["adapt"]


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Convert metadata to bcolz: chunks along the first axis only, C order, Blosc."""
    data_type = _adapt_type(metadata)
    chunklen, extra = _adapt_grid(metadata), dict(metadata.extra)
    if data_type.variable:
        # each object is a chunk of its own, but bcolz records `chunklen` nevertheless
        if metadata.ndim > 1:
            raise UnsupportedError("a carray of Python objects has one axis", field="shape")
        if metadata.format != NAME or "chunklen" not in extra:
            extra["chunklen"] = automatic_chunklen(metadata.shape[0], 8)
        chunklen = 1
    compressor, quantize = _adapt_codecs(metadata, data_type)
    fill = metadata.fill_value
    fill = undefined_fill(data_type) if fill is None else fill.astype(data_type.numpy)
    default_to_json(fill, data_type)  # raises if there is no form for it
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=regular_grid([chunklen, *(max(1, size) for size in metadata.shape[1:])]),
        keys=BCOLZ_KEYS,
        codecs=chain(data_type, compressor, quantize),
        fill_value=fill,
        attributes=stored_attributes(metadata),
        dimension_names=metadata.dimension_names,
        format=NAME,
        dense=True,
        extra=extra,
    )


def _adapt_grid(metadata: ArrayMetadata) -> int:
    """Return the number of rows of a chunk, which must span all other axes."""
    if metadata.ndim == 0:
        raise UnsupportedError("bcolz has no arrays without dimensions", field="shape")
    if not metadata.grid.is_regular:
        raise UnsupportedError("bcolz supports only regular chunk grids", field="chunks")
    chunk = metadata.grid.largest_chunk()
    if any(length < size for length, size in zip(chunk[1:], metadata.shape[1:])):
        raise UnsupportedError(
            f"bcolz divides arrays only along the first axis, not into chunks of {chunk}", field="chunks"
        )
    return chunk[0]


def _adapt_type(metadata: ArrayMetadata) -> DataType:
    data_type = metadata.data_type
    dtype = data_type.numpy
    if data_type.variable == "object":
        return OBJECT
    if data_type.variable:
        raise UnsupportedError(
            "bcolz supports only strings and bytes of fixed length, such as 'U10' or 'S10'", field="dtype"
        )
    if holds_extended(dtype):
        raise UnsupportedError(f"bcolz has no data type {data_type}", field="dtype")
    return DataType(with_endian(dtype, stated_endian(metadata.codecs)))


def _adapt_codecs(metadata: ArrayMetadata, data_type: DataType) -> tuple[CodecSpec, int]:
    """Return the compressor, and the significant digits to keep (0 for all)."""
    compressors, quantize = [], 0
    for codec in metadata.codecs:
        options = dict(codec.configuration)
        if codec.name in ("bytes", CONTAINER.name, PICKLE.name, "numcodecs.pickle"):
            continue
        if codec.name in ("blosc", "numcodecs.blosc"):
            compressors.append(_adapt_blosc(codec.name, options, data_type))
        elif codec.name == QUANTIZE and type(options.get("digits")) is int and data_type.numpy.kind == "f":
            quantize = options["digits"]
        elif codec.name == "transpose" and [*options.get("order", ())] == [*range(metadata.ndim)]:
            continue
        else:
            raise UnsupportedError("bcolz supports only Blosc and quantize, in C order", codec=codec.name)
    if len(compressors) > 1:
        raise UnsupportedError("bcolz supports only one compressor", codec="blosc")
    none = CodecSpec("numcodecs.blosc", {"cname": "lz4", "clevel": 0, "shuffle": 0})
    return (compressors[0] if compressors else none), quantize


def _adapt_blosc(name: str, options: dict[str, Any], data_type: DataType) -> CodecSpec:
    shuffle = automatic_shuffle(shuffle_number(options.get("shuffle", 1)), data_type.itemsize)
    if options.get("blocksize"):
        raise UnsupportedError("bcolz has no block size", codec=name)
    if options.get("cname") == "snappy":
        raise UnsupportedError("current versions of bcolz can't read snappy", codec=name)
    return CodecSpec(
        "numcodecs.blosc",
        {"cname": options.get("cname", "lz4"), "clevel": options.get("clevel", 5), "shuffle": shuffle},
    )
