"""Rounding to the numbers of a type: each number is an exact binary fraction and is rounded once.

A single function rounds to any floating-point type, given its precision, smallest step and largest value. For integers
the step is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp, ldexp
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = Later("ml_dtypes")

__all__ = ["MODES", "FloatFormat", "float_format", "round_big_integers", "round_to_format", "round_to_integers"]

Floats = npt.NDArray[np.float64]


def _nearest_away(values: Floats) -> Floats:
    truncated = np.trunc(values)
    up: Floats = truncated + np.copysign(np.abs(values - truncated) >= 0.5, values)
    return up


MODES: Final[dict[str, Callable[[Any], Any]]] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _nearest_away,
}
"""The rounding modes, each with the function that rounds fractions to whole numbers."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """The properties of a floating-point type.

    Parameters
    ----------
    precision : int
        Bits of the significand, including the implicit one.
    step : int
        Exponent of the smallest positive value, ``2**step``.
    largest, smallest : float
        The largest and the smallest finite value; a type without sign has no negative values.
    infinite, nan : bool
        Whether the type has infinities, and whether it has NaN.
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
    info: Any = (np.finfo if dtype.kind == "f" else ml_dtypes.finfo)(dtype)
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
    """Round finite values to the precision of a type, ignoring its largest value.

    Examples
    --------
    >>> round_to_format(np.array([2049.0, -2049.0]), float_format(np.dtype("f2")), "towards-positive")
    array([ 2050., -2048.])
    """
    step = np.maximum(np.frexp(values)[1] - target.precision, target.step)
    rounded: Floats = np.ldexp(MODES[mode](np.ldexp(values, -step)), step)
    return rounded


def round_to_integers(values: Floats, mode: str) -> Floats:
    """Round finite values to whole numbers.

    Examples
    --------
    >>> round_to_integers(np.array([0.5, 1.5]), "nearest-even")
    array([0., 2.])
    """
    rounded: Floats = MODES[mode](values)
    return rounded


def round_big_integers(values: list[int], precision: int, mode: str) -> list[float]:
    """Round integers of any size to `precision` bits, which NumPy can't do if float64 can't hold them.

    Examples
    --------
    >>> round_big_integers([2**53 + 1], 53, "towards-positive")
    [9007199254740994.0]
    """
    rounded = []
    for value in values:
        shift = max(abs(value).bit_length() - precision, 0)
        quotient, remainder = divmod(abs(value), 1 << shift)
        half = 2 * remainder - (1 << shift) if shift else -1
        up = {
            "nearest-even": half > 0 or (half == 0 and quotient % 2 == 1),
            "nearest-away": half >= 0,
            "towards-zero": False,
            "towards-positive": remainder > 0 and value > 0,
            "towards-negative": remainder > 0 and value < 0,
        }[mode]
        rounded.append(ldexp(float(quotient + up), shift) * (1 if value >= 0 else -1))
    return rounded
