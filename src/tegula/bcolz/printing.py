"""What a carray looks like."""

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
"""Bytes of the header of the container that a chunk is stored in, and of the frame's in that."""

_BLOCKSIZE = slice(8, 12)


def human_readable_size(nbytes: int) -> str:
    """Write a number of bytes.

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
    """Write a carray as NumPy would; of a long one only the first and the last rows are read."""
    settings = {**get_printoptions(), **{name: value for name, value in options.items() if value is not None}}
    edge = settings["edgeitems"]
    if array.size <= settings["threshold"] or len(array) <= 2 * edge:
        return np.array2string(array[:], **options)
    # one row more than is shown stands for all that are left out
    rows = np.concatenate([array[: edge + 1], array[len(array) - edge :]])
    return np.array2string(rows, **{**options, "threshold": 0})


def describe(array: Any) -> str:
    """Write what a carray is, and its rows."""
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
    """Return the bytes that Blosc compresses as one, as the first full chunk says."""
    if not array.nchunks:
        return 0
    stored = array._array
    key = stored.metadata.keys.encode((0,) * stored.ndim)
    header = stored.store.get(key, (HEADER, 2 * HEADER)) or b""
    return int.from_bytes(header[_BLOCKSIZE], "little")
