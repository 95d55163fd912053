"""The store interface: keys to bytes, with byte ranges, listings and generations.

The operations are those of the abstract store interface of the Zarr v3 core specification ("stores"), plus
*generations*: opaque tokens, each for one state of one key. A conditional `Store.set` or `Store.delete` compares the
token and changes the value in one step, which is all that atomic read-modify-write needs on any kind of storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tegula.runtime.deferred import Later
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    check_key,
    check_prefix,
    clip_range,
    flat_view,
    is_key,
    split_children,
)
from tegula.stores.operations import Listable, Writable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tegula.stores import summary
    from tegula.stores.summary import Capabilities
else:
    summary = Later("tegula.stores.summary")

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


class Store(Writable, Listable):
    """Base class of all stores: five abstract operations and a name, from which the other operations are derived.

    The value of a missing key is ``None``, not an error. Every operation may be called from several threads at once.
    Each operation first checks its keys: a key is non-empty text without empty, ``.`` or ``..`` segments (so without a
    leading or trailing ``/``), NUL or lone surrogates; any other key raises `StoreError`. A prefix is ``""`` or a key
    followed by ``/``.

    For optional operations see `tegula.stores.capabilities`.

    Attributes
    ----------
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.
    concurrency : int
        How many requests one operation should have under way at once, for stores with a long latency; 0 for as many as
        there are worker threads.
    single_writer, conditional_delete, fresh_generations : bool
        What conditional writes guarantee; see `tegula.stores.operations.Writable`.

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

    @property
    def capabilities(self) -> Capabilities:
        """Summary of the capabilities of the store.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().capabilities.single_writer
        False
        """
        return summary.capabilities_of(self)

    def probe(self) -> Capabilities:
        """Find out what is not yet known about conditional writes, and return the capabilities.

        Examples
        --------
        >>> from tegula.stores import MappingStore
        >>> MappingStore({}).probe().single_writer
        True
        """
        return self.capabilities

    def stores_above(self) -> Iterator[tuple[Store, str]]:
        """Yield stores for reading over each directory above the root, the nearest first, and the root's path there.

        A store whose root is not in a file system or bucket has none.

        Examples
        --------
        >>> import tegula
        >>> [(above.url, path) for above, path in tegula.store_of("memory://bucket/a.zarr/0").stores_above()]
        [('memory:///bucket/a.zarr', '0'), ('memory:///bucket', 'a.zarr/0'), ('memory://', 'bucket/a.zarr/0')]
        """
        return iter(())

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`."""
        for key in [*self.list_prefix(prefix)]:
            self.delete(key)

    def flush(self) -> None:
        """Write out pending values; by default a store buffers nothing, and this does nothing.

        Examples
        --------
        >>> from tegula.stores import MemoryStore
        >>> MemoryStore().flush()
        """
        return

    def close(self) -> None:
        """Write out pending values and release resources; the store can't be used afterwards."""
        self.flush()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
