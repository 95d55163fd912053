"""Nodes of any format in terms of Zarr v3: their documents, and their chunks as these describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from tegula import engine
from tegula.codecs.equivalence import Transfer, decode_alike, transfer
from tegula.codecs.serializers.n5 import N5Block, read_header
from tegula.errors import TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.formats.layout import portable, without_blocks
from tegula.metadata.data_types import DataType
from tegula.metadata.masks import with_mask
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata
from tegula.stores import Store
from tegula.stores.capabilities import stored_key

__all__ = ["DOCUMENT", "ShownArray", "ShownGroup", "describe", "documents_of", "quick_compressors"]

DOCUMENT: Final = "zarr.json"
_ZARR3 = find_format("zarr3")
_KNOWN: Final = frozenset(
    ["bytes", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes", "blosc", "gzip", "zstd", "crc32c"]
    + [
        f"numcodecs.{name}"
        for name in (
            "blosc lz4 zstd zlib gzip bz2 lzma shuffle crc32 crc32c adler32 fletcher32 jenkins_lookup3 delta bitround"
            " fixedscaleoffset quantize packbits astype pcodec zfpy"
        ).split()
    ]
)
"""The codecs that zarr-python 3 registers, with the package numcodecs."""
_FRAME_HEADER: Final = 16
_SNAPPY: Final = 2  # in the flags of a Blosc frame


def describe(metadata: ArrayMetadata) -> ArrayMetadata:
    """Describe an array in Zarr v3, with codecs that zarr-python knows; other chunks must be encoded again.

    Raises
    ------
    UnsupportedError
        If Zarr v3 has no data type for its elements.

    Examples
    --------
    >>> from tegula.hierarchy.creators import create_array
    >>> old = create_array({}, shape=3, dtype=">i2", format="bcolz")
    >>> [codec.name for codec in describe(old.metadata).codecs]
    ['bytes', 'blosc']
    """
    own = find_format(metadata.format)
    if own.portable_attributes is not None:
        metadata = replace(metadata, attributes=own.portable_attributes(metadata))
    draft = with_mask(metadata, own.mask)
    draft = replace(draft, codecs=portable(metadata.codecs), documents={}, dense=False)
    unknown = [codec for codec in draft.codecs if not _is_known(codec)]
    if not unknown:
        try:
            return _ZARR3.adapt(draft)
        except UnsupportedError as error:
            if error.codec is None:
                raise
            unknown = [codec for codec in draft.codecs if codec.name == error.codec]
    if metadata.data_type.variable == "object":
        raise UnsupportedError("Zarr v3 has no data type for Python objects", codec=unknown[0].name)
    kept = [codec for codec in draft.codecs if codec.name in ("bytes", "transpose")]
    return _ZARR3.adapt(replace(draft, codecs=(*kept, *quick_compressors(metadata.data_type))))


def quick_compressors(data_type: DataType) -> tuple[CodecSpec, ...]:
    """Return the compressors of chunks that are encoded for one reader: what encodes and decodes fastest."""
    if data_type.variable:
        return _ZARR3.compressors
    typesize = data_type.numpy.itemsize
    shuffle = "shuffle" if 1 < typesize < 256 else "noshuffle"
    return (
        CodecSpec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": shuffle, "typesize": typesize, "blocksize": 0}),
    )


def _is_known(codec: CodecSpec) -> bool:
    """Return whether zarr-python can decode what a codec has encoded."""
    options = codec.configuration
    if codec.name == "numcodecs.quantize" and options.get("astype", options.get("dtype")) != options.get("dtype"):
        return False  # zarr-python mistakes the stored elements for those of the array
    return codec.name in _KNOWN and options.get("cname") != "snappy"


def _has_snappy(frame: Any) -> bool:
    """Return whether a Blosc frame was compressed by Snappy, which numcodecs lacks, whatever the document says."""
    return len(frame) >= _FRAME_HEADER and frame[2] >> 5 == _SNAPPY


class ShownGroup:
    """A group or table, and its document in Zarr v3.

    Parameters
    ----------
    metadata : GroupMetadata
        Its description in its own format.
    members : iterable of (str, dict), optional
        Consolidated metadata: paths below the group, and documents in Zarr v3.
    """

    def __init__(self, metadata: GroupMetadata, members: Iterable[tuple[str, Mapping[str, bytes]]] | None) -> None:
        self.metadata = metadata
        self.document = group_document(plain_group(metadata), members)


def plain_group(metadata: GroupMetadata) -> GroupMetadata:
    """Return the description of a group in Zarr v3, with nothing but its attributes."""
    return GroupMetadata(attributes=metadata.attributes, format=_ZARR3.name)


def group_document(metadata: GroupMetadata, members: Iterable[tuple[str, Mapping[str, bytes]]] | None = None) -> bytes:
    """Return the document of a group of Zarr v3, with consolidated metadata if the documents of members are given."""
    if members is None:
        return _ZARR3.serialize(metadata)[DOCUMENT]
    assert _ZARR3.consolidate is not None  # Zarr v3 has consolidated metadata
    return _ZARR3.consolidate(metadata, members)[DOCUMENT]


def is_zarr3(metadata: NodeMetadata) -> bool:
    """Return whether a node is shown as it is stored."""
    return metadata.format == _ZARR3.name


class ShownArray:
    """An array, its document in Zarr v3, and its chunks as that document describes them.

    Parameters
    ----------
    store, path, metadata
        The array in its own format.
    described : ArrayMetadata, optional
        Its description in Zarr v3, by default that of `describe`.
    shown_in : Store, optional
        The store to which `key` refers, by default its own; another one, if its own is a view of that.

    Attributes
    ----------
    path : str
        Its path in the store.
    described : ArrayMetadata
        Its description in Zarr v3.
    document : bytes
        Its ``zarr.json``.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        metadata: ArrayMetadata,
        described: ArrayMetadata | None = None,
        *,
        shown_in: Store | None = None,
    ) -> None:
        self.metadata = metadata
        self.path = path
        self._store = store
        self._is_viewed = shown_in is not None and shown_in is not store
        self._same = is_zarr3(metadata)
        self.described = described or (metadata if self._same else describe(metadata))
        self.document: bytes = (
            metadata.documents[DOCUMENT] if self._same else _ZARR3.serialize(self.described)[DOCUMENT]
        )

    @cached_property
    def stored(self) -> engine.StoredArray:
        """The array for the engine, in its own format."""
        return engine.stored_array(self._store, self.path, self.metadata)

    @cached_property
    def _target(self) -> Any:
        """The codecs of the shown chunks."""
        return engine.stored_array(self._store, self.path, self.described, document="").chain

    @cached_property
    def digest(self) -> bytes:
        """A mark of all that a shown chunk depends on beside the stored one."""
        documents = sorted(self.metadata.documents.items())
        return blake2b(repr((documents, self.document)).encode(), digest_size=16).digest()

    @cached_property
    def is_passed_on(self) -> bool:
        """Whether stored chunks are shown byte for byte."""
        own = self.metadata
        return self._same or (not own.dense and self._is_alike and "blpk" not in [codec.name for codec in own.codecs])

    @cached_property
    def _is_alike(self) -> bool:
        old, new = self.metadata, self.described
        return decode_alike(old.codecs, old.data_type, new.codecs, new.data_type)

    @cached_property
    def _is_blosc(self) -> bool:
        return self.described.codecs[-1].name == "blosc"

    @cached_property
    def _transfer(self) -> Transfer | None:
        """The conversion of stored chunks without decoding them, if there is one, of blocks behind the header."""
        old, new, block = self.metadata, self.described, self._block
        chain, codecs = (self.stored.chain, old.codecs) if block is None else (block.inner, without_blocks(old.codecs))
        if not decode_alike(codecs, old.data_type, new.codecs, new.data_type):
            return None
        return transfer(chain, codecs, self._target, new.codecs)

    @property
    def is_moved(self) -> bool:
        """Whether whole stored chunks are shown with another container, without decoding them."""
        return self._transfer is not None

    @cached_property
    def _block(self) -> N5Block | None:
        """The codec of stored chunks that are blocks of N5."""
        found = self.stored.chain.serializer
        return found if isinstance(found, N5Block) else None

    def key(self, coords: tuple[int, ...]) -> str:
        """Return the key of a stored chunk; ``""`` if its format has none."""
        return self.place_of(self.stored.key(coords))

    def place_of(self, key: str) -> str:
        """Return the key by which the value is found that has a key in the store of the array."""
        return stored_key(self._store, key) if self._is_viewed and key else key

    def shown_key(self, coords: tuple[int, ...]) -> str:
        """Return the key of a shown chunk, below the array."""
        return self.described.keys.encode(coords)

    def coords(self, key: str) -> tuple[int, ...] | None:
        """Return the coordinates of a shown chunk by its key below the array, ``None`` if it is no chunk's key."""
        return self.described.keys.decode(key, self.metadata.ndim)

    def show(self, data: bytes, coords: tuple[int, ...]) -> bytes:
        """Convert a stored chunk to a shown one.

        Raises
        ------
        CodecError
            If it is damaged, or has fewer rows than the array needs.
        """
        if self.is_passed_on:
            return data
        # unchanged except for its container, if it is whole
        stored, full = self.stored, self.metadata.grid.chunk_shape(coords)
        try:
            shape = stored.stored_shape(coords, data)
            if shape == full and self._transfer is not None:
                moved = self._moved(self._transfer, data, shape)
                if moved is not None and not (self._is_blosc and _has_snappy(moved)):
                    return bytes(moved)
            # a chunk that ends with the array is filled up, others are encoded with the shown codecs
            chunk = self._decoded(data, shape, coords)
            if chunk.shape != full:
                whole = np.full(full, stored.fill, chunk.dtype)
                whole[tuple(map(slice, chunk.shape))] = chunk
                chunk = whole
            return bytes(self._target.encode(chunk.astype(self.described.data_type.numpy, copy=False)))
        except TegulaError as error:
            stored.locate(error, self.key(coords))
            raise

    def _moved(self, transfer: Transfer, data: Any, shape: tuple[int, ...]) -> Any:
        """Convert a chunk without decoding it; ``None`` if that is not possible."""
        if self._block is None:
            return transfer(data, shape)
        inner = shape[::-1]
        block, start = read_header(data, inner)
        return transfer(data[start:], inner) if block == inner else None

    def _decoded(self, data: bytes, shape: tuple[int, ...], coords: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Decode a chunk; one that only the kernel can decode ends where the array does."""
        stored = self.stored
        try:
            return stored.chain.decode(data, shape)
        except UnsupportedError:
            region = self.metadata.grid.region(coords, self.metadata.shape)
            return engine.read_part(stored, region)

    def take(self, data: Any, coords: tuple[int, ...]) -> Any:
        """Convert a shown chunk to one to store.

        Raises
        ------
        CodecError
            If it is damaged.
        """
        if self.is_passed_on:
            return data
        stored, shape = self.stored, self.metadata.grid.chunk_shape(coords)
        try:
            chunk = self._target.decode(data, shape)
            return stored.chain.encode(chunk.astype(stored.fill.dtype, copy=False))
        except TegulaError as error:
            stored.locate(error, self.key(coords))
            raise

    def chunks(self) -> Iterator[tuple[int, ...]]:
        """Yield the coordinates of the stored chunks."""
        return (coords for coords, _ in self.stored.stored_chunks())


def documents_of(metadata: NodeMetadata) -> dict[str, bytes]:
    """Return the documents of a node in Zarr v3, for consolidated metadata."""
    if isinstance(metadata, GroupMetadata):
        return {DOCUMENT: ShownGroup(metadata, None).document}
    if is_zarr3(metadata):
        return {DOCUMENT: metadata.documents[DOCUMENT]}
    return _ZARR3.serialize(describe(metadata))
