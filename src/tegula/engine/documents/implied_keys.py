"""Listings for a store that can't be listed, as implied by its documents, for jobs that visit every key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import implicit_group
from tegula.engine.documents.reading import fetch_documents, read_many, read_metadata
from tegula.engine.stored.grid_keys import stored_in_grid
from tegula.errors import MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.formats import FORMATS, find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores import Store
from tegula.stores.arguments import split_children
from tegula.stores.wrapping import WrappingStore

__all__ = ["ImpliedKeys", "listable", "members_unknown"]

_Node = NodeMetadata | TegulaError


class ImpliedKeys(WrappingStore):
    """A read-only store of one node, which lists the keys that the node's documents imply.

    These are the existing documents and chunks of an array, of the columns of a table, or of all nodes in the
    consolidated metadata of a group. Other keys are not listed.

    Parameters
    ----------
    store : Store
        A store that can't be listed.
    path : str
        Path of the node.
    damaged : bool
        Whether to accept nodes whose documents can't be read; for these only the documents are listed.

    Raises
    ------
    NotFoundError
        If there is no node.
    UnsupportedError
        If the node is a group without consolidated metadata, so that its members are unknown.
    """

    def __init__(self, store: Store, path: str, *, damaged: bool = False) -> None:
        super().__init__(store)
        self.listable, self.read_only = True, True
        root = _attempt(lambda: read_metadata(store, path) or implicit_group(store, path, None))
        if root is None:
            raise NotFoundError("there is no array or group", path=f"{store.url}/{path}".rstrip("/"))
        self._nodes: dict[str, _Node] = {_prefix(path): root}
        if isinstance(root, GroupMetadata):
            self._nodes |= _members(store, _prefix(path), root)
        for node in () if damaged else self._nodes.values():
            if isinstance(node, TegulaError):
                raise node

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every known key that starts with `prefix`; each chunk is first looked up."""
        for below, node in self._nodes.items():
            if not (below.startswith(prefix) or prefix.startswith(below)):
                continue
            yield from (key for key in self._documents(below, node) if key.startswith(prefix))
            if isinstance(node, ArrayMetadata):
                yield from (key for _, key in stored_in_grid(self.store, below, node) if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the known keys and prefixes directly below `prefix`; chunks only below arrays."""
        node = self._nodes.get(prefix)
        if isinstance(node, GroupMetadata):
            keys = self._documents(prefix, node)
            return split_children([*keys, *(f"{known}x" for known in self._nodes if known != prefix)], prefix)
        return split_children(self.list_prefix(prefix), prefix)

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the known prefixes under which one of `names` has a value; see `Store.prefixes_with`."""
        return Store.prefixes_with(self, prefix, names)

    def _documents(self, prefix: str, node: _Node) -> list[str]:
        formats = [find_format(node.format)] if isinstance(node, (ArrayMetadata, GroupMetadata)) else FORMATS.values()
        names = dict.fromkeys(key for fmt in formats for key in (*fmt.keys, fmt.consolidated_key))
        keys = [prefix + key for key in names if key]
        exist = gather(self.store.exists, keys, self.concurrency)
        return [key for key, exists in zip(keys, exist) if exists]


def listable(store: Store, path: str, *, damaged: bool = False) -> Store:
    """Return the store if it can be listed, else one with the keys that the documents of a node imply."""
    return store if store.listable else ImpliedKeys(store, path, damaged=damaged)


def members_unknown(store: Store, path: str) -> UnsupportedError:
    """Return the error for a group without consolidated metadata, whose members are unknown."""
    return UnsupportedError(
        "the store can't be listed, and the group has no consolidated metadata that name its members; open a member, "
        "or consolidate the group where it is written (tegula consolidate) and publish it again",
        path=f"{store.url}/{path}".rstrip("/"),
    )


def _attempt(read: Callable[[], NodeMetadata | None]) -> _Node | None:
    """Return the result of `read`, or its error if the documents can't be read."""
    try:
        return read()
    except (MetadataError, UnsupportedError) as error:
        return error


def _prefix(path: str) -> str:
    return f"{path}/" if path else ""


def _members(store: Store, prefix: str, root: GroupMetadata) -> dict[str, _Node]:
    """Return the nodes below a group by prefix: the columns of a table, or the nodes in consolidated metadata."""
    fmt = find_format(root.format)
    if root.members is not None:
        columns = read_many(store, [prefix + name for name in root.members], fmt.name)
        nodes: Mapping[str, Any] = dict(zip(root.members, columns))
    else:
        consolidated = fmt.consolidated and fmt.consolidated(
            fetch_documents(store, prefix[:-1], [fmt.consolidated_key])
        )
        if consolidated is None:
            raise members_unknown(store, prefix[:-1])
        nodes = {name: _attempt(partial(fmt.parse, documents)) for name, documents in consolidated.items() if name}
    return {f"{prefix}{name}/": node for name, node in nodes.items() if node is not None}
