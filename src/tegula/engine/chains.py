"""Codec chains that were built before: arrays of one description share theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tegula import config
from tegula.codecs import CodecChain, build_chain
from tegula.metadata.nodes import ArrayMetadata, CodecSpec

__all__ = ["chain_of"]

# by the identity of what a chain is built from, which an entry keeps alive: formats hand out the same objects again
_known: dict[tuple[Any, ...], tuple[tuple[Any, ...], CodecChain]] = {}
_MOST: Final = 256
# what any other name stands for may change while the process runs, since users register codecs with numcodecs
_FIXED: Final = frozenset(
    "bytes transpose sharding_indexed packbits cast_value scale_offset blosc gzip zstd crc32c blpk numcodecs.blosc"
    " numcodecs.zlib numcodecs.gzip numcodecs.bz2 numcodecs.lzma numcodecs.zstd numcodecs.lz4 numcodecs.crc32c"
    " numcodecs.crc32 numcodecs.adler32".split()
)


def chain_of(
    metadata: ArrayMetadata,
    fill: Any,
    *,
    allow_pickle: bool,
    chunk_shape: tuple[int, ...] | None,
    keep_empty: bool | None,
) -> CodecChain:
    """Return the chain of an array, which may be that of another array too.

    Parameters
    ----------
    metadata : ArrayMetadata
        The array.
    fill : 0-d ndarray
        Its fill value, or what stands for it.
    allow_pickle, chunk_shape, keep_empty
        As for `build_chain`, which says what may go wrong, too.
    """
    parts = (metadata.codecs, metadata.data_type, metadata.fill_value, metadata.grid)
    # a chain remembers what the limit on chunks allowed
    key = (*map(id, parts), metadata.ndim, allow_pickle, keep_empty, config.current().max_chunk_bytes)
    known = _known.get(key)
    if known is not None:
        return known[1]
    chain = build_chain(
        metadata.codecs,
        metadata.data_type,
        fill,
        allow_pickle=allow_pickle,
        ndim=metadata.ndim,
        chunk_shape=chunk_shape,
        keep_empty=keep_empty,
    )
    if metadata.data_type.is_fixed and _are_fixed(metadata.codecs):
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = (parts, chain)
    return chain


def _are_fixed(specs: Sequence[CodecSpec]) -> bool:
    return all(
        spec.name in _FIXED and (spec.name != "sharding_indexed" or _inner_are_fixed(spec.configuration))
        for spec in specs
    )


def _inner_are_fixed(shards: Mapping[str, Any]) -> bool:
    """Look into the configuration of shards, which has been found valid."""
    for codec in (*shards["codecs"], *shards.get("index_codecs", ())):
        name, inner = (codec["name"], codec.get("configuration", {})) if isinstance(codec, Mapping) else (codec, {})
        if name not in _FIXED or (name == "sharding_indexed" and not _inner_are_fixed(inner)):
            return False
    return True
