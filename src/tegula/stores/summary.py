"""Capabilities of a store, and what its conditional writes are worth, in one value for people to look at."""

from __future__ import annotations

from typing import Any, NamedTuple

from tegula.stores.capabilities import Locking, Ranged, Revalidating

__all__ = ["Capabilities", "capabilities_of"]


class Capabilities(NamedTuple):
    """Capabilities of a store, at a glance; ``store.capabilities`` returns it.

    Attributes
    ----------
    write, list : bool
        Whether values can be stored, and keys be listed.
    conditional_write : bool
        Whether a condition of ``set`` holds between all writers of the storage.
    conditional_delete : bool
        Whether ``delete`` takes a condition.
    fresh_generations : bool
        Whether each ``set`` gives a new generation, even if the bytes are the same.
    single_writer : bool
        Whether conditions hold between the threads of this process only.
    lock : bool
        Whether a writer can make others wait.
    ranges, revalidate : bool
        Whether ranges of one state, and a value that has changed, are read with one request.
    concurrency : int
        How many requests one operation has under way at once, 0 for as many as there are threads.
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
