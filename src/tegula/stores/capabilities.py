"""Capabilities: operations that some storage has and other storage lacks, each kind in a small class of its own.

Every `tegula.stores.Store` reads, writes and lists (`tegula.stores.operations`). A store declares a capability by
naming its class as a base, and the engine asks for it with ``isinstance``, or through `lock`, `blocked_by` and
`delete_if`, which have an answer for every store. `tegula.stores.summary` has all of them in one value.

====================  ===================================  ========================
capability            operations                           stores that have it
====================  ===================================  ========================
`Locking`             `lock`                               local files, mappings
`Reclaiming`          `leftovers`, `reclaim`               local files
`BlockedKeys`         `blocked_by`                         local files, fsspec
`EmptyDirectories`    `make_prefix`, `has_prefix`          local files
`Anchoring`           `anchored`                           local files
`Renaming`            `move_prefix`                        local files
`UnreachableNames`    `unreachable`                        zip archives
`Ranged`              `get_ranges`                         object storage, fsspec
`Revalidating`        `get_if_changed`                     object storage
`SizedListing`        `list_sizes`                         object storage
`Copying`             `copies_from`, `copy_from`           local files, buckets
====================  ===================================  ========================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

from tegula.errors import ConflictError
from tegula.stores.arguments import ByteRange, Generation
from tegula.stores.operations import Writable

__all__ = [
    "Anchoring",
    "BlockedKeys",
    "Copying",
    "EmptyDirectories",
    "Locking",
    "Ranged",
    "Reclaiming",
    "Renaming",
    "Revalidating",
    "SizedListing",
    "UnreachableNames",
    "blocked_by",
    "delete_if",
    "lock",
    "unchanged",
]


class Locking(ABC):
    """A store in which a writer can make others wait."""

    @abstractmethod
    def lock(self, key: str) -> AbstractContextManager[bool]:
        """Wait until no other writer holds the lock of `key`, and hold it while the context lasts.

        The lock keeps operations of several steps from getting in each other's way again and again. It is advisory:
        `set` and `delete` ignore it. It ends with its holder, and when the key gets another value.

        Returns
        -------
        context manager of bool
            Whether the lock is held. If not (a file that does not exist can't be locked), several writers may be at
            work at once, and only generations keep them apart.

        Raises
        ------
        StoreError
            If `key` is not valid.

        Examples
        --------
        >>> from tegula.stores import MappingStore
        >>> with MappingStore({"a": b"1"}).lock("a") as held:
        ...     held
        True
        """


class Reclaiming(ABC):
    """A store in which a writer that is killed may leave something behind."""

    @abstractmethod
    def leftovers(self, prefix: str = "") -> Iterator[str]:
        """Yield what dead writers left below `prefix`, by names that are no keys and that no listing shows.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or looking fails.
        """

    @abstractmethod
    def reclaim(self, prefix: str = "") -> int:
        """Remove the `leftovers` below `prefix`, and return how many there were.

        Raises
        ------
        StoreError, ReadOnlyError
            If `prefix` is not valid, looking fails, or the store is read-only.
        """


class BlockedKeys(ABC):
    """A store in which something that is no value can stand in the place of a key, such as a directory."""

    @abstractmethod
    def blocked_by(self, key: str) -> str | None:
        """Say what keeps a key without a value from counting as absent, or return ``None``.

        Raises
        ------
        StoreError
            If `key` is not valid.
        """


class EmptyDirectories(ABC):
    """A store whose prefixes are directories, which other programs may look for while they are empty."""

    @abstractmethod
    def make_prefix(self, prefix: str) -> None:
        """Make the directory of a prefix.

        It does not count as anything stored, and may be gone as soon as a key below it is deleted.

        Raises
        ------
        StoreError, ReadOnlyError
            If `prefix` is not valid, or the directory can't be made.
        """

    @abstractmethod
    def has_prefix(self, prefix: str) -> bool:
        """Return whether there is a directory of that prefix, even an empty one.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or looking fails.
        """


class Anchoring(ABC):
    """A store that can tie values to a document: once the document is gone, it makes no directories for them."""

    @abstractmethod
    def anchored(self, document: str) -> Self:
        """Return this store for writing values that belong to a document, such as the chunks of an array.

        Such values get no new directories once the document is gone: not the one that the document stood in, and
        none below it. So values that are written through an array that has been deleted or moved do not appear in its
        old place.

        Raises
        ------
        StoreError
            If `document` is not a valid key.
        """


class Renaming(ABC):
    """A store that can move all keys of a prefix in one step."""

    @abstractmethod
    def move_prefix(self, prefix: str, target: Writable, new: str) -> bool:
        """Move every key that starts with `prefix` to `new` in another store, if that can be done in one step.

        Parameters
        ----------
        prefix, new : str
            The prefix here, and the one there, below which nothing may be stored.
        target : Writable
            The store to move to; it may be this one.

        Returns
        -------
        bool
            Whether it was done. If not, nothing is changed; the keys can then be copied.

        Raises
        ------
        AlreadyExistsError
            If something is stored there.
        ReadOnlyError, StoreError
            If one of the stores can't be written.
        """


class UnreachableNames(ABC):
    """A store that may hold values under names that can't be keys, since other programs wrote them."""

    @abstractmethod
    def unreachable(self, prefix: str = "") -> Iterator[str]:
        """Yield the names below `prefix` under which something is stored that no key can stand for.

        Listings leave them out and nothing reads them; `tegula.check` reports them.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or looking fails.
        """


class Ranged(ABC):
    """A store that reads many ranges of one value in few requests, all of one and the same state."""

    @abstractmethod
    def get_ranges(
        self, key: str, ranges: Sequence[ByteRange], generation: Generation | None = None
    ) -> tuple[list[bytes] | None, Generation]:
        """Return several ranges of the value of `key`, and the generation that they all belong to.

        Parameters
        ----------
        key : str
            The key to read.
        ranges : sequence of (start, length)
            Bytes to read; what lies beyond the end is left out, as by `Store.get`. Ranges that stand close together
            are read with one request.
        generation : Generation, optional
            The state to read, as `Store.get` or this method returned it; without it, whatever state there is now.

        Returns
        -------
        list of bytes, or None
            The ranges, in order; ``None`` if there is no value.
        Generation
            The state that they were read from. Where `Store.get` has to read a whole value to tell its generation
            (`Readable.single_writer`), it may be another token, which this method and `unchanged` take.

        Raises
        ------
        ConflictError
            If the state is another one than `generation`, or changes during the operation.
        StoreError
            If the key or a range is not valid, or reading fails.

        Examples
        --------
        >>> from obstore.store import MemoryStore
        >>> from tegula.stores import ObjectStore
        >>> store = ObjectStore(MemoryStore())
        >>> generation = store.set("a", b"abcdef")
        >>> store.get_ranges("a", [(4, 9), (0, 2)], generation)[0]
        [b'ef', b'ab']
        """


class Revalidating(ABC):
    """A store that can say, with one request, whether a value is still the one that was read before."""

    @abstractmethod
    def get_if_changed(self, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
        """Return the value of `key` and its generation if that is another one than `generation`, else ``None``.

        Raises
        ------
        StoreError
            If the key is not valid, or reading fails.

        Examples
        --------
        >>> from obstore.store import MemoryStore
        >>> from tegula.stores import ObjectStore
        >>> store = ObjectStore(MemoryStore())
        >>> old = store.set("a", b"abc")
        >>> store.get_if_changed("a", old) is None
        True
        >>> new = store.set("a", b"xyz")
        >>> store.get_if_changed("a", old) == (b"xyz", new)
        True
        """


class SizedListing(ABC):
    """A store whose listings say how long each value is."""

    @abstractmethod
    def list_sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield every key that starts with `prefix`, and the length of its value in bytes, in no particular order.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or listing fails.

        Examples
        --------
        >>> from obstore.store import MemoryStore
        >>> from tegula.stores import ObjectStore
        >>> store = ObjectStore(MemoryStore())
        >>> generation = store.set("a/b", b"abc")
        >>> [*store.list_sizes("a/")]
        [('a/b', 3)]
        """


class Copying(ABC):
    """A store that copies values from stores of its kind by itself: their bytes do not pass through this process."""

    @abstractmethod
    def copies_from(self, source: object, *, create: bool = False) -> bool:
        """Return whether `copy_from` can be called with a store.

        Parameters
        ----------
        source : Store
            The store to copy from; it may be this one.
        create : bool
            Whether the copies must not replace anything. Finding out what the storage can do may take a few requests,
            once in a process.

        Raises
        ------
        StoreError
            If that can't be found out.
        """

    @abstractmethod
    def copy_from(
        self, source: Any, key: str, new: str, *, create: bool = False, nbytes: int | None = None
    ) -> int | None:
        """Store the value of `key` in another store under `new` in this one, in one step.

        Parameters
        ----------
        source : Store
            A store from which this one copies, as `copies_from` says.
        key, new : str
            The key there, and the one here.
        create : bool
            Store it only if `new` has no value.
        nbytes : int, optional
            The length of the value, if the caller knows it; that may save a request.

        Returns
        -------
        int or None
            The length of the value in bytes; ``None`` if `key` has none, and then nothing is changed.

        Raises
        ------
        ConflictError
            If `create` is true and `new` has a value, which is left intact.
        ReadOnlyError, StoreError
            If the value can't be read or stored; what `new` had is left intact.

        Examples
        --------
        >>> import obstore
        >>> from tegula.stores import ObjectStore
        >>> bucket = obstore.store.MemoryStore()
        >>> old, new = ObjectStore(bucket, "old"), ObjectStore(bucket, "new")
        >>> generation = old.set("a", b"abc")
        >>> new.copies_from(old), new.copy_from(old, "a", "b"), new.get("b")
        (True, 3, b'abc')
        """


def lock(store: object, key: str) -> AbstractContextManager[bool]:
    """Lock a key if the store has locks; see `Locking.lock`.

    Returns
    -------
    context manager of bool
        Whether the lock is held: never, if the store has none.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> with lock(MemoryStore(), "a") as held:
    ...     held
    False
    """
    return store.lock(key) if isinstance(store, Locking) else nullcontext(False)


def blocked_by(store: object, key: str) -> str | None:
    """Say what stands in the place of a key that has no value, or return ``None`` if nothing does, or nothing can.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> blocked_by(MemoryStore(), "c/0") is None
    True
    """
    return store.blocked_by(key) if isinstance(store, BlockedKeys) else None


def unchanged(store: Any, key: str, generation: Generation) -> bool:
    """Return whether a key still has a generation, without reading the value if the store can do that.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> unchanged(store, "a", store.set("a", b"1")), unchanged(store, "b", "absent")
    (True, True)
    """
    if store.single_writer and isinstance(store, Ranged):  # which may have other tokens for a state
        try:
            store.get_ranges(key, [], generation)
        except ConflictError:
            return False
        return True
    found: bool = store.get(key, (0, 0), with_generation=True)[1] == generation
    return found


def delete_if(store: Any, key: str, generation: Generation) -> None:
    """Delete a key on condition that its state is still `generation`.

    If the store has no `conditional_delete`, the state is compared first: a value that another writer stores between
    the two steps is deleted.

    Raises
    ------
    ConflictError
        If the state is another one; nothing is deleted.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> delete_if(store, "a", store.set("a", b"1"))
    >>> store.exists("a")
    False
    """
    if store.conditional_delete:
        store.delete(key, if_generation=generation)
        return
    if not unchanged(store, key, generation):
        raise ConflictError("the value has changed since it was read", key=key)
    store.delete(key)
