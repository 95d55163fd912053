"""A fast path for indexing with integers, slices and index arrays, in one pass over the transform.

The result is that of `tegula.tensorstore.index.indexing` followed by a composition. This general path handles all
other cases, and raises all errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.tensorstore.errors import IndexStatusError
from tegula.tensorstore.index.composition import Maps, Transform, effective_bounds
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY, MAX_RANK, Bounds, Interval
from tegula.tensorstore.index.numpy_terms import Mode, broadcast
from tegula.tensorstore.index.output_maps import IndexArray, OutputIndexMap
from tegula.tensorstore.index.slicing import slice_bounds

__all__ = ["index_basic"]

_ALL = slice(None)
_Array = np.ndarray


def index_basic(domain: IndexDomain, maps: Maps, key: Any, mode: Mode) -> Transform | None:
    """Return the indexed transform; None if the general path must do it."""
    terms = _basic_terms(key, len(domain._lower), mode)
    if terms is None:
        return None
    arrays = _Arrays(terms, mode) if _Array in map(type, terms) else None
    if arrays is not None and not arrays.fits:
        return None
    # the new dimensions, and the replacement of each old one in the output maps
    new_bounds: list[Bounds] = []
    labels: list[str] = []
    changes: list[tuple[int, int, int]] = []
    if arrays is not None and arrays.front:
        arrays.emit(new_bounds, labels)
    for dim, term in enumerate(terms):
        if type(term) is _Array:
            assert arrays is not None
            arrays.add(term, dim, new_bounds, labels)
            changes.append((-1, 0, 0))
            continue
        bounds = domain._lower[dim], domain._upper[dim], domain._implicit_lower[dim], domain._implicit_upper[dim]
        if type(term) is int:
            least = -INFINITY if bounds[2] else bounds[0]
            if not least <= term < (EXCLUSIVE_INFINITY if bounds[3] else bounds[1]):
                return None
            changes.append((-1, term, 0))
            continue
        sliced = _slice(bounds, term, dim)
        if sliced is None:
            return None
        changes.append((len(new_bounds), sliced[1], sliced[2]))
        new_bounds.append(sliced[0])
        labels.append(domain._labels[dim])
    if arrays is not None:
        if len(new_bounds) > MAX_RANK or _is_empty(new_bounds):
            return None  # the general path drops index arrays over an empty domain
        arrays.shape_all(len(new_bounds))
    new_maps = _changed(domain, maps, changes, new_bounds, {} if arrays is None else arrays.shaped)
    return None if new_maps is None else (IndexDomain._of_bounds(new_bounds, labels), new_maps)


class _Arrays:
    """The index arrays of an expression, which broadcast together or each stay in place.

    Attributes
    ----------
    fits : bool
        Whether the arrays broadcast, and none of them is empty.
    front : bool
        Whether the dimensions of the arrays come first.
    shaped : dict of int to ndarray
        The index array of each old dimension that has one, with an axis for every new dimension.
    """

    __slots__ = ("_ends", "_shape", "fits", "front", "shaped")

    def __init__(self, terms: tuple[Any, ...], mode: Mode) -> None:
        array_dims = [dim for dim, term in enumerate(terms) if type(term) is _Array]
        together = mode == "vindex" or (mode == "default" and len(array_dims) > 1)
        self.fits = min([terms[dim].size for dim in array_dims]) > 0
        self.front = together and (mode == "vindex" or slice in map(type, terms[array_dims[0] : array_dims[-1]]))
        self.shaped: dict[int, IndexArray] = {}
        self._ends: dict[int, int] = {}
        self._shape: tuple[int, ...] | None = () if together else None
        if together:
            try:
                for dim in array_dims:
                    self._shape = broadcast(self._shape or (), terms[dim].shape)
            except IndexStatusError:
                self.fits = False

    def emit(self, new_bounds: list[Bounds], labels: list[str]) -> None:
        """Add the dimensions of arrays that broadcast together."""
        assert self._shape is not None
        self._add(self._shape, new_bounds, labels)
        self._ends[-1] = len(new_bounds)

    def add(self, array: IndexArray, dim: int, new_bounds: list[Bounds], labels: list[str]) -> None:
        """Add the array that indexes an old dimension."""
        self.shaped[dim] = array
        if self._shape is None:
            self._add(array.shape, new_bounds, labels)
            self._ends[dim] = len(new_bounds)
            return
        if -1 not in self._ends:
            self.emit(new_bounds, labels)
        self._ends[dim] = self._ends[-1]

    def _add(self, shape: tuple[int, ...], new_bounds: list[Bounds], labels: list[str]) -> None:
        for size in shape:
            new_bounds.append((0, size, False, False))
            labels.append("")

    def shape_all(self, rank: int) -> None:
        """Reshape the arrays so that they have an axis for every new dimension."""
        for dim, array in self.shaped.items():
            end = self._ends[dim]
            shaped = array.reshape((1,) * (end - array.ndim) + array.shape + (1,) * (rank - end))
            shaped.setflags(write=False)
            self.shaped[dim] = shaped


def _basic_terms(key: Any, rank: int, mode: Mode) -> tuple[Any, ...] | None:
    """Return an integer, a slice or an array of integers for each dimension; None if there are other terms."""
    terms: tuple[Any, ...] = key if type(key) is tuple else (key,)
    ellipsis, arrays = -1, 0
    for position, term in enumerate(terms):
        if term is ...:
            if ellipsis >= 0:
                return None
            ellipsis = position
        elif type(term) is not int and type(term) is not slice:
            array = _integers(term)
            if array is None:
                return None
            arrays += 1
            terms = (*terms[:position], array, *terms[position + 1 :])
    if ellipsis >= 0:
        if arrays > 1 and mode == "default":
            return None  # an ellipsis separates arrays even if it stands for no dimension
        missing = rank - len(terms) + 1
        terms = (*terms[:ellipsis], *((_ALL,) * missing), *terms[ellipsis + 1 :])
    elif len(terms) < rank:
        terms += (_ALL,) * (rank - len(terms))
    return terms if len(terms) == rank else None


def _integers(term: Any) -> IndexArray | None:
    """Return a copy of an array or a list of integers; None for anything else."""
    if type(term) is _Array:
        dtype = term.dtype
        fits = dtype.kind == "i" or (dtype.kind == "u" and dtype.itemsize < 8)
        return term.astype(np.int64) if fits and 0 < term.ndim <= MAX_RANK else None
    if type(term) is not list or not term or type(term[0]) is not int:
        return None
    try:
        array = np.array(term)
    except (TypeError, ValueError):
        return None
    return array if array.dtype == np.int64 and array.ndim == 1 else None


def _slice(bounds: Bounds, term: slice, dim: int) -> tuple[Bounds, int, int] | None:
    start, stop, step = term.start, term.stop, term.step
    if start is None and stop is None and step is None:
        return bounds, 0, 1
    lower, upper, implicit_lower, implicit_upper = bounds
    plain = (
        (start is None or type(start) is int)
        and (stop is None or type(stop) is int)
        and (step is None or type(step) is int)
    )
    if not plain or (lower == upper and (implicit_lower or implicit_upper)):
        return None
    if step is None and start is not None and stop is not None and lower <= start <= stop <= upper and start < INFINITY:
        return (start, stop, False, False), 0, 1
    try:
        return slice_bounds(bounds, term, dim)
    except IndexStatusError:
        return None


def _changed(
    domain: IndexDomain,
    maps: Maps,
    changes: list[tuple[int, int, int]],
    new_bounds: list[Bounds],
    arrays: dict[int, IndexArray],
) -> Maps | None:
    """Return the output maps with old dimensions replaced by new ones; None if the general path must do it."""
    new_maps: list[OutputIndexMap] = []
    for old_map in maps:
        dim, new = old_map._dimension, None
        if dim is None:
            new = old_map
            if old_map._array is not None:
                new = _of_values(
                    None if arrays else _picked(old_map._array, domain, changes, new_bounds), old_map, old_map._range
                )
        elif dim in arrays:
            new = _of_values(arrays[dim], old_map, effective_bounds(domain, dim))
        else:
            new_dim, offset, stride = changes[dim]
            if new_dim == dim and stride == 1 and not offset:
                new_maps.append(old_map)
                continue
            offset = old_map._offset + old_map._stride * offset
            stride *= old_map._stride
            if -INFINITY < offset < INFINITY and -INFINITY < stride < INFINITY:
                new = (
                    OutputIndexMap._single(new_dim, offset, stride)
                    if new_dim >= 0
                    else OutputIndexMap._constant(offset)
                )
        if new is None:
            return None
        new_maps.append(new)
    return tuple(new_maps)


def _of_values(array: IndexArray | None, old: OutputIndexMap, bounds: Interval) -> OutputIndexMap | None:
    """Return the map of an index array, a constant for a single element; None for no array or an invalid element."""
    if array is None or array.size != 1:
        return None if array is None else OutputIndexMap._of_array(array, old._offset, old._stride, bounds)
    value = int(array.item())
    constant = old._offset + old._stride * value
    return OutputIndexMap._constant(constant) if bounds[0] <= value < bounds[1] else None


def _is_empty(new_bounds: list[Bounds]) -> bool:
    return any(bounds[0] == bounds[1] for bounds in new_bounds)


def _picked(
    array: IndexArray, domain: IndexDomain, changes: list[tuple[int, int, int]], new_bounds: list[Bounds]
) -> IndexArray | None:
    """Return the selected part of an index array; None if the new domain is empty."""
    if _is_empty(new_bounds):
        return None
    picks: list[int | slice] = []
    for dim, (new_dim, offset, stride) in enumerate(changes):
        first = 0 if array.shape[dim] == 1 else offset - domain._lower[dim]
        if new_dim < 0:
            picks.append(first)
        elif array.shape[dim] == 1:
            picks.append(_ALL)
        else:
            lower, upper = new_bounds[new_dim][:2]
            first += stride * lower
            stop = first + stride * (upper - lower)
            picks.append(slice(first, stop if stop >= 0 else None, stride))
    return np.asarray(array[tuple(picks)])
