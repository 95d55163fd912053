"""Chunk sizes by bcolz's rule, from the expected size of an array."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["automatic_chunk_nbytes", "automatic_chunklen", "automatic_chunks", "nbytes_by_size"]

_MIB: Final = 2**20
_MOST: Final = 2**63


def automatic_chunklen(expectedlen: float, row_nbytes: int) -> int:
    """Return the number of rows of a chunk.

    Parameters
    ----------
    expectedlen : int
        Expected number of rows of the array.
    row_nbytes : int
        Bytes of a row in memory; bcolz counts 8 for a Python object.

    Examples
    --------
    >>> automatic_chunklen(25, 4), automatic_chunklen(10**9, 4)
    (4096, 524288)
    """
    nbytes = min(max(expectedlen * row_nbytes, 0), _MOST)  # which can be divided as floats
    return max(automatic_chunk_nbytes(nbytes / _MIB) // max(1, row_nbytes), 1)


def automatic_chunk_nbytes(expected_mib: float) -> int:
    """Return the bytes of a chunk.

    Parameters
    ----------
    expected_mib : float
        Expected size of the array in MiB, limited to 0.0001 to 10000 and rounded towards a power of ten.

    Examples
    --------
    >>> automatic_chunk_nbytes(1), automatic_chunk_nbytes(10**9)
    (262144, 4194304)
    """
    zone = int(math.log10(min(max(expected_mib, 1e-4), 1e4)))
    return nbytes_by_size(10**zone)


def nbytes_by_size(expected_mib: float) -> int:
    """Return the bytes of a chunk by bcolz's formula, for an array of exactly `expected_mib` MiB.

    Examples
    --------
    >>> nbytes_by_size(1), nbytes_by_size(0.5)
    (262144, 208896)
    """
    return 4096 * int(2 ** (math.log10(expected_mib) + 6))


def automatic_chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the chunk shape of an array whose expected length is its present one.

    Examples
    --------
    >>> automatic_chunks((10**6, 3), 8)
    (21845, 3)
    """
    row_shape = shape[1:]
    return (automatic_chunklen(shape[0], itemsize * math.prod(row_shape)), *row_shape) if shape else ()
