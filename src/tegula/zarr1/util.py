"""``zarr.util``: normalization of shapes, chunks and selections."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from tegula.errors import MetadataError, SelectionError
from tegula.zarr1.errors import ArgumentError, NotImplementedHereError

__all__ = [
    "get_chunk_range",
    "human_readable_size",
    "is_total_slice",
    "normalize_array_selection",
    "normalize_axis_selection",
    "normalize_chunks",
    "normalize_order",
    "normalize_resize_args",
    "normalize_shape",
]


def normalize_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Examples
    --------
    >>> normalize_shape(100), normalize_shape([10, 20])
    ((100,), (10, 20))
    """
    return _integers(shape, "shape")


def normalize_chunks(chunks: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the length of a chunk along each dimension; ``None`` or a missing number means the whole dimension.

    Examples
    --------
    >>> normalize_chunks(10, (100, 20)), normalize_chunks((None, 5), (100, 20))
    ((10, 20), (100, 5))
    """
    given = (chunks,) if isinstance(chunks, int) else chunks
    if not isinstance(given, (tuple, list, str)):
        raise ArgumentError(f"chunks must be a tuple of ints, not {chunks!r:.80}", field="chunks")
    if len(given) > len(shape):
        raise MetadataError(f"chunks of {len(given)} dimensions do not fit {len(shape)} dimensions", field="chunks")
    lengths = [whole if length is None else length for length, whole in zip(given, shape)]
    return _integers([*lengths, *shape[len(given) :]], "chunks")


def _integers(values: Any, field: str) -> tuple[int, ...]:
    try:
        return (int(values),) if hasattr(values, "__index__") else tuple(int(value) for value in values)
    except TypeError as error:
        raise ArgumentError(f"{values!r:.80} is not a sequence of ints", field=field) from error
    except (ValueError, OverflowError) as error:
        raise MetadataError(f"{values!r:.80} is not a sequence of ints", field=field) from error


def normalize_order(order: Any) -> str:
    """Return ``"C"`` or ``"F"``.

    Examples
    --------
    >>> normalize_order("f")
    'F'
    """
    name = str(order).upper()
    if name not in ("C", "F"):
        raise MetadataError(f"order must be 'C' or 'F', not {order!r:.80}", field="order")
    return name


def normalize_resize_args(old_shape: tuple[int, ...], *args: Any) -> tuple[int, ...]:
    """Return the new shape from the arguments of ``resize``.

    Examples
    --------
    >>> normalize_resize_args((10, 20), 5, None), normalize_resize_args((10,), 5)
    ((5, 20), (5,))
    """
    given = args[0] if len(args) == 1 else args
    lengths = (given,) if isinstance(given, int) else tuple(given)
    if len(lengths) != len(old_shape):
        raise MetadataError(f"the array has {len(old_shape)} dimensions, the new shape {len(lengths)}", field="shape")
    return _integers([old if new is None else new for old, new in zip(old_shape, lengths)], "shape")


def normalize_axis_selection(item: Any, l: int) -> int | slice:  # noqa: E741 - the name is zarr's
    """Return an index or a slice along one dimension, with non-negative numbers.

    Examples
    --------
    >>> normalize_axis_selection(-1, 10), normalize_axis_selection(slice(-3, None), 10)
    (9, slice(7, 10, None))
    """
    if isinstance(item, int):
        index = item + l if item < 0 else item
        if not 0 <= index < l:
            raise SelectionError(f"index {item} is out of bounds for {l} elements")
        return index
    if not isinstance(item, slice):
        raise ArgumentError(f"a selection must consist of ints and slices, not {item!r:.80}")
    if item.step not in (None, 1):
        raise NotImplementedHereError(f"the step of a slice must be 1, not {item.step}")
    start, stop = (0 if item.start is None else item.start), (l if item.stop is None else item.stop)
    start, stop = (start + l if start < 0 else start), (stop + l if stop < 0 else stop)
    if not 0 <= start < l or stop < start:
        raise SelectionError(f"{item} is out of bounds for {l} elements")
    return slice(start, min(stop, l))


def normalize_array_selection(item: Any, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    """Return an index or a slice for each dimension.

    Examples
    --------
    >>> normalize_array_selection(slice(None), (10, 20)), normalize_array_selection((-1, slice(5)), (10, 20))
    ((slice(0, 10, None), slice(0, 20, None)), (9, slice(0, 5, None)))
    """
    items = () if isinstance(item, EllipsisType) else item if isinstance(item, tuple) else (item,)
    chosen = tuple(normalize_axis_selection(one, length) for one, length in zip(items, shape))
    return chosen + tuple(slice(0, length) for length in shape[len(items) :])


def is_total_slice(item: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a selection covers the whole shape.

    Examples
    --------
    >>> is_total_slice(slice(0, 10), (10,)), is_total_slice((slice(None), slice(0, 5)), (10, 20))
    (True, False)
    """
    if isinstance(item, EllipsisType):
        return True
    items = item if isinstance(item, tuple) else (item,)
    if not all(isinstance(one, (int, slice)) for one in items):
        raise ArgumentError(f"a selection must consist of ints and slices, not {item!r:.80}")
    wholes = [range(length) for length in shape[: len(items)]]
    return all(isinstance(one, slice) and whole[one] == whole for one, whole in zip(items, wholes))


def get_chunk_range(selection: Sequence[int | slice], chunks: Sequence[int]) -> list[range]:
    """Return, for each dimension, the range of chunks that a normalized selection touches.

    Examples
    --------
    >>> get_chunk_range((slice(5, 25), 7), (10, 4))
    [range(0, 3), range(1, 2)]
    """
    return [
        range(one.start // length, -(-one.stop // length))
        if isinstance(one, slice)
        else range(one // length, one // length + 1)
        for one, length in zip(selection, chunks)
    ]


def human_readable_size(size: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> human_readable_size(100), human_readable_size(10 * 2**20)
    ('100', '10.0M')
    """
    power = 0
    while size >= 2 ** (10 * (power + 1)) and power < 5:
        power += 1
    return f"{size / 2 ** (10 * power):.1f}{'KMGTP'[power - 1]}" if power else str(size)
