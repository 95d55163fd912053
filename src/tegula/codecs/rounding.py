"""Rounding and ranges of ``cast_value``: numbers as exact binary fractions, rounded once.

Floating-point types are described by three numbers: the bits of their significand, their smallest step and their
largest value. With these one routine rounds to any of them, and integers are the case where the step is 1 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp, ldexp
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

_finfo: Any = ml_dtypes.finfo

__all__ = ["MODES", "FloatFormat", "float_format", "round_big_integers", "round_to_format", "round_to_integers"]

Floats = npt.NDArray[np.float64]


def _nearest_away(values: Floats) -> Floats:
    whole = np.trunc(values)
    up: Floats = whole + np.copysign(np.abs(values - whole) >= 0.5, values)
    return up


MODES: Final[dict[str, Callable[[Any], Any]]] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _nearest_away,
}
"""What each rounding mode does to fractions."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A floating-point type.

    Parameters
    ----------
    precision : int
        Bits of the significand, the implicit one included.
    step : int
        The smallest positive value is ``2**step``.
    largest : float
        The largest finite value.
    smallest : float
        The smallest value; not the negative of the largest in a type without sign.
    infinite, nan : bool
        Whether the type has infinities, and NaN.
    """

    precision: int
    step: int
    largest: float
    smallest: float
    infinite: bool
    nan: bool


def float_format(dtype: np.dtype[Any]) -> FloatFormat:
    """Describe a floating-point dtype of NumPy or ml_dtypes.

    Examples
    --------
    >>> float_format(np.dtype("f2"))
    FloatFormat(precision=11, step=-24, largest=65504.0, smallest=-65504.0, infinite=True, nan=True)
    """
    info = _finfo(dtype)
    largest = float(info.max)
    unsigned = dtype.name == "float8_e8m0fnu"
    tiny = float(info.smallest_normal if unsigned else info.smallest_subnormal)
    with np.errstate(all="ignore"):
        special = np.array([np.inf, np.nan]).astype(dtype).astype("f8")
    return FloatFormat(
        precision=info.nmant + 1,
        step=frexp(tiny)[1] - 1,
        largest=largest,
        smallest=tiny if unsigned else -largest,
        infinite=bool(np.isinf(special[0])),
        nan=bool(np.isnan(special[1])),
    )


def round_to_format(values: Floats, target: FloatFormat, mode: str) -> Floats:
    """Round finite values to the precision of a type, without regard to its largest value.

    Examples
    --------
    >>> round_to_format(np.array([2049.0, -2049.0]), float_format(np.dtype("f2")), "towards-positive")
    array([ 2050., -2048.])
    """
    step = np.maximum(np.frexp(values)[1] - target.precision, target.step)
    rounded: Floats = np.ldexp(MODES[mode](np.ldexp(values, -step)), step)
    return rounded


def round_to_integers(values: Floats, mode: str) -> Floats:
    """Round finite values to whole numbers."""
    rounded: Floats = MODES[mode](values)
    return rounded


def round_big_integers(values: list[int], precision: int, mode: str) -> list[float]:
    """Round integers of any size to `precision` bits.

    Examples
    --------
    >>> round_big_integers([2**53 + 1], 53, "towards-positive")
    [9007199254740994.0]
    """
    found = []
    for value in values:
        shift = max(abs(value).bit_length() - precision, 0)
        whole, rest = divmod(abs(value), 1 << shift)
        half = 2 * rest - (1 << shift) if shift else -1
        up = {
            "nearest-even": half > 0 or (half == 0 and whole % 2 == 1),
            "nearest-away": half >= 0,
            "towards-zero": False,
            "towards-positive": rest > 0 and value > 0,
            "towards-negative": rest > 0 and value < 0,
        }[mode]
        found.append(ldexp(float(whole + up), shift) * (1 if value >= 0 else -1))
    return found
