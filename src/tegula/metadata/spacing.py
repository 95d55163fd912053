"""Where the elements of an array lie along its axes, as its attributes state it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isinf
from typing import Any, Final, NamedTuple

from tegula.runtime.quantities import is_finite

__all__ = [
    "UNITS", "Step", "of_level", "parsed_unit", "resolution_steps", "stated_steps", "steps_text", "transform_of",
    "units_steps",
]  # fmt: skip

UNITS: Final = "dimension_units"
"""The attribute in which TensorStore states length and unit of an element along each axis, such as ``"4 nm"``."""
_TRANSFORM: Final = "transform"
"""The attribute of COSEM with axes, units, distances and places; see `transform_of`."""
_PIXELS: Final = "pixelResolution"
"""The attribute of n5-viewer with the distances along all axes, from the fastest to the slowest, and their unit."""
_KEYS: Final = frozenset({UNITS, _TRANSFORM, _PIXELS, "units"})
_EXACT: Final = 2**53
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SPACE: Final = " \t\n\r\v\f"


class Step(NamedTuple):
    """The distance between elements along an axis, its unit (``""`` if it has none), and the place of the first."""

    length: float
    unit: str
    start: float = 0.0

    def __str__(self) -> str:
        return f"{self.length} {self.unit}".rstrip()

    def of_level(self, factor: int, method: str) -> Step | None:
        """Return that of a level, ``None`` if floats have no such numbers.

        The first element of a mean lies in the middle of its block.
        """
        middle = 0.0 if method == "nearest" else self.length * (factor - 1) / 2
        length, start = self.length * factor, self.start + middle
        return Step(_plain(length), self.unit, _plain(start)) if is_finite(length) and is_finite(start) else None


Steps = tuple[Step, ...]


def stated_steps(attributes: Mapping[str, Any], ndim: int, *, fastest_first: bool = False) -> Steps | None:
    """Return where the elements of an array lie, ``None`` if its attributes do not say, or not the same.

    Parameters
    ----------
    attributes : mapping
        The attributes.
    ndim : int
        Number of axes.
    fastest_first : bool
        Whether ``resolution`` with ``units`` counts, from the fastest axis to the slowest (N5).

    Examples
    --------
    >>> transform = {"units": ["nm", "nm"], "scale": [8, 4.0], "translate": [2, 0]}
    >>> stated_steps({"dimension_units": ["8 nm", "4 nm"], "transform": transform}, 2)
    (Step(length=8, unit='nm', start=2), Step(length=4, unit='nm', start=0))
    >>> stated_steps({"dimension_units": ["1 nm", "4 nm"], "transform": transform}, 2)
    """
    if _KEYS.isdisjoint(attributes):
        return None
    stated = [_transform_steps(attributes, ndim)]
    # with factors these are for some programs those of the array that was downsampled
    factors = attributes.get("downsamplingFactors", [1])
    if isinstance(factors, list) and all(factor == 1 for factor in factors):
        stated.append(resolution_steps(attributes, ndim) if fastest_first else None)
        stated.append(_pixel_steps(attributes.get(_PIXELS), ndim))
    found = [steps for steps in stated if steps]
    if units := units_steps(attributes.get(UNITS), ndim):
        # an axis without a unit is one that this attribute does not describe
        others = found[0] if found else units
        given = zip(attributes[UNITS], units, others)
        found.append(tuple(other if value is None else step for value, step, other in given))
    alike = {tuple((step.length, step.unit) for step in steps) for steps in found}
    return found[0] if len(alike) == 1 else None


def units_steps(value: Any, ndim: int) -> Steps | None:
    """Return what an attribute `UNITS` states, ``None`` unless it does for that many axes.

    An axis may have none (``null``), as in TensorStore, but not each.

    Examples
    --------
    >>> units_steps(["0.5 s", "nm", None], 3)
    (Step(length=0.5, unit='s', start=0), Step(length=1, unit='nm', start=0), Step(length=1, unit='', start=0))
    """
    if not isinstance(value, list) or len(value) != ndim or {*map(type, value)} - {type(None)} != {str}:
        return None
    parsed = [parsed_unit(text or "") for text in value]
    return _steps([length for length, _ in parsed], [unit for _, unit in parsed], ndim)


def parsed_unit(text: str) -> tuple[float, str]:
    """Return a number and the unit after it, either of which may be missing, as TensorStore reads them.

    Examples
    --------
    >>> parsed_unit(" .5 nm"), parsed_unit("1/cm"), parsed_unit("nm")
    ((0.5, 'nm'), (1.0, '/cm'), (1.0, 'nm'))
    """
    text = text.strip(_SPACE)
    match = _NUMBER.match(text)
    if match is None:
        return 1.0, text
    number = float(match[0])
    if isinf(number) or (number == 0 and match[0].lower().partition("e")[0].strip("+-0.")):
        return 1.0, text  # it has no form in 64 bits
    return number, text[match.end() :].strip(_SPACE)


def resolution_steps(attributes: Mapping[str, Any], ndim: int) -> Steps | None:
    """Return what ``units`` and ``resolution`` state in N5."""
    found = _steps(attributes.get("resolution", [1] * ndim), attributes.get("units"), ndim)
    return found and found[::-1]


def _pixel_steps(value: Any, ndim: int) -> Steps | None:
    """Return what an attribute `_PIXELS` states, ``None`` unless it does for that many axes."""
    found = _steps(value.get("dimensions"), [value.get("unit")] * ndim, ndim) if isinstance(value, Mapping) else None
    return found and found[::-1]


def transform_of(attributes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the attribute `_TRANSFORM` with its lists from the slowest axis to the fastest, ``None`` if it is unclear.

    They are in this order unless ``order`` is ``"F"``, for programs that list axes as N5 does. The reverse is the same.

    Examples
    --------
    >>> transform_of({"transform": {"order": "F", "axes": ["x", "y"], "scale": [4, 8]}})
    {'order': 'F', 'axes': ['y', 'x'], 'scale': [8, 4]}
    """
    value = attributes.get(_TRANSFORM)
    if not isinstance(value, Mapping) or value.get("order") not in (None, "C", "F"):
        return None
    if value.get("order") != "F":
        return value
    return {name: member[::-1] if isinstance(member, list) else member for name, member in value.items()}


def _transform_steps(attributes: Mapping[str, Any], ndim: int) -> Steps | None:
    """Return what an attribute `_TRANSFORM` states, ``None`` unless it does for that many axes."""
    value = transform_of(attributes)
    if value is None:
        return None
    return _steps(value.get("scale"), value.get("units"), ndim, value.get("translate", [0] * ndim))


def _steps(lengths: Any, units: Any, ndim: int, starts: Any = None) -> Steps | None:
    """Return steps, ``None`` unless there are lists of as many units and positive numbers as axes."""
    starts = [0] * ndim if starts is None else starts
    if not all(isinstance(values, list) and len(values) == ndim for values in (lengths, units, starts)):
        return None
    if not all(isinstance(unit, str) for unit in units):
        return None
    if any(type(number) not in (int, float) or not is_finite(number) for number in (*lengths, *starts)):
        return None
    if any(length <= 0 for length in lengths):
        return None
    return tuple(Step(_plain(length), unit, _plain(start)) for length, unit, start in zip(lengths, units, starts))


def _plain(number: float) -> float:
    """Return a number as an int if it is one that floats hold exactly, as a float otherwise."""
    return int(number) if abs(number) < _EXACT and float(number).is_integer() else float(number)


def of_level(attributes: Mapping[str, Any], ndim: int, factors: Sequence[int], method: str) -> dict[str, Any]:
    """Return the attributes of an array for a level whose elements are `factors` times as large.

    Those whose numbers would be too large are left out.

    Examples
    --------
    >>> of_level({"dimension_units": ["4 nm", "0.5 s"]}, 2, [2, 1], "mean")
    {'dimension_units': ['8 nm', '0.5 s']}
    """
    new: dict[str, Any] = {}
    if units := units_steps(attributes.get(UNITS), ndim):
        levels = _of_level(units, factors, method)
        new[UNITS] = [None if value is None else str(step) for value, step in zip(attributes[UNITS], levels)]
    transform = transform_of(attributes)
    if transform is not None and (steps := _transform_steps(attributes, ndim)):
        levels = _of_level(steps, factors, method)
        placed = {"scale": [step.length for step in levels], "translate": [step.start for step in levels]}
        new[_TRANSFORM] = levels and transform_of({_TRANSFORM: {**transform, **placed}})
    pixels = attributes.get(_PIXELS)
    if isinstance(pixels, Mapping) and (steps := _steps(pixels.get("dimensions"), [""] * ndim, ndim)):
        levels = _of_level(steps, factors[::-1], method)
        new[_PIXELS] = levels and {**pixels, "dimensions": [step.length for step in levels]}
    return {name: value for name, value in {**attributes, **new}.items() if name not in new or value}


def _of_level(steps: Steps, factors: Sequence[int], method: str) -> Steps:
    """Return the steps of a level, none if floats lack one of their numbers."""
    found = tuple(level for step, factor in zip(steps, factors) if (level := step.of_level(factor, method)) is not None)
    return found if len(found) == len(steps) else ()


def steps_text(steps: Steps) -> str:
    """Write distances with their units, and the places of the first elements unless all are zero.

    Examples
    --------
    >>> steps_text((Step(8, "nm", 2), Step(4, "nm", 0))), steps_text((Step(0.5, "s"), Step(4, "nm")))
    ('8 × 4 nm, from (2, 0)', '0.5 s × 4 nm')
    """
    same = len({step.unit for step in steps}) == 1
    lengths = [f"{step.length:g}" if same else f"{step.length:g} {step.unit}".rstrip() for step in steps]
    text = " × ".join(lengths) + (f" {steps[0].unit}".rstrip() if same else "")
    starts = ", ".join(f"{step.start:g}" for step in steps)
    return f"{text}, from ({starts})" if any(step.start for step in steps) else text
