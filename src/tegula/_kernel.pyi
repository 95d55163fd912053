"""The compiled kernel: carries out plans in Rust. It is optional; `tegula.executors` knows whether it is there."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__version__: str
"""The version of tegula that it belongs to."""

# What the kernel reads of Python's objects: attributes of these names and types, and nothing else.

class Codec(Protocol):
    """A codec of bytes to bytes: `tegula.codecs.stages.NativeCodec`."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> Sequence[bool | int | float | str | None]: ...

class Chain(Protocol):
    """A chain of codecs: `tegula.codecs.stages.NativeChain`; `serializer` is a `NativeElements` or `NativeShards`."""

    @property
    def order(self) -> Sequence[int] | None: ...
    @property
    def serializer(self) -> object: ...
    @property
    def buffers(self) -> Sequence[Codec]: ...

class ChunkAxis(Protocol):
    """How an axis is cut: by the attribute `chunk`, one length, or `edges`, the length of each chunk."""

class ChunkKeys(Protocol):
    """How keys are spelled: `tegula.metadata.chunk_keys.ChunkKeyEncoding`."""

    @property
    def separator(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def scalar(self) -> str: ...
    @property
    def first_only(self) -> bool: ...

class Plan(Protocol):
    """What is selected: `tegula.indexing.Plan`, with its tables `Runs`, `Lookup` and `Points`."""

    @property
    def axes(self) -> Sequence[object]: ...
    @property
    def points(self) -> object: ...
    @property
    def work_axes(self) -> Sequence[int]: ...

class PythonStore:
    """A store that the kernel asks under the interpreter's lock."""

    def __new__(cls, store: object, ranged: bool, concurrency: int) -> PythonStore:
        """`ranged` says that values are read by parts, `concurrency` how many requests should be under way at once."""

class LocalFiles:
    """Files below a directory, which the kernel opens itself; what is out of the ordinary is left to `store`."""

    def __new__(cls, store: object, base: str, sync: bool, prepare: Callable[[str], bool]) -> LocalFiles:
        """`base` is the directory's path with a slash; `prepare` checks and makes the directory of a key's prefix."""

class Array:
    """A stored array, as far as the kernel needs to know it."""

    def __new__(
        cls,
        store: PythonStore | LocalFiles,
        *,
        shape: Sequence[int],
        axes: Sequence[ChunkAxis],
        prefix: str,
        keys: ChunkKeys,
        chain: Chain,
        fill: bytes,
        dtype: np.dtype[Any],
        dense: bool,
    ) -> Array:
        """Describe an array: its shape, and for each axis how it is cut into chunks.

        Keys are those of `keys` with `prefix` before them. `fill` is one element of `dtype`; `dense` says that every
        chunk has to be stored.
        """
    def get(self, selection: object, threads: int, look: Callable[[], None]) -> Any:
        """Read a selection of ints, slices and an ellipsis; ``None`` if that has to go another way."""
    def read(
        self,
        plan: Plan,
        out: npt.NDArray[Any],
        offset: int,
        threads: int,
        look: Callable[[], None],
    ) -> bool:
        """Read what a plan selects into `out`; return whether that is done. `look` is called if a chunk was absent."""
    def write(
        self,
        plan: Plan,
        values: npt.NDArray[Any],
        offset: int,
        threads: int,
        keep_empty: bool,
    ) -> None:
        """Write `values` where a plan selects."""
    def any_stored(self, bounds: Sequence[tuple[int, int]]) -> bool | None:
        """Return whether any chunk of a box has a value; ``None`` if that has to be found out another way."""
    def delete(self, bounds: Sequence[tuple[int, int]], holds: Callable[[], bool]) -> bool | None:
        """Delete the chunks of a box as long as `holds` says so; ``None`` if that has to be done another way."""

class Texts:
    """Chunks of Python's texts or bytes: `vlen-utf8` or `vlen-bytes`, and the codecs of bytes that follow."""

    def __new__(cls, *, is_text: bool, buffers: Sequence[Codec]) -> Texts:
        """Take chunks of text or of bytes; `buffers` are the codecs of bytes in the order of encoding."""
    def decode(self, data: bytes, count: int, most: int) -> list[Any]:
        """Make the list of `count` elements of a chunk's bytes; no codec may make more than `most` bytes."""
    def encode(self, elements: list[Any]) -> bytes | None:
        """Make a chunk's bytes of a list of elements; ``None`` if one of them does not belong there."""

def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Make an array that holds anything; a large one lies in memory that is used again."""

def index_members(text: bytes, chain: list[str]) -> list[npt.NDArray[np.uint32]] | None:
    """List the members of a JSON document's objects along a chain of keys; see `tegula.formats.members`."""

def versions() -> dict[str, str]:
    """Return the version of each library that is compiled in."""

def features() -> list[str]:
    """Return the extensions of the processor's instructions that are made use of."""

def codecs() -> list[str]:
    """Return the names of the codecs that the kernel has."""

def faults(hook: Callable[[str, str], tuple[str, int] | None] | None = None, clock: int | None = None) -> None:
    """Have `hook` asked before each system call that the kernel makes for local files; for tests, and off by default.

    It is given the call's name and the path that the call is about. ``None`` lets it go ahead; ``("fail", errno)`` and
    ``("short", bytes)`` make it fail, or read or write no more than that. Without a hook none is asked any more.
    `clock` is the time, in nanoseconds, at which the clock of the kernel stands still.
    """

def given_up() -> bool:
    """Return whether this thread helps with an operation that has failed elsewhere, and is to wait for nothing."""

def after_fork() -> None:
    """Forget the threads of the parent process, which a forked child does not have."""

def trim() -> None:
    """Give back the memory that is kept for reuse."""
