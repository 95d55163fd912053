"""Operations that every store has: reading, writing and listing, each kind of them in a class of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, overload

from tegula.stores.arguments import ByteRange, BytesLike, Generation, split_children

__all__ = ["Listable", "Readable", "Writable"]


class Readable(ABC):
    """Reading values: `get`, `size` and a name are implemented by each store, the rest is derived from them.

    Attributes
    ----------
    concurrency : int
        How many requests one operation should have under way at once, for stores where waiting takes longer than
        working; 0 for as many as there are threads to work with.
    """

    concurrency: int = 0

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
            Bytes to read; what lies beyond the end is left out, so the answer may be shorter or empty.
        with_generation : bool
            Return ``(value, generation)`` instead, both of one and the same state.

        Raises
        ------
        StoreError
            If the key is not valid or reading fails for any reason but the key's absence.
        """

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get` for each ``(key, byte_range)``, in order."""
        return [self.get(key, byte_range) for key, byte_range in requests]

    def view(self, key: str, *, with_generation: bool = False) -> Any:
        """Return the value of `key` or ``None``, as `get` does, but as any read-only buffer: that may save a copy."""
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
        """A name for messages, and what `tegula.open` would open it by where that is possible."""

    @property
    def identity(self) -> object:
        """Value that is equal for stores over the same storage, in which each key has the same value and generation.

        By default a store equals only itself. A store over lasting storage returns text, which, continued by ``/``
        and a key, says in every process where a value is. By returning one object (which must allow weak references),
        stores of one process say that they share storage. Caches identify stores by it, so it must never be the same
        for different storage: it includes the endpoint, and the account if names depend on it.
        """
        return self

    def generation_of(self, plain: Any) -> Generation:
        """Return the generation whose attribute ``plain`` is this value; without that attribute, it is the value."""
        found: Generation = plain
        return found


class Writable(ABC):
    """Storing and deleting values, on condition that nothing has changed if the caller asks for that.

    Attributes
    ----------
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.
    single_writer : bool
        Whether conditions hold between the threads of this process only, because the storage can't compare and store
        in one step. Then only one process may write to it at a time.
    conditional_delete : bool
        Whether `delete` takes a condition; if not, it raises `UnsupportedError` when one is given.
    fresh_generations : bool
        Whether each `set` gives a new generation, even if the bytes are the same. It does not where a generation is
        a hash of the value.
    """

    read_only: bool = False
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
            Write on condition that the stored value has this generation; `tegula.stores.ABSENT` if there must be none.
            Without it the value is written in any case.

        Returns
        -------
        generation
            A token for the new state; `fresh_generations` says whether it may return.

        Raises
        ------
        ConflictError
            If `if_generation` is given and the key's state is another one; nothing is changed.
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
    """Listing keys: `list_prefix` is implemented by each store, the rest is derived from it.

    Attributes
    ----------
    listable : bool
        Whether keys can be listed; if not, as on a web server, listing raises `UnsupportedError`.
    """

    listable: bool = True

    @abstractmethod
    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted.

        A store that can list one level should do so: unless it is overridden, all keys below `prefix` are listed.
        """
        return split_children(self.list_prefix(prefix), prefix)

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, the prefixes directly below `prefix` under which one of `names` has a value.

        Parameters
        ----------
        prefix : str
            ``""`` or a key followed by ``/``.
        names : sequence of str
            What follows the prefixes in question.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or listing or looking fails.

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
