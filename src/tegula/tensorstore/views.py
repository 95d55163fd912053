"""Views as selections of a base array.

`select` converts an index transform to a `Selection`, whose ``indices`` are the elements of the base that the view
contains. `present` arranges what a driver reads at these indices in the axes of the view; `arrange` does the reverse
for writes. Both return NumPy views.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tegula.indexing.transform import Affine, OutputMap, axes_of
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.composition import with_origin_0
from tegula.tensorstore.index.intervals import interval_text

if TYPE_CHECKING:
    from tegula.tensorstore.index.domain import IndexDomain
    from tegula.tensorstore.index.output_maps import OutputIndexMap
    from tegula.tensorstore.index.transform import IndexTransform
    from tegula.tensorstore.spec.interface import Indices

__all__ = ["Selection", "select", "whole"]

_FINITE = 2**62 - 1


class Selection:
    """The elements of a base array that a view contains, and their arrangement.

    Attributes
    ----------
    indices : tuple
        One term for each dimension of the base, as `Driver.read` takes them.
    shape : tuple of int
        Shape of the view.
    axes : tuple of int or None
        The axis of the driver's result for each axis of the view; -1 for a broadcast axis. None if the axes are already
        those of the view.
    """

    __slots__ = ("axes", "indices", "shape", "size")

    def __init__(self, indices: Indices, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
        self.indices = indices
        self.shape = shape
        self.axes = axes
        self.size = prod(shape)

    def present(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Arrange the result of a driver's read in the axes of the view."""
        if self.axes is None:
            return values
        used_axes = [axis for axis in self.axes if axis >= 0]
        if len(used_axes) == len(self.axes):
            return values.transpose(used_axes)
        spread = values.transpose(used_axes)[tuple(slice(None) if axis >= 0 else None for axis in self.axes)]
        return np.broadcast_to(spread, self.shape)

    def arrange(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Arrange values, which have the axes of the view, for a driver's write."""
        if self.axes is None:
            return values
        # if several elements of the view are the same element of the base, the last one wins; with the ellipsis, a
        # 0-d result is an array even for objects
        distinct = values[(*(slice(None) if axis >= 0 else -1 for axis in self.axes), ...)]
        used_axes = [axis for axis in self.axes if axis >= 0]
        return distinct.transpose([used_axes.index(axis) for axis in range(len(used_axes))])


def whole(domain: IndexDomain) -> Selection:
    """Return the selection of a whole base array."""
    origin, end = domain.inclusive_min, domain.exclusive_max
    return Selection(tuple([slice(low, high, 1) for low, high in zip(origin, end)]), tuple(domain.shape), None)


def select(transform: IndexTransform, base: IndexDomain) -> Selection:
    """Return the selection of a view; the domain of the base limits the indices."""
    return _select_basic(transform, base) or _select(transform, base)


def _select_basic(transform: IndexTransform, base: IndexDomain) -> Selection | None:
    """Return the selection of a view by integers and slices in order, the usual case; None for all others."""
    domain = transform._domain
    shape: list[int] = []
    indices: list[int | slice | npt.NDArray[np.int64]] = []
    for output, low, high in zip(transform._maps, base._lower, base._upper, strict=True):
        axis, first = output._dimension, output._offset
        if axis is None:
            if output._array is not None or not low <= first < high:
                return None
            indices.append(first)
            continue
        if axis != len(shape):
            return None
        start, stop, stride = domain._lower[axis], domain._upper[axis], output._stride
        first += stride * start
        last = first + stride * (stop - start - 1)
        if not (-_FINITE <= start < stop <= _FINITE and low <= first < high and low <= last < high):
            return None
        indices.append(slice(first, last + (1 if stride > 0 else -1), stride))
        shape.append(stop - start)
    return Selection(tuple(indices), tuple(shape), None) if len(shape) == len(domain._lower) else None


def _select(transform: IndexTransform, base: IndexDomain) -> Selection:
    domain = transform.domain
    shape = domain.shape
    if any(abs(bound) > _FINITE for bound in (*domain._lower, *domain._upper)):
        raise invalid(f"Cannot read or write the unbounded domain {domain}")
    maps = [with_origin_0(output, domain, 0) for output in transform.output]
    if 0 not in shape:
        for dimension, (one, output) in enumerate(zip(maps, transform.output, strict=True)):
            _check(one, output, base, dimension, shape)
    # the axes of the view that index arrays, or several dimensions of the base, depend on
    used = [axis for one in maps for axis in axes_of(one)]
    arrays = [axis for one in maps if not isinstance(one, Affine) for axis in axes_of(one)]
    joint = sorted({axis for axis in used if used.count(axis) > 1 or axis in arrays})
    # an index for each dimension of the base: an integer, a slice, or an index array over the joint axes
    indices: list[int | slice | npt.NDArray[np.int64]] = []
    result_axes = list(joint)
    for one in maps:
        if not isinstance(one, Affine):
            indices.append(one.reshape([one.shape[axis] for axis in joint]) if joint else int(one.item()))
        elif one.axis < 0:
            indices.append(one.start)
        elif one.axis in joint:
            values = np.arange(shape[one.axis], dtype=np.int64) * one.step + one.start
            indices.append(values.reshape([-1 if axis == one.axis else 1 for axis in joint]))
        else:
            last = one.start + one.step * (shape[one.axis] - 1)
            stop = last + (1 if one.step > 0 else -1) if shape[one.axis] else one.start
            indices.append(slice(one.start, stop, one.step))
            result_axes.append(one.axis)
    # the axes of the driver's result: the joint ones first, then the slices
    if result_axes == list(range(len(shape))):
        return Selection(tuple(indices), shape, None)
    positions = {axis: position for position, axis in enumerate(result_axes)}
    return Selection(tuple(indices), shape, tuple(positions.get(axis, -1) for axis in range(len(shape))))


def _check(one: OutputMap, output: OutputIndexMap, base: IndexDomain, dimension: int, shape: tuple[int, ...]) -> None:
    """Refuse indices outside the base, and elements of an index array outside its range."""
    low, high = base._lower[dimension], base._upper[dimension]
    if isinstance(one, Affine):
        ends = one.start, one.start + one.step * ((shape[one.axis] if one.axis >= 0 else 1) - 1)
        bounds = [(min(ends), max(ends), low, high)]
    else:
        assert output._array is not None
        bounds = [
            (int(a.min()), int(a.max()), *ends) for a, ends in ((one, (low, high)), (output._array, output._range))
        ]
    for least, most, first, stop in bounds:
        if not first <= least <= most < stop:
            wrong = least if least < first else most
            text = f"Index {wrong} is outside valid range {interval_text(first, stop)} of dimension {dimension}"
            raise status("OUT_OF_RANGE", text)
