"""Moments: counts, extremes, mean, spread and histogram of values; the results of parts merge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.metadata.conventions import missing_in
from tegula.reductions.dtypes import computable

__all__ = ["MOST_BINS", "Bins", "Moments", "bins_of", "measure"]

MOST_BINS: Final = 32
_DIGITS: Final = 48  # binary digits of the largest value; the width of a bin is not finer
_LEAST: Final = -1070  # exponent of the smallest width
_PIECE: Final = 2**18  # elements at a time, so that intermediate results stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Moments:
    """Counts, extremes, mean, spread and histogram of some values."""

    count: int = 0
    missing: int = 0  # NaN, NaT, ``None``, or values that mark missing data
    low: Any = None  # the extremes, infinite ones included; ``None`` without values, and for types without an order
    high: Any = None
    finite: int = 0  # number of finite values
    mean: Any = 0.0  # of the finite values, a float or complex number
    spread: float = 0.0  # the sum of their squared distances from the mean
    positive: int = 0  # numbers of infinities
    negative: int = 0
    bins: Bins | None = None  # histogram of the finite values

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of values."""
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
            _extreme(min, (self.low, other.low)),
            _extreme(max, (self.high, other.high)),
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
        counts = ("count", "missing", "finite", "positive", "negative")
        more: dict[str, Any] = {name: getattr(self, name) * number for name in counts}
        return replace(self, **more, bins=None if self.bins is None else self.bins.times(number))

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


def _extreme(choose: Any, values: Sequence[Any]) -> Any:
    """Return the least or greatest of values; ``None`` if there are none, or if objects have no order."""
    try:
        return choose((value for value in values if value is not None), default=None)
    except (TypeError, ValueError):
        return None


def measure(values: npt.NDArray[Any], masks: Sequence[Any] = ()) -> Moments:
    """Return the moments of an array of any type except structured ones; `masks` are values that mark missing data."""
    flat = _as_known(values.reshape(-1))
    masks = [_as_known(np.asarray(mask).reshape(1))[0] for mask in masks]
    moments = Moments()
    with np.errstate(all="ignore"):  # results are infinite or NaN after an overflow
        for start in range(0, flat.size, _PIECE):
            moments = moments.merge(_measured(flat[start : start + _PIECE], masks))
    return moments


def _as_known(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert elements to a type that NumPy can compute with."""
    values = computable(values)
    # NumPy converts numbers without a unit to durations, but not to dates
    return values.view("m8") if values.dtype == "M8" else values


def _measured(values: npt.NDArray[Any], masks: Sequence[Any]) -> Moments:
    total = values.size
    missing = missing_in(values, masks)
    values = values if missing is None else values[~missing]
    counts = Moments(count=values.size, missing=total - values.size)
    kind = values.dtype.kind
    if not values.size or kind == "V":
        return counts
    if kind == "c":
        return _with_finite(counts, values, None) if np.isfinite(values).all() else counts
    if kind in "SUO":
        objects = values.tolist()
        return replace(counts, low=_extreme(min, objects), high=_extreme(max, objects))
    numbers = values.view("i8") if kind in "Mm" else values
    low, high = numbers.min().item(), numbers.max().item()
    if kind in "Mm":
        low, high = (values.dtype.type(number, np.datetime_data(values.dtype)) for number in (low, high))
    counts = replace(counts, low=low, high=high)
    if kind == "f":
        if not (math.isfinite(low) and math.isfinite(high)):
            counts = replace(counts, positive=int((values == np.inf).sum()), negative=int((values == -np.inf).sum()))
            numbers = values[np.isfinite(values)]
        numbers = numbers.astype("f8", copy=False)
        if not numbers.size:
            return counts
    return _with_finite(counts, numbers, bins_of(numbers.view("u1") if kind == "b" else numbers))


def _with_finite(counts: Moments, values: npt.NDArray[Any], bins: Bins | None) -> Moments:
    numbers = values.astype("c16" if values.dtype.kind == "c" else "f8", copy=False)
    # relative to a number near all of them, so that large ones keep their digits
    near = numbers[0]
    apart = numbers - near
    mean = apart.mean()
    apart -= mean
    parts = (apart.real, apart.imag) if apart.dtype.kind == "c" else (apart,)
    spread = float(sum(np.square(part).sum() for part in parts))
    return replace(counts, finite=values.size, mean=(near + mean).item(), spread=spread, bins=bins)


# --- histograms


@dataclass(frozen=True, slots=True)
class Bins:
    """Counts of values by ``floor(value / 2**exponent)``; the numbers begin at `first`.

    The width of a bin is a power of two, and its edges are multiples of it. So each bin of a coarser histogram consists
    of whole bins of a finer one, and the histograms of parts merge exactly into that of the whole, in any order.
    """

    exponent: int
    first: int
    counts: tuple[int, ...]

    def merge(self, other: Bins) -> Bins:
        """Return the histogram of both sets of values."""
        exponent = max(self.exponent, other.exponent)
        while True:
            one, two = self._coarser(exponent), other._coarser(exponent)
            first = min(one.first, two.first)
            last = max(one.first + len(one.counts), two.first + len(two.counts))
            if last - first <= MOST_BINS:
                break
            exponent += 1
        counts = [0] * (last - first)
        for part in (one, two):
            for number, count in enumerate(part.counts, part.first - first):
                counts[number] += count
        return Bins(exponent, first, tuple(counts))

    def times(self, number: int) -> Bins:
        """Return the histogram of the values repeated `number` times."""
        return Bins(self.exponent, self.first, tuple(count * number for count in self.counts))

    def _coarser(self, exponent: int) -> Bins:
        shift = exponent - self.exponent
        if not shift:
            return self
        first = self.first >> shift
        counts = [0] * (((self.first + len(self.counts) - 1) >> shift) - first + 1)
        for number, count in enumerate(self.counts, self.first):
            counts[(number >> shift) - first] += count
        return Bins(exponent, first, tuple(counts))

    def edges(self) -> tuple[float | int, ...]:
        """Return the edges of all bins: ints where the values are ints."""
        numbers = range(self.first, self.first + len(self.counts) + 1)
        if self.exponent >= 0:
            return tuple(number << self.exponent for number in numbers)
        return tuple(math.ldexp(number, self.exponent) for number in numbers)


def bins_of(values: npt.NDArray[Any]) -> Bins:
    """Count finite floats (float64), or integers of up to 64 bits; at least one."""
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        exponent = max(0, (high - low).bit_length() - 6)
        while (high >> exponent) - (low >> exponent) >= MOST_BINS:
            exponent += 1
        first = low >> exponent
        numbers = (values >> values.dtype.type(exponent)) - values.dtype.type(first)
    else:
        small, large = float(values.min()), float(values.max())
        span = math.frexp(large / 2 - small / 2)[1] + 1  # halves, since the difference may overflow
        greatest = max(abs(small), abs(large))
        # zeros alone have the finest bins, since they may be merged with whatever is small
        least = max(_LEAST, math.frexp(greatest)[1] - _DIGITS) if greatest else _LEAST
        exponent = max(least, span - 7 if large > small else least)
        while _floor(large, exponent) - _floor(small, exponent) >= MOST_BINS:
            exponent += 1
        first = _floor(small, exponent)
        # scaling by a power of two is exact, unless it underflows: a negative value still belongs below zero
        scaled = values * math.ldexp(1.0, -exponent) if -1000 < exponent < 1000 else np.ldexp(values, -exponent)
        numbers = np.floor(scaled)
        numbers[(numbers == 0) & (values < 0)] = -1
        numbers -= first
    counts = np.bincount(numbers.astype(np.intp))
    return Bins(exponent, first, tuple(counts.tolist()))


def _floor(value: float, exponent: int) -> int:
    number = int(np.floor(np.ldexp(value, -exponent)))
    return -1 if value < 0 and number == 0 else number
