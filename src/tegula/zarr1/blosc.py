"""``zarr.blosc``: the version, compressors and threads of Blosc, and functions that compress and decompress buffers."""

from __future__ import annotations

from typing import Any

from tegula import config
from tegula.errors import CodecError, MetadataError
from tegula.runtime.optional import library

__all__ = [
    "compname_to_compcode",
    "compress",
    "decompress",
    "destroy",
    "get_nthreads",
    "init",
    "list_compressors",
    "set_nthreads",
    "use_threads",
    "version",
]

use_threads: bool | None = None
"""For programs that set it. It has no effect: each chunk is compressed by one thread."""


def _library() -> Any:
    return library("numcodecs.blosc")


def version() -> tuple[str, str]:
    """Return the version of the Blosc library and the date of its release.

    Examples
    --------
    >>> version()[0].split(".")[0]
    '1'
    """
    blosc = _library()
    return blosc.VERSION_STRING, blosc.VERSION_DATE


def init() -> None:
    """Do nothing; the library is loaded when it is needed."""


def destroy() -> None:
    """Do nothing; the library stays loaded until the process ends."""


def list_compressors() -> list[str]:
    """Return the names of the compressors in this build of Blosc.

    Examples
    --------
    >>> "lz4" in list_compressors()
    True
    """
    return [*_library().list_compressors()]


def compname_to_compcode(cname: str | bytes) -> int:
    """Return the code of a compressor in Blosc, or -1 if it is not available.

    Examples
    --------
    >>> compname_to_compcode("lz4"), compname_to_compcode(b"none of these")
    (1, -1)
    """
    codes = {"blosclz": 0, "lz4": 1, "lz4hc": 2, "snappy": 3, "zlib": 4, "zstd": 5}
    name = cname.decode("latin-1") if isinstance(cname, bytes) else cname
    return codes[name] if name in codes and name in list_compressors() else -1


def get_nthreads() -> int:
    """Return the number of chunks that are processed in parallel.

    Examples
    --------
    >>> get_nthreads() >= 1
    True
    """
    return config.current().threads


def set_nthreads(nthreads: int) -> int:
    """Set the number of chunks that are processed in parallel, and return the previous number.

    Examples
    --------
    >>> before = set_nthreads(2)
    >>> get_nthreads(), set_nthreads(before)
    (2, 2)
    """
    return config.put(threads=nthreads).threads


def compress(source: Any, cname: str | bytes, clevel: int, shuffle: int) -> bytes:
    """Compress the elements of an array, or bytes, to a Blosc frame.

    Parameters
    ----------
    source : buffer
        An array or bytes, not empty.
    cname : str or bytes
        Name of the compressor.
    clevel : int
        Compression level, 0 to 9.
    shuffle : int
        0 for none, 1 for bytes, 2 for bits.

    Raises
    ------
    MetadataError
        If an argument is not valid.

    Examples
    --------
    >>> out = bytearray(3000)
    >>> decompress(compress(b"abc" * 1000, "lz4", 5, 1), out)
    >>> out == b"abc" * 1000
    True
    """
    name = cname.encode() if isinstance(cname, str) else cname
    try:
        return bytes(_library().compress(source, name, clevel, shuffle))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise MetadataError(f"Blosc can't compress this: {error}") from error


def decompress(source: Any, dest: Any) -> None:
    """Decompress a Blosc frame into an array or another buffer of the uncompressed size.

    Raises
    ------
    CodecError
        If `source` is not a Blosc frame, or `dest` has another size.

    Examples
    --------
    >>> import numpy as np
    >>> out = np.empty(3, "i4")
    >>> decompress(compress(np.array([1, 2, 3], "i4"), "zlib", 5, 1), out)
    >>> out
    array([1, 2, 3], dtype=int32)
    """
    try:
        _library().decompress(source, dest)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CodecError(f"Blosc can't decompress this: {error}", codec="blosc") from error
