"""CF masks: the value that marks missing data, stored where readers of each format look for it.

xarray reads the mask of a Zarr v2 array from its fill value. In Zarr v3 the fill value is only that of missing chunks,
and xarray reads the mask from the attribute ``_FillValue``, in an encoding of its own. Only arrays with names for all
dimensions count as data of xarray; others are not changed.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.formats import Format, find_format
from tegula.formats.dimension_names import attributes_without
from tegula.metadata.conventions import FILL, fill_attribute, fill_of_attribute, text_attribute
from tegula.metadata.data_types import DataType
from tegula.metadata.masks import as_attribute, fill_text
from tegula.metadata.nodes import ArrayMetadata

__all__ = ["attribute_of", "attributes_of", "keep_mask"]

_MASKED: Final = "biufc"  # types for which xarray has masks in both formats
_MOST_CHUNKS: Final = 2**20  # absent chunks that are written because the fill value changes


def keep_mask(source: Array, draft: ArrayMetadata, fmt: Format, notes: list[str]) -> tuple[ArrayMetadata, bool]:
    """Store the mask of an array where readers of the target's format look for it.

    Return the new array, not yet adapted to the format, with its mask, and whether absent chunks have to be written,
    since the fill value has changed. `notes` receives what could not be kept.
    """
    ways = find_format(draft.format).mask, fmt.mask
    if draft.dimension_names is None or ways[0] == ways[1] or "" in ways:
        return draft, False
    if ways[1] == "attribute":
        return as_attribute(draft, notes), False
    if draft.data_type.numpy.kind in "mMV" or draft.data_type.variable == "object":
        return draft, False
    new = _as_fill_value(draft)
    if _same_value(new.fill_value, draft.fill_value):
        return new, False
    missing = _missing_chunks(source, new)
    if missing > _MOST_CHUNKS:
        notes.append(
            f"the fill value {fill_text(draft)} is kept, which xarray reads as a missing value: "
            f"without it, {missing} chunks that are not stored would have to be written"
        )
        return draft, False
    now = fill_text(new) if new.fill_value is None else f"{fill_text(new)}, the value that marks missing data"
    notes.append(f"the fill value was {fill_text(draft)} and is now {now}; each chunk is stored")
    return new, True


def attributes_of(array: Array) -> dict[str, Any]:
    """Return the attributes as other formats know them; for data of xarray with ``_FillValue``, the missing value.

    Names, distances and units of dimensions in N5 are those of other formats, too.
    """
    portable = find_format(array.metadata.format).portable_attributes
    attributes = dict(array.attrs.asdict() if portable is None else portable(array.metadata))
    if array.dimension_names is None:
        return attributes
    attributes = {**attributes_without(attributes)}
    fill = array.conventions.fill
    if array.dtype.kind in _MASKED:
        attributes.pop(FILL, None)
        if fill is not None and not _is_nan(fill):  # NaN is missing anyway
            attributes[FILL] = fill.item()
    elif array.metadata.data_type.variable in ("string", "bytes") or array.dtype.kind in "SU":
        mask = attributes.pop("missing_value", None) if fill is None else text_attribute(fill.item())
        if mask:
            if attributes.get("missing_value") == mask:
                del attributes["missing_value"]
            attributes[FILL] = mask
    return attributes


def attribute_of(value: Any, data_type: DataType, draft: ArrayMetadata) -> Any:
    """Return the value that marks missing data as the attribute ``_FillValue`` has it in the format of `draft`."""
    way = find_format(draft.format).mask if draft.dimension_names is not None else ""
    encoded = fill_attribute(value, data_type, way)
    return fill_attribute(value, data_type, "") if encoded is None else encoded


def _as_fill_value(draft: ArrayMetadata) -> ArrayMetadata:
    """Make the value of the attribute the fill value of Zarr v2; it is undefined if no value marks missing data."""
    fill, attributes = draft.fill_value, dict(draft.attributes)
    plain = attributes.pop(FILL, None)
    new = fill_of_attribute(plain, draft.data_type)
    if new is None and plain is not None:  # unsigned, say, where the elements are signed; the attribute counts
        return replace(draft, fill_value=None)
    if _is_nan(fill) and (new is None or _is_nan(new)):
        new = fill  # with all its bits; NaN is missing anyway
    return replace(draft, fill_value=new, attributes=attributes)


def _is_nan(fill: npt.NDArray[Any] | None) -> bool:
    return fill is not None and fill.dtype.kind in "fc" and bool(np.isnan(fill))


def _same_value(one: npt.NDArray[Any] | None, two: npt.NDArray[Any] | None) -> bool:
    if one is None or two is None:
        return one is two
    return one.astype(two.dtype).tobytes() == two.tobytes()


def _missing_chunks(source: Array, new: ArrayMetadata) -> int:
    """Return the number of absent chunks that would have to be written; 0 if the grid is small."""
    count = prod(new.grid.counts(new.shape))
    if count <= _MOST_CHUNKS:
        return 0
    stored = source.stored
    cells = prod(stored.metadata.grid.counts(stored.metadata.shape))
    return (cells - sum(1 for _ in stored.stored_chunks())) * count // max(1, cells)
