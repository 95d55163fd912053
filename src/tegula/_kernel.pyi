"""The compiled kernel, in Rust: reads and writes chunks. It is optional; `tegula.runtime.executors` loads it."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

__version__: str
"""The version of tegula that it belongs to."""

# The attributes of Python objects that the kernel reads, by name. It reads nothing else.

class Codec(Protocol):
    """A codec of bytes to bytes: a class of `tegula.codecs.native`, whose other attributes are its options."""

    @property
    def name(self) -> str: ...

class Chain(Protocol):
    """A chain of codecs: `tegula.codecs.native.NativeChain`; `serializer` is a `NativeElements` or `NativeShards`."""

    @property
    def order(self) -> Sequence[int] | None: ...
    @property
    def serializer(self) -> object: ...
    @property
    def buffers(self) -> Sequence[Codec]: ...

class ChunkAxis(Protocol):
    """An axis of the chunk grid: the attribute `chunk` is one length for all, `edges` the length of each chunk."""

class ChunkKeys(Protocol):
    """The encoding of chunk keys: `tegula.metadata.chunk_keys.ChunkKeyEncoding`."""

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
    """A plan: `tegula.indexing.Plan`, with its tables `Runs`, `Lookup` and `Points`."""

    @property
    def axes(self) -> Sequence[object]: ...
    @property
    def points(self) -> object: ...
    @property
    def work_axes(self) -> Sequence[int]: ...

class PythonStore:
    """A store that the kernel asks under the interpreter's lock."""

    def __new__(
        cls,
        store: object,
        ranged: bool,
        concurrency: int = 0,
        reader: object = None,
        content: int = 0,
        locate: Callable[[str], str | None] | None = None,
        exact: bool = False,
    ) -> PythonStore:
        """`ranged` says that values are read by parts, `concurrency` how many requests should be under way at once.

        A remote store has a `reader` (`tegula.engine.reading.remote.ShardReader`), and chunks of up to `content`
        bytes. The kernel reads the files of a store with a function `locate`, which checks the directory of a prefix
        and returns its path; `exact` says that the file system distinguishes case.
        """

class LocalFiles:
    """Files below a directory, which the kernel opens itself; what is out of the ordinary is left to `store`."""

    def __new__(
        cls,
        store: object,
        base: str,
        sync: bool,
        prepare: Callable[[str], bool],
        anchor: str | None,
        prefix: str,
        document: str | None,
        confirm: Callable[[bool], tuple[str, tuple[int, int, int], tuple[int, ...]]] | None,
        ignores_case: bool,
    ) -> LocalFiles:
        """`base` is the directory's path with a slash; `prepare` checks and makes the directory of a key's prefix.

        The kernel makes the next directories by itself as long as the file of the key `anchor` exists. All keys begin
        with `prefix`, and belong to the node of a `document`, if there is one. `confirm` checks that it describes the
        node, and returns the document's key, inode number, time and size of its file, and the shape in it; with
        ``True`` it raises the error for a node that was replaced. `ignores_case` says that the file system does.
        """
    @staticmethod
    def serves(directory: str) -> bool:
        """Return whether the file system of a directory is one whose files the kernel may open itself."""

class Array:
    """The description of a stored array."""

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
        """Describe an array: `axes` are the axes of its chunk grid.

        Keys are those of `keys` with `prefix` before them. `fill` is one element of `dtype`; `dense` says that every
        chunk has to be stored.
        """
    @property
    def checks(self) -> bool:
        """Whether the store itself checks that what it reads and writes belongs to the node; else the caller has to."""
    def get(self, selection: object, threads: int, missing: Callable[[], object] | None) -> Any:
        """Read a selection of ints, slices and an ellipsis; ``None`` if this method does not support it.

        It is ``None``, too, if the array has become shorter than the selection.
        """
    def read(
        self,
        plan: Plan,
        out: npt.NDArray[Any],
        offset: int,
        threads: int,
        missing: Callable[[], object] | None,
    ) -> bool:
        """Read what a plan selects into `out`; return ``False`` if `out` is not supported, or the array became shorter.

        `missing` is called if a chunk is not stored, unless the store itself checks the node. If it is ``None``,
        `NotFoundError` is raised, also for an inner chunk that a shard lacks.
        """
    def set(
        self,
        selection: object,
        values: object,
        threads: int,
        keep_empty: bool,
        is_shortened: Callable[[], object],
    ) -> bool:
        """Write an array to a selection of ints and slices; return ``False`` if this method does not support it.

        Nothing is written then. It is ``False``, too, if the array has become shorter than the selection, or if
        `is_shortened`, which is called unless the store itself checks the node, returns true.
        """
    def write(
        self,
        plan: Plan,
        values: npt.NDArray[Any],
        offset: int,
        threads: int,
        keep_empty: bool,
    ) -> bool:
        """Write `values` to the elements that a plan selects; return ``False`` if the array has become shorter."""
    def create(self, plan: Plan, values: npt.NDArray[Any], threads: int) -> int:
        """Store the chunks that a plan selects, each as a whole, and return the number of stored bytes.

        Raises
        ------
        tegula.errors.ConflictError
            If one of them exists already; others may have been stored then.
        """
    def any_stored(self, bounds: Sequence[tuple[int, int]]) -> bool | None:
        """Return whether any chunk of a box is stored; ``None`` if this method can not find out."""
    def delete(self, bounds: Sequence[tuple[int, int]], holds: Callable[[], bool]) -> bool | None:
        """Delete the chunks of a box as long as `holds` returns true; ``None`` if this method can not do it."""

class Strings:
    """Chunks of variable-length strings: `vlen-utf8` or `vlen-bytes`, and the codecs of bytes that follow."""

    def __new__(cls, *, is_text: bool, buffers: Sequence[Codec]) -> Strings:
        """Take chunks of text or of bytes; `buffers` are the codecs of bytes in the order of encoding."""
    def decode(self, data: bytes, count: int, most: int) -> list[Any]:
        """Decode a chunk to a list of `count` elements; no codec may decode to more than `most` bytes."""
    def encode(self, elements: list[Any]) -> bytes | None:
        """Encode a list of elements to a chunk; ``None`` if one of them has another type."""

def extend(
    parts: Sequence[tuple[Array, Sequence[int], int, npt.NDArray[Any]]], holds: Callable[[], bool], threads: int
) -> list[int | None]:
    """Add rows to the ends of chunks, and return by how many bytes each stored chunk has grown.

    Parameters
    ----------
    parts : sequence of (Array, sequence of int, int, ndarray)
        For each chunk its array, its grid coordinates, how many of its rows are kept, and the rows after them.
    holds : callable
        Called when all chunks have been read; a chunk is stored on condition that it has not changed since then.
    threads : int
        How many threads may work.

    Returns
    -------
    list of int or None
        ``None`` where the caller has to store the chunk.

    Raises
    ------
    tegula.errors.ConflictError
        If `holds` returns false, or a chunk has changed; others may have been stored then.
    """

def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Make an array with undefined content; a large one uses memory that is cached for reuse."""

def put_file(directory: str, name: str, value: memoryview, expected: object, sync: bool) -> tuple[int, int, int] | None:
    """Put a file in its place in a directory, as `tegula.stores.local.directories.Directory.replace` does.

    Returns
    -------
    tuple of int or None
        The generation of the file; ``None`` if it has to be put there by Python. Nothing has changed then.

    Raises
    ------
    OSError
        If a call of the system fails.
    tegula.errors.ConflictError
        If the old file has another generation than `expected`.
    """

def read_files(directory: str, keys: Sequence[str], most: int, threads: int) -> list[bytes | Literal[False] | None]:
    """Read files below a directory, up to `most` bytes of each.

    Returns
    -------
    list of bytes, None or False
        ``None`` where there is no file, ``False`` where Python has to read it.
    """

def find_files(directory: str, paths: Sequence[str], threads: int) -> list[bool | None]:
    """Tell whether there are plain files at paths below a directory.

    Returns
    -------
    list of bool or None
        ``None`` where Python has to look.
    """

def index_members(text: bytes, chain: list[str]) -> list[npt.NDArray[np.uint32]] | None:
    """List the members of a JSON document's objects along a chain of keys; see `tegula.formats.members`."""

def versions() -> dict[str, str]:
    """Return the version of each library that is compiled in."""

def features() -> list[str]:
    """Return the instruction sets that the kernel uses on this machine."""

def codecs() -> list[str]:
    """Return the names of the codecs that the kernel has."""

def faults(hook: Callable[[str, str], object | None] | None = None, clock: int | None = None) -> None:
    """Call `hook` before each system call that the kernel makes for local files; for tests, and off by default.

    It is given the name of the call and the path that it is about. ``None`` lets the call go ahead; an object with the
    attribute `errno` makes it fail with that number, one with the attribute `most` makes it read or write at most so
    many bytes. Without a hook none is called any more. `clock` is the time, in nanoseconds, at which the clock of the
    kernel stands still.
    """

def given_up() -> bool:
    """Return whether this thread works for an operation that has failed on another thread."""

def after_fork() -> None:
    """Drop the threads of the parent process, which do not exist in a forked child."""

def trim() -> None:
    """Release the memory that is cached for reuse."""
