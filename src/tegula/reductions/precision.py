"""Reduced precision: values of another data type, packed by scale and offset, or with fewer bits, and their errors.

Packed values are those of CF: ``value = packed * scale_factor + add_offset``, in double precision, with an integer for
missing data. `Precision.apply` changes the values of one box and measures what is lost; losses of boxes merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tegula.errors import CodecError
from tegula.metadata.conventions import missing_in
from tegula.metadata.data_types import DataType
from tegula.metadata.rounding import float_format, round_to_format
from tegula.reductions.dtypes import computable, is_extension, is_integer

__all__ = ["BITS", "Loss", "Precision", "bounds_of", "cast", "rounded"]

BITS: Final = {2: 10, 4: 23, 8: 52}
"""Bits of the fraction of a floating-point number, by its bytes."""
_PIECE: Final = 2**17  # elements at a time, so that intermediate results stay in the processor's cache

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
            known = computable(flat[part])
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
        if kept is not None and not is_integer(dtype):
            kept = kept & ~np.isnan(values)  # NaN stays what it is
        if is_missing is not None and kept is None and is_integer(dtype):
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
        new, wrong = cast(numbers, dtype)
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
        before, after = old.astype(wide), computable(new).astype(wide)
        if self.packing is not None:
            after = after * self.packing[0] + self.packing[1]
        error = np.abs(after - before)
        counted = np.isfinite(error) if is_missing is None else np.isfinite(error) & ~is_missing
        error = np.where(counted, error, 0.0)
        size = np.abs(before)
        share = np.divide(error, size, out=np.zeros(error.shape), where=counted & (size > 0))
        return Loss(float(error.max(initial=0.0)), float(share.max(initial=0.0)))

    def of_fill(self, fill: Values) -> Values | None:
        """Return the new fill value: the old one, changed, or the value for missing data if it can't be changed.

        ``None`` if it can't be changed and no value marks missing data.
        """
        try:
            return self.apply(fill.reshape(1), (0,))[0].reshape(())
        except CodecError:
            return self.missing

    @property
    def summary(self) -> str:
        """A note on the change."""
        parts = []
        if self.packing is not None:
            parts.append(
                f"packed as {self.data_type} with scale_factor {self.packing[0]!r}, add_offset {self.packing[1]!r}"
            )
        if self.keepbits is not None:
            parts.append(f"rounded to {self.keepbits} bits of the fraction")
        if not parts:
            parts.append(f"converted to {self.data_type}")
        if self.missing is not None and self.packing is not None:
            parts.append(f"{self.missing.item()!r} marks missing data")
        return f"the values are {', '.join(parts)}"


def _equal(values: Values, one: Values) -> npt.NDArray[np.bool_]:
    if np.isnan(computable(one.reshape(1))).any() if one.dtype.kind not in "biu" else False:
        return np.zeros(values.shape, bool)  # NaN is missing anyway
    return np.asarray(values == one)


def cast(values: Values, dtype: np.dtype[Any]) -> tuple[Values, npt.NDArray[np.bool_] | None]:
    """Convert values, rounded to nearest with ties to even; also return which of them the type can't hold."""
    if is_integer(dtype):
        low, high = (0, 1) if dtype.kind == "b" else bounds_of(dtype)
        if values.dtype.kind in "fc":
            whole = np.rint(values)
            # as float16 the bounds of wide integers are infinite
            good = np.isfinite(whole) & (whole >= low) & (whole < float(high + 1))
        else:
            whole = values.astype("u1") if values.dtype.kind == "b" else values
            least, most = bounds_of(whole.dtype)
            good = (whole >= max(low, least)) & (whole <= min(high, most))
        if not good.all():
            return values, ~good
        work = np.dtype("u1" if low == 0 else "i1") if is_extension(dtype) else dtype
        return whole.astype(work).astype(dtype), None
    if is_extension(dtype):
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


def bounds_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    if is_extension(dtype):
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
    cut = BITS[size] - keepbits
    if cut <= 0:
        return values
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    bits = native.view(f"u{size}")
    unit = bits.dtype.type
    odd = (bits >> unit(cut)) & unit(1)
    new = (bits + (odd + unit((1 << (cut - 1)) - 1))) & ~unit((1 << cut) - 1)
    found: Values = np.where(np.isfinite(native), new, bits).view(native.dtype)
    return found.astype(values.dtype, copy=False)
