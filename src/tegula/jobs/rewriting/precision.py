"""The precision of converted arrays: which values, types and attributes the arguments of a conversion ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.masks import attribute_of
from tegula.errors import MetadataError, UnsupportedError
from tegula.formats import find_format
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata, CodecSpec
from tegula.reductions.dtypes import computable, is_floating, is_integer, is_number
from tegula.reductions.precision import BITS, Precision, bounds_of, cast

__all__ = ["check_packing", "described", "precision_of"]

_SCALE: Final = "scale_factor"
_OFFSET: Final = "add_offset"
_OF_TYPE: Final = ("dtype", "astype", "encode_dtype", "decode_dtype", "elementsize", "typesize")
_LOSSY: Final = frozenset(
    {"cast_value", "scale_offset", "packbits", "bitround", "zfp"}
    | {f"numcodecs.{name}" for name in ("astype", "bitround", "categorize", "fixedscaleoffset", "packbits", "quantize")}
)


def precision_of(
    source: Array, dtype: DataType | None, packing: tuple[float, float] | None, keepbits: int | None
) -> Precision | None:
    """Return the change of the values of an array, ``None`` without any.

    Raises
    ------
    MetadataError, UnsupportedError
        If the arguments do not fit the array.
    """
    if dtype is None and packing is None and keepbits is None:
        return None
    old = source.metadata.data_type
    new = dtype or old
    location = source.location
    if not is_number(old.numpy):
        raise UnsupportedError(f"elements of type {old} can't be converted to another precision", path=location)
    if (old.numpy.kind == "c") != (new.numpy.kind == "c") and (packing is not None or old.numpy.kind == "c"):
        raise UnsupportedError(f"{old} can't become {new}", path=location, field="dtype")

    # packing, and the value for missing data
    masks = tuple(_masks_of(source))
    missing = None
    if packing is not None:
        attributes = source.metadata.attributes
        if _SCALE in attributes or _OFFSET in attributes:
            raise MetadataError(f"the values are packed already: the array has the attribute {_SCALE} or {_OFFSET}",
                                path=location, field="scale_offset")  # fmt: skip
        if dtype is None or not (is_integer(new.numpy) or is_floating(new.numpy)) or new.numpy.kind == "b":
            raise MetadataError(
                "scale and offset need a dtype to pack values in, such as 'i2'", path=location, field="dtype"
            )
        if is_integer(new.numpy):
            low, high = bounds_of(new.numpy)
            missing = np.asarray(high if low == 0 else low).astype(new.numpy)
    elif masks and new != old:
        missing = _as_missing(masks[0], new.numpy, location)
    elif masks and keepbits is not None:
        missing = np.asarray(masks[0]).astype(new.numpy)
    if keepbits is not None:
        size = new.numpy.itemsize
        if new.numpy.kind != "f" or size not in BITS:
            raise UnsupportedError(
                f"bitround is for floating-point numbers of 2, 4 or 8 bytes, not for {new}",
                path=location,
                field="bitround",
            )
        if keepbits > BITS[size]:
            raise MetadataError(
                f"{new} has {BITS[size]} bits of the fraction, fewer than {keepbits}", path=location, field="bitround"
            )
    change = Precision(new, packing, keepbits, masks, missing)
    return None if replace(change, masks=(), missing=None) == Precision(old) else change


def _masks_of(source: Array) -> list[Any]:
    """Return the values that mark missing data, NaN included if ``_FillValue`` says so."""
    conventions = source.conventions
    fill, masks = conventions.fill, conventions.stored_masks
    return [fill[()], *masks] if fill is not None and fill.dtype.kind == "f" and np.isnan(fill) else masks


def _as_missing(mask: Any, dtype: np.dtype[Any], location: str) -> npt.NDArray[Any]:
    """Return the value that marks missing data in another type."""
    if is_floating(dtype) and isinstance(mask, (float, np.floating)) and np.isnan(mask):
        return np.asarray(np.nan).astype(dtype)
    with np.errstate(all="ignore"):
        new, bad = cast(computable(np.asarray(mask).reshape(1)), dtype)
    if bad is not None and bad.any():
        raise UnsupportedError(
            f"{mask!r} marks missing data and is out of the range of {dtype}: pass scale_offset=(1, 0), which chooses "
            "another value",
            path=location,
            field="dtype",
        )
    return new.reshape(())


def described(source: Array, draft: ArrayMetadata, precision: Precision, *, own_codecs: bool) -> ArrayMetadata:
    """Describe the new array: its type, fill value, and the attributes with which readers of CF data unpack it.

    `draft` has the type of the source, in the conventions of the source's format, and with `own_codecs` the codecs of
    the source, which may depend on its type.
    """
    attributes = dict(draft.attributes)
    fill = None if source.metadata.fill_value is None else precision.of_fill(source.stored.fill)
    if precision.packing is not None:
        attributes |= {_SCALE: precision.packing[0], _OFFSET: precision.packing[1]}
    if precision.missing is not None:
        attributes.pop("missing_value", None)
        if draft.dimension_names is not None and find_format(draft.format).mask == "fill_value":
            attributes.pop("_FillValue", None)
            fill = precision.missing
        else:
            attributes["_FillValue"] = attribute_of(precision.missing[()], precision.data_type, draft)
    codecs = draft.codecs
    if own_codecs and precision.data_type != draft.data_type:
        codecs = tuple(_without_type(codec) for codec in codecs if codec.name not in _LOSSY)
    return replace(draft, data_type=precision.data_type, fill_value=fill, attributes=attributes, codecs=codecs)


def _without_type(codec: CodecSpec) -> CodecSpec:
    options = {name: value for name, value in codec.configuration.items() if name not in _OF_TYPE}
    return replace(codec, configuration=options)


def check_packing(value: Any) -> tuple[float, float]:
    """Return a scale and an offset as floats.

    Raises
    ------
    MetadataError
        If they are not.
    """
    try:
        scale, offset = (float(number) for number in value)
    except (TypeError, ValueError, OverflowError):
        scale, offset = 0.0, 0.0
    if isinstance(value, (str, Mapping)) or not (isfinite(scale) and isfinite(offset)) or scale == 0:
        raise MetadataError(f"{value!r:.80} is not a scale and an offset: two numbers", field="scale_offset")
    return scale, offset
