"""What a store is: keys to bytes, with byte ranges, listings and generations.

The operations are those of the abstract store interface of the Zarr v3 core specification ("stores"), plus
*generations*: an opaque token for one state of one key. A conditional `Store.set` or `Store.delete` compares the token
and acts in one step, which is all that atomic read-modify-write needs, on any kind of storage.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import index
from typing import Any, Final, Literal, TypeAlias, overload

from tegula.errors import StoreError

__all__ = [
    "ABSENT",
    "ByteRange",
    "BytesLike",
    "Generation",
    "Store",
    "check_key",
    "check_prefix",
    "clip_range",
    "flat_view",
    "is_key",
    "split_children",
]

Generation: TypeAlias = Hashable
"""Token for one state of one key; compare it with ``==`` only."""

ABSENT: Final[Generation] = "absent"
"""The generation of a key that has no value."""

ByteRange: TypeAlias = tuple[int, int | None]
"""``(start, length)``; a length of ``None`` runs to the end, and a negative start counts from the end (a suffix)."""

BytesLike: TypeAlias = Any
"""Anything with a contiguous buffer: ``bytes``, ``bytearray``, ``memoryview``, a C-contiguous ``ndarray``."""

_SEGMENT = r"(?!\.\.?(?:/|\Z))[^/\0\ud800-\udfff]+"
_VALID_KEY = re.compile(f"{_SEGMENT}(?:/{_SEGMENT})*").fullmatch


class Store(ABC):
    """Base class of all stores: seven abstract operations, the rest derived from them.

    A missing key is ``None``, not an error. Every operation may be called from several threads at once. Keys are
    checked at the door of each operation: non-empty text without empty, ``.`` or ``..`` segments (so no leading or
    trailing ``/`` either), NUL or lone surrogates; anything else raises `StoreError`. A prefix is ``""`` or a key
    followed by ``/``.

    Attributes
    ----------
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.
    concurrency : int
        How many requests one operation should have under way at once, for stores where waiting takes longer than
        working; 0 for as many as there are threads to work with.

    Examples
    --------
    >>> from tegula.stores import MemoryStore, Store
    >>> store = MemoryStore()
    >>> isinstance(store, Store)
    True
    >>> old = store.set("a", b"1")
    >>> new = store.set("a", b"2", if_generation=old)
    >>> store.set("a", b"3", if_generation=old)
    Traceback (most recent call last):
    ...
    tegula.errors.ConflictError: the value has changed since it was read (key 'a')
    """

    read_only: bool = False
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

    @abstractmethod
    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation.

        Raises
        ------
        ConflictError
            If `if_generation` is given and the key's state is another one; nothing is changed.
        ReadOnlyError, StoreError
            If the store can't be written; the old value is left intact.
        """

    @abstractmethod
    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""

    @abstractmethod
    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""

    @abstractmethod
    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, those prefixes directly below `prefix` under which one of `names` has a value.

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

    @abstractmethod
    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""

    @property
    @abstractmethod
    def url(self) -> str:
        """A name for messages, and what `tegula.open` would open it by where that is possible."""

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get` for each ``(key, byte_range)``, in order."""
        return [self.get(key, byte_range) for key, byte_range in requests]

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value."""
        return self.size(key) is not None

    def list(self) -> Iterator[str]:
        """Yield every key, in no particular order."""
        return self.list_prefix("")

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`."""
        for key in [*self.list_prefix(prefix)]:
            self.delete(key)

    def move_prefix(self, prefix: str, target: Store, new: str) -> bool:
        """Move every key that starts with `prefix` to `new` in another store, if that can be done in one step.

        Parameters
        ----------
        prefix, new : str
            The prefix here, and the one there, below which nothing may be stored.
        target : Store
            The store to move to; it may be this one.

        Returns
        -------
        bool
            Whether it was done. A store that can't, as this one, changes nothing; the keys can then be copied.

        Raises
        ------
        AlreadyExistsError
            If something is stored there.
        ReadOnlyError, StoreError
            If one of the stores can't be written.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> store = MemoryStore({"a/x": b"1"})
        >>> store.move_prefix("a/", store, "b/")
        False
        """
        check_prefix(prefix)
        check_prefix(new)
        return False

    def obstruction(self, key: str) -> str | None:
        """Say what keeps a key without a value from counting as absent (a directory of that name, say), or ``None``."""
        check_key(key)
        return None

    def make_prefix(self, prefix: str) -> None:
        """Make the directory of a prefix, where there is such a thing, for programs that look for it while it is empty.

        It does not count as anything stored, and may be gone as soon as a key below it is deleted.
        """
        check_prefix(prefix)

    def anchored(self, document: str) -> Store:
        """Return this store for writing values that belong to a document, such as the chunks of an array.

        Where a store has directories, it makes none for such values once the document is gone: not the one that the
        document stood in, and none below it. So what is written through an array that has been deleted or moved does
        not appear at its old place. A store without directories returns itself.

        Raises
        ------
        StoreError
            If `document` is not a valid key.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> store = MemoryStore()
        >>> store.anchored("a/zarr.json") is store
        True
        """
        check_key(document)
        return self

    def has_prefix(self, prefix: str) -> bool:
        """Return whether `make_prefix` has nothing to do: always, where there is no such thing as a directory.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or looking fails.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().has_prefix("a/")
        True
        """
        check_prefix(prefix)
        return True

    def leftovers(self, prefix: str = "") -> Iterator[str]:
        """Yield what writers that have died left below `prefix`, which no key stands for; here there is nothing.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or looking fails.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> [*MemoryStore().leftovers()]
        []
        """
        check_prefix(prefix)
        return iter(())

    def reclaim(self, prefix: str = "") -> int:
        """Remove the `leftovers` below `prefix`, and return how many there were.

        Raises
        ------
        StoreError, ReadOnlyError
            If `prefix` is not valid, looking fails, or the store is read-only and may have some.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().reclaim()
        0
        """
        check_prefix(prefix)
        return 0

    def unreachable(self, prefix: str = "") -> Iterator[str]:
        """Yield the names below `prefix` under which something is stored that no key can stand for.

        Listings leave them out and nothing reads them; `tegula.check` reports them.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or looking fails.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> [*MemoryStore().unreachable()]
        []
        """
        check_prefix(prefix)
        return iter(())

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """Wait until nobody else has a turn at `key`, and keep others waiting while it lasts.

        It is for those who do several steps, so that they do not get into each other's way again and again. A store
        that has no means to make others wait, as this one, says so: then several have their turn at once, and only
        generations keep them apart, which must then be new with each `set`, of the same bytes too. The turn is over
        when the key gets another value.

        Returns
        -------
        context manager of bool
            Whether nobody else has a turn.
        """
        check_key(key)
        return nullcontext(False)

    def flush(self) -> None:
        """Write out what is pending; a store that keeps nothing back, as this one, does nothing.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().flush()
        """
        return

    def close(self) -> None:
        """Write out what is pending and release what is held; the store can't be used afterwards."""
        self.flush()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def check_key(key: str) -> str:
    """Return `key` if it is valid, and raise `StoreError` if not.

    Examples
    --------
    >>> check_key("c/0/1")
    'c/0/1'
    >>> check_key("a//b")
    Traceback (most recent call last):
    ...
    tegula.errors.StoreError: a key can't have an empty, '.' or '..' segment (key 'a//b')
    """
    if not isinstance(key, str):
        raise StoreError(f"a key must be text, not {type(key).__name__}")
    if _VALID_KEY(key):
        return key
    if any(segment in ("", ".", "..") for segment in key.split("/")):
        raise StoreError("a key can't have an empty, '.' or '..' segment", key=key)
    raise StoreError("a key can't contain NUL or a lone surrogate", key=key)


def is_key(name: object) -> bool:
    """Return whether `name` is a valid key; stores leave out of their listings what is not.

    Examples
    --------
    >>> is_key("c/0"), is_key("c//0"), is_key(b"c")
    (True, False, False)
    """
    return isinstance(name, str) and _VALID_KEY(name) is not None


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it is ``""`` or a valid key followed by ``/``, and raise `StoreError` if not."""
    if prefix == "":
        return prefix
    if not isinstance(prefix, str) or not prefix.endswith("/"):
        hint = f", as {prefix!r:.80} with '/' behind it does" if isinstance(prefix, str) else ""
        raise StoreError(f"a prefix must be empty or end in '/'{hint}", key=prefix)
    check_key(prefix[:-1])
    return prefix


def clip_range(byte_range: ByteRange, size: int) -> tuple[int, int]:
    """Return the start and stop of `byte_range` in a value of `size` bytes.

    Examples
    --------
    >>> clip_range((4, 10), 6), clip_range((-4, None), 6), clip_range((-9, 2), 6), clip_range((9, 1), 6)
    ((4, 6), (2, 6), (0, 2), (6, 6))
    """
    try:
        start, length = byte_range
        if length is not None and length < 0:
            raise StoreError(f"a byte range can't have the length {length}")
        start, length = index(start), None if length is None else index(length)
    except (TypeError, ValueError) as error:
        raise StoreError(f"a byte range is (start, length), not {byte_range!r:.60}") from error
    start = max(0, size + start) if start < 0 else min(start, size)
    return start, size if length is None else min(size, start + length)


def flat_view(value: BytesLike, key: str) -> memoryview:
    """Return the bytes of `value` as a one-dimensional view, without copying where the buffer's format allows it.

    Raises
    ------
    StoreError
        If `value` is not bytes-like or not C-contiguous.

    Examples
    --------
    >>> bytes(flat_view(bytearray(b"abc"), "c/0"))
    b'abc'
    """
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError) as error:
        raise StoreError(f"a value must be bytes-like, not {type(value).__name__}", key=key) from error
    if not view.c_contiguous:
        raise StoreError("a value must be C-contiguous", key=key)
    if view.nbytes == 0:
        return memoryview(b"")
    try:
        return view.cast("B")
    except (TypeError, ValueError):  # a format that memoryview can't cast: big-endian or structured items
        return memoryview(view.tobytes())


def split_children(keys: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """Return what stands directly below `prefix` among `keys`, as `Store.list_dir` does.

    Examples
    --------
    >>> split_children(["a/x", "a/b/c", "a/b/d", "z"], "a/")
    (['a/x'], ['a/b/'])
    """
    below = len(prefix)
    children, prefixes = set(), set()
    for key in keys:
        if key.startswith(prefix):
            end = key.find("/", below)
            if end < 0:
                children.add(key)
            else:
                prefixes.add(key[: end + 1])
    return sorted(children), sorted(prefixes)
