"""A cache of codec chains: arrays with equal descriptions share theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tegula.codecs.chain import CodecChain, build_chain

if TYPE_CHECKING:
    from tegula.metadata.nodes import ArrayMetadata, CodecSpec

__all__ = ["chain_of"]

# keyed by the ids of a description's parts, which the entry keeps alive; arrays of equal descriptions share these parts
_known: dict[tuple[Any, ...], tuple[tuple[Any, ...], CodecChain]] = {}
_MOST: Final = 256
# codecs that users register with numcodecs may change while the process runs; the codecs in this list may not
_FIXED: Final = frozenset(
    "bytes transpose sharding_indexed packbits cast_value scale_offset blosc gzip zstd crc32c blpk numcodecs.blosc"
    " numcodecs.zlib numcodecs.gzip numcodecs.bz2 numcodecs.lzma numcodecs.zstd numcodecs.lz4 numcodecs.crc32c"
    " numcodecs.crc32 numcodecs.adler32 n5_default lz4block".split()
)


def chain_of(
    metadata: ArrayMetadata,
    fill: Any,
    *,
    allow_pickle: bool,
    chunk_shape: tuple[int, ...] | None,
    keep_empty: bool | None,
    limit: int,
) -> CodecChain:
    """Return the codec chain of an array, which other arrays may share.

    Parameters
    ----------
    metadata : ArrayMetadata
        The array.
    fill : 0-d ndarray
        Its fill value, or zeros where it is undefined.
    allow_pickle, chunk_shape, keep_empty
        As for `build_chain`, which also lists the errors.
    limit : int
        The present value of ``max_chunk_bytes``, on which a chain depends.
    """
    parts = (metadata.codecs, metadata.data_type, metadata.fill_value, metadata.grid)
    key = (*map(id, parts), len(metadata.shape), allow_pickle, keep_empty, limit)
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
        spec.name in _FIXED and ("codecs" not in spec.configuration or _inner_are_fixed(spec.configuration))
        for spec in specs
    )


def _inner_are_fixed(shards: Mapping[str, Any]) -> bool:
    """Return whether the inner codecs of shards can't change while the process runs, for a valid configuration."""
    for codec in (*shards["codecs"], *shards.get("index_codecs", ())):
        name, inner = (codec["name"], codec.get("configuration", {})) if isinstance(codec, Mapping) else (codec, {})
        if name not in _FIXED or (name == "sharding_indexed" and not _inner_are_fixed(inner)):
            return False
    return True
