"""Arithmetic modulo the prime 2**61 - 1, on Python's integers and on arrays of unsigned 64-bit integers."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["PRIME", "Residues", "base_of", "geometric_sum", "multiply", "powers", "shift", "total"]

PRIME: Final = 2**61 - 1
_BITS: Final = 61
_HALF: Final = np.uint64(2**31 - 1)
_PRIME: Final = np.uint64(PRIME)

Residues = npt.NDArray[np.uint64]


@lru_cache(256)
def base_of(name: str) -> int:
    """Derive a number between 2 and the prime from a name, by a hash.

    Examples
    --------
    >>> base_of("axis 0") != base_of("axis 1")
    True
    """
    return 2 + int.from_bytes(sha256(f"tegula checksum 1: {name}".encode()).digest(), "big") % (PRIME - 3)


def geometric_sum(base: int, start: int, stop: int) -> int:
    """Return the sum of ``base**i`` for all i from `start` to before `stop`; `base` is neither 0 nor 1.

    Examples
    --------
    >>> geometric_sum(10, 1, 4)
    1110
    """
    if stop <= start:
        return 0
    return (pow(base, stop, PRIME) - pow(base, start, PRIME)) * pow(base - 1, -1, PRIME) % PRIME


def _reduce(values: Residues) -> Residues:
    """Reduce values below 2**64."""
    folded = (values & _PRIME) + (values >> np.uint64(_BITS))
    return np.minimum(folded, folded - _PRIME)  # the difference wraps round where it is below 0


def shift(values: Residues, bits: int) -> Residues:
    """Multiply values below 2**61 by ``2**bits``, which rotates their bits.

    Examples
    --------
    >>> shift(np.array([2**60 + 1], np.uint64), 1).tolist()
    [3]
    """
    low, high = values << np.uint64(bits), values >> np.uint64(_BITS - bits)
    return _reduce((low & _PRIME) | high)


def multiply(one: Residues, other: Residues | np.uint64) -> Residues:
    """Multiply values below the prime.

    Examples
    --------
    >>> multiply(np.array([2**60], np.uint64), np.array([2**60], np.uint64)).tolist() == [2**120 % PRIME]
    True
    """
    # halves of 31 bits; 2**62 is 2, and 2**31 times the middle is a rotation
    one_high, one_low = one >> np.uint64(31), one & _HALF
    other_high, other_low = other >> np.uint64(31), other & _HALF
    middle = _reduce(one_high * other_low + one_low * other_high)
    highest, lowest = one_high * other_high * np.uint64(2), one_low * other_low
    return _reduce(_reduce(highest) + _reduce(lowest) + shift(middle, 31))


def powers(base: int, number: int) -> Residues:
    """Return the first powers of a base, from ``base**0``.

    Examples
    --------
    >>> powers(3, 4).tolist()
    [1, 3, 9, 27]
    """
    out = np.ones(max(1, number), np.uint64)
    done = 1
    while done < number:
        step = np.uint64(pow(base, done, PRIME))
        more = min(done, number - done)
        out[done : done + more] = multiply(out[:more], step)
        done += more
    return out[:number]


def total(values: Residues, axis: int) -> Residues:
    """Add up values below the prime along an axis of at most 2**31.

    Examples
    --------
    >>> total(np.array([PRIME - 1, 5], np.uint64), 0).tolist()
    4
    """
    high, low = values >> np.uint64(31), values & _HALF
    low, high = (part.sum(axis=axis, dtype=np.uint64, keepdims=True) for part in (low, high))
    return np.squeeze(_reduce(_reduce(low) + shift(_reduce(high), 31)), axis)
