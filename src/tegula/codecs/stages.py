"""The three kinds of codec that a chain is made of, as in Zarr v3 core, "codecs".

A codec is built once for an array and then used by several threads, so it holds no state. Encoding is one call.
Decoding goes through a *decoder*, a function made for chunks of one shape: it knows how many bytes must come out, so
that no header has to be believed, and everything that can be computed beforehand has been.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import EXTENDED, DataType
from tegula.metadata.nodes import CodecSpec
from tegula.optional import library

__all__ = [
    "REQUIRED", "ArrayCodec", "BufferCodec", "Chunk", "Codec", "Context", "Data", "Decoder", "Native", "NativeChain",
    "NativeCodec", "NativeElements", "NativeSerializer", "NativeShards", "NativeTexts", "Serializer", "Shape",
    "between", "exportable", "flat", "known_options", "library", "nbytes", "option", "wrong_size",
]  # fmt: skip

Shape: TypeAlias = tuple[int, ...]
Chunk: TypeAlias = npt.NDArray[Any]
Data: TypeAlias = Any
"""Bytes or a one-dimensional array; when decoding, bytes or a flat memoryview of bytes."""
Decoder: TypeAlias = Callable[[Any], Any]
Native: TypeAlias = tuple[Any, ...]
"""A codec of bytes for tegula's compiled kernel: the name it has there, and its options in that codec's order."""

REQUIRED: Final = object()
_EXTENDED_DTYPES: Final = frozenset(EXTENDED.values())


@dataclass(frozen=True, slots=True)
class NativeCodec:
    """A codec of bytes to bytes, for the kernel: its name there, and its options in that codec's order."""

    name: str
    options: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NativeElements:
    """Elements of one size one after the other, for the kernel.

    `swap` is the size of what has its bytes reversed, 0 if nothing has; text must consist of Unicode code points.
    """

    itemsize: int
    swap: int
    is_text: bool


@dataclass(frozen=True, slots=True)
class NativeTexts:
    """Text or bytes of any length, for the kernel."""

    is_text: bool


@dataclass(frozen=True, slots=True)
class NativeShards:
    """Shards, for the kernel: the chains of inner chunks and of the index, and where the index is."""

    inner_shape: Shape
    inner: NativeChain
    index: NativeChain
    index_at_start: bool


NativeSerializer: TypeAlias = NativeElements | NativeTexts | NativeShards


@dataclass(frozen=True, slots=True)
class NativeChain:
    """A chain of codecs as the kernel takes it.

    Axis ``i`` of what is stored is axis ``order[i]`` of the chunk; ``None`` where they are the same. The codecs of
    bytes are in the order of encoding.
    """

    order: tuple[int, ...] | None
    serializer: NativeSerializer
    buffers: tuple[NativeCodec, ...]


@dataclass(slots=True)
class Context:
    """What is known where a codec stands in the chain; `build_chain` moves it along."""

    data_type: DataType
    fill: Chunk | None
    ndim: int
    shape: Shape | None
    allow_pickle: bool
    build: Callable[..., Any]
    keep_empty: bool | None = None
    buffer: np.dtype[Any] | None = None
    unit: int = 1


class ArrayCodec(ABC):
    """A codec that makes an array of an array: ``array -> array``."""

    name: str
    data_type: DataType
    """Type of the elements that it makes."""
    before: DataType
    """Type of the elements that it takes; only codecs that the kernel has need to say."""

    @property
    def native(self) -> Native | None:
        """The codec for the kernel, as one of bytes to bytes on the elements in C order; ``None`` if it has none."""
        return None

    def shape(self, shape: Shape) -> Shape:
        """Return the shape that a chunk of `shape` has once encoded."""
        return shape

    def fill(self, fill: Chunk) -> Chunk:
        """Return the encoded fill value."""
        return self.encode(fill)

    @abstractmethod
    def encode(self, chunk: Chunk) -> Chunk:
        """Encode a chunk without changing it."""

    @abstractmethod
    def decoder(self, shape: Shape) -> Decoder:
        """Make the function from an encoded chunk to the chunk of `shape`."""


class Serializer(ABC):
    """A codec that makes bytes of an array: ``array -> bytes``."""

    name: str
    buffer: np.dtype[Any] | None = None
    sharding: Any = None
    plain: np.dtype[Any] | None = None
    """Type of the elements, if a chunk is stored as it lies in memory in C order; then the chain needs no decoder."""

    @property
    def native(self) -> NativeSerializer | None:
        """The codec for the kernel; ``None`` if it has none that does exactly the same."""
        return None

    def size(self, shape: Shape) -> int | None:
        """Return how many bytes a chunk of `shape` takes, ``None`` if that depends on its values."""
        return None

    def load(self) -> None:
        """Import what encoding and decoding need; raises as `library` does."""
        return

    @abstractmethod
    def encode(self, chunk: Chunk) -> Data:
        """Encode a chunk without changing it."""

    @abstractmethod
    def decoder(self, shape: Shape, limit: int) -> Decoder:
        """Make the function from bytes to the chunk of `shape`, which never allocates more than `limit` bytes."""


class BufferCodec(ABC):
    """A codec that makes bytes of bytes: ``bytes -> bytes``."""

    name: str
    buffer: np.dtype[Any] | None = None
    unit: int | None = None
    """Bytes of an element of what is handed on, as a C library sees it, where `buffer` does not tell."""

    @property
    def native(self) -> Native | None:
        """The codec for the kernel; ``None`` if it has none that does exactly the same."""
        return None

    def size(self, size: int) -> int | None:
        """Return how many bytes `size` bytes take once encoded, ``None`` if that depends on their values."""
        return None

    def content_size(self, data: Data) -> int | None:
        """Return how many bytes the whole chain makes of `data`, ``None`` if that can't be told without decoding."""
        return None

    def excess(self, data: Data) -> int:
        """Return how many bytes at the end of `data` decoding takes no notice of."""
        return 0

    def load(self) -> None:
        """Import what encoding and decoding need; raises as `library` does."""
        return

    @abstractmethod
    def encode(self, data: Data) -> Data:
        """Encode a buffer without changing it."""

    @abstractmethod
    def decoder(self, size: int | None, limit: int) -> Decoder:
        """Make the function from encoded bytes to exactly `size` bytes, or to at most `limit` if `size` is ``None``."""


Codec: TypeAlias = ArrayCodec | Serializer | BufferCodec


def flat(data: Data) -> bytes | memoryview:
    """View any contiguous buffer as bytes, in one dimension, without a copy.

    Examples
    --------
    >>> len(flat(np.zeros((2, 3), "f8")))
    48
    """
    if isinstance(data, bytes):
        return data
    if isinstance(data, np.ndarray):
        data = np.ascontiguousarray(data).reshape(-1)
        return data.view("u1").data if data.dtype.itemsize else b""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else b""


def exportable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the same size under which an array's memory can be handed to a C library."""
    if dtype.kind in "Mm":
        return np.dtype(f"{dtype.byteorder}i8")
    if dtype in _EXTENDED_DTYPES:
        return np.dtype(f"V{dtype.itemsize}" if dtype.itemsize > 1 else "u1")
    if dtype.names is not None:
        return np.dtype(f"V{dtype.itemsize}")
    return dtype


def wrong_size(found: int, expected: int, codec: str) -> CodecError:
    """Make the error for data that is not as long as the chunk's shape says."""
    return CodecError(f"there are {found} bytes where the chunk takes {expected}", codec=codec)


def nbytes(shape: Shape, dtype: np.dtype[Any]) -> int:
    """Return the bytes that a chunk of `shape` takes in memory."""
    return prod(shape) * dtype.itemsize


def known_options(spec: CodecSpec, *names: str) -> None:
    """Refuse members of a codec's configuration that have no meaning to it."""
    extra = set(spec.configuration).difference(names)
    if extra:
        raise MetadataError(f"the codec has no option {min(extra, key=str)!r:.80}", field="codecs", codec=spec.name)


def option(spec: CodecSpec, name: str, default: Any, check: Callable[[Any], bool] | Mapping[Any, Any]) -> Any:
    """Return one member of a codec's configuration.

    Parameters
    ----------
    spec : CodecSpec
        The codec.
    name : str
        The member.
    default : object
        Its value where it is absent; ``REQUIRED`` if it may not be.
    check : callable or mapping
        Whether a value is one, or what each possible value means.

    Raises
    ------
    MetadataError
        If the member is missing or its value is not one.
    """
    value = spec.configuration.get(name, default)
    if value is REQUIRED:
        raise MetadataError(f"the codec needs the option {name!r}", field=f"codecs.{name}", codec=spec.name)
    if isinstance(check, Mapping):
        if isinstance(value, (str, int, type(None))) and value in check:
            return check[value]
    elif check(value):
        return value
    raise MetadataError(f"{value!r:.80} is not a value of the option {name!r}", field=f"codecs.{name}", codec=spec.name)


def between(low: int, high: int) -> Callable[[Any], bool]:
    """Make the check for an integer in a closed range."""
    return lambda value: type(value) is int and low <= value <= high
