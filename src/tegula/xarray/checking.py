"""What is stored is what was given: encoded values are decoded again, as readers will do, and compared.

xarray's encoder wraps integers that do not fit, stores times in another unit than the stored one, and NaN as any
integer. Values that would be read back as others are refused here, before anything is stored; those of dask when their
block is computed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from xarray import Variable, conventions

from tegula.errors import MetadataError
from tegula.metadata.times import time_units

__all__ = ["checked", "native_times"]

Values = npt.NDArray[Any]
_PIECE: Final = 2**22  # elements that are compared at a time
_NANOSECONDS: Final = 1000.0, 1e6  # floating-point times may differ by the first, by no more than the second


@dataclass(frozen=True)
class _Comparison:
    """How a variable is compared with its encoded form.

    Parameters
    ----------
    name, place : str
        The variable, and where it is stored.
    dims : tuple of str
        Its dimensions.
    attributes : dict
        The stored attributes, by which readers decode the values.
    is_new : bool
        Whether the encoding is the user's, who may round numbers and choose a value that means missing.
    """

    name: Any
    place: str
    dims: tuple[Any, ...]
    attributes: Mapping[str, Any]
    is_new: bool

    def check(self, given: Values, encoded: Values) -> Values:
        """Return encoded values, or raise if one would be read as another than the given one."""
        if given.size == 0 or given.dtype.kind not in "biufcmM":
            return encoded
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            variable = Variable(self.dims, encoded, dict(self.attributes))
            decoded = conventions.decode_cf_variable(
                str(self.name), variable, decode_timedelta=given.dtype.kind == "m"
            ).to_numpy()
            same = self._same(given, decoded, encoded)
        if not same.all():
            where = np.unravel_index(int(np.argmin(same)), same.shape)
            raise MetadataError(
                f"{given[where]!s:.40} can't be added to the variable {self.name!r:.80}, in which it would be read as "
                f"{decoded[where]!s:.40}: {self._advice(given.dtype, encoded.dtype)}",
                path=self.place,
            )
        return encoded

    def _same(self, given: Values, decoded: Values, encoded: Values) -> npt.NDArray[np.bool_]:
        kinds = given.dtype.kind, decoded.dtype.kind
        if kinds[0] in "mM" or (kinds[1] in "mM" and kinds[0] not in "iuf"):
            if kinds[0] != kinds[1]:
                return np.zeros(given.shape, bool)
            return self._same_times(given, decoded, encoded)
        if kinds[1] in "mM":  # numbers in the unit of the stored times
            return np.asarray((encoded == given) | (np.isnan(given) if kinds[0] == "f" else False))
        if kinds[1] == "O":  # booleans or integers, and NaN
            decoded = decoded.astype("f8")
        given, decoded = (one.astype("u1") if one.dtype == bool else one for one in (given, decoded))
        missing = np.isnan(decoded) if decoded.dtype.kind in "fc" else np.zeros(given.shape, bool)
        expected = np.isnan(given) if kinds[0] in "fc" else np.zeros(given.shape, bool)
        if self.is_new:  # the user has chosen the value
            expected = expected | (missing & ~expected & self._is_fill(encoded))
        close = np.abs(decoded - given.astype(decoded.dtype)) <= self._tolerance(given, decoded, encoded.dtype)
        equal = decoded == given
        if kinds[0] in "iu" and decoded.dtype.kind == "f":  # NumPy compares large integers as rounded numbers
            equal &= decoded.astype(given.dtype) == given
        return np.asarray((missing & expected) | (~missing & ~expected & (equal | close)))

    def _is_fill(self, encoded: Values) -> npt.NDArray[np.bool_]:
        found = np.zeros(encoded.shape, bool)
        for name in ("_FillValue", "missing_value"):
            if name in self.attributes:
                found |= np.isin(encoded, np.ravel(self.attributes[name]))
        return found

    def _tolerance(self, given: Values, decoded: Values, stored: np.dtype[Any]) -> Any:
        """Return by how much a number may change: by rounding to what is stored."""
        scale, offset = self.attributes.get("scale_factor"), self.attributes.get("add_offset")
        is_packed = scale is not None or offset is not None
        if stored.kind in "iub":
            if not is_packed:
                return 0.5 if self.is_new and given.dtype.kind == "f" else -1
            step = 0.5 * abs(float(1 if scale is None else scale)) * (1 + 1e-9)
            least = np.finfo(decoded.dtype).eps if decoded.dtype.kind == "f" else 0
            return step + 4 * least * (np.abs(decoded) + abs(float(offset or 0)))
        if stored.kind not in "fc" or (given.dtype.kind in "iub" and not is_packed):
            return -1
        eps = max(np.finfo(dtype).eps for dtype in (stored, decoded.dtype) if dtype.kind in "fc")
        return np.finfo(stored).tiny + 4 * eps * (np.abs(given) + abs(float(offset or 0)))

    def _same_times(self, given: Values, decoded: Values, encoded: Values) -> npt.NDArray[np.bool_]:
        missing = np.isnat(given), np.isnat(decoded)
        close = given == decoded
        units = time_units({**self.attributes, "dtype": "timedelta64"})
        if encoded.dtype.kind == "f" and units is not None:
            least, most = _NANOSECONDS
            limit = np.clip(np.abs(np.spacing(encoded)).astype("f8") * units.nanoseconds, least, most)
            error = (given - decoded).astype("m8[ns]").astype("f8")
            close = close | (np.abs(error) <= np.where(np.isnan(limit), 0, limit))
        return np.asarray((missing[0] & missing[1]) | (~missing[0] & ~missing[1] & close))

    def _advice(self, given: np.dtype[Any], stored: np.dtype[Any]) -> str:
        units = self.attributes.get("units")
        if given.kind in "mM" and units:
            return f"it is stored as {stored} in {units!r:.60}; rewrite the variable with units that hold these times"
        if "scale_factor" in self.attributes or "add_offset" in self.attributes:
            return f"it is packed as {stored}; rewrite the variable with a larger type or another scale"
        return f"it is stored as {stored}; convert the values, or rewrite the variable with a type that holds them"


def checked(
    given: Variable, encoded: Variable, name: Any, place: str, attributes: Mapping[str, Any], *, is_new: bool
) -> Variable:
    """Return an encoded variable, or raise if some of its values would be read as others than the given ones.

    Parameters
    ----------
    given, encoded : Variable
        The variable of the user, and its encoded form.
    name, place
        Its name, and where it is stored, for errors.
    attributes : mapping
        The stored attributes, by which readers decode it.
    is_new : bool
        Whether the array is new, with an encoding of the user, rather than a stored one.

    Raises
    ------
    MetadataError
        If a value can't be stored. With dask this is raised when its block is computed.
    """
    if given.dtype.kind not in "biufcmM" or given.shape != encoded.shape or _is_kept(given, encoded, attributes):
        return encoded
    comparison = _Comparison(name, place, given.dims, dict(attributes), is_new)
    if given.chunks is not None:
        blocks = _dask_of(given).map_blocks(
            comparison.check, encoded.data, dtype=encoded.dtype, meta=encoded.data._meta
        )
        return encoded.copy(deep=False, data=blocks)
    for piece in _pieces(given.shape):
        comparison.check(given[piece].to_numpy(), encoded[piece].to_numpy())
    return encoded


def native_times(given: Variable, name: Any, place: str, dtype: np.dtype[Any]) -> Variable:
    """Return times in the unit of an array of times, or raise if it can't hold them exactly.

    Raises
    ------
    MetadataError
        If they are no times of this kind, or finer than the unit. With dask this is raised when a block is computed.
    """
    if given.dtype.kind != dtype.kind:
        raise MetadataError(
            f"{given.dtype} can't be added to the variable {name!r:.80}, whose elements are {dtype}", path=place
        )

    def cast(values: Values) -> Values:
        new = values.astype(dtype)
        same = (new.astype(values.dtype) == values) & (new == values) | np.isnat(values)
        if not same.all():
            wrong = values.reshape(-1)[int(np.argmin(same))]
            raise MetadataError(
                f"{wrong!s:.40} can't be added to the variable {name!r:.80}: its elements are {dtype}, which do not "
                "hold it exactly; rewrite the variable with a finer unit",
                path=place,
            )
        return new

    if given.chunks is not None:
        return Variable(given.dims, _dask_of(given).map_blocks(cast, dtype=dtype))
    return Variable(given.dims, cast(given.to_numpy()))


def _dask_of(variable: Variable) -> Any:
    return variable.data


def _is_kept(given: Variable, encoded: Variable, attributes: Mapping[str, Any]) -> bool:
    """Return whether values are encoded as they are, so that nothing can change."""
    if given.dtype.newbyteorder("=") != encoded.dtype.newbyteorder("=") or "units" in attributes:
        return False
    if any(name in attributes for name in ("scale_factor", "add_offset", "_Unsigned", "missing_value", "dtype")):
        return False
    fill = attributes.get("_FillValue")
    return fill is None or (isinstance(fill, (float, complex, np.inexact)) and bool(np.isnan(fill)))


def _pieces(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield parts of a shape that are small enough to compare, along the first axis."""
    if not shape:
        yield ()
        return
    rows = max(1, _PIECE // max(1, prod(shape[1:])))
    for start in range(0, shape[0], rows):
        yield (slice(start, start + rows),)
