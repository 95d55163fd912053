"""A cache of array descriptions.

The arrays of a hierarchy often differ only in their names and attributes, and a program may open the same array many
times. Apart from attributes, the metadata depend only on the text of the description, so arrays with the same text can
share them.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

from tegula.metadata.nodes import ArrayMetadata

__all__ = ["Recent", "complete", "memoized"]

Description = dict[str, Any]
Read = Callable[[Description], ArrayMetadata]
_MAX_ENTRIES: Final = 256
_MAX_KEY_BYTES: Final = 2**14
_MAX_DOCUMENT_BYTES: Final = 2**13
_MARSHAL_VERSION: Final = 2  # later versions may write equal values differently


def memoized(read: Read) -> Read:
    """Cache the results of a function that reads the JSON description of an array, without its attributes.

    Arrays share a cached result, so a result is not cached if a caller could change it in place.
    """
    cache: dict[bytes, ArrayMetadata] = {}

    @wraps(read)
    def look_up(description: Description) -> ArrayMetadata:
        key = marshal.dumps(description, _MARSHAL_VERSION)  # unlike ==, it distinguishes 1, 1.0 and true
        metadata = cache.get(key)
        if metadata is None:
            metadata = read(description)
            if len(key) <= _MAX_KEY_BYTES and _is_shareable(metadata):
                if len(cache) >= _MAX_ENTRIES:
                    cache.clear()
                cache[key] = metadata
        return metadata

    return look_up


class Recent:
    """A cache of the descriptions in small documents, by their bytes, so that they need not be parsed again."""

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[ArrayMetadata | None, bytes]] = {}

    def get(self, raw: bytes) -> tuple[ArrayMetadata | None, dict[str, Any]] | None:
        """Return the description of an array in a document, ``None`` for a group, and new attributes.

        The result is ``None`` if the document is not known.
        """
        # a lookup hashes the whole document, which would take long for the metadata of a large hierarchy
        entry = self._entries.get(raw) if len(raw) <= _MAX_DOCUMENT_BYTES else None
        return None if entry is None else (entry[0], marshal.loads(entry[1]))

    def keep(self, raw: bytes, array: ArrayMetadata | None, attributes: dict[str, Any]) -> None:
        """Cache the description and attributes in a document, unless a caller may change the description in place."""
        if len(raw) <= _MAX_DOCUMENT_BYTES and (array is None or _is_shareable(array)):
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
            self._entries[raw] = array, marshal.dumps(attributes)


def _is_shareable(metadata: ArrayMetadata) -> bool:
    """Make the fill value read-only and return True; return False for objects and records, which can still change."""
    dtype = metadata.data_type.numpy
    if dtype.hasobject or dtype.names is not None:
        return False
    if metadata.fill_value is not None:
        metadata.fill_value.flags.writeable = False
    return True


def complete(
    array: ArrayMetadata,
    attributes: Mapping[str, Any],
    documents: Mapping[str, bytes],
    dimension_names: tuple[str | None, ...] | None,
) -> ArrayMetadata:
    """Return a shared description with the members that belong to one array; faster than `dataclasses.replace`.

    Parameters
    ----------
    array : ArrayMetadata
        The shared description.
    attributes, documents, dimension_names
        As in `ArrayMetadata`.
    """
    return ArrayMetadata(
        shape=array.shape,
        data_type=array.data_type,
        grid=array.grid,
        keys=array.keys,
        codecs=array.codecs,
        fill_value=array.fill_value,
        attributes=attributes,
        dimension_names=dimension_names,
        format=array.format,
        dense=array.dense,
        stored_nbytes=array.stored_nbytes,
        extra=array.extra,
        documents=documents,
    )
