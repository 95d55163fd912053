"""Physical units: a multiplier and a base unit, which may be any text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tegula.metadata.spacing import parsed_unit
from tegula.runtime.frozen import attribute
from tegula.tensorstore.errors import checked, invalid, type_error
from tegula.tensorstore.json import MISSING, array, dump, number, read_number, sound_text, string, to_json_value

__all__ = ["Unit", "Units", "merged_units", "units_to_json"]

_AFTER_NUMBER = re.compile(r"((?<!\\)\\x[0-9a-f]{2})([0-9a-fA-F])")


class Unit:
    """A multiple of a base unit, given as both, as a pair, or as text, in which either may be missing.

    Examples
    --------
    >>> Unit("4.5e-9 m").multiplier
    4.5e-09
    >>> Unit(3, "um") * 2
    Unit(6, "um")
    """

    __slots__ = ("_base_unit", "_multiplier")

    def __init__(
        self, multiplier: Any = MISSING, base_unit: Any = MISSING, *, unit: Any = MISSING, json: Any = MISSING
    ) -> None:
        value, *others = [given for given in (multiplier, unit, json) if given is not MISSING] or [1]
        if others or (base_unit is not MISSING and multiplier is MISSING):
            raise type_error("expected Unit(multiplier, base_unit), Unit(text) or Unit(pair)")
        if json is not MISSING:
            value, base_unit = _parse_json(to_json_value(json))
        elif isinstance(value, str) and base_unit is MISSING:
            value, base_unit = parsed_unit(value)
        elif isinstance(value, (tuple, list)) and len(value) == 2 and base_unit is MISSING:
            value, base_unit = value
        self._multiplier = read_number(value)
        self._base_unit = "" if base_unit is MISSING else sound_text(checked("base_unit", base_unit, str))

    multiplier: float = attribute("_multiplier", "The multiplier.")
    base_unit: str = attribute("_base_unit", "The base unit.")

    def to_json(self) -> Any:
        """Return the multiplier and the base unit."""
        return [self._multiplier, self._base_unit]

    def __mul__(self, multiplier: float) -> Unit:
        return Unit(self._multiplier * read_number(multiplier), self._base_unit)

    def __truediv__(self, divisor: float) -> Unit:
        number = read_number(divisor)
        if number:
            return Unit(self._multiplier / number, self._base_unit)
        return Unit(self._multiplier * math.copysign(1, number) * math.inf, self._base_unit)

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Unit) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._multiplier, self._base_unit))

    def __str__(self) -> str:
        if self._multiplier == 1:
            return self._base_unit or "1"
        return f"{self._multiplier:g} {self._base_unit}" if self._base_unit else f"{self._multiplier:g}"

    def __repr__(self) -> str:
        return f"Unit({self._multiplier:g}, {_escaped(self._base_unit)})"


Units: TypeAlias = tuple[Unit | None, ...]


def _escaped(text: str) -> str:
    """Return a text in quotes as TensorStore shows it: bytes that are not ASCII, and digits after them, as numbers."""
    escaped = text.encode("utf-8", "surrogateescape").decode("latin-1").encode("unicode_escape").decode()
    escaped = escaped.replace('"', '\\"').replace("'", "\\'")
    while (more := _AFTER_NUMBER.sub(lambda match: f"{match[1]}\\x{ord(match[2]):02x}", escaped)) != escaped:
        escaped = more
    return f'"{escaped}"'


def _parse_json(value: Any) -> tuple[float, str]:
    if isinstance(value, str):
        return parsed_unit(value)
    multiplier, base_unit = (value, "") if isinstance(value, (int, float)) else array(value, 2)
    return number(multiplier), string(base_unit)


# --- the units of all dimensions


def units_to_json(units: Units) -> list[str | None]:
    """Write the units of dimensions as text, their form in documents."""
    return [None if unit is None else str(unit) for unit in units]


def merged_units(first: Units | None, second: Units | None, form: Callable[[Unit], Any] = str) -> Units | None:
    """Merge two sequences of units, which are compared in a form, by default as text."""
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second):
        raise invalid(f"Invalid dimension_units: {len(first)} for {len(second)} dimensions")
    if any(a is not None and b is not None and form(a) != form(b) for a, b in zip(first, second)):
        shown = " and ".join(dump(units_to_json(units)) for units in (second, first))
        raise invalid(f"Cannot merge dimension_units {shown}")
    return tuple(b if a is None else a for a, b in zip(first, second))
