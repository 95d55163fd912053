"""Finding nodes: which prefixes of a store have one, without opening it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tegula.engine.documents import fetch_documents
from tegula.engine.pool import gather
from tegula.errors import StoreError, TegulaError
from tegula.formats import FORMATS, Format, find_format
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store

__all__ = ["has_document", "has_node", "implicit_group", "is_node", "members_of_folder", "nodes_below"]

_AHEAD = 16  # nodes that are looked up together, as a multiple of the requests under way
_DEPTH, _LISTINGS = 4, 200  # levels and listings of a search in a directory, which may hold any files
T = TypeVar("T")


def implicit_group(store: Store, path: str, format: str | None, *, deep: bool = False) -> GroupMetadata | None:
    """Return an implicit group, which has no documents, if there are nodes directly below the path.

    With `deep`, nodes of formats without group documents also count on deeper levels; that search ends after 4 levels
    or 200 listings. A store that can't be listed has no implicit groups.
    """
    if not store.listable:
        return None
    wanted = [find_format(format)] if format else [*FORMATS.values()]
    level = [f"{path}/" if path else ""]
    listings = _LISTINGS
    # level by level, until a node is found
    for depth in range(_DEPTH if deep else 1):

        def children(prefix: str, depth: int = depth) -> list[str]:
            try:
                return store.list_dir(prefix)[1]
            except StoreError:
                if depth:
                    return []  # the directory may belong to another user or program
                raise

        def is_there(place: tuple[str, Format], depth: int = depth) -> bool:
            return has_node(store, *place) and (not depth or is_node(store, *place))

        below: list[str] = []
        for some in _batched(level[:listings], store):
            found = [child for listed in gather(children, some, store.concurrency) for child in listed]
            places = [(child, item) for child in found for item in wanted]
            for _, item in _chosen(store, places, is_there):
                return GroupMetadata(format=item.name)
            below += found
        wanted = [item for item in wanted if not item.has_groups]
        listings -= len(level)
        level = below
        if not wanted or listings <= 0:
            break
    return None


def _batched(items: Sequence[T], store: Store) -> Iterator[Sequence[T]]:
    """Yield items in groups that are looked up together; single items if the store is not far away."""
    size = _AHEAD * store.concurrency or 1
    return (items[start : start + size] for start in range(0, len(items), size))


def _chosen(store: Store, items: Sequence[T], test: Callable[[T], bool]) -> Iterator[T]:
    """Yield the items for which `test`, which asks the store, is true."""
    for some in _batched(items, store):
        yield from (item for item, passes in zip(some, gather(test, some, store.concurrency)) if passes)


def is_node(store: Store, prefix: str, item: Format) -> bool:
    """Return whether the documents under a prefix are those of a node, and no other files of that name."""
    try:
        return item.parse(fetch_documents(store, prefix[:-1], item.keys)) is not None
    except TegulaError:
        return False


def nodes_below(store: Store, prefix: str, item: Format) -> Iterator[str]:
    """Yield, sorted, the prefixes directly below a prefix at which the format has a node."""
    if not store.concurrency and not any("/" in key for key in item.node_keys):
        return store.prefixes_with(prefix, item.node_keys)
    return _chosen(store, store.list_dir(prefix)[1], lambda child: has_node(store, child, item))


def members_of_folder(store: Store, prefix: str) -> Iterator[str]:
    """Yield, sorted, the prefixes directly below a folder without documents that hold nodes of any format."""
    formats = [*FORMATS.values()]
    found: set[str] = set()
    if not store.concurrency:  # `prefixes_with` may be faster than a lookup for each child
        found = {*store.prefixes_with(prefix, [key for item in formats for key in item.node_keys if "/" not in key])}
        formats = [item for item in formats if any("/" in key for key in item.node_keys)]

    def is_member(child: str) -> bool:
        return (
            child in found
            or next(_chosen(store, formats, lambda item: has_node(store, child, item)), None) is not None
            or implicit_group(store, child[:-1], None, deep=True) is not None
        )

    return _chosen(store, store.list_dir(prefix)[1], is_member)


def has_node(store: Store, prefix: str, item: Format) -> bool:
    """Return whether the format has a node at a prefix, without reading its documents."""
    if store.concurrency:
        return any(gather(lambda key: has_document(store, prefix, key), item.node_keys, store.concurrency))
    return any(has_document(store, prefix, key) for key in item.node_keys)


def has_document(store: Store, prefix: str, key: str) -> bool:
    """Return whether a document exists; it does not if a file stands in the place of its directory."""
    try:
        return store.exists(prefix + key)
    except StoreError as error:
        if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
            raise
        return False
