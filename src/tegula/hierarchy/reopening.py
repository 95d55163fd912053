"""Groups in another process: as they were when they were pickled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from tegula import engine
from tegula.errors import NotFoundError
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store

__all__ = ["unpickled"]

T = TypeVar("T")


def unpickled(
    cls: Callable[..., T],
    store: Store,
    path: str,
    format: str,
    mark: bytes,
    read_only: bool,
    allow_pickle: bool,
    missing_chunks: str | None,
    owner: str | None,
) -> T:
    """Return an unpickled group; its members are taken from consolidated metadata if they were before.

    Raises
    ------
    NotFoundError
        If the group no longer exists.
    """
    metadata = engine.read_unpickled(store, path, format, mark)
    metadata = metadata or engine.implicit_group(store, path, format, deep=True)
    if not isinstance(metadata, GroupMetadata):
        raise NotFoundError("the group no longer exists", path=path or store.url)
    group: Any = cls(store, path, metadata, read_only=read_only, allow_pickle=allow_pickle)
    group.missing_chunks = missing_chunks
    if owner == path:
        return cast(T, group.with_consolidated())
    if owner is not None:  # the group above whose consolidated metadata describes this one
        above: Any = unpickled(cls, store, owner, format, b"", read_only, allow_pickle, missing_chunks, owner)
        group._members.known, group._members.copy = above._members.known, above._members.copy
    return cast(T, group)
