"""Views as selections of a base array: the transform of a view, without origins, labels and implicit bounds.

Drivers read and write by transforms of the core (`tegula.indexing.Transform`), whose indices count from the origin of
the base.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tegula.indexing import whole
from tegula.indexing.transform import Affine, OutputMap, Transform, affine, axes_of, composed, extent
from tegula.runtime.frozen import attribute
from tegula.tensorstore.constraints.schema import units_through
from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.index.composition import with_origin_0
from tegula.tensorstore.index.intervals import Interval, interval_text
from tegula.tensorstore.index.transform import identity

if TYPE_CHECKING:
    from tegula.tensorstore.constraints.dtypes import dtype
    from tegula.tensorstore.constraints.unit import Unit
    from tegula.tensorstore.index.domain import IndexDomain
    from tegula.tensorstore.index.output_maps import OutputIndexMap
    from tegula.tensorstore.index.transform import IndexTransform
    from tegula.tensorstore.spec.interface import Driver

__all__ = ["Selection", "Viewed", "select"]

_FINITE = 2**62 - 1


class Selection:
    """The elements of a base array that a view contains.

    Attributes
    ----------
    transform : Transform
        The elements; an axis of the view along which they are repeated has length 1.
    shape : tuple of int
        Shape of the view.
    """

    __slots__ = ("shape", "transform")

    def __init__(self, transform: Transform, shape: tuple[int, ...]) -> None:
        self.transform, self.shape = transform, shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def present(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what a driver has read in the shape of the view."""
        return values if self.transform.shape == self.shape else np.broadcast_to(values, self.shape)

    def arrange(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values in the shape of the view as a driver writes them; of repeated elements the last one wins."""
        if self.transform.shape == self.shape:
            return values
        ends = zip(self.transform.shape, self.shape)
        return values[tuple([slice(None) if kept == size else slice(-1, None) for kept, size in ends])]


class Viewed:
    """A driver and the transform of a view of it, by default the identity."""

    __slots__ = ("driver", "view")

    def __init__(self, driver: Driver, view: IndexTransform | None) -> None:
        self.driver = driver
        self.view = identity(driver.domain) if view is None else view

    domain: IndexDomain = attribute("view.domain", "The domain of the view.")
    dtype: dtype = attribute("driver.dtype", "The data type of the elements.")

    @property
    def dimension_units(self) -> tuple[Unit | None, ...] | None:
        """The unit of each dimension of the view; None if unknown."""
        units = self.driver.dimension_units
        return None if units is None else units_through(units, self.view)

    def selected(self, transform: Transform) -> Selection:
        """Return the selection of the driver's array for elements of the view."""
        return select(self.view, self.driver.domain, transform)

    def read(self, transform: Transform) -> npt.NDArray[Any]:
        """Read as `Driver.read` does."""
        selection = self.selected(transform)
        return selection.present(self.driver.read(selection.transform))

    def write(self, transform: Transform, values: npt.NDArray[Any]) -> None:
        """Write as `Driver.write` does."""
        selection = self.selected(transform)
        if 0 not in selection.shape:
            self.driver.write(selection.transform, selection.arrange(values))


def select(view: IndexTransform | None, base: IndexDomain, inner: Transform | None = None) -> Selection:
    """Return the selection of a view, or of elements of it that `inner` gives; the base limits the indices."""
    if inner is None and view is not None and (selection := _in_order(view, base)) is not None:
        return selection
    domain = base if view is None else view._domain
    lengths: list[int] = []
    for low, high, *_ in domain._dims if inner is None else ():
        if low < -_FINITE or high > _FINITE:
            raise invalid(f"Cannot read or write the unbounded domain {domain}")
        lengths.append(high - low)
    shape = tuple(lengths) if inner is None else inner.shape
    if view is None:
        return Selection(whole(shape) if inner is None else inner, shape)

    # the maps from the elements to the base, and the axes of the elements that these use
    maps: list[OutputMap] = []
    sizes: list[int] = []
    used: list[int] = []
    for dimension, (output, (low, high, *_)) in enumerate(zip(view._maps, base._dims, strict=True)):
        one = with_origin_0(output, domain, low)
        if inner is not None:
            one = composed(one, inner.maps, shape)
        size, is_inside = high - low, False
        if type(one) is not Affine:
            used += axes_of(one)
        else:
            axis, start, step = one
            last = start
            if axis >= 0:
                used.append(axis)
                last += step * (shape[axis] - 1)
            is_inside = 0 <= start < size and 0 <= last < size and output._array is None
        if not is_inside and 0 not in shape:
            _check(one, output, (low, high), dimension, shape)
        maps.append(one)
        sizes.append(size)
    kept = shape
    if used != [*range(len(shape))]:
        kept = tuple([size if axis in used or not size else 1 for axis, size in enumerate(shape)])
    return Selection(Transform(kept, tuple(maps), tuple(sizes)), shape)


def _in_order(view: IndexTransform, base: IndexDomain) -> Selection | None:
    """Return the selection of a view by ints and slices in order, the usual case; None for all others."""
    dims = view._domain._dims
    maps: list[OutputMap] = []
    sizes: list[int] = []
    lengths: list[int] = []
    axis = 0
    for output, (low, high, *_) in zip(view._maps, base._dims, strict=True):
        start, own = output._offset, output._dimension
        if own is None:
            if output._array is not None or not low <= start < high:
                return None
            maps.append(affine((-1, start - low, 0)))
        elif own != axis:
            return None
        else:
            first, end, step = *dims[axis][:2], output._stride
            start += step * first
            last = start + step * (end - first - 1)
            if not (-_FINITE <= first < end <= _FINITE and low <= start < high > last >= low):
                return None
            lengths.append(end - first)
            maps.append(affine((axis, start - low, step)))
            axis += 1
        sizes.append(high - low)
    if axis != len(dims):
        return None
    shape = tuple(lengths)
    return Selection(Transform(shape, tuple(maps), tuple(sizes)), shape)


def _check(one: OutputMap, output: OutputIndexMap, bounds: Interval, dimension: int, shape: tuple[int, ...]) -> None:
    """Refuse indices outside the base, and elements of an index array outside its range."""
    origin, end = first, stop = bounds
    if output._array is not None:
        low, high = output._range
        ends = [output._offset + output._stride * value for value in (low, high - 1)]
        first = max(origin, min(ends))
        stop = min(end, max(ends) + 1) if low < high else first
    least, most = (index + origin for index in extent(one, shape))
    if not first <= least <= most < stop:
        wrong = least if least < first else most
        text = f"Index {wrong} is outside valid range {interval_text(first, stop)} of dimension {dimension}"
        raise status("OUT_OF_RANGE", text)
