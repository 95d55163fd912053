"""Types of the arguments that many functions take, for type checkers and readers; nothing imports this when it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias

import numpy.typing as npt

from tegula.arrays.node import Node
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec
from tegula.stores import Store

__all__ = [
    "ChunksLike",
    "CodecsLike",
    "DTypeLike",
    "FormatName",
    "Missing",
    "Mode",
    "Order",
    "ShapeLike",
    "ShardsLike",
    "SourceLike",
    "TargetLike",
]


class _Gets(Protocol):
    """A store of obstore or zarr-python."""

    def get(self, *args: Any, **kwargs: Any) -> Any: ...


class _Reads(Protocol):
    """A file system of fsspec."""

    def cat_file(self, *args: Any, **kwargs: Any) -> Any: ...


class _InStore(Protocol):
    """A path in a store of zarr-python."""

    @property
    def store(self) -> Any: ...


class _IsStore(Protocol):
    """A view."""

    def as_store(self) -> Any: ...


class _Codec(Protocol):
    """A codec of numcodecs."""

    def get_config(self) -> Any: ...


class _CodecWithDict(Protocol):
    """A codec of zarr-python."""

    def to_dict(self) -> Any: ...


class _DType(Protocol):
    """A data type of zarr-python."""

    def to_native_dtype(self) -> Any: ...


Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-", "x"]
FormatName: TypeAlias = Literal["zarr1", "zarr2", "zarr3", "bcolz", "n5"]
Missing: TypeAlias = Literal["fill", "error"]
Order: TypeAlias = Literal["C", "F"]

TargetLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Store | _Gets | _Reads | _InStore | _IsStore
"""Where a node is stored; see `tegula.store_of`."""
SourceLike: TypeAlias = TargetLike | Node
"""A node, or where it is stored."""

ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
ChunksLike: TypeAlias = (
    Literal["auto"] | bool | SupportsIndex | Sequence[SupportsIndex | Sequence[SupportsIndex] | None] | None
)
ShardsLike: TypeAlias = Literal["auto"] | bool | SupportsIndex | Sequence[SupportsIndex | None] | None
DTypeLike: TypeAlias = npt.DTypeLike | DataType | Mapping[str, Any] | _DType

# editors complete the names; any other text is one, too, as of a codec that is registered with numcodecs
_Name: TypeAlias = Literal["zstd", "blosc", "gzip", "zlib", "lz4", "bz2", "crc32c", "bytes", "transpose"] | str
_One: TypeAlias = _Name | Mapping[str, Any] | CodecSpec | _Codec | _CodecWithDict
CodecsLike: TypeAlias = Literal["auto", "none", False] | _One | Sequence[_One] | None
