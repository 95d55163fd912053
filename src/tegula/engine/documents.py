"""Metadata documents in a store: found, created once, and changed without losing anyone's change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from tegula.errors import AlreadyExistsError, ConflictError, MetadataError, NotFoundError, TegulaError
from tegula.formats import FORMATS, Format, find_format, parse
from tegula.formats.documents import MAX_BYTES
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores import ABSENT, Store

__all__ = ["back_off", "create_documents", "fetch_documents", "implicit_group", "read_metadata", "update_documents"]

_ALL_KEYS = tuple(key for item in FORMATS.values() for key in item.keys)
Node = TypeVar("Node", bound=NodeMetadata)


def fetch_documents(store: Store, path: str, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the documents that exist under a node's path, by key relative to it."""
    prefix = f"{path}/" if path else ""
    most = (0, MAX_BYTES + 1)  # one more than is accepted, however long the value is
    found = {key: store.get(prefix + key, most) for key in keys}
    return {key: raw for key, raw in found.items() if raw is not None}


def read_metadata(store: Store, path: str, format: str | None = None) -> NodeMetadata | None:
    """Return what is stored at a path, detecting the format unless it is given; ``None`` if no node is there.

    Raises
    ------
    MetadataError, UnsupportedError
        If there are documents and they can't be read.
    """
    keys = _ALL_KEYS if format is None else find_format(format).keys
    try:
        documents = fetch_documents(store, path, keys)
        return parse(documents) if format is None else find_format(format).parse(documents)
    except TegulaError as error:
        prefix = f"{path}/" if path else ""
        if error.key is not None and not error.key.startswith(prefix):
            error.key = prefix + error.key
        error.within(path=f"{store.url}/{path}".rstrip("/"))
        raise


def implicit_group(store: Store, path: str, format: str | None) -> GroupMetadata | None:
    """Return a group without documents if there are nodes directly below the path."""
    prefix = f"{path}/" if path else ""
    wanted = [find_format(format)] if format else [*FORMATS.values()]
    for child in store.list_dir(prefix)[1]:
        for item in wanted:
            if any(store.exists(child + key) for key in item.keys[:2] if key not in ("attrs", "__zattr__")):
                return GroupMetadata(format=item.name)
    return None


def create_documents(
    store: Store, path: str, item: Format, metadata: NodeMetadata, overwrite: bool
) -> dict[str, bytes]:
    """Write the documents of a new node; of several creators at once exactly one wins.

    Raises
    ------
    AlreadyExistsError
        If the node exists and `overwrite` is false.
    """
    prefix = f"{path}/" if path else ""
    documents = item.serialize(metadata)
    main, *others = item.keys if item.keys[0] in documents else (item.keys[1], *item.keys[2:])
    before = {key: store.get(prefix + key, with_generation=True)[1] for key in others}
    try:
        # the document that makes a node of it decides who wins, so that who loses touches nothing of the winner's
        store.set(prefix + main, documents[main], if_generation=None if overwrite else ABSENT)
    except ConflictError:
        raise AlreadyExistsError("there is a node already", path=path or store.url, key=prefix + main) from None
    try:
        for key, generation in before.items():
            if key in documents:
                store.set(prefix + key, documents[key], if_generation=generation)
            elif generation != ABSENT:
                store.delete(prefix + key, if_generation=generation)  # left behind by another node
    except ConflictError:  # somebody has opened the node already, and set attributes of it
        mine = metadata.attributes
        current = update_documents(
            store, path, metadata, lambda found: replace(found, attributes={**mine, **found.attributes})
        )
        return {**documents, **current.documents}
    return documents


def update_documents(store: Store, path: str, metadata: Node, change: Callable[[Node], Node]) -> Node:
    """Read a node's documents, change the metadata and write what differs, again and again until nobody came between.

    Raises
    ------
    NotFoundError
        If the node is gone.
    """
    item = find_format(metadata.format)
    prefix = f"{path}/" if path else ""
    for attempt in range(10_000):
        found = {key: store.get(prefix + key, with_generation=True) for key in item.keys}
        documents = {key: raw for key, (raw, _) in found.items() if raw is not None}
        current = item.parse(documents)
        if current is None or type(current) is not type(metadata):
            raise NotFoundError("the node has been deleted or replaced", path=path or store.url)
        new = item.serialize(change(current))
        final = item.parse({**documents, **new})  # what JSON makes of it, and whether it can be read back at all
        if final is None or type(final) is not type(metadata):
            raise MetadataError("the documents could not be read back", path=path or store.url)
        try:
            for key, raw in new.items():
                if raw != documents.get(key):
                    store.set(prefix + key, raw, if_generation=found[key][1])
        except ConflictError:
            back_off(attempt)
            continue
        return final
    raise ConflictError("the metadata kept changing under the update", path=path or store.url)


def back_off(attempt: int) -> None:
    """Wait a little longer after each lost race, and never as long as the others."""
    if attempt:
        time.sleep(random.random() * min(0.05, 0.0001 * 2 ** min(attempt, 9)))
