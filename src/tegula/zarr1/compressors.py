"""``zarr.compressors``: the classes of compressors, by name."""

from __future__ import annotations

import lzma
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError
from tegula.zarr1.compression import normalise_compression
from tegula.zarr1.creating import create

__all__ = [
    "BZ2Compressor",
    "BloscCompressor",
    "LZMACompressor",
    "NoCompressor",
    "ZlibCompressor",
    "default_compression",
    "get_compressor_cls",
    "registry",
]


class _Compressor:
    """A compressor of chunks.

    Parameters
    ----------
    compression_opts : object
        The options, as `normalize_opts` returns them.
    """

    canonical_name: ClassVar[str]

    def __init__(self, compression_opts: Any) -> None:
        self._options = compression_opts

    @classmethod
    def normalize_opts(cls, compression_opts: Any) -> Any:
        """Return the options with all defaults.

        Raises
        ------
        MetadataError
            If an option is not valid.
        """
        return normalise_compression(cls.canonical_name, compression_opts)[1]

    def compress(self, array: npt.ArrayLike) -> bytes:
        """Return the bytes that are stored for a chunk of these elements."""
        values = np.asarray(array)
        z = self._chunk(values)
        z[...] = values
        return bytes(z.store[_key(values)])

    def decompress(self, cdata: Any, array: npt.NDArray[Any]) -> None:
        """Decompress a stored chunk into an array of its shape and data type.

        Raises
        ------
        CodecError
            If `cdata` is not such a chunk.
        """
        z = self._chunk(array)
        z.store[_key(array)] = bytes(cdata)
        array[...] = z[...]

    def _chunk(self, array: npt.NDArray[Any]) -> Any:
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        return create(array.shape, array.shape, array.dtype, self.canonical_name, self._options, order=order)


def _key(array: npt.NDArray[Any]) -> str:
    return ".".join("0" * array.ndim)


class BloscCompressor(_Compressor):
    """The compressor Blosc; its options are ``cname``, ``clevel`` and ``shuffle``.

    Examples
    --------
    >>> import numpy as np
    >>> BloscCompressor.normalize_opts({"clevel": 3})
    {'cname': 'lz4', 'clevel': 3, 'shuffle': 1}
    >>> compressor = BloscCompressor(BloscCompressor.normalize_opts(None))
    >>> chunk = np.empty(1000, "i4")
    >>> compressor.decompress(compressor.compress(np.arange(1000, dtype="i4")), chunk)
    >>> chunk[-1]
    np.int32(999)
    """

    canonical_name = "blosc"
    default_cname, default_clevel, default_shuffle = "lz4", 5, 1


class ZlibCompressor(_Compressor):
    """The compressor zlib; its option is the level.

    Examples
    --------
    >>> ZlibCompressor.normalize_opts(None)
    1
    """

    canonical_name = "zlib"
    default_level = 1


class BZ2Compressor(_Compressor):
    """The compressor bzip2; its option is the level.

    Examples
    --------
    >>> BZ2Compressor.normalize_opts(None)
    1
    """

    canonical_name = "bz2"
    default_level = 1


class LZMACompressor(_Compressor):
    """The compressor LZMA; its options are ``format``, ``check``, ``preset`` and ``filters``.

    Examples
    --------
    >>> LZMACompressor.normalize_opts({"preset": 3})
    {'format': 1, 'check': 0, 'preset': 3, 'filters': None}
    """

    canonical_name = "lzma"
    default_format, default_check, default_preset, default_filters = lzma.FORMAT_XZ, lzma.CHECK_NONE, 1, None


class NoCompressor(_Compressor):
    """A compressor that returns its input.

    Examples
    --------
    >>> import numpy as np
    >>> NoCompressor(None).compress(np.array([1, 2], "u1"))
    b'\\x01\\x02'
    """

    canonical_name = "none"


default_compression: Final = BloscCompressor.canonical_name
registry: Final[dict[str | None, type[_Compressor]]] = {
    **{
        cls.canonical_name: cls
        for cls in (BloscCompressor, ZlibCompressor, BZ2Compressor, LZMACompressor, NoCompressor)
    },
    "gzip": ZlibCompressor,
    None: NoCompressor,
}
"""The classes of compressors by name. Arrays do not use classes that a program adds."""


def get_compressor_cls(compression: str | None) -> type[_Compressor]:
    """Return the class of a compressor; ``"default"`` means Blosc.

    Raises
    ------
    MetadataError
        If there is no compressor of that name.

    Examples
    --------
    >>> get_compressor_cls("gzip").canonical_name
    'zlib'
    """
    name = default_compression if compression == "default" else compression
    if name not in registry:
        raise MetadataError(f"there is no compressor {compression!r:.80}", field="compression")
    return registry[name]
