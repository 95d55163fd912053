"""Room for appended data: every variable grows by the same part, even if several processes append at once.

The first variable, the coordinate of the dimension if there is one, decides: it grows by a conditional write of its
document, so that each of several processes gets a part of its own. The other variables grow to hold that part.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial

from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError

__all__ = ["check_lengths", "reserve"]


def reserve(arrays: Mapping[str, tuple[Array, int]], dim: Hashable, count: int) -> int:
    """Make arrays longer along a dimension and return where the new part begins.

    Parameters
    ----------
    arrays : mapping of str to (Array, int)
        The arrays with the axis that grows, by name.
    dim : str
        Name of the dimension.
    count : int
        By how much it grows.

    Raises
    ------
    MetadataError
        If another array is longer than the first, so that the new part would not be free in all arrays.

    Examples
    --------
    >>> import tegula
    >>> time = tegula.create_array({}, shape=3, dtype="i8")
    >>> wind = tegula.create_array({}, shape=(2, 3), dtype="f4")
    >>> reserve({"time": (time, 0), "wind": (wind, 1)}, "time", 5), time.shape, wind.shape
    (3, (8,), (2, 8))
    """
    leader, axis = arrays[_first(arrays, dim)]
    others = [pair for pair in arrays.values() if pair[0] is not leader]
    # the first array is read last: no other array is longer, unless a writer without this rule has changed it
    requests = leader.store.concurrency
    gather(lambda other: other[0].refresh(), others, requests)
    leader.refresh()
    _refuse_longer(arrays, dim)
    start = 0

    def grown(shape: tuple[int, ...]) -> tuple[int, ...]:
        nonlocal start
        start = shape[axis]
        return (*shape[:axis], start + count, *shape[axis + 1 :])

    leader.change_shape(grown)
    gather(lambda other: other[0].change_shape(partial(_at_least, other[1], start + count)), others, requests)
    return start


def check_lengths(arrays: Mapping[str, tuple[Array, int]], dim: Hashable) -> None:
    """Raise the error of `reserve` before anything is changed; makes no request unless lengths differ.

    Examples
    --------
    >>> import tegula
    >>> t, u = tegula.create_array({}, shape=3, dtype="i8"), tegula.create_array({}, shape=3, dtype="f4")
    >>> check_lengths({"t": (t, 0), "u": (u, 0)}, "time")
    """
    leader, axis = arrays[_first(arrays, dim)]
    if any(array.shape[at] > leader.shape[axis] for array, at in arrays.values()):
        leader.refresh()  # another process may have made all of them longer while they were opened
        _refuse_longer(arrays, dim)


def _first(arrays: Mapping[str, tuple[Array, int]], dim: Hashable) -> str:
    return str(dim) if dim in arrays else min(arrays)


def _refuse_longer(arrays: Mapping[str, tuple[Array, int]], dim: Hashable) -> None:
    first = _first(arrays, dim)
    leader, axis = arrays[first]
    for name, (array, at) in arrays.items():
        if array.shape[at] > leader.shape[axis]:
            raise MetadataError(
                f"{name!r} is longer than {first!r} along {dim!r}: {array.shape[at]} and {leader.shape[axis]}; resize "
                "one of them before you append",
                path=array.location,
            )


def _at_least(axis: int, length: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:axis], max(shape[axis], length), *shape[axis + 1 :])
