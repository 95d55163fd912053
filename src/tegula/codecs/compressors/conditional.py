"""``conditional``: each chunk uses those codecs that make it smaller (Zarr extensions registry, "Conditional Codec").

Encoded bytes begin with one bit for each codec, which says whether it was applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tegula.codecs.registry import builder, check_pickle, is_ignored
from tegula.codecs.stages import (
    REQUIRED,
    BufferCodec,
    Context,
    Data,
    Decoder,
    check_options,
    flat,
    option,
    wrong_size,
)
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.metadata.nodes import CodecSpec

__all__ = ["Conditional", "build"]

_NAME: Final = "conditional"
_MOST: Final = 64  # codecs, and bytes of their bits
_MARGIN: Final = 2**16  # bytes by which compressed data may exceed twice the size of their content


class Conditional(BufferCodec):
    """Codecs that are applied to a chunk if the result is smaller: all of them, or all but the first or last ones.

    Parameters
    ----------
    codecs : sequence of BufferCodec or None
        The codecs, in the order of encoding; ``None`` for those that are ignored.
    header : int
        Number of bytes of the bits before the data.

    Examples
    --------
    >>> from tegula.codecs import build_chain
    >>> from tegula.metadata.data_types import as_data_type
    >>> import numpy as np
    >>> spec = CodecSpec("conditional", {"codecs": [{"name": "zstd", "configuration": {"level": 1}}]})
    >>> chain = build_chain([CodecSpec("bytes"), spec], as_data_type("u1"), None, ndim=1)
    >>> len(chain.encode(np.zeros(1000, "u1"))) < 30, bytes(chain.encode(np.array([7, 9], "u1")))
    (True, b'\\x00\\x07\\t')
    """

    name = _NAME

    def __init__(self, codecs: Sequence[BufferCodec | None], header: int) -> None:
        self.codecs = tuple(codecs)
        self.header = header

    def load(self) -> None:
        for codec in filter(None, self.codecs):
            codec.load()

    def encode(self, data: Data) -> Data:
        best, chosen = flat(data), 0
        known = sum(1 << number for number, codec in enumerate(self.codecs) if codec is not None)
        masks = dict.fromkeys(
            mask & known
            for first in range(len(self.codecs))
            for mask in (((1 << len(self.codecs)) - 1) >> first << first, (1 << first + 1) - 1)
        )
        for mask in masks:
            trial = data
            for codec in self._used(mask):
                trial = codec.encode(trial)
            encoded = flat(trial)
            if len(encoded) < len(best):
                best, chosen = encoded, mask
        return chosen.to_bytes(self.header, "little") + bytes(best)

    def _used(self, mask: int) -> list[BufferCodec]:
        return [codec for number, codec in enumerate(self.codecs) if mask >> number & 1 and codec is not None]

    def decoder(self, size: int | None, limit: int) -> Decoder:
        def decode(data: Data) -> Data:
            if len(data) < self.header:
                raise CodecError("the data is truncated", codec=_NAME)
            mask = int.from_bytes(data[: self.header], "little")
            if mask >> len(self.codecs):
                raise CodecError("the data names a codec that is not stated", codec=_NAME)
            used = self._used(mask)
            sizes: list[int | None] = [size]
            limits = [limit]
            for codec in used:
                last = sizes[-1]
                sizes.append(None if last is None else codec.size(last))
                limits.append(sizes[-1] or 2 * limits[-1] + _MARGIN)
            value = data[self.header :]
            for codec, expected, most in reversed([*zip(used, sizes, limits)]):
                value = codec.decoder(expected, most)(value)
            if not used and (len(value) > limit or (size is not None and len(value) != size)):
                raise wrong_size(len(value), limit if size is None else size, _NAME)
            return value

        return decode


def build(spec: CodecSpec, context: Context) -> Conditional:
    """Build the codec with the options ``codecs`` and ``header_bits``."""
    check_options(spec, "codecs", "header_bits")
    listed = option(spec, "codecs", REQUIRED, lambda value: isinstance(value, (list, tuple)) and len(value) <= _MOST)
    codecs: list[BufferCodec | None] = []
    for item in listed:
        inner = _inner(item)
        check_pickle(inner, context.allow_pickle)
        try:
            codec = builder(inner.name, 1)(inner, context)
        except UnsupportedError as error:
            if not is_ignored(inner, error):
                raise
            codecs.append(None)
            continue
        if codec is not None:
            codecs.append(codec)
        else:
            raise MetadataError(f"{inner.name} changes nothing here", field="codecs.codecs", codec=_NAME)
    usual = -(-len(listed) // 8) * 8
    bits = option(spec, "header_bits", None, lambda value: value is None or _is_header(value, len(listed)))
    return Conditional(codecs, (usual if bits is None else bits) // 8)


def _is_header(value: object, least: int) -> bool:
    return type(value) is int and value % 8 == 0 and least <= value <= 8 * _MOST


def _inner(item: object) -> CodecSpec:
    """Read a codec in the configuration."""
    if isinstance(item, str):
        return CodecSpec(item)
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        configuration = item.get("configuration", {})
        if isinstance(configuration, dict):
            return CodecSpec(item["name"], configuration, item.get("must_understand") is not False)
    raise MetadataError(f"{item!r:.80} is not a codec", field="codecs.codecs", codec=_NAME)
