"""The documents of views: which targets are such documents, and the arrays that they name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.errors import NotFoundError
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.deferred import Later
from tegula.stores.targets.opening import abandon, store_of
from tegula.stores.targets.paths import may_be_view, refuse_missing

if TYPE_CHECKING:
    from tegula.stores import Store
    from tegula.views import View, documents
else:
    documents = Later("tegula.views.documents")

__all__ = ["store_to_read", "view_of_document"]


def view_of_document(
    target: Any, mode: str, storage_options: Mapping[str, Any] | None, missing_chunks: str | None = None
) -> View | None:
    """Return the view whose document a target names; ``None`` if it names none.

    `missing_chunks` is as for `tegula.open`, for all arrays; by default the document may say it for each.

    Raises
    ------
    MetadataError, UnsupportedError
        If the document is not valid; see `tegula.views.documents.open_view`.
    """
    if not may_be_view(target):
        return None
    return documents.open_view(target, mode, storage_options, partial(_open_member, missing_chunks))


def store_to_read(target: Any, *, read_only: bool, storage_options: Mapping[str, Any] | None) -> Store:
    """Open a store as `store_of` does, for functions that read one; a view's document gives the store of the view."""
    view = view_of_document(target, "r", storage_options)
    if view is not None:
        return view.as_store()
    return store_of(target, read_only=read_only, storage_options=storage_options)


def _open_member(
    rule: str | None,
    target: str,
    mode: str,
    *,
    format: str,
    missing_chunks: str | None,
    storage_options: Mapping[str, Any] | None,
) -> Array:
    """Open an array that a document names; another document is not followed."""
    read_only = mode == "r"
    store = store_of(target, read_only=read_only, storage_options=storage_options)
    try:
        metadata = engine.read_metadata(store, "", format, kept=True)
        if isinstance(metadata, ArrayMetadata):
            stored = engine.stored_array(store, "", metadata, missing_chunks=rule or missing_chunks)
            return Array(stored, "", read_only=read_only)
    except BaseException:
        abandon(store, target)
        raise
    abandon(store, target)
    refuse_missing(target)
    raise NotFoundError(f"there is no array of the format {format}", path=store.url)
