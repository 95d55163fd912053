"""Creating the documents of a node exactly once, and changing them without a lost update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tegula.engine.caches import document_cache
from tegula.engine.concurrency.pool import gather
from tegula.engine.concurrency.reservations import keep_mark
from tegula.engine.concurrency.retries import back_off
from tegula.engine.documents.finding import has_document, is_node
from tegula.engine.documents.forgetting import forget
from tegula.engine.documents.unpickled import forget_unpickled
from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, NotFoundError, StoreError, TegulaError
from tegula.formats import FORMATS, Format, find_format, keys_of_array
from tegula.formats.keys import NETCDF_KEY
from tegula.formats.located.members import with_shape
from tegula.formats.located.splicing import Absent, splice
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.runtime.frozen import replace
from tegula.stores import ABSENT, Generation, Store
from tegula.stores.capabilities import delete_if

if TYPE_CHECKING:
    from tegula.engine.stored.array import StoredArray
    from tegula.engine.stored.reach import Reach

__all__ = ["create_documents", "update_documents"]

Node = TypeVar("Node", bound=NodeMetadata)


def create_documents(
    store: Store,
    path: str,
    fmt: Format,
    metadata: NodeMetadata,
    overwrite: bool,
    documents: dict[str, bytes] | None = None,
) -> dict[str, bytes]:
    """Write the documents of a new node; if several processes create it at the same time, exactly one succeeds.

    Parameters
    ----------
    store, path, fmt, metadata
        Where and in which format to write the node, and its description.
    overwrite : bool
        Whether an existing node is overwritten.
    documents : dict of str to bytes, optional
        The result of ``fmt.serialize(metadata)``, if the caller has it already.

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
    documents = fmt.serialize(metadata) if documents is None else documents
    result = documents

    def write() -> dict[str, tuple[bytes | None, Generation]]:
        nonlocal result
        result, written = _create_documents(store, path, fmt, metadata, overwrite, documents)
        return {prefix + key: answer for key, answer in written.items()}

    forget(store, prefix)
    try:
        document_cache.keep(store, write)
    except BaseException:
        document_cache.forget(store, prefix)
        raise
    finally:
        forget(store, prefix, documents=False)
    return result


def _create_documents(
    store: Store, path: str, fmt: Format, metadata: NodeMetadata, overwrite: bool, documents: dict[str, bytes]
) -> tuple[dict[str, bytes], dict[str, tuple[bytes | None, Generation]]]:
    """Do what `create_documents` does, but return each document by key with its generation, if known."""
    prefix = f"{path}/" if path else ""
    main = next(key for key in fmt.node_keys if key in documents)
    keys = _asked(fmt, store)
    later = keys[keys.index(main) + 1 :]
    others = [key for key in later if "/" not in key or key in documents]
    others.sort(key=lambda key: key == fmt.shape_key)  # written last, since no array opens without it
    before = {key: generation for key, (_, generation) in _with_generations(store, prefix, others).items()}
    if before.get(fmt.shape_key, ABSENT) != ABSENT and not store.exists(prefix + main):
        # a leftover of another node: together with a new document it would make a readable array
        with suppress(ConflictError):
            delete_if(store, prefix + fmt.shape_key, before[fmt.shape_key])
            before[fmt.shape_key] = ABSENT
    # the document that makes the node is written first and decides the race, so that the loser changes nothing else
    made = store.set(prefix + main, documents[main]) if overwrite else _create_main(store, path, fmt, main, documents)
    written: dict[str, tuple[bytes | None, Generation]] = {main: (documents[main], made)}
    try:

        def store_one(key: str) -> None:
            written[key] = None, ABSENT
            if key in documents:
                raw = documents[key]
                written[key] = raw, store.set(prefix + key, raw, if_generation=before[key])
            elif before[key] != ABSENT:
                delete_if(store, prefix + key, before[key])  # a leftover of another node

        gather(store_one, others[:-1], store.concurrency)
        gather(store_one, others[-1:], 0)
    except ConflictError:  # another process has opened the new node and set attributes
        mine = metadata.attributes
        current = update_documents(
            store, path, metadata, lambda written: replace(written, attributes={**mine, **written.attributes}), fmt=fmt
        )
        return {**documents, **current.documents}, {}
    return documents, written


def _with_generations(store: Store, prefix: str, keys: Sequence[str]) -> dict[str, tuple[bytes | None, Generation]]:
    """Return documents and their generations, by key relative to the node."""
    return dict(zip(keys, gather(lambda key: store.get(prefix + key, with_generation=True), keys, store.concurrency)))


def _create_main(store: Store, path: str, fmt: Format, main: str, documents: Mapping[str, bytes]) -> Generation:
    """Write the document that makes a node, unless there is a node of any format; return the document's generation.

    If two creators of different formats see each other's document, both delete their own and try again.
    """
    prefix = f"{path}/" if path else ""
    for attempt in range(10_000):
        try:
            mine = store.set(prefix + main, documents[main], if_generation=ABSENT)
        except ConflictError:
            break
        if not _has_rival(store, path, fmt, documents):
            return mine
        with suppress(ConflictError):
            delete_if(store, prefix + main, mine)
        back_off(attempt + 1)
        if _has_rival(store, path, fmt, documents):
            break
    raise AlreadyExistsError(
        "something already exists at this path; pass overwrite=True to replace it",
        path=path or store.url,
        key=prefix + main,
    )


def _has_rival(store: Store, path: str, fmt: Format, documents: Mapping[str, bytes]) -> bool:
    """Return whether there are documents of a node other than those in `documents`."""
    prefix = f"{path}/" if path else ""
    keys = [key for other in FORMATS.values() for key in other.node_keys if key not in documents]
    answers = gather(partial(has_document, store, prefix), keys, store.concurrency)
    there = {key for key, exists in zip(keys, answers) if exists}  # most often there is none
    rivals = [other for other in FORMATS.values() if not there.isdisjoint(other.node_keys)] if there else []
    return any(other.name == fmt.name or is_node(store, prefix, other) for other in rivals)


def _asked(fmt: Format, store: Store) -> tuple[str, ...]:
    """Return the keys of the documents of a node; a remote store returns all in one wave, and they are cached."""
    return tuple(key for key in fmt.keys if key != NETCDF_KEY or not store.is_remote)


def update_documents(
    store: Store,
    path: str,
    metadata: Node,
    change: Callable[[Node], Node],
    *,
    shape_only: bool = False,
    fmt: Format | None = None,
    reach: Reach | None = None,
    array: StoredArray | None = None,
) -> Node:
    """Read a node's documents, change the metadata and write the documents that differ; start again after a lost race.

    With `shape_only`, `change` may change only the shape and the grid of an array, and the documents are not parsed
    again if they are the ones from which `metadata` was read. `fmt` is the format that reads and writes the documents,
    by default that of `metadata`. `reach` receives the generations of the document that holds the shape. `array` is the
    array that `metadata` belongs to.

    Raises
    ------
    NotFoundError
        If the node is gone, or another one has taken its place.
    """
    fmt = fmt or find_format(metadata.format)
    prefix = f"{path}/" if path else ""
    local_array = isinstance(metadata, ArrayMetadata) and not store.is_remote
    keys = keys_of_array(fmt) if local_array else _asked(fmt, store)

    check = partial(node.check, store) if array is not None and (node := array.node) is not None else bool

    def decide(stored_documents: Mapping[str, tuple[bytes | None, Generation]]) -> tuple[Node, dict[str, bytes]]:
        """Return the changed metadata, and the new bytes of the documents to write."""
        documents = {key: raw for key, (raw, _) in stored_documents.items() if raw is not None}
        same = shape_only and documents and documents == metadata.documents
        current = metadata if same else fmt.parse(documents)
        if reach is not None:
            reach.begin(stored_documents.get(fmt.shape_key, (None, None))[1])
        if current is None or type(current) is not type(metadata):
            raise NotFoundError("the node has been deleted or replaced", path=path or store.url)
        check(current)
        final, new = _changed(fmt, documents, current, change(current), shape_only)
        if not isinstance(final, type(metadata)):
            raise MetadataError("the documents could not be read back", path=path or store.url)
        return final, {
            key: marked
            for key, raw in new.items()
            if (marked := keep_mark(documents.get(key, b""), raw)) != documents.get(key)
        }

    def store_one(key: str, old: Generation, raw: bytes) -> None:
        generation = _replace(store, prefix + key, old, raw)
        if reach is not None and key == fmt.shape_key:
            reach.end(generation, raw)

    if (updated := _update_known(store, prefix, fmt, decide, store_one, shape_only)) is not None:
        return updated
    last = _last_stored(metadata, keys, fmt, reach) if shape_only and local_array else {}
    for attempt in range(10_000):
        known = {} if attempt else last
        stored_documents = known or _read_and_keep(store, prefix, keys)
        try:
            final, new = decide(stored_documents)
        except TegulaError:
            if not known:
                raise
            continue  # the stored document may allow the change; if it does not, the next attempt raises the error
        if known and [*new] != [fmt.shape_key]:
            continue
        try:
            for key, raw in new.items():
                store_one(key, stored_documents[key][1], raw)
        except ConflictError:
            back_off(attempt)
            continue
        return final
    raise ConflictError("the metadata kept changing during the update", path=path or store.url)


def _last_stored(
    metadata: NodeMetadata, keys: Sequence[str], fmt: Format, reach: Reach | None
) -> dict[str, tuple[bytes | None, Generation]]:
    """Return the documents as this object knows them, if it has stored the shape before.

    Most probably the document of the shape is unchanged, and the condition of the write proves it. The shape does not
    depend on the other documents.
    """
    if reach is None or reach.document is None:
        return {}
    return {**{key: (metadata.documents.get(key), None) for key in keys}, fmt.shape_key: reach.document}


def _read_and_keep(store: Store, prefix: str, keys: Sequence[str]) -> dict[str, tuple[bytes | None, Generation]]:
    if not store.is_remote:
        return {key: store.get(prefix + key, with_generation=True) for key in keys}
    values = document_cache.keep(store, lambda: _with_generations(store, "", [prefix + key for key in keys]))
    return {key: values[prefix + key] for key in keys}


def _replace(store: Store, key: str, old: Generation, raw: bytes) -> Generation:
    """Store a document on condition that it has the generation `old`, cache it, and return its generation."""
    try:
        written = raw, store.set(key, raw, if_generation=old)
    except BaseException:
        document_cache.forget(store, key)
        raise
    document_cache.replace(store, key, old, written)
    forget_unpickled(store, key)
    return written[1]


def _update_known(
    store: Store,
    prefix: str,
    fmt: Format,
    decide: Callable[[Mapping[str, tuple[bytes | None, Generation]]], tuple[Node, dict[str, bytes]]],
    store_one: Callable[[str, Generation, bytes], None],
    shape_only: bool,
) -> Node | None:
    """Change cached documents without reading them first; return ``None`` if that is not possible.

    One document is written, on condition that it is unchanged. That is sufficient if there are no other documents, or
    if only the shape changes, since the shape does not depend on the other documents.
    """
    if not document_cache.applies(store) or (len(fmt.keys) > 1 and not shape_only):
        return None
    keys = _asked(fmt, store)
    known = document_cache.known(store, [prefix + key for key in keys])
    if known is None:
        return None
    stored_documents = dict(zip(keys, known))
    try:
        final, new = decide(stored_documents)
    except Exception:  # noqa: BLE001 - the present documents may allow it; if not, the error is raised for them
        return None
    main = fmt.node_keys[0]
    if [*new] != [main]:
        return None
    others = [key for key in keys if key != main]

    # the other documents are read in the same wave, so that the result has the present attributes
    def act(key: str) -> tuple[bytes | None, Generation]:
        if key == main:
            store_one(key, stored_documents[key][1], new[key])
            return new[key], ABSENT
        try:
            return store.get(prefix + key, with_generation=True)
        except StoreError:
            return stored_documents[key]

    try:
        present = dict(zip([main, *others], gather(act, [main, *others], store.concurrency)))
    except ConflictError:
        for key in others:
            document_cache.forget(store, prefix + key)
        return None
    if all(present[key][0] == stored_documents[key][0] for key in others):
        return final
    with suppress(TegulaError):  # the change has been made, even if another writer has damaged the attributes
        read_back = fmt.parse({key: raw for key, (raw, _) in present.items() if raw is not None})
        if isinstance(read_back, type(final)):
            return read_back
    return final


def _changed(
    fmt: Format, documents: dict[str, bytes], old: Node, new: Node, shape_only: bool
) -> tuple[Any, dict[str, bytes]]:
    """Return the changed metadata as it will be read back, and the documents to write."""
    if shape_only and isinstance(old, ArrayMetadata) and isinstance(new, ArrayMetadata) and new.grid is old.grid:
        # only the numbers of the shape change in the document, unless an axis (and perhaps its chunks) has length 0
        plain = fmt.shape_member and not old.dense and all(old.shape)
        raw = with_shape(documents[fmt.shape_key], new.shape) if plain else None
        if raw is not None:
            written = {fmt.shape_key: raw}
            return replace(new, documents={**documents, **written}), written
    spliced = None if shape_only else _with_attributes(fmt, documents, old, new)
    if spliced is not None:
        return spliced
    written = fmt.serialize(new)
    # parse the documents, which also checks that they can be read
    return fmt.parse({**documents, **written}), written


def _with_attributes(
    fmt: Format, documents: dict[str, bytes], old: Node, new: Node
) -> tuple[Node, dict[str, bytes]] | None:
    """Do what `_changed` does by splicing if only attributes differ; return ``None`` if that is not possible."""
    if fmt.attributes_at is None or type(old) is not type(new) or replace(new, attributes=old.attributes) != old:
        return None
    key, chain, fresh = fmt.attributes_at
    # `old` was parsed for this change, so a value that the user has changed in place is a different object
    changes = {name: value for name, value in new.attributes.items() if old.attributes.get(name, Absent) is not value}
    changes |= dict.fromkeys(old.attributes.keys() - new.attributes.keys(), Absent)
    if key not in documents or not changes.keys().isdisjoint(fmt.interpreted_attributes):
        return None
    spliced = splice(documents[key], key, chain, old.attributes, changes, fresh)
    if spliced is None:
        return None
    raw, attributes = spliced
    return replace(new, attributes=attributes, documents={**documents, key: raw}), {key: raw}
