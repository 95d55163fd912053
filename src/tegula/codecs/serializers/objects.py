"""Python objects: ``json2``, ``json``, ``msgpack2``, ``msgpack`` and ``pickle`` of numcodecs, and pickles of bcolz.

JSON and MessagePack hold one list: the elements, in nested lists for each axis of the chunk, then dtype and shape. The
forms without a 2 have all elements in one list, and no shape. These codecs are implemented here since those of
numcodecs allocate any shape that the data state.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from tegula.codecs.stages import (
    Chunk,
    Context,
    Data,
    Decoder,
    Serializer,
    Shape,
    between,
    check_options,
    library,
    option,
)
from tegula.errors import CodecError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["Listed", "Pickled", "PickledElement", "build"]

_JSON_FLAGS: Final = ("skipkeys", "ensure_ascii", "check_circular", "allow_nan", "sort_keys")


class Listed(Serializer):
    """A list of elements, followed by their dtype and, if `shaped`, their shape.

    Parameters
    ----------
    name : str
        The codec's name in the chain.
    data_type : DataType
        Type of the elements.
    dumps, loads : callable
        Conversion of a list to bytes, and back.
    shaped : bool
        Whether the list ends with the shape, and elements are nested.
    """

    def __init__(
        self,
        name: str,
        data_type: DataType,
        dumps: Callable[[list[Any]], bytes],
        loads: Callable[[bytes], Any],
        shaped: bool,
    ) -> None:
        self.name = name
        self.dtype = data_type.numpy
        self.dumps = dumps
        self.loads = loads
        self.shaped = shaped

    def encode(self, chunk: Chunk) -> bytes:
        chunk = np.ascontiguousarray(chunk)  # makes an array without dimensions one-dimensional
        tail = [chunk.dtype.str, list(chunk.shape)] if self.shaped else [chunk.dtype.str]
        return self.dumps((chunk if self.shaped else chunk.ravel()).tolist() + tail)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        count, name, tail = prod(shape), self.name, 2 if self.shaped else 1

        def decode(data: Data) -> Chunk:
            # the shape must have as many elements as the chunk
            items = self.loads(bytes(data))
            if not isinstance(items, list) or len(items) < tail:
                raise CodecError("the data is not a list of elements", codec=name)
            stored = items[-1] if self.shaped else [len(items) - tail]
            if not isinstance(stored, (list, tuple)) or any(type(n) is not int or n < 0 for n in stored):
                raise CodecError("the data does not end with a shape", codec=name)
            if prod(stored) != count:
                raise CodecError(f"there are {prod(stored)} elements where the chunk has {count}", codec=name)

            # flatten the nested lists, which must have that shape
            elements: list[Any] = items[:-tail]
            for length in stored[1:]:
                elements = [inner for outer in elements for inner in _nested(outer, length, name)]
            if len(elements) != count:
                raise CodecError(f"there are {len(elements)} elements where the chunk has {count}", codec=name)
            return _as_array(elements, self.dtype).reshape(shape)

        return decode


def _nested(value: Any, length: int, name: str) -> Iterable[Any]:
    if not isinstance(value, (list, tuple)) or len(value) != length:
        raise CodecError("the lists of elements do not match the shape", codec=name)
    return value


def _as_array(items: list[Any], dtype: np.dtype[Any]) -> Chunk:
    if dtype.kind == "O":
        return np.fromiter(items, object, len(items))
    if dtype.names is not None:
        items = [tuple(item) for item in items]
    return np.array(items, dtype)


class Pickled(Serializer):
    """A pickle of the chunk; decoding executes code that it contains."""

    name = "numcodecs.pickle"

    def __init__(self, data_type: DataType, protocol: int) -> None:
        self.dtype = data_type.numpy
        self.protocol = protocol

    def encode(self, chunk: Chunk) -> bytes:
        return pickle.dumps(np.ascontiguousarray(chunk).reshape(chunk.shape), protocol=self.protocol)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        count, dtype = prod(shape), self.dtype

        def decode(data: Data) -> Chunk:
            array = pickle.loads(data)
            if not isinstance(array, np.ndarray) or array.size != count or array.dtype != dtype:
                raise CodecError(f"the pickle is not of {count} elements of type {dtype}", codec="numcodecs.pickle")
            # zarr 2 pickled chunks in Fortran order without reordering them
            return array.reshape(-1, order="A").reshape(shape)

        return decode


class PickledElement(Serializer):
    """A pickle of the only element of a chunk; decoding executes code that it contains."""

    name = "bcolz.pickle"

    def encode(self, chunk: Chunk) -> bytes:
        return pickle.dumps(chunk.reshape(-1)[0], protocol=pickle.HIGHEST_PROTOCOL)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        def decode(data: Data) -> Chunk:
            chunk = np.empty(1, object)
            chunk[0] = pickle.loads(data)
            return chunk.reshape(shape)

        return decode


def build(spec: CodecSpec, context: Context) -> Serializer:
    """Build the codec from the options of numcodecs."""
    if spec.name == PickledElement.name:
        check_options(spec)
        return PickledElement()
    kind = spec.name.removeprefix("numcodecs.")
    if kind == "pickle":
        check_options(spec, "protocol")
        highest = pickle.HIGHEST_PROTOCOL
        return Pickled(context.data_type, min(option(spec, "protocol", highest, between(0, 255)), highest))
    dumps, loads = _json(spec) if kind.startswith("json") else _msgpack(spec)
    return Listed(spec.name, context.data_type, dumps, loads, shaped=kind.endswith("2"))


def _json(spec: CodecSpec) -> tuple[Callable[[list[Any]], bytes], Callable[[bytes], Any]]:
    """Return the functions that write and read JSON with the options of the codec."""
    check_options(spec, "encoding", "strict", "indent", "separators", *_JSON_FLAGS)
    encoding = option(
        spec, "encoding", "utf-8", lambda value: value in ("utf-8", "utf8", "ascii", "utf-16", "utf-32", "latin-1")
    )
    flags = {
        name: option(spec, name, name != "skipkeys", lambda value: isinstance(value, bool)) for name in _JSON_FLAGS
    }
    indent = option(spec, "indent", None, lambda value: value is None or between(0, 100)(value))
    separators = option(spec, "separators", None, _are_separators)
    strict = option(spec, "strict", True, lambda value: isinstance(value, bool))
    usual = (",", ":") if indent is None else (", ", ": ")
    encoder = json.JSONEncoder(indent=indent, separators=tuple(separators) if separators else usual, **flags)
    decoder = json.JSONDecoder(strict=strict)
    return (lambda items: encoder.encode(items).encode(encoding)), (lambda data: decoder.decode(data.decode(encoding)))


def _are_separators(value: Any) -> bool:
    pair = isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(item, str) for item in value)
    return value is None or pair


def _msgpack(spec: CodecSpec) -> tuple[Callable[[list[Any]], bytes], Callable[[bytes], Any]]:
    """Return the functions that write and read MessagePack with the options of the codec."""
    check_options(spec, "use_single_float", "use_bin_type", "raw", "encoding")
    msgpack = library("msgpack")
    usual: Mapping[str, bool] = {"use_single_float": False, "use_bin_type": True, "raw": False}
    flags = {name: option(spec, name, value, lambda value: isinstance(value, bool)) for name, value in usual.items()}
    raw = flags.pop("raw")

    def loads(data: bytes) -> Any:
        items = msgpack.unpackb(data, raw=raw, strict_map_key=False)
        if raw and isinstance(items, list) and items and isinstance(items[-1], bytes):
            items[-1] = items[-1].decode()
        return items

    return (lambda items: bytes(msgpack.packb(items, **flags))), loads
