"""Text of carrays: their elements, and the facts that ``repr`` shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import get_printoptions, set_printoptions

__all__ = [
    "HEADER",
    "array2string",
    "blocksize",
    "describe",
    "get_printoptions",
    "human_readable_size",
    "set_printoptions",
]

HEADER = 16
"""Bytes of the header of the file of a chunk, and of the header of the Blosc frame that follows it."""

_BLOCKSIZE = slice(8, 12)


def human_readable_size(nbytes: int) -> str:
    """Return a number of bytes as text with a unit.

    Examples
    --------
    >>> human_readable_size(10), human_readable_size(10234)
    ('10', '9.99 KB')
    """
    if nbytes < 2**10:
        return str(nbytes)
    power = min((nbytes.bit_length() - 1) // 10, 4)
    return f"{nbytes / 2 ** (10 * power):.2f} {' KMGT'[power]}B"


def array2string(array: Any, **options: Any) -> str:
    """Return a carray as NumPy would print it; only the first and last rows of a long one are read.

    Rows of a table are printed with all digits.

    Parameters
    ----------
    array : carray or ctable
        The array.
    **options
        As for `numpy.array2string`.

    Examples
    --------
    >>> from tegula import bcolz
    >>> array2string(bcolz.arange(10_000))
    '[   0    1    2 ... 9997 9998 9999]'
    """
    settings = {**get_printoptions(), **{name: value for name, value in options.items() if value is not None}}
    edge = settings["edgeitems"]
    if array.size <= settings["threshold"] or len(array) <= 2 * edge:
        rows = array[:]
    else:  # one row more than NumPy shows, so that it abbreviates
        rows = np.concatenate([array[: edge + 1], array[len(array) - edge :]])
        options["threshold"] = 0
    if rows.dtype.names is not None:  # NumPy rounds the fields of records in an array, but not those of a single record
        records = np.empty(rows.shape, object)
        for position in np.ndindex(rows.shape):
            records[position] = rows[position]
        rows, options["formatter"] = records, {"object": str, **(settings["formatter"] or {})}
    return np.array2string(rows, **options)


def describe(array: Any) -> str:
    """Return the ``repr`` of a carray: shape, sizes and compression parameters, and its rows."""
    nbytes, cbytes = array.nbytes, array.cbytes
    lines = [
        f"carray({array.shape}, {array.dtype})",
        f"  nbytes := {human_readable_size(nbytes)}; cbytes := {human_readable_size(cbytes)};"
        f" ratio: {nbytes / cbytes if cbytes else np.nan:.2f}",
        f"  cparams := {array.cparams!r}",
        f"  chunklen := {array.chunklen}; chunksize: {array.chunklen * array.atomsize}; blocksize: {blocksize(array)}",
    ]
    if array.rootdir:
        lines += [f"  rootdir := '{array.rootdir}'", f"  mode    := '{array.mode}'"]
    return "\n".join([*lines, str(array)])


def blocksize(array: Any) -> int:
    """Return the block size of Blosc in bytes, from the frame of the first full chunk; 0 if there is none."""
    if not array.nchunks:
        return 0
    stored = array._array
    key = stored.metadata.keys.encode((0,) * stored.ndim)
    header = stored.store.get(key, (HEADER, 2 * HEADER)) or b""
    return int.from_bytes(header[_BLOCKSIZE], "little")
