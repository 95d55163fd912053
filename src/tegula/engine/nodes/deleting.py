"""Deleting nodes, and clearing a path where a node is about to be created."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from tegula.engine.concurrency.pool import for_each, gather
from tegula.engine.documents.finding import implicit_group
from tegula.engine.documents.forgetting import forgets
from tegula.engine.documents.reading import fetch_documents, read_metadata
from tegula.engine.reading.remote import delete_keys, delete_prefix
from tegula.engine.stored.array import StoredArray
from tegula.errors import MetadataError, UnsupportedError
from tegula.formats import FORMATS
from tegula.formats.keys import ZARR3_KEY
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.runtime.deferred import Later
from tegula.stores import Store
from tegula.stores.capabilities import is_link

if TYPE_CHECKING:
    from tegula.formats import zarr3_draft
else:
    zarr3_draft = Later("tegula.formats.zarr3_draft")

__all__ = [
    "Occupant", "clear_place", "delete_node", "delete_occupant", "holds_draft", "is_chunk_key", "is_taken", "occupant",
    "remove_array", "remove_incomplete",
]  # fmt: skip

Occupant = Literal["node", "members", "incomplete"]
"""What is at a path: a node, to which all keys below belong; the nodes of an implicit group; parts of a node.

The hierarchy of a draft of Zarr v3 is a node at the path of its entry point."""
_CHUNK_KEY = re.compile(r"c|(?:c[./])?[0-9]+(?:[./][0-9]+)*|__zdata__/.*|data/__[0-9]+\.blp")


@forgets
def remove_array(array: StoredArray, path: str) -> None:
    """Delete an array; other files in its directory stay."""
    prefix = f"{path}/" if path else ""
    for key in array.metadata.documents:
        array.store.delete(prefix + key)
    if array.chunk_prefix != prefix:
        delete_prefix(array.store, array.chunk_prefix)
        return
    delete_keys(array.store, [key for _, key in array.stored_chunks()])


def occupant(store: Store, path: str) -> Occupant | None:
    """Return what `clear_place` would delete at a path; ``None`` if there is nothing, or only other files."""
    try:
        if _is_link(store, path) or read_metadata(store, path) is not None:
            return "node"
        return None if implicit_group(store, path, None) is None else "members"
    except (MetadataError, UnsupportedError):
        return "node" if holds_draft(store, path) else "incomplete"


def holds_draft(store: Store, path: str) -> bool:
    """Return whether the entry point of a hierarchy of a draft of Zarr v3 is at a path, even one that is not valid."""
    raw = fetch_documents(store, path, [ZARR3_KEY]).get(ZARR3_KEY)
    return raw is not None and zarr3_draft.is_entry_point(raw)


def is_taken(store: Store, path: str) -> bool:
    """Return whether there is a node at a path, whether or not it can be read."""
    try:
        return (read_metadata(store, path) or implicit_group(store, path, None)) is not None
    except (MetadataError, UnsupportedError):
        return True


def clear_place(store: Store, path: str, *, keep: str | tuple[str, ...] = "") -> None:
    """Delete the node at a path, or what is left of one: documents and chunks. Without a node, other files stay.

    Keys that start with `keep`, a prefix below the path or several, stay as well.
    """
    delete_occupant(store, path, occupant(store, path), keep=keep)


@forgets
def delete_occupant(store: Store, path: str, there: Occupant | None, *, keep: str | tuple[str, ...] = "") -> None:
    """Do what `clear_place` does, where `there` is what `occupant` has returned for the path."""
    if there == "incomplete":
        remove_incomplete(store, path)
    elif there is not None:
        delete_node(store, path, keep=keep)


@forgets
def remove_incomplete(store: Store, path: str, *, chunks: bool = True) -> None:
    """Delete all documents at a path, then the chunks; other files there, and members, stay."""
    prefix = f"{path}/" if path else ""
    for key in fetch_documents(store, path, {key for fmt in FORMATS.values() for key in fmt.keys}):
        store.delete(prefix + key)
    if chunks:
        delete_keys(store, [key for key in store.list_prefix(prefix) if is_chunk_key(key[len(prefix) :])])


def is_chunk_key(key: str) -> bool:
    """Return whether a key below a node can be the key of a chunk in any format.

    Examples
    --------
    >>> is_chunk_key("c/0/1"), is_chunk_key("0.1"), is_chunk_key("notes.txt")
    (True, True, False)
    """
    return _CHUNK_KEY.fullmatch(key) is not None


@forgets
def delete_node(store: Store, path: str, *, keep: str | tuple[str, ...] = "") -> None:
    """Delete a node and everything below it, but nothing beside it.

    Members are deleted before their group, and the documents of an array or table before its chunks. So a process that
    is killed midway leaves no array that lacks chunks, and the group can be deleted by another call. Of an implicit
    group only the nodes are deleted: what else is in its directory may belong to another program. Of a symbolic link
    only the link is deleted. Keys that start with `keep`, a prefix below the path or several, stay.
    """
    # level by level: arrays and tables are deleted, groups are remembered
    levels: list[list[tuple[str, list[str]]]] = []
    level = [(path, True)]  # with whether everything there is deleted, even without a node
    while level:
        nodes = gather(lambda node: _node_at(store, *node), level, store.concurrency)
        owned_nodes = [
            (f"{current}/" if current else "", node)
            for (current, owned), (is_node, node) in zip(level, nodes)
            if owned or is_node
        ]
        leaves = [node for node in owned_nodes if not _has_members(node[1])]
        groups = [
            (prefix, [*node.documents]) for prefix, node in owned_nodes if node is not None and _has_members(node)
        ]
        for_each(lambda node: _delete_leaf(store, *node, keep), leaves, parallel=False, requests=store.concurrency)
        children = gather(lambda group: store.list_dir(group[0])[1], groups, store.concurrency)
        below = ((child, bool(documents)) for (_, documents), prefixes in zip(groups, children) for child in prefixes)
        level = [(child[:-1], owned) for child, owned in below if not (keep and child.startswith(keep))]
        levels.append(groups)
    # the groups; those without members come first
    for groups in reversed(levels):
        for_each(lambda group: _delete_group(store, *group, keep), groups, parallel=False, requests=store.concurrency)


def _is_link(store: Store, path: str) -> bool:
    return bool(path) and is_link(store, f"{path}/")  # the root may be one


def _node_at(store: Store, path: str, owned: bool) -> tuple[bool, NodeMetadata | None]:
    """Return whether there is a node, and its metadata unless it can't be read or is behind a link."""
    if _is_link(store, path):
        return True, None
    try:
        # all that is owned is deleted, so no node has to be found deeper in it
        node = read_metadata(store, path) or implicit_group(store, path, None, deep=not owned)
    except (MetadataError, UnsupportedError):
        # no member has a prefix of its own in the hierarchy of a draft
        return True, GroupMetadata(format=zarr3_draft.NAME, members=()) if holds_draft(store, path) else None
    return node is not None, node


def _has_members(node: NodeMetadata | None) -> bool:
    return isinstance(node, GroupMetadata) and node.members is None


def _delete_leaf(store: Store, prefix: str, node: NodeMetadata | None, keep: str | tuple[str, ...]) -> None:
    """Delete an array, a table, a draft, or a node that can't be read: the documents first, then everything else.

    The entry point of a draft goes last, since it is what another call finds.
    """
    if node is not None and node.format == zarr3_draft.NAME:
        for tree in zarr3_draft.TREES:
            _delete_below(store, prefix + tree, keep)
    for key in () if node is None else node.documents:
        store.delete(prefix + key)
    _delete_below(store, prefix, keep)


def _delete_group(store: Store, prefix: str, documents: list[str], keep: str | tuple[str, ...]) -> None:
    """Delete a group whose members are deleted; the document that makes the group goes last."""
    for key in reversed(documents):
        store.delete(prefix + key)
    if documents:
        _delete_below(store, prefix, keep)


def _delete_below(store: Store, prefix: str, keep: str | tuple[str, ...]) -> None:
    if any(one.startswith(prefix) for one in ((keep,) if isinstance(keep, str) else keep) if one):
        delete_keys(store, [key for key in store.list_prefix(prefix) if not key.startswith(keep)])
    else:
        delete_prefix(store, prefix)
