"""``bytes``: the elements of a chunk in C order (Zarr v3 core, "bytes codec").

It returns a one-dimensional array instead of bytes, so that the codecs after it know the size of an element: Blosc
needs it for shuffling, and filters of Zarr v2 work on elements.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np

from tegula.codecs.native import NativeElements
from tegula.codecs.stages import (
    Chunk,
    Context,
    Data,
    Decoder,
    Serializer,
    Shape,
    check_options,
    exportable,
    nbytes,
    option,
    wrong_size,
)
from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import EXTENDED_DTYPES, packed
from tegula.metadata.nodes import CodecSpec

__all__ = ["Bytes", "build"]

_ORDERS: Final = {"little": "<", "big": ">", None: None}


class Bytes(Serializer):
    """The codec for one dtype and one stored byte order.

    Parameters
    ----------
    dtype : numpy.dtype
        Type of the elements in memory.
    order : "<", ">" or None
        Stored byte order; ``None`` for that of `dtype`.

    Examples
    --------
    >>> Bytes(np.dtype("<u2"), ">").encode(np.array([1, 2], "<u2")).tobytes()
    b'\\x00\\x01\\x00\\x02'
    """

    name = "bytes"

    def __init__(self, dtype: np.dtype[Any], order: Literal["<", ">"] | None) -> None:
        self.dtype = self.memory = self.stored = dtype
        if order is not None:
            self.memory = _swappable(dtype)
            self.stored = self.memory.newbyteorder(order)
            if self.stored == self.memory:
                self.memory = self.stored = dtype
        self.buffer = exportable(self.stored)
        self.padded = packed(dtype).itemsize != dtype.itemsize
        if self.stored == dtype and not any(True for _ in _string_fields(dtype)):
            self.plain = self.stored

    @property
    def native(self) -> NativeElements | None:
        dtype, swaps = self.dtype, self.stored != self.dtype
        if dtype.itemsize == 0:
            return None
        if dtype.names is not None and (swaps or self.padded or any(_string_fields(dtype))):
            return None
        parts = {"c": 2, "U": dtype.itemsize // 4}.get(dtype.kind, 1)
        return NativeElements(dtype.itemsize, dtype.itemsize // parts if swaps else 0, is_text=dtype.kind == "U")

    def size(self, shape: Shape) -> int:
        return nbytes(shape, self.dtype)

    def encode(self, chunk: Chunk) -> Data:
        if self.memory is not self.dtype:
            chunk = np.ascontiguousarray(chunk).view(self.memory)
        if self.padded:  # the bytes between the fields are undefined; store zeros
            records, chunk = chunk, np.zeros(chunk.shape, self.stored)
            chunk[...] = records
        return np.ascontiguousarray(chunk, self.stored).reshape(-1).view(self.buffer)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        size, stored, memory, dtype = self.size(shape), self.stored, self.memory, self.dtype
        ndarray, strings = np.ndarray, [*_string_fields(stored)]

        def decode(data: Data) -> Chunk:
            if len(data) != size:
                raise wrong_size(len(data), size, "bytes")
            chunk = ndarray(shape, stored, data)
            if strings:
                _check_code_points(chunk, strings)
            return chunk

        def decode_swapped(data: Data) -> Chunk:
            return decode(data).astype(memory).view(dtype)

        return decode if stored == dtype else decode_swapped


def _swappable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type of the same layout whose bytes NumPy can swap: with integers for those of other libraries."""
    if dtype in EXTENDED_DTYPES or (dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic"):
        return np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)
    if dtype.names is None:
        return dtype
    fields = [_swappable(dtype[name]) for name in dtype.names]
    if all(new is dtype[name] for new, name in zip(fields, dtype.names)):
        return dtype
    places: Any = dtype.fields
    offsets = [places[name][1] for name in dtype.names]
    layout = {"names": [*dtype.names], "formats": fields, "offsets": offsets, "itemsize": dtype.itemsize}
    return np.dtype(layout)  # type: ignore[call-overload, no-any-return]


def _string_fields(dtype: np.dtype[Any]) -> Iterator[tuple[str, ...]]:
    """Yield the names that lead to each field of Unicode strings; an empty tuple if the elements are strings."""
    dtype = dtype.base
    if dtype.names is not None:
        for name in dtype.names:
            yield from ((name, *path) for path in _string_fields(dtype[name]))
    elif dtype.kind == "U" and dtype.itemsize:
        yield ()


def _check_code_points(chunk: Chunk, fields: list[tuple[str, ...]]) -> None:
    """Raise for invalid code points, which NumPy would report only when an element is accessed."""
    for names in fields:
        text = chunk
        for name in names:
            text = text[name]
        codes = text[..., None].view(np.dtype("u4").newbyteorder(text.dtype.byteorder))
        if codes.size and codes.max() > sys.maxunicode:
            raise CodecError(f"a string holds {codes.max():#x}, which is not a Unicode code point", codec="bytes")


def build(spec: CodecSpec, context: Context) -> Bytes:
    """Build the codec with the option ``endian``; without it the elements keep the byte order of the data type.

    Elements of a type that has none are then little-endian on every machine.
    """
    check_options(spec, "endian")
    order = option(spec, "endian", None, _ORDERS)
    if context.data_type.variable:
        raise MetadataError(f"elements of type {context.data_type} have no fixed size", field="codecs", codec="bytes")
    if order is None and context.data_type.numpy.byteorder == "=":
        order = "<"
    return Bytes(context.data_type.numpy, order)
