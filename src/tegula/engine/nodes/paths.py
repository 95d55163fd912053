"""Paths of new nodes: valid and reserved names, whether anything is there, and the groups above."""

from __future__ import annotations

from tegula.engine.documents.finding import JOB_DIRECTORY
from tegula.engine.documents.reading import documents_of, read_metadata
from tegula.engine.nodes.changing import create_documents
from tegula.errors import AlreadyExistsError, MetadataError
from tegula.formats import Format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store

__all__ = ["check_path", "check_reserved", "create_parents", "is_vacant"]

_FEW = 100


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
