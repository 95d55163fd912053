"""Dimension names in the attribute ``_ARRAY_DIMENSIONS``, for formats whose documents have no member for them.

This is xarray's convention for Zarr v2. Zarr v3 has the member ``dimension_names``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["attributes_with", "attributes_without", "names_in"]

Names = tuple[str | None, ...] | None
_KEY: Final = "_ARRAY_DIMENSIONS"


def names_in(attributes: Mapping[str, Any], ndim: int) -> Names:
    """Return the dimension names in an array's attributes, or ``None`` unless there is a string or null for each axis.

    Examples
    --------
    >>> names_in({"_ARRAY_DIMENSIONS": ["y", "x"]}, 2), names_in({"_ARRAY_DIMENSIONS": ["y"]}, 2)
    (('y', 'x'), None)
    """
    names = attributes.get(_KEY)
    if not isinstance(names, list) or len(names) != ndim:
        return None
    return tuple(names) if all(name is None or isinstance(name, str) for name in names) else None


def attributes_with(attributes: Mapping[str, Any], names: Names) -> Mapping[str, Any]:
    """Return an array's attributes with the dimension names in them.

    Examples
    --------
    >>> attributes_with({"units": "K"}, ("y", "x"))
    {'_ARRAY_DIMENSIONS': ['y', 'x'], 'units': 'K'}
    """
    if names is None or attributes.get(_KEY) == [*names]:
        return attributes
    return {_KEY: [*names], **attributes_without(attributes)}


def attributes_without(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an array's attributes without the dimension names."""
    return {key: value for key, value in attributes.items() if key != _KEY}
