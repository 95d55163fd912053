"""Chunk layouts, units and fill values of views, through index transforms.

A dimension of the view corresponds to a dimension of the array if exactly one output index map uses it; the stride and
offset of the map scale and translate the chunks. Other dimensions have no constraints. In the inner order, a dimension
that several maps use comes where the first of them does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.chunk_layout import MAX_INDEX, ChunkGrid, ChunkLayout, Vector
from tegula.tensorstore.constraints.fill_values import stripped
from tegula.tensorstore.errors import invalid

if TYPE_CHECKING:
    from tegula.tensorstore.constraints.unit import Unit
    from tegula.tensorstore.index.domain import IndexDomain
    from tegula.tensorstore.index.output_maps import OutputIndexMap
    from tegula.tensorstore.index.transform import IndexTransform

__all__ = ["fill_through", "layout_through", "units_through"]


_Sources: TypeAlias = "list[tuple[int, OutputIndexMap] | None]"


def _sources(transform: IndexTransform) -> _Sources:
    """Return the corresponding output dimension and its map for each input dimension; None if there is none."""
    maps_of: list[list[tuple[int, OutputIndexMap]]] = [[] for _ in range(transform.domain.rank)]
    for output, output_map in enumerate(transform.output):
        if output_map.input_dimension is not None and output_map.stride:
            maps_of[output_map.input_dimension].append((output, output_map))
    return [maps[0] if len(maps) == 1 else None for maps in maps_of]


def layout_through(layout: ChunkLayout, transform: IndexTransform) -> ChunkLayout:
    """Return the chunk layout of a view.

    Parameters
    ----------
    layout : ChunkLayout
        The layout of the array.
    transform : IndexTransform
        The transform from the view's indices to the array's.
    """
    if layout.rank == -1:
        return layout.copy()  # without a rank, it constrains at most the number of elements
    sources = _sources(transform)
    view = type(layout)(rank=len(sources))
    order = layout.inner_order or layout.inner_order_soft_constraint
    if order is not None:
        view._set_part("inner_order", _order_through(order, transform), layout.inner_order is not None)

    for hard in (True, False):
        view._set_part("grid_origin", _through(layout._vector("grid_origin"), sources, _origin_through, hard), hard)
        for usage in ("write", "read", "codec"):
            _grid_through(layout._grid(usage), view._grid(usage), sources, hard)
    return view


def _order_through(order: Sequence[int], transform: IndexTransform) -> list[int]:
    """Return the dimensions of a view in the order in which the array's dimensions first use them."""
    output, rank = transform.output, transform.domain.rank
    dims = [output[axis].input_dimension for axis in order if output[axis].stride]
    return list(dict.fromkeys([*(dim for dim in dims if dim is not None), *range(rank)]))


def _through(vector: Vector, sources: _Sources, change: Callable[[Any, OutputIndexMap], Any], hard: bool) -> list[Any]:
    values = vector.only(hard)
    changed = []
    for source in sources:
        value = None if source is None else values[source[0]]
        changed.append(None if value is None or source is None else change(value, source[1]))
    return changed


def _grid_through(old: ChunkGrid, new: ChunkGrid, sources: _Sources, hard: bool) -> None:
    def size(value: int, output_map: OutputIndexMap) -> int:
        return value if value == -1 else value // math.gcd(value, output_map.stride or 1)

    def ratio(value: float, output_map: OutputIndexMap) -> float:
        return value / abs(output_map.stride or 1)

    new._set_part("shape", _through(old._vector("shape"), sources, size, hard), hard)
    new._set_part("aspect_ratio", _through(old._vector("aspect_ratio"), sources, ratio, hard), hard)
    if (count := old._vector("elements").only(hard)[0]) is not None:
        new._set_part("elements", count, hard)


def _origin_through(origin: int, output_map: OutputIndexMap) -> int:
    stride, offset = output_map.stride or 1, output_map.offset
    if stride > 0:
        return -((offset - origin) // stride)
    return (offset - origin) // -stride + 1


def units_through(units: Sequence[Unit | None], transform: IndexTransform) -> tuple[Unit | None, ...]:
    """Return the dimension units of a view.

    Parameters
    ----------
    units : sequence of (Unit or None)
        The units of the array.
    transform : IndexTransform
        The transform from the view's indices to the array's.
    """
    through: list[Unit | None] = []
    for source in _sources(transform):
        unit = None if source is None else units[source[0]]
        if unit is not None and source is not None and source[1].stride not in (1, -1):
            unit = unit * abs(source[1].stride or 1)
        through.append(unit)
    return tuple(through)


def fill_through(fill: npt.NDArray[Any], domain: IndexDomain | None, transform: IndexTransform) -> npt.NDArray[Any]:
    """Return the fill value of a view.

    Parameters
    ----------
    fill : numpy.ndarray
        The fill value of the array, broadcastable to its domain.
    domain : IndexDomain, optional
        The array's domain, if it is known.
    transform : IndexTransform
        The transform from the view's indices to the array's.
    """
    rank = transform.domain.rank
    outputs = list(transform.output)[len(transform.output) - fill.ndim :]
    origins = (domain or transform.domain).inclusive_min[-fill.ndim :] if domain and fill.ndim else (0,) * fill.ndim
    indices: list[Any] = []
    for size, output_map, origin in zip(fill.shape, outputs, origins, strict=True):
        if size == 1:
            indices.append(0)
        elif output_map.index_array is not None:
            indices.append(output_map.offset + (output_map.stride or 0) * output_map.index_array - origin)
        elif output_map.input_dimension is None:
            indices.append(output_map.offset - origin)
        else:
            indices.append(_along(output_map, rank, transform, size, origin if domain else None))
        if domain is None and not isinstance(indices[-1], np.ndarray) and size != 1:
            raise invalid(f"Error transforming fill_value: shape {[*fill.shape]}, but no domain")
    return stripped(fill[(*indices, ...)])


def _along(output_map: OutputIndexMap, rank: int, transform: IndexTransform, size: int, origin: int | None) -> Any:
    """Return the positions along one axis of the fill value that a dimension of the view selects."""
    axis = output_map.input_dimension or 0
    dim = transform.domain[axis]
    if origin is None or not dim.size <= MAX_INDEX:
        # without a known domain, the view contains all of it
        if output_map.stride not in (1, -1):
            raise invalid("Error transforming fill_value: the domain is unbounded")
        positions = np.arange(size)[:: output_map.stride]
    else:
        low = output_map.offset + (output_map.stride or 1) * dim.inclusive_min - origin
        positions = low + (output_map.stride or 1) * np.arange(dim.size)
    return positions.reshape([-1 if number == axis else 1 for number in range(rank)])
