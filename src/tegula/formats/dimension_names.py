"""Dimension names in attributes, for formats whose documents have no member for them.

xarray's convention for Zarr v2 is the attribute ``_ARRAY_DIMENSIONS``. The netCDF library has paths of dimensions in
``_nczarr_array``, and had them in a member of ``.zarray``, ``_NCZARR_ARRAY`` or in small letters, or a document
``.nczarray``. Zarr v3 has the member ``dimension_names``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tegula.formats.keys import NETCDF
from tegula.metadata.nodes import ArrayMetadata

__all__ = ["attributes_with", "attributes_without", "names_in", "netcdf_names", "stored_attributes"]

Names = tuple[str | None, ...] | None
_KEY: Final = "_ARRAY_DIMENSIONS"
_PATHS: Final = ("dimension_references", "dimrefs")  # the second until netCDF 4.9.2


def names_in(attributes: Mapping[str, Any], ndim: int) -> Names:
    """Return the dimension names in an array's attributes, or ``None`` unless there is a string or null for each axis.

    Names of xarray take precedence over those of netCDF, as they do in xarray.

    Examples
    --------
    >>> names_in({"_ARRAY_DIMENSIONS": ["y", "x"]}, 2), names_in({"_ARRAY_DIMENSIONS": ["y"]}, 2)
    (('y', 'x'), None)
    """
    names = attributes.get(_KEY)
    if not isinstance(names, list) or len(names) != ndim:
        return netcdf_names(attributes[NETCDF], ndim) if NETCDF in attributes else None
    return tuple(names) if all(name is None or isinstance(name, str) for name in names) else None


def netcdf_names(described: Any, ndim: int) -> Names:
    """Return the dimension names in what the netCDF library says of an array, or ``None`` unless each axis has one.

    Examples
    --------
    >>> netcdf_names({"dimension_references": ["/time", "/era/x"], "storage": "chunked"}, 2)
    ('time', 'x')
    """
    stated = [described[key] for key in _PATHS if key in described] if isinstance(described, dict) else []
    paths = stated[0] if stated else None
    if not isinstance(paths, list) or len(paths) != ndim or not all(isinstance(path, str) for path in paths):
        return None
    return tuple(path.rpartition("/")[2] for path in paths)


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


def stored_attributes(metadata: ArrayMetadata) -> Mapping[str, Any]:
    """Return the attributes of an array as formats store them that keep the dimension names there."""
    return attributes_with(metadata.attributes, metadata.dimension_names)


def attributes_without(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an array's attributes without the dimension names."""
    return {key: value for key, value in attributes.items() if key != _KEY}
