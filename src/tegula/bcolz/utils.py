"""``bcolz.utils``: sizes of chunks, text of sizes, and conversion to arrays."""

from __future__ import annotations

from math import ceil, inf, isfinite, log2, nan
from time import time
from typing import Any, Final

import numpy as np

from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.converting import as_dtype, as_values
from tegula.bcolz.errors import KindError
from tegula.bcolz.printing import human_readable_size
from tegula.errors import MetadataError
from tegula.formats.bcolz.chunks import automatic_chunk_nbytes, nbytes_by_size

__all__ = [
    "build_carray",
    "calc_chunksize",
    "csformula",
    "get_len_of_range",
    "human_readable_size",
    "limit_es",
    "quantize",
    "show_stats",
    "to_ndarray",
]

_MOST_DIGITS: Final = 300


def calc_chunksize(expectedsizeinMB: float) -> int:
    """Return the chunk size in bytes for an array of a size in MiB; only the order of magnitude of the size matters.

    Examples
    --------
    >>> calc_chunksize(0), calc_chunksize(3), calc_chunksize(1e9)
    (16384, 262144, 4194304)
    """
    return automatic_chunk_nbytes(_as_size(expectedsizeinMB))


def csformula(expectedsizeinMB: float) -> int:
    """Return the chunk size in bytes for an array of a size in MiB, without rounding to an order of magnitude.

    Raises
    ------
    MetadataError
        If the size is not a positive number.

    Examples
    --------
    >>> csformula(1), csformula(3)
    (262144, 364544)
    """
    size = _as_size(expectedsizeinMB)
    if size <= 0:
        raise MetadataError(f"a size must be positive, not {expectedsizeinMB!r:.80}", field="expectedsizeinMB")
    return nbytes_by_size(size)


def limit_es(expectedsizeinMB: float) -> float:
    """Clip a size in MiB to the range for which chunk sizes are chosen, 0.0001 to 10000.

    Examples
    --------
    >>> limit_es(0), limit_es(3), limit_es(1e9)
    (0.0001, 3, 10000.0)
    """
    _as_size(expectedsizeinMB)
    return min(max(expectedsizeinMB, 1e-4), 1e4)


def _as_size(size: Any) -> float:
    try:
        number = float(size) if isinstance(size, (int, float, np.number)) else nan
    except OverflowError:  # an int that no size can be
        number = inf
    if not isfinite(number):
        said = "" if isinstance(size, int) else f", not {size!r:.80}"
        raise MetadataError(f"a size must be a number that a float can hold{said}", field="expectedsizeinMB")
    return number


def get_len_of_range(start: int, stop: int, step: int) -> int:
    """Return the length of a range with a positive step.

    Examples
    --------
    >>> get_len_of_range(0, 10, 3), get_len_of_range(5, 5, 1)
    (4, 0)
    """
    return len(range(start, stop, step)) if start < stop else 0


def to_ndarray(array: Any, dtype: Any, arrlen: int | None = None, safe: bool = True) -> Any:
    """Convert values to a contiguous NumPy array with at least one axis.

    Parameters
    ----------
    array : array_like
        The values. An array with a first stride of 0, which repeats one value, is returned unchanged.
    dtype : dtype-like or None
        Data type of the elements; by default that of the values.
    arrlen : int, optional
        Number of rows to broadcast the values to.
    safe : bool
        If false, return `array` unchanged.

    Returns
    -------
    ndarray

    Raises
    ------
    MetadataError
        If the values can't be converted or broadcast.
    TypeError
        If an array with a first stride of 0 has another data type.

    Examples
    --------
    >>> to_ndarray([[0, 1], [2, 3]], "i4").T.flags.c_contiguous, to_ndarray(7, None, arrlen=3)
    (False, array([7, 7, 7]))
    """
    if not safe:
        return array
    wanted = as_dtype(dtype)
    # one value repeated: a copy would only take memory
    if type(array) is np.ndarray and array.ndim and array.strides[0] == 0:
        if wanted is not None and array.dtype != wanted.base:
            raise KindError(f"the array is of type {array.dtype}, not {wanted.base}", field="dtype")
        return array
    rows = np.ascontiguousarray(as_values(array, None if wanted is None else wanted.base))
    # broadcast to the given number of rows
    if arrlen is None or arrlen == len(rows):
        return rows
    inner = rows.shape[1:] if wanted is None else wanted.shape
    try:
        return np.ascontiguousarray(np.broadcast_to(rows, (arrlen, *inner)))
    except ValueError as error:
        raise MetadataError(f"values of shape {rows.shape} are not {arrlen} rows: {error}", field="array") from error


def build_carray(array: Any, rootdir: Any) -> carray:
    """Open the carray in a directory, or create one from an array if `rootdir` is ``None``; for pickles of bcolz.

    Examples
    --------
    >>> build_carray([1, 2], None)[:]
    array([1, 2])
    """
    return carray(rootdir=rootdir) if rootdir else carray(array)


def quantize(data: Any, significant_digits: int) -> Any:
    """Round floating-point numbers to a number of binary digits that keeps `significant_digits` decimal places.

    Parameters
    ----------
    data : array_like
        Floating-point numbers.
    significant_digits : int
        Decimal places to keep; 0 returns `data` unchanged.

    Raises
    ------
    TypeError
        If `data` are not floating-point numbers.
    MetadataError
        If the number of digits is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> quantize(np.array([0.123456, 1.5]), 2)
    array([0.125, 1.5  ])
    """
    values = np.asarray(data)
    if values.dtype.kind != "f":
        raise KindError(f"only floating-point numbers can be quantized, not {values.dtype}", field="data")
    if not significant_digits:
        return data
    if not isinstance(significant_digits, int) or not 0 < significant_digits <= _MOST_DIGITS:
        raise MetadataError(f"digits must be an int up to {_MOST_DIGITS}, not {significant_digits!r:.80}")
    scale = 2.0 ** ceil(log2(10.0**significant_digits))
    return np.around(scale * values) / scale


def show_stats(explain: str, tref: float) -> float:
    """Print the memory use of this process (on Linux) and the seconds since `tref`; return the current time."""
    wanted = ("VmSize", "VmRSS", "VmData", "VmStk", "VmExe", "VmLib")
    numbers: dict[str, str] = {}
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            numbers = dict(line.rstrip().split(":", 1) for line in lines if ":" in line)
    except OSError:
        pass
    print(f"Memory usage: ******* {explain} *******")
    for name in wanted:
        print(f"{name}: {numbers.get(name, 'unknown').strip()}")
    now = time()
    print("WallClock time:", round(now - tref, 3))
    return now
