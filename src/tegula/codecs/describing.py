"""Descriptions of codec chains for the compiled kernel, made of the structures of `tegula.codecs.native`.

The kernel supports the order of axes, byte order, shards, and bytes→bytes codecs. A chain is described exactly or not
at all; the reference executor handles chains without a description.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.codecs.native import (
    NativeBitRound,
    NativeChain,
    NativeCodec,
    NativeDelta,
    NativeElements,
    NativeFixedScaleOffset,
    NativePlain,
    NativeQuantize,
    NativeSerializer,
    NativeShuffle,
)
from tegula.codecs.stages import ArrayCodec, BufferCodec, Serializer
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import replace

if TYPE_CHECKING:
    from tegula.codecs import transpose
else:
    transpose = Later("tegula.codecs.transpose")

__all__ = ["describe", "filter_native", "runs_in_kernel"]

_MANTISSA: Final = {2: 10, 4: 23, 8: 52}
_WIDEST: Final = 8
_INTEGERS: Final = range(-(2**63), 2**63)
_DIGITS: Final = range(-400, 401)
_STRINGS: Final = ("vlen-utf8", "vlen-bytes")
_STRUCTURE: Final = frozenset(
    {
        "bytes", "transpose", "reshape", "zarrs.squeeze", "sharding_indexed", "n5_default", *_STRINGS,
        *(f"numcodecs.{name}" for name in _STRINGS),
    }
)  # fmt: skip
_CORE: Final = frozenset({"bitround", "blosc", "gzip", "zstd", "crc32c", "blpk", "lz4block"})


def describe(
    arrays: Sequence[ArrayCodec], serializer: Serializer, buffers: Sequence[BufferCodec]
) -> NativeChain | None:
    """Describe a chain of codecs.

    Returns
    -------
    NativeChain or None
        ``None`` if the kernel does not support the whole chain.

    Examples
    --------
    >>> from tegula.codecs import build_chain
    >>> from tegula.metadata.data_types import as_data_type
    >>> from tegula.metadata.nodes import CodecSpec
    >>> specs = [CodecSpec("bytes", {"endian": "big"}), CodecSpec("gzip", {"level": 1})]
    >>> native = build_chain(specs, as_data_type("<c16"), None, ndim=1).native
    >>> native.serializer, native.buffers
    (NativeElements(itemsize=16, swap=8, is_text=False), (NativeLevel(name='gzip', level=1),))
    """
    order: tuple[int, ...] | None = None
    filters: list[NativeCodec | None] = []
    is_reshaped = False
    for codec in arrays:
        if codec.name == "reshape":
            is_reshaped = True  # the elements stay in C order
        elif is_reshaped and isinstance(codec, transpose.Transpose):
            return None  # the kernel knows one shape of a chunk
        elif not isinstance(codec, transpose.Transpose):
            filters.append(codec.native)
        elif filters:
            return None  # filters get the elements in another order than that of the bytes
        else:
            order = _then(order, codec.order)
    middle = serializer.native if not is_reshaped or serializer.sharding is None else None
    later: list[NativeCodec] = []
    if isinstance(middle, NativeChain):
        if filters:
            return None
        order, later, middle = _then(order, middle.order), [*middle.buffers], middle.serializer
    for native in (*filters, *(codec.native for codec in buffers)):
        if native is None:
            return None
        later.append(native)
    if filters and middle is not None:
        middle = _before_filters(arrays, middle)
    return None if middle is None else NativeChain(order, middle, tuple(later))


def _then(order: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the order of axes after two transpositions; ``None`` if it is the same as before."""
    if order is None or other is None:
        return order or other
    both = tuple(order[axis] for axis in other)
    return None if both == tuple(range(len(both))) else both


def runs_in_kernel(name: str, kernel: Collection[str]) -> bool:
    """Return whether a kernel with the codecs `kernel` supports the codec `name` of a chain.

    Examples
    --------
    >>> runs_in_kernel("numcodecs.zlib", ["zlib"]), runs_in_kernel("vlen-array", ["zlib"])
    (True, False)
    """
    known = name.removeprefix("numcodecs.")
    return name in _STRUCTURE or (known in kernel and (known != name or name in _CORE))


def _before_filters(arrays: Sequence[ArrayCodec], middle: NativeSerializer) -> NativeElements | None:
    """Return the layout of the elements that filters process, if the bytes before the filters are these elements."""
    first = next(codec for codec in arrays if codec.name not in ("transpose", "reshape"))
    dtype = first.before.numpy
    if not isinstance(middle, NativeElements) or middle.swap or middle.is_text or dtype.kind == "U":
        return None
    return replace(middle, itemsize=dtype.itemsize)


def filter_native(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    """Describe a filter of numcodecs.

    Parameters
    ----------
    codec : numcodecs.abc.Codec
        The filter.
    input_type : numpy.dtype or None
        Type of the elements to filter; ``None`` for bytes.

    Examples
    --------
    >>> import numcodecs
    >>> filter_native(numcodecs.Delta("<i4", "<i2"), None)
    NativeDelta(dtype='<i4', astype='<i2', name='delta')
    """
    kind = type(codec)
    if not kind.__module__.startswith("numcodecs."):  # of another library, registered under a name of numcodecs
        return None
    describer = _FILTERS.get(kind.__name__)
    return None if describer is None else describer(codec, input_type)


def _shuffle(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    return NativeShuffle(codec.elementsize) if 0 < codec.elementsize < 2**31 else None


def _fletcher32(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec:
    return NativePlain("fletcher32")


def _packbits(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    return NativePlain("packbits") if input_type is not None and input_type.kind == "b" else None


def _delta(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    are_integers = {codec.dtype.kind, codec.astype.kind} <= {"i", "u"}
    if not _numbers(codec) or not (are_integers or codec.dtype == codec.astype):
        return None
    return NativeDelta(codec.dtype.str, codec.astype.str)


def _fixed_scale_offset(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    if not (_numbers(codec) and _is_number(codec.offset) and _is_number(codec.scale)):
        return None
    return NativeFixedScaleOffset(codec.offset, codec.scale, codec.dtype.str, codec.astype.str)


def _quantize(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    if not _numbers(codec) or type(codec.digits) is not int or codec.digits not in _DIGITS:
        return None
    return NativeQuantize(codec.digits, codec.dtype.str, codec.astype.str)


def _bit_round(codec: Any, input_type: np.dtype[Any] | None) -> NativeCodec | None:
    if input_type is None or input_type.kind != "f" or not input_type.isnative or type(codec.keepbits) is not int:
        return None
    return (
        NativeBitRound(codec.keepbits, input_type.str)
        if codec.keepbits <= _MANTISSA.get(input_type.itemsize, -1)
        else None
    )


def _numbers(codec: Any) -> bool:
    return all(dtype.kind in "iuf" and dtype.itemsize <= _WIDEST for dtype in (codec.dtype, codec.astype))


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and value in _INTEGERS)


_FILTERS: Final = {
    "Shuffle": _shuffle,
    "Fletcher32": _fletcher32,
    "PackBits": _packbits,
    "Delta": _delta,
    "FixedScaleOffset": _fixed_scale_offset,
    "Quantize": _quantize,
    "BitRound": _bit_round,
}
