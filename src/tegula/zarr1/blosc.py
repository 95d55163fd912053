"""``zarr.blosc``: Blosc's version, compressors and threads, and what it makes of bytes."""

from __future__ import annotations

from typing import Any

from tegula import config
from tegula.codecs.stages import library
from tegula.errors import CodecError, MetadataError

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
"""Taken, and without effect: threads work on chunks, and never on parts of one."""


def _library() -> Any:
    return library("numcodecs.blosc")


def version() -> tuple[str, str]:
    """Return the version of the Blosc library and its date."""
    blosc = _library()
    return blosc.VERSION_STRING, blosc.VERSION_DATE


def init() -> None:
    """Do nothing: the library is loaded when it is needed."""


def destroy() -> None:
    """Do nothing: the library is unloaded with the process."""


def list_compressors() -> list[str]:
    """Return the names of the compressors that Blosc was built with.

    Examples
    --------
    >>> "lz4" in list_compressors()
    True
    """
    return [*_library().list_compressors()]


def compname_to_compcode(cname: str | bytes) -> int:
    """Return the number that Blosc has for a compressor, or -1 if there is no such.

    Examples
    --------
    >>> compname_to_compcode("lz4"), compname_to_compcode(b"none of these")
    (1, -1)
    """
    codes = {"blosclz": 0, "lz4": 1, "lz4hc": 2, "snappy": 3, "zlib": 4, "zstd": 5}
    name = cname.decode("latin-1") if isinstance(cname, bytes) else cname
    return codes[name] if name in codes and name in list_compressors() else -1


def get_nthreads() -> int:
    """Return how many chunks are worked on at once."""
    return config.current().threads


def set_nthreads(nthreads: int) -> int:
    """Set how many chunks are worked on at once, and return how many it were before.

    Examples
    --------
    >>> before = set_nthreads(2)
    >>> get_nthreads(), set_nthreads(before)
    (2, 2)
    """
    return config._put(threads=nthreads).threads


def compress(source: Any, cname: str | bytes, clevel: int, shuffle: int) -> bytes:
    """Compress the elements of an array, or bytes, into a Blosc frame.

    Raises
    ------
    MetadataError
        If there is no such compressor, or what is given has no bytes.

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
    """Decompress a Blosc frame into an array, or any buffer of the size that comes out.

    Raises
    ------
    CodecError
        If it is no frame, or one of another size.
    """
    try:
        _library().decompress(source, dest)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CodecError(f"Blosc can't decompress this: {error}", codec="blosc") from error
