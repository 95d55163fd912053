"""CF masks: the value that marks missing data, stored where readers of each format look for it.

xarray reads the mask of a Zarr v2 array from its fill value. In Zarr v3 the fill value is only that of missing chunks,
and xarray reads the mask from the attribute ``_FillValue``, in an encoding of its own. Only arrays with names for all
dimensions count as data of xarray; others are not changed.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.errors import MetadataError
from tegula.formats import Format, find_format
from tegula.formats.dimension_names import attributes_without
from tegula.metadata.data_types import DataType
from tegula.metadata.fill_values import scalar_array
from tegula.metadata.nodes import ArrayMetadata

__all__ = ["as_attribute", "attribute_of", "attributes_of", "keep_mask", "mask_of", "missing_values"]

_KEY: Final = "_FillValue"
_MOST_CHUNKS: Final = 2**20  # absent chunks that are written because the fill value changes
_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def keep_mask(source: Array, draft: ArrayMetadata, item: Format, notes: list[str]) -> tuple[ArrayMetadata, bool]:
    """Store the mask of an array where readers of another format look for it.

    Parameters
    ----------
    source : Array
        The array to convert.
    draft : ArrayMetadata
        The new array, not yet adapted to the target's format.
    item : Format
        The target's format.
    notes : list of str
        Receives notes on what could not be kept.

    Returns
    -------
    metadata : ArrayMetadata
        The new array with its mask.
    complete : bool
        Whether absent chunks have to be written, since the fill value has changed.
    """
    ways = find_format(draft.format).mask, item.mask
    if draft.dimension_names is None or ways[0] == ways[1] or "" in ways:
        return draft, False
    if ways[1] == "attribute":
        return as_attribute(draft, notes), False
    new = _as_fill_value(draft)
    if new is None or _same_value(new.fill_value, draft.fill_value):
        return new or draft, False
    missing = _missing_chunks(source, new)
    if missing > _MOST_CHUNKS:
        notes.append(
            f"the fill value {_text(draft)} is kept, which xarray reads as a missing value: "
            f"without it, {missing} chunks that are not stored would have to be written"
        )
        return draft, False
    now = _text(new) if new.fill_value is None else f"{_text(new)}, the value that marks missing data"
    notes.append(f"the fill value was {_text(draft)} and is now {now}; each chunk is stored")
    return new, True


def mask_of(array: Array) -> npt.NDArray[Any] | None:
    """Return the value that marks missing data, in the array's type; ``None`` if there is none.

    It is the attribute ``_FillValue``, a plain number or xarray's encoding in Zarr v3; for data of xarray in Zarr v2,
    the fill value.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=3, dtype="i2", attributes={"_FillValue": -999})
    >>> mask_of(a)
    array(-999, dtype=int16)
    """
    metadata = array.metadata
    if metadata.dimension_names is not None and find_format(metadata.format).mask == "fill_value":
        return metadata.fill_value
    plain = metadata.attributes.get(_KEY)
    if isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    if plain is None:
        return None
    decoded = _decoded(plain, "O" if metadata.data_type.variable else metadata.data_type.numpy.kind)
    for value in (decoded, plain):
        try:
            if value is not None:
                return scalar_array(value, metadata.data_type)
        except MetadataError:  # of another type than the elements
            continue
    return None


def missing_values(array: Array) -> list[Any]:
    """Return the values that mark missing data: that of ``_FillValue``, and those of ``missing_value``."""
    if array.dtype.names is not None:
        return []
    found = mask_of(array)
    if found is not None and "_FillValue" not in array.metadata.attributes and not found.item():
        found = None  # zero is the default fill value, and rarely a mask
    masks = [] if found is None else [found[()]]
    given = array.metadata.attributes.get("missing_value")
    for value in given if isinstance(given, list) else [] if given is None else [given]:
        try:
            masks.append(scalar_array(value, array.metadata.data_type)[()])
        except MetadataError:  # not a value of this type
            continue
    return masks


def attributes_of(array: Array) -> dict[str, Any]:
    """Return the attributes; for data of xarray with the value that marks missing data, as ``_FillValue``."""
    attributes = dict(array.attrs.asdict())
    if array.dimension_names is None:
        return attributes
    attributes = {**attributes_without(attributes)}
    mask, kind = mask_of(array), array.dtype.kind
    if kind in "biufc":  # xarray has masks of these types only
        attributes.pop(_KEY, None)
        if mask is not None and not (kind in "fc" and np.isnan(mask)):  # NaN is missing anyway
            attributes[_KEY] = mask.item()
    return attributes


def attribute_of(value: Any, data_type: DataType, draft: ArrayMetadata) -> Any:
    """Return the value that marks missing data as the attribute ``_FillValue`` has it in the format of `draft`."""
    plain = np.asarray(value).item()
    if draft.dimension_names is not None and find_format(draft.format).mask == "attribute":
        encoded = _encoded(plain, data_type.numpy.kind)
        if encoded is not None:
            return encoded
    return "NaN" if isinstance(plain, float) and np.isnan(plain) else plain


def _text(metadata: ArrayMetadata) -> str:
    return "undefined" if metadata.fill_value is None else f"{metadata.fill_value.item()!r:.80}"


def as_attribute(draft: ArrayMetadata, notes: list[str]) -> ArrayMetadata:
    """Write the mask, the fill value or else an attribute in plain JSON, into the attribute as Zarr v3 has it."""
    fill, attributes = draft.fill_value, dict(draft.attributes)
    plain = attributes.pop(_KEY, None)
    value = plain if fill is None else fill[()]
    if value is None:
        return replace(draft, attributes=attributes)
    kind = "O" if draft.data_type.variable else draft.data_type.numpy.kind
    encoded = _encoded(value, kind)
    if encoded is not None:
        attributes[_KEY] = encoded
    elif kind not in "mM" or plain is not None:  # the fill value of times masks nothing
        text = f"{plain!r:.80}" if fill is None else _text(draft)
        notes.append(f"{text} no longer marks missing data, since xarray knows no such {_KEY} in Zarr v3")
    return replace(draft, attributes=attributes)


def _as_fill_value(draft: ArrayMetadata) -> ArrayMetadata | None:
    """Make the attribute the fill value, undefined if there is none; return ``None`` if it can't be read."""
    fill, attributes = draft.fill_value, dict(draft.attributes)
    if _KEY not in attributes:
        # xarray reads NaN as missing anyway
        return draft if _is_nan(fill) else replace(draft, fill_value=None)
    value = _decoded(attributes.pop(_KEY), "O" if draft.data_type.variable else draft.data_type.numpy.kind)
    if value is None:
        return None
    try:
        new = scalar_array(value, draft.data_type)
    except MetadataError:  # unsigned, say, where the elements are signed; without a fill value the attribute counts
        return replace(draft, fill_value=None, attributes={**attributes, _KEY: value})
    if _is_nan(new) and _is_nan(fill):
        new = fill if fill is not None else new  # with all its bits
    return replace(draft, fill_value=new, attributes=attributes)


def _encoded(value: Any, kind: str) -> Any:
    """Encode a mask as xarray does in Zarr v3; return ``None`` if it has no encoding for the value."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        if kind == "b":
            return bool(value)
        if kind in "iu":
            return int(value)
        if kind == "f":
            return _float_text(float(_SPECIAL.get(value, value) if isinstance(value, str) else value))
        if kind == "c":
            number = complex(value)
            return [_float_text(number.real), _float_text(number.imag)]
    except (TypeError, ValueError, OverflowError):
        return None
    return None


def _decoded(value: Any, kind: str) -> Any:
    """Decode a mask as xarray does in Zarr v3; return ``None`` if it can't be decoded."""
    try:
        if kind == "b":
            return bool(value)
        if kind in "iu" and isinstance(value, (int, float)):
            return int(value)
        if kind == "f" and isinstance(value, str):
            return _float_of(value)
        if kind == "c" and isinstance(value, list) and len(value) == 2:
            return complex(_float_of(value[0]), _float_of(value[1]))
    except (TypeError, ValueError, OverflowError, binascii.Error, struct.error):
        return None
    return None


def _float_text(value: float) -> str:
    return base64.b64encode(struct.pack("<d", value)).decode()


def _float_of(text: str) -> float:
    return float(struct.unpack("<d", base64.b64decode(text))[0])


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
    stored = source._stored
    cells = prod(stored.metadata.grid.counts(stored.metadata.shape))
    return (cells - sum(1 for _ in stored.stored_chunks())) * count // max(1, cells)
