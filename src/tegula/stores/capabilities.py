"""Capabilities: optional operations that only some stores have, each kind in a small class of its own.

Every `tegula.stores.Store` reads, writes and lists (`tegula.stores.operations`). A store declares a capability by
inheriting from its class. The engine tests for it with ``isinstance``, or calls `lock`, `blocked_by`, `unchanged` or
`delete_if`, which work with every store. `tegula.stores.summary` has all capabilities of a store in one value.

====================  ===================================  ========================
capability            operations                           stores that have it
====================  ===================================  ========================
`Locking`             `lock`                               local files, mappings
`Reclaiming`          `leftovers`, `reclaim`               local files
`BlockedKeys`         `blocked_by`, `blockers`             local files, fsspec, drafts
`EmptyDirectories`    `make_prefix`, `has_prefix`          local files
`Anchoring`           `anchored`                           local files
`Renaming`            `move_prefix`, `beside`              local files
`Pinning`             `pin`                                local files
`UnreachableNames`    `unreachable`                        zip archives
`Exclusive`           `end`                                zip archives
`Ranged`              `get_ranges`                         object storage, fsspec
`Revalidating`        `get_if_changed`                     object storage
`SizedListing`        `list_sizes`                         object storage
`StateListing`        `list_states`, `state_of`            local files, memory, buckets
`Copying`             `copies_from`, `copy_from`           local files, buckets
`Translating`         `stored_key`, `source`, `whole`      drafts of Zarr v3
====================  ===================================  ========================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

from tegula.errors import ConflictError
from tegula.stores.arguments import ByteRange, Generation, changed, check_prefix, state_of_bytes
from tegula.stores.operations import Writable

__all__ = [
    "Anchoring",
    "Beside",
    "BlockedKeys",
    "Copying",
    "EmptyDirectories",
    "Exclusive",
    "Locking",
    "Pinning",
    "Ranged",
    "Reclaiming",
    "Renaming",
    "Revalidating",
    "SizedListing",
    "StateListing",
    "Translating",
    "UnreachableNames",
    "blocked_by",
    "delete_if",
    "is_link",
    "lock",
    "state_in",
    "stored_key",
    "unchanged",
]


class Locking(ABC):
    """A store with locks, by which a writer makes other writers wait."""

    @abstractmethod
    def lock(self, key: str) -> AbstractContextManager[bool]:
        """Wait until no other writer holds the lock of `key`, and hold it while the context lasts.

        The lock keeps writers whose operations take several steps from repeatedly making each other start again. It is
        advisory: `set` and `delete` ignore it. It ends when its holder does, and when the key gets another value.

        Returns
        -------
        context manager of bool
            Whether the lock is held. If not (a file that does not exist can't be locked), several writers may work at
            once, and only the conditions of their writes protect them from each other.

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
    """A store in which a writer that is killed may leave data that is not under any key."""

    @abstractmethod
    def leftovers(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of what killed writers left below `prefix`; they are not keys, and no listing shows them.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or the search fails.
        """

    @abstractmethod
    def reclaim(self, prefix: str = "") -> int:
        """Remove the `leftovers` below `prefix`, and return how many there were.

        Raises
        ------
        StoreError, ReadOnlyError
            If `prefix` is not valid, the search fails, or the store is read-only.
        """


class BlockedKeys(ABC):
    """A store in which something other than a value, such as a directory, can be in the place of a key."""

    @abstractmethod
    def blocked_by(self, key: str) -> str | None:
        """Describe what is in the place of a key that has no value, or return ``None`` if the key is simply absent.

        Raises
        ------
        StoreError
            If `key` is not valid.
        """

    def blockers(self, prefix: str) -> Iterator[str]:
        """Yield the names below `prefix` that no listing of keys shows, such as directories that hold no key.

        The store need not know of them; `blocked_by` does.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or the listing fails.
        """
        check_prefix(prefix)
        return iter(())


class EmptyDirectories(ABC):
    """A store whose prefixes are directories, which other programs may expect to exist even while they are empty."""

    @abstractmethod
    def make_prefix(self, prefix: str) -> None:
        """Make the directory of a prefix.

        An empty directory is not a stored value, and may be removed when a key below it is deleted.

        Raises
        ------
        StoreError, ReadOnlyError
            If `prefix` is not valid, or the directory can't be made.
        """

    @abstractmethod
    def has_prefix(self, prefix: str) -> bool:
        """Return whether a prefix has a directory, even an empty one.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or the lookup fails.
        """

    def is_link(self, prefix: str) -> bool:
        """Return whether the directory of a prefix is a symbolic link, whose target belongs to another place.

        Raises
        ------
        StoreError
            If `prefix` is not valid.
        """
        return False


class Anchoring(ABC):
    """A store that can tie values to a document: once the document is deleted, it makes no directories for them."""

    @abstractmethod
    def anchored(self, document: str) -> Self:
        """Return this store for writing values that belong to a document, such as the chunks of an array.

        Once the document is deleted, writing such a value makes no directory: neither that of the document nor one
        below it. So values written through an array that has been deleted or moved do not appear in its old place.

        Raises
        ------
        StoreError
            If `document` is not a valid key.
        """


class Pinning(ABC):
    """A store whose prefixes are directories, which an operation can open and stay in."""

    @abstractmethod
    def pin(self, prefix: str) -> AbstractContextManager[Any]:
        """Return a context whose value is a view of this store, for keys that begin with `prefix`.

        While the context lasts, the view reads and writes in the directory that the prefix has now, even if it is
        renamed or another one takes its place. The value is this store itself where that is not possible. Without a
        directory the context raises `FileNotFoundError`.

        Examples
        --------
        >>> import os, tempfile
        >>> from tegula.stores import LocalStore
        >>> with tempfile.TemporaryDirectory() as root:
        ...     store = LocalStore(root)
        ...     generation = store.set("a/x", b"1")
        ...     with store.pin("a/") as view:
        ...         os.rename(f"{root}/a", f"{root}/b")
        ...         store.get("a/x"), view.get("a/x") if view is not store else b"1"
        (None, b'1')
        """


class Renaming(ABC):
    """A store that can move all keys of a prefix in one step."""

    @abstractmethod
    def move_prefix(self, prefix: str, target: Writable, new: str) -> bool:
        """Move every key that starts with `prefix` to `new` in another store, if that can be done in one step.

        Parameters
        ----------
        prefix, new : str
            The prefix in this store, and the one in `target`, below which nothing may be stored.
        target : Writable
            The store to move to; it may be this one.

        Returns
        -------
        bool
            Whether the keys were moved. If not, nothing is changed, and the caller can copy them instead.

        Raises
        ------
        AlreadyExistsError
            If `target` has keys below `new`.
        ReadOnlyError, StoreError
            If one of the stores can't be written.
        """

    def beside(self, prefix: str) -> AbstractContextManager[Beside | None]:
        """Make an empty store beside a prefix, for keys that will take the place of those below the prefix.

        When the context ends, what is in that store is removed: the new keys, or the old ones after an exchange.

        Returns
        -------
        context manager of Beside or None
            The store, and the operation that exchanges it with the prefix; ``None`` if this store has no such place.

        Raises
        ------
        ReadOnlyError, StoreError
            If the store can't be written.
        """
        return nullcontext(None)


class Beside(ABC):
    """A hidden store beside a prefix of another store; see `Renaming.beside`.

    Attributes
    ----------
    store : Store
        The hidden store.
    in_one_step : bool
        Whether `exchange` can be expected to work.
    """

    store: Any
    in_one_step: bool

    @abstractmethod
    def exchange(self) -> bool:
        """Exchange all keys of the hidden store with all keys below the prefix, in one step.

        Returns
        -------
        bool
            Whether that was done. If not, nothing is changed, and the caller can copy the keys instead.

        Raises
        ------
        StoreError
            If it fails.
        """

    @abstractmethod
    def close(self) -> None:
        """Remove what is in the hidden store: for a pickled copy, which leaves no context."""

    @abstractmethod
    def prefixes(self) -> Iterator[str]:
        """Yield every prefix of the hidden store that has a directory, even an empty one."""


class UnreachableNames(ABC):
    """A store in which other programs may have stored values under names that are not valid keys."""

    @abstractmethod
    def unreachable(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of values below `prefix` that no key can refer to.

        Listings leave them out and nothing reads them; `tegula.check` reports them.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or the search fails.
        """


class Exclusive(ABC):
    """A store that keeps other writers out as long as it is open."""

    @abstractmethod
    def end(self, *, remove_empty: bool) -> None:
        """Close the store; with `remove_empty`, delete what holds the values if nothing was stored in it.

        Raises
        ------
        StoreError
            If pending values can't be written; the store then stays open.
        """


class Ranged(ABC):
    """A store that reads many ranges of one value in few requests, all from the same state of the value."""

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
            Bytes to read; bytes beyond the end of the value are left out, as by `Store.get`. Ranges that lie close
            together are read with one request.
        generation : Generation, optional
            The state to read, as `Store.get` or this method returned it; by default the present one.

        Returns
        -------
        list of bytes, or None
            The ranges, in order; ``None`` if there is no value.
        Generation
            The state that they were read from. Where `Store.get` has to read a whole value to tell its generation
            (`Readable.single_writer`), this may be another token, which only this method and `unchanged` accept.

        Raises
        ------
        ConflictError
            If the state is not `generation`, or changes during the operation.
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
    """A store that can tell with one request whether a value has changed since it was read."""

    @abstractmethod
    def get_if_changed(self, key: str, generation: Generation) -> tuple[bytes | None, Generation] | None:
        """Return the value of `key` and its generation if that is no longer `generation`, else ``None``.

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


class Translating(ABC):
    """Stores that show values of another store under other keys."""

    @abstractmethod
    def stored_key(self, key: str) -> str:
        """Return the key that the other store has for a value; `key` itself if there is none, or if it is that key."""

    @abstractmethod
    def source(self, path: str) -> tuple[Any, str]:
        """Return a store that holds the node at a path as it is stored, and its path there, to copy it."""

    @property
    @abstractmethod
    def whole(self) -> tuple[Any, str]:
        """The other store, and the path there below which all that is shown lies."""


def stored_key(store: Any, key: str) -> str:
    """Return the key under which a value is stored, if a store shows values of another one; otherwise `key`."""
    return store.stored_key(key) if isinstance(store, Translating) else key


class SizedListing(ABC):
    """A store whose listings include the length of each value."""

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


class StateListing(ABC):
    """A store whose listings tell the states of values, so that changes are found without a request for each value."""

    @abstractmethod
    def list_states(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        """Yield every key that starts with `prefix`, the length of its value, and its state, in no particular order.

        A state is a whole number below 2**64, which every process computes alike: another one if the generation is
        another one, and 0 if the storage does not tell.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or listing fails.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> store = MemoryStore()
        >>> generation = store.set("a/b", b"abc")
        >>> [(key, nbytes, state == store.state_of(generation)) for key, nbytes, state in store.list_states("a/")]
        [('a/b', 3, True)]
        """

    @abstractmethod
    def state_of(self, generation: Generation) -> int:
        """Return the state in listings of a value that has this generation."""


class Copying(ABC):
    """A store that copies values from stores of its kind without passing their bytes through this process."""

    @abstractmethod
    def copies_from(self, source: object, *, create: bool = False) -> bool:
        """Return whether `copy_from` can copy from a store.

        Parameters
        ----------
        source : Store
            The store to copy from; it may be this one.
        create : bool
            Whether the copies must not replace existing values. Finding out whether the storage supports that may take
            a few requests, once in a process.

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
            The key in `source`, and the one in this store.
        create : bool
            Copy only if `new` has no value.
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
            If the value can't be read or stored; the old value of `new` is left intact.

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
    """Describe what is in the place of a key that has no value; see `BlockedKeys.blocked_by`.

    Returns ``None`` for other stores.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> blocked_by(MemoryStore(), "c/0") is None
    True
    """
    return store.blocked_by(key) if isinstance(store, BlockedKeys) else None


def is_link(store: Any, prefix: str) -> bool:
    """Return whether the directory of a prefix is a symbolic link; see `EmptyDirectories.is_link`.

    Returns ``False`` for other stores.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> is_link(MemoryStore(), "c/")
    False
    """
    return isinstance(store, EmptyDirectories) and store.is_link(prefix)


def state_in(store: Any, key: str) -> tuple[int, int] | None:
    """Return the length and the state of a value, as `StateListing.list_states` would; ``None`` if there is none.

    Stores without `StateListing` are asked for the value, whose digest is its state.

    Examples
    --------
    >>> from tegula.stores import MappingStore, MemoryStore
    >>> store = MemoryStore({"a": b"1"})
    >>> (("a", *state_in(store, "a")),) == (*store.list_states(""),), state_in(MappingStore({}), "a") is None
    (True, True)
    """
    lists_states: bool = isinstance(store, StateListing)
    if lists_states and (not store.single_writer or store.is_remote):
        value, generation = store.get(key, (0, 0), with_generation=True)
        nbytes = None if value is None else store.size(key)
        return None if nbytes is None else (nbytes, store.state_of(generation))
    data = store.get(key)
    return None if data is None else (len(data), state_of_bytes(data))


def unchanged(store: Any, key: str, generation: Generation) -> bool:
    """Return whether a key still has a given generation, without reading the value if the store can do that.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> unchanged(store, "a", store.set("a", b"1")), unchanged(store, "b", "absent")
    (True, True)
    """
    if store.single_writer and isinstance(store, Ranged):  # its `get_ranges` may return other tokens
        try:
            store.get_ranges(key, [], generation)
        except ConflictError:
            return False
        return True
    found: bool = store.get(key, (0, 0), with_generation=True)[1] == generation
    return found


def delete_if(store: Any, key: str, generation: Generation) -> None:
    """Delete a key on condition that its generation is still `generation`.

    If the store has no `conditional_delete`, the generation is compared first, and the key is deleted in a second step:
    a value that another writer stores between the two steps is deleted.

    Raises
    ------
    ConflictError
        If the generation is another one; nothing is deleted.

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
        raise changed(key)
    store.delete(key)
