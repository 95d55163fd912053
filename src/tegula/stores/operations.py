"""Operations that every store has: reading, writing and listing, each kind in a class of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, overload

from tegula.stores.arguments import ByteRange, BytesLike, Generation, split_children

__all__ = ["Listable", "Readable", "Writable"]


class Readable(ABC):
    """Reading values: a store implements `get`, `size` and `url`, from which the other operations are derived.

    Attributes
    ----------
    concurrency : int
        How many requests one operation should have under way at once, for stores with a long latency; 0 for as many as
        there are worker threads.
    changes : object
        A token that is another one after each change of a value, in stores which only this process can change; ``None``
        in all others.
    keeps_values : bool
        Whether values that were read before are returned without asking the storage whether they have changed.
    local_directory : str, optional
        The local directory whose files are the values, if it is one.
    plain_files : LocalStore, optional
        The store itself if the kernel may read and write its values, which are files of `local_directory`.
    scratch_directory : str, optional
        A local directory on the disk of the values, in which temporary files can be made.
    values_url : str, optional
        The URL, with a slash at the end, to which other programs add a key to read its value.
    in_memory, in_archive : bool
        Whether values are gone with the process, or are put into one file when the store is flushed.
    shared_storage : (object, str), optional
        An object that is equal for stores over the same storage, and the text before each key in it, if the `identity`
        is no text.
    """

    concurrency: int = 0
    changes: Any = None
    keeps_values: bool = False
    local_directory: str | None = None
    plain_files: Any = None
    scratch_directory: str | None = None
    values_url: str | None = None
    in_memory: bool = False
    in_archive: bool = False
    shared_storage: tuple[object, str] | None = None

    @property
    def is_remote(self) -> bool:
        """Whether a request takes long, so that an operation sends as many at once as `concurrency` says.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().is_remote
        False
        """
        return self.concurrency > 0

    @property
    def is_private(self) -> bool:
        """Whether a copy of the store in another process has values of its own, so that what it writes is lost.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().is_private
        True
        """
        return self.in_memory

    @overload
    def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None: ...
    @overload
    def get(
        self, key: str, byte_range: ByteRange | None = None, *, with_generation: Literal[True]
    ) -> tuple[bytes | None, Generation]: ...
    @abstractmethod
    def get(
        self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False
    ) -> bytes | tuple[bytes | None, Generation] | None:
        """Return the value of `key`, or a range of it, or ``None`` if there is none.

        Parameters
        ----------
        key : str
            The key to read.
        byte_range : (start, length), optional
            Bytes to read; bytes beyond the end are left out, so the result may be shorter or empty.
        with_generation : bool
            Whether to return ``(value, generation)``, both of the same state.

        Raises
        ------
        StoreError
            If the key is not valid, or reading fails for any other reason than a missing key.
        """

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the results of `get` for each ``(key, byte_range)``, in order."""
        return [self.get(key, byte_range) for key, byte_range in requests]

    def view(self, key: str, *, with_generation: bool = False) -> Any:
        """Return the value of `key` or ``None``, as `get` does, but as any read-only buffer, which may save a copy."""
        return self.get(key, with_generation=True) if with_generation else self.get(key)

    @abstractmethod
    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        return self.size(key) is not None

    @property
    @abstractmethod
    def url(self) -> str:
        """A name for messages; the URL for `tegula.open`, if the store can be opened by URL."""

    @property
    def identity(self) -> object:
        """Value that is equal for stores over the same storage, in which each key has the same value and generation.

        By default the store itself. A store over persistent storage returns text; followed by ``/`` and a key, it
        locates a value in every process. Stores that share storage within one process return the same object, which
        must support weak references. Caches identify stores by this value, so it must never be the same for different
        storage: it includes the endpoint, and the account if names depend on it.
        """
        return self

    def generation_of(self, plain: Any) -> Generation:
        """Return the generation whose attribute ``plain`` has this value; the value itself, if generations lack it."""
        found: Generation = plain
        return found


class Writable(ABC):
    """Storing and deleting values, optionally on condition that they have not changed.

    Attributes
    ----------
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.
    why_read_only : str
        Why the values can't be changed in any mode, as the end of a sentence; ``""`` if that depends on the mode.
    single_writer : bool
        Whether conditions hold only between the threads of this process, because the storage can't compare and store
        in one step. Only one process at a time may then write to it.
    conditional_delete : bool
        Whether `delete` supports a condition; if not, it raises `UnsupportedError` when one is given.
    fresh_generations : bool
        Whether each `set` gives a new generation, even if the bytes are the same; false if a generation is a hash of
        the value.
    """

    read_only: bool = False
    why_read_only: str = ""
    single_writer: bool = False
    conditional_delete: bool = True
    fresh_generations: bool = True

    @abstractmethod
    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation.

        Parameters
        ----------
        key : str
            The key to write.
        value : bytes-like
            The new value.
        if_generation : generation, optional
            Write on condition that the stored value has this generation; `tegula.stores.ABSENT` if there must be no
            value. By default the value is written unconditionally.

        Returns
        -------
        generation
            A token for the new state; `fresh_generations` says whether it may recur.

        Raises
        ------
        ConflictError
            If `if_generation` is given and the key has another generation; nothing is changed.
        ReadOnlyError, StoreError
            If the store can't be written; the old value is left intact.
        """

    @abstractmethod
    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists.

        Parameters
        ----------
        key : str
            The key to remove.
        if_generation : generation, optional
            Remove it on condition that the stored value has this generation.

        Raises
        ------
        ConflictError, ReadOnlyError, StoreError
            As for `set`.
        UnsupportedError
            If `if_generation` is given and the store has no `conditional_delete`; nothing is changed.
        """


class Listable(Readable):
    """Listing keys: a store implements `list_prefix`, from which the other operations are derived.

    Attributes
    ----------
    listable : bool
        Whether keys can be listed; if not, as on a web server, listing raises `UnsupportedError`.
    visits_all_keys : bool
        Whether listing any prefix visits all keys of the store, so that looking up a few keys costs less.
    """

    listable: bool = True
    visits_all_keys: bool = False

    @abstractmethod
    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted.

        The default lists all keys below `prefix`; a store that can list a single level should override it.
        """
        return split_children(self.list_prefix(prefix), prefix)

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, the prefixes directly below `prefix` under which one of `names` has a value.

        Parameters
        ----------
        prefix : str
            ``""`` or a key followed by ``/``.
        names : sequence of str
            Keys relative to each prefix.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or a listing or lookup fails.

        Examples
        --------
        >>> from tegula.stores import MappingStore
        >>> store = MappingStore({"a/x": b"", "b/y": b"", "c/d/x": b"", "x": b""})
        >>> list(store.prefixes_with("", ["x"]))
        ['a/']
        """
        return (child for child in self.list_dir(prefix)[1] if any(self.exists(child + name) for name in names))

    def list(self) -> Iterator[str]:
        """Yield every key, in no particular order."""
        return self.list_prefix("")
