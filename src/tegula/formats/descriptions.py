"""Descriptions of arrays that were read before.

The arrays of a hierarchy often differ in nothing but their names and attributes, and a program opens the same array
many times. What a description means depends on nothing but its text, so it need not be found out again.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from typing import Any, Final

from tegula.metadata.nodes import ArrayMetadata

__all__ = ["complete", "remembering"]

Description = dict[str, Any]
Read = Callable[[Description], ArrayMetadata]
_MOST: Final = 256
_LARGEST: Final = 2**14
_VERSION: Final = 2  # later ones may write equal values differently


def remembering(read: Read) -> Read:
    """Wrap a function that reads the JSON of an array, without its attributes, so that it remembers its answers.

    Those are shared, and so only kept if nothing in them is likely to be changed in place by whoever gets hold of it.
    """
    known: dict[bytes, ArrayMetadata] = {}

    def look_up(description: Description) -> ArrayMetadata:
        key = marshal.dumps(description, _VERSION)  # which keeps 1, 1.0 and true apart
        found = known.get(key)
        if found is None:
            found = read(description)
            if len(key) <= _LARGEST and _may_be_shared(found):
                if len(known) >= _MOST:
                    known.clear()
                known[key] = found
        return found

    return look_up


def _may_be_shared(metadata: ArrayMetadata) -> bool:
    """Make the fill value read-only; objects, and the types of records, could be changed all the same."""
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
    """Return what a description says together with what belongs to the one array; faster than `dataclasses.replace`."""
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
