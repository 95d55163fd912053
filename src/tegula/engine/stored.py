"""A stored array as the engine sees it: where its chunks are and how they are read."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import config
from tegula.codecs import CodecChain
from tegula.codecs.sharding import InnerChain
from tegula.engine.chains import chain_of
from tegula.errors import CodecError, MetadataError, NotFoundError, StoreError, TegulaError, out_of_memory
from tegula.formats import find_format
from tegula.metadata.fill_values import undefined_fill
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store

__all__ = ["StoredArray", "physical_memory", "stored_array"]

_MAX_INDEX_BYTES = 2**28
_FEW = 2**12  # chunks that are looked for one by one, however few are stored
_SHARE = 4  # asking for a chunk takes longer than finding it in a listing


@cache
def physical_memory() -> int:
    """Return the bytes of memory this machine has; 2**48 where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**48


@dataclass(frozen=True, slots=True)
class StoredArray:
    """Everything that reading and writing chunks needs, looked up once when an array is opened.

    Parameters
    ----------
    store : Store
        Where the chunks are.
    prefix : str
        What stands before each chunk key: ``""`` or the node's path and ``/``.
    metadata : ArrayMetadata
        What the array is.
    chain : CodecChain
        How a chunk becomes bytes.
    fill : 0-d ndarray
        What a missing chunk is filled with: the fill value, or zeros where the format leaves it undefined.
    chunk_nbytes : int
        Bytes of the largest chunk in memory.
    document : str or None
        Key of the document that the array exists by; ``None`` if it was opened without one.
    field : str or list of str, optional
        The fields of a structured type that an operation is about.
    kernel : object
        What the compiled kernel keeps of the array; see `tegula.engine.kernel`.
    shared : dict
        What the kernel and `target` keep of the store; all descriptions of the array made of each other share it.
    """

    store: Store
    prefix: str
    metadata: ArrayMetadata
    chain: CodecChain
    fill: npt.NDArray[Any]
    chunk_nbytes: int
    document: str | None
    write_empty: bool | None = None
    field: str | list[str] | None = None
    kernel: Any = dataclasses.field(default=None, init=False, compare=False, repr=False)
    shared: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def target(self) -> Store:
        """The store for writing chunks, which makes no directory for an array whose document is gone."""
        of, target = self.shared.get("target", (None, None))
        if of is not self.store:
            target = self.store if self.document is None else self.store.anchored(self.document)
            self.shared["target"] = self.store, target
        found: Store = target
        return found

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements an operation reads or writes."""
        dtype = self.metadata.data_type.numpy
        if self.field is None:
            return dtype
        selected = dtype[self.field]
        return selected if isinstance(self.field, str) else np.dtype([(n, selected[n]) for n in self.field])

    @property
    def keeps_empty(self) -> bool:
        """Whether chunks equal to the fill value are stored."""
        if self.metadata.dense:
            return True
        return config.current().write_empty_chunks if self.write_empty is None else self.write_empty

    def key(self, coords: tuple[int, ...]) -> str:
        """Return the store's key of a chunk; ``""`` if the format has none for it (that of a 0-d array of Zarr v1)."""
        name = self.metadata.keys.encode(coords)
        return self.prefix + name if name else ""

    def stored_shape(self, coords: tuple[int, ...], data: bytes | None) -> tuple[int, ...]:
        """Return the shape of a chunk as its bytes hold it; of a missing one, as it has to be.

        Raises
        ------
        CodecError
            If it is shorter than the array needs it to be.
        """
        shape = self.metadata.grid.chunk_shape(coords)
        if not self.metadata.dense:
            return shape
        least = min(shape[0], self.metadata.shape[0] - coords[0] * shape[0])
        rows = least if data is None else self.chain.rows(data, shape)
        if rows < least:
            raise CodecError(f"there are {rows} rows where the array has {least}")
        return (rows, *shape[1:])

    def check_exists(self) -> None:
        """Look whether the array is still there, as every read does once that finds chunks absent.

        Raises
        ------
        NotFoundError
            If the document is gone that the array exists by: then an absent chunk is not the fill value.
        """
        if self.document is not None and not self.store.exists(self.document):
            error = NotFoundError("the array has been deleted or moved since it was opened", key=self.document)
            self.locate(error)
            raise error

    def locate(self, error: TegulaError, key: str | None = None) -> None:
        """Add the place to an error from a floor that does not know it."""
        error.within(path=f"{self.store.url}/{self.prefix}".rstrip("/"), key=key)

    def out_of_memory(self, error: MemoryError) -> StoreError:
        """Make the error for memory that an operation could not get."""
        made = out_of_memory(error)
        self.locate(made)
        return made

    @property
    def chunk_prefix(self) -> str:
        """What all chunk keys lie below: the longest prefix that ends in ``/``."""
        keys = self.metadata.keys
        # the one chunk of a 0-d array stands beside the documents
        return self.prefix + (keys.prefix[: keys.prefix.rfind("/") + 1] if self.metadata.ndim else "")

    def is_sparse(self, number: int) -> bool:
        """Return whether far fewer chunks are stored than `number`, so that listing them is less work than many looks.

        No more are listed than a quarter of `number`, and none where that is small or the format stores every chunk.
        """
        if number <= _FEW or self.metadata.dense:
            return False
        most = min(number // _SHARE, sys.maxsize)
        return next(islice(self.stored_chunks(), most, None), None) is None

    def stored_chunks(self) -> Iterator[tuple[tuple[int, ...], str]]:
        """Yield grid coordinates and key of each chunk that has a value, in no particular order."""
        keys = self.metadata.keys
        for key in self.store.list_prefix(self.chunk_prefix):
            coords = keys.decode(key[len(self.prefix) :], self.metadata.ndim)
            if coords is not None:
                yield coords, key

    def amount_stored(self) -> tuple[int, int]:
        """Count the stored chunks (shards where there are) and their bytes, by listing the store."""
        count = size = 0
        for _, key in self.stored_chunks():
            count += 1
            size += self.store.size(key) or 0
        return count, size


def stored_array(
    store: Store,
    path: str,
    metadata: ArrayMetadata,
    *,
    allow_pickle: bool = False,
    write_empty: bool | None = None,
    document: str | None = None,
) -> StoredArray:
    """Look up what an array needs, and refuse what can't be read or is larger than the limits.

    Parameters
    ----------
    store, path, metadata
        Where the array is, and what it is.
    allow_pickle, write_empty
        Whether a codec may pickle, and whether chunks equal to the fill value are stored.
    document : str, optional
        Key of the document that the array exists by; by default that of its own documents which says the shape.

    Raises
    ------
    MetadataError, UnsupportedError
        If the codecs are not known or do not fit the data type and chunks, or a chunk exceeds ``max_chunk_bytes``.
    """
    prefix = f"{path}/" if path else ""
    dtype = metadata.data_type.numpy
    chunk = metadata.grid.largest_chunk()
    chunk_nbytes = prod(chunk) * dtype.itemsize
    limit = config.current().max_chunk_bytes
    if chunk_nbytes > limit:
        place = f"{store.url}/{path}".rstrip("/")
        raise MetadataError(
            f"a chunk of {chunk_nbytes} bytes exceeds max_chunk_bytes, {limit}", path=place, field="chunks"
        )
    fill = metadata.fill_value
    if fill is None:
        fill = undefined_fill(metadata.data_type)
        if metadata.data_type.variable:
            fill[()] = None
    try:
        chain = chain_of(
            metadata,
            fill,
            allow_pickle=allow_pickle,
            chunk_shape=chunk if metadata.grid.is_regular else None,
            keep_empty=write_empty,
        )
        if not metadata.grid.is_regular:
            _check_indexes(chain, chunk)
    except TegulaError as error:
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise
    if document is None and (own := find_format(metadata.format).shape_key) in metadata.documents:
        document = prefix + own
    return StoredArray(store, prefix, metadata, chain, fill, chunk_nbytes, document, write_empty)


def _check_indexes(chain: CodecChain | InnerChain, shard: tuple[int, ...]) -> None:
    """Refuse shards with a huge index, as the codec itself does where all shards have one shape."""
    while chain.sharding is not None:
        if (size := chain.sharding.index_nbytes(shard)) > _MAX_INDEX_BYTES:
            raise MetadataError(
                f"a shard's index of {size} bytes is larger than {_MAX_INDEX_BYTES}", field="chunk_shape"
            )
        shard, chain = chain.sharding.inner_shape, chain.sharding.inner
