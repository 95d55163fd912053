"""Arrays of any format, wherever they are, as one array."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tegula.arrays.array import Array
from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError, NotFoundError, UnsupportedError, brief
from tegula.hierarchy.creators import create_array
from tegula.hierarchy.group import Group
from tegula.hierarchy.opening import open, open_group
from tegula.metadata.times import Recount, common_units
from tegula.stores import MemoryStore
from tegula.views import View, join
from tegula.views.store import ViewStore, attributes_of

__all__ = ["concat", "concat_datasets", "stack"]

_AT_ONCE: Final = 256  # arrays that are opened together, of which most wait for storage
_MEANINGS: Final = (
    *("units", "calendar", "scale_factor", "add_offset", "valid_min", "valid_max", "valid_range", "_Unsigned", "dtype"),
)
"""Attributes that say what elements stand for, by the conventions of CF and xarray."""
_BOUNDS: Final = ("bounds", "climatology")


def concat(arrays: Sequence[Any], axis: int = 0, *, storage_options: Mapping[str, Any] | None = None) -> View:
    """Return arrays side by side as one array, which reads and writes the elements of each when they are asked for.

    The arrays may have any formats, stores, codecs and chunks.

    Parameters
    ----------
    arrays : sequence of Array, View, str, path or store
        The arrays in order; paths and URLs are opened for reading, many at a time.
    axis : int
        The axis along which they lie; negative ones count from the end. Their lengths along all other axes are equal.
    storage_options : mapping, optional
        Options for the URLs; see `tegula.open`.

    Raises
    ------
    MetadataError
        If shapes or data types do not fit together.
    NotFoundError
        If there is no array at a path.

    Examples
    --------
    >>> import tegula
    >>> old = tegula.create_array({}, data=[1, 2, 3], format="zarr2")
    >>> new = tegula.create_array({}, data=[4, 5], format="zarr3")
    >>> both = tegula.concat([old, new])
    >>> both.shape, both[1:4][...]
    ((5,), array([2, 3, 4]))
    """
    return join(_views(arrays, storage_options), axis)


def stack(arrays: Sequence[Any], axis: int = 0, *, storage_options: Mapping[str, Any] | None = None) -> View:
    """Return arrays of one shape as one array with a new axis; parameters and errors are those of `concat`.

    Examples
    --------
    >>> import tegula
    >>> days = [tegula.create_array({}, data=[day, day + 1]) for day in range(3)]
    >>> tegula.stack(days, axis=1)[0][...]
    array([0, 1, 2])
    """
    views = _views(arrays, storage_options)
    ndim = max((view.ndim for view in views), default=0) + 1
    if not -ndim <= axis < ndim:
        raise MetadataError(f"there is no axis {brief(axis)} in arrays of {ndim} dimensions", field="axis")
    before = (slice(None),) * (axis % ndim)
    return join([view[(*before, None)] if view.ndim >= len(before) else view for view in views], axis % ndim)


def concat_datasets(
    groups: Sequence[Any], dim: str = "time", *, storage_options: Mapping[str, Any] | None = None
) -> Group:
    """Return groups of CF data sets as one group: arrays with a dimension lie side by side along it.

    Arrays without the dimension, such as longitudes, must have equal elements in all groups; those of the first are
    taken, and so are all attributes. Times that count from different dates, such as ``days since 2024-01-01`` and
    ``days since 2025-01-01``, are read and counted from the first date; so are their bounds. Groups below the groups
    are left out.

    Parameters
    ----------
    groups : sequence of Group, str, path or store
        The groups in order; paths and URLs are opened for reading, many at a time.
    dim : str
        The dimension. An array has it if it is among its `dimension_names`.
    storage_options : mapping, optional
        Options for the URLs; see `tegula.open`.

    Returns
    -------
    Group
        A read-only group of Zarr v3 arrays, which are read from the groups when they are asked for elements.

    Raises
    ------
    MetadataError
        If the groups have different arrays, no array has the dimension, or arrays do not fit together: by their shapes,
        data types, elements, or attributes that say what elements stand for, such as ``units``.
    NotFoundError
        If there is no group at a path.

    Examples
    --------
    >>> import tegula
    >>> days = []
    >>> for day in range(3):
    ...     group = tegula.create_group({})
    ...     rain = group.create_array("rain", data=[[day, day]], dimension_names=["time", "x"])
    ...     x = group.create_array("x", data=[10, 20], dimension_names=["x"])
    ...     days.append(group)
    >>> year = tegula.concat_datasets(days)
    >>> year["rain"][1:, 0], year["x"].shape
    (array([1, 2]), (2,))
    """
    options: dict[str, Any] = {} if storage_options is None else {"storage_options": storage_options}
    opened = gather(lambda one: one if isinstance(one, Group) else open_group(one, **options), groups, _AT_ONCE)
    if not opened:
        raise MetadataError("there are no groups to join")
    arrays = [{name: node for name, node in group.members() if isinstance(node, Array)} for group in opened]
    for group, others in zip(opened, arrays):
        if different := sorted(others.keys() ^ arrays[0].keys()):
            raise MetadataError(f"not all groups have the array {different[0]!r}", path=group.location)
    views: dict[str, View] = {}
    is_joined = False
    for name, first in arrays[0].items():
        members, names = [others[name] for others in arrays], first.dimension_names or ()
        counted = _counted(arrays, name) if dim in names else None
        _check_meanings(members, () if counted is None else ("units", "calendar"))
        if dim in names:
            is_joined, axis = True, names.index(dim)
            if counted is None or all(recount == (1, 0) for recount in counted[1]):
                views[name] = concat(members, axis)
            else:
                views[name] = _recounted(members, *counted, axis)
        else:
            _check_equal(members)
            views[name] = first.lazy
    if not is_joined:
        raise MetadataError(f"no array has the dimension {dim!r}", path=opened[0].location)
    return open_group(ViewStore(views, opened[0].attrs))


def _counted(arrays: Sequence[Mapping[str, Array]], name: str) -> tuple[str, list[Recount]] | None:
    """Return common units of an array of all groups; ``None`` if they are no times, or can't be changed."""
    if any(group[name].conventions.is_packed or group[name].dtype.kind not in "iuf" for group in arrays):
        return None
    attributes = []
    for group in arrays:
        own = group[name].attrs
        bounded = () if "units" in own else [one.attrs for one in group.values() if name in map(one.attrs.get, _BOUNDS)]
        attributes.append(next(iter(bounded), own))  # bounds have the units of what they are the bounds of
    return common_units(attributes)


def _recounted(members: Sequence[Array], units: str, recounts: Sequence[Recount], axis: int) -> View:
    """Return times that count from several dates as one array in memory, in the common units."""
    first, parts = members[0], []
    for member, recount, values in zip(members, recounts, gather(np.asarray, members, _AT_ONCE)):
        try:
            parts.append(recount.of(values, first.conventions.missing(values)))
        except UnsupportedError as error:
            raise error.within(path=member.location) from None
    attributes = dict(attributes_of(first.lazy))
    if "units" in attributes:
        attributes["units"] = units
    try:
        data = np.concatenate(parts, axis)
    except ValueError as error:
        raise MetadataError(f"the shapes do not fit together: {error}", field="shape", path=first.location) from error
    names, fill = first.dimension_names, first.fill_value
    return create_array(MemoryStore(), data=data, fill_value=fill, attributes=attributes, dimension_names=names).lazy


def _check_meanings(members: Sequence[Array], settled: Sequence[str]) -> None:
    """Refuse arrays whose elements stand for something else than those of the first, `settled` attributes aside."""
    first = members[0]
    for member in members[1:]:
        for name in _MEANINGS:
            if name not in settled and member.attrs.get(name) != first.attrs.get(name):
                raise MetadataError(
                    f"the attribute {name} is {member.attrs.get(name)!r:.80}, but {first.attrs.get(name)!r:.80} in the "
                    "first group, so the elements can't be taken as they are; convert them first",
                    field=name,
                    path=member.location,
                )
        found, wanted = (", ".join(sorted(map(str, one.conventions.masks))) or "no value" for one in (member, first))
        if found != wanted:
            raise MetadataError(
                f"missing elements are marked by {found}, but by {wanted} in the first group; convert them first",
                field="_FillValue",
                path=member.location,
            )
        if member.dimension_names != first.dimension_names:
            raise MetadataError(
                f"the dimensions are {member.dimension_names}, but {first.dimension_names} in the first group",
                path=member.location,
            )


def _check_equal(members: Sequence[Array]) -> None:
    """Refuse arrays whose elements differ from those of the first, missing ones aside."""
    first = members[0]
    values = np.asarray(first[...])
    for member in members[1:]:
        same = member.shape == first.shape and member.dtype == first.dtype
        if not same or not np.array_equal(values, member[...], equal_nan=values.dtype.kind in "fcMm"):
            raise MetadataError("the elements differ from those in the first group", path=member.location)


def _views(arrays: Sequence[Any], storage_options: Mapping[str, Any] | None) -> list[View]:
    """Return the views of arrays, those at paths opened together."""
    if isinstance(arrays, (str, os.PathLike)):
        raise MetadataError(f"arrays is a sequence of arrays or paths, not one path; pass [{arrays!r:.80}]")

    arrays = [*arrays]
    targets = [array for array in arrays if not hasattr(type(array), "lazy")]
    opened = iter(gather(lambda target: _opened(target, storage_options), targets, _AT_ONCE))
    return [array.lazy if hasattr(type(array), "lazy") else next(opened) for array in arrays]


def _opened(target: Any, storage_options: Mapping[str, Any] | None) -> View:
    """Return the view of an array at a path."""
    if isinstance(target, (Group, np.ndarray)):
        raise MetadataError(f"a {type(target).__name__} is no stored array; pass arrays, views, paths or stores")
    node = open(target, storage_options=storage_options)
    if not hasattr(type(node), "lazy"):
        raise NotFoundError(f"there is a {node.kind}, not an array", path=node.location)
    view: View = node.lazy
    return view
