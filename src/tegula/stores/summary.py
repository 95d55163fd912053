"""A summary of what a store can do and of what its conditional writes guarantee, for people to read."""

from __future__ import annotations

from typing import Any, NamedTuple

from tegula.stores.capabilities import Locking, Ranged, Revalidating

__all__ = ["Capabilities", "capabilities_of"]


class Capabilities(NamedTuple):
    """A summary of the capabilities of a store, returned by ``store.capabilities``.

    Attributes
    ----------
    write, list : bool
        Whether values can be stored, and keys can be listed.
    conditional_write : bool
        Whether a condition of ``set`` holds between all writers of the storage.
    conditional_delete : bool
        Whether ``delete`` supports a condition.
    fresh_generations : bool
        Whether each ``set`` gives a new generation, even if the bytes are the same.
    single_writer : bool
        Whether conditions hold only between the threads of this process.
    lock : bool
        Whether keys can be locked.
    ranges, revalidate : bool
        Whether ranges of one state are read together, and one request reads a value only if it has changed.
    concurrency : int
        How many requests one operation has under way at once; 0 for as many as there are worker threads.
    """

    write: bool
    list: bool
    conditional_write: bool
    conditional_delete: bool
    fresh_generations: bool
    single_writer: bool
    lock: bool
    ranges: bool
    revalidate: bool
    concurrency: int


def capabilities_of(store: Any) -> Capabilities:
    """Return what a store can do.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> capabilities_of(MemoryStore()).conditional_write
    True
    """
    return Capabilities(
        write=not store.read_only,
        list=store.listable,
        conditional_write=not (store.read_only or store.single_writer),
        conditional_delete=not store.read_only and store.conditional_delete,
        fresh_generations=store.fresh_generations,
        single_writer=store.single_writer,
        lock=isinstance(store, Locking),
        ranges=isinstance(store, Ranged),
        revalidate=isinstance(store, Revalidating),
        concurrency=store.concurrency,
    )
