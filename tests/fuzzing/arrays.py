"""Arrays of the corpus, and what both executors make of the same stored bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import tegula
from tegula import config
from tegula.errors import TegulaError, UnsupportedError
from tegula.runtime import executors

from .outcomes import Violation, short
from .seeds import stores

__all__ = ["Subject", "both", "executors_here", "same", "subjects"]

_CHECKSUMS = frozenset(
    {"crc32c", "gzip"} | {f"numcodecs.{name}" for name in (
        "crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3", "gzip", "zlib", "bz2",
    )}
)  # fmt: skip
_EXACT = frozenset(
    {
        "bytes", "transpose", "sharding_indexed", "blosc", "gzip", "zstd", "crc32c", "blpk", "vlen-utf8", "vlen-bytes",
        "n5_default",
    }
    | {f"numcodecs.{name}" for name in (
        "blosc", "gzip", "zlib", "bz2", "lzma", "zstd", "lz4", "crc32c", "crc32", "adler32", "fletcher32", "shuffle",
        "delta", "vlen-utf8", "vlen-bytes", "json2", "msgpack2", "base64",
    )}
)  # fmt: skip


_STRICTER = (
    "requires too much memory",  # a window of more than 128 MiB, which zstd takes only where all is in memory
    "header crc mismatch",  # of the header of gzip; the kernel compares that of the content only
)
"""What only libraries of the reference executor refuse, though the content is sound."""


@functools.cache
def executors_here() -> tuple[str, ...]:
    """Return the executors there are."""
    return ("kernel", "reference") if executors.kernel() is not None else ("reference",)


@dataclass(eq=False)
class Subject:
    """An array in memory whose chunks will be damaged.

    Attributes
    ----------
    array, store
        The array and its store.
    chunks
        Key, value, and where in the array it is, of each stored chunk.
    values
        What the array holds.
    checked
        Whether checksums show every change of its bytes.
    exact
        Whether what is read can be written again unchanged.
    """

    name: str
    array: Any
    store: tegula.MemoryStore
    chunks: list[tuple[str, bytes, tuple[slice, ...]]]
    values: Any
    checked: bool
    exact: bool

    @functools.cached_property
    def executors(self) -> tuple[str, ...]:
        """The executors that differ for this array: what the kernel can't do, the reference executor does for it."""
        metadata = self.array.metadata
        if metadata.data_type.variable or self.array.stored.chain.native is None:
            return ("reference",)
        return executors_here()

    @functools.cached_property
    def skips_blocks(self) -> bool:
        """Whether a part of a chunk may be read without checking the rest: Blosc is the last codec."""
        last = self.array.metadata.codecs[-1]
        return last.name in ("blosc", "numcodecs.blosc", "blpk")

    @functools.cached_property
    def sharded(self) -> bool:
        """Whether the array has shards."""
        return any(codec.name == "sharding_indexed" for codec in self.array.metadata.codecs)


def _codecs(codec: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(codec, str):
        return codec, {}
    if isinstance(codec, Mapping):
        return codec["name"], codec.get("configuration", {})
    return codec.name, codec.configuration


def is_checked(codecs: Any) -> bool:
    """Return whether some codec of a chain compares a checksum of its whole result."""
    for codec in codecs:
        name, options = _codecs(codec)
        if name in _CHECKSUMS or (name in ("zstd", "numcodecs.zstd") and options.get("checksum")):
            return True
        if name == "numcodecs.lzma" and options.get("format", 1) in (1, None) and options.get("check", -1) != 0:
            return True
        if name == "sharding_indexed":
            return is_checked(options["codecs"]) and is_checked(options.get("index_codecs", ["crc32c"]))
    return False


def _names(codecs: Any) -> Iterator[str]:
    for codec in codecs:
        name, options = _codecs(codec)
        yield name
        yield from _names(options["codecs"]) if name == "sharding_indexed" else ()


def _of(name: str, array: Any, store: tegula.MemoryStore) -> Subject | None:
    metadata = array.metadata
    try:
        values = array[...]
    except TegulaError:
        return None
    stored = array.stored
    grid = metadata.grid
    chunks = []
    for coords in product(*(range(axis.count(size)) for axis, size in zip(grid.axes, metadata.shape))):
        key = stored.key(coords)
        data = store.get(key) if key else None
        if data is None:
            continue
        shape = grid.chunk_shape(coords)
        starts = [axis.start(number) for axis, number in zip(grid.axes, coords)]
        box = tuple(slice(a, min(a + b, size)) for a, b, size in zip(starts, shape, metadata.shape))
        chunks.append((key, data, box))
    if not chunks:
        return None
    exact = all(codec in _EXACT for codec in _names(metadata.codecs))
    return Subject(name, array, store, chunks, values, is_checked(metadata.codecs), exact)


def _arrays(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, tegula.Array):
        yield "", node
    elif isinstance(node, tegula.Table):
        yield from ((name, node[name]) for name in node.names)
    else:
        yield from ((path, below) for path, below in node.walk({}) if isinstance(below, tegula.Array))


@functools.cache
def subjects() -> dict[str, Subject]:
    """Return the arrays of the corpus that can be read and have chunks."""
    found: dict[str, Subject] = {}
    for name, contents in stores().items():
        store = tegula.MemoryStore(contents)
        try:
            arrays = [*_arrays(tegula.open(store, "r+"))]
        except TegulaError:
            continue
        for path, array in arrays:
            subject = _of(f"{name}/{path}", array, store)
            if subject is not None:
                found[subject.name] = subject
    return found


def same(first: Any, second: Any) -> bool:
    """Return whether two values are the same, bit by bit."""
    if type(first) is not type(second):
        return False
    first, second = np.asarray(first), np.asarray(second)
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.hasobject:
        return repr(first.tolist()) == repr(second.tolist())
    if first.dtype.names is not None:  # without the padding
        return all(same(first[name], second[name]) for name in first.dtype.names)
    return first.tobytes() == second.tobytes()


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error."""
    try:
        return call()
    except TegulaError as error:
        return error


def both(subject: Subject, selections: list[Any]) -> list[Any]:
    """Read selections, the whole array first, with each executor; return their common results: values or errors."""
    results = []
    for executor in subject.executors:
        with config.configure(executor=executor):
            results.append([outcome(lambda chosen=chosen: subject.array[chosen]) for chosen in selections])
    if len(results) == 1:
        return results[0]
    return [_agreed(subject, chosen, native, defined) for chosen, native, defined in zip(selections, *results)]


def _agreed(subject: Subject, selection: Any, native: Any, defined: Any) -> Any:
    failed = [isinstance(result, TegulaError) for result in (native, defined)]
    if all(failed) or (not any(failed) and same(native, defined)):
        return defined
    if failed == [False, True]:
        if selection is not ... and subject.skips_blocks:
            return native  # the blocks that it needs are sound
        if isinstance(defined, UnsupportedError):
            return native  # zstd 0.7 or snappy in Blosc
        if any(text in str(defined) for text in _STRICTER):
            return native
    raise Violation("disagreement", f"{selection}: the kernel says {short(native)}, the reference {short(defined)}")
