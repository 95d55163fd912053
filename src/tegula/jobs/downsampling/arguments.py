"""The arguments of `tegula.downsample`: checked, and in the terms of the array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import isfinite, prod
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.errors import MetadataError
from tegula.jobs.converting.masks import missing_values
from tegula.jobs.downsampling.reducing import METHODS, check_method
from tegula.metadata.fill_values import scalar_array
from tegula.stores import LocalStore, Store

__all__ = ["check_arguments", "factors_of", "group_of", "masks_of", "scales_of"]

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
        return missing_values(array)
    if isinstance(missing, str) and missing == "fill_value":
        return [array._stored.fill[()]]
    several = missing if isinstance(missing, (list, tuple)) else [missing]
    try:
        return [scalar_array(value, array.metadata.data_type)[()] for value in several]
    except MetadataError as error:
        raise MetadataError(error.message, field="missing") from error


def group_of(array: Array, path: str) -> tuple[Store, str]:
    """Return the store and the path of the group that holds an array."""
    if path:
        raise MetadataError("path is a path in the target: pass a target, too", field="path")
    if array.path:
        return array.store, array.path.rpartition("/")[0]
    if isinstance(array.store, LocalStore):
        return LocalStore(os.path.dirname(os.path.realpath(array.store.root)), read_only=array.store.read_only), ""
    raise MetadataError("the store holds nothing but the array: pass a target", path=array._place)
