"""Coordinates of selected elements: of the arrays that are named after dimensions, or where an image places them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tegula.arrays.array import Array
from tegula.errors import TegulaError
from tegula.extracts.windows import Window, window
from tegula.hierarchy.group import Group
from tegula.hierarchy.nodes import open_node
from tegula.metadata.ome import Place, places_said

__all__ = ["Heads", "coordinates_along", "heads_of"]


def coordinates_along(array: Array, axis: int, indices: range, top: str | None = None) -> Window | None:
    """Return the decoded coordinates of elements along an axis; ``None`` if none are stored.

    They are those of the nearest one-dimensional array with the name of the dimension and its length: in the group of
    the array, or in one above it.

    Parameters
    ----------
    array : Array
        The array whose elements are named.
    axis : int
        Number of the axis.
    indices : range
        The elements along it.
    top : str, optional
        Path of the highest group to look into; by default that of the array.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=3, dtype="f8", dimension_names=["x"])
    >>> x[:] = [0.5, 1.5, 2.5]
    >>> a = g.create_array("a", shape=3, dtype="f8", dimension_names=["x"])
    >>> coordinates_along(a, 0, range(1, 3)).read()
    array([1.5, 2.5])
    """
    name = array.dimension_names[axis] if array.dimension_names is not None else None
    if name is None or name == array.name:
        return None
    for above in _groups_above(array, top):
        with suppress(TegulaError):
            found = open_node(array.store, f"{above}/{name}".lstrip("/"), read_only=True)
            if isinstance(found, Array) and found.shape == (array.shape[axis],):
                return window(found, (indices,), decodes=True)
    return None


@dataclass(frozen=True, slots=True)
class Heads:
    """What stands at the head of elements along an axis: its name with the units, and their coordinates.

    Parameters
    ----------
    title : str
        The name of the axis, with its units behind it.
    indices : range
        The elements.
    stored : Window, optional
        Their stored coordinates.
    place : Place, optional
        Where an image places them; without both, they are named by their indices.
    """

    title: str
    indices: range
    stored: Window | None = None
    place: Place | None = None

    def computed(self) -> Iterator[Any]:
        """Yield what is not stored: the places, or the names of channels."""
        place = self.place
        if place is None or (place.length, place.start, place.labels) == (1, 0, ()):
            yield from self.indices
            return
        for index in self.indices:
            if index < len(place.labels):
                yield place.labels[index]
            else:
                yield float(f"{index * place.length + place.start:.12g}")  # without the errors of binary fractions


def heads_of(array: Array, axes: dict[int, range], top: str | None = None) -> list[Heads]:
    """Return the heads of elements along some axes: coordinates as `coordinates_along` finds them, or places.

    Examples
    --------
    >>> import tegula
    >>> axes = [{"name": at, "type": "space", "unit": "micrometer"} for at in "yx"]
    >>> scale = {"type": "scale", "scale": [1, 0.1]}
    >>> levels = [{"path": "0", "coordinateTransformations": [scale]}]
    >>> image = tegula.create_group({}, attributes={"ome": {"multiscales": [{"axes": axes, "datasets": levels}]}})
    >>> image["0"] = [[1, 2, 3, 4]]
    >>> [heads] = heads_of(image["0"], {1: range(4)})
    >>> heads.title, [*heads.computed()]
    ('x (micrometer)', [0.0, 0.1, 0.2, 0.3])
    """
    places = _places_of(array, top)
    names = array.dimension_names or (None,) * array.ndim
    found = []
    for axis, indices in axes.items():
        stored, place = coordinates_along(array, axis, indices, top), None
        name, units = names[axis], ""
        if stored is not None and isinstance(stored.array, Array):
            units = "" if stored.dtype.kind in "mM" else stored.array.conventions.units
        elif places is not None:
            place = places[axis]
            name, units = place.axis.name, place.axis.unit
        name = name or f"axis {axis}"
        found.append(Heads(f"{name} ({units})" if units else name, indices, stored, place))
    return found


def _places_of(array: Array, top: str | None) -> list[Place] | None:
    """Return what the nearest image of OME-Zarr around an array says of its axes."""
    for above in _groups_above(array, top):
        with suppress(TegulaError):
            group = open_node(array.store, above, read_only=True)
            inner = array.path.removeprefix(f"{above}/" if above else "")
            found = places_said(group.attrs, inner, array.ndim) if isinstance(group, Group) else None
            if found is not None:
                return found
    return None


def _groups_above(array: Array, top: str | None) -> Iterator[str]:
    """Yield the paths of the groups that an array lies in, from the nearest one to that at `top`."""
    above = array.path.rpartition("/")[0]
    top = above if top is None else top
    while above == top or above.startswith(f"{top}/" if top else ""):
        yield above
        if above == top:
            break
        above = above.rpartition("/")[0]
