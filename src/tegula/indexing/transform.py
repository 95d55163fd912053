"""Transforms: maps from the indices of a view to those of the array below it, composed without reading anything.

A transform has one *output map* for each axis of the array. It gives the array's index along that axis for an element
of the view: a constant, an affine function of one index of the view, or an element of an index array. Selecting from a
view composes the selection with these maps, so that a chain of selections is read by one plan, as one selection is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import index
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from tegula.errors import SelectionError, brief
from tegula.indexing.arrays import IntArray
from tegula.indexing.normalise import itemise
from tegula.indexing.plan import Plan, plain
from tegula.indexing.selections import compose, order_of, spread_of
from tegula.metadata.chunk_grids import ChunkGrid, as_slice

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Affine", "OutputMap", "Transform", "affine", "axes_of", "composed", "extent", "whole"]

Names: TypeAlias = tuple[str | None, ...] | None


_Placed: TypeAlias = tuple[list[tuple[int, Any, int]], list[int], list["int | None"], "tuple[Any, ...] | None"]
"""What each axis of a view becomes: its output map in terms of the result, where the step 0 marks an index array; the
lengths of the axes of the result; the axis of the view that each comes from; and items that select the same from an
array of NumPy, unless axes would move."""


_KEEPING: Final = (slice, np.ndarray)  # types of items that keep an axis
_greatest: Final = np.maximum.reduce  # in half of the time of the method ``max``


class Affine(NamedTuple):
    """An output map ``start + step * i``, where ``i`` is the index of an axis of the view; -1 stands for no axis."""

    axis: int
    start: int
    step: int


affine: Final[Callable[[tuple[int, int, int]], Affine]] = partial(tuple.__new__, Affine)
"""Makes an `Affine` of its three numbers without running code of Python."""
OutputMap: TypeAlias = Affine | IntArray
"""An affine function, or an index array with the axes of the view, of length 1 along those it does not depend on."""


class Transform:
    """The elements of an array that a view has, in the order in which it has them; immutable.

    Parameters
    ----------
    shape : tuple of int
        Shape of the view.
    maps : tuple of OutputMap
        The map of each axis of the array.
    base : tuple of int
        Shape of the array when its view was made.
    names : tuple of (str or None), optional
        Names of the view's dimensions.

    Examples
    --------
    >>> view = whole((10, 6)).index((slice(2, None, 2), 5)).index(slice(None, None, -1))
    >>> view.shape, view.maps
    ((4,), (Affine(axis=0, start=8, step=-2), Affine(axis=-1, start=5, step=0)))
    """

    __slots__ = ("base", "maps", "names", "shape")

    def __init__(
        self, shape: tuple[int, ...], maps: tuple[OutputMap, ...], base: tuple[int, ...], names: Names = None
    ) -> None:
        self.shape, self.maps, self.base, self.names = shape, maps, base, names

    def __reduce__(self) -> tuple[Any, ...]:
        return Transform, (self.shape, self.maps, self.base, self.names)

    # --- composition

    def index(self, selection: Any, *, outer: bool = False) -> Transform:
        """Return the transform of a selection from the view.

        Parameters
        ----------
        selection : selection
            What NumPy accepts between brackets.
        outer : bool
            Whether the selection applies to each axis independently, as for ``oindex``.

        Raises
        ------
        SelectionError
            If the selection does not fit the view.
        """
        return self._picked(selection, outer) or self._indexed(selection, outer)

    def _picked(self, selection: Any, outer: bool) -> Transform | None:
        """Select as `_indexed` does if each axis stays where it is; return ``None`` otherwise, and for errors.

        This takes a few microseconds for ints, slices, new axes and arrays of indices.
        """
        given = selection if type(selection) is tuple else (selection,)
        if EllipsisType in map(type, given):
            given = _expanded(given, len(self.shape))
        placed = _placed(given, self.shape, outer)
        if placed is None:
            return None
        parts, lengths, sources, items = placed
        maps: list[OutputMap] = []
        for one in self.maps:
            if not isinstance(one, Affine):
                if items is None:
                    return None
                maps.append(_part_of(one, items))
                continue
            own, begin, stride = one
            if own < 0:
                maps.append(one)
                continue
            axis, start, step = parts[own]
            if step or axis < 0:
                maps.append(affine((axis, begin + stride * start, stride * step)))
            else:
                spread = [1] * len(lengths)
                spread[axis] = lengths[axis]
                if stride != 1 or begin:
                    start = start * stride + begin
                maps.append(_array_map(start.reshape(spread)))
        names = self.names
        if names is not None:
            names = tuple([None if axis is None else names[axis] for axis in sources])
        return Transform(tuple(lengths), tuple(maps), self.base, names)

    def _indexed(self, selection: Any, outer: bool) -> Transform:
        # the length and position of each axis of the view, and of the group of arrays that are broadcast, in the result
        items = itemise(selection, self.shape, outer)
        by_axis = [item for item in items if item is not None and item is not ...]
        arrays = {axis: item for axis, item in enumerate(by_axis) if isinstance(item, np.ndarray)}
        lengths = spread_of(arrays, outer)
        picks: dict[int, range] = {}
        for axis, item in enumerate(by_axis):
            if isinstance(item, slice):
                picks[axis] = _range_of(item, axis, self.shape[axis])
                lengths[axis] = (len(picks[axis]),)
        group = None if outer else [axis for axis in lengths if axis < 0 or axis in arrays]
        shape: list[int] = []
        names: list[str | None] = []
        at: dict[int, int] = {}
        for one in order_of(items, group):
            if one is not None:
                at[one] = len(shape)
            added = (1,) if one is None else lengths[one]
            # an axis that is added, split, or joined with others has no name
            has_name = self.names is not None and one is not None and one >= 0 and len(added) == 1
            names += [self.names[one] if has_name else None] * len(added)  # type: ignore[index]
            shape += added

        # what each axis of the view becomes, put into the maps
        ndim = len(shape)
        parts: list[OutputMap] = []
        for axis, item in enumerate(by_axis):
            if isinstance(item, np.ndarray):
                first, spread = (at[axis], lengths[axis]) if axis in lengths else (at[-1], lengths[-1])
                own = item.reshape(-1) if axis in lengths and len(spread) == 1 else item
                ones = (1,) * (first + len(spread) - own.ndim)
                parts.append(_array_map(own.reshape(ones + own.shape + (1,) * (ndim - first - len(spread)))))
            elif isinstance(item, int):
                parts.append(Affine(-1, item, 0))
            else:
                parts.append(Affine(at[axis], picks[axis].start, picks[axis].step))
        maps = _repeated([composed(one, parts, shape) for one in self.maps], shape)
        return Transform(tuple(shape), tuple(maps), self.base, None if self.names is None else tuple(names))

    def transpose(self, axes: Any = None) -> Transform:
        """Return the transform with the axes of the view in another order, by default reversed.

        Raises
        ------
        SelectionError
            If `axes` is not a permutation of the axes.
        """
        ndim = len(self.shape)
        order = [*range(ndim - 1, -1, -1)]
        if axes is not None:
            try:
                order = [range(ndim)[index(axis)] for axis in axes]
            except (TypeError, IndexError):
                order = []
            if sorted(order) != [*range(ndim)]:
                raise SelectionError(f"{brief(axes)} is not an order of the {ndim} axes")
        maps: list[OutputMap] = []
        for one in self.maps:
            if not isinstance(one, Affine):
                maps.append(one.transpose(order))
            else:
                maps.append(Affine(order.index(one.axis), one.start, one.step) if one.axis >= 0 else one)
        names = None if self.names is None else tuple([self.names[axis] for axis in order])
        return Transform(tuple([self.shape[axis] for axis in order]), tuple(maps), self.base, names)

    def after(self, inner: Transform) -> Transform:
        """Return the transform of a view of the view: `inner` gives its elements in this one.

        Examples
        --------
        >>> whole((9,)).index(slice(2, None)).after(whole((7,)).index(slice(None, None, 3))).maps
        (Affine(axis=0, start=2, step=3),)
        """
        shape = [*inner.shape]
        maps = _repeated([composed(one, [*inner.maps], shape) for one in self.maps], shape)
        return Transform(inner.shape, tuple(maps), self.base, inner.names)

    def moved(self, offsets: Sequence[int], base: tuple[int, ...]) -> Transform:
        """Return the transform to the same elements of another array, in which their indices differ by offsets.

        Examples
        --------
        >>> whole((9,)).index(slice(4, 6)).moved([-4], (2,)).maps
        (Affine(axis=0, start=0, step=1),)
        """
        maps: list[OutputMap] = []
        for one, offset in zip(self.maps, offsets):
            maps.append(one._replace(start=one.start + offset) if isinstance(one, Affine) else one + offset)
        return Transform(self.shape, tuple(maps), base, self.names)

    def distinct(self, ndim: int) -> tuple[Transform, tuple[OutputMap, ...]]:
        """Return the elements along the first axes of the array, each once, and where those of the view are among them.

        Parameters
        ----------
        ndim : int
            The number of axes of the array.

        Examples
        --------
        >>> once, places = whole((9, 2)).index(([5, 7, 5], [0, 0, 1])).distinct(1)
        >>> once.maps, places
        ((array([5, 7]),), (array([0, 1, 0]),))
        """
        maps = _apart(self.maps[:ndim], self.shape)
        arrays = [one for one in maps if not isinstance(one, Affine)]
        sliced = [one for one in maps if isinstance(one, Affine) and one.axis >= 0]
        shape = tuple([self.shape[one.axis] for one in sliced])
        places: list[OutputMap] = [Affine(one.axis, 0, 1) for one in sliced]
        rows: Iterator[IntArray] = iter(())
        if arrays:
            spread = np.broadcast_arrays(*arrays)
            points, numbers = np.unique([each.reshape(-1) for each in spread], axis=1, return_inverse=True)
            rows = iter(points.reshape(len(points), -1, *[1] * len(shape)))
            shape = (points.shape[1], *shape)
            places.insert(0, _array_map(numbers.reshape(spread[0].shape)))
        axes = iter(range(len(shape) - len(sliced), len(shape)))
        once: list[OutputMap] = []
        for one in maps:
            if not isinstance(one, Affine):
                once.append(_array_map(next(rows)))
            else:
                once.append(one if one.axis < 0 else one._replace(axis=next(axes)))
        return Transform(shape, tuple(once), self.base[:ndim]), tuple(places)

    # --- plans

    def in_order(self, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Return a selection of ints and slices that has the elements of the view in its order; ``None`` without one.

        Parameters
        ----------
        shape : tuple of int
            Present shape of the array.
        """
        if shape != self.base:
            return None
        items: list[Any] = []
        count = 0
        for one in self.maps:
            if type(one) is not Affine:
                return None
            axis, start, step = one
            if axis < 0:
                items.append(start)
            elif axis != count:
                return None
            else:
                stop = start + step * self.shape[axis]
                items.append(slice(start, stop if stop >= 0 else None, step))
                count += 1
        return tuple(items) if count == len(self.shape) else None

    def plan(self, shape: tuple[int, ...], grid: ChunkGrid, *, is_point: bool = False) -> Plan:
        """Plan a read or write of the whole view.

        Parameters
        ----------
        shape : tuple of int
            Present shape of the array.
        grid : ChunkGrid
            Its division into chunks.
        is_point : bool
            Whether a view without axes is read as an element, and not as an array.

        Raises
        ------
        SelectionError
            If the array no longer has all elements of the view.
        """
        if shape != self.base:
            self.check(shape)
        if 0 in self.shape:
            nothing = compose([slice(0)] * len(shape), shape, grid)
            return Plan(nothing.axes, tuple(range(len(self.shape))), self.shape, self.shape, is_point=False)

        # an item for each axis of the array; index arrays that share axes of the view are broadcast together
        maps = _apart(self.maps, self.shape)
        arrays = {axis: one for axis, one in enumerate(maps) if not isinstance(one, Affine)}
        dims = {axis: axes_of(one) for axis, one in enumerate(maps)}
        shared = [dim for axis in arrays for dim in dims[axis]]
        joint = sorted({*shared})
        outer = len(joint) == len(shared)
        items: list[Any] = []
        for one in maps:
            if not isinstance(one, Affine):
                items.append(one.reshape(-1 if outer else [one.shape[dim] for dim in joint]))
            elif one.axis < 0:
                items.append(one.start)
            else:
                items.append(as_slice(range(one.start, one.start + one.step * self.shape[one.axis], one.step)))
        made = (None if arrays else plain(tuple(items), shape, grid)) or compose(items, shape, grid, outer=outer)

        # from the axes of the work buffer to those of the view
        order = [dim for axis in made.work_axes for dim in (joint if axis < 0 else dims[axis])]
        split = tuple([self.shape[dim] for dim in order])
        view = None
        if split != made.work_shape or order != sorted(order):
            view = split, tuple(sorted(range(len(order)), key=order.__getitem__))
        is_point = is_point and not self.shape
        return Plan(
            made.axes, made.work_axes, made.work_shape, self.shape, is_point=is_point, points=made.points, view=view
        )

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise if an array of another shape does not have all elements of the view."""
        if 0 in self.shape:
            return
        fits = len(shape) == len(self.maps)
        if not fits or any(extent(one, self.shape)[1] >= size for one, size in zip(self.maps, shape)):
            raise SelectionError(
                f"the array's shape is {shape} now, without all elements of this view; select from the array again"
            )

    # --- arrays in memory

    def take(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the elements of an array in memory; those of ints and slices in order share its memory.

        Examples
        --------
        >>> whole((4, 3)).index((slice(None, None, 2), [2, 0])).take(np.arange(12).reshape(4, 3))
        array([[2, 0],
               [8, 6]])
        """
        selection = self.in_order(values.shape)
        if selection is not None:
            return values[(*selection, ...)]
        turned, items, order = self._in_memory(values)
        found: npt.NDArray[Any] = turned[items].transpose(np.argsort(order)).reshape(self.shape)
        return found

    def put(self, values: npt.NDArray[Any], new: npt.NDArray[Any]) -> None:
        """Replace the elements of an array in memory.

        Examples
        --------
        >>> values = np.zeros(5, int)
        >>> whole((5,)).index(slice(4, 1, -1)).put(values, np.array([1, 2, 3]))
        >>> values
        array([0, 0, 3, 2, 1])
        """
        selection = self.in_order(values.shape)
        if selection is not None:
            values[(*selection, ...)] = new
            return
        turned, items, order = self._in_memory(values)
        axes = sorted(order)
        turned[items] = new.reshape([self.shape[axis] for axis in axes]).transpose([axes.index(axis) for axis in order])

    def _in_memory(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], tuple[Any, ...], list[int]]:
        """Return an array with the axes that index arrays and ints select in front, the selection, and its axes."""
        if values.shape != self.base:
            self.check(values.shape)
        maps = _apart(self.maps, self.shape)
        joint = sorted({dim for one in maps if not isinstance(one, Affine) for dim in axes_of(one)})
        first: list[tuple[int, Any]] = []
        rest: list[tuple[int, Any]] = []
        order = [*joint]
        for axis, one in enumerate(maps):
            if not isinstance(one, Affine):
                first.append((axis, one.reshape([one.shape[dim] for dim in joint])))
            elif one.axis < 0:
                first.append((axis, one.start))
            else:
                along = range(one.start, one.start + one.step * self.shape[one.axis], one.step)
                rest.append((axis, as_slice(along)))
                order.append(one.axis)
        found = [*first, *rest]
        return values.transpose([axis for axis, _ in found]), (*[item for _, item in found], ...), order


def whole(shape: tuple[int, ...], names: Names = None) -> Transform:
    """Return the transform of a view of a whole array.

    Examples
    --------
    >>> whole((3,)).maps
    (Affine(axis=0, start=0, step=1),)
    """
    return Transform(shape, tuple([Affine(axis, 0, 1) for axis in range(len(shape))]), shape, names)


def _range_of(item: slice, axis: int, size: int) -> range:
    try:
        picked = range(*item.indices(size))
    except (TypeError, ValueError) as error:
        raise SelectionError(f"a slice is not valid for axis {axis} with size {size}: {error}") from error
    return range(picked.start, picked.start + 1) if len(picked) == 1 else picked or range(0)


def _placed(items: tuple[Any, ...], shape: tuple[int, ...], outer: bool) -> _Placed | None:
    """Return what each axis of a view becomes; ``None`` where an axis moves, and for errors."""
    ndim = len(shape)
    parts: list[tuple[int, Any, int]] = []
    lengths: list[int] = []
    sources: list[int | None] = []
    arrays = ints = 0
    joint = last = -1  # the axis of the arrays that are broadcast together, and the last of these
    for number, item in enumerate(items):
        axis, place = len(parts), len(lengths)
        if item is None:
            sources.append(None)
            lengths.append(1)
            continue
        if axis >= ndim:
            return None
        size, kind = shape[axis], type(item)
        if kind is slice:
            try:
                start, stop, step = item.indices(size)
            except (TypeError, ValueError):
                return None
            count = len(range(start, stop, step))
            parts.append((place, start if count else 0, step if count > 1 else 1))
        elif kind is int or isinstance(item, np.integer):
            if not -size <= item < size:
                return None
            parts.append((-1, int(item) % size, 0))
            ints += 1
            continue
        else:
            found = _numbers(item, size)
            if found is None:
                return None
            arrays += 1
            count = len(found)
            if joint >= 0:  # NumPy puts arrays that are not beside each other elsewhere
                if last != number - 1 or lengths[joint] != count:
                    return None
                parts.append((joint, found, 0))
                sources[joint], last = None, number
                continue
            parts.append((place, found, 0))
            items = (*items[:number], found, *items[number + 1 :])
            if not outer:
                joint, last = place, number
        sources.append(axis)
        lengths.append(count)
    if joint >= 0 and ints:
        return None
    for axis in range(len(parts), ndim):
        parts.append((len(lengths), 0, 1))
        sources.append(axis)
        lengths.append(shape[axis])
    return parts, lengths, sources, None if arrays > 1 or (arrays and ints) else items


def _expanded(items: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Return a selection with slices for its first ellipsis."""
    at = next(number for number, item in enumerate(items) if item is ...)
    rest = ndim + 1 - sum([item is not None for item in items])
    return (*items[:at], *(slice(None),) * rest, *items[at + 1 :])


def _numbers(item: Any, size: int) -> IntArray | None:
    """Return the positions along an axis that a 1-d array or list selects; ``None`` for all else, and for errors."""
    if type(item) is list:
        with suppress(ValueError, OverflowError):  # lists of unequal lengths
            item = np.array(item)
    if type(item) is not np.ndarray or item.ndim != 1 or not item.size or size < 2:
        return None
    if item.dtype.kind == "b":
        return np.flatnonzero(item) if item.size == size and item.any() else None
    if item.dtype.kind not in "iu":
        return None
    if item.dtype == np.int64 and _greatest(item.view(np.uint64)) < size:  # negative numbers are the greatest
        return item.copy()
    least, most = int(item.min()), int(item.max())
    if least < -size or most >= size:
        return None
    numbers = item.astype(np.int64)
    return np.where(numbers < 0, numbers + size, numbers) if least < 0 else numbers


def _part_of(one: IntArray, items: tuple[Any, ...]) -> OutputMap:
    """Return the part of an index array that ints, slices, new axes and one array of indices select."""
    if 1 in one.shape:  # along these axes there is one element for all indices
        sizes = iter(one.shape)
        picked: list[Any] = []
        for item in items:
            is_shared = item is not None and next(sizes) == 1
            picked.append((slice(None) if type(item) in _KEEPING else 0) if is_shared else item)
        items = tuple(picked)
    found = one[items]
    return affine((-1, found.item(), 0)) if found.size == 1 else found


def _repeated(maps: list[OutputMap], shape: list[int]) -> list[OutputMap]:
    """Let a map depend on the axes of a view that none depends on: those along which elements are repeated.

    Index arrays select so from an axis that was added with ``None``.
    """
    used = {dim for one in maps for dim in axes_of(one)}
    added = [dim for dim, size in enumerate(shape) if size != 1 and dim not in used]
    if not added or 0 in shape:
        return maps
    if not maps:
        raise SelectionError("the element of an array without dimensions can't be repeated by a view")
    # a constant takes least memory, and an index array less than a slice
    ranks = [1 if isinstance(one, np.ndarray) else 2 if one.axis >= 0 else 0 for one in maps]
    chosen = ranks.index(min(ranks))
    one = maps[chosen]
    if isinstance(one, Affine):
        count = shape[one.axis] if one.axis >= 0 else 1
        values = np.arange(count) * one.step + one.start
        one = values.reshape([count if axis == one.axis else 1 for axis in range(len(shape))])
    lengths = [size if axis in added else one.shape[axis] for axis, size in enumerate(shape)]
    return [*maps[:chosen], np.broadcast_to(one, lengths), *maps[chosen + 1 :]]


def _apart(maps: tuple[OutputMap, ...], shape: tuple[int, ...]) -> tuple[OutputMap, ...]:
    """Return maps of which those that share an axis of the view, as on a diagonal, are all index arrays."""
    axes = [one.axis for one in maps if isinstance(one, Affine) and one.axis >= 0]
    if len(axes) == len(maps) == len({*axes}):
        return maps
    arrays = [one for one in maps if not isinstance(one, Affine)]
    shared = {axis for axis in axes if axes.count(axis) > 1}.union(*map(axes_of, arrays))
    if shared.isdisjoint(axes):
        return maps
    parts: list[OutputMap] = []
    for one in maps:
        if isinstance(one, Affine) and one.axis in shared:
            along = np.arange(shape[one.axis]) * one.step + one.start
            parts.append(_array_map(along.reshape([-1 if axis == one.axis else 1 for axis in range(len(shape))])))
        else:
            parts.append(one)
    return tuple(parts)


def extent(one: OutputMap, shape: Sequence[int]) -> tuple[int, int]:
    """Return the least and the greatest index of an output map, where `shape` is that of a view with elements.

    Examples
    --------
    >>> extent(Affine(0, 8, -2), (4,))
    (2, 8)
    """
    if not isinstance(one, Affine):
        return int(one.min()), int(one.max())
    last = one.start + one.step * (shape[one.axis] - 1) if one.axis >= 0 else one.start
    return (one.start, last) if one.start <= last else (last, one.start)


def axes_of(one: OutputMap) -> list[int]:
    """Return the axes of a view that an output map depends on."""
    if isinstance(one, Affine):
        return [one.axis] if one.axis >= 0 else []
    return [axis for axis, size in enumerate(one.shape) if size != 1]


def _array_map(array: IntArray) -> OutputMap:
    """Return the map of an index array, which is a constant if it has one element."""
    return Affine(-1, int(array.reshape(-1)[0]), 0) if array.size == 1 else array


def composed(one: OutputMap, parts: Sequence[OutputMap], shape: Sequence[int]) -> OutputMap:
    """Put what each axis of a view becomes into an output map of the view; `shape` is that of the result."""
    if isinstance(one, Affine):
        if one.axis < 0:
            return one
        part = parts[one.axis]
        if isinstance(part, Affine):
            return Affine(part.axis, one.start + one.step * part.start, one.step * part.step)
        return one.start + one.step * part

    # the elements of an index array that are selected, along the axes of the result that select them
    ndim = len(shape)
    axes = [part.axis for part, size in zip(parts, one.shape) if size != 1 and isinstance(part, Affine)]
    axes = [axis for axis in axes if axis >= 0]
    is_sliced = len({*axes}) == len(axes) and not any(
        size != 1 and isinstance(part, np.ndarray) for part, size in zip(parts, one.shape)
    )
    picked: list[Any] = []
    for part, size in zip(parts, one.shape):
        if size == 1:
            picked.append(0)
        elif isinstance(part, np.ndarray):
            picked.append(part)
        elif part.axis < 0:
            picked.append(part.start)
        elif is_sliced:
            picked.append(as_slice(range(part.start, part.start + part.step * shape[part.axis], part.step)))
        else:
            along = np.arange(shape[part.axis]) * part.step + part.start
            picked.append(along.reshape([-1 if axis == part.axis else 1 for axis in range(ndim)]))
    values = np.asarray(one[tuple(picked)])
    if is_sliced:
        values = values.transpose(sorted(range(len(axes)), key=axes.__getitem__))
        values = values.reshape([shape[axis] if axis in axes else 1 for axis in range(ndim)])
    return _array_map(values if values.ndim else values.reshape((1,) * ndim))
