"""What formats share on codecs: byte order, order of axes, shuffle, lost elements, and codecs of one format only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import EXTENDED_DTYPES
from tegula.metadata.nodes import CodecSpec

__all__ = [
    "automatic_shuffle", "byte_order_codec", "check_delta", "check_lzma", "fortran_order", "is_fortran_order",
    "portable", "shuffle_name", "shuffle_number", "stated_endian", "with_endian", "without_blocks",
]  # fmt: skip

_CONTAINER, _PICKLE = "blpk", "bcolz.pickle"
_LZ4: Final = CodecSpec("numcodecs.lz4", {"acceleration": 1})
_SHUFFLES: Final[dict[Any, int]] = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def byte_order_codec(dtype: np.dtype[Any]) -> CodecSpec:
    """Return the ``bytes`` codec for elements whose dtype states their byte order.

    Examples
    --------
    >>> byte_order_codec(np.dtype(">i4")).configuration, byte_order_codec(np.dtype("u1")).configuration
    ({'endian': 'big'}, {})
    """
    # types without a byte order of their own, such as bfloat16, are little-endian
    order = (
        "<"
        if dtype in EXTENDED_DTYPES
        else dtype.newbyteorder("=").str[0]
        if dtype.byteorder == "="
        else dtype.byteorder
    )
    if order in "<>":
        return CodecSpec("bytes", {"endian": "little" if order == "<" else "big"})
    return CodecSpec("bytes")


def stated_endian(codecs: Iterable[CodecSpec]) -> Any:
    """Return the option ``endian`` of the ``bytes`` codec, or ``None`` if there is no such codec or option."""
    return next((codec.configuration.get("endian") for codec in codecs if codec.name == "bytes"), None)


def with_endian(dtype: np.dtype[Any], endian: Any) -> np.dtype[Any]:
    """Return `dtype` with the byte order ``"little"`` or ``"big"``; ``None`` keeps its own.

    Examples
    --------
    >>> with_endian(np.dtype("<i4"), "big")
    dtype('>i4')
    """
    return dtype if endian is None else dtype.newbyteorder("<" if endian == "little" else ">")


def fortran_order(ndim: int) -> CodecSpec:
    """Return the ``transpose`` codec of chunks in Fortran order.

    Examples
    --------
    >>> fortran_order(3).configuration
    {'order': [2, 1, 0]}
    """
    return CodecSpec("transpose", {"order": [*range(ndim)][::-1]})


def is_fortran_order(order: Any, key: str) -> bool:
    """Return whether the member ``order`` of a document is ``"F"`` and not ``"C"``.

    Raises
    ------
    MetadataError
        If it is neither.
    """
    if order not in ("C", "F"):
        raise MetadataError(f"order must be C or F, not {order!r:.40}", key=key, field="order")
    return bool(order == "F")


def shuffle_number(shuffle: Any) -> Any:
    """Convert Blosc's ``shuffle`` from the names of Zarr v3 to the numbers of numcodecs; numbers stay.

    Examples
    --------
    >>> shuffle_number("bitshuffle"), shuffle_number(-1)
    (2, -1)
    """
    return _SHUFFLES.get(shuffle, shuffle) if isinstance(shuffle, str) else shuffle


def shuffle_name(number: Any) -> str | None:
    """Return the name in Zarr v3 of one of Blosc's ``shuffle`` numbers, or ``None`` for any other value.

    Examples
    --------
    >>> shuffle_name(2), shuffle_name(7)
    ('bitshuffle', None)
    """
    return next((name for name, value in _SHUFFLES.items() if value == number), None)


def automatic_shuffle(shuffle: Any, itemsize: int) -> Any:
    """Replace -1, numcodecs' automatic choice, by the filter that it means: bits for single bytes, otherwise bytes.

    Examples
    --------
    >>> automatic_shuffle(-1, 1), automatic_shuffle(-1, 8), automatic_shuffle(0, 8)
    (2, 1, 0)
    """
    if shuffle != -1:
        return shuffle
    return 2 if itemsize == 1 else 1


def check_lzma(codec: CodecSpec) -> None:
    """Refuse what numcodecs encodes, but can't decode: LZMA with custom filters in a container that states them, too.

    Raises
    ------
    UnsupportedError
        If the codec is of this kind.
    """
    options = codec.configuration
    if codec.name == "numcodecs.lzma" and options.get("filters") and options.get("format", 1) != 3:
        raise UnsupportedError("numcodecs can't decode lzma with filters; choose format 3, raw", codec=codec.name)


def check_delta(codecs: Iterable[CodecSpec], dtype: np.dtype[Any]) -> None:
    """Refuse differences of booleans, which numcodecs decodes as other values.

    Parameters
    ----------
    codecs : iterable of CodecSpec
        The codecs of an array.
    dtype : dtype
        The type of its elements, which ``delta`` takes if its options state none and it is the first filter.

    Raises
    ------
    UnsupportedError
        If ``delta`` takes booleans.
    """
    taken: str | None = dtype.str
    for codec in codecs:
        stated = codec.configuration.get("dtype")
        if codec.name == "numcodecs.delta" and (taken if stated is None else stated) in ("|b1", "b1", "?", "bool"):
            raise UnsupportedError("booleans can't be restored from their differences", codec=codec.name)
        if codec.name not in ("bytes", "transpose"):
            taken = None


def portable(codecs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Return codecs without bcolz's container, pickles and stated type size, and without the blocks of N5.

    Examples
    --------
    >>> portable((CodecSpec("numcodecs.blosc", {"clevel": 5, "typesize": 8}), CodecSpec("blpk")))
    (CodecSpec(name='numcodecs.blosc', configuration={'clevel': 5}, must_understand=True),)
    """
    out = []
    for codec in without_blocks(codecs):
        if codec.name == _PICKLE:
            out.append(CodecSpec("numcodecs.pickle"))
        elif codec.name in ("lz4block", "z5.lz4"):
            out.append(_LZ4)
        elif codec.name == "numcodecs.blosc" and "typesize" in codec.configuration:
            kept = {name: value for name, value in codec.configuration.items() if name != "typesize"}
            out.append(CodecSpec(codec.name, kept))
        elif codec.name != _CONTAINER:
            out.append(codec)
    return tuple(out)


def without_blocks(codecs: Iterable[CodecSpec]) -> tuple[CodecSpec, ...]:
    """Return codecs with those behind the header of an N5 block instead of ``n5_default``.

    Two reversals of the axes, one after the other, are left out.

    Examples
    --------
    >>> order = {"name": "transpose", "configuration": {"order": [1, 0]}}
    >>> block = CodecSpec("n5_default", {"codecs": [order, "bytes", "zstd"]})
    >>> [codec.name for codec in without_blocks((CodecSpec("transpose", {"order": [1, 0]}), block))]
    ['bytes', 'zstd']
    """
    out: list[CodecSpec] = []
    for codec in codecs:
        if codec.name != "n5_default":
            out.append(codec)
            continue
        order, *others = [
            CodecSpec(item) if isinstance(item, str) else CodecSpec(item["name"], item.get("configuration", {}))
            for item in codec.configuration["codecs"]
        ]
        reverse = [*order.configuration["order"]]
        if out and out[-1].name == "transpose" and [*out[-1].configuration.get("order", ())] == reverse:
            out.pop()
        elif len(reverse) > 1:
            out.append(order)
        out += others
    return tuple(out)
