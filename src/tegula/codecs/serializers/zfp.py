"""``zfp``: numbers compressed by zfp, without a header (Zarr extensions registry, "ZFP codec").

The mode is in the codec's configuration. Types that zfp lacks are converted to wider ones, as the registry says. The
library reads past the end of a truncated stream, so this module appends as many zero bytes as decoding may read.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from tegula.codecs.serializers.zfpy import field_header
from tegula.codecs.stages import (
    REQUIRED,
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
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.data_types import EXTENDED
from tegula.metadata.nodes import CodecSpec
from tegula.runtime.quantities import is_finite

__all__ = ["Zfp", "build"]

_NAME: Final = "zfp"
_MODES: Final = {
    "reversible": (), "fixed_accuracy": ("tolerance",), "fixed_rate": ("rate",), "fixed_precision": ("precision",),
    "expert": ("minbits", "maxbits", "maxprec", "minexp"),
}  # fmt: skip
_BITS: Final = 31  # of the integers that narrow ones are shifted to
_U32: Final = between(0, 2**32 - 1)
_MAXBITS, _MAXPREC, _MINEXP = 16658, 64, -1074  # what zfp means by "no limit"


class Zfp(Serializer):
    """Zfp in one of its modes.

    Parameters
    ----------
    options : dict
        The options of the mode, by their names in ``zfpy``; for the expert mode its four numbers.
    dtype : numpy.dtype
        Type of the elements.
    wide : numpy.dtype
        Type of the numbers that zfp compresses.
    """

    name = _NAME

    def __init__(self, options: dict[str, Any], dtype: np.dtype[Any], wide: np.dtype[Any]) -> None:
        self.options = options
        self.dtype = dtype
        self.wide = wide
        self.shift = _BITS - 8 * dtype.itemsize if dtype.kind in "iu" and dtype.itemsize < wide.itemsize else 0

    def load(self) -> None:
        library("zfpy")

    def encode(self, chunk: Chunk) -> Data:
        if "minexp" in self.options:
            raise UnsupportedError("zfpy, the library for zfp, can't write its expert mode", codec=_NAME)
        values = self._widened(chunk.astype(chunk.dtype.newbyteorder("="))).reshape(chunk.shape or (1,))
        return library("zfpy").compress_numpy(np.ascontiguousarray(values), **self.options, write_header=False)

    def _widened(self, chunk: Chunk) -> Chunk:
        """Convert elements to the type that zfp compresses."""
        if self.shift:
            offset = 1 << 8 * self.dtype.itemsize - 1 if self.dtype.kind == "u" else 0
            return (chunk.astype("i4") - np.int32(offset)) << np.int32(self.shift)
        if self.dtype.kind == "u" and chunk.size and chunk.max() > np.iinfo(self.wide).max:
            raise CodecError(f"zfp has no values above {np.iinfo(self.wide).max}", codec=_NAME)
        return chunk.view("i8") if self.dtype.kind in "mM" else chunk.astype(self.wide)

    def decoder(self, shape: Shape, limit: int) -> Decoder:
        field = shape or (1,)
        blocks = prod(-(-length // 4) for length in field)
        # a block has 4 values along each axis, and no value takes more than twice its size in memory
        most = 2 * blocks * 4 ** len(field) * self.wide.itemsize + 4096

        def decode(data: Data) -> Chunk:
            if 8 * len(data) < blocks:  # each block takes a bit at least
                raise CodecError("the zfp data is truncated", codec=_NAME)
            return self._narrowed(self._decoded(bytes(data), field, most)).reshape(shape)

        return decode

    def _decoded(self, data: bytes, field: Shape, margin: int) -> Chunk:
        zfpy = library("zfpy")
        if "minexp" in self.options:  # only a header can state this mode
            head, bits = field_header(self.wide, field, **self.options)
            stream = head | int.from_bytes(data, "little") << bits
            size = len(data) + (bits + 7) // 8
            return np.asarray(zfpy.decompress_numpy(stream.to_bytes(size, "little") + bytes(margin)))
        ztype = zfpy.dtype_to_ztype(self.wide)
        return np.asarray(zfpy._decompress(data + bytes(margin), ztype, field, **self.options))

    def _narrowed(self, values: Chunk) -> Chunk:
        """Convert decoded numbers to the type of the elements."""
        values = values.reshape(-1)
        if self.shift:
            limits = np.iinfo(self.dtype)
            offset = 1 << 8 * self.dtype.itemsize - 1 if self.dtype.kind == "u" else 0
            values = np.clip((values >> np.int32(self.shift)) + np.int32(offset), limits.min, limits.max)
        elif self.dtype.kind == "u":
            values = np.maximum(values, 0)
        elif self.dtype.kind in "mM":
            return values.astype("i8", copy=False).view(self.dtype.newbyteorder("=")).astype(self.dtype, copy=False)
        with np.errstate(over="ignore"):
            return values.astype(self.dtype)


def build(spec: CodecSpec, context: Context) -> Zfp:
    """Build the codec with the option ``mode`` and those of the mode."""
    mode = option(spec, "mode", REQUIRED, {name: name for name in _MODES})
    check_options(spec, "mode", *_MODES[mode])
    options: dict[str, Any] = {}
    if mode == "fixed_precision":
        options["precision"] = option(spec, "precision", REQUIRED, between(1, 64))
    elif mode == "expert":
        options = {name: option(spec, name, REQUIRED, _U32) for name in ("minbits", "maxbits", "maxprec")}
        options["minexp"] = option(spec, "minexp", REQUIRED, between(-(2**31), 2**31 - 1))
        if not _has_header(**options):
            raise UnsupportedError("this expert mode of zfp has no form in a header", codec=_NAME)
    elif mode != "reversible":
        name = _MODES[mode][0]
        options[name] = float(option(spec, name, REQUIRED, _is_positive))

    dtype, machine = context.data_type.numpy, context.data_type.numpy.newbyteorder("=")
    wide: np.dtype[Any]
    narrow = dtype.kind in "iu" and dtype.itemsize < 4
    if (dtype.kind == "f" and dtype.itemsize == 2) or dtype == EXTENDED["bfloat16"]:
        wide = np.dtype("f4")
    elif dtype.kind in "mM":
        wide = np.dtype("i8")
    else:
        wide = np.dtype("i4") if narrow else np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" else machine
    is_number = dtype.kind in "iufmM" or dtype == EXTENDED["bfloat16"]
    if context.data_type.variable or not is_number or wide.itemsize not in (4, 8) or context.ndim > 4:
        raise MetadataError(
            f"zfp takes numbers of up to 64 bits in up to 4 dimensions, not {context.data_type} in {context.ndim}",
            field="codecs",
            codec=_NAME,
        )
    library("zfpy")
    return Zfp(options, dtype, wide)


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and is_finite(value) and value > 0


def _has_header(minbits: int, maxbits: int, maxprec: int, minexp: int) -> bool:
    bits = (1 <= minbits <= 2**15, 1 <= maxbits <= 2**15, 1 <= maxprec <= 2**7, -16495 <= minexp <= 2**15 - 16496)
    return all(bits) and minbits <= maxbits
