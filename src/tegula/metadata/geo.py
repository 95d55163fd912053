"""Conventions of Zarr for geographic data in pyramids: ``spatial:``, ``proj:`` and ``multiscales``.

The attribute ``zarr_conventions`` lists the conventions that a node follows; arrays may follow those of a group above.
``spatial:transform`` is an affine mapping from (column, row) to coordinates, so each level of a pyramid has another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from tegula.runtime.quantities import is_finite

__all__ = ["CONVENTIONS", "LAYOUT", "follows", "joined", "of_level", "of_pyramid"]

CONVENTIONS: Final = "zarr_conventions"
LAYOUT: Final = "multiscales"
_SHARED: Final = ("proj:", "spatial:")
_TRANSFORM, _SHAPE = "spatial:transform", "spatial:shape"
_MULTISCALES: Final = {
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/multiscales/blob/v1/README.md",
    "uuid": "d35379db-88df-4056-af3a-620245f8e347",
    "name": "multiscales",
    "description": "Multiscale layout of zarr datasets",
}
_METHODS: Final = {"mean": "average"}  # as these conventions call them


def follows(attributes: Mapping[str, Any]) -> bool:
    """Return whether the attributes of an array follow a convention for geographic data."""
    return isinstance(attributes.get(CONVENTIONS), list) and any(name.startswith(_SHARED) for name in attributes)


def joined(one: Any, other: Sequence[Any]) -> list[Any]:
    """Return the conventions of two lists, each once."""
    known = one if isinstance(one, list) else []
    return [*known, *(item for item in other if item not in known)]


def of_level(
    attributes: Mapping[str, Any],
    names: Sequence[str | None],
    factors: Sequence[int],
    shape: Sequence[int],
    method: str,
) -> dict[str, Any]:
    """Return the attributes of an array for a level whose elements are `factors` times as large.

    A transformation that can't be adapted is left out.

    Examples
    --------
    >>> stated = {"zarr_conventions": [], "spatial:dimensions": ["y", "x"]}
    >>> stated["spatial:transform"] = [10, 0, 500, 0, -10, 900]
    >>> of_level(stated, ["y", "x"], [2, 2], [5, 5], "mean")["spatial:transform"]
    [20, 0, 500, 0, -20, 900]
    """
    out = dict(attributes)
    if not any(name.startswith(_SHARED) for name in attributes):
        return out
    stated = attributes.get("spatial:dimensions")
    axes = [names.index(name) for name in stated if name in names] if isinstance(stated, list) else []
    is_known = isinstance(stated, list) and len(axes) == len(stated)
    if _SHAPE in out:
        out[_SHAPE] = [shape[axis] for axis in axes]
    if not is_known:
        out.pop(_SHAPE, None)
    if _TRANSFORM in out and any(factor > 1 for factor in factors):
        del out[_TRANSFORM]
        if is_known and len(axes) == 2 and attributes.get("spatial:transform_type", "affine") == "affine":
            is_node = attributes.get("spatial:registration") == "node" and method != "nearest"
            scaled = _scaled(attributes[_TRANSFORM], factors[axes[0]], factors[axes[1]], is_node)
            out |= {} if scaled is None else {_TRANSFORM: scaled}
    return out


def _scaled(transform: Any, down: int, across: int, is_node: bool) -> list[Any] | None:
    """Scale a transformation: the corner of the first cell stays; of nodes, the middle of a block is the new one."""
    if (
        not isinstance(transform, list)
        or len(transform) != 6
        or not all(type(one) in (int, float) for one in transform)
    ):
        return None
    a, b, c, d, e, f = transform
    try:
        if is_node:
            c, f = c + (a * (across - 1) + b * (down - 1)) / 2, f + (d * (across - 1) + e * (down - 1)) / 2
        scaled = [a * across, b * down, c, d * across, e * down, f]
    except OverflowError:
        return None
    return scaled if all(map(is_finite, scaled)) else None


def of_pyramid(levels: Sequence[tuple[str, Mapping[str, Any]]], factors: Sequence[int], method: str) -> dict[str, Any]:
    """Return the attributes of the group of a pyramid: conventions, and the layout of its levels.

    Parameters
    ----------
    levels : sequence of (str, mapping)
        Paths and attributes of the levels; nothing is returned if the first follows no convention.
    factors : sequence of int
        How many times larger the elements of each level are than those of the one before, along each axis.
    method : str
        How a block becomes an element.
    """
    first = levels[0][1]
    if not follows(first):
        return {}
    places = [
        {"asset": path, **{name: attributes[name] for name in (_SHAPE, _TRANSFORM) if name in attributes}}
        for path, attributes in levels
    ]
    ones = [1.0] * len(factors)
    places[0]["transform"] = {"scale": ones, "translation": [0.0 for _ in ones]}
    middle = [0.0 if method == "nearest" else (factor - 1) / 2 for factor in factors]
    for before, place in pairwise(places):
        place["derived_from"] = before["asset"]
        place["transform"] = {"scale": [*map(float, factors)], "translation": middle}
    shared = {name: value for name, value in first.items() if name.startswith(_SHARED)}
    own = {name: value for name, value in shared.items() if name not in (_SHAPE, _TRANSFORM)}
    layout = {"layout": places, "resampling_method": _METHODS.get(method, method)}
    return {CONVENTIONS: joined(first[CONVENTIONS], [_MULTISCALES]), LAYOUT: layout, **own}
