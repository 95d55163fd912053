"""The properties of an array, from its metadata and from a listing of its chunks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula import codecs, formats
from tegula.arrays.node import Node
from tegula.formats.keys import ZARR2_KEYS
from tegula.metadata.chunk_grids import VaryingAxis
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, inner_codecs

if TYPE_CHECKING:
    from tegula.engine import StoredArray
    from tegula.stores import Store

__all__ = ["ArrayProperties"]

Codec = dict[str, Any]


class ArrayProperties(Node):
    """The read-only properties of `tegula.Array`."""

    _stored: StoredArray

    @property
    def metadata(self) -> ArrayMetadata:
        """The array's description, as last read or written by this object."""
        return self._stored.metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.metadata.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements that reading returns."""
        return self.metadata.data_type.numpy

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory; for elements of variable length, those of a reference."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take in memory."""
        return self.size * self.itemsize

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written; ``None`` where the format leaves it undefined."""
        fill = self.metadata.fill_value
        return None if fill is None else fill[()]

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """Names of the axes, if there are any."""
        return self.metadata.dimension_names

    @property
    def format(self) -> str:
        """Name of the storage format: ``"zarr1"``, ``"zarr2"``, ``"zarr3"`` or ``"bcolz"``."""
        return self.metadata.format

    @property
    def store(self) -> Store:
        """The store that holds the array."""
        return self._stored.store

    # --- chunks and shards

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the chunks (inner chunks, if there are shards).

        An axis whose chunks differ in length is a tuple of their lengths.
        """
        sharding = self._stored.chain.sharding
        return sharding.inner_shape if sharding is not None else self._outer_chunks()

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of the shards, the stored values that hold the inner chunks; ``None`` without shards."""
        return self._outer_chunks() if self._stored.chain.sharding is not None else None

    def _outer_chunks(self) -> tuple[Any, ...]:
        axes = self.metadata.grid.axes
        return tuple(axis.edges if isinstance(axis, VaryingAxis) else axis.chunk for axis in axes)

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """Number of chunks along each axis, of inner chunks if there are shards."""
        sharding = self._stored.chain.sharding
        if sharding is None:
            return self.metadata.grid.counts(self.shape)
        return tuple(-(-size // chunk) for size, chunk in zip(self.shape, sharding.inner_shape))

    @property
    def nchunks(self) -> int:
        """Number of chunks in the grid, stored or not; of inner chunks, if there are shards."""
        return prod(self.cdata_shape)

    @property
    def nshards(self) -> int | None:
        """Number of shards in the grid, stored or not; ``None`` without shards."""
        return None if self.shards is None else prod(self.metadata.grid.counts(self.shape))

    def nchunks_initialized(self) -> int:
        """Return the number of chunks that are stored, by listing the store.

        This reads no shard. As in zarr-python, each stored shard counts as all its inner chunks, although some may be
        missing or outside the array.
        """
        sharding = self._stored.chain.sharding
        if sharding is None:
            return sum(1 for _ in self._stored.stored_chunks())
        grid = self.metadata.grid
        return sum(prod(sharding.grid_shape(grid.chunk_shape(coords))) for coords, _ in self._stored.stored_chunks())

    def nshards_initialized(self) -> int | None:
        """Return the number of shards that are stored, by listing the store; ``None`` without shards."""
        return None if self.shards is None else sum(1 for _ in self._stored.stored_chunks())

    def nbytes_stored(self) -> int:
        """Return the size of all stored chunks in bytes, by listing the store."""
        return self._stored.amount_stored()[1]

    # --- codecs

    @property
    def order(self) -> str:
        """Order of the elements within a stored chunk: ``"F"`` if the axes are reversed, ``"C"`` otherwise."""
        reverse = [*range(self.ndim)][::-1]
        specs = inner_codecs(self.metadata.codecs)
        reversed_axes = any(s.name == "transpose" and [*s.configuration.get("order", ())] == reverse for s in specs)
        return "F" if reversed_axes and self.ndim > 1 else "C"

    @property
    def filters(self) -> tuple[Codec, ...]:
        """The codecs applied to the elements before compression, in the form of the array's format.

        In Zarr v1, v2 and bcolz that is ``{"id": …}`` with the options, as in numcodecs; in Zarr v3
        ``{"name": …, "configuration": …}``. `tegula.create_array` takes both as ``codecs``. In v3 the filters are the
        array-to-array codecs; if there are shards, those of the inner chunks.

        Examples
        --------
        >>> import tegula
        >>> codecs = [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 5}]
        >>> a = tegula.create_array({}, shape=9, dtype="i4", codecs=codecs, format="zarr2")
        >>> a.filters, a.compressor
        (({'id': 'delta', 'dtype': '<i4'},), {'id': 'zlib', 'level': 5})
        """
        return tuple(self._codec(spec) for spec in self._split()[0])

    @property
    def compressors(self) -> tuple[Codec, ...]:
        """The codecs applied to the bytes of a chunk, in the form of `filters`; in Zarr v3 they include checksums."""
        return tuple(self._codec(spec) for spec in self._split()[1])

    @property
    def compressor(self) -> Codec | None:
        """The first of the `compressors` that is not a checksum, ``None`` if there is none.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, shape=9, dtype="i4", codecs=["zstd", "crc32c"]).compressor
        {'name': 'zstd', 'configuration': {'level': 0, 'checksum': False}}
        """
        found = (spec for spec in self._split()[1] if spec.name.removeprefix("numcodecs.") not in _CHECKSUMS)
        first = next(found, None)
        return None if first is None else self._codec(first)

    def _split(self) -> tuple[list[CodecSpec], list[CodecSpec]]:
        """Return filters and compressors."""
        metadata = self.metadata
        if metadata.format == "zarr3":
            specs = inner_codecs(metadata.codecs)
            middle = codecs.serializer_position(specs, metadata.data_type)
            return [*specs[:middle]], [*specs[middle + 1 :]]
        own = formats.portable(metadata.codecs) if metadata.format == "bcolz" else metadata.codecs
        rest = [spec for spec in own if spec.name not in ("bytes", "transpose")]
        raw = metadata.documents.get(ZARR2_KEYS[0]) if metadata.format == "zarr2" else None
        if raw is not None and formats.load(raw, ZARR2_KEYS[0]).get("compressor") is None:
            return rest, []
        return rest[:-1], rest[-1:]

    def _codec(self, spec: CodecSpec) -> Codec:
        if self.format == "zarr3":
            options = {"configuration": dict(spec.configuration)} if spec.configuration else {}
            return {"name": spec.name, **options}
        return {"id": spec.name.removeprefix("numcodecs."), **spec.configuration}


_CHECKSUMS = frozenset({"crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"})
