"""Layers: views at any places of one space, which are one array, as in TensorStore's driver ``stack``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from tegula import engine
from tegula.errors import MetadataError, SelectionError, UnsupportedError
from tegula.metadata.data_types import as_data_type
from tegula.views.joined import join
from tegula.views.view import View, view_of

if TYPE_CHECKING:
    from tegula.engine import Future
    from tegula.indexing import Transform
    from tegula.metadata.data_types import DataType
    from tegula.stores import Store

__all__ = ["Gap", "Layer", "arranged"]

_MOST_PARTS: Final = 2**20  # of layers that are cut where others begin and end


class Layer(NamedTuple):
    """A view, and the position of its first element."""

    view: View
    begin: tuple[int, ...]

    def end(self, axis: int) -> int:
        """Return where the layer ends along an axis."""
        return self.begin[axis] + self.view.shape[axis]


class Gap:
    """Elements of no layer, as the base of views: reading and writing them are errors; see `tegula.views.base.Base`."""

    names = None
    fill = None
    read_only = False
    missing_chunks = None
    concurrency = 0
    attrs: Mapping[str, Any] = {}
    attributes: Mapping[str, Any] = {}

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], location: str) -> None:
        self.shape, self.dtype, self.location = shape, dtype, location

    def __reduce__(self) -> tuple[Any, ...]:
        return Gap, (self.shape, self.dtype, self.location)

    def __repr__(self) -> str:
        return f"<elements {self.shape} of no layer>"

    @property
    def node(self) -> tuple[Store, str, str]:
        raise UnsupportedError("elements between layers are not stored", path=self.location)

    @property
    def data_type(self) -> DataType:
        return as_data_type(self.dtype)

    @property
    def chunks(self) -> tuple[int | None, ...]:
        return (None,) * len(self.shape)

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple([max(1, size) for size in self.shape])

    def read(self, transform: Transform, field: Any, out: Any, *, is_point: bool) -> Any:
        if 0 not in transform.shape:
            self._refuse()
        return np.empty(transform.shape, self.dtype) if out is None else out

    def write(self, transform: Transform, field: Any, values: Any) -> None:
        if 0 not in transform.shape:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise SelectionError("the selection has elements that are in no layer of the stack", path=self.location)

    def start(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return engine.start_alone(act, *arguments, requests=0)

    def token(self) -> tuple[object, ...]:
        return "tegula.Gap", self.shape, str(self.dtype), self.location


def arranged(layers: Sequence[Layer], location: str) -> Layer:
    """Return the smallest box with all layers as one layer, where later ones hide earlier ones.

    Parameters
    ----------
    layers : sequence of Layer
        At least one; of one data type, with at least one dimension.
    location : str
        Where the layers are described, for errors.

    Raises
    ------
    MetadataError
        If the numbers of dimensions or the data types differ.
    UnsupportedError
        If so many layers overlap, or so many corners are between them, that millions of parts come out.

    Examples
    --------
    >>> import tegula
    >>> view = tegula.create_array({}, data=[1, 2, 3]).lazy
    >>> both = arranged([Layer(view, (4,)), Layer(view, (2,))], "")
    >>> both.begin, both.view[...]
    ((2,), array([1, 2, 3, 2, 3]))
    """
    ndim, dtype = layers[0].view.ndim, layers[0].view.dtype
    for number, layer in enumerate(layers):
        if layer.view.ndim != ndim or layer.view.dtype.newbyteorder("=") != dtype.newbyteorder("="):
            raise MetadataError(
                f"layer {number} has {layer.view.ndim} dimensions and the data type {layer.view.dtype}, the first "
                f"{ndim} and {dtype}",
                field="layers",
                path=layer.view.location,
            )
    full = [layer for layer in layers if layer.view.size]
    low = tuple([min(layer.begin[axis] for layer in full or layers) for axis in range(ndim)])
    high = tuple([max(layer.end(axis) for layer in full or layers) for axis in range(ndim)])
    if max([end - begin for begin, end in zip(low, high)], default=0) >= 2**63:
        raise MetadataError("the layers are too far from each other", field="layers", path=location)
    return Layer(_Arrangement(dtype, location).of(full, low, high), low)


class _Arrangement:
    """The division of a box into parts that are in one layer each, or in none."""

    def __init__(self, dtype: np.dtype[Any], location: str) -> None:
        self.dtype, self.location, self.parts = dtype, location, 0

    def of(self, layers: Sequence[Layer], low: tuple[int, ...], high: tuple[int, ...], axis: int = 0) -> View:
        """Return the view of a box, which all layers are in; along the axes before `axis` they fill it."""
        while axis < len(low) and all((one.begin[axis], one.end(axis)) == (low[axis], high[axis]) for one in layers):
            axis += 1
        if not layers:
            shape = tuple([end - begin for begin, end in zip(low, high)])
            return view_of(Gap(shape, self.dtype, self.location))
        if axis == len(low):
            return layers[-1].view

        edges = sorted({low[axis], high[axis], *(edge for one in layers for edge in (one.begin[axis], one.end(axis)))})
        slabs: list[list[Layer]] = [[] for _ in edges[1:]]
        for layer in layers:
            first, last = bisect_left(edges, layer.begin[axis]), bisect_left(edges, layer.end(axis))
            self.parts += last - first
            if self.parts > _MOST_PARTS:
                raise UnsupportedError(
                    f"layers of a stack overlap so much that they divide into more than {_MOST_PARTS} parts",
                    field="layers",
                    path=self.location,
                )
            for number in range(first, last):
                slabs[number].append(_part(layer, axis, edges[number], edges[number + 1]))
        views = []
        for slab, begin, end in zip(slabs, edges, edges[1:]):
            box = (*low[:axis], begin, *low[axis + 1 :]), (*high[:axis], end, *high[axis + 1 :])
            views.append(self.of(slab, *box, axis + 1))
        return join(views, axis)


def _part(layer: Layer, axis: int, begin: int, end: int) -> Layer:
    """Return the part of a layer between two positions along an axis."""
    view, own = layer
    if (begin, end) == (own[axis], layer.end(axis)):
        return layer
    inside = slice(begin - own[axis], end - own[axis])
    return Layer(view[(*(slice(None),) * axis, inside)], (*own[:axis], begin, *own[axis + 1 :]))
