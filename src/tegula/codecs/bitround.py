"""``bitround``: numbers rounded to fewer significant bits, ties to even (Zarr extensions registry, "bitround codec").

Of floating-point numbers the bits of the fraction are rounded, as by ``numcodecs.bitround``, and of integers those from
the highest bit that is set. Decoding changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tegula.codecs.native import NativeBitRound
from tegula.codecs.stages import REQUIRED, ArrayCodec, Chunk, Context, Decoder, Shape, between, check_options, option
from tegula.errors import MetadataError
from tegula.metadata.data_types import EXTENDED, DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["BitRound", "build"]

_NAME: Final = "bitround"
_FRACTIONS: Final = {"float16": 10, "float32": 23, "float64": 52, "bfloat16": 7}
_HALF: Final = 32


class BitRound(ArrayCodec):
    """The codec that keeps some bits of each number.

    Parameters
    ----------
    keepbits : int
        Number of bits to keep.
    data_type : DataType
        Type of the elements.
    number : numpy.dtype
        Type of the numbers in an element: of its two parts, if it is complex.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> BitRound(2, as_data_type("u1"), np.dtype("u1")).encode(np.array([3, 5, 11], "u1")).tolist()
    [3, 4, 12]
    """

    name = _NAME

    def __init__(self, keepbits: int, data_type: DataType, number: np.dtype[Any]) -> None:
        self.keepbits = keepbits
        self.data_type = self.before = data_type
        self.fraction = _FRACTIONS.get(number.name)
        self.bits = np.dtype(f"u{number.itemsize}")
        self.number = number

    @property
    def native(self) -> NativeBitRound | None:
        is_known = self.number.kind == "f" and self.number.isnative and self.keepbits <= (self.fraction or 0)
        return NativeBitRound(self.keepbits, self.number.str) if is_known else None

    def encode(self, chunk: Chunk) -> Chunk:
        native = chunk.astype(chunk.dtype.newbyteorder("="), order="C")
        words = native.reshape(-1).view(self.bits)
        dropped = max(0, self.fraction - self.keepbits) if self.fraction is not None else self._dropped(words)
        if isinstance(dropped, int):
            if dropped:
                _round_floats(words, dropped)
        else:
            _round_integers(words, dropped)
        return native.reshape(chunk.shape).astype(chunk.dtype, copy=False)

    def _dropped(self, words: Chunk) -> Chunk:
        """Return for each integer how many bits are dropped."""
        if words.dtype.itemsize == 8:  # a float has no room for 64 bits
            high, low = (words >> np.uint64(_HALF)), words & np.uint64(2**_HALF - 1)
            lengths = np.where(high > 0, np.frexp(high.astype("f8"))[1] + _HALF, np.frexp(low.astype("f8"))[1])
        else:
            lengths = np.frexp(words.astype("f8"))[1]
        dropped: Chunk = np.maximum(lengths - self.keepbits, 0).astype(words.dtype)
        return dropped

    def decoder(self, shape: Shape) -> Decoder:
        return lambda chunk: chunk


def _round_floats(words: Chunk, dropped: int) -> None:
    """Round the bits of floating-point numbers in place, as numcodecs and the kernel do."""
    kind = words.dtype.type
    words += ((words >> kind(dropped)) & kind(1)) + kind((1 << (dropped - 1)) - 1)
    words &= kind((np.iinfo(words.dtype).max >> dropped) << dropped)


def _round_integers(words: Chunk, dropped: Chunk) -> None:
    """Round the bits of integers in place; the largest values do not overflow."""
    one, most = words.dtype.type(1), np.iinfo(words.dtype).max
    chosen = dropped > 0
    values, shift = words[chosen], dropped[chosen]
    more = ((values >> shift) & one) + ((one << (shift - one)) - one)
    words[chosen] = ((np.where(values > most - more, most, values + more)).astype(words.dtype) >> shift) << shift


def build(spec: CodecSpec, context: Context) -> BitRound:
    """Build the codec with the option ``keepbits``."""
    check_options(spec, "keepbits")
    keepbits = option(spec, "keepbits", REQUIRED, between(0, 2**31 - 1))
    data_type, dtype = context.data_type, context.data_type.numpy
    number = dtype
    if dtype.kind == "c":
        number = np.dtype(f"{dtype.byteorder}f{dtype.itemsize // 2}")
    elif data_type.complex_part is not None:
        number = data_type.complex_part
    is_integer = dtype.kind in "iumM"
    is_known = number.name in _FRACTIONS and (number.kind == "f" or number == EXTENDED["bfloat16"])
    if data_type.variable or not (is_integer or is_known):
        raise MetadataError(f"{data_type} can't be rounded to fewer bits", field="codecs", codec=_NAME)
    if is_integer and keepbits == 0:
        raise MetadataError("an integer keeps at least 1 bit", field="codecs.keepbits", codec=_NAME)
    return BitRound(keepbits, data_type, number)
