"""Metadata of pyramids: axes and the attribute ``ome`` (OME-Zarr 0.5, section "multiscales" metadata)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tegula.errors import MetadataError, UnsupportedError

__all__ = ["Axis", "Level", "axes_of", "multiscales", "per_axis"]

VERSION: Final = "0.5"
_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "time": frozenset({"t", "time"}),
    "channel": frozenset({"c", "channel", "channels", "band", "bands", "wavelength"}),
    "space": frozenset(
        {"x", "y", "z", "lat", "lon", "latitude", "longitude", "easting", "northing", "depth", "height", "row", "col",
         "column", "plane", "altitude", "rlat", "rlon"}
    ),
}  # fmt: skip
_USUAL: Final = {2: "yx", 3: "zyx", 5: "tczyx"}
_ORDER: Final = {"time": 0, "channel": 1, "": 1, "space": 2}


class Axis(NamedTuple):
    """An axis of a pyramid: its name, its type (``"space"``, ``"time"``, ``"channel"`` or ``""``) and its unit."""

    name: str
    type: str = ""
    unit: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the members that are known."""
        return {name: value for name, value in self._asdict().items() if value}


@dataclass(frozen=True, slots=True)
class Level:
    """An array of a pyramid.

    Parameters
    ----------
    path : str
        Its path in the group.
    shape, chunks : tuple of int
        Its shape and its chunks.
    scale, translation : tuple of float
        The distance between its elements along each axis, and the place of the first one.
    """

    path: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]


def axes_of(given: Any, names: Sequence[str | None] | None, ndim: int) -> tuple[Axis, ...]:
    """Return the axes of an array.

    Parameters
    ----------
    given : sequence of str or mapping, optional
        Their names, or mappings with ``name``, ``type`` and ``unit``.
    names : sequence of str or None, optional
        The names of the array's dimensions, used if nothing is given.
    ndim : int
        The number of dimensions.

    Raises
    ------
    MetadataError
        If the axes are not valid in OME-Zarr.
    UnsupportedError
        If OME-Zarr has no pyramids of arrays with that many dimensions.

    Examples
    --------
    >>> axes_of(None, ("time", "lat", "lon"), 3)[1:]
    (Axis(name='lat', type='space', unit=''), Axis(name='lon', type='space', unit=''))
    """
    if not 2 <= ndim <= 5:
        raise UnsupportedError(f"OME-Zarr has pyramids of arrays of 2 to 5 dimensions, not of {ndim}", field="axes")
    if given is None:
        given = names if names is not None and None not in names else _USUAL.get(ndim)
    if given is None:
        raise MetadataError(f"the {ndim} dimensions have no names: pass axes, such as 'czyx'", field="axes")
    if not isinstance(given, Sequence) or len(given) != ndim:
        raise MetadataError(f"{given!r:.80} are not axes for {ndim} dimensions", field="axes")
    axes = tuple(map(_axis, given))
    _check(axes)
    return axes


def _axis(given: Any) -> Axis:
    if isinstance(given, Axis):
        return given
    members = {"name": given} if isinstance(given, str) else given
    valid = isinstance(members, Mapping) and set(members) <= set(Axis._fields) and "name" in members
    if not valid or not all(isinstance(value, str) for value in members.values()) or not members["name"]:
        raise MetadataError(f"{given!r:.80} is not an axis: a name, or a mapping of name, type and unit", field="axes")
    name = members["name"]
    known = next((kind for kind, several in _TYPES.items() if name.lower() in several), "")
    return Axis(name, members.get("type", known), members.get("unit", ""))


def _check(axes: tuple[Axis, ...]) -> None:
    """Check what OME-Zarr demands of axes."""
    listed = ", ".join(f"{axis.name} ({axis.type or 'of no known type'})" for axis in axes)
    types = [axis.type for axis in axes]
    if len({axis.name for axis in axes}) < len(axes):
        raise MetadataError(f"two axes have the same name: {listed}", field="axes")
    if not 2 <= types.count("space") <= 3:
        raise MetadataError(
            f"OME-Zarr demands two or three spatial axes, not {types.count('space')}: {listed}; pass axes with their "
            'types, such as {"name": "y", "type": "space"}',
            field="axes",
        )
    ranks = [_ORDER.get(kind, 1) for kind in types]
    if ranks != sorted(ranks) or ranks.count(0) > 1 or ranks.count(1) > 1:
        raise MetadataError(
            f"OME-Zarr demands the axes in the order time, channel (at most one of each), space, not {listed}",
            field="axes",
        )


def per_axis(given: Any, axes: Sequence[Axis], field: str, other: Any, chosen: Sequence[bool]) -> tuple[Any, ...]:
    """Return a value for each axis.

    Parameters
    ----------
    given : scalar, sequence or mapping
        One value for all chosen axes, one for each axis, or values by name.
    axes : sequence of Axis
        The axes.
    field : str
        The name of the argument, for errors.
    other : scalar
        The value of all other axes.
    chosen : sequence of bool
        The axes to which a scalar applies.

    Examples
    --------
    >>> axes = axes_of("tyx", None, 3)
    >>> per_axis(2, axes, "factors", 1, [False, True, True]), per_axis({"x": 4}, axes, "factors", 1, [False] * 3)
    ((1, 2, 2), (1, 1, 4))
    """
    names = [axis.name for axis in axes]
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise MetadataError(f"{unknown[0]!r:.80} is none of the axes {', '.join(names)}", field=field)
        return tuple(given.get(name, other) for name in names)
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(axes):
            raise MetadataError(f"{given!r:.80} are not {field} for {len(axes)} axes", field=field)
        return tuple(given)
    return tuple(given if is_chosen else other for is_chosen in chosen)


def multiscales(name: str, axes: Sequence[Axis], levels: Sequence[Level], method: str) -> dict[str, Any]:
    """Return the attribute ``ome`` of a pyramid."""
    datasets = []
    for level in levels:
        steps: list[dict[str, Any]] = [{"type": "scale", "scale": [*level.scale]}]
        if any(level.translation):
            steps.append({"type": "translation", "translation": [*level.translation]})
        datasets.append({"path": level.path, "coordinateTransformations": steps})
    pyramid: dict[str, Any] = {"name": name} if name else {}
    pyramid |= {"axes": [axis.as_dict() for axis in axes], "datasets": datasets, "type": method}
    pyramid["metadata"] = {"method": "tegula.downsample", "kwargs": {"method": method}}
    return {"version": VERSION, "multiscales": [pyramid]}
