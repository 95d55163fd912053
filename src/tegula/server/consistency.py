"""Consistent answers: what an answer depends on is compared with what was read first. Its memory is known before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from math import prod
from typing import Any, Final, Generic, TypeVar

import numpy as np

from tegula import config, engine
from tegula.arrays.array import Array
from tegula.engine import StoredArray
from tegula.engine.concurrency.pool import gather
from tegula.errors import ConflictError, TegulaError
from tegula.formats import find_format
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.stores import Generation, Store
from tegula.stores.capabilities import Ranged

__all__ = ["Watch", "Work", "decoding_cost", "element_bytes", "read_part", "reading_cost", "unless_changed"]

T = TypeVar("T")
_OBJECT_BYTES: Final = 64  # estimate for a variable-length element
_INDEX_BYTES: Final = 16  # of each inner chunk in the index of a shard


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """Work for a request, described from documents alone.

    Parameters
    ----------
    cost : int
        The maximum number of bytes of memory that the work takes.
    run : callable
        Does the work; raises `ConflictError` if what it depends on has changed, so that it has to be planned again.
    """

    cost: int
    run: Callable[[], T]


class Watch:
    """The documents of nodes, in the state in which they were read.

    Parameters
    ----------
    store : Store
        The store of the nodes.
    nodes : iterable of (str, NodeMetadata)
        Their paths in the store, and what was read there.

    Raises
    ------
    ConflictError
        If the documents have changed since they were read.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="u1")
    >>> watch = Watch(a.store, [("", a.metadata)])
    >>> watch.check()
    >>> a.resize(5)
    >>> watch.check(growth=True)
    >>> b = tegula.create_array(a.store, shape=3, dtype="f8", overwrite=True)
    >>> watch.check(growth=True)
    Traceback (most recent call last):
    ...
    tegula.errors.ConflictError: the node has been changed or replaced while it was read (path '/')
    """

    def __init__(self, store: Store, nodes: Iterable[tuple[str, NodeMetadata]]) -> None:
        self._store = store
        self._nodes = [(path, metadata, self._state(path, metadata)) for path, metadata in nodes]

    def _state(self, path: str, metadata: NodeMetadata) -> dict[str, Generation]:
        """Return the generations of a node's documents; raise `ConflictError` unless they say what was read."""
        keys = find_format(metadata.format).keys
        answers = gather(partial(self._read, path, config.current().max_input_bytes + 1), keys, self._store.concurrency)
        documents = {key: value for key, (value, _) in zip(keys, answers) if value is not None}
        if documents != metadata.documents and self._parsed(path, metadata, documents) != metadata:
            raise self._changed(path)
        return {key: generation for key, (_, generation) in zip(keys, answers)}

    def _read(self, path: str, length: int, key: str) -> tuple[bytes | None, Generation]:
        return read_part(self._store, f"{path}/{key}".lstrip("/"), 0, length)

    def _parsed(self, path: str, metadata: NodeMetadata, documents: dict[str, bytes]) -> NodeMetadata | None:
        try:
            return engine.read_metadata(self._store, path, metadata.format, documents)
        except TegulaError:  # the documents of two nodes
            return None

    def check(self, *, growth: bool = False) -> None:
        """Check that the nodes are still what they were; with `growth` they may have grown, or new attributes.

        Raises
        ------
        ConflictError
            If one has been changed, replaced or deleted.
        """
        for number, (path, metadata, state) in enumerate(self._nodes):
            answers = gather(partial(self._read, path, 0), state, self._store.concurrency)
            if all(now == old for (_, now), old in zip(answers, state.values())):
                continue
            now = self._parsed(path, metadata, self._present(path, state)) if growth else None
            if now is None or not _has_grown(metadata, now):
                raise self._changed(path)
            self._nodes[number] = path, now, self._state(path, now)

    def _present(self, path: str, keys: Iterable[str]) -> dict[str, bytes]:
        answers = {key: self._read(path, config.current().max_input_bytes + 1, key)[0] for key in keys}
        return {key: value for key, value in answers.items() if value is not None}

    def _changed(self, path: str) -> ConflictError:
        engine.forget(self._store, f"{path}/" if path else "")
        return ConflictError("the node has been changed or replaced while it was read", path=f"/{path}")

    def guard(self, run: Callable[[], T]) -> T:
        """Call a function that reads the nodes, and return its result if they have at most grown meanwhile.

        Raises
        ------
        ConflictError
            If a node has been replaced. It takes precedence over errors of `run`, which may have read parts of both.
        """
        return unless_changed(run, partial(self.check, growth=True))


def _has_grown(old: NodeMetadata, new: NodeMetadata) -> bool:
    """Return whether a node has been added to; equal documents that were written again are those of a new node."""
    if type(old) is not type(new) or old.documents == new.documents:
        return False
    if isinstance(old, ArrayMetadata) and isinstance(new, ArrayMetadata):
        longer = old.ndim == new.ndim and all(now >= before for now, before in zip(new.shape, old.shape))
        return longer and replace(new, shape=old.shape, attributes=old.attributes) == old
    return replace(new, attributes=old.attributes) == old


def unless_changed(run: Callable[[], T], check: Callable[[], None]) -> T:
    """Return the result of a function if a check succeeds afterwards; an error of the check takes precedence.

    Examples
    --------
    >>> unless_changed(lambda: 1, lambda: None)
    1
    """
    try:
        result = run()
    except TegulaError:
        check()  # what was read may belong to two states
        raise
    check()
    return result


def read_part(store: Store, key: str, start: int, length: int) -> tuple[bytes | None, Generation]:
    """Return a part of a value and its generation, without reading more of it."""
    if isinstance(store, Ranged):
        parts, generation = store.get_ranges(key, [(start, length)] if length else [])
        return (None if parts is None else parts[0] if parts else b""), generation
    answer: tuple[bytes | None, Generation] = store.get(key, (start, length), with_generation=True)
    return answer


def element_bytes(dtype: np.dtype[Any]) -> int:
    """Return the bytes that an element takes in memory; an estimate for Python objects."""
    return _OBJECT_BYTES if dtype.hasobject else max(1, dtype.itemsize)


def decoding_cost(array: StoredArray, number: int = 1) -> int:
    """Return the bytes that reading parts of some chunks takes: each is read, and decoded as a whole.

    Parameters
    ----------
    array : StoredArray
        The array. Of shards only inner chunks are decoded.
    number : int
        How many chunks are read; as many as there are threads are in memory at once.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=100, chunks=10, shards=50, dtype="f8")
    >>> decoding_cost(a.stored) == 2 * 10 * 8 + 5 * 16
    True
    """
    chain: Any = array.chain
    shape, index = array.metadata.grid.largest_chunk(), 0
    while chain.sharding is not None:
        inner = chain.sharding.inner_shape
        index += _INDEX_BYTES * prod(-(-size // part) for size, part in zip(shape, inner))
        shape, chain = inner, chain.sharding.inner
    each = 2 * prod(shape) * element_bytes(array.metadata.data_type.numpy) + index
    return max(1, min(number, config.current().threads)) * each


def reading_cost(array: Array, axes: Sequence[int | range]) -> int:
    """Return the bytes that reading the chunks of a selection takes, beside the selected elements.

    Parameters
    ----------
    array : Array
        The array.
    axes : sequence of int or range
        The selected indices along each axis; axes at the end may be left out, and are selected as a whole.
    """
    number = 1
    for axis, size, chosen in zip_longest(array.metadata.grid.axes, array.shape, axes):
        indices = range(size) if chosen is None else chosen
        if isinstance(indices, range):
            number *= min(len(indices), abs(axis.locate(indices[-1]) - axis.locate(indices[0])) + 1) if indices else 0
    return decoding_cost(array.stored, number)
