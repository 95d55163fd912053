"""An array as the engine reads it, opened again: after its metadata have changed, or in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tegula import engine
from tegula.engine.stored.array import StoredArray
from tegula.errors import MetadataError
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.stores.targets.paths import location_of

__all__ = ["opened", "restored", "unpickled"]

T = TypeVar("T")


def restored(
    old: StoredArray, changing: StoredArray | None, metadata: ArrayMetadata, allow_pickle: bool
) -> StoredArray:
    """Return an array with other metadata, and with its present codec chain if that still fits.

    `changing` is the array as it will be after a change in progress.
    """
    if metadata is old.metadata:
        return old
    if changing is not None and metadata is changing.metadata:
        return changing
    # `changing` already has the kernel's description of the new shape
    if changing is not None and metadata.shape == changing.metadata.shape and metadata.has_chunks_of(changing.metadata):
        return changing.with_metadata(metadata)
    if metadata.has_chunks_of(old.metadata):
        return old.with_metadata(metadata)
    options: dict[str, Any] = {
        "allow_pickle": allow_pickle, "write_empty": old.write_empty, "document": old.document,
        "missing_chunks": old.missing_chunks,
    }  # fmt: skip
    return engine.stored_array(old.store, old.prefix.rstrip("/"), metadata, **options)


def opened(store: Store, path: str, format: str, mark: bytes, _: bool, options: dict[str, Any]) -> StoredArray:
    """Open an unpickled array.

    Raises
    ------
    MetadataError
        If the array no longer exists.
    """
    metadata = engine.read_unpickled(store, path, format, mark)
    if not isinstance(metadata, ArrayMetadata):
        raise MetadataError("the array no longer exists", path=location_of(store, path))
    return engine.stored_array(store, path, metadata, **options)


def unpickled(
    cls: Callable[..., T], store: Store, path: str, format: str, mark: bytes, read_only: bool, options: dict[str, Any]
) -> T:
    """Return an unpickled array of a class, which is opened at its first use.

    A scheduler may unpickle arrays whose storage it can't reach, and does not expect unpickling to fail.
    """
    array: Any = cls(None, path, read_only=read_only or store.read_only, allow_pickle=options["allow_pickle"])
    array._unopened = store, path, format, mark, read_only, options
    made: T = array
    return made
