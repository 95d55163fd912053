"""Codec chains that were built before: arrays of one type, chunk shape and codecs share theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tegula import config
from tegula.codecs import CodecChain, build_chain
from tegula.metadata.nodes import ArrayMetadata, CodecSpec

__all__ = ["chain_of"]

_known: dict[tuple[Any, ...], CodecChain] = {}
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
    """Return the chain of an array, which may be that of another array too; parameters and errors of `build_chain`."""
    key = None
    if metadata.data_type.is_fixed and _are_fixed(metadata.codecs):
        key = _key(metadata, fill, (allow_pickle, chunk_shape, keep_empty))
        if key in _known:
            return _known[key]
    chain = build_chain(
        metadata.codecs,
        metadata.data_type,
        fill,
        allow_pickle=allow_pickle,
        ndim=metadata.ndim,
        chunk_shape=chunk_shape,
        keep_empty=keep_empty,
    )
    if key is not None:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = chain
    return chain


def _key(metadata: ArrayMetadata, fill: Any, options: tuple[Any, ...]) -> tuple[Any, ...] | None:
    specs = [(spec.name, spec.configuration, spec.must_understand) for spec in metadata.codecs]
    try:
        text = json.dumps(specs)  # keeps 1, 1.0 and true apart
    except (TypeError, ValueError, RecursionError):
        return None
    # a chain remembers what the limit on chunks allowed
    limit = config.current().max_chunk_bytes
    return (text, metadata.data_type, fill.dtype, fill.tobytes(), metadata.ndim, limit, *options)


def _are_fixed(specs: Sequence[CodecSpec]) -> bool:
    return all(
        spec.name in _FIXED and (spec.name != "sharding_indexed" or _inner_are_fixed(spec.configuration))
        for spec in specs
    )


def _inner_are_fixed(shards: Any) -> bool:
    """Look into the configuration of shards, which need not be a valid one."""
    if not isinstance(shards, Mapping):
        return False
    for codecs in (shards.get("codecs"), shards.get("index_codecs")):
        for codec in codecs if isinstance(codecs, list) else ():
            name = codec.get("name") if isinstance(codec, dict) else codec
            if not isinstance(name, str) or name not in _FIXED:
                return False
            if name == "sharding_indexed" and not (
                isinstance(codec, dict) and _inner_are_fixed(codec.get("configuration"))
            ):
                return False
    return True
