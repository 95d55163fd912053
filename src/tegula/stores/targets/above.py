"""Stores over the directories above the root of a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tegula import stores
from tegula.stores.local.store import LocalStore
from tegula.stores.wrapping import WrappingStore

if TYPE_CHECKING:
    from tegula.stores.interface import Store

__all__ = ["stores_above"]


def stores_above(store: Store) -> Iterator[tuple[Store, str]]:
    """Yield stores for reading over each directory above a store's root, the nearest first, and the root's path there.

    None of a store of another kind than files and object storage.

    Examples
    --------
    >>> import tegula
    >>> [(above.url, path) for above, path in stores_above(tegula.store_of("memory://bucket/image.zarr/0"))]
    [('memory:///bucket/image.zarr', '0'), ('memory:///bucket', 'image.zarr/0'), ('memory://', 'bucket/image.zarr/0')]
    """
    while isinstance(store, WrappingStore):
        store = store.store
    if store.local_directory is not None:
        drive, *parts = os.path.realpath(store.local_directory).replace(os.sep, "/").split("/")
        anchor = f"{drive}/"
    elif isinstance(store, stores.FsspecStore):
        anchor, parts = ("/" if store.root.startswith("/") else ""), store.root.strip("/").split("/")
    elif isinstance(store, stores.ObjectStore):
        anchor, parts = "", store.prefix.strip("/").split("/")
    else:
        return
    for depth in reversed(range(len(parts) if parts != [""] else 0)):
        root = anchor + "/".join(parts[:depth])
        above: Store
        if isinstance(store, stores.FsspecStore):
            above = stores.FsspecStore(store.fs, root, read_only=True)
        elif isinstance(store, stores.ObjectStore):
            above = stores.ObjectStore(store._client, root, read_only=True, missing=tuple(store.missing))
        else:
            above = LocalStore(root, read_only=True)
        yield above, "/".join(parts[depth:])
