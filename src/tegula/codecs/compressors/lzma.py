"""``numcodecs.lzma``: the XZ, LZMA and raw formats of Python's ``lzma``, with custom filters.

XZ and LZMA streams name their filters in a header; only a raw stream needs those of the configuration.
"""

from __future__ import annotations

import lzma
from functools import partial
from typing import Any, Final

from tegula.codecs.compressors.streams import Streams
from tegula.codecs.native import NativeLzma
from tegula.codecs.stages import BufferCodec, Context, Data, Decoder, between, check_options, flat, option
from tegula.errors import MetadataError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Lzma", "build"]

_DICTIONARY: Final = 2**27
"""Largest dictionary in bytes that a stream may demand for a smaller chunk; the highest preset uses half of it."""

Filters = list[dict[str, Any]]


class Lzma(BufferCodec):
    """LZMA with the arguments of `lzma.compress`."""

    name = "numcodecs.lzma"

    def __init__(self, container: int, check: int, preset: int | None, filters: Filters | None) -> None:
        self.settings = (container, check, preset, filters)

    @property
    def native(self) -> NativeLzma | None:
        container, check, preset, filters = self.settings
        return NativeLzma(container, check, preset) if filters is None else None

    def encode(self, data: Data) -> bytes:
        return lzma.compress(flat(data), *self.settings)

    def decoder(self, size: int | None, limit: int) -> Decoder:
        return self._streams(limit).decoder(size, limit)

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        return self._streams(limit).excess(data, limit)

    def _streams(self, limit: int) -> Streams:
        container, _, _, filters = self.settings
        if container == lzma.FORMAT_RAW:
            start = partial(lzma.LZMADecompressor, lzma.FORMAT_RAW, None, filters)
        else:
            start = partial(lzma.LZMADecompressor, container, max(limit, _DICTIONARY))
        xz = container == lzma.FORMAT_XZ
        return Streams(start, self.name, several=xz, padding=4 if xz else 0)


def build(spec: CodecSpec, context: Context) -> Lzma:
    """Build the codec with the options ``format``, ``check``, ``preset`` and ``filters``."""
    check_options(spec, "format", "check", "preset", "filters")
    container = option(spec, "format", lzma.FORMAT_XZ, between(1, 3))
    check = option(spec, "check", -1, lambda value: type(value) is int and value in (-1, 0, 1, 4, 10))
    preset = option(spec, "preset", None, _is_preset)
    filters = option(spec, "filters", None, _are_filters) or None
    if container == lzma.FORMAT_RAW and filters is None:
        raise MetadataError("the raw format needs filters", field="codecs.filters", codec=spec.name)
    if preset is not None and filters is not None:
        raise MetadataError("preset and filters are mutually exclusive", field="codecs.preset", codec=spec.name)
    return Lzma(container, check, preset, filters)


def _is_preset(value: Any) -> bool:
    return value is None or (type(value) is int and value & ~lzma.PRESET_EXTREME in range(10))


def _are_filters(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(
        isinstance(item, dict)
        and type(item.get("id")) is int
        and all(isinstance(name, str) and type(number) is int for name, number in item.items())
        and 0 <= item.get("dict_size", 0) <= _DICTIONARY
        for item in value
    )
