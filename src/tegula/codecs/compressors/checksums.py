"""Checksums of 4 bytes before or after the data: ``crc32c`` (Zarr v3 core, "crc32c codec") and those of numcodecs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.codecs.native import NativeChecksum
from tegula.codecs.stages import BufferCodec, Context, Data, Decoder, check_options, flat, library, option, wrong_size
from tegula.errors import CodecError
from tegula.metadata.nodes import CodecSpec
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import zlib
else:
    zlib = Later("zlib")

__all__ = ["Checksum", "build", "notices_changes"]


def _crc32c(data: Data) -> int:
    # the library accepts bytes and arrays, but not memoryviews
    return int(library("google_crc32c").value(data if type(data) is bytes else np.frombuffer(data, "u1")))


def _crc32(data: Data) -> int:
    return zlib.crc32(data)


def _adler32(data: Data) -> int:
    return zlib.adler32(data)


_SUMS: Final[dict[str, tuple[Callable[[Any], int], str]]] = {
    "crc32c": (_crc32c, "end"),
    "numcodecs.crc32c": (_crc32c, "end"),
    "numcodecs.crc32": (_crc32, "start"),
    "numcodecs.adler32": (_adler32, "start"),
}


class Checksum(BufferCodec):
    """A checksum as a little-endian 32-bit integer before or after the data.

    Examples
    --------
    >>> Checksum("crc32c", _crc32c, at_start=False).encode(b"123456789")[-4:].hex()
    '839206e3'
    """

    def __init__(self, name: str, function: Callable[[Data], int], at_start: bool) -> None:
        self.name = name
        self.function = function
        self.at_start = at_start

    @property
    def native(self) -> NativeChecksum:
        return NativeChecksum(self.name.removeprefix("numcodecs."), self.at_start)

    def load(self) -> None:
        if self.function is _crc32c:
            library("google_crc32c")

    def size(self, size: int) -> int:
        return size + 4

    def encode(self, data: Data) -> bytes:
        data = flat(data)
        checksum = self.function(data).to_bytes(4, "little")
        return b"".join((checksum, data) if self.at_start else (data, checksum))

    def decoder(self, size: int | None, limit: int) -> Decoder:
        name, function = self.name, self.function
        content, stored = (slice(4, None), slice(4)) if self.at_start else (slice(-4), slice(-4, None))

        def decode(data: Data) -> Data:
            if len(data) < 4:
                raise CodecError("the data is shorter than its checksum", codec=name)
            if size is not None and len(data) != size + 4:
                raise wrong_size(len(data) - 4, size, name)
            view = memoryview(data)
            checked = view[content]
            if function(checked) != int.from_bytes(view[stored], "little"):
                raise CodecError("the checksum does not match the data", codec=name)
            return checked

        return decode


def build(spec: CodecSpec, context: Context) -> Checksum:
    """Build the codec; the checksums of numcodecs have the option ``location``."""
    check_options(spec, *(() if spec.name == "crc32c" else ("location",)))
    function, usual = _SUMS[spec.name]
    at_start = option(spec, "location", usual, {"start": True, "end": False, None: usual == "start"})
    return Checksum(spec.name, function, at_start)


_XZ: Final = 1  # lzma.FORMAT_XZ; some builds of Python lack the module
_NO_CHECK: Final = 0
_HAVE_ONE: Final = frozenset(
    (
        *_SUMS,
        *("gzip", "numcodecs.gzip", "numcodecs.zlib", "numcodecs.bz2"),
        *("numcodecs.fletcher32", "numcodecs.jenkins_lookup3"),
    )
)


def notices_changes(codecs: Sequence[CodecSpec]) -> bool:
    """Return whether decoding verifies a checksum of the whole chunk, or of each inner chunk of a shard.

    Compressors count if their format includes a checksum: gzip, zlib, bz2, most forms of LZMA, optionally Zstandard.

    Examples
    --------
    >>> notices_changes([CodecSpec("bytes"), CodecSpec("zstd")]), notices_changes([CodecSpec("crc32c")])
    (False, True)
    """
    return any(_has_checksum(codec.name, codec.configuration) for codec in codecs)


def _has_checksum(name: str, options: Mapping[str, Any]) -> bool:
    if name in ("zstd", "numcodecs.zstd"):
        return options.get("checksum") is True
    if name == "numcodecs.lzma":
        return options.get("format") in (None, _XZ) and options.get("check") != _NO_CHECK
    if name == "sharding_indexed":
        return any(
            _has_checksum(item, {})
            if isinstance(item, str)
            else _has_checksum(item["name"], item.get("configuration", {}))
            for item in options.get("codecs", ())
        )
    return name in _HAVE_ONE
