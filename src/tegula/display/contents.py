"""The members of a group as a person reads a data set: dimensions, coordinates, variables and attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tegula.display.layout import number_text
from tegula.display.markup import shorten
from tegula.errors import TegulaError
from tegula.metadata.spacing import steps_text
from tegula.runtime.quantities import human_bytes

__all__ = [
    "Listed", "add_dimensions", "array_text", "attributes_listed", "axes_text", "contents", "coordinates_among",
    "data_set_row", "dimensions_text", "ends", "format_of", "is_plain_directory", "kind_of", "units_of", "value_text",
]  # fmt: skip

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


def is_plain_directory(group: Any) -> bool:
    """Return whether a group is a directory without a document of its own, whose members are data sets."""
    return group.is_folder and not group.metadata.documents and group.store.local_directory is not None


def kind_of(node: Any) -> str:
    """Return what a node is: ``"array"``, ``"group"``, ``"table"``, or ``"directory"``, which has no format."""
    kind = type(node).__name__.lower()
    return "directory" if kind == "group" and is_plain_directory(node) else kind


def format_of(node: Any) -> str | None:
    """Return the format of a node; ``None`` for a plain directory."""
    return None if kind_of(node) == "directory" else node.format


def data_set_row(name: str, node: Any, stored: Mapping[str, int | None]) -> tuple[str, ...]:
    """Return the cells of a data set in a plain directory: name, kind, format, axes and type, stored bytes."""
    sizes = [size for path, size in stored.items() if path == name or path.startswith(f"{name}/")]
    known = [size for size in sizes if size is not None]
    facts = f"{axes_text(node)} {node.metadata.data_type}" if hasattr(node, "chunks") else ""
    size = human_bytes(sum(known)) if known else ""
    return shorten(name, 40), kind_of(node), format_of(node) or "", shorten(facts, 80), size


def add_dimensions(lengths: dict[str, list[int]], array: Any) -> None:
    """Add the named dimensions of an array to their lengths, each length once."""
    for dimension, length in zip(array.dimension_names or (), array.shape):
        if dimension is not None and length not in lengths.setdefault(dimension, []):
            lengths[dimension].append(length)


def dimensions_text(lengths: Mapping[str, Sequence[int]]) -> str:
    """Write dimensions with their lengths.

    Examples
    --------
    >>> dimensions_text({"time": [8760], "lat": [721, 90]})
    'time 8,760, lat 721 or 90'
    """
    return ", ".join(f"{name} {' or '.join(f'{size:,}' for size in sizes)}" for name, sizes in lengths.items())


def coordinates_among(arrays: Mapping[str, Any]) -> set[str]:
    """Return the names of the coordinates among arrays.

    A coordinate is a one-dimensional array that is called like its dimension, or an array that the attribute
    ``coordinates`` of another one names (CF conventions 1.11, sections 5.0 and 5.2).
    """
    named = [array.attrs.get("coordinates") for array in arrays.values()]
    auxiliary = {name for names in named if isinstance(names, str) for name in names.split()}
    return {name for name in arrays if (name,) == arrays[name].dimension_names or name in auxiliary}


def contents(members: Iterable[tuple[str, Any]], stored: Mapping[str, int | None]) -> dict[str, Any]:
    """Describe the arrays among members: lengths of their dimensions, coordinates with their ends, variables.

    Parameters
    ----------
    members : iterable of (str, node)
        Names and nodes.
    stored : mapping of str to int
        Bytes of the stored chunks by name, as far as they are known.
    """
    arrays = {name: node for name, node in members if hasattr(node, "chunks")}
    lengths: dict[str, list[int]] = {}
    for array in arrays.values():
        add_dimensions(lengths, array)
    coordinates = coordinates_among(arrays)
    rows = {name: _cells(name, array, stored.get(name), name in coordinates) for name, array in arrays.items()}
    facts: dict[str, Any] = {}
    if lengths:
        facts["Dimensions"] = dimensions_text(lengths)
    if coordinates:
        facts["Coordinates"] = Listed(len(coordinates), [rows[name] for name in arrays if name in coordinates])
    variables = [rows[name] for name in arrays if name not in coordinates]
    facts["Variables" if coordinates else "Arrays"] = Listed(len(variables), variables)
    return facts


def _cells(name: str, array: Any, stored: int | None, is_coordinate: bool) -> tuple[str, ...]:
    """Return the cells of an array: name, axes, type, units, ends or long name, chunks, and stored bytes."""
    about = ends_text(ends(array)) if is_coordinate else array.attrs.get("long_name")
    names = array.dimension_names
    axes = f"({', '.join(name or '?' for name in names)})" if names and any(names) else number_text(array.shape)
    return (
        shorten(name, 40),
        shorten(axes, 60),
        shorten(array.metadata.data_type, 24),
        units_of(array),
        shorten(about, 60) if isinstance(about, str) else "",
        f"chunks {number_text(array.chunks)}".replace(" × ", "×") if array.chunks != array.shape else "one chunk",
        "" if stored is None else human_bytes(stored),
    )


def axes_text(array: Any) -> str:
    """Write a shape, with the names of its axes if they have some."""
    names = array.dimension_names
    if not names or not any(names):
        return str(array.shape)
    return f"({', '.join(f'{name}: {size}' if name else str(size) for name, size in zip(names, array.shape))})"


def array_text(array: Any) -> str:
    """Write the axes, the data type and the units of an array."""
    return f"{axes_text(array)} {array.metadata.data_type} {units_of(array)}".rstrip()


def units_of(array: Any) -> str:
    """Return the units of an array, or else the distances between its elements; empty if its attributes have none."""
    units = array.attrs.get("units")
    if isinstance(units, str):
        return shorten(units, 40)
    return "" if (steps := array.stored.steps) is None else f"at {shorten(steps_text(steps), 60)}"


def ends(array: Any) -> list[Any]:
    """Return the first and the last value of a 1-d array, decoded by its attributes; none if they can't be read."""
    if array.ndim != 1 or not len(array):
        return []
    try:
        values = array.oindex[[0, len(array) - 1]]
        way = array.conventions
        return [*(values if way.is_plain else way.decode(np.asarray(values, way.stored)))]
    except TegulaError:
        return []


def ends_text(values: Sequence[Any]) -> str:
    """Write the first and the last value of a coordinate; one value if they are the same.

    Examples
    --------
    >>> ends_text(np.array([90.0, -90.0])), ends_text(np.array([850, 850]))
    ('90 … -90', '850')
    """
    texts = [value_text(value) for value in values]
    return " … ".join(dict.fromkeys(texts))


def value_text(value: Any) -> str:
    """Write a value of a coordinate: times without parts that are zero.

    Examples
    --------
    >>> value_text(np.datetime64("2000-01-01T00", "ns")), value_text(np.float32(0.1)), value_text(850.0)
    ('2000-01-01', '0.1', '850')
    """
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] != "generic":
        text = np.datetime_as_string(value.astype("M8[us]"), unit="auto") if not np.isnat(value) else "NaT"
        return str(text)
    return shorten(value, 30).removesuffix(".0")
