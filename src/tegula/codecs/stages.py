"""The three kinds of codecs in a chain (Zarr v3 core, section "Codecs"), and functions for building codecs.

A codec is built once for an array and then used by several threads, so it holds no state. Encoding is one call.
Decoding uses a *decoder*, a function made for chunks of one shape: it knows how many bytes it must return, so that it
need not trust a header, and everything that depends only on the shape is computed beforehand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tegula.codecs.native import NativeChain, NativeCodec, NativeSerializer
from tegula.errors import CodecError, MetadataError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType
from tegula.metadata.nodes import CodecSpec
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from types import ModuleType

    import numpy.typing as npt

    from tegula.runtime import optional
else:
    optional = Later("tegula.runtime.optional")

__all__ = [
    "REQUIRED", "ArrayCodec", "BufferCodec", "Chunk", "Codec", "Context", "Data", "Decoder", "Serializer", "Shape",
    "between", "check_options", "create_codec", "exportable", "flat", "library", "nbytes", "option", "wrong_size",
]  # fmt: skip

Shape: TypeAlias = tuple[int, ...]
Chunk: TypeAlias = "npt.NDArray[Any]"
Data: TypeAlias = Any
"""When encoding, bytes or a one-dimensional array; when decoding, bytes or a one-dimensional memoryview of bytes."""
Decoder: TypeAlias = Callable[[Any], Any]

REQUIRED: Final = object()
"""Stands for the default of an option that a configuration must state."""


class Context:
    """The input of a codec at its position in the chain; `build_chain` updates it from codec to codec.

    Parameters
    ----------
    data_type, fill, ndim, shape
        Data type, fill value, number of dimensions and shape of the chunk; ``None`` for a shape or fill value that is
        not known.
    allow_pickle : bool
        Whether a codec may unpickle.
    build : callable
        `build_chain`, for codecs that contain chains.
    keep_empty : bool or None
        As in `build_chain`.
    buffer : numpy.dtype or None
        After the array→bytes codec, dtype of the elements in the buffer, if known.
    unit : int
        After the array→bytes codec, bytes of an element in the buffer; 1 if unknown.
    """

    def __init__(
        self,
        data_type: DataType,
        fill: Chunk | None,
        ndim: int,
        shape: Shape | None,
        allow_pickle: bool,
        build: Callable[..., Any],
        keep_empty: bool | None = None,
        buffer: np.dtype[Any] | None = None,
        unit: int = 1,
    ) -> None:
        self.data_type = data_type
        self.fill = fill
        self.ndim = ndim
        self.shape = shape
        self.allow_pickle = allow_pickle
        self.build = build
        self.keep_empty = keep_empty
        self.buffer = buffer
        self.unit = unit


class ArrayCodec(ABC):
    """An array→array codec."""

    name: str
    data_type: DataType
    """Type of the encoded elements."""
    before: DataType
    """Type of the elements to encode; necessary only for codecs that the kernel supports."""

    @property
    def native(self) -> NativeCodec | None:
        """The codec for the kernel, as a bytes→bytes codec of the elements in C order; ``None`` if there is none."""
        return None

    def ndim(self, ndim: int) -> int:
        """Return the number of dimensions of an encoded chunk of `ndim` dimensions."""
        return ndim

    def shape(self, shape: Shape) -> Shape:
        """Return the shape of an encoded chunk of `shape`."""
        return shape

    def fill(self, fill: Chunk) -> Chunk:
        """Return the encoded fill value."""
        return self.encode(fill)

    @abstractmethod
    def encode(self, chunk: Chunk) -> Chunk:
        """Encode a chunk without modifying it."""

    @abstractmethod
    def decoder(self, shape: Shape) -> Decoder:
        """Return the function that decodes to a chunk of `shape`."""


class Serializer(ABC):
    """An array→bytes codec."""

    name: str
    buffer: np.dtype[Any] | None = None
    sharding: Any = None
    plain: np.dtype[Any] | None = None
    """Type of the elements, if a chunk is stored as it is in memory in C order; then the chain needs no decoder."""

    @property
    def native(self) -> NativeSerializer | NativeChain | None:
        """The codec for the kernel, or a chain of several that does the same; ``None`` if the kernel has none."""
        return None

    def size(self, shape: Shape) -> int | None:
        """Return the size in bytes of an encoded chunk of `shape`, or ``None`` if it depends on the values."""
        return None

    def load(self) -> None:
        """Import the libraries for encoding and decoding; raises as `library`."""
        return

    @abstractmethod
    def encode(self, chunk: Chunk) -> Data:
        """Encode a chunk without modifying it."""

    @abstractmethod
    def decoder(self, shape: Shape, limit: int) -> Decoder:
        """Return the function that decodes bytes to a chunk of `shape` and never allocates more than `limit` bytes."""


class BufferCodec(ABC):
    """A bytes→bytes codec."""

    name: str
    buffer: np.dtype[Any] | None = None
    unit: int | None = None
    """Bytes of an element in the encoded buffer, as a C library sees it, if `buffer` is ``None``."""

    @property
    def native(self) -> NativeCodec | None:
        """The codec for the kernel; ``None`` if the kernel has none that does exactly the same."""
        return None

    def size(self, size: int) -> int | None:
        """Return the encoded size of `size` bytes, or ``None`` if it depends on their values."""
        return None

    def content_size(self, data: Data) -> int | None:
        """Return the size of the chunk that the whole chain decodes `data` to, or ``None`` if no header states it."""
        return None

    def excess(self, data: Data, size: int | None, limit: int) -> int:
        """Return how many bytes at the end of `data` decoding ignores; `size` and `limit` are those of `decoder`."""
        return 0

    def load(self) -> None:
        """Import the libraries for encoding and decoding; raises as `library`."""
        return

    @abstractmethod
    def encode(self, data: Data) -> Data:
        """Encode a buffer without modifying it."""

    @abstractmethod
    def decoder(self, size: int | None, limit: int) -> Decoder:
        """Return the function that decodes to exactly `size` bytes, or to at most `limit` if `size` is ``None``."""


Codec: TypeAlias = ArrayCodec | Serializer | BufferCodec


def flat(data: Data) -> bytes | memoryview:
    """View a contiguous buffer as one-dimensional bytes, without a copy.

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
    """Return a dtype of the same size that supports the buffer protocol, for passing an array to a C library.

    Examples
    --------
    >>> exportable(np.dtype("M8[s]")), exportable(np.dtype("f4"))
    (dtype('int64'), dtype('float32'))
    """
    if dtype.kind in "Mm":
        return np.dtype(f"{dtype.byteorder}i8")
    if dtype in EXTENDED_DTYPES:
        return np.dtype(f"V{dtype.itemsize}" if dtype.itemsize > 1 else "u1")
    if dtype.names is not None:
        return np.dtype(f"V{dtype.itemsize}")
    return dtype


def wrong_size(actual: int, expected: int, codec: str) -> CodecError:
    """Return the error for data whose size does not match the shape of the chunk."""
    return CodecError(f"there are {actual} bytes where the chunk takes {expected}", codec=codec)


def nbytes(shape: Shape, dtype: np.dtype[Any]) -> int:
    """Return the size in bytes of a chunk of `shape` in memory."""
    return prod(shape) * dtype.itemsize


def library(name: str) -> ModuleType:
    """Import an optional package, or one of its modules, on first use; see `optional.library`."""
    return optional.library(name)


def check_options(spec: CodecSpec, *names: str) -> None:
    """Check that a codec's configuration has no other members than `names`.

    Raises
    ------
    MetadataError
        If it has another member.
    """
    extra = set(spec.configuration).difference(names)
    if extra:
        raise MetadataError(f"the codec has no option {min(extra, key=str)!r:.80}", field="codecs", codec=spec.name)


def option(spec: CodecSpec, name: str, default: Any, check: Callable[[Any], bool] | Mapping[Any, Any]) -> Any:
    """Return an option of a codec.

    Parameters
    ----------
    spec : CodecSpec
        The codec.
    name : str
        Name of the option.
    default : object
        Its value if the configuration does not state it; `REQUIRED` if the configuration must state it.
    check : callable or mapping
        A function that returns whether a value is valid, or a mapping of valid values to the values to return.

    Raises
    ------
    MetadataError
        If the option is missing or its value is not valid.

    Examples
    --------
    >>> option(CodecSpec("gzip", {"level": 9}), "level", 5, between(0, 9))
    9
    """
    value = spec.configuration.get(name, default)
    if value is REQUIRED:
        raise MetadataError(f"the codec needs the option {name!r}", field=f"codecs.{name}", codec=spec.name)
    if isinstance(check, Mapping):
        if isinstance(value, (str, int, type(None))) and value in check:
            return check[value]
    elif check(value):
        return value
    known = f"; it takes {_known(check)}" if isinstance(check, (Mapping, _Between)) else ""
    text = f"{value!r:.80} is not a value of the option {name!r}{known}"
    raise MetadataError(text, field=f"codecs.{name}", codec=spec.name)


def _known(check: Mapping[Any, Any] | _Between) -> str:
    if isinstance(check, _Between):
        return f"a whole number from {check.low} to {check.high}"
    return " or ".join(repr(value) for value in check if value is not None)


class _Between:
    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __call__(self, value: Any) -> bool:
        return type(value) is int and self.low <= value <= self.high


def between(low: int, high: int) -> Callable[[Any], bool]:
    """Return a check for an integer from `low` to `high`, both included."""
    return _Between(low, high)


def create_codec(codec: Callable[..., Any], spec: CodecSpec) -> Any:
    """Create a codec object of numcodecs from the options of a codec.

    Raises
    ------
    MetadataError
        If the options are not valid.
    """
    try:
        return codec(**{name: value for name, value in spec.configuration.items() if name != "id"})
    except (TypeError, ValueError, AttributeError) as error:
        raise MetadataError(f"the options are not valid: {error}", field="codecs", codec=spec.name) from error
