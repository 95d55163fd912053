"""The one model of array and group metadata that every format is read into.

It is shaped like Zarr v3: byte order is a ``bytes`` codec, Fortran order a ``transpose``, filters and compressors are
codecs. The documents a node was read from are kept beside it, so that what the model has no word for is written back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy.typing as npt

from tegula.metadata.chunk_grids import ChunkGrid
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.data_types import DataType

__all__ = ["ArrayMetadata", "CodecSpec", "GroupMetadata", "NodeMetadata", "inner_codecs"]


@dataclass(frozen=True, slots=True)
class CodecSpec:
    """The name and configuration of a codec; names are those of Zarr v3, ``numcodecs.<id>`` for any other codec.

    A codec that need not be understood is left out of the chain where nobody knows it (v3 core, "extension points").

    Examples
    --------
    >>> CodecSpec("gzip", {"level": 5}).configuration["level"]
    5
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    must_understand: bool = True


def inner_codecs(specs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Return the codecs of the innermost chunks of shards; of an array without shards its codecs.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayMetadata:
    """What is known of an array without looking at its chunks.

    Parameters
    ----------
    shape : tuple of int
        Length of each axis.
    data_type : DataType
        Type of the elements.
    grid : ChunkGrid
        How the array is cut into stored chunks (shards, if it has shards).
    keys : ChunkKeyEncoding
        How chunk keys are spelled.
    codecs : tuple of CodecSpec
        The chain from a chunk's array to its bytes: array→array codecs, one array→bytes codec, bytes→bytes codecs.
    fill_value : 0-d ndarray or None
        Value of what was never written; ``None`` where the format leaves it undefined.
    attributes : mapping
        The user's attributes, as JSON.
    dimension_names : tuple of str or None, optional
        Names of the axes.
    format : str
        ``"zarr1"``, ``"zarr2"``, ``"zarr3"`` or ``"bcolz"``.
    dense : bool
        Whether every chunk is stored and the last along the first axis, the only one that is cut, may be shorter than
        its cell; otherwise a missing chunk stands for the fill value, and chunks at the edge overhang the array.
    stored_nbytes : int, optional
        Bytes of all chunks, where the documents keep count of them; for information only.
    extra : mapping
        What the format's documents say that has no word here, by its name there.
    documents : mapping of str to bytes
        The documents the node was read from, by key relative to the node; empty for a new one.
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

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayMetadata):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.format, self.shape, self.codecs and self.codecs[-1].name))

    def has_chunks_of(self, other: ArrayMetadata) -> bool:
        """Return whether chunks are cut, called and encoded as in another array: all but the shape is the same."""
        if (
            self.data_type is other.data_type
            and self.grid is other.grid
            and self.codecs is other.codecs
            and self.fill_value is other.fill_value
            and (self.keys, self.format, self.dense) == (other.keys, other.format, other.dense)
        ):
            return self.ndim == other.ndim
        same = replace(self, shape=other.shape, attributes=other.attributes, dimension_names=other.dimension_names)
        return same == other

    def _facts(self) -> tuple[Any, ...]:
        """What equality looks at: the fill value by its bits, since NaN is not equal to itself."""
        fill = self.fill_value
        bits = None if fill is None else fill[()] if fill.dtype.hasobject else (fill.dtype, fill.tobytes())
        names = (f.name for f in fields(self) if f.compare and f.name != "fill_value")
        return (bits, *(getattr(self, name) for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """What is known of a group without looking at its members.

    Parameters
    ----------
    attributes : mapping
        The user's attributes, as JSON.
    format : str
        ``"zarr2"``, ``"zarr3"`` or ``"bcolz"``.
    members : tuple of str, optional
        Names of the members in their order, where the format lists them (the columns of a table).
    documents : mapping of str to bytes
        The documents the node was read from, by key relative to the node; empty for a new or an implicit one.
    copies : mapping of str to mapping, optional
        What was found in these documents on the way: copies of the members' documents, by path below the group.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    format: str
    members: tuple[str, ...] | None = None
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    copies: Mapping[str, Mapping[str, bytes]] | None = field(default=None, repr=False, compare=False)


NodeMetadata = ArrayMetadata | GroupMetadata
