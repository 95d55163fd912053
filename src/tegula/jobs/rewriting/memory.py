"""The memory of a conversion: what the user allows, and the units and passes that fit into it."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from tegula import config
from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import Indices
from tegula.engine.reading.remote import ShardReader
from tegula.errors import MetadataError, UnsupportedError
from tegula.jobs.rewriting.passes import Passes, TooSmall, plan_passes
from tegula.jobs.units import block_grid, itemsize_of
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid

__all__ = ["bounded", "grant_for", "granted", "memory_of", "passes_of", "too_little", "unit_grid"]

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_written = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE).fullmatch
_LEAST: Final = 2**20
_RESERVE: Final = 2**25


def memory_of(value: Any) -> int | None:
    """Return an amount of memory in bytes: a number, or a text such as ``"2GB"`` or ``"512 MiB"``.

    Raises
    ------
    MetadataError
        If it is neither, or less than 1 MiB.

    Examples
    --------
    >>> memory_of("2GB"), memory_of("1.5 GiB"), memory_of(None)
    (2000000000, 1610612736, None)
    """
    if value is None:
        return None
    argument, match = value, _written(value) if isinstance(value, str) else None
    if match is not None:
        number, prefix, binary = match[1], match[2].lower(), match[3]
        value = int(float(number) * (_BINARY if binary and prefix else _UNITS)[prefix])
    if type(value) is not int or value < _LEAST:
        raise MetadataError(
            f"max_memory is a number of bytes, or a text such as '2GB', of at least 1 MiB (1,048,576 bytes), not "
            f"{argument!r:.40}",
            field="max_memory",
        )
    return value


def passes_of(
    source: Array, axes: Indices, target: Array, max_memory: int, *, two: bool = True, copies: int = 1
) -> Passes | None:
    """Return passes of a conversion for which no worker needs more than `max_memory` bytes.

    `axes` are the selected indices along each axis of the source; the target need not be stored. `two` and `copies`
    are as for `plan_passes`. It is ``None`` for chunks of varying lengths, each of which is a unit.

    Raises
    ------
    UnsupportedError
        If one chunk or shard of the target does not fit; the message says how much memory it needs.

    Examples
    --------
    >>> import tegula
    >>> maps = tegula.create_array({}, shape=(1000, 300, 300), chunks=(1, 300, 300), dtype="f4")
    >>> series = tegula.create_array({}, shape=(1000, 300, 300), chunks=(1000, 10, 10), dtype="f4")
    >>> passes_of(maps, tuple(map(range, maps.shape)), series, 2**29)
    <tegula.Passes: 1 pass, ...>
    >>> passes_of(maps, tuple(map(range, maps.shape)), series, 2**26)
    <tegula.Passes: 2 passes through a temporary array of chunks ...>
    """
    if not target.metadata.grid.is_regular or not target.shape:
        return None
    # the chunks that are read, in steps of the selection
    inner = source.metadata.grid.largest_chunk()
    if source.stored.chain.sharding is not None:
        inner = source.stored.chain.sharding.inner_shape
    reads, depth = [], 1
    for axis, length in zip(axes, inner):
        if isinstance(axis, int):
            depth *= length
        else:
            reads.append(max(1, -(-length // abs(axis.step))))

    # the size of an element, which is in memory with both types if these differ
    sizes = [itemsize_of(source), itemsize_of(target)]
    itemsize = max(sizes) if source.dtype == target.dtype else sum(sizes)

    # in remote stores units and the chunks under way share the memory
    shared = 2 if source.store.is_remote or target.store.is_remote else 1
    try:
        return plan_passes(
            target.shape,
            itemsize,
            reads,
            target.metadata.grid.largest_chunk(),
            max_memory=granted(max_memory) // shared,
            threads=config.current().threads,
            depth=depth,
            copies=copies,
            request_nbytes=max(ShardReader(one.store).gap for one in (source, target)),
            two=two and not (source.dtype.hasobject or target.dtype.hasobject),
        )
    except TooSmall as error:
        raise too_little("write", target, error.needed * shared, max_memory) from error


def too_little(verb: str, target: Array, needed: int, max_memory: int) -> UnsupportedError:
    """Return the error for a chunk or shard of an array that takes more memory for values than there is."""
    least, what = grant_for(needed), "chunk" if target.shards is None else "shard"
    return UnsupportedError(
        f"to {verb} one {what} of shape {tuple(target.metadata.grid.largest_chunk())} takes {least} bytes of memory, "
        f"and max_memory is {max_memory}; raise max_memory to at least {least}, or choose smaller {what}s",
        field="max_memory",
    )


def unit_grid(source: Array, axes: Indices, target: Array, max_memory: int | None, *, copies: int = 1) -> ChunkGrid:
    """Return the grid of the units of one pass, which fit into `max_memory`, or by default into a block.

    Raises
    ------
    UnsupportedError
        As `passes_of` does.
    """
    if max_memory is None:
        return block_grid(source, target)
    passes = passes_of(source, axes, target, max_memory, two=False, copies=copies)
    return target.metadata.grid if passes is None else regular_grid(passes.passes[0].unit)


def bounded(memory: int | None) -> AbstractContextManager[Any]:
    """Return a context in which the bytes under way, of all arrays together, take up to half of the memory."""
    if memory is None:
        return nullcontext()
    return config.configure(buffer_bytes=min(config.current().buffer_bytes, memory // 2))


def granted(memory: int) -> int:
    """Return the bytes left for values, after those that threads, codecs and the allocator take.

    Examples
    --------
    >>> [granted(grant_for(number)) - number for number in (10**6, 10**8, 10**10)]
    [0, 0, 0]
    """
    return max(memory * 5 // 8, memory - _RESERVE)


def grant_for(needed: int) -> int:
    """Return the least memory that leaves `needed` bytes for values."""
    return min(-(-needed * 8 // 5), needed + _RESERVE)
