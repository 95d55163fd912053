"""Deleting nodes, and clearing what stands where a node is about to be created."""

from __future__ import annotations

import re

from tegula.engine.caches import forgets
from tegula.engine.documents import fetch_documents, implicit_group, read_metadata
from tegula.engine.stored import StoredArray
from tegula.errors import MetadataError, UnsupportedError
from tegula.formats import FORMATS
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store

__all__ = ["clear_place", "delete_node", "is_chunk_key", "remove_array"]

_CHUNK_KEY = re.compile(r"c|(?:c[./])?[0-9]+(?:[./][0-9]+)*|__zdata__/.*|data/__[0-9]+\.blp")


@forgets
def remove_array(array: StoredArray, path: str) -> None:
    """Delete an array, but no other file beside it."""
    prefix = f"{path}/" if path else ""
    for key in array.metadata.documents:
        array.store.delete(prefix + key)
    if array.chunk_prefix != prefix:
        array.store.delete_prefix(array.chunk_prefix)
        return
    for _, key in [*array.stored_chunks()]:
        array.store.delete(key)


@forgets
def clear_place(store: Store, path: str) -> None:
    """Delete the node at a path, or the documents and chunks that are left of one; other files without a node stay."""
    try:
        there = read_metadata(store, path) or implicit_group(store, path, None)
    except (MetadataError, UnsupportedError):
        prefix = f"{path}/" if path else ""
        for key in fetch_documents(store, path, {key for item in FORMATS.values() for key in item.keys}):
            store.delete(prefix + key)
        for key in [key for key in store.list_prefix(prefix) if is_chunk_key(key[len(prefix) :])]:
            store.delete(key)
        return
    if there is not None:
        delete_node(store, path)


def is_chunk_key(key: str) -> bool:
    """Return whether a key below a node can be that of a chunk, in any format.

    Examples
    --------
    >>> is_chunk_key("c/0/1"), is_chunk_key("0.1"), is_chunk_key("notes.txt")
    (True, True, False)
    """
    return _CHUNK_KEY.fullmatch(key) is not None


@forgets
def delete_node(store: Store, path: str) -> None:
    """Delete a node and everything below it, but nothing beside it.

    Members are deleted before their group, and the documents of an array or table before its chunks. So a process that
    is killed on the way leaves no array that lacks chunks, and a group that can be deleted again.
    """
    groups: list[tuple[str, list[str]]] = []
    pending = [path]
    while pending:
        current = pending.pop()
        prefix = f"{current}/" if current else ""
        try:
            node = read_metadata(store, current) or implicit_group(store, current, None)
        except (MetadataError, UnsupportedError):
            node = None
        if isinstance(node, GroupMetadata) and node.members is None:
            groups.append((prefix, [*node.documents]))
            pending += [child[:-1] for child in store.list_dir(prefix)[1]]
            continue
        for key in () if node is None else node.documents:
            store.delete(prefix + key)
        store.delete_prefix(prefix)
    for prefix, documents in reversed(groups):
        for key in reversed(documents):  # the document that makes the group goes last
            store.delete(prefix + key)
        store.delete_prefix(prefix)
