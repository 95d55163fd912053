"""Opening an array for the engine: building its codecs, checking limits, and choosing the executor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tegula import config
from tegula.engine.reading.preferred import PREFERRED, REFERENCE
from tegula.engine.stored.array import StoredArray, missing_rule
from tegula.engine.stored.chains import chain_of
from tegula.engine.stored.states import REPLACEMENTS
from tegula.errors import MetadataError, TegulaError
from tegula.formats import FORMATS
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula.codecs import CodecChain
    from tegula.codecs.serializers.sharding import InnerChain
    from tegula.engine.stored import strings
    from tegula.engine.stored.array import Executor
    from tegula.metadata import fill_values
    from tegula.metadata.nodes import ArrayMetadata
    from tegula.stores import Store
else:
    fill_values, strings = Later("tegula.metadata.fill_values"), Later("tegula.engine.stored.strings")

__all__ = ["stored_array"]

_MAX_INDEX_BYTES = 2**28


def stored_array(
    store: Store,
    path: str,
    metadata: ArrayMetadata,
    *,
    allow_pickle: bool = False,
    write_empty: bool | None = None,
    document: str | None = None,
    missing_chunks: str | None = None,
) -> StoredArray:
    """Return an array that is ready to be read and written, or raise if it can't be read or exceeds a limit.

    Parameters
    ----------
    store, path, metadata
        Where the array is, and its description.
    allow_pickle, write_empty
        Whether a codec may pickle, and whether chunks equal to the fill value are stored.
    document : str, optional
        Key of the document without which the array does not exist; by default the document that holds its shape.
    missing_chunks : {"fill", "error"}, optional
        What a read of a chunk that is not stored gives; by default what the setting says.

    Raises
    ------
    MetadataError, UnsupportedError
        If the codecs are not known or do not fit the data type and chunks, a chunk exceeds ``max_chunk_bytes``, or an
        option is not a bool.
    """
    if allow_pickle is not False or write_empty is not None:
        _check_options(allow_pickle=allow_pickle, write_empty_chunks=write_empty)
    if missing_chunks is not None:
        missing_rule(missing_chunks)

    # the limit on memory for one chunk
    prefix = f"{path}/" if path else ""
    dtype = metadata.data_type.numpy
    regular = metadata.grid.one_shape
    chunk = regular or metadata.grid.largest_chunk()
    chunk_nbytes = prod(chunk) * dtype.itemsize
    limit = config.current().max_chunk_bytes
    fmt = FORMATS[metadata.format]
    stated = prefix + fmt.node_keys[0] if fmt.node_keys[0] in metadata.documents else None
    if chunk_nbytes > limit:
        message = f"a chunk of {chunk_nbytes} bytes exceeds max_chunk_bytes, {limit}"
        raise MetadataError(message, path=f"{store.url}/{path}".rstrip("/"), key=stated, field="chunks")
    # the fill value; where the format leaves it undefined, zeros stand for it
    fill = metadata.fill_value
    if fill is None:
        fill = fill_values.undefined_fill(metadata.data_type)
        if metadata.data_type.variable:
            fill[()] = None
    # the codecs
    try:
        chain = chain_of(
            metadata,
            fill,
            allow_pickle=allow_pickle,
            chunk_shape=regular,
            keep_empty=write_empty,
            limit=limit,
        )
        if regular is None:
            _check_indexes(chain, chunk)
    except TegulaError as error:
        error.within(path=f"{store.url}/{path}".rstrip("/"), key=stated)
        raise
    if document is None and fmt.shape_key in metadata.documents:
        document = prefix + fmt.shape_key
    # the executor
    executor: Executor = PREFERRED
    if metadata.data_type.variable:  # Python makes objects; the kernel helps with the bytes of text
        chain, executor = strings.StringChain(chain), REFERENCE
    shared = {"opened_at": REPLACEMENTS.now()}
    return StoredArray(
        store,
        prefix,
        metadata,
        chain,
        fill,
        chunk_nbytes,
        document,
        executor,
        write_empty,
        shared=shared,
        missing_chunks=missing_chunks,
    )


def _check_indexes(chain: CodecChain | InnerChain, shard: tuple[int, ...]) -> None:
    """Refuse shards with too large an index; if all shards have one shape, the codec itself refuses them."""
    while chain.sharding is not None:
        if (size := chain.sharding.index_nbytes(shard)) > _MAX_INDEX_BYTES:
            raise MetadataError(
                f"a shard's index of {size} bytes is larger than {_MAX_INDEX_BYTES}", field="chunk_shape"
            )
        shard, chain = chain.sharding.inner_shape, chain.sharding.inner


def _check_options(**options: object) -> None:
    """Raise `MetadataError` for an option that is neither a bool nor ``None``."""
    for name, value in options.items():
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise MetadataError(f"{name} must be True or False, not {value!r:.80}", field=name)
