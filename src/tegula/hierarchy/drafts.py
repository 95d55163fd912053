"""Hierarchies of drafts of Zarr v3: how their nodes are found, which do not lie at their own paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula import engine
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats.keys import ZARR3_KEY
from tegula.runtime.deferred import Later
from tegula.stores import Store
from tegula.stores.local.store import LocalStore

if TYPE_CHECKING:
    from tegula.formats import zarr3_draft
    from tegula.stores import zarr3_draft as views
else:
    zarr3_draft, views = Later("tegula.formats.zarr3_draft"), Later("tegula.stores.zarr3_draft")

__all__ = ["draft_at", "found_at", "place_of"]


def draft_at(store: Store, path: str) -> tuple[Store, str] | None:
    """Return a view of the draft's hierarchy that has a node at a path, and the path of the node in the hierarchy.

    The entry point is looked up at the path and above it in the store; above a local directory, in the directories
    above it.

    Parameters
    ----------
    store, path
        Where no node of another format is.

    Returns
    -------
    (Store, str) or None
        ``None`` if there is no entry point.

    Raises
    ------
    MetadataError, UnsupportedError
        If there is one, and it is not valid or of another draft.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> version = b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "metadata_key_suffix": ".json"}'
    >>> draft_at(MemoryStore({"old/zarr.json": version}), "old/a/b")[1]
    'a/b'
    """
    names = path.split("/") if path else []
    for count in range(len(names) + 1):
        if (view := _entered(store, "/".join(names[:count]))) is not None:
            return view, "/".join(names[count:])
    directory = store.local_directory
    while directory is not None and (above := os.path.dirname(directory)) != directory:
        names.insert(0, os.path.basename(directory))
        directory = above
        if os.path.isfile(os.path.join(directory, ZARR3_KEY)):
            outer = LocalStore(directory, read_only=True)
            if (view := _entered(outer, "")) is not None:
                return view, "/".join(names)
    return None


def _entered(store: Store, path: str) -> Store | None:
    """Return the view of a hierarchy whose entry point is at a path."""
    raw = engine.fetch_documents(store, path, [ZARR3_KEY]).get(ZARR3_KEY)
    try:
        point = None if raw is None else zarr3_draft.entry_point(raw)
    except (UnsupportedError, MetadataError) as error:
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise
    return None if point is None else views.DraftStore(store, f"{path}/" if path else "", *point)


def found_at(store: Store, path: str, read: Callable[[Store, str], Any]) -> tuple[Store, str, Any]:
    """Return what is read at a path, and where: in the store, or in the view of a draft's hierarchy.

    Parameters
    ----------
    store, path
        Where to read.
    read : callable
        Reads a node, given a store and a path; returns ``None`` if there is none.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    try:
        node = read(store, path)
    except UnsupportedError as error:
        # a draft's entry point is no node
        if error.field != "zarr_format" or (draft := draft_at(store, path)) is None:
            raise
    else:
        if node is not None or (draft := draft_at(store, path)) is None:
            return store, path, node
    return *draft, read(*draft)


def place_of(store: Store, path: str) -> tuple[Store, str]:
    """Return where a node is, for functions that read its documents themselves: there, or in a view."""
    try:
        return found_at(store, path, engine.read_metadata)[:2]
    except TegulaError:
        return store, path
