"""The arguments of `tegula.downsample`: checked, and in the terms of the array."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from math import isfinite, prod
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.errors import MetadataError
from tegula.hierarchy.group import Group, open_node
from tegula.jobs.downsampling.reducing import METHODS, check_method
from tegula.metadata.fill_values import scalar_array
from tegula.stores import LocalStore, Store
from tegula.targets.paths import clean

__all__ = ["check_arguments", "factors_of", "group_of", "is_level", "masks_of", "other_variables", "scales_of"]

_LARGEST_BLOCK: Final = 2**20  # elements that become one
_MOST_LEVELS: Final = 64


def check_arguments(array: Array, method: str, levels: Any) -> None:
    """Check the method and the number of levels."""
    if method not in METHODS:
        raise MetadataError(f"method must be one of {', '.join(METHODS)}, not {method!r:.40}", field="method")
    check_method(method, array.dtype)
    if levels is not None and (type(levels) is not int or not 1 <= levels <= _MOST_LEVELS):
        raise MetadataError(f"{levels!r:.40} is not a number of levels from 1 to {_MOST_LEVELS}", field="levels")


def factors_of(given: Sequence[Any]) -> tuple[int, ...]:
    """Check the factors of all axes, and return them as integers."""
    if not all(hasattr(item, "__index__") and not isinstance(item, bool) and item >= 1 for item in given):
        raise MetadataError(f"{given!r:.80} are not factors: integers from 1", field="factors")
    factors = tuple(int(item) for item in given)
    if not 1 < prod(factors) <= _LARGEST_BLOCK:
        raise MetadataError(
            f"a block of {factors} elements must have 2 to {_LARGEST_BLOCK} elements; pass other factors",
            field="factors",
        )
    return factors


def scales_of(given: Sequence[Any]) -> tuple[float, ...]:
    """Check the distances between elements along all axes, and return them as numbers."""
    try:
        scales = tuple(float(item) for item in given)
    except (TypeError, ValueError, OverflowError):
        scales = (0.0,)
    if not all(isfinite(item) and item > 0 for item in scales):
        raise MetadataError(f"{given!r:.80} is not a scale: positive numbers", field="scale")
    return scales


def masks_of(array: Array, missing: Any) -> list[Any]:
    """Return the values that mark missing data, in the array's type."""
    if missing is None:
        return array.conventions.stored_masks
    if isinstance(missing, str) and missing == "fill_value":
        return [array.stored.fill[()]]
    several = missing if isinstance(missing, (list, tuple)) else [missing]
    try:
        return [scalar_array(value, array.metadata.data_type)[()] for value in several]
    except MetadataError as error:
        raise MetadataError(error.message, field="missing") from error


is_level: Final = re.compile("s[1-9][0-9]*").fullmatch
"""Whether a name is that of a level that was computed."""


def group_of(array: Array, path: str) -> tuple[Store, str, str]:
    """Return store and path of the group that holds an array, and the path below it of the group for a pyramid.

    Unless a path is given, a variable of a data set gets a group of its own, since levels beside the variables would
    have other lengths of the same dimensions.
    """
    if array.path:
        store, above, name = array.store, array.path.rpartition("/")[0], array.name
    elif array.store.local_directory is not None:
        root, name = os.path.split(os.path.realpath(array.store.local_directory))
        store, above = LocalStore(root, read_only=array.store.read_only), ""
    else:
        raise MetadataError("the store holds nothing but the array: pass a target", path=array.location)
    return store, above, clean(path) or (f"{name}_pyramid" if other_variables(store, above, name) else "")


def other_variables(store: Store, path: str, name: str) -> list[str]:
    """Return the names of the arrays in a group of Zarr v3 that xarray reads as variables, besides one and its levels.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> made = [g.create_array(name, shape=3, dtype="u1", dimension_names=["lat"]) for name in ("t", "lat", "s1")]
    >>> other_variables(g.store, "", "t")
    ['lat']
    """
    group = open_node(store, path, "zarr3", read_only=True)
    if not isinstance(group, Group) or not group.metadata.documents:
        return []
    return [
        other
        for other, node in group.members({}, strict=True)
        if isinstance(node, Array)
        and other != name
        and not is_level(other)
        and (node.dimension_names is not None or not node.ndim)
    ]
