"""Codecs of bcolz: Blosc with the parameters ``cparams``, in a container, and pickles for objects."""

from __future__ import annotations

from typing import Any, Final

from tegula.errors import MetadataError
from tegula.formats.layout import byte_order_codec
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["CONTAINER", "PICKLE", "QUANTIZE", "chain", "codecs_from_json"]

CONTAINER: Final = CodecSpec("blpk")
PICKLE: Final = CodecSpec("bcolz.pickle")
QUANTIZE: Final = "numcodecs.quantize"


def codecs_from_json(cparams: Any, data_type: DataType) -> tuple[CodecSpec, ...]:
    """Read ``cparams`` of ``meta/storage`` (section "The `storage` file").

    Raises
    ------
    MetadataError
        If it is not an object, or ``quantize`` is not an integer.
    """
    if not isinstance(cparams, dict):
        raise MetadataError("cparams must be an object", key="meta/storage", field="cparams")
    configuration = {
        "cname": cparams.get("cname", "blosclz"),
        "clevel": cparams.get("clevel", 5),
        "shuffle": int(cparams["shuffle"]) if type(cparams.get("shuffle")) is bool else cparams.get("shuffle", 1),
    }
    quantize = cparams.get("quantize")
    if quantize is not None and type(quantize) is not int:
        raise MetadataError(f"{quantize!r:.80} is not a number of digits", key="meta/storage", field="cparams.quantize")
    return chain(data_type, CodecSpec("numcodecs.blosc", configuration), quantize or 0)


def chain(data_type: DataType, compressor: CodecSpec, quantize: int) -> tuple[CodecSpec, ...]:
    """Return the codecs of a chunk.

    Parameters
    ----------
    data_type : DataType
        Type of the elements.
    compressor : CodecSpec
        Blosc with its options; this function adds the type size that bcolz expects when it reads parts of a frame.
    quantize : int
        Significant digits that floating-point numbers keep; 0 for all.
    """
    frame = CodecSpec(compressor.name, {**compressor.configuration, "typesize": _typesize(data_type)})
    if data_type.variable:
        return (PICKLE, frame, CONTAINER)
    dtype = data_type.numpy
    filters = [CodecSpec(QUANTIZE, {"digits": quantize, "dtype": dtype.str})] if quantize and dtype.kind == "f" else []
    return (byte_order_codec(dtype), *filters, frame, CONTAINER)


def _typesize(data_type: DataType) -> int:
    """Return the type size that bcolz passes to Blosc: that of a character for strings, 1 for large elements."""
    dtype = data_type.numpy
    if data_type.variable or dtype.kind == "S" or dtype.itemsize > 255:
        return 4 if dtype.kind == "U" else 1
    return 4 if dtype.kind == "U" else max(1, dtype.itemsize)
