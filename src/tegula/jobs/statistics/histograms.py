"""Mergeable histograms: counts in bins whose width is a power of two and whose edges are multiples of it.

Each bin of a coarser histogram consists of whole bins of a finer one, so the histograms of parts merge exactly into
that of the whole, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, ldexp
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["Bins", "Histogram", "bins_of"]

_MOST: Final = 32  # bins
_DIGITS: Final = 48  # binary digits of the largest value; the width of a bin is not finer
_LEAST: Final = -1070  # exponent of the smallest width
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram: counts of values in up to 32 bins of equal width, from the smallest to the largest value.

    Parameters
    ----------
    counts : tuple of int
        Values in each bin.
    edges : tuple
        Edges of the bins, one more than bins. Bin `i` holds values from ``edges[i]`` up to but not including
        ``edges[i + 1]``; the last bin includes its end. Inner edges are multiples of a power of two.

    Examples
    --------
    >>> print(Histogram((1, 9, 0, 4), (0.0, 0.5, 1.0, 1.5, 2.0)))
    ▁█ ▄
    """

    counts: tuple[int, ...]
    edges: tuple[Any, ...]

    def __str__(self) -> str:
        """Return a block character for each bin; a blank for an empty one."""
        return self.drawn()

    def drawn(self, width: int = _MOST) -> str:
        """Return a drawing of at most `width` characters, each for one or several bins.

        Examples
        --------
        >>> Histogram((1, 9, 0, 4), (0.0, 0.5, 1.0, 1.5, 2.0)).drawn(2)
        '█▄'
        """
        step = -(-len(self.counts) // max(1, width))
        counts = [sum(self.counts[start : start + step]) for start in range(0, len(self.counts), step or 1)]
        most = max(counts, default=0)
        return "".join(_BLOCKS[-(-count * 8 // most) - 1] if count else " " for count in counts)


@dataclass(frozen=True, slots=True)
class Bins:
    """Counts of values by ``floor(value / 2**exponent)``; the numbers begin at `first`.

    Examples
    --------
    >>> one, other = bins_of(np.array([0.0, 1.0, 1.25])), bins_of(np.array([40.0]))
    >>> one.merge(other) == bins_of(np.array([40.0, 0.0, 1.25, 1.0]))
    True
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
            if last - first <= _MOST:
                break
            exponent += 1
        counts = [0] * (last - first)
        for part in (one, two):
            for place, count in enumerate(part.counts, part.first - first):
                counts[place] += count
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
        for place, count in enumerate(self.counts, self.first):
            counts[(place >> shift) - first] += count
        return Bins(exponent, first, tuple(counts))

    def edges(self) -> tuple[float | int, ...]:
        """Return the edges of all bins: ints where the values are ints."""
        numbers = range(self.first, self.first + len(self.counts) + 1)
        if self.exponent >= 0:
            return tuple(number << self.exponent for number in numbers)
        return tuple(ldexp(number, self.exponent) for number in numbers)


def bins_of(values: npt.NDArray[Any]) -> Bins:
    """Count finite floats (float64), or integers of up to 64 bits; at least one.

    Examples
    --------
    >>> bins_of(np.array([-3, 0, 100], "i2"))
    Bins(exponent=2, first=-1, counts=(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
    """
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        exponent = max(0, (high - low).bit_length() - 6)
        while (high >> exponent) - (low >> exponent) >= _MOST:
            exponent += 1
        first = low >> exponent
        numbers = (values >> values.dtype.type(exponent)) - values.dtype.type(first)
    else:
        small, large = float(values.min()), float(values.max())
        span = frexp(large / 2 - small / 2)[1] + 1  # halves, since the difference may overflow
        greatest = max(abs(small), abs(large))
        # zeros alone have the finest bins, since they may be merged with whatever is small
        least = max(_LEAST, frexp(greatest)[1] - _DIGITS) if greatest else _LEAST
        exponent = max(least, span - 7 if large > small else least)
        while _floor(large, exponent) - _floor(small, exponent) >= _MOST:
            exponent += 1
        first = _floor(small, exponent)
        # scaling by a power of two is exact, unless it underflows: a negative value still belongs below zero
        scaled = values * ldexp(1.0, -exponent) if -1000 < exponent < 1000 else np.ldexp(values, -exponent)
        numbers = np.floor(scaled)
        numbers[(numbers == 0) & (values < 0)] = -1
        numbers -= first
    counts = np.bincount(numbers.astype(np.intp))
    return Bins(exponent, first, tuple(counts.tolist()))


def _floor(value: float, exponent: int) -> int:
    number = int(np.floor(np.ldexp(value, -exponent)))
    return -1 if value < 0 and number == 0 else number
