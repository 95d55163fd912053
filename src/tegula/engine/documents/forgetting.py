"""All caches of this process: decoded chunks, indexes of shards, documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from tegula.engine.caches import document_cache, shard_indexes
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.engine.documents import unpickled
from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.states import REPLACEMENTS
from tegula.stores import Store

__all__ = ["forget", "forget_chunks", "forgets"]

P = ParamSpec("P")
Where = TypeVar("Where", Store, StoredArray)
T = TypeVar("T")


def forget(store: Store, name: str, *, documents: bool = True) -> None:
    """Remove a key, or all keys of a prefix, from all caches, since it has been written or deleted.

    Operations that change a store other than by `tegula.engine.write` call this after the change, and after an error
    that may have left part of the change done. A read that is under way at that time adds nothing to the caches.

    Parameters
    ----------
    store : Store
        The store that has been changed.
    name : str
        A key, or a prefix that ends in ``/`` or is empty.
    documents : bool
        Whether to forget documents as well.
    """
    forget_chunks(store, name)
    if unpickled.KNOWN:
        unpickled.forget_unpickled(store, name)
    if documents and store.is_remote:
        document_cache.forget(store, name)


def forget_chunks(store: Store, name: str) -> None:
    """Do what `forget` does for the key of a chunk, or a prefix below which only chunks have changed."""
    # each append forgets several keys, and most programs have nothing in these caches
    if CHUNKS.budget:
        CHUNKS.forget(store, name)
    if shard_indexes.KEPT.entries:
        shard_indexes.forget(store, name)


def forgets(act: Callable[Concatenate[Where, str, P], T]) -> Callable[Concatenate[Where, str, P], T]:
    """Decorate a function that creates or deletes a node, so that it removes the previous node from all caches.

    Its first arguments are the store, or the stored array, and the path of the node.
    """

    @wraps(act)
    def acting(where: Where, path: str, /, *args: P.args, **options: P.kwargs) -> T:
        store, prefix = where.store if isinstance(where, StoredArray) else where, f"{path}/" if path else ""
        REPLACEMENTS.add(store, prefix)
        try:
            return act(where, path, *args, **options)
        finally:
            forget(store, prefix)

    return acting
