"""The value that marks missing elements, as the attribute in which readers of Zarr v3 look for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tegula.metadata.conventions import FILL, fill_attribute, fill_of_attribute, text_attribute
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata

__all__ = ["as_attribute", "converted_mask", "fill_text", "with_mask"]


def with_mask(metadata: ArrayMetadata, way: str) -> ArrayMetadata:
    """Return metadata in which the mask of an array, if its axes have names, is where it is in Zarr v3.

    Parameters
    ----------
    metadata : ArrayMetadata
        The array.
    way : {"fill_value", "attribute", ""}
        Where the mask is in its format; see `tegula.formats.Format.mask`.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=2, dtype="i2", fill_value=-9, format="zarr2", dimension_names=["x"])
    >>> with_mask(a.metadata, "fill_value").attributes["_FillValue"]
    -9
    """
    return as_attribute(metadata, []) if way == "fill_value" and metadata.dimension_names is not None else metadata


def converted_mask(attributes: Mapping[str, Any], old: DataType, new: DataType) -> Mapping[str, Any]:
    """Return attributes of Zarr v3 with the mask of elements that are converted to another type, if that has masks.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> converted_mask({"_FillValue": -9, "units": "K"}, as_data_type("i2"), as_data_type("f4"))
    {'units': 'K', '_FillValue': 'AAAAAAAAIsA='}
    """
    rest = {name: value for name, value in attributes.items() if name != FILL}
    fill = fill_of_attribute(attributes.get(FILL), old)
    if fill is None or old.variable or new.variable:
        return rest
    with np.errstate(all="ignore"):
        encoded = fill_attribute(fill.astype(new.numpy), new, "attribute")
    return rest if encoded is None else {**rest, FILL: encoded}


def as_attribute(draft: ArrayMetadata, notes: list[str]) -> ArrayMetadata:
    """Write the mask of a Zarr v2 array, its fill value or else its attribute, into the attribute as Zarr v3 has it."""
    attributes, data_type = dict(draft.attributes), draft.data_type
    plain = attributes.pop(FILL, None)
    fill = draft.fill_value if draft.fill_value is not None else fill_of_attribute(plain, data_type)
    encoded = None if fill is None else fill_attribute(fill, data_type, "attribute")
    if encoded is not None:
        attributes[FILL] = encoded
    elif fill is not None and isinstance(fill.item(), (str, bytes)) and fill.item():  # "" is the usual fill value
        attributes.setdefault("missing_value", text_attribute(fill.item()))
        if isinstance(fill.item(), bytes):
            notes.append(
                f"{fill_text(draft)} marks missing data, but not for xarray's own engine, which knows no such mask"
            )
    elif plain is not None or (fill is not None and data_type.numpy.kind not in "mM"):  # times have no mask but NaT
        text = f"{plain!r:.80}" if draft.fill_value is None else fill_text(draft)
        notes.append(f"{text} no longer marks missing data, since xarray knows no such {FILL} in Zarr v3")
    return replace(draft, attributes=attributes)


def fill_text(metadata: ArrayMetadata) -> str:
    """Return the fill value for a message."""
    return "undefined" if metadata.fill_value is None else f"{metadata.fill_value.item()!r:.80}"
