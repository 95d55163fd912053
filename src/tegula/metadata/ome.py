"""Metadata of pyramids: axes, and the attribute ``ome`` (OME-Zarr 0.5 and 0.6, section "multiscales" metadata)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Final, NamedTuple

from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.spacing import Step
from tegula.runtime.quantities import is_finite

__all__ = [
    "KEY", "VERSIONS", "Axis", "Level", "Place", "axes_of", "axes_said", "check_version", "factors_of", "level_paths",
    "multiscales", "placed", "places_said", "spaced",
]  # fmt: skip

KEY: Final = "ome"
VERSIONS: Final = ("0.5", "0.6")
"""The versions of OME-Zarr that pyramids can have; the first is that of new ones by default."""

_SYSTEM: Final = "intrinsic"  # the name of the coordinate system of a pyramid in 0.6
_LARGEST_BLOCK: Final = 2**20  # elements that become one
_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "time": frozenset({"t", "time"}),
    "channel": frozenset({"c", "channel", "channels", "band", "bands", "wavelength"}),
    "space": frozenset(
        {"x", "y", "z", "lat", "lon", "latitude", "longitude", "easting", "northing", "depth", "height", "row", "col",
         "column", "plane", "altitude", "rlat", "rlon"}
    ),
}  # fmt: skip
_PREFIXES: Final[Mapping[str, str]] = {
    "": "", "k": "kilo", "c": "centi", "m": "milli", "u": "micro", "µ": "micro", "μ": "micro", "n": "nano", "p": "pico"
}  # fmt: skip
_USUAL: Final = {2: "yx", 3: "zyx", 5: "tczyx"}
_UNITS: Final[Mapping[str, str]] = {
    **{f"{prefix}m": f"{name}meter" for prefix, name in _PREFIXES.items()},
    **{f"{prefix}s": f"{name}second" for prefix, name in _PREFIXES.items()},
    "Å": "angstrom", "min": "minute", "h": "hour", "d": "day", "in": "inch", "ft": "foot",
}  # fmt: skip
"""The names that OME-Zarr recommends for units."""
_ORDER: Final = {"time": 0, "channel": 1, "": 1, "space": 2}


class Axis(NamedTuple):
    """An axis of a pyramid: its name, its type (``"space"``, ``"time"``, ``"channel"`` or ``""``) and its unit."""

    name: str
    type: str = ""
    unit: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the members that are known."""
        return {name: value for name, value in self._asdict().items() if value}


class Place(NamedTuple):
    """What is known of the elements along an axis: their distance, the place of the first, and names of channels."""

    axis: Axis
    length: float
    start: float
    labels: tuple[str, ...] = ()


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


def axes_of(value: Any, names: Sequence[str | None] | None, ndim: int) -> tuple[Axis, ...]:
    """Return the axes of an array from the user's argument, by default from the names of its dimensions.

    Raises
    ------
    MetadataError
        If the axes are not valid in OME-Zarr.
    UnsupportedError
        If OME-Zarr has no pyramids of arrays with that many dimensions.
    """
    if not 2 <= ndim <= 5:
        raise UnsupportedError(f"OME-Zarr has pyramids of arrays of 2 to 5 dimensions, not of {ndim}", field="axes")
    if value is None:
        value = names if names is not None and None not in names else _USUAL.get(ndim)
    if value is None:
        raise MetadataError(f"the {ndim} dimensions have no names: pass axes, such as 'czyx'", field="axes")
    if not isinstance(value, Sequence) or len(value) != ndim:
        raise MetadataError(f"{value!r:.80} are not axes for {ndim} dimensions", field="axes")
    axes = tuple(map(_axis, value))
    _check(axes)
    return axes


def _axis(value: Any) -> Axis:
    if isinstance(value, Axis):
        return value
    members = {"name": value} if isinstance(value, str) else value
    valid = isinstance(members, Mapping) and set(members) <= set(Axis._fields) and "name" in members
    if not valid or not all(isinstance(member, str) for member in members.values()) or not members["name"]:
        raise MetadataError(f"{value!r:.80} is not an axis: a name, or a mapping of name, type and unit", field="axes")
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


def factors_of(value: Any, axes: Sequence[Axis]) -> tuple[int, ...]:
    """Check the factors, and return one for each axis.

    Examples
    --------
    >>> axes = axes_of("tyx", None, 3)
    >>> factors_of(2, axes), factors_of({"x": 4}, axes)
    ((1, 2, 2), (1, 1, 4))
    """
    values = _per_axis(value, axes, "factors", 1)
    if not all(hasattr(one, "__index__") and not isinstance(one, bool) and one >= 1 for one in values):
        raise MetadataError(f"{values!r:.80} are not factors: integers from 1", field="factors")
    factors = tuple(map(int, values))
    if not 1 < prod(factors) <= _LARGEST_BLOCK:
        raise MetadataError(
            f"a block of {factors} elements must have 2 to {_LARGEST_BLOCK} elements; pass other factors",
            field="factors",
        )
    return factors


def _scales_of(value: Any, axes: Sequence[Axis]) -> tuple[float, ...]:
    """Check the distances between elements, and return one for each axis."""
    values = _per_axis(value, axes, "scale", 1.0)
    try:
        scales = tuple(map(float, values))
    except (TypeError, ValueError, OverflowError):
        scales = (0.0,)
    if not all(isfinite(scale) and scale > 0 for scale in scales):
        raise MetadataError(f"{values!r:.80} is not a scale: positive numbers", field="scale")
    return scales


def spaced(
    axes: Sequence[Axis], scale: Any, steps: Sequence[Step] | None
) -> tuple[tuple[Axis, ...], tuple[float, ...], tuple[float, ...]]:
    """Return axes with their units, and the distances and places of the elements: by default those of the attributes.

    An axis that has another unit already keeps it, and a distance of 1.

    Parameters
    ----------
    axes : sequence of Axis
        The axes.
    scale : float, sequence of float, mapping or None
        The distances, if the user gave some.
    steps : sequence of Step, optional
        What the attributes state.

    Examples
    --------
    >>> axes = axes_of([{"name": "y", "type": "space", "unit": "inch"}, "x"], None, 2)
    >>> spaced(axes, None, [Step(4, "nm", 2), Step(8, "nm", 2)])[1:]
    ((1.0, 8.0), (0.0, 2.0))
    >>> spaced(axes, None, [Step(4, "nm", 2), Step(8, "nm", 2)])[0][1]
    Axis(name='x', type='space', unit='nanometer')
    """
    if scale is not None:
        return tuple(axes), _scales_of(scale, axes), (0.0,) * len(axes)
    found, scales, starts = [], [], []
    for axis, step in zip(axes, steps or [Step(1.0, "")] * len(axes)):
        unit = _UNITS.get(step.unit, step.unit)
        fits = axis.unit in ("", unit)
        found.append(axis._replace(unit=unit) if fits else axis)
        scales.append(float(step.length) if fits else 1.0)
        starts.append(float(step.start) if fits else 0.0)
    return tuple(found), tuple(scales), tuple(starts)


def _per_axis(value: Any, axes: Sequence[Axis], field: str, other: Any) -> tuple[Any, ...]:
    """Return a value for each axis from the user's: one for all spatial axes, one for each, or some by name."""
    names = [axis.name for axis in axes]
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise MetadataError(f"{unknown[0]!r:.80} is none of the axes {', '.join(names)}", field=field)
        return tuple(value.get(name, other) for name in names)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != len(axes):
            raise MetadataError(f"{value!r:.80} are not {field} for {len(axes)} axes", field=field)
        return tuple(value)
    return tuple(value if axis.type == "space" else other for axis in axes)


def placed(
    scales: Sequence[float], starts: Sequence[float], factors: Sequence[int], method: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the scale of a level and its translation: the first element of a mean lies in the middle of its block.

    Raises
    ------
    MetadataError
        If they are too large.
    """
    steps = []
    for scale, start, factor in zip(scales, starts, factors):
        step = Step(scale, "", start).of_level(factor, method)
        if step is None:
            raise MetadataError(f"the scale {scale!r} becomes too large in a level of the pyramid", field="scale")
        steps.append(step)
    return tuple(float(step.length) for step in steps), tuple(float(step.start) for step in steps)


def check_version(value: Any) -> str:
    """Check a version of OME-Zarr and return it.

    Raises
    ------
    MetadataError
        If it is none of `VERSIONS`.
    """
    if value not in VERSIONS:
        raise MetadataError(f"{value!r:.40} is not {' or '.join(VERSIONS)}", field="ome_version")
    return str(value)


def level_paths(metadata: Any) -> list[str]:
    """Return the paths of the levels that an attribute ``ome`` of any version lists, as far as it is valid."""
    pyramids = metadata.get("multiscales") if isinstance(metadata, Mapping) else None
    listed = [pyramid.get("datasets") for pyramid in _records(pyramids)]
    paths = [dataset.get("path") for datasets in listed for dataset in _records(datasets)]
    return [path for path in paths if isinstance(path, str)]


def axes_said(attributes: Mapping[str, Any], path: str, ndim: int) -> list[Any] | None:
    """Return the axes that the attributes of a group of OME-Zarr, of any version, have for the array at a path below.

    ``None`` if the group is no image with this level.

    Raises
    ------
    MetadataError
        If the image has this level, and does not say which of its axes are channels.

    Examples
    --------
    >>> image = {"axes": [{"name": "c", "type": "channel"}, "y", "x"], "datasets": [{"path": "0"}]}
    >>> axes_said({"multiscales": [image]}, "0", 3), axes_said({"multiscales": [image]}, "1", 3)
    ([{'name': 'c', 'type': 'channel'}, 'y', 'x'], None)
    """
    image = _image_of(attributes, path)
    if image is None:
        return None
    systems = [system.get("axes") for system in _records(image.get("coordinateSystems"))]
    for axes in (image.get("axes"), *systems):
        if isinstance(axes, list) and len(axes) == ndim:
            known = ({key: one[key] for key in Axis._fields if key in one} for one in axes if isinstance(one, Mapping))
            return [*known] if all(isinstance(one, Mapping) for one in axes) else axes
    if ndim == len(_USUAL[5]):  # before 0.3 all images had these axes
        return [*_USUAL[5]]
    raise MetadataError(
        "the image does not say which axes are channels: pass axes, such as 'cyx' or 'zyx'", field="axes"
    )


def _image_of(attributes: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """Return the image of a group that has a level at a path."""
    metadata = attributes.get(KEY, attributes)  # below ``ome`` since 0.5
    pyramids = _records(metadata.get("multiscales") if isinstance(metadata, Mapping) else None)
    return next((one for one in pyramids if path in level_paths({"multiscales": [one]})), None)


def places_said(attributes: Mapping[str, Any], path: str, ndim: int) -> list[Place] | None:
    """Return axes, distances and places of the elements of a level; ``None`` if the group is no image that says so.

    A transformation that is not of scales and translations leaves the elements where their indices are. Names of
    channels are those of ``omero``.

    Examples
    --------
    >>> placed = [{"type": "scale", "scale": [2, 0.5]}, {"type": "translation", "translation": [1, 0]}]
    >>> axes = [{"name": "c", "type": "channel"}, {"name": "x", "type": "space", "unit": "meter"}]
    >>> image = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": placed}]}
    >>> places_said({"multiscales": [image]}, "0", 2)[1]
    Place(axis=Axis(name='x', type='space', unit='meter'), length=0.5, start=0.0, labels=())
    """
    image = _image_of(attributes, path)
    if image is None:
        return None
    try:
        axes = [_axis(axis) for axis in axes_said(attributes, path, ndim) or ()]
    except MetadataError:
        return None
    [level] = [one for one in _records(image.get("datasets")) if one.get("path") == path][:1]
    lengths, starts = [1.0] * ndim, [0.0] * ndim
    for listed in (level.get("coordinateTransformations"), image.get("coordinateTransformations")):
        for step in _steps_of(listed):
            scale, move = (_numbers_of(step.get(name), ndim) for name in ("scale", "translation"))
            if scale is not None:
                lengths = [length * by for length, by in zip(lengths, scale)]
                starts = [start * by for start, by in zip(starts, scale)]
            elif move is not None:
                starts = [start + by for start, by in zip(starts, move)]
    metadata = attributes.get(KEY, attributes)
    omero = metadata.get("omero")
    channels = _records(omero.get("channels") if isinstance(omero, Mapping) else None)
    labels = tuple(str(one.get("label") or f"channel {at}") for at, one in enumerate(channels))
    return [
        Place(axis, length, start, labels if axis.type == "channel" else ())
        for axis, length, start in zip(axes, lengths, starts)
    ]


def _steps_of(transformations: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the scales and translations of a list of transformations; since 0.6 they may be in a sequence."""
    for step in _records(transformations):
        if step.get("type") == "sequence":
            yield from _steps_of(step.get("transformations"))
        else:
            yield step


def _numbers_of(value: Any, ndim: int) -> list[float] | None:
    is_list = isinstance(value, list) and len(value) == ndim
    if not is_list or not all(type(one) in (int, float) and is_finite(one) for one in value):
        return None
    return [float(one) for one in value]


def _records(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def multiscales(
    name: str, axes: Sequence[Axis], levels: Sequence[Level], method: str, version: str = VERSIONS[0]
) -> dict[str, Any]:
    """Return the attribute ``ome`` of a pyramid.

    In 0.6 axes belong to a coordinate system, and each level has one transformation, from its array to that system.

    Examples
    --------
    >>> axes = axes_of("yx", None, 2)
    >>> found = multiscales("", axes, [Level("s0", (4, 4), (2, 2), (0.5, 0.5), (0.0, 0.0))], "mean", "0.6")
    >>> found["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["output"]
    {'name': 'intrinsic'}
    """
    has_systems = version != VERSIONS[0]
    datasets = []
    for level in levels:
        steps: list[dict[str, Any]] = [{"type": "scale", "scale": [*level.scale]}]
        if any(level.translation):
            steps.append({"type": "translation", "translation": [*level.translation]})
        if has_systems:
            step = steps[0] if len(steps) == 1 else {"type": "sequence", "transformations": steps}
            steps = [{**step, "input": {"path": level.path}, "output": {"name": _SYSTEM}}]
        datasets.append({"path": level.path, "coordinateTransformations": steps})
    pyramid: dict[str, Any] = {"name": name} if name else {}
    described = [axis.as_dict() for axis in axes]
    pyramid |= {"coordinateSystems": [{"name": _SYSTEM, "axes": described}]} if has_systems else {"axes": described}
    pyramid |= {"datasets": datasets, "type": method}
    pyramid["metadata"] = {"method": "tegula.downsample", "kwargs": {"method": method}}
    return {"version": version, "multiscales": [pyramid]}
