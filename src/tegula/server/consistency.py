"""Consistent answers: what an answer depends on is compared with what was read first. Its memory is known before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from tegula import engine
from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.generations import states_of
from tegula.errors import ConflictError, TegulaError
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.stores import Generation, Store
from tegula.stores.capabilities import Ranged

__all__ = ["Watch", "Work", "read_part", "unless_changed"]

T = TypeVar("T")


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

    def _state(self, path: str, metadata: NodeMetadata) -> dict[str, Generation | None]:
        """Return the generations of a node's documents; raise `ConflictError` unless they say what was read."""
        states = states_of(self._store, path, metadata.format)
        documents = {key: value for key, (value, _) in states.items() if value is not None}
        if documents != metadata.documents and self._parsed(path, metadata, documents) != metadata:
            raise self._changed(path)
        return {key: generation for key, (_, generation) in states.items()}

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
        return {key: value for key, (value, _) in states_of(self._store, path, [*keys]).items() if value is not None}

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
