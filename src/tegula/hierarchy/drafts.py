"""Hierarchies of drafts of Zarr v3: how their nodes are found, which do not lie at their own paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula import engine
from tegula.errors import MetadataError, ReadOnlyError, TegulaError, UnsupportedError
from tegula.formats.keys import ZARR3_KEY
from tegula.runtime.deferred import Later
from tegula.stores import Store
from tegula.stores.capabilities import Translating
from tegula.stores.local.store import LocalStore

if TYPE_CHECKING:
    from tegula.engine.nodes import paths
    from tegula.formats import zarr3_draft
    from tegula.stores import zarr3_draft as views
else:
    paths = Later("tegula.engine.nodes.paths")
    zarr3_draft, views = Later("tegula.formats.zarr3_draft"), Later("tegula.stores.zarr3_draft")

__all__ = ["elsewhere", "entered", "found_at", "is_entry", "place_of", "place_to_change"]


def elsewhere(
    store: Store, path: str, error: UnsupportedError | None = None, inside: str | None = None
) -> tuple[Store, str] | None:
    """Return where a node may be that is not at its path: a view of a draft's hierarchy, and the path in the view.

    Parameters
    ----------
    store, path
        Where no node of another format is.
    error : UnsupportedError, optional
        Why the document there can't be read: it may be an entry point.
    inside : str, optional
        A group that is no node of a draft: entry points are looked up below it, or for a path that is not below it
        from the top of the store; by default also in the directories above a local one.

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
    >>> elsewhere(MemoryStore({"old/zarr.json": version}), "old/a/b")
    (DraftStore(MemoryStore(...), 'old/'), 'old/a/b')
    """
    if error is not None:
        view = _entered(store, path) if is_entry(error) else None
        return None if view is None else (view, path)
    if isinstance(store, Translating) and not _is_below(path, store.whole[1]):
        return place_of(store.whole[0], path)  # a view shows nothing outside of its hierarchy
    names = path.split("/") if path else []
    first = 0
    if inside is not None and _is_below(path, inside):
        first = inside.count("/") + 2 if inside else 1
    for count in range(first, len(names)):
        if (view := _entered(store, "/".join(names[:count]))) is not None:
            return view, path
    for directory in paths.entry_points_above(store) if inside is None else ():
        above = LocalStore(directory, read_only=True)
        if (view := _entered(above, "")) is not None:
            below = os.path.relpath(store.local_directory or "", directory).split(os.sep)
            return view, "/".join([*below, *names])
    return None


def entered(store: Store, path: str, error: object) -> views.DraftStore | None:
    """Return the view of a hierarchy whose entry point, which gave an error, is at a path and can be understood."""
    try:
        return _entered(store, path) if is_entry(error) else None
    except (MetadataError, UnsupportedError):
        return None


def _is_below(path: str, group: str) -> bool:
    return not group or f"{path}/".startswith(f"{group}/")


def _entered(store: Store, path: str) -> views.DraftStore | None:
    """Return the view of a hierarchy whose entry point is at a path."""
    raw = engine.fetch_documents(store, path, [ZARR3_KEY]).get(ZARR3_KEY)
    try:
        point = None if raw is None else zarr3_draft.entry_point(raw)
    except (UnsupportedError, MetadataError) as error:
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise
    return None if point is None else views.DraftStore(store, f"{path}/" if path else "", *point)


def is_entry(error: object) -> bool:
    """Return whether an error may be about the entry point of a hierarchy, which is no node."""
    return isinstance(error, UnsupportedError) and error.field == "zarr_format"


def found_at(
    store: Store,
    path: str,
    read: Callable[[Store, str], Any],
    inside: str | None = None,
    *,
    first: Callable[[Store, str], Any] | None = None,
) -> tuple[Store, str, Any]:
    """Return what is read at a path, and where: in the store, or in the view of a draft's hierarchy.

    Parameters
    ----------
    store, path
        Where to read.
    read : callable
        Reads a node, given a store and a path; returns ``None`` if there is none.
    inside : str, optional
        As for `elsewhere`.
    first : callable, optional
        Reads the node at its own path, if in another way than `read`.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    failed = None
    try:
        if (node := (first or read)(store, path)) is not None:
            return store, path, node
    except UnsupportedError as error:
        failed = error
    if (found := elsewhere(store, path, failed, inside)) is not None:
        return *found, read(*found)
    if failed is not None:
        raise failed
    return store, path, None


def place_of(store: Store, path: str, inside: str | None = None) -> tuple[Store, str]:
    """Return where a node is, for functions that read its documents themselves: there, or in a view."""
    place = store, path

    def read(*where: Any) -> Any:
        nonlocal place
        place = where
        return engine.read_metadata(*where)

    try:
        node = found_at(store, path, read, inside)[2]
    except TegulaError:
        return place
    return (store, path) if node is None else place


def place_to_change(store: Store, path: str, inside: str | None = None) -> tuple[Store, str]:
    """Return where a node is that will be moved or deleted; a whole hierarchy of a draft is at its entry point.

    Raises
    ------
    ReadOnlyError
        If the node belongs to the hierarchy of a draft, which is not written.
    """
    view, place = place_of(store, path, inside)
    if view is store or (isinstance(view, Translating) and view.whole == (store, path)):
        return store, path
    raise ReadOnlyError(f"the node {view.why_read_only}", path=f"{store.url}/{place}".rstrip("/"))
