"""The metadata model of arrays and groups, common to all formats.

It follows Zarr v3: byte order is a ``bytes`` codec, Fortran order a ``transpose`` codec, and filters and compressors
are codecs. The model keeps the documents that a node was read from, so that members which it does not represent are
kept when the documents are written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq
from typing import TYPE_CHECKING, Any

from tegula.metadata.chunk_grids import ChunkGrid, VaryingAxis
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType
from tegula.runtime.frozen import Frozen, field, replace

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ArrayMetadata", "CodecSpec", "GroupMetadata", "NodeMetadata", "inner_codecs", "is_fixed_vlen"]


class CodecSpec(Frozen):
    """The description of a codec.

    Parameters
    ----------
    name : str
        Its name in Zarr v3, or ``numcodecs.<id>``.
    configuration : mapping
        Its options.
    must_understand : bool
        False if a reader that does not know the codec may ignore it (Zarr v3 core, section "Extension definition").

    Examples
    --------
    >>> CodecSpec("gzip", {"level": 5}).configuration["level"]
    5
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    must_understand: bool = True


def inner_codecs(specs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Return the codecs of the innermost chunks: of inner chunks if there are shards, otherwise of the chunks.

    Examples
    --------
    >>> inner_codecs((CodecSpec("sharding_indexed", {"codecs": [{"name": "bytes"}, "zstd"]}),))[1].name
    'zstd'
    """
    while specs and specs[0].name == "sharding_indexed":
        specs = tuple(
            CodecSpec(item) if isinstance(item, str) else CodecSpec(item["name"], item.get("configuration", {}))
            for item in specs[0].configuration["codecs"]
        )
    return specs


def is_fixed_vlen(codec: CodecSpec, data_type: DataType) -> bool:
    """Return whether a codec of variable-length elements stores text or bytes of fixed length, as zarr-python lets it.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> is_fixed_vlen(CodecSpec("vlen-utf8"), as_data_type("U3")), is_fixed_vlen(CodecSpec("bytes"), as_data_type("U3"))
    (True, False)
    """
    kinds = {"vlen-utf8": "U", "vlen-bytes": "SV"}.get(codec.name.removeprefix("numcodecs."), "")
    dtype = data_type.numpy
    return dtype.kind in kinds and not (dtype.names or dtype.subdtype or dtype in EXTENDED_DTYPES)


class ArrayMetadata(Frozen, kw_only=True):
    """The metadata of an array.

    Parameters
    ----------
    shape : tuple of int
        Length of each axis.
    data_type : DataType
        Type of the elements.
    grid : ChunkGrid
        Division into stored chunks (shards, if it has shards).
    keys : ChunkKeyEncoding
        Mapping of chunks to keys.
    codecs : tuple of CodecSpec
        Codecs in the order of encoding: array→array codecs, one array→bytes codec, bytes→bytes codecs.
    fill_value : 0-d ndarray or None
        Value of elements that were never written; ``None`` where the format leaves it undefined.
    attributes : mapping
        The user's attributes, as JSON.
    dimension_names : tuple of str or None, optional
        Names of the axes.
    format : str
        ``"zarr1"``, ``"zarr2"``, ``"zarr3"``, ``"bcolz"`` or ``"n5"``.
    dense : bool
        True if every chunk is stored, and the last chunk along the first axis (the only one that is divided) ends where
        the array ends, as in bcolz. Otherwise a missing chunk reads as the fill value, and chunks at the edge are
        stored in full.
    stored_nbytes : int, optional
        Bytes of all chunks, where the documents record them; for information only.
    extra : mapping
        Members of the documents that this model does not represent, by name.
    documents : mapping of str to bytes
        The documents that the node was read from, by key relative to the node; empty for a new node.
    read_as : (bytes, object), optional
        One of the documents, and the generation in which it was read, if the store told that at no cost.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> from tegula.metadata.chunk_keys import default_keys
    >>> from tegula.metadata.data_types import as_data_type
    >>> array = ArrayMetadata(
    ...     shape=(6, 3), data_type=as_data_type("u1"), grid=regular_grid((4, 3)), keys=default_keys(),
    ...     codecs=(CodecSpec("bytes"),), fill_value=None, format="zarr3",
    ... )
    >>> array.ndim, array.grid.counts(array.shape)
    (2, (2, 1))
    """

    shape: tuple[int, ...]
    data_type: DataType
    grid: ChunkGrid
    keys: ChunkKeyEncoding
    codecs: tuple[CodecSpec, ...]
    fill_value: npt.NDArray[Any] | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    format: str
    dense: bool = False
    stored_nbytes: int | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    read_as: tuple[bytes, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayMetadata):
            return NotImplemented
        return self is other or self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.format, self.shape, self.codecs and self.codecs[-1].name))

    def has_chunks_of(self, other: ArrayMetadata) -> bool:
        """Return whether another array has the same chunks: the same grid, keys, data type, fill value and codecs."""
        # arrays with equal descriptions share these objects, which saves a comparison by value
        if (
            self.data_type is other.data_type
            and self.grid is other.grid
            and self.codecs is other.codecs
            and self.fill_value is other.fill_value
            and (self.keys, self.format, self.dense) == (other.keys, other.format, other.dense)
        ):
            return len(self.shape) == len(other.shape)
        same = replace(self, shape=other.shape, attributes=other.attributes, dimension_names=other.dimension_names)
        return same == other

    def continues(self, other: ArrayMetadata) -> bool:
        """Return whether another array has the same chunks, except for some at the ends of axes of varying chunks.

        Such an axis gets a further chunk when the array grows over its end.
        """
        if self.grid is other.grid:  # as of arrays with equal descriptions
            return self.has_chunks_of(other)
        axes = [*zip(self.grid.axes, other.grid.axes)]
        alike = self.ndim == other.ndim and all(
            all(map(eq, one.edges, two.edges))
            if isinstance(one, VaryingAxis) and isinstance(two, VaryingAxis)
            else one == two
            for one, two in axes
        )
        return alike and replace(self, grid=other.grid).has_chunks_of(other)

    def _facts(self) -> tuple[Any, ...]:
        """Return the values that equality compares; of the fill value its bits, since NaN is not equal to itself."""
        fill = self.fill_value
        bits = None if fill is None else fill[()] if fill.dtype.hasobject else (fill.dtype, fill.tobytes())
        names = (name for name in self._compared if name != "fill_value")
        return (bits, *(getattr(self, name) for name in names))


class GroupMetadata(Frozen, kw_only=True):
    """The metadata of a group.

    Parameters
    ----------
    attributes : mapping
        The user's attributes, as JSON.
    format : str
        ``"zarr2"``, ``"zarr3"``, ``"bcolz"`` or ``"n5"``.
    members : tuple of str, optional
        Names of the members in order, where the format lists them (the columns of a table).
    documents : mapping of str to bytes
        The documents that the node was read from, by key relative to the node; empty for a new or an implicit group.
    consolidated : mapping of str to mapping, optional
        Consolidated metadata that these documents contain: documents of the members, by path below the group.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    format: str
    members: tuple[str, ...] | None = None
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    consolidated: Mapping[str, Mapping[str, bytes]] | None = field(default=None, repr=False, compare=False)


NodeMetadata = ArrayMetadata | GroupMetadata
