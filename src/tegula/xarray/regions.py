"""The region of a write: a slice for each dimension, given or found by the values of coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray import Variable, conventions

from tegula.errors import MetadataError, NotFoundError
from tegula.xarray.encoding import EncodingTypeError

__all__ = ["region_of"]


def region_of(
    dataset: xr.Dataset, region: Any, stored: Mapping[str, Variable], append_dim: Hashable | None
) -> dict[Hashable, slice]:
    """Return the slice of each dimension of a region.

    Parameters
    ----------
    dataset : Dataset
        The data to write.
    region : "auto" or mapping of dimension to slice or "auto"
        The argument of the user.
    stored : mapping of str to Variable
        The stored variables, still encoded.
    append_dim : str, optional
        The dimension that the write makes longer.

    Raises
    ------
    MetadataError
        If it is not a mapping of the data set's dimensions to slices without steps, or some variable has none of these
        dimensions.
    NotFoundError
        If the stored coordinate lacks values of the new one.
    """
    if isinstance(region, str) and region == "auto":
        region = dict.fromkeys(dataset.dims, "auto")
    if not isinstance(region, Mapping):
        raise EncodingTypeError(f"region must be a dict of slices, or 'auto', not {region!r:.80}", field="region")
    found = {dim: _located(dataset, dim, stored) if _is_auto(part) else part for dim, part in region.items()}
    for dim, part in found.items():
        if dim not in dataset.dims:
            raise MetadataError(
                f"all keys in ``region`` are not in Dataset dimensions: {dim!r} is none of {[*dataset.dims]!r}",
                field="region",
            )
        if not isinstance(part, slice):
            raise EncodingTypeError(f"all parts of a region must be slice objects, not {part!r:.80}", field="region")
        if part.step not in (1, None):
            raise MetadataError(
                f"the step on all slices in a region must be 1 or None, not {part.step}", field="region"
            )
    outside = [name for name, variable in dataset.variables.items() if not {*found} & {*variable.dims}]
    if found and outside:
        raise MetadataError(
            f"all variables in the dataset to write must have at least one dimension in common with the region, "
            f"{[*found]!r}; leave out the others: .drop_vars({outside!r})",
            field="region",
        )
    if append_dim is not None and append_dim in found:
        raise MetadataError(f"cannot list the same dimension in both append_dim and region: {append_dim!r}")
    return {dim: _counted(part, dim, stored) for dim, part in found.items()}


def _is_auto(part: Any) -> bool:
    return isinstance(part, str) and part == "auto"


def _counted(part: slice, dim: Hashable, stored: Mapping[str, Variable]) -> slice:
    """Return a slice counted from the beginning, since dask accepts no other."""
    size = next((variable.sizes[dim] for variable in stored.values() if dim in variable.sizes), 0)
    try:
        return slice(*part.indices(size)[:2])
    except TypeError as error:
        raise EncodingTypeError(f"the slices of a region have integers, not {part!r:.80}", field="region") from error


def _located(dataset: xr.Dataset, dim: Hashable, stored: Mapping[str, Variable]) -> slice:
    """Return where the stored coordinate has the values of the new one."""
    if dim not in dataset.variables:
        return slice(0, dataset.sizes.get(dim, 0))
    if dim not in stored:
        raise NotFoundError(f"there is no stored coordinate {dim!r} to find a region by")
    index = conventions.decode_cf_variable(str(dim), stored[str(dim)].compute()).to_index()
    if not index.is_unique:
        raise MetadataError(
            f"the stored coordinate {dim!r} has some values twice, so that they name no region; give it as a slice",
            field="region",
        )
    positions = index.get_indexer(dataset[dim].to_numpy())
    if (positions == -1).any():
        raise NotFoundError(
            f"Not all values of coordinate '{dim}' in the new array were found in the original store; append them, or "
            "write where the coordinate has them"
        )
    if (np.diff(positions) != 1).any():
        raise MetadataError(
            f"The auto-detected region of coordinate '{dim}' for writing new data to the original store had "
            "non-contiguous indices; write each contiguous part by itself",
            field="region",
        )
    return slice(int(positions[0]), int(positions[-1]) + 1) if len(positions) else slice(0, 0)
