"""The kinds of selections: functions that convert a selection, a shape and a chunk grid to a plan.

All of them raise `SelectionError` if the selection does not fit the array.
"""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np

from tegula.errors import SelectionError
from tegula.indexing.arrays import IntArray, Lookup, Points, lookup, points
from tegula.indexing.normalise import Item, itemise
from tegula.indexing.plan import Plan, Runs, fixed, plain, runs
from tegula.metadata.chunk_grids import ChunkGrid

__all__ = ["basic", "blocks", "compose", "numpy_like", "order_of", "orthogonal", "refine", "spread_of", "vectorized"]


def basic(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan:
    """Plan a selection of ints, slices with any step, ``...`` and ``None``, as NumPy's basic indexing.

    Parameters
    ----------
    selection : int, slice, Ellipsis, None or tuple of them
        The selection, as written between brackets.
    shape : tuple of int
        Shape of the array.
    grid : ChunkGrid
        Division of the array into chunks.

    Raises
    ------
    SelectionError
        If the selection does not fit, or contains arrays.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> list(basic((5, -1), (10, 6), regular_grid((4, 4))))
    [((1, 1), (1, 1), (), False)]
    >>> basic((..., None, slice(4, None, -2)), (10, 6), regular_grid((4, 4))).shape
    (10, 1, 3)
    """
    plan = plain(selection, shape, grid)
    if plan is not None:
        return plan
    items = itemise(selection, shape)
    if any(isinstance(item, np.ndarray) for item in items):
        raise SelectionError("a basic selection can't contain arrays or lists; use oindex or vindex for these")
    return compose(items, shape, grid)


def numpy_like(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan:
    """Plan any selection that NumPy accepts, except for scalar bools, with NumPy's meaning.

    Without arrays and lists this is `basic`. Otherwise index arrays and masks are broadcast together; in the result
    their dimensions are at the position of the arrays if these are adjacent, and first if not. Unlike in NumPy, indices
    out of bounds are an error even if they are broadcast with an empty array.

    Parameters
    ----------
    selection : int, slice, Ellipsis, None, array_like of int or bool, or tuple of them
        The selection, as written between brackets.
    shape : tuple of int
        Shape of the array.
    grid : ChunkGrid
        Division of the array into chunks.

    Raises
    ------
    SelectionError
        If the selection does not fit.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> numpy_like(([0, 5, 5], slice(1, 3), [1, 1, 0]), (10, 4, 2), regular_grid((4, 4, 1))).shape
    (3, 2)
    """
    plan = plain(selection, shape, grid)
    return compose(itemise(selection, shape), shape, grid) if plan is None else plan


def vectorized(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan:
    """Plan a selection by coordinate arrays that are broadcast together, or by a mask, as for ``a.vindex``.

    Slices and other items may be mixed in, with their meaning in NumPy; see `numpy_like`, which also documents
    parameters and errors.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> for coords, inner, work, covers in vectorized(([9, 0, 8], [0, 1, 2]), (10, 4), regular_grid((5, 4))):
    ...     print(coords, [index.tolist() for index in inner], [index.tolist() for index in work], covers)
    (0, 0) [[0], [1]] [[1]] False
    (1, 0) [[4, 3], [0, 2]] [[0, 2]] False
    """
    return compose(itemise(selection, shape), shape, grid)


def orthogonal(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan:
    """Plan a selection that applies to each axis independently, as for ``a.oindex``.

    Arrays have one dimension; their indices may be in any order and repeated. See `numpy_like` for all else.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> plan = orthogonal(([9, 0, 8], slice(2), [True, False]), (10, 4, 2), regular_grid((5, 4, 2)))
    >>> plan.shape, plan.nchunks
    ((3, 2, 1), 2)
    """
    return compose(itemise(selection, shape, outer=True), shape, grid, outer=True)


def blocks(selection: Any, shape: tuple[int, ...], grid: ChunkGrid) -> Plan:
    """Plan a selection of whole chunks by their grid coordinates, as for ``a.blocks``.

    Parameters
    ----------
    selection : int, slice, Ellipsis or tuple of them
        Numbers of chunks along each axis; negative ones count from the end. An int selects one chunk and keeps the
        axis. Slices must have a step of 1 and begin within the grid; they may end beyond it.
    shape : tuple of int
        Shape of the array.
    grid : ChunkGrid
        Division of the array into chunks.

    Raises
    ------
    SelectionError
        If a chunk does not exist, or the selection contains anything else.

    Notes
    -----
    zarr-python rejects the same slices, and also every slice along an axis without chunks.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> blocks((-1, slice(1)), (10, 6), regular_grid((4, 4))).shape
    (2, 4)
    """
    counts = grid.counts(shape)
    parts: list[slice] = []
    for item in itemise(selection, counts):
        # the numbers of the first and the last chunk along the axis
        if item is ...:
            continue
        axis = len(parts)
        if isinstance(item, int):
            first, last = item, item + 1
        elif isinstance(item, slice):
            try:
                first, last, step = item.indices(counts[axis])
            except (TypeError, ValueError) as error:
                raise SelectionError(
                    f"a slice is not valid for axis {axis} with {counts[axis]} blocks: {error}"
                ) from error
            if step != 1:
                raise SelectionError(f"a slice of blocks must have step 1, unlike the one given for axis {axis}")
            _check_first(item, counts[axis], axis)
        else:
            raise SelectionError("a block selection takes ints, slices and '...' only")

        # the indices of their elements
        cut, size = grid.axes[axis], shape[axis]
        parts.append(slice(min(cut.start(first), size), min(cut.start(last), size)) if first < last else slice(0, 0))
    return basic(tuple(parts), shape, grid)


def _check_first(item: slice, count: int, axis: int) -> None:
    """Raise if a slice of blocks begins outside of the grid, since it would silently select nothing."""
    if item.start is None:
        return
    first = index(item.start)
    if not -count <= first < max(1, count):
        raise SelectionError(f"a slice of blocks begins at {first}, out of bounds for axis {axis} with size {count}")


def refine(chunk_selection: tuple[Any, ...], shape: tuple[int, ...], grid: ChunkGrid) -> Plan:
    """Plan the selection of one chunk of an earlier plan, if the chunk is itself divided into chunks (a shard).

    Parameters
    ----------
    chunk_selection : tuple
        The chunk selection of the earlier plan.
    shape : tuple of int
        Shape of the chunk.
    grid : ChunkGrid
        Division of the chunk.

    Returns
    -------
    Plan
        Its `work_shape` is the shape of ``chunk[chunk_selection]``, so that it can read into that array.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> list(refine((3, slice(2, None, -2)), (4, 4), regular_grid((2, 2))))  # doctest: +NORMALIZE_WHITESPACE
    [((1, 1), (1, slice(0, 1, 1)), (slice(0, 1, 1),), False),
     ((1, 0), (1, slice(0, 1, 1)), (slice(1, 2, 1),), False)]
    """
    return numpy_like(chunk_selection, shape, grid)


def compose(items: list[Item], shape: tuple[int, ...], grid: ChunkGrid, outer: bool = False) -> Plan:
    """Make the plan of a selection that has one item for each axis, besides ``None`` and ``...``."""
    # the table of each axis; arrays that are broadcast together have none
    by_axis = [item for item in items if item is not None and item is not ...]
    arrays = {axis: item for axis, item in enumerate(by_axis) if isinstance(item, np.ndarray)}
    spread = spread_of(arrays, outer)
    cuts = grid.axes
    tables: list[Runs | Lookup | None] = []
    for axis, item in enumerate(by_axis):
        if isinstance(item, int):
            tables.append(fixed(item, axis, shape[axis], cuts[axis]))
        elif isinstance(item, slice):
            tables.append(table := runs(item, axis, shape[axis], cuts[axis]))
            spread[axis] = (table.length or 0,)
        else:
            flat = arrays[axis].reshape(-1) if axis in spread else None
            tables.append(None if flat is None else lookup(flat, shape[axis], cuts[axis]))

    # the axes of the work buffer and of the result, in which arrays and new axes may be elsewhere
    group = [axis for axis in spread if axis < 0 or axis in arrays]
    work_axes = [axis for axis in order_of(by_axis, group) if axis is not None]
    result_axes = order_of(items, None if outer else group)
    work_shape = tuple([prod(spread[axis]) for axis in work_axes])
    result_shape = tuple([length for axis in result_axes for length in ((1,) if axis is None else spread[axis])])
    return Plan(
        tuple(tables),
        tuple(work_axes),
        work_shape,
        result_shape,
        is_point=not work_axes and len(items) == len(shape),
        points=_scatter(arrays, spread[-1], shape, grid) if -1 in spread else None,
        view=_view(work_axes, [axis for axis in result_axes if axis is not None], spread),
    )


def spread_of(arrays: dict[int, IntArray], outer: bool) -> dict[int, tuple[int, ...]]:
    """Return the shape in the result of each axis selected by an array; -1 stands for arrays broadcast together."""
    if outer or len(arrays) == 1:
        return {axis: array.shape for axis, array in arrays.items()}
    try:
        shape = np.broadcast_shapes(*[array.shape for array in arrays.values()])
    except ValueError as error:
        shapes = " ".join([str(array.shape) for array in arrays.values()])
        raise SelectionError(f"index arrays of shapes {shapes} can't be broadcast together") from error
    if len(shape) != len(arrays):
        return {-1: shape} if arrays else {}
    # arrays that form an open mesh, as `numpy.ix_` returns it, are an outer product
    for position, array in enumerate(arrays.values()):
        lengths = [1] * len(shape)
        lengths[position] = array.size
        if (1,) * (len(shape) - array.ndim) + array.shape != tuple(lengths):
            return {-1: shape}
    return {axis: (array.size,) for axis, array in arrays.items()}


def order_of(items: list[Any], group: list[int] | None) -> list[int | None]:
    """Return the axes of an indexed array in NumPy's order, ``None`` for new axes.

    Parameters
    ----------
    items : list
        The items of the selection.
    group : list of int or None
        The axes of all arrays together; ``None`` leaves each array at its own position.
    """
    axes: list[int | None] = []
    axis = 0
    positions: list[int] = []  # positions of ints and arrays: NumPy treats ints as arrays if there are arrays
    first = 0
    for position, item in enumerate(items):
        if item is None or item is ... or isinstance(item, slice):
            if item is not ...:
                axes.append(None if item is None else axis)
        elif group is None and isinstance(item, np.ndarray):
            axes.append(axis)
        else:
            if not positions:
                first = len(axes)
            positions.append(position)
        axis += item is not None and item is not ...
    if group:
        adjacent = positions[-1] - positions[0] == len(positions) - 1
        at = first if adjacent else 0
        axes[at:at] = group
    return axes


def _view(
    work_axes: list[int], result_axes: list[int], spread: dict[int, tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the shape and the permutation that convert a work buffer to the result; ``None`` if they are the same."""
    split: list[int] = []
    dims = {}
    for axis in work_axes:
        dims[axis] = range(len(split), len(split) + len(spread[axis]))
        split.extend(spread[axis])
    order = [dim for axis in result_axes for dim in dims[axis]]
    if len(split) == len(work_axes) and order == sorted(order):
        return None
    return tuple(split), tuple(order)


def _scatter(arrays: dict[int, IntArray], spread: tuple[int, ...], shape: tuple[int, ...], grid: ChunkGrid) -> Points:
    """Broadcast the arrays to the shape `spread`, and group the points by chunk."""
    return points(
        tuple(arrays),
        [np.broadcast_to(array, spread).reshape(-1) for array in arrays.values()],
        tuple([shape[axis] for axis in arrays]),
        tuple([grid.axes[axis] for axis in arrays]),
    )
