"""Paths of new nodes: valid and reserved names, whether anything is there, and the groups above."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tegula.engine.documents.finding import JOB_DIRECTORY
from tegula.engine.documents.reading import documents_of, read_metadata
from tegula.engine.nodes.changing import create_documents
from tegula.errors import AlreadyExistsError, MetadataError, ReadOnlyError
from tegula.formats import Format
from tegula.formats.keys import ZARR3_KEY
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.runtime.deferred import Later
from tegula.stores import Store

if TYPE_CHECKING:
    from tegula.formats import zarr3_draft
    from tegula.stores import zarr3_draft as views
else:
    zarr3_draft, views = Later("tegula.formats.zarr3_draft"), Later("tegula.stores.zarr3_draft")

__all__ = ["check_path", "check_reserved", "create_parents", "entry_points_above", "is_vacant", "refuse_inside_draft"]

_FEW = 100
_ENTRY = 2**16  # bytes of a document that may be an entry point


def is_vacant(store: Store, path: str, *, beside_jobs: bool = False) -> bool:
    """Return whether there is no key below a path, and so neither a node nor a part of a node.

    The result is ``False``, and the caller looks up documents, if the store would have to visit all its keys. With
    `beside_jobs`, a few keys of jobs do not count.
    """
    if store.visits_all_keys:
        return False
    prefix = f"{path}/" if path else ""
    for number, key in enumerate(store.list_prefix(prefix)):
        if not beside_jobs or number == _FEW or not key.startswith(JOB_DIRECTORY, len(prefix)):
            return False
    return True


def create_parents(store: Store, path: str, fmt: Format) -> None:
    """Create the missing groups above a node; refuse a parent that is an array or a group of another format."""
    if not path:
        return
    parts = path.split("/")[:-1]
    parents = ["/".join(parts[:count]) for count in range(len(parts) + 1)]
    for parent, documents in zip(parents, documents_of(store, parents)):
        node = read_metadata(store, parent, documents=documents)
        if node is None:
            try:
                create_documents(store, parent, fmt, GroupMetadata(format=fmt.name), overwrite=False)
            except AlreadyExistsError:
                continue
        elif isinstance(node, ArrayMetadata):
            raise AlreadyExistsError("an array can't have members", path=parent or store.url)
        elif node.format != fmt.name:
            raise MetadataError(
                f"a {fmt.name} node can't be a member of a {node.format} group", path=parent or store.url
            )


def check_path(path: str, fmt: Format) -> None:
    """Refuse paths that are not valid for a node (Zarr v3 core, "node names")."""
    for name in path.split("/") if path else []:
        if not name or set(name) == {"."} or name == "zarr.json" or name in fmt.keys or "\0" in name:
            raise MetadataError(f"{name!r} can't be the name of a node", path=path)


def refuse_inside_draft(store: Store) -> None:
    """Refuse a store in a hierarchy of a draft of Zarr v3, whose nodes its own would hide; only local ones are seen.

    Raises
    ------
    ReadOnlyError
        If the entry point of a hierarchy is in a directory above.
    """
    for _ in entry_points_above(store):
        raise ReadOnlyError(f"the path {views.DraftStore.why_read_only}", path=store.url)


def entry_points_above(store: Store) -> Iterator[str]:
    """Yield the directories above a local store that have the entry point of a hierarchy, even an invalid one."""
    directory = store.local_directory
    while directory is not None and (above := os.path.dirname(directory)) != directory:
        directory, raw = above, b""
        with suppress(OSError), open(os.path.join(directory, ZARR3_KEY), "rb") as file:
            raw = file.read(_ENTRY)
        if b"purl.org" in raw and zarr3_draft.is_entry_point(raw):  # else the module is not loaded
            yield directory


def check_reserved(path: str, fmt: Format, store: Store | None = None) -> None:
    """Refuse names that the format reserves, except those of existing groups, which older versions allowed."""
    names = path.split("/") if path and fmt.reserved_prefix else []
    for count, name in enumerate(names, start=1):
        if not name.startswith(fmt.reserved_prefix):
            continue
        if store is None or count == len(names) or read_metadata(store, "/".join(names[:count])) is None:
            raise MetadataError(
                f"{name!r} can't be the name of a new node: "
                f"{fmt.name} reserves names that begin with {fmt.reserved_prefix!r}",
                path=path,
            )
