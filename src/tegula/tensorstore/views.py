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

from tegula.tensorstore.errors import StatusError, annotate, invalid, status
from tegula.tensorstore.index.intervals import affine_domain

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
    """Return the selection of a view.

    Parameters
    ----------
    transform : IndexTransform
        The transform from the view to the base.
    base : IndexDomain
        The domain of the base, which limits the indices.

    Raises
    ------
    ValueError
        If an index is outside the base, or the view is unbounded.
    """
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
    # the view must be bounded
    domain = transform.domain
    origin, end = domain.inclusive_min, domain.exclusive_max
    shape = tuple(domain.shape)
    for low, high in zip(origin, end, strict=True):
        if low < -_FINITE or high > _FINITE:
            raise invalid(f"Cannot read or write the unbounded domain {domain}")
    maps = transform.output
    # an index for each dimension of the base: an integer, a slice, or an index array over the joint axes
    joint = _joint_axes(maps)
    indices: list[int | slice | npt.NDArray[np.int64]] = []
    result_axes = list(joint)
    for dimension, output in enumerate(maps):
        axis = output.input_dimension
        low, high = base.inclusive_min[dimension], base.exclusive_max[dimension]
        if axis is not None and 0 not in shape:
            _check_range(output, low, high, axis, origin[axis], end[axis])
        if axis is None and output.index_array is None:
            if 0 not in shape and not low <= output.offset < high:
                what = f"Checking bounds of constant output index map for dimension {dimension}"
                raise annotate(_outside(output.offset, low, high), what)
            indices.append(output.offset)
        elif axis is not None and axis not in joint:
            indices.append(_range(output.offset, output.stride or 1, origin[axis], shape[axis]))
            result_axes.append(axis)
        elif axis is not None:
            values = np.arange(origin[axis], end[axis], dtype=np.int64) * (output.stride or 1) + output.offset
            indices.append(values.reshape([-1 if number == axis else 1 for number in joint]))
        else:
            values = _checked(output, low, high)
            indices.append(values.reshape([values.shape[number] for number in joint]) if joint else values.item())
    # the axes of the driver's result: the joint ones first, then the slices
    if result_axes == list(range(len(shape))):
        return Selection(tuple(indices), shape, None)
    positions = {axis: position for position, axis in enumerate(result_axes)}
    return Selection(tuple(indices), shape, tuple(positions.get(axis, -1) for axis in range(len(shape))))


def _joint_axes(maps: Any) -> list[int]:
    """Return the axes of the view that index arrays, or several dimensions of the base, depend on."""
    joint: set[int] = set()
    seen: set[int] = set()
    for output in maps:
        axis = output.input_dimension
        if axis is not None:
            if axis in seen:
                joint.add(axis)
            seen.add(axis)
        elif output.index_array is not None:
            joint.update(number for number, size in enumerate(output.index_array.shape) if size != 1)
    return sorted(joint)


def _range(offset: int, stride: int, start: int, count: int) -> slice:
    first = offset + stride * start
    if count == 0:
        return slice(first, first, stride)
    return slice(first, first + stride * (count - 1) + (1 if stride > 0 else -1), stride)


def _check_range(output: OutputIndexMap, low: int, high: int, axis: int, start: int, stop: int) -> None:
    """Refuse a dimension of the view that exceeds the bounds of the base."""
    offset, stride = output.offset, output.stride or 1
    first, last = offset + stride * start, offset + stride * (stop - 1)
    if start >= stop or (low <= first < high and low <= last < high):
        return
    ends = (low - offset, high - 1 - offset) if stride > 0 else (high - 1 - offset, low - offset)
    fits = (-(-ends[0] // stride), ends[1] // stride + 1)
    raise status(
        "OUT_OF_RANGE",
        f"Propagated bounds [{fits[0]}, {fits[1]}), with size={fits[1] - fits[0]}, for dimension {axis} are"
        f" incompatible with existing bounds [{start}, {stop}), with size={stop - start}.",
    )


def _checked(output: OutputIndexMap, low: int, high: int) -> npt.NDArray[np.int64]:
    array = output.index_array
    assert array is not None
    if array.size:
        offset, stride = output.offset, output.stride or 1
        least, most = affine_domain((low, high), offset, stride)
        if (bounds := output.index_range) is not None:
            least, most = max(bounds.inclusive_min, least), min(bounds.exclusive_max, most)
        if array.min() < least or array.max() >= most:
            raise _outside(int(array[(array < least) | (array >= most)][0]), least, most)
        return np.asarray(array * stride + offset if (offset, stride) != (0, 1) else array, np.int64)
    return np.asarray(array, np.int64)


def _outside(index: int, low: int, high: int) -> StatusError:
    return status("OUT_OF_RANGE", f"Index {index} is outside valid range [{low}, {high})")
