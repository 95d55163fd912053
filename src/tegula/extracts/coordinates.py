"""Coordinates of selected elements: what the arrays say that are named after dimensions."""

from __future__ import annotations

from contextlib import suppress

from tegula.arrays.array import Array
from tegula.errors import TegulaError
from tegula.extracts.windows import Window, window
from tegula.hierarchy.group import open_node

__all__ = ["coordinates_along"]


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
    above = array.path.rpartition("/")[0]
    top = above if top is None else top
    while above == top or above.startswith(f"{top}/" if top else ""):
        with suppress(TegulaError):
            found = open_node(array.store, f"{above}/{name}".lstrip("/"), read_only=True)
            if isinstance(found, Array) and found.shape == (array.shape[axis],):
                return window(found, (indices,), decodes=True)
        if above == top:
            break
        above = above.rpartition("/")[0]
    return None
