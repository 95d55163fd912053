"""The members of a group as a person reads a data set: dimensions, coordinates, variables and attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tegula.display.markup import shorten
from tegula.errors import TegulaError
from tegula.metadata.spacing import steps_text
from tegula.runtime.quantities import human_bytes

__all__ = ["Listed", "attributes_listed", "axes_text", "contents", "units_of"]

_MOST: Final = 100  # members and attributes that are listed


class Listed(int):
    """A number of things, with a line of cells for each of the first ones.

    Examples
    --------
    >>> members = Listed(2, [("lat", "float32"), ("lon", "float32")])
    >>> members, members.rows[0]
    (2, ('lat', 'float32'))
    """

    rows: Sequence[Sequence[str]]

    def __new__(cls, number: int, rows: Sequence[Sequence[str]]) -> Listed:
        """Make a number with its lines; lines that are left out are counted in the last."""
        listed = super().__new__(cls, number)
        listed.rows = [*rows[:_MOST], (f"… and {number - _MOST:,} more",)] if number > _MOST else rows
        return listed


def attributes_listed(attributes: Mapping[str, Any]) -> Listed:
    """List attributes with their values: text as it is, other values as JSON."""
    rows = [
        (shorten(name, 40), shorten(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
        for name, value in attributes.items()
    ]
    return Listed(len(rows), rows)


def contents(members: Iterable[tuple[str, Any]], stored: Mapping[str, int | None]) -> dict[str, Any]:
    """Describe the arrays among members: lengths of their dimensions, coordinates with their ends, variables.

    A coordinate is a one-dimensional array that is called like its dimension, or an array that the attribute
    ``coordinates`` of another one names (CF conventions 1.11, sections 5.0 and 5.2).

    Parameters
    ----------
    members : iterable of (str, node)
        Names and nodes.
    stored : mapping of str to int
        Bytes of the stored chunks by name, as far as they are known.
    """
    arrays = {name: node for name, node in members if hasattr(node, "chunks")}
    lengths: dict[str, list[int]] = {}
    auxiliary: set[str] = set()
    for array in arrays.values():
        for dimension, length in zip(array.dimension_names or (), array.shape):
            if dimension is not None and length not in lengths.setdefault(dimension, []):
                lengths[dimension].append(length)
        named = array.attrs.get("coordinates")
        auxiliary.update(named.split() if isinstance(named, str) else ())
    coordinates = {name for name in arrays if (name,) == arrays[name].dimension_names or name in auxiliary}
    rows = {name: _cells(name, array, stored.get(name), name in coordinates) for name, array in arrays.items()}
    facts: dict[str, Any] = {}
    if lengths:
        facts["Dimensions"] = ", ".join(f"{name} {' or '.join(map(str, sizes))}" for name, sizes in lengths.items())
    if coordinates:
        facts["Coordinates"] = Listed(len(coordinates), [rows[name] for name in arrays if name in coordinates])
    variables = [rows[name] for name in arrays if name not in coordinates]
    facts["Variables" if coordinates else "Arrays"] = Listed(len(variables), variables)
    return facts


def _cells(name: str, array: Any, stored: int | None, is_coordinate: bool) -> tuple[str, ...]:
    """Return the cells of an array: name, axes, type, units, ends or long name, chunks, and stored bytes."""
    about = _ends(array) if is_coordinate and array.ndim == 1 else array.attrs.get("long_name")
    names = array.dimension_names
    axes = f"({', '.join(name or '?' for name in names)})" if names and any(names) else str(array.shape)
    return (
        shorten(name, 40),
        shorten(axes, 60),
        shorten(array.metadata.data_type, 24),
        units_of(array),
        shorten(about, 60) if isinstance(about, str) else "",
        "chunks " + " × ".join(map(str, array.chunks)) if array.chunks != array.shape else "one chunk",
        "" if stored is None else human_bytes(stored),
    )


def axes_text(array: Any) -> str:
    """Write a shape, with the names of its axes if they have some."""
    names = array.dimension_names
    if not names or not any(names):
        return str(array.shape)
    return f"({', '.join(f'{name}: {size}' if name else str(size) for name, size in zip(names, array.shape))})"


def units_of(array: Any) -> str:
    """Return the units of an array, or else the distances between its elements; empty if its attributes have none."""
    units = array.attrs.get("units")
    if isinstance(units, str):
        return shorten(units, 40)
    return "" if (steps := array.stored.steps) is None else f"at {shorten(steps_text(steps), 60)}"


def _ends(array: Any) -> str:
    """Return the first and the last value of an array, decoded by its attributes; nothing if they can't be read."""
    if not len(array):
        return ""
    try:
        values = array.oindex[[0, len(array) - 1]]
        way = array.conventions
        values = values if way.is_plain else way.decode(np.asarray(values, way.stored))
        first, last = (_value(value) for value in values)
    except TegulaError:
        return ""
    return first if len(array) == 1 else f"{first} … {last}"


def _value(value: Any) -> str:
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] != "generic":
        text = np.datetime_as_string(value.astype("M8[us]"), unit="auto") if not np.isnat(value) else "NaT"
        return str(text)
    return shorten(value, 30)
