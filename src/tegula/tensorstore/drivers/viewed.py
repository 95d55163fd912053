"""A view of an opened array, read and written with indices of its own, as adapters need it of what is below them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform, compose
from tegula.tensorstore.spec.interface import Driver, Indices
from tegula.tensorstore.views import select

__all__ = ["Viewed", "array_rank", "joint_first", "joint_in_place", "numpy_selection"]

_Values = npt.NDArray[Any]


class Viewed:
    """A driver and the transform of a view of it.

    Parameters
    ----------
    driver : Driver
        The base.
    view : IndexTransform
        From the view to the base.
    """

    __slots__ = ("driver", "view")

    def __init__(self, driver: Driver, view: IndexTransform) -> None:
        self.driver = driver
        self.view = view

    @property
    def domain(self) -> IndexDomain:
        """The domain of the view."""
        return self.view.domain

    def read(self, indices: Indices) -> _Values:
        """Read as `Driver.read` does."""
        selection = select(compose(self.view, _indexing(indices)), self.driver.domain)
        return selection.present(self.driver.read(selection.indices))

    def write(self, indices: Indices, values: _Values) -> None:
        """Write as `Driver.write` does."""
        selection = select(compose(self.view, _indexing(indices)), self.driver.domain)
        if selection.size:
            self.driver.write(selection.indices, selection.arrange(values))


def array_rank(indices: Indices) -> int:
    """Return how many dimensions index arrays make of theirs."""
    return max((item.ndim for item in indices if isinstance(item, np.ndarray)), default=0)


def _indexing(indices: Indices) -> IndexTransform:
    """Return the transform from the result of reading at some indices to what is read."""
    joint = array_rank(indices)
    shapes = [item.shape for item in indices if isinstance(item, np.ndarray)]
    shape = list(np.broadcast_shapes(*shapes)) if shapes else []
    rank = joint + sum(isinstance(item, slice) for item in indices)
    maps = []
    for item in indices:
        if isinstance(item, slice):
            covered = range(item.start, item.stop, item.step)
            maps.append(OutputIndexMap(input_dimension=len(shape), offset=item.start, stride=item.step))
            shape.append(len(covered))
        elif isinstance(item, np.ndarray):
            wide = item.reshape((1,) * (joint - item.ndim) + item.shape + (1,) * (rank - joint))
            maps.append(OutputIndexMap(index_array=wide))
        else:
            maps.append(OutputIndexMap(offset=item))
    return IndexTransform(input_shape=shape, output=maps)


# --- indices as NumPy understands them


def numpy_selection(indices: Indices) -> tuple[tuple[Any, ...], int]:
    """Return indices of an array that starts at 0 with NumPy's meaning, and what `array_rank` says of them."""
    joint = 0
    backwards = False
    for item in indices:
        if isinstance(item, np.ndarray):
            joint = max(joint, item.ndim)
        elif isinstance(item, slice) and item.step is not None and item.step < 0:
            backwards = True
    if not backwards:
        return indices, joint
    return tuple(_forward_end(item) for item in indices), joint


def _forward_end(item: Any) -> Any:
    if isinstance(item, slice) and item.step is not None and item.step < 0 and item.stop is not None and item.stop < 0:
        return slice(item.start, None, item.step)
    return item


def _joint_place(selection: tuple[Any, ...]) -> int:
    """Where NumPy puts the dimensions of index arrays: at their place if they and ints are adjacent, else first."""
    places = [axis for axis, item in enumerate(selection) if not isinstance(item, slice)]
    return places[0] if places[-1] - places[0] == len(places) - 1 else 0


def joint_first(values: _Values, selection: tuple[Any, ...], joint: int) -> _Values:
    """Move the dimensions of index arrays from where NumPy puts them to the front."""
    place = _joint_place(selection)
    return np.moveaxis(values, range(place, place + joint), range(joint)) if place else values


def joint_in_place(values: _Values, selection: tuple[Any, ...], joint: int) -> _Values:
    """Move the dimensions of index arrays from the front to where NumPy puts them."""
    place = _joint_place(selection)
    return np.moveaxis(values, range(joint), range(place, place + joint)) if place else values
