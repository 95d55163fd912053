"""Finding nodes: which prefixes of a store have one, without opening it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.reading import fetch_documents, read_metadata
from tegula.errors import StoreError, TegulaError
from tegula.formats import FORMATS, Format, find_format
from tegula.formats.documents import load_attributes
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores import Store

__all__ = [
    "JOB_DIRECTORY", "SYNC_DIRECTORY", "children", "has_document", "has_node", "implicit_group", "is_node",
    "members_of_folder", "nodes_below", "without_jobs",
]  # fmt: skip

JOB_DIRECTORY: Final = ".tegula_job"
"""Beginning of the names of directories with the ledger of a job, or a node that will replace another: no members."""
SYNC_DIRECTORY: Final = ".tegula_sync"
"""Name of the directory in a node that says what the last sync saw of it and of its source: no member either."""

_AHEAD = 16  # nodes that are looked up together, as a multiple of the requests under way
_DEPTH, _LISTINGS = 4, 200  # levels and listings of a search in a directory, which may hold any files
T = TypeVar("T")


def read_node(store: Store, path: str) -> NodeMetadata | None:
    """Read the metadata of the node at a path, implicit groups included; return ``None`` if there is none.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    return read_metadata(store, path) or implicit_group(store, path, None, deep=True)


def implicit_group(store: Store, path: str, format: str | None, *, deep: bool = False) -> GroupMetadata | None:
    """Return an implicit group, which has no documents, if there are nodes directly below the path.

    With `deep`, nodes of formats that need no group documents also count on deeper levels; that search ends after 4
    levels or 200 listings. In a store that can't be listed, only consolidated metadata make an implicit group.
    """
    if not store.listable:
        return _of_consolidated(store, path, format)
    wanted = [find_format(format)] if format else [*FORMATS.values()]
    level = [f"{path}/" if path else ""]
    listings = _LISTINGS
    # level by level, until a node is found
    for depth in range(_DEPTH if deep else 1):

        def listed(prefix: str, depth: int = depth) -> list[str]:
            try:
                return children(store, prefix)
            except StoreError:
                if depth:
                    return []  # the directory may belong to another user or program
                raise

        def is_there(child: tuple[str, Format], depth: int = depth) -> bool:
            return has_node(store, *child) and (not depth or is_node(store, *child))

        below: list[str] = []
        for some in _batched(level[:listings], store):
            prefixes = [child for prefixes in gather(listed, some, store.concurrency) for child in prefixes]
            candidates = [(child, fmt) for child in prefixes for fmt in wanted]
            for _, fmt in _chosen(store, candidates, is_there):
                return _without_document(store, path, fmt)
            below += prefixes
        wanted = [fmt for fmt in wanted if not fmt.has_groups or fmt.folders_are_groups]
        listings -= len(level)
        level = below
        if not wanted or listings <= 0:
            break
    return None


def _without_document(store: Store, path: str, fmt: Format) -> GroupMetadata:
    """Return a group whose document is missing, with the attributes that the format keeps in another one."""
    key = fmt.attributes_at[0] if fmt.attributes_at is not None else ""
    if not key or key in fmt.node_keys:
        return GroupMetadata(format=fmt.name)
    return GroupMetadata(format=fmt.name, attributes=load_attributes(fetch_documents(store, path, [key]), key))


def _of_consolidated(store: Store, path: str, format: str | None) -> GroupMetadata | None:
    """Return a group that has no document of its own, but a document of consolidated metadata."""
    for fmt in [find_format(format)] if format else FORMATS.values():
        key = fmt.consolidated_key
        if key and key not in fmt.keys and fmt.consolidated is not None:
            documents = fetch_documents(store, path, [key])
            if fmt.consolidated(documents) is not None:
                return _without_document(store, path, fmt)
    return None


def _batched(items: Sequence[T], store: Store) -> Iterator[Sequence[T]]:
    """Yield items in groups that are looked up together; single items if the store is not remote."""
    size = _AHEAD * store.concurrency if store.is_remote else 1
    return (items[start : start + size] for start in range(0, len(items), size))


def children(store: Store, prefix: str) -> list[str]:
    """Return, sorted, the prefixes directly below a prefix at which members may be: all but that of a job."""
    return without_jobs(prefix, store.list_dir(prefix)[1])


def without_jobs(prefix: str, children: Sequence[str]) -> list[str]:
    """Return the prefixes found directly below a prefix, without those of jobs.

    Examples
    --------
    >>> without_jobs("a/", ["a/.tegula_job/", "a/x/"])
    ['a/x/']
    """
    return [child for child in children if not child.startswith((JOB_DIRECTORY, SYNC_DIRECTORY), len(prefix))]


def _chosen(store: Store, items: Sequence[T], test: Callable[[T], bool]) -> Iterator[T]:
    """Yield the items for which `test`, which asks the store, is true."""
    for some in _batched(items, store):
        yield from (item for item, passes in zip(some, gather(test, some, store.concurrency)) if passes)


def is_node(store: Store, prefix: str, fmt: Format) -> bool:
    """Return whether the documents under a prefix are those of a node, not other files with such names."""
    try:
        return fmt.parse(fetch_documents(store, prefix[:-1], fmt.keys)) is not None
    except TegulaError:
        return False


def nodes_below(store: Store, prefix: str, fmt: Format) -> Iterator[str]:
    """Yield, sorted, the prefixes directly below a prefix at which the format has a node."""
    if not store.is_remote and not any("/" in key for key in fmt.node_keys):
        return store.prefixes_with(prefix, fmt.node_keys)
    return _chosen(store, children(store, prefix), lambda child: has_node(store, child, fmt))


def members_of_folder(store: Store, prefix: str) -> Iterator[str]:
    """Yield, sorted, the prefixes directly below a folder without documents that hold nodes of any format."""
    formats = [*FORMATS.values()]
    prefixes: set[str] = set()
    if not store.is_remote:  # `prefixes_with` may be faster than a lookup for each child
        prefixes = {*store.prefixes_with(prefix, [key for fmt in formats for key in fmt.node_keys if "/" not in key])}
        formats = [fmt for fmt in formats if any("/" in key for key in fmt.node_keys)]

    def is_member(child: str) -> bool:
        return (
            child in prefixes
            or next(_chosen(store, formats, lambda fmt: has_node(store, child, fmt)), None) is not None
            or implicit_group(store, child[:-1], None, deep=True) is not None
        )

    return _chosen(store, children(store, prefix), is_member)


def has_node(store: Store, prefix: str, fmt: Format) -> bool:
    """Return whether the format has a node at a prefix, without reading its documents."""
    if store.is_remote:
        return any(gather(lambda key: has_document(store, prefix, key), fmt.node_keys, store.concurrency))
    return any(has_document(store, prefix, key) for key in fmt.node_keys)


def has_document(store: Store, prefix: str, key: str) -> bool:
    """Return whether a document exists; it does not if a file stands in the place of its directory."""
    try:
        return store.exists(prefix + key)
    except StoreError as error:
        if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
            raise
        return False
