"""Chunks under the keys of another chunk key encoding than the document states, which nothing reads.

They come from copies that change separators, from documents written by hand, and from Zarr v2 documents that leave out
``dimension_separator``. `tegula.check` finds and repairs them; other jobs do not take them for missing chunks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from tegula import engine
from tegula.arrays.array import Array
from tegula.display.info import counted
from tegula.errors import ConflictError, MetadataError, StoreError
from tegula.formats import Format, find_format
from tegula.formats.documents import rewrite
from tegula.formats.styles import Style
from tegula.metadata.chunk_keys import ENCODINGS, ChunkKeyEncoding
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import Store

__all__ = ["Misplaced", "refuse_misplaced", "set_encoding"]

Coords = tuple[int, ...]
_KEPT: Final = 100  # coordinates of misplaced chunks
_LISTED: Final = 100  # keys of an array to look at before a job


class Misplaced:
    """The chunks of an array under keys of other encodings.

    Attributes
    ----------
    counts : dict of ChunkKeyEncoding to int
        Their numbers.
    """

    def __init__(self) -> None:
        self.counts: dict[ChunkKeyEncoding, int] = {}
        self._example = ""
        self._some: list[Coords] = []

    def add(self, metadata: ArrayMetadata, name: str) -> bool:
        """Count a key below the array, which is not one of its encoding; return whether it is one of another."""
        if metadata.dense:
            return False
        for keys in ENCODINGS:
            coords = keys.decode(name, metadata.ndim)
            if coords is not None and _is_in(metadata, coords):
                self.counts[keys] = self.counts.get(keys, 0) + 1
                self._example = self._example or name
                if len(self._some) < _KEPT:
                    self._some.append(coords)
                return True
        return False

    def unread(self, store: Store, prefix: str, metadata: ArrayMetadata) -> bool:
        """Return whether some of the chunks exist under these keys alone."""
        return not all(store.exists(prefix + metadata.keys.encode(coords)) for coords in self._some)

    def field(self, item: Format) -> tuple[str, Any] | None:
        """Return the field of the document that names the encoding, and its value, if the format has one for it."""
        (keys, *others) = self.counts
        return None if others or item.key_field is None else item.key_field(keys)

    def message(self, item: Format, metadata: ArrayMetadata) -> str:
        """Return a sentence with the field to change."""
        number = sum(self.counts.values())
        own = metadata.keys.encode(self._some[0])
        found = self.field(item)
        if found:
            remedy = f"they are those of {found[0]} {json.dumps(found[1])}"
        else:
            remedy = "they are those of several encodings" if len(self.counts) > 1 else f"{item.name} can't name them"
        text = f"{counted(number, 'chunk')} under keys such as {self._example!r}, where the document means {own!r}"
        return f"{text}, so that nothing reads them; {remedy}"


def _is_in(metadata: ArrayMetadata, coords: Coords) -> bool:
    return all(number < count for number, count in zip(coords, metadata.grid.counts(metadata.shape)))


def refuse_misplaced(array: Array) -> None:
    """Raise if the first keys of an array are those of another encoding, so that it would be read as fill values.

    Raises
    ------
    MetadataError
        If they are.
    """
    metadata, store = array.metadata, array.store
    prefix = f"{array.path}/" if array.path else ""
    if metadata.dense or not store.listable or 0 in metadata.shape:
        return
    found = Misplaced()
    with suppress(StoreError):  # reading will raise it where it matters
        if store.exists(prefix + metadata.keys.encode((0,) * metadata.ndim)):
            return
        for key in islice(store.list_prefix(prefix), _LISTED):
            name = key[len(prefix) :]
            if metadata.keys.decode(name, metadata.ndim) is not None:
                return
            found.add(metadata, name)
    if found.counts:
        item = find_format(metadata.format)
        field = found.field(item)
        raise MetadataError(
            f"{found.message(item, metadata)}; run tegula check --repair",
            key=prefix + item.shape_key,
            field=field and field[0],
        )


def set_encoding(store: Store, path: str, item: Format, documents: Mapping[str, bytes], field: tuple[str, Any]) -> None:
    """Write a field of an array's document, and of the copies of the document in consolidated metadata.

    Raises
    ------
    ConflictError
        If the document is no longer that in `documents`.
    """
    key = f"{path}/{item.shape_key}" if path else item.shape_key
    raw, generation = store.get(key, with_generation=True)
    if raw != documents[item.shape_key]:
        raise ConflictError("another process has changed the document; run the check again", key=key)
    new = rewrite(documents, item.shape_key, dict([field]), Style())
    _write(store, key, new, generation)
    parts = path.split("/") if path else []
    for depth in range(len(parts)):
        _set_copy(store, "/".join(parts[:depth]), "/".join(parts[depth:]), item, new)


def _set_copy(store: Store, path: str, name: str, item: Format, new: bytes) -> None:
    """Replace the document of a member in the consolidated metadata of a group, if there is a copy of it."""
    if item.consolidated is None or item.consolidate is None:
        return
    prefix = f"{path}/" if path else ""
    _, generation = store.get(prefix + item.consolidated_key, with_generation=True)
    documents = engine.fetch_documents(store, path, [*item.keys, item.consolidated_key])
    group, copies = item.parse(documents), item.consolidated(documents)
    if not isinstance(group, GroupMetadata) or copies is None or name not in copies:
        return
    own = {key: raw for key, raw in documents.items() if key in item.keys}
    members = {"": own, **{member: copies[member] for member in copies if member}}
    members[name] = {**copies[name], item.shape_key: new}
    for key, raw in item.consolidate(group, members.items()).items():
        _write(store, prefix + key, raw, generation)


def _write(store: Store, key: str, raw: bytes, generation: Any) -> None:
    try:
        store.set(key, raw, if_generation=generation)
    finally:
        engine.forget(store, key)
