"""Metadata documents in a store: finding them, creating them once, and changing them without a lost update."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from tegula.engine import document_cache
from tegula.engine.caches import forgets
from tegula.engine.far import get_many
from tegula.engine.pool import gather
from tegula.engine.reservations import keep_mark
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, NotFoundError, StoreError, TegulaError
from tegula.formats import FORMATS, Format, find_format, parse
from tegula.formats.documents import MAX_BYTES
from tegula.formats.members import with_shape
from tegula.formats.splicing import Absent, splice
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores import ABSENT, Generation, Store
from tegula.stores.capabilities import delete_if

__all__ = [
    "back_off",
    "create_documents",
    "documents_of",
    "fetch_documents",
    "has_node",
    "implicit_group",
    "members_of_folder",
    "nodes_below",
    "read_many",
    "read_metadata",
    "update_documents",
]

_ALL_KEYS = tuple(key for item in FORMATS.values() for key in item.keys)
_AHEAD = 16  # times the requests under way at once: nodes that are looked up together
_DEPTH, _LISTINGS = 4, 200  # levels and listings of a search for nodes in a directory, which may hold anything
Node = TypeVar("Node", bound=NodeMetadata)
T = TypeVar("T")


class _Documents(Mapping[str, bytes]):
    """The documents under a node's path, by key relative to it, each fetched when it is first asked for.

    Parameters
    ----------
    store, path
        Where the node is.
    found : dict of str to bytes or None, optional
        Documents that have been fetched already; ``None`` stands for one that does not exist.
    keys : sequence of str, optional
        Those that may be among the documents that this process keeps; the first one to be missing fetches all others.
    """

    def __init__(
        self, store: Store, path: str, found: dict[str, bytes | None] | None = None, keys: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._prefix = f"{path}/" if path else ""
        self._found: dict[str, bytes | None] = {} if found is None else found
        self._keys = keys
        self._used: set[str] = set()
        self._fetch_kept([*keys])

    def _fetch_kept(self, keys: list[str]) -> None:
        if keys:
            with suppress(StoreError):  # each is asked for by itself then, and raises its own error
                found = document_cache.fetch(self._store, [self._prefix + key for key in keys], MAX_BYTES + 1)
                self._found.update((key.removeprefix(self._prefix), value) for key, value in found.items())

    def settle(self) -> None:
        """Keep those documents only that were asked for, and none if there is no node."""
        if self._keys:
            is_there = any(self._found.get(key) is not None for key in self._used)
            used = {self._prefix + key for key in self._used} if is_there else ()
            document_cache.settle(self._store, [self._prefix + key for key in self._keys], used)

    def _fetch(self, key: str) -> bytes | None:
        self._used.add(key)
        if key not in self._found and self._found and key in self._keys:
            self._fetch_kept([other for other in self._keys if other not in self._found])
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


def documents_of(
    store: Store, paths: Sequence[str], keys: Sequence[str] = _ALL_KEYS, *, kept: bool = False
) -> list[Mapping[str, bytes]]:
    """Return the documents of nodes, by key relative to the node.

    Where the store is far away or has a `get_many` of its own, all are fetched together. Elsewhere, and after an error,
    each document is fetched when it is first asked for, and raises its own error. With `kept`, those of a single node
    may be the ones that this process keeps, as the setting ``recheck`` allows.
    """
    answers: Sequence[bytes | None] = ()
    prefixes = [f"{path}/" if path else "" for path in paths]
    if kept and len(paths) == 1 and document_cache.applies(store):
        return [_Documents(store, paths[0], keys=keys)]
    if store.concurrency or type(store).get_many is not Store.get_many:
        # never read more than one byte above the limit of the parser
        wanted = [(prefix + key, (0, MAX_BYTES + 1)) for prefix in prefixes for key in keys]
        with suppress(StoreError):
            answers = get_many(store, wanted)
    rows = [answers[start : start + len(keys)] for start in range(0, len(answers), len(keys) or 1)]
    found: list[dict[str, bytes | None]] = [dict(zip(keys, row)) for row in rows] or [{} for _ in paths]
    return [_Documents(store, path, known) for path, known in zip(paths, found)]


def fetch_documents(store: Store, path: str, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the documents that exist under a node's path, by key relative to it."""
    keys = [*keys]
    documents = documents_of(store, [path], keys)[0]
    return {key: documents[key] for key in keys if key in documents}


def read_metadata(
    store: Store,
    path: str,
    format: str | None = None,
    documents: Mapping[str, bytes] | None = None,
    *,
    kept: bool = False,
) -> NodeMetadata | None:
    """Read the metadata of the node at a path; return ``None`` if there is none.

    Parameters
    ----------
    store, path
        Where the node is.
    format : str, optional
        Its format; detected if not given.
    documents : mapping of str to bytes, optional
        Its documents, if they have been fetched already.
    kept : bool
        Whether documents may be used that this process keeps, as the setting ``recheck`` allows.

    With `kept`, for opening a node, documents that this process keeps may be used.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    try:
        item = None if format is None else find_format(format)
        if documents is None:
            documents = documents_of(store, [path], _ALL_KEYS if item is None else item.keys, kept=kept)[0]
        found = (
            parse(documents)
            if item is None
            else item.parse({key: documents[key] for key in item.keys if key in documents})
        )
        if isinstance(documents, _Documents):
            documents.settle()
        return found
    except TegulaError as error:
        prefix = f"{path}/" if path else ""
        if error.key is not None and not error.key.startswith(prefix):
            error.key = prefix + error.key
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise


def read_many(store: Store, paths: Sequence[str], format: str | None = None) -> list[NodeMetadata | TegulaError | None]:
    """Read the metadata of nodes in two waves at most: as `read_metadata` does, but return its errors.

    With `format` the result is ``None`` where there are no documents of that format, even if there are others.
    """
    formats = [*FORMATS.values()]
    item = None if format is None else find_format(format)
    # the documents that decide for an array: those of the format and of newer ones, which take precedence
    keys = [key for one in formats[: None if item is None else formats.index(item) + 1] for key in one.keys]
    found: list[NodeMetadata | TegulaError | None] = [None] * len(paths)
    undecided: dict[int, dict[str, bytes]] = {}
    for number, documents in enumerate(documents_of(store, paths, keys)):
        try:
            known = {key: documents[key] for key in keys if key in documents}
        except TegulaError as error:
            found[number] = error
            continue
        if item is not None and known.keys().isdisjoint(item.node_keys):
            continue
        node = None
        with suppress(TegulaError):
            node = parse(known)
        if isinstance(node, ArrayMetadata):
            found[number] = node
        else:
            undecided[number] = known
    # the other ones, where there may be an array of an older format beside a group
    others = [key for key in _ALL_KEYS if key not in keys]
    rest = documents_of(store, [paths[number] for number in undecided], others)
    for (number, known), documents in zip(undecided.items(), rest):
        try:
            more = {key: documents[key] for key in others if key in documents}
            found[number] = read_metadata(store, paths[number], documents={**known, **more})
        except TegulaError as error:
            found[number] = error
    return found


def implicit_group(store: Store, path: str, format: str | None, *, deep: bool = False) -> GroupMetadata | None:
    """Return an implicit group, one without documents, if there are nodes directly below the path.

    With `deep`, nodes of formats that have no group documents at all count further down, too. That search ends after
    4 levels or 200 listings. A store that can't be listed shows no implicit group.
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
                    return []  # it may belong to another user or program
                raise

        def is_there(place: tuple[str, Format], depth: int = depth) -> bool:
            return has_node(store, *place) and (not depth or _is_node(store, *place))

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
    """Yield items in groups that are looked up together: single ones where the store is not far away."""
    size = _AHEAD * store.concurrency or 1
    return (items[start : start + size] for start in range(0, len(items), size))


def _chosen(store: Store, items: Sequence[T], test: Callable[[T], bool]) -> Iterator[T]:
    """Yield the items for which `test`, which asks the store, is true."""
    for some in _batched(items, store):
        yield from (item for item, passes in zip(some, gather(test, some, store.concurrency)) if passes)


def _is_node(store: Store, prefix: str, item: Format) -> bool:
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
    if not store.concurrency:  # a store may find documents directly below faster than one by one
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
        return any(gather(lambda key: _has_document(store, prefix, key), item.node_keys, store.concurrency))
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
    before = {key: generation for key, (_, generation) in _with_generations(store, prefix, others).items()}
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

        def store_one(key: str) -> None:
            if key in documents:
                store.set(prefix + key, documents[key], if_generation=before[key])
            elif before[key] != ABSENT:
                delete_if(store, prefix + key, before[key])  # a leftover of another node

        gather(store_one, others[:-1], store.concurrency)
        gather(store_one, others[-1:], 0)
    except ConflictError:  # another process has opened the new node and set attributes
        mine = metadata.attributes
        current = update_documents(
            store, path, metadata, lambda found: replace(found, attributes={**mine, **found.attributes}), item=item
        )
        return {**documents, **current.documents}
    return documents


def _with_generations(store: Store, prefix: str, keys: Sequence[str]) -> dict[str, tuple[bytes | None, Generation]]:
    """Return documents and their generations, by key relative to the node."""
    return dict(zip(keys, gather(lambda key: store.get(prefix + key, with_generation=True), keys, store.concurrency)))


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
    if store.concurrency:  # all at once, and most often there is none
        keys = [key for other in FORMATS.values() for key in other.node_keys if key not in documents]
        if not any(gather(lambda key: _has_document(store, prefix, key), keys, store.concurrency)):
            return False
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

    def decide(found: Mapping[str, tuple[bytes | None, Generation]]) -> tuple[Node, dict[str, bytes]]:
        """Return the changed metadata, and the documents that differ from those that were found."""
        documents = {key: raw for key, (raw, _) in found.items() if raw is not None}
        same = shape_only and documents and documents == metadata.documents
        current = metadata if same else item.parse(documents)
        if current is None or type(current) is not type(metadata):
            raise NotFoundError("the node has been deleted or replaced", path=path or store.url)
        final, new = _changed(item, documents, current, change(current), shape_only)
        if not isinstance(final, type(metadata)):
            raise MetadataError("the documents could not be read back", path=path or store.url)
        marked = {key: keep_mark(documents.get(key, b""), raw) for key, raw in new.items()}
        return final, {key: raw for key, raw in marked.items() if raw != documents.get(key)}

    if (updated := _update_known(store, prefix, item, decide, shape_only)) is not None:
        return updated
    for attempt in range(10_000):
        found = _read_and_keep(store, prefix, item.keys)
        final, new = decide(found)
        try:
            for key, raw in new.items():
                _replace(store, prefix + key, found[key][1], raw)
        except ConflictError:
            back_off(attempt)
            continue
        return final
    raise ConflictError("the metadata kept changing under the update", path=path or store.url)


def _read_and_keep(store: Store, prefix: str, keys: Sequence[str]) -> dict[str, tuple[bytes | None, Generation]]:
    found = document_cache.keep(store, lambda: _with_generations(store, "", [prefix + key for key in keys]))
    return {key: found[prefix + key] for key in keys}


def _replace(store: Store, key: str, old: Generation, raw: bytes) -> None:
    """Store a document on condition that it has the generation `old`, and keep it."""
    try:
        written = raw, store.set(key, raw, if_generation=old)
    except BaseException:
        document_cache.forget(store, key)
        raise
    document_cache.replace(store, key, old, written)


def _update_known(
    store: Store,
    prefix: str,
    item: Format,
    decide: Callable[[Mapping[str, tuple[bytes | None, Generation]]], tuple[Node, dict[str, bytes]]],
    shape_only: bool,
) -> Node | None:
    """Change documents that this process keeps, without reading them first; return ``None`` if that can't be done.

    One document is written, on condition that it still is the one that is kept. That proves the decision if there are
    no others, or if only the shape is changed, which they do not influence.
    """
    if len(item.keys) > 1 and not shape_only:
        return None
    known = document_cache.known(store, [prefix + key for key in item.keys])
    if known is None:
        return None
    found = dict(zip(item.keys, known))
    try:
        final, new = decide(found)
    except Exception:  # noqa: BLE001 - the present documents may allow it; if not, the error is raised for them
        return None
    main = item.node_keys[0]
    if [*new] != [main]:
        return None
    others = [key for key in item.keys if key != main]

    # the other documents are read in the same wave, so that the result has the present attributes
    def act(key: str) -> tuple[bytes | None, Generation]:
        if key == main:
            _replace(store, prefix + key, found[key][1], new[key])
            return new[key], ABSENT
        try:
            return store.get(prefix + key, with_generation=True)
        except StoreError:
            return found[key]

    try:
        present = dict(zip([main, *others], gather(act, [main, *others], store.concurrency)))
    except ConflictError:
        for key in others:
            document_cache.forget(store, prefix + key)
        return None
    if all(present[key][0] == found[key][0] for key in others):
        return final
    with suppress(TegulaError):  # the change has been made, even if another writer has damaged the attributes
        read_back = item.parse({key: raw for key, (raw, _) in present.items() if raw is not None})
        if isinstance(read_back, type(final)):
            return read_back
    return final


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
