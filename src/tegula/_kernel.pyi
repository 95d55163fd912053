"""The compiled kernel: carries out plans in Rust. It is optional; `tegula.executors` knows whether it is there."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str
"""The version of tegula that it belongs to."""

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
        shape: Sequence[int],
        cuts: Sequence[int | list[int]],
        keys: tuple[str, str, str, str, bool],
        chain: tuple[Any, ...],
        fill: bytes,
        dtype: np.dtype[Any],
        dense: bool,
    ) -> Array:
        """Describe an array; see `tegula.engine.kernel` for the parts."""
    def get(self, selection: object, threads: int, look: Callable[[], None]) -> Any:
        """Read a selection of ints, slices and an ellipsis; ``None`` if that has to go another way."""
    def read(
        self,
        tables: list[Any],
        points: tuple[Any, ...] | None,
        axes: list[int],
        out: npt.NDArray[Any],
        offset: int,
        threads: int,
        look: Callable[[], None],
    ) -> bool:
        """Read what tables select into `out`; return whether that is done. `look` is called if a chunk was absent."""
    def write(
        self,
        tables: list[Any],
        points: tuple[Any, ...] | None,
        axes: list[int],
        values: npt.NDArray[Any],
        offset: int,
        threads: int,
        keep_empty: bool,
    ) -> None:
        """Write `values` where tables select."""

    def any_stored(self, bounds: Sequence[tuple[int, int]]) -> bool | None:
        """Return whether any chunk of a box has a value; ``None`` if that has to be found out another way."""
    def delete(self, bounds: Sequence[tuple[int, int]], holds: Callable[[], bool]) -> bool | None:
        """Delete the chunks of a box as long as `holds` says so; ``None`` if that has to be done another way."""

class Texts:
    """Chunks of Python's texts or bytes: `vlen-utf8` or `vlen-bytes`, and the codecs of bytes that follow."""

    def __new__(cls, text: bool, buffers: tuple[Any, ...]) -> Texts:
        """`buffers` as in `CodecChain.native`."""
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
