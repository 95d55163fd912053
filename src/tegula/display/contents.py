"""The members of a group as a person reads a data set: dimensions, coordinates, variables and attributes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tegula.display.layout import number_text
from tegula.display.markup import shorten
from tegula.errors import TegulaError
from tegula.metadata.conventions import coordinates_among
from tegula.metadata.spacing import steps_text
from tegula.runtime.quantities import human_bytes

__all__ = [
    "Listed", "add_dimensions", "array_text", "attributes_listed", "axes_text", "contents", "coordinates_of",
    "data_set_row", "dimensions_text", "ends", "format_of", "is_plain_directory", "kind_of", "samples", "short_text",
    "units_of", "value_text",
]  # fmt: skip

_SAMPLES: Final = 5  # values of a coordinate that are shown from its beginning, and from its end
_MOST: Final = 100  # members and attributes that are listed
_SECONDS: Final = {  # in a unit of time
    "W": Fraction(604800),
    "D": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))},
}


class Listed(int):
    """A number of things, with a line of cells for each of the first ones.

    Examples
    --------
    >>> members = Listed(2, [("lat", "float32"), ("lon", "float32")])
    >>> members, members.rows[0]
    (2, ('lat', 'float32'))
    """

    rows: Sequence[Sequence[str]]
    heads: Sequence[str]  # of the columns, for HTML
    notes: Mapping[str, str]  # more on things, by the first cell of their line, for HTML

    def __new__(
        cls,
        number: int,
        rows: Sequence[Sequence[str]],
        heads: Sequence[str] = (),
        notes: Mapping[str, str] | None = None,
    ) -> Listed:
        """Make a number with its lines; lines that are left out are counted in the last."""
        listed = super().__new__(cls, number)
        listed.heads, listed.notes = heads, notes or {}
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
    return "directory" if node.kind == "group" and is_plain_directory(node) else str(node.kind)


def format_of(node: Any) -> str | None:
    """Return the format of a node; ``None`` for a plain directory."""
    return None if kind_of(node) == "directory" else node.format


def data_set_row(name: str, node: Any, stored: Mapping[str, int | None]) -> tuple[str, ...]:
    """Return the cells of a data set in a plain directory: name, kind, format, axes and type or rows, stored bytes."""
    sizes = [size for path, size in stored.items() if path == name or path.startswith(f"{name}/")]
    known = [size for size in sizes if size is not None]
    rows = f"{len(node):,} rows" if node.kind == "table" else ""
    facts = f"{axes_text(node)} {node.metadata.data_type}" if node.kind == "array" else rows
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


def coordinates_of(arrays: Mapping[str, Any]) -> set[str]:
    """Return the names of the coordinates among arrays; see `coordinates_among`."""
    return coordinates_among({name: array.metadata for name, array in arrays.items()})


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
    coordinates = coordinates_of(arrays)
    values = {name: samples(arrays[name]) for name in arrays if name in coordinates}
    rows = {name: _cells(name, array, stored.get(name), values.get(name)) for name, array in arrays.items()}
    facts: dict[str, Any] = {}
    if lengths:
        facts["Dimensions"] = dimensions_text(lengths)
    if coordinates:
        notes = {rows[name][0]: _samples_text(arrays[name], some) for name, some in values.items() if some}
        heads = ["", "Dimensions", "Type", "Units", "Values", "Chunks", "Stored"]
        facts["Coordinates"] = Listed(len(coordinates), [rows[name] for name in values], heads, notes)
    variables = [rows[name] for name in arrays if name not in coordinates]
    heads = ["", "Dimensions" if lengths else "Shape", "Type", "Units", "Long name", "Chunks", "Stored"]
    facts["Variables" if coordinates else "Arrays"] = Listed(len(variables), variables, heads)
    return facts


def _cells(name: str, array: Any, stored: int | None, values: Sequence[Any] | None) -> tuple[str, ...]:
    """Return the cells of an array: name, axes, type, units, ends or long name, chunks, and stored bytes."""
    about = ends_text([*values[:1], *values[-1:]]) if values else array.attrs.get("long_name")
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
    return samples(array, 1)


def samples(array: Any, number: int = _SAMPLES) -> list[Any]:
    """Return the first values of a 1-d array and as many of the last ones, or all of a few, as `ends` does."""
    if array.ndim != 1 or not len(array):
        return []
    length = len(array)
    few = length <= 2 * number and number > 1
    try:
        values = array.oindex[[*range(length)] if few else [*range(number), *range(length - number, length)]]
        way = array.conventions
        return [*(values if way.is_plain else way.decode(np.asarray(values, way.stored)))]
    except TegulaError:
        return []


def _samples_text(array: Any, values: Sequence[Any]) -> str:
    """Write the first and the last values of a coordinate, and its length."""
    texts = [value_text(value) for value in values]
    if len(array) > len(texts):
        texts.insert(len(texts) // 2, "…")
    long_name = array.attrs.get("long_name")
    said = [", ".join(texts), f"{len(array):,} values", *([long_name] if isinstance(long_name, str) else [])]
    return "; ".join(said)


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


def short_text(value: Any) -> str:
    """Return a number with five digits or all before the point, a time without zeros at its end, or a short text.

    Examples
    --------
    >>> short_text(np.datetime64("2024-01-01T00:00:00.000")), short_text(np.timedelta64(174587628, "ms"))
    ('2024-01-01', '2 d 0:29:48')
    >>> short_text(0.123456), short_text(12345678), short_text(None), short_text("a long name of a station")
    ('0.12346', '12345678', '-', "'a long name…")
    """
    if value is None:
        return "-"
    if isinstance(value, (float, complex)):
        return f"{value:.0f}" if isinstance(value, float) and 1e5 <= abs(value) < 1e12 else f"{value:.5g}"
    if isinstance(value, np.timedelta64):
        return _short_duration(value)
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return "NaT"
        date, _, time = str(value).partition("T")
        time = time.rstrip("0").rstrip(".") if "." in time else time
        return f"{date} {time}" if time.strip("0:") else date  # a table is wrapped at the blank
    text = str(value) if isinstance(value, int) else repr(value)
    return text if len(text) <= 20 and isinstance(value, int) else text if len(text) <= 13 else f"{text[:12]}…"


def _short_duration(value: np.timedelta64) -> str:
    """Write a duration of a minute or more in days, hours, minutes and whole seconds."""
    unit, step = np.datetime_data(value.dtype)
    if np.isnat(value) or unit not in _SECONDS:
        return str(value)
    exact = int(value.astype("i8")) * step * _SECONDS[unit]
    if abs(exact) < 60:
        return f"{float(exact):.4g} s"
    days, seconds = divmod(round(abs(exact)), 86400)
    parts = [f"{days} d"] if days else []
    if seconds or not days:
        parts.append(f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}")
    return ("-" if exact < 0 else "") + " ".join(parts)
