"""Reduced precision: values of another data type, packed by scale and offset, or with fewer bits, and their errors.

Packed values are those of CF: ``value = packed * scale_factor + add_offset``, in double precision, with an integer for
missing data. `Precision.apply` changes the values of one box and measures what is lost; losses of boxes merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.codecs.rounding import float_format, round_to_format
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.formats import find_format
from tegula.jobs.masks import attribute_of
from tegula.metadata.conventions import missing_in
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType
from tegula.metadata.nodes import ArrayMetadata, CodecSpec

__all__ = ["Loss", "Precision", "check_packing", "described", "is_floating", "is_number", "precision_of", "rounded"]

_SCALE: Final = "scale_factor"
_OFFSET: Final = "add_offset"
_BITS: Final = {2: 10, 4: 23, 8: 52}  # of the fraction, by bytes
_PIECE: Final = 2**17  # elements at a time, so that intermediate results stay in the processor's cache
_OF_TYPE: Final = ("dtype", "astype", "encode_dtype", "decode_dtype", "elementsize", "typesize")
_LOSSY: Final = frozenset(
    {"cast_value", "scale_offset", "packbits"}
    | {f"numcodecs.{name}" for name in ("astype", "bitround", "categorize", "fixedscaleoffset", "packbits", "quantize")}
)

Values = npt.NDArray[Any]


class Loss(NamedTuple):
    """The largest error of some values.

    Parameters
    ----------
    absolute, relative : float
        The largest difference, and the largest difference relative to the value; zeros have no relative error.
    """

    absolute: float = 0.0
    relative: float = 0.0

    def merge(self, other: Loss) -> Loss:
        """Return the largest errors of both.

        Examples
        --------
        >>> Loss(0.5, 0.1).merge(Loss(0.25, 0.2))
        Loss(absolute=0.5, relative=0.2)
        """
        return Loss(max(self.absolute, other.absolute), max(self.relative, other.relative))


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether a type holds numbers or booleans."""
    return dtype.kind in "biufc" or dtype in EXTENDED_DTYPES


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether a type holds real floating-point numbers."""
    return dtype.kind == "f" or (dtype in EXTENDED_DTYPES and "int" not in dtype.name)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biu" or (dtype in EXTENDED_DTYPES and "int" in dtype.name)


@dataclass(frozen=True, slots=True)
class Precision:
    """The change of the values of one array.

    Parameters
    ----------
    data_type : DataType
        The new type.
    packing : tuple of float, optional
        Scale and offset.
    keepbits : int, optional
        Bits of the fraction to keep.
    masks : tuple of scalar
        Values of the source that mark missing data.
    missing : 0-d ndarray, optional
        The new value that marks missing data.
    """

    data_type: DataType
    packing: tuple[float, float] | None = None
    keepbits: int | None = None
    masks: tuple[Any, ...] = ()
    missing: Values | None = None

    def apply(self, values: Values, start: Sequence[int]) -> tuple[Values, Loss]:
        """Return new values and their largest error.

        Parameters
        ----------
        values : ndarray
            A box of the source.
        start : sequence of int
            Where the box begins, for errors.

        Raises
        ------
        CodecError
            If the new type can't hold a value; the message says which and where.

        Examples
        --------
        >>> halves = Precision(DataType(np.dtype("i1")), packing=(0.5, 10.0))
        >>> halves.apply(np.array([10.0, 9.6, 11.5]), (0,))[0].tolist()
        [0, -1, 3]
        """
        flat = values.reshape(-1)
        out = np.empty(flat.size, self.data_type.numpy)
        loss = Loss()
        for first in range(0, flat.size, _PIECE):
            part = slice(first, first + _PIECE)
            known = _known(flat[part])
            is_missing = missing_in(known, self.masks)
            new, wrong, why = self._changed(known, is_missing)
            if wrong is not None:
                index_of = first + int(np.argmax(wrong))
                inner = np.unravel_index(index_of, values.shape)
                index = [int(number + outer) for number, outer in zip(inner, start)]
                raise CodecError(f"the value {flat[index_of]} at {index} {why}")
            out[part] = new
            loss = loss.merge(self._loss(known, out[part], is_missing))
        return out.reshape(values.shape), loss

    @np.errstate(all="ignore")
    def _changed(self, values: Values, is_missing: Values | None) -> tuple[Values, Values | None, str]:
        """Return new values; or which of them are wrong, and why."""
        dtype = self.data_type.numpy
        kept = is_missing if self.missing is not None else None
        if kept is not None and not _is_integer(dtype):
            kept = kept & ~np.isnan(values)  # NaN stays what it is
        if is_missing is not None and kept is None and _is_integer(dtype):
            return (
                values,
                is_missing,
                (f"is missing, and {dtype} has no value for that: pass scale_offset=(1, 0), which writes a _FillValue"),
            )
        numbers = values if kept is None else np.where(kept, np.zeros((), values.dtype), values)
        if self.packing is not None:
            scale, offset = self.packing
            numbers = (numbers.astype("f8") - offset) / scale
            if kept is not None:
                numbers[kept] = 0
        new, wrong = _cast(numbers, dtype)
        if wrong is None and self.keepbits is not None:
            finite = np.isfinite(new)
            new = rounded(new, self.keepbits)
            wrong = finite & ~np.isfinite(new)
        if wrong is not None and wrong.any():
            return values, wrong, f"is out of the range of {dtype}" + (" when packed" if self.packing else "")
        if self.missing is not None:
            clash = _equal(new, self.missing) if kept is None else _equal(new, self.missing) & ~kept
            if clash.any():
                return values, clash, f"would become {self.missing.item()!r}, the value that marks missing data"
            if kept is not None:
                new[kept] = self.missing
        return new, None, ""

    @np.errstate(all="ignore")
    def _loss(self, old: Values, new: Values, is_missing: Values | None) -> Loss:
        wide = "c16" if old.dtype.kind == "c" else "f8"
        before, after = old.astype(wide), _known(new).astype(wide)
        if self.packing is not None:
            after = after * self.packing[0] + self.packing[1]
        error = np.abs(after - before)
        counted = np.isfinite(error) if is_missing is None else np.isfinite(error) & ~is_missing
        error = np.where(counted, error, 0.0)
        size = np.abs(before)
        share = np.divide(error, size, out=np.zeros(error.shape), where=counted & (size > 0))
        return Loss(float(error.max(initial=0.0)), float(share.max(initial=0.0)))

    def fill(self, source: Array) -> Values | None:
        """Return the new fill value: that of the source, changed, or the value for missing data if it can't be changed.

        ``None`` if it is undefined, or if it can't be changed and no value marks missing data.
        """
        if source.metadata.fill_value is None:
            return None
        try:
            return self.apply(source.stored.fill.reshape(1), (0,))[0].reshape(())
        except CodecError:
            return self.missing

    @property
    def summary(self) -> str:
        """A note on the change."""
        parts = []
        if self.packing is not None:
            parts.append(f"packed as {self.data_type} with {_SCALE} {self.packing[0]!r}, {_OFFSET} {self.packing[1]!r}")
        if self.keepbits is not None:
            parts.append(f"rounded to {self.keepbits} bits of the fraction")
        if not parts:
            parts.append(f"converted to {self.data_type}")
        if self.missing is not None and self.packing is not None:
            parts.append(f"{self.missing.item()!r} marks missing data")
        return f"the values are {', '.join(parts)}"


def _known(values: Values) -> Values:
    """Return values of a type that NumPy can compute with, in native byte order."""
    if values.dtype in EXTENDED_DTYPES:
        return values.astype(
            "i1" if values.dtype.name.startswith("int") else "u1" if "int" in values.dtype.name else "f8"
        )
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _equal(values: Values, one: Values) -> npt.NDArray[np.bool_]:
    if np.isnan(_known(one.reshape(1))).any() if one.dtype.kind not in "biu" else False:
        return np.zeros(values.shape, bool)  # NaN is missing anyway
    return np.asarray(values == one)


def _cast(values: Values, dtype: np.dtype[Any]) -> tuple[Values, npt.NDArray[np.bool_] | None]:
    """Convert values, rounded to nearest with ties to even; also return which of them the type can't hold."""
    if _is_integer(dtype):
        low, high = (0, 1) if dtype.kind == "b" else _bounds(dtype)
        if values.dtype.kind in "fc":
            whole = np.rint(values)
            # as float16 the bounds of wide integers are infinite
            good = np.isfinite(whole) & (whole >= low) & (whole < float(high + 1))
        else:
            whole = values.astype("u1") if values.dtype.kind == "b" else values
            least, most = _bounds(whole.dtype)
            good = (whole >= max(low, least)) & (whole <= min(high, most))
        if not good.all():
            return values, ~good
        work = np.dtype("u1" if low == 0 else "i1") if dtype in EXTENDED_DTYPES else dtype
        return whole.astype(work).astype(dtype), None
    if dtype in EXTENDED_DTYPES:
        wide = values.astype("f8")
        finite = np.isfinite(wide)
        format = float_format(dtype)
        whole = np.where(finite, round_to_format(np.where(finite, wide, 0.0), format, "nearest-even"), wide)
        bad = finite & ((whole > format.largest) | (whole < format.smallest))
        bad |= (np.isnan(wide) & (not format.nan)) | (np.isinf(wide) & (not format.infinite))
        return whole.astype(dtype), bad if bad.any() else None
    new = values.astype(dtype)
    bad = np.isfinite(values) & ~np.isfinite(new)
    return new, bad if bad.any() else None


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype in EXTENDED_DTYPES:
        bits = int(dtype.name[-1])
        return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def rounded(values: Values, keepbits: int) -> Values:
    """Round the fraction of floating-point numbers to `keepbits` bits, ties to even; NaN and the infinities stay.

    Examples
    --------
    >>> rounded(np.array([1.0, 1.2, 1.25, 1.3], "f4"), 1).tolist()
    [1.0, 1.0, 1.0, 1.5]
    """
    size = values.dtype.itemsize
    cut = _BITS[size] - keepbits
    if cut <= 0:
        return values
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    bits = native.view(f"u{size}")
    unit = bits.dtype.type
    odd = (bits >> unit(cut)) & unit(1)
    new = (bits + (odd + unit((1 << (cut - 1)) - 1))) & ~unit((1 << cut) - 1)
    found: Values = np.where(np.isfinite(native), new, bits).view(native.dtype)
    return found.astype(values.dtype, copy=False)


# --- one array


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
        if dtype is None or not (_is_integer(new.numpy) or is_floating(new.numpy)) or new.numpy.kind == "b":
            raise MetadataError(
                "scale and offset need a dtype to pack values in, such as 'i2'", path=location, field="dtype"
            )
        if _is_integer(new.numpy):
            low, high = _bounds(new.numpy)
            missing = np.asarray(high if low == 0 else low).astype(new.numpy)
    elif masks and new != old:
        missing = _as_missing(masks[0], new.numpy, location)
    elif masks and keepbits is not None:
        missing = np.asarray(masks[0]).astype(new.numpy)
    if keepbits is not None:
        size = new.numpy.itemsize
        if new.numpy.kind != "f" or size not in _BITS:
            raise UnsupportedError(
                f"bitround is for floating-point numbers of 2, 4 or 8 bytes, not for {new}",
                path=location,
                field="bitround",
            )
        if keepbits > _BITS[size]:
            raise MetadataError(
                f"{new} has {_BITS[size]} bits of the fraction, fewer than {keepbits}", path=location, field="bitround"
            )
    change = Precision(new, packing, keepbits, masks, missing)
    return None if replace(change, masks=(), missing=None) == Precision(old) else change


def _masks_of(source: Array) -> list[Any]:
    """Return the values that mark missing data, NaN included if ``_FillValue`` says so."""
    conventions = source.conventions
    fill, masks = conventions.fill, conventions.stored_masks
    return [fill[()], *masks] if fill is not None and fill.dtype.kind == "f" and np.isnan(fill) else masks


def _as_missing(mask: Any, dtype: np.dtype[Any], location: str) -> Values:
    """Return the value that marks missing data in another type."""
    if is_floating(dtype) and isinstance(mask, (float, np.floating)) and np.isnan(mask):
        return np.asarray(np.nan).astype(dtype)
    with np.errstate(all="ignore"):
        new, bad = _cast(_known(np.asarray(mask).reshape(1)), dtype)
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

    Parameters
    ----------
    source : Array
        The array to convert.
    draft : ArrayMetadata
        The new array with the type of the source, in the conventions of the source's format.
    precision : Precision
        The change of its values.
    own_codecs : bool
        Whether the codecs are those of the source, which may depend on its type.
    """
    attributes = dict(draft.attributes)
    fill = precision.fill(source)
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
