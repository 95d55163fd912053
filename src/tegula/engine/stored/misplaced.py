"""Chunks under the keys of another chunk key encoding than the document states, which nothing reads.

They come from copies that change separators, from documents written by hand, and from Zarr v2 documents that leave out
``dimension_separator``. `tegula.check` finds and repairs them; other jobs do not take them for missing chunks.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tegula.engine.stored.array import StoredArray
from tegula.engine.stored.visiting import is_inside
from tegula.errors import MetadataError, StoreError
from tegula.formats import Format, find_format
from tegula.metadata.chunk_keys import ENCODINGS, ChunkKeyEncoding
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.quantities import counted

__all__ = ["Misplaced", "refuse_misplaced"]

Coords = tuple[int, ...]
_KEPT: Final = 100  # coordinates of misplaced chunks
_LISTED: Final = 100  # keys of an array to look at before a job


@dataclass(slots=True)
class Misplaced:
    """The chunks of an array under keys of other encodings."""

    counts: dict[ChunkKeyEncoding, int] = field(default_factory=dict)
    some: list[Coords] = field(default_factory=list)  # coordinates of the first
    example: str = ""  # the first key

    def add(self, metadata: ArrayMetadata, name: str) -> bool:
        """Count a key below the array, which is not one of its encoding; return whether it is one of another."""
        for keys in () if metadata.dense else ENCODINGS:
            coords = keys.decode(name, metadata.ndim)
            if coords is not None and is_inside(metadata, coords):
                self.counts[keys] = self.counts.get(keys, 0) + 1
                self.example = self.example or name
                if len(self.some) < _KEPT:
                    self.some.append(coords)
                return True
        return False

    def field_of(self, fmt: Format) -> tuple[str, Any] | None:
        """Return the field of the document that names the encoding, and its value, if the format has one for it."""
        (keys, *others) = self.counts
        return None if others or fmt.key_field is None else fmt.key_field(keys)

    def message(self, fmt: Format, metadata: ArrayMetadata) -> str:
        """Return a sentence with the field to change."""
        own, field = metadata.keys.encode(self.some[0]), self.field_of(fmt)
        if field:
            remedy = f"they are those of {field[0]} {json.dumps(field[1])}"
        else:
            remedy = "they are those of several encodings" if len(self.counts) > 1 else f"{fmt.name} can't name them"
        chunks = counted(sum(self.counts.values()), "chunk")
        text = f"{chunks} under keys such as {self.example!r}, where the document means {own!r}"
        return f"{text}, so that nothing reads them; {remedy}"


def refuse_misplaced(array: StoredArray) -> None:
    """Raise `MetadataError` if the first keys of an array are of another encoding, so that it would look empty."""
    metadata, store, prefix = array.metadata, array.store, array.prefix
    if metadata.dense or not store.listable or 0 in metadata.shape:
        return
    misplaced = Misplaced()
    with suppress(StoreError):  # reading will raise it where it matters
        if store.exists(prefix + metadata.keys.encode((0,) * metadata.ndim)):
            return
        for key in islice(store.list_prefix(prefix), _LISTED):
            name = key[len(prefix) :]
            if metadata.keys.decode(name, metadata.ndim) is not None:
                return
            misplaced.add(metadata, name)
    if misplaced.counts:
        fmt = find_format(metadata.format)
        field = misplaced.field_of(fmt)
        message = f"{misplaced.message(fmt, metadata)}; run tegula check --repair"
        raise MetadataError(message, key=prefix + fmt.shape_key, field=field and field[0])
