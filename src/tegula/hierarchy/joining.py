"""Arrays of any format, wherever they are, as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError
from tegula.hierarchy.opening import open_array
from tegula.views import View, joined

__all__ = ["concat", "stack"]

_AT_ONCE: Final = 32  # arrays that are opened together


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
    return joined(_views(arrays, storage_options), axis)


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
        raise MetadataError(f"there is no axis {axis} in arrays of {ndim} dimensions", field="axis")
    before = (slice(None),) * (axis % ndim)
    return joined([view[(*before, None)] if view.ndim >= len(before) else view for view in views], axis % ndim)


def _views(arrays: Sequence[Any], storage_options: Mapping[str, Any] | None) -> list[View]:
    """Return the views of arrays, those at paths opened together."""
    options: dict[str, Any] = {} if storage_options is None else {"storage_options": storage_options}
    targets = [array for array in arrays if not hasattr(array, "lazy")]
    opened = iter(gather(lambda target: open_array(target, **options), targets, _AT_ONCE))
    return [array.lazy if hasattr(array, "lazy") else next(opened).lazy for array in arrays]
