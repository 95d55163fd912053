"""A store that wraps another store, with the operations and capabilities of that store."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tegula.stores.arguments import ByteRange, BytesLike, Generation
from tegula.stores.capabilities import (
    BlockedKeys,
    EmptyDirectories,
    Exclusive,
    Locking,
    Ranged,
    Revalidating,
    StateListing,
    UnreachableNames,
    is_link,
)
from tegula.stores.interface import Store

if TYPE_CHECKING:
    from tegula.stores.summary import Capabilities

__all__ = ["WrappingStore"]

T = TypeVar("T")


class WrappingStore(Store):
    """Base class of stores that pass operations to another store, and may count, delay, refuse or cache them.

    A subclass overrides the operations that it changes, or `act`, which carries out all others. Each object declares
    the capabilities of the store that it wraps, except `Anchoring`, `Renaming`, `Reclaiming`, `SizedListing` and
    `Copying`: values are written through the wrapper, and moved, copied and measured key by key. For the same reason it
    has neither a `local_directory` nor `plain_files`.

    Parameters
    ----------
    store : Store
        The other store.

    Attributes
    ----------
    store : Store
        The other store.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> class Shy(WrappingStore):
    ...     def act(self, operation, key, work):
    ...         print(operation, key)
    ...         return work()
    >>> Shy(MemoryStore({"a": b"1"})).get("a")
    get a
    b'1'
    """

    def __new__(cls, store: Store, *_: Any, **__: Any) -> Self:
        """Make a store that declares those capabilities of the other store for which this module has a class."""
        bases = tuple(wrapper for has, wrapper in _WRAPPERS if has(store) and not issubclass(cls, wrapper))
        made: Any = super().__new__(_with_bases(cls, bases) if bases else cls)
        found: Self = made
        return found

    def __init__(self, store: Store) -> None:
        self.store = store
        self.read_only, self.concurrency = store.read_only, store.concurrency
        self.single_writer, self.listable = store.single_writer, store.listable
        self.conditional_delete, self.fresh_generations = store.conditional_delete, store.fresh_generations
        self.visits_all_keys = store.visits_all_keys
        self.in_memory, self.in_archive = store.in_memory, store.in_archive
        self.scratch_directory, self.values_url = store.scratch_directory, store.values_url

    def act(self, operation: str, key: str, work: Callable[[], T]) -> T:
        """Carry out an operation of the other store.

        Parameters
        ----------
        operation, key : str
            The name of the operation, and its key or prefix.
        work : callable
            Carries out the operation and returns its result.
        """
        return work()

    @property
    def url(self) -> str:
        """The name of the other store."""
        return self.store.url

    @property
    def identity(self) -> object:
        """The identity of the other store."""
        return self.store.identity

    @property
    def is_private(self) -> bool:
        """Whether the values of the other store are private; see `Readable.is_private`."""
        return self.store.is_private

    def stores_above(self) -> Iterator[tuple[Store, str]]:
        """Yield stores above the root of the other store, which are not wrapped."""
        return self.store.stores_above()

    def probe(self) -> Capabilities:
        """Find out what the other store can do; see `Store.probe`."""
        self.store.probe()
        self.single_writer, self.conditional_delete = self.store.single_writer, self.store.conditional_delete
        return self.capabilities

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Do what the other store does; see `Store.get`."""
        if with_generation:
            return self.act("get", key, lambda: self.store.get(key, byte_range, with_generation=True))
        return self.act("get", key, lambda: self.store.get(key, byte_range))

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Do what the other store does; see `Store.set`."""
        return self.act("set", key, lambda: self.store.set(key, value, if_generation=if_generation))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Do what the other store does; see `Store.delete`."""
        self.act("delete", key, lambda: self.store.delete(key, if_generation=if_generation))

    def size(self, key: str) -> int | None:
        """Do what the other store does; see `Store.size`."""
        return self.act("size", key, lambda: self.store.size(key))

    def exists(self, key: str) -> bool:
        """Do what the other store does; see `Store.exists`."""
        return self.act("exists", key, lambda: self.store.exists(key))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Do what the other store does; see `Store.list_prefix`."""
        return self.act("list_prefix", prefix, lambda: self.store.list_prefix(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Do what the other store does; see `Store.list_dir`."""
        return self.act("list_dir", prefix, lambda: self.store.list_dir(prefix))

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Do what the other store does; see `Store.prefixes_with`."""
        return self.act("prefixes_with", prefix, lambda: self.store.prefixes_with(prefix, names))

    def delete_prefix(self, prefix: str) -> None:
        """Do what the other store does; see `Store.delete_prefix`."""
        self.act("delete_prefix", prefix, lambda: self.store.delete_prefix(prefix))

    def flush(self) -> None:
        """Do what the other store does; see `Store.flush`."""
        self.store.flush()

    def close(self) -> None:
        """Close the other store."""
        self.store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        return getattr(kind, "wraps", kind), (self.store,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"


class _Batching(WrappingStore):
    """A wrapper of a store that answers many requests at once."""

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        wanted = [*requests]
        return self.act("get_many", wanted[0][0] if wanted else "", lambda: self.store.get_many(wanted))


class _Ranged(Ranged, WrappingStore):
    """A wrapper of a store that reads many ranges of one value at once."""

    store: Any

    def get_ranges(self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None) -> Any:
        return self.act("get_ranges", key, lambda: self.store.get_ranges(key, ranges, generation))


class _Revalidating(Revalidating, WrappingStore):
    """A wrapper of a store that can tell whether a value has changed."""

    store: Any

    def get_if_changed(self, key: str, generation: Generation) -> Any:
        return self.act("get_if_changed", key, lambda: self.store.get_if_changed(key, generation))


class _StateListing(StateListing, WrappingStore):
    """A wrapper of a store whose listings tell the states of values."""

    store: Any

    def list_states(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        return self.act("list_states", prefix, lambda: self.store.list_states(prefix))

    def state_of(self, generation: Generation) -> int:
        state: int = self.store.state_of(generation)
        return state


class _Locking(Locking, WrappingStore):
    """A wrapper of a store with locks."""

    store: Any

    def lock(self, key: str) -> AbstractContextManager[bool]:
        return self.act("lock", key, lambda: self.store.lock(key))


class _BlockedKeys(BlockedKeys, WrappingStore):
    """A wrapper of a store in which keys can be blocked."""

    store: Any

    def blocked_by(self, key: str) -> str | None:
        blocker: str | None = self.act("blocked_by", key, lambda: self.store.blocked_by(key))
        return blocker

    def blockers(self, prefix: str) -> Iterator[str]:
        return self.act("blockers", prefix, lambda: self.store.blockers(prefix))


class _EmptyDirectories(EmptyDirectories, WrappingStore):
    """A wrapper of a store with directories."""

    store: Any

    def make_prefix(self, prefix: str) -> None:
        self.act("make_prefix", prefix, lambda: self.store.make_prefix(prefix))

    def has_prefix(self, prefix: str) -> bool:
        is_there: bool = self.act("has_prefix", prefix, lambda: self.store.has_prefix(prefix))
        return is_there

    def is_link(self, prefix: str) -> bool:
        return self.act("is_link", prefix, lambda: is_link(self.store, prefix))


class _UnreachableNames(UnreachableNames, WrappingStore):
    """A wrapper of a store that may hold names which can't be keys."""

    store: Any

    def unreachable(self, prefix: str = "") -> Iterator[str]:
        return self.act("unreachable", prefix, lambda: self.store.unreachable(prefix))


class _Exclusive(Exclusive, WrappingStore):
    """A wrapper of a store that keeps other writers out."""

    store: Any

    def end(self, *, remove_empty: bool) -> None:
        self.store.end(remove_empty=remove_empty)


_WRAPPERS: list[tuple[Callable[[Store], bool], type[WrappingStore]]] = [
    (lambda store: type(store).get_many is not Store.get_many, _Batching),
    (lambda store: isinstance(store, Ranged), _Ranged),
    (lambda store: isinstance(store, Revalidating), _Revalidating),
    (lambda store: isinstance(store, StateListing) and store.listable, _StateListing),
    (lambda store: isinstance(store, Locking), _Locking),
    (lambda store: isinstance(store, BlockedKeys), _BlockedKeys),
    (lambda store: isinstance(store, EmptyDirectories), _EmptyDirectories),
    (lambda store: isinstance(store, UnreachableNames), _UnreachableNames),
    (lambda store: isinstance(store, Exclusive), _Exclusive),
]
"""Wrappers of the operations that only some stores have, and whether a store has them."""


@functools.cache
def _with_bases(kind: type[WrappingStore], bases: tuple[type[WrappingStore], ...]) -> type[WrappingStore]:
    above = bases if kind is WrappingStore else (kind, *bases)  # a class can't come before its subclasses
    return type(kind.__name__, above, {"__module__": kind.__module__, "__doc__": kind.__doc__, "wraps": kind})
