"""What views read and write: selections of a base array, and sources of writes, aligned with the target.

Drivers read and write by transforms of the core (`tegula.indexing.Transform`), whose indices count from the origin of
the base: without origins, labels and implicit bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tegula.indexing import whole
from tegula.indexing.transform import Affine, OutputMap, Transform, affine, axes_of, composed, extent
from tegula.runtime.frozen import attribute
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.fill_values import as_dtype
from tegula.tensorstore.constraints.schema import units_through
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.errors import invalid, status, type_error
from tegula.tensorstore.index.dim import Interval, outside
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap, with_origin_0
from tegula.tensorstore.index.transform import IndexTransform, identity
from tegula.tensorstore.json import conversion_error, each, to_json_value
from tegula.tensorstore.spec.interface import Driver

__all__ = ["Selection", "Viewed", "align", "as_source", "select", "spread"]


_FINITE = 2**62 - 1


class Selection(NamedTuple):
    """The elements of a base array that a view of a shape contains.

    An axis of the view along which elements are repeated has length 1 in the transform.
    """

    transform: Transform
    shape: tuple[int, ...]

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
    dtype: dtypes.dtype = attribute("driver.dtype", "The data type of the elements.")

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
        raise status("OUT_OF_RANGE", outside(f"dimension {dimension}", wrong, (first, stop)))


_Values = npt.NDArray[Any]


def as_source(source: Any, dtype: dtypes.dtype, rank: int) -> _Values:
    """Convert the source of a write to an array of a data type with at most `rank` dimensions.

    NumPy arrays are converted only if NumPy considers that safe; numbers and lists of numbers as by ``np.array``.
    """
    wanted = dtype.numpy_dtype
    if type(source) is np.ndarray and source.dtype == wanted and wanted.kind != "O" and source.ndim <= rank:
        return source
    if wanted.kind == "O":
        return _objects(source, dtype, rank)
    if isinstance(source, np.ndarray):
        if not np.can_cast(source.dtype, wanted, "safe"):
            raise type_error(f"Cannot cast from {source.dtype!r} to {wanted!r} according to the rule 'safe'")
        return _shallow(source, rank).astype(wanted)
    if isinstance(source, np.complexfloating) and wanted.kind != "c":
        source = source.real
    try:
        values = np.array(source, wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise conversion_error(error) from error
    return _shallow(values, rank)


def _shallow(values: _Values, rank: int) -> _Values:
    if values.ndim > rank:
        raise invalid(f"an array of rank {values.ndim} has too many dimensions, {rank} at most")
    return values


def _objects(source: Any, dtype: dtypes.dtype, rank: int) -> _Values:
    # an array written to a single JSON element is stored as a list
    if isinstance(source, (np.ndarray, np.generic)) and (rank or dtype != dtypes.json):
        values = _shallow(np.asarray(source).astype(object), rank)
    else:
        values = _nested(source, rank)
    return each(values, to_json_value, np.dtype(object)) if dtype == dtypes.json else as_dtype(values, dtype)


def _nested(source: Any, rank: int) -> _Values:
    """Return nested lists as an array with a dimension for each level, up to ``rank``."""
    shape: list[int] = []
    level = [source]
    while len(shape) < rank and level and all(isinstance(element, (list, tuple)) for element in level):
        lengths = {len(element) for element in level}
        if len(lengths) > 1:
            break
        shape.append(lengths.pop())
        level = [inner for element in level for inner in element]
    values = np.empty(len(level), object)
    values[:] = level
    if not shape:
        values[0] = source
    return values.reshape(shape)


def align(source: IndexDomain, target: IndexDomain) -> tuple[int, ...]:
    """Match the dimensions of a source with those of a target; return that of the source for each, -1 if there is none.

    If both have labels, labelled dimensions match by label; all others match in order, starting with the last.
    Matching dimensions must have the same size, or size 1 in the source.
    """
    matches = _matches(source, target)
    wrong = [
        f"source dimension {number} with {f'target dimension {matches[number]}' if number in matches else 'none'}"
        for number, size in enumerate(source.shape)
        if size != 1 and (number not in matches or size != target.shape[matches[number]])
    ]
    if wrong:
        raise invalid(f"Error aligning dimensions of {source} and {target}: {', '.join(wrong)}")
    numbers = {match: number for number, match in matches.items()}
    return tuple(numbers.get(match, -1) for match in range(target.rank))


def _matches(source: IndexDomain, target: IndexDomain) -> dict[int, int]:
    sources, targets = list(range(source.rank)), list(range(target.rank))
    matches = {}
    if any(source.labels) and any(target.labels):
        for number, label in enumerate(source.labels):
            if label:
                sources.remove(number)
                if label in target.labels:
                    matches[number] = target.labels.index(label)
        targets = [number for number, label in enumerate(target.labels) if not label]
    matches.update(zip(reversed(sources), reversed(targets), strict=False))
    return matches


def spread(values: _Values, axes: Sequence[int], shape: tuple[int, ...]) -> _Values:
    """Broadcast values to the shape of a target; `axes` is the result of `align`."""
    unused = tuple(axis for axis in range(values.ndim) if axis not in axes)
    used = values.reshape([size for axis, size in enumerate(values.shape) if axis not in unused]) if unused else values
    order = [axis - sum(1 for dropped in unused if dropped < axis) for axis in axes if axis >= 0]
    return np.broadcast_to(used.transpose(order)[tuple(slice(None) if axis >= 0 else None for axis in axes)], shape)
