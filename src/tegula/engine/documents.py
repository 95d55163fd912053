"""Metadata documents in a store: finding them, creating them once, and changing them without a lost update."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from tegula.engine import document_cache
from tegula.engine.caches import forgets
from tegula.engine.reservations import keep_mark
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, NotFoundError, StoreError, TegulaError
from tegula.formats import FORMATS, Format, find_format, parse
from tegula.formats.documents import MAX_BYTES
from tegula.formats.members import with_shape
from tegula.formats.splicing import Absent, splice
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores import ABSENT, Store
from tegula.stores.capabilities import delete_if

__all__ = [
    "back_off",
    "create_documents",
    "fetch_documents",
    "has_node",
    "implicit_group",
    "members_of_folder",
    "nodes_below",
    "read_metadata",
    "update_documents",
]

_ALL_KEYS = tuple(key for item in FORMATS.values() for key in item.keys)
_DEPTH, _LISTINGS = 4, 200  # levels and listings of a search for nodes in a directory, which may hold anything
Node = TypeVar("Node", bound=NodeMetadata)


class _Documents(Mapping[str, bytes]):
    """The documents under a node's path, by key relative to it, each fetched when it is first asked for.

    A store that has a `get_many` of its own is asked once for all of them.
    """

    def __init__(self, store: Store, path: str, keys: Iterable[str] = _ALL_KEYS, *, kept: bool = False) -> None:
        self._store = store
        self._prefix = f"{path}/" if path else ""
        self._found: dict[str, bytes | None] = {}
        if kept and document_cache.applies(store):
            self._fetch_kept([*keys])
        elif type(store).get_many is not Store.get_many:  # a store with a long latency
            self._fetch_all(keys)

    def _fetch_all(self, keys: Iterable[str]) -> None:
        """Fetch all documents at once; after an error each is fetched by itself, and raises its own."""
        wanted = [*keys]
        with suppress(StoreError):
            answers = self._store.get_many([(self._prefix + key, (0, MAX_BYTES + 1)) for key in wanted])
            self._found = dict(zip(wanted, answers))

    def _fetch_kept(self, keys: list[str]) -> None:
        """Take documents that are kept, and fetch the others, as `_fetch_all` does."""
        with suppress(StoreError):
            answers = document_cache.fetch(self._store, [self._prefix + key for key in keys], MAX_BYTES + 1)
            self._found = dict(zip(keys, answers))

    def _fetch(self, key: str) -> bytes | None:
        if key not in self._found:
            try:
                # never read more than one byte above the limit of the parser
                self._found[key] = self._store.get(self._prefix + key, (0, MAX_BYTES + 1))
            except StoreError as error:
                if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
                    raise
                self._found[key] = None  # a document of another format stands in place of its directory
        return self._found[key]

    def __getitem__(self, key: str) -> bytes:
        raw = self._fetch(key)
        if raw is None:
            raise KeyError(key)
        return raw

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._fetch(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key in _ALL_KEYS if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def fetch_documents(store: Store, path: str, keys: Iterable[str], *, kept: bool = False) -> dict[str, bytes]:
    """Return the documents that exist under a node's path, by key relative to it.

    With `kept` they may be those that this process keeps, as the setting ``recheck`` allows.
    """
    keys = [*keys]
    documents = _Documents(store, path, keys, kept=kept)
    return {key: documents[key] for key in keys if key in documents}


def read_metadata(store: Store, path: str, format: str | None = None, *, kept: bool = False) -> NodeMetadata | None:
    """Read the metadata of the node at a path; return ``None`` if there is none. The format is detected if not given.

    With `kept`, for opening a node, the documents may be those that this process keeps.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    try:
        if format is None:
            return parse(_Documents(store, path, kept=kept))
        item = find_format(format)
        return item.parse(fetch_documents(store, path, item.keys, kept=kept))
    except TegulaError as error:
        prefix = f"{path}/" if path else ""
        if error.key is not None and not error.key.startswith(prefix):
            error.key = prefix + error.key
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise


def implicit_group(store: Store, path: str, format: str | None, *, deep: bool = False) -> GroupMetadata | None:
    """Return an implicit group, one without documents, if there are nodes directly below the path.

    With `deep`, nodes of formats that have no group documents at all count further down, too. That search ends after
    4 levels or 200 listings.
    """
    wanted = [find_format(format)] if format else [*FORMATS.values()]
    level = [f"{path}/" if path else ""]
    listings = _LISTINGS
    for depth in range(_DEPTH if deep else 1):
        below: list[str] = []
        for prefix in level[:listings]:
            try:
                children = store.list_dir(prefix)[1]
            except StoreError:
                if depth:
                    continue  # it may belong to another user or program
                raise
            for child in children:
                for item in wanted:
                    if has_node(store, child, item) and (not depth or _is_node(store, child, item)):
                        return GroupMetadata(format=item.name)
            below += children
        wanted = [item for item in wanted if not item.has_groups]
        listings -= len(level)
        level = below
        if not wanted or listings <= 0:
            break
    return None


def _is_node(store: Store, prefix: str, item: Format) -> bool:
    """Return whether the documents under a prefix are those of a node, and no other files of that name."""
    try:
        return item.parse(fetch_documents(store, prefix[:-1], item.keys)) is not None
    except TegulaError:
        return False


def nodes_below(store: Store, prefix: str, item: Format) -> Iterator[str]:
    """Yield, sorted, the prefixes directly below a prefix at which the format has a node."""
    if not any("/" in key for key in item.node_keys):
        return store.prefixes_with(prefix, item.node_keys)
    return (child for child in store.list_dir(prefix)[1] if has_node(store, child, item))


def members_of_folder(store: Store, prefix: str) -> Iterator[str]:
    """Yield, sorted, the prefixes directly below a folder without documents that hold nodes of any format."""
    keys = [key for item in FORMATS.values() for key in item.node_keys if "/" not in key]
    found = {*store.prefixes_with(prefix, keys)}
    inner = [item for item in FORMATS.values() if any("/" in key for key in item.node_keys)]
    for child in store.list_dir(prefix)[1]:
        if (
            child in found
            or any(has_node(store, child, item) for item in inner)
            or implicit_group(store, child[:-1], None, deep=True) is not None
        ):
            yield child


def has_node(store: Store, prefix: str, item: Format) -> bool:
    """Return whether the format has a node at a prefix, without reading its documents."""
    return any(_has_document(store, prefix, key) for key in item.node_keys)


def _has_document(store: Store, prefix: str, key: str) -> bool:
    """Return whether a document exists; it does not where a file stands in place of its directory."""
    try:
        return store.exists(prefix + key)
    except StoreError as error:
        if "/" not in key or not isinstance(error.__cause__, NotADirectoryError):
            raise
        return False


@forgets
def create_documents(
    store: Store,
    path: str,
    item: Format,
    metadata: NodeMetadata,
    overwrite: bool,
    documents: dict[str, bytes] | None = None,
) -> dict[str, bytes]:
    """Write the documents of a new node; of several creators at once exactly one wins.

    Parameters
    ----------
    store, path, item, metadata
        Where the node is written, in which format, and its description.
    overwrite : bool
        Whether an existing node is overwritten.
    documents : dict of str to bytes, optional
        The result of ``item.serialize(metadata)``, if the caller has it already.

    Returns
    -------
    dict of str to bytes
        The stored documents, by key relative to `path`.

    Raises
    ------
    AlreadyExistsError
        If the node exists and `overwrite` is false.
    """
    prefix = f"{path}/" if path else ""
    documents = item.serialize(metadata) if documents is None else documents
    main = next(key for key in item.node_keys if key in documents)
    later = item.keys[item.keys.index(main) + 1 :]
    others = [key for key in later if "/" not in key or key in documents]
    others.sort(key=lambda key: key == item.shape_key)  # last, since without it the array can't be opened
    before = {key: store.get(prefix + key, with_generation=True)[1] for key in others}
    if before.get(item.shape_key, ABSENT) != ABSENT and not store.exists(prefix + main):
        # a leftover of another node: beside a new document it would make a readable array
        with suppress(ConflictError):
            delete_if(store, prefix + item.shape_key, before[item.shape_key])
            before[item.shape_key] = ABSENT
    # the document that makes the node is written first and decides the race, so that the loser changes nothing else
    if overwrite:
        store.set(prefix + main, documents[main])
    else:
        _create_main(store, path, item, main, documents)
    try:
        for key, generation in before.items():
            if key in documents:
                store.set(prefix + key, documents[key], if_generation=generation)
            elif generation != ABSENT:
                delete_if(store, prefix + key, generation)  # a leftover of another node
    except ConflictError:  # another process has opened the new node and set attributes
        mine = metadata.attributes
        current = update_documents(
            store, path, metadata, lambda found: replace(found, attributes={**mine, **found.attributes}), item=item
        )
        return {**documents, **current.documents}
    return documents


def _create_main(store: Store, path: str, item: Format, main: str, documents: Mapping[str, bytes]) -> None:
    """Write the document that makes a node, unless a node of any format is at the path.

    Two creators of different formats may see each other's document; then both delete their own and try again.
    """
    prefix = f"{path}/" if path else ""
    for attempt in range(10_000):
        try:
            mine = store.set(prefix + main, documents[main], if_generation=ABSENT)
        except ConflictError:
            break
        if not _has_rival(store, path, item, documents):
            return
        with suppress(ConflictError):
            delete_if(store, prefix + main, mine)
        back_off(attempt + 1)
        if _has_rival(store, path, item, documents):
            break
    raise AlreadyExistsError(
        "something already exists at this path; pass overwrite=True to replace it",
        path=path or store.url,
        key=prefix + main,
    )


def _has_rival(store: Store, path: str, item: Format, documents: Mapping[str, bytes]) -> bool:
    """Return whether there are documents of a node other than those in `documents`."""
    prefix = f"{path}/" if path else ""
    for other in FORMATS.values():
        found = any(_has_document(store, prefix, key) for key in other.node_keys if key not in documents)
        if found and (other.name == item.name or _is_node(store, prefix, other)):
            return True
    return False


def update_documents(
    store: Store,
    path: str,
    metadata: Node,
    change: Callable[[Node], Node],
    *,
    shape_only: bool = False,
    item: Format | None = None,
) -> Node:
    """Read a node's documents, change the metadata and write what differs; start again after a lost race.

    With `shape_only` the caller promises to change nothing but an array's shape and grid. Then documents equal to those
    that `metadata` was read from are not parsed again. `item` reads and writes the documents; by default it is the
    format of `metadata`.

    Raises
    ------
    NotFoundError
        If the node is gone.
    """
    item = item or find_format(metadata.format)
    prefix = f"{path}/" if path else ""
    for attempt in range(10_000):
        found = {key: store.get(prefix + key, with_generation=True) for key in item.keys}
        documents = {key: raw for key, (raw, _) in found.items() if raw is not None}
        same = shape_only and documents and documents == metadata.documents
        current = metadata if same else item.parse(documents)
        if current is None or type(current) is not type(metadata):
            raise NotFoundError("the node has been deleted or replaced", path=path or store.url)
        final, new = _changed(item, documents, current, change(current), shape_only)
        if type(final) is not type(metadata):
            raise MetadataError("the documents could not be read back", path=path or store.url)
        try:
            for key, serialized in new.items():
                raw = keep_mark(documents.get(key, b""), serialized)
                if raw != documents.get(key):
                    store.set(prefix + key, raw, if_generation=found[key][1])
        except ConflictError:
            back_off(attempt)
            continue
        finally:
            for key in new:
                document_cache.forget(store, prefix + key)
        return final
    raise ConflictError("the metadata kept changing under the update", path=path or store.url)


def _changed(
    item: Format, documents: dict[str, bytes], old: Node, new: Node, shape_only: bool
) -> tuple[Any, dict[str, bytes]]:
    """Return metadata as they will be read back, and the documents to write."""
    if shape_only and isinstance(old, ArrayMetadata) and isinstance(new, ArrayMetadata) and new.grid is old.grid:
        # only the numbers of the shape are written; not where an axis, and perhaps its chunks, have the length 0
        plain = not old.dense and all(old.shape)
        raw = with_shape(documents[item.shape_key], new.shape) if plain else None
        if raw is not None:
            written = {item.shape_key: raw}
            return replace(new, documents={**documents, **written}), written
    found = None if shape_only else _with_attributes(item, documents, old, new)
    if found is not None:
        return found
    written = item.serialize(new)
    # as it will be read back, which also checks that it can be
    return item.parse({**documents, **written}), written


def _with_attributes(
    item: Format, documents: dict[str, bytes], old: Node, new: Node
) -> tuple[Node, dict[str, bytes]] | None:
    """Do the work of `_changed` by splicing if only attributes differ; return ``None`` if that can't be done."""
    if item.attributes_at is None or type(old) is not type(new) or replace(new, attributes=old.attributes) != old:
        return None
    key, chain, fresh = item.attributes_at
    # `old` was parsed for this change, so a value that the user has changed in place is another object
    changes = {name: value for name, value in new.attributes.items() if old.attributes.get(name, Absent) is not value}
    changes |= dict.fromkeys(old.attributes.keys() - new.attributes.keys(), Absent)
    if key not in documents or not changes.keys().isdisjoint(item.interpreted_attributes):
        return None
    found = splice(documents[key], key, chain, old.attributes, changes, fresh)
    if found is None:
        return None
    raw, attributes = found
    return replace(new, attributes=attributes, documents={**documents, key: raw}), {key: raw}


def back_off(attempt: int) -> None:
    """Wait before another attempt: longer after each lost race, for a random part of at most 50 ms."""
    if attempt:
        time.sleep(random.random() * min(0.05, 0.0001 * 2 ** min(attempt, 9)))
