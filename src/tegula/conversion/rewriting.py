"""Values read from one array and written to another, block by block; and compared afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isnan, prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.array import Array
from tegula.conversion.targets import Axis, attributes_of
from tegula.metadata.data_types import DataType

__all__ = ["rewrite", "same_values"]

_BLOCK_BYTES: Final = 2**26


def rewrite(source: Array, axes: list[Axis | int], target: Array) -> Iterator[int]:
    """Write the selected values of an array into another, and yield the bytes of each block."""
    for block in _blocks(source, target):
        values = _read_block(source, axes, block)
        target[block] = values
        yield values.nbytes


def same_values(source: Array, axes: list[Axis | int], target: Array) -> bool:
    """Return whether an array holds the selected values of another, and its attributes."""
    written = Array(target._stored, target.path, read_only=True)
    for block in _blocks(source, written):
        old = _read_block(source, axes, block)
        new = np.asarray(written[block])
        if not _identical(old, new):
            return False
    return all(_equal(written.attrs.get(name), value) for name, value in attributes_of(source, axes).items())


def _blocks(source: Array, target: Array) -> Iterator[tuple[slice, ...]]:
    """Cut the target into boxes of whole stored chunks, joined up to the size of the source's where memory allows."""
    if not target.shape:
        yield ()
        return
    if not target.metadata.grid.is_regular:
        axes = target.metadata.grid.axes
        spans = [
            [slice(axis.start(n), min(size, axis.start(n) + axis.length(n))) for n in range(axis.count(size))]
            for axis, size in zip(axes, target.shape)
        ]
        yield from product(*spans)
        return
    block = list(target.metadata.grid.largest_chunk())
    if source.ndim == target.ndim:
        reach = source.metadata.grid.largest_chunk()
        wider = [-(-max(new, old) // new) * new for new, old in zip(block, reach)]
        if prod(wider) * target.dtype.itemsize <= _BLOCK_BYTES:
            block = wider
    itemsize = target.dtype.itemsize
    for axis in reversed(range(len(block))):  # as many chunks in a row as fit
        room = max(1, _BLOCK_BYTES // max(1, prod(block) * itemsize))
        block[axis] *= max(1, min(room, -(-target.shape[axis] // block[axis])))
    ranges = [range(0, size, step) for size, step in zip(target.shape, block)]
    for starts in product(*ranges):
        yield tuple(slice(s, min(s + b, size)) for s, b, size in zip(starts, block, target.shape))


def _read_block(source: Array, axes: list[Axis | int], block: tuple[slice, ...]) -> npt.NDArray[Any]:
    selection: list[Any] = []
    parts = iter(block)
    for axis in axes:
        if isinstance(axis, int):
            selection.append(axis)
            continue
        part = next(parts)
        start, step, _ = axis
        first, stop = start + part.start * step, start + part.stop * step
        selection.append(slice(first, None if stop < 0 else stop, step))
    values = np.asarray(source[tuple(selection)])
    return _as_text(values) if source.metadata.data_type == DataType(np.dtype(object), "string") else values


def _as_text(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Zarr v2 shows missing strings as its fill value, which may be 0 or null."""
    out = np.empty(values.shape, object)
    for index in np.ndindex(values.shape):
        value: Any = values[index]
        out[index] = value if isinstance(value, str) else "" if value is None or value == 0 else str(value)
    return out


def _identical(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Equality of values to the bit, whatever the byte order."""
    if old.shape != new.shape:
        return False
    if old.dtype.hasobject:
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else _equal(a, b) for a, b in zip(old.flat, new.flat)
        )
    if old.dtype != new.dtype:
        old = old.astype(new.dtype)
    return np.ascontiguousarray(old).tobytes() == np.ascontiguousarray(new).tobytes()


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON values in which NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float) and isnan(a) and isnan(b):
        return True
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    return bool(a == b)
