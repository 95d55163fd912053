"""Reading chunks before it is certain that they will be changed, in the same wave as other requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tegula import config
from tegula.engine.concurrency.pool import begin, gather
from tegula.engine.stored.array import StoredArray
from tegula.indexing import Plan
from tegula.stores import ABSENT, ByteRange, Generation, Store
from tegula.stores.wrapping import WrappingStore

__all__ = ["ReadAhead", "fits", "foresee", "look_up"]

Known = dict[str, tuple[bytes | None, Generation]]
_MOST: Final = 2**26  # the most bytes of memory for chunks that are read ahead
_MANY: Final = 2**16  # chunks of an append that are not examined one by one


class ReadAhead(WrappingStore):
    """A store that answers the first read of each key from known values.

    The known value may be outdated, or only a guess. The change is stored on condition that it is right; if it is
    wrong, the next read goes to the other store.

    Parameters
    ----------
    store : Store
        The other store.
    values : dict of str to (bytes or None, generation)
        The known value and generation of each key.
    """

    def __init__(self, store: Store, values: Known) -> None:
        super().__init__(store)
        self._known = values

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the known value of a key at the first call; later, read from the other store."""
        if with_generation and byte_range is None and (known := self._known.pop(key, None)) is not None:
            return known
        return super().get(key, byte_range, with_generation=with_generation)


def foresee(array: StoredArray, plan: Plan, axis: int, start: int) -> Callable[[], Known]:
    """Begin to read the chunks that an append changes, and return a function that waits for them.

    Parameters
    ----------
    array : StoredArray
        The array with its new shape.
    plan : Plan
        Covers the new part.
    axis, start : int
        Where the new part begins. Chunks that are replaced as a whole are not read. Other chunks that hold only new
        elements are assumed to be absent: a right guess saves a request, a wrong one costs a request. But if chunks
        equal to the fill value are deleted, a wrong guess could go unnoticed, so these chunks are read, too.
    """
    values: Known = {}
    if plan.nchunks > _MANY:
        return lambda: values
    shape, axes = array.metadata.shape, array.metadata.grid.axes
    wanted: list[str] = []
    for coords, _, _, covers in plan:
        if covers and all(each.start(n) + each.length(n) <= size for n, each, size in zip(coords, axes, shape)):
            continue
        key = array.key(coords)
        if array.keeps_empty and axes[axis].start(coords[axis]) >= start:
            values[key] = None, ABSENT
        else:
            wanted.append(key)
    if not wanted or not fits(array, len(wanted)):
        return lambda: values
    read = begin(lambda: look_up(array.store, wanted))
    return lambda: values | (read() or {})


def fits(array: StoredArray, number: int) -> bool:
    """Return whether `number` chunks may be read ahead, since all of them are in memory at the same time."""
    return number * array.chunk_nbytes <= min(_MOST, config.current().buffer_bytes)


def look_up(store: Store, keys: Iterable[str], ranges: Iterable[ByteRange | None] = ()) -> Known:
    """Return the values of keys and their generations, in one wave."""
    wanted = [*keys]
    requests = [*zip(wanted, [*ranges] or [None] * len(wanted))]
    answers = gather(lambda request: store.get(*request, with_generation=True), requests, store.concurrency)
    return dict(zip(wanted, answers))
