"""Moments: counts, extremes, mean, spread and histogram of values; the results of parts merge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.jobs.statistics.histograms import Bins, bins_of
from tegula.metadata.conventions import missing_in

__all__ = ["Moments", "measure"]

_PIECE: Final = 2**18  # elements at a time, so that intermediate results stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Moments:
    """Counts, extremes, mean, spread and histogram of some values.

    Parameters
    ----------
    count, missing : int
        Number of values, and of missing ones: NaN, NaT, ``None``, or values that mark missing data.
    low, high : scalar or None
        The extremes, infinite ones included; ``None`` without values, and for types without an order.
    finite : int
        Number of finite values.
    mean, spread : float or complex
        Mean of the finite values, and the sum of their squared distances from it.
    positive, negative : int
        Numbers of positive and negative infinities.
    bins : Bins or None
        Histogram of the finite values.
    """

    count: int = 0
    missing: int = 0
    low: Any = None
    high: Any = None
    finite: int = 0
    mean: Any = 0.0
    spread: float = 0.0
    positive: int = 0
    negative: int = 0
    bins: Bins | None = None

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of values.

        Examples
        --------
        >>> one, other = measure(np.array([1.0, 2.0])), measure(np.array([6.0, np.nan]))
        >>> both = one.merge(other)
        >>> both.count, both.missing, both.low, both.high, both.mean
        (3, 1, 1.0, 6.0, 3.0)
        """
        finite = self.finite + other.finite
        mean, spread = self.mean, self.spread
        if other.finite:
            # Chan, Golub and LeVeque: avoids differences of large sums, which lose digits
            share = other.finite / finite
            apart = other.mean - self.mean
            mean = self.mean + apart * share
            # products of floats become infinite, whereas `**` and the absolute value of a complex number raise
            square = apart.real * apart.real + apart.imag * apart.imag
            spread = self.spread + other.spread + (square * self.finite * share if self.finite else 0.0)
        return Moments(
            self.count + other.count,
            self.missing + other.missing,
            _extreme(min, self.low, other.low),
            _extreme(max, self.high, other.high),
            finite,
            mean,
            spread,
            self.positive + other.positive,
            self.negative + other.negative,
            self.bins.merge(other.bins) if self.bins and other.bins else self.bins or other.bins,
        )

    def times(self, number: int) -> Moments:
        """Return the moments of equal values repeated `number` times."""
        if not number:
            return Moments()
        return replace(
            self,
            count=self.count * number,
            missing=self.missing * number,
            finite=self.finite * number,
            positive=self.positive * number,
            negative=self.negative * number,
            bins=None if self.bins is None else self.bins.times(number),
        )

    @property
    def average(self) -> Any:
        """The mean of all values; ``None`` without values."""
        if not self.finite + self.positive + self.negative:
            return None
        if self.positive or self.negative:
            return math.nan if self.positive and self.negative else math.inf if self.positive else -math.inf
        return self.mean

    @property
    def deviation(self) -> float | None:
        """The standard deviation of all values, as of `numpy.std`; ``None`` without values."""
        if not self.finite + self.positive + self.negative:
            return None
        return math.nan if self.positive or self.negative else math.sqrt(self.spread / self.finite)


def _extreme(choose: Any, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    try:
        return choose(one, other)
    except TypeError:  # objects without an order
        return None


def measure(values: npt.NDArray[Any], masks: Sequence[Any] = ()) -> Moments:
    """Return the moments of an array of any type except structured ones.

    Parameters
    ----------
    values : ndarray
        The values; their shape does not matter.
    masks : sequence of scalar
        Values of the array's type that mark missing data.

    Examples
    --------
    >>> found = measure(np.array([3, -999, 5, 5], "i2"), [np.int16(-999)])
    >>> found.count, found.missing, found.low, found.high
    (3, 1, 3, 5)
    """
    flat = _as_known(values.reshape(-1))
    masks = [_as_known(np.asarray(mask).reshape(1))[0] for mask in masks]
    found = Moments()
    with np.errstate(all="ignore"):  # results are infinite or NaN after an overflow
        for start in range(0, flat.size, _PIECE):
            found = found.merge(_measured(flat[start : start + _PIECE], masks))
    return found


def _as_known(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert elements to a type that NumPy can compute with, in native byte order."""
    dtype = values.dtype
    if dtype.kind == "V" and not issubclass(dtype.type, np.void):  # the types of ml_dtypes
        return values.astype("i8" if "int" in dtype.name else "f8")
    values = values.astype(dtype.newbyteorder("="), copy=False)
    # NumPy converts numbers without a unit to durations, but not to dates
    return values.view("m8") if values.dtype == "M8" else values


def _measured(values: npt.NDArray[Any], masks: Sequence[Any]) -> Moments:
    total = values.size
    missing = missing_in(values, masks)
    values = values if missing is None else values[~missing]
    known = Moments(count=values.size, missing=total - values.size)
    kind = values.dtype.kind
    if not values.size or kind == "V":
        return known
    if kind in "SUO":
        return replace(known, low=_of_objects(min, values), high=_of_objects(max, values))
    if kind == "c":
        return _with_finite(known, values, None)
    if kind in "Mm":
        numbers = values.view("i8")
        low, high = (values.dtype.type(int(item), np.datetime_data(values.dtype)) for item in _ends(numbers))
        return _with_finite(replace(known, low=low, high=high), numbers, bins_of(numbers))
    low, high = _ends(values)
    if kind == "b":
        return _with_finite(replace(known, low=low, high=high), values, bins_of(values.view("u1")))
    if kind in "iu":
        return _with_finite(replace(known, low=low, high=high), values, bins_of(values))
    known = replace(known, low=low, high=high)
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = np.isfinite(values)
        known = replace(known, positive=int((values == np.inf).sum()), negative=int((values == -np.inf).sum()))
        values = values[finite]
    numbers = values.astype("f8", copy=False)
    return _with_finite(known, numbers, bins_of(numbers) if numbers.size else None)


def _ends(values: npt.NDArray[Any]) -> tuple[Any, Any]:
    return values.min().item(), values.max().item()


def _of_objects(choose: Any, values: npt.NDArray[Any]) -> Any:
    """Return the least or greatest of text, bytes or objects; ``None`` if they have no order."""
    try:
        return choose(values.tolist())
    except (TypeError, ValueError):
        return None


def _with_finite(known: Moments, values: npt.NDArray[Any], bins: Bins | None) -> Moments:
    if not values.size:
        return known
    numbers = values.astype("c16" if values.dtype.kind == "c" else "f8", copy=False)
    if numbers.dtype.kind == "c" and not np.isfinite(numbers).all():
        return known
    # relative to a number near all of them, so that large ones keep their digits
    near = numbers[0]
    apart = numbers - near
    mean = apart.mean()
    apart -= mean
    parts = (apart.real, apart.imag) if apart.dtype.kind == "c" else (apart,)
    spread = float(sum(np.square(part).sum() for part in parts))
    return replace(known, finite=values.size, mean=(near + mean).item(), spread=spread, bins=bins)
