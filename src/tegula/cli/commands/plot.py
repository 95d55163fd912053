"""``tegula plot``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer

from tegula.arrays.array import Array
from tegula.cli.files import output as open_output
from tegula.cli.progress import reading_line
from tegula.cli.reporting import AsJson, QuietButJson, Raw, print_json, print_message, say_decoded
from tegula.cli.targets import Node, StorageOptions, needs_array, open_target, target_argument
from tegula.display.contents import value_text
from tegula.display.markup import printable
from tegula.errors import SelectionError, TegulaError, UnsupportedError
from tegula.extracts.coordinates import coordinates_along
from tegula.extracts.selections import split_selection
from tegula.extracts.windows import Window, window
from tegula.hierarchy.group import Group
from tegula.runtime import optional
from tegula.stores.secrets import redacted
from tegula.tables.table import Table

__all__ = ["plot"]

_MOST_BYTES: Final = 2**28
_MOST_PIXELS: Final = 4000  # elements along an axis of an image; of a longer one every second, third, … is drawn
_MOST_POINTS: Final = 200_000  # elements of a line
_MOST_LINES: Final = 20
_NARROWEST: Final = 8  # the longer side of a map by the shorter one
_UNITS: Final = {  # of longitudes and latitudes (CF conventions 1.11, sections 4.1 and 4.2)
    name: "degrees"
    for place in ("north", "N", "east", "E")
    for name in (f"degrees_{place}", f"degree_{place}", f"degrees{place}", f"degree{place}")
}
_FORMATS: Final = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")


def plot(
    target: Annotated[str, target_argument("PATH", "The array or table, maybe with a selection: PATH[SELECTION].")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write: .png, .svg, .pdf, .jpg or .webp.")
    ],
    colors: Annotated[
        str, typer.Option("--colors", metavar="NAME", help="The colour map of an image, one of matplotlib's.")
    ] = "viridis",
    size: Annotated[
        str, typer.Option("--size", metavar="WIDTHxHEIGHT", help="The size of the picture in inches.")
    ] = "8x5",
    raw: Raw = False,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Draw an array or a table: a line for one axis, an image for two, a line for each numeric column of a table.

    Select two axes of an array that has more, as in tegula plot "x.zarr::t[0, :, :]" -o t.png. Values are decoded by
    the attributes of CF, as xarray does, unless --raw asks for what is stored; missing ones are left blank. Axes show
    the coordinates from arrays next to it that are named after a dimension, and the attributes long_name and units; the
    title has the coordinates of what is selected. Maps keep the proportions of their axes. Needs matplotlib.
    """
    if output.suffix.lower() not in _FORMATS:
        raise typer.BadParameter(f"the suffix must be one of {' '.join(_FORMATS)}", param_hint="--output")
    inches = _inches(size)
    try:
        path, items = split_selection(target)
    except SelectionError as error:
        raise typer.BadParameter(str(error), param_hint="PATH") from error
    matplotlib = optional.library("matplotlib")  # says how to install it
    matplotlib.use("agg")  # needs no display
    if colors not in matplotlib.colormaps:
        raise typer.BadParameter(f"{colors!r} is not a colour map of matplotlib", param_hint="--colors")
    with open_target(path, "r", storage_option, selects=True) as node, _drawing(matplotlib):
        if isinstance(node, Group):
            raise needs_array(node, path, "plot")
        part = window(node, items if items is not None else (...,), decodes=not raw)
        figure, axes = optional.library("matplotlib.pyplot").subplots(figsize=inches, layout="constrained")
        with reading_line(quiet, part, node.name) as watched:
            if isinstance(node, Table) or part.dtype.names is not None:
                note = _draw_columns(axes, watched)
            elif len(part.shape) == 1:
                note = _draw_line(axes, node, watched)
            elif len(part.shape) == 2:
                note = _draw_image(figure, axes, node, watched, colors)
            elif not part.shape:
                raise UnsupportedError("a single value can't be drawn; `tegula cat` prints it", path=path)
            else:
                raise UnsupportedError(
                    f"the selection has {len(part.shape)} axes; select one or two of them, as in {path}[0, :, :]",
                    path=path,
                )
        axes.set_title(title := _heading(target, node, part))
    with open_output(output) as stream, _drawing(matplotlib):
        figure.savefig(stream, format=output.suffix[1:].lower(), dpi=150)
    if as_json:
        print_json({"file": str(output), "title": title, "shape": part.shape, "note": note or None})
    elif not quiet:
        if note:
            print_message("note", note)
        say_decoded(part)


@contextmanager
def _drawing(matplotlib: Any) -> Iterator[None]:
    """Draw text as it is, and report what matplotlib refuses, such as years after 9999."""
    try:
        with matplotlib.rc_context({"text.parse_math": False}):
            yield
    except (TegulaError, OSError):
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UnsupportedError(f"matplotlib can't draw this: {error}") from error


def _inches(text: str) -> tuple[float, float]:
    width, _, height = text.partition("x")
    try:
        lengths = float(width), float(height)
    except ValueError:
        lengths = 0.0, 0.0
    if not all(0.5 <= length <= 100 for length in lengths):
        raise typer.BadParameter("give the size as WIDTHxHEIGHT, each from 0.5 to 100", param_hint="--size")
    return lengths


# --- what is drawn


def _draw_image(figure: Any, axes: Any, array: Array, part: Window, colors: str) -> str:
    numbers = [number for number, axis in enumerate(part.axes) if isinstance(axis, range)]
    if 0 in part.shape:
        raise UnsupportedError("the selection has no elements")
    part, step = _thinned(part, _MOST_PIXELS, _MOST_PIXELS)
    values = _masked(part)
    if values.dtype.kind == "M":
        raise UnsupportedError("times can't be drawn as an image; select one axis")
    rows, columns = (_scale(array, part, number) for number in numbers)
    image = axes.pcolormesh(columns.values, rows.values, values, cmap=colors, shading="nearest", rasterized=True)
    rows.label(axes.yaxis)
    columns.label(axes.xaxis)
    if array.dimension_names is None:
        axes.invert_yaxis()  # the first row on top, as NumPy prints it
    if is_map := columns.is_map_with(rows):
        axes.set_aspect("equal")
    is_wide = is_map and np.ptp(columns.values) > 1.5 * np.ptp(rows.values)
    figure.colorbar(image, label=_title(array, part), location="bottom" if is_wide else "right")
    return step


def _draw_line(axes: Any, array: Array, part: Window) -> str:
    number = next(number for number, axis in enumerate(part.axes) if isinstance(axis, range))
    part, step = _thinned(part, _MOST_POINTS)
    scale = _scale(array, part, number)
    values = _masked(part)
    axes.plot(scale.values, values, linewidth=1, marker="." if part.shape[0] < 50 else "")
    scale.label(axes.xaxis)
    axes.set_ylabel(_title(array, part))
    if values.dtype.kind == "M":
        _show_dates(axes.yaxis)
    return step


def _draw_columns(axes: Any, part: Window) -> str:
    if len(part.shape) != 1:
        raise UnsupportedError(f"records along {len(part.shape)} axes can't be drawn; select one axis, or a field")
    part, step = _thinned(part, _MOST_POINTS)
    values = part.read()
    names = [name for name in values.dtype.names or () if values.dtype[name].kind in "biufMm"]
    if not names:
        raise UnsupportedError("there are no columns of numbers")
    index = next(axis for axis in part.axes if isinstance(axis, range))
    for name in names[:_MOST_LINES]:
        axes.plot(index, values[name], linewidth=1, label=printable(name))
    axes.set_xlabel("row")
    axes.legend()
    omitted = f"only the first {_MOST_LINES} columns are drawn" if len(names) > _MOST_LINES else ""
    return "; ".join(text for text in (step, omitted) if text)


def _thinned(part: Window, *most: int) -> tuple[Window, str]:
    """Return a window with at most `most` elements along each axis, and a note if some are left out."""
    axes: list[int | range] = []
    limits, steps = iter(most), []
    for axis in part.axes:
        if isinstance(axis, range):
            step = -(-len(axis) // next(limits))
            steps.append(step)
            axes.append(axis[:: max(1, step)])
        else:
            axes.append(axis)
    thinned = replace(part, axes=tuple(axes))
    nbytes = prod(thinned.shape) * (64 if part.dtype.hasobject else part.dtype.itemsize)
    if nbytes > _MOST_BYTES:
        raise UnsupportedError(f"the selection has {nbytes} bytes; select less")
    if max(steps, default=1) <= 1:
        return part, ""
    shares = " × ".join(f"1 of {step}" for step in steps)
    return thinned, f"the selection is larger than the picture: {shares} elements are drawn"


def _masked(part: Window) -> Any:
    """Read values as numbers; missing ones are masked."""
    values = part.read()
    if part.conventions is not None and part.conventions.stored.kind == "b":
        values = values.astype("f8")
    if values.dtype.kind not in "biufMm":
        raise UnsupportedError(f"elements of the type {values.dtype} can't be drawn")
    mask = np.zeros(values.shape, bool)
    if values.dtype.kind in "fMm":
        mask = np.isnat(values) if values.dtype.kind in "Mm" else np.isnan(values)
    if values.dtype.kind == "m" or values.dtype.kind == "b":
        values = values.astype("f8" if values.dtype.kind == "m" else "u1")
    return np.ma.masked_array(values, mask)


# --- axes


def _title(array: Array, part: Window) -> str:
    """Return name and unit of the drawn values; stored values have no unit, since the attribute is for decoded ones."""
    conventions = array.conventions
    name = conventions.title or array.name
    if conventions.changes_values and part.conventions is None:
        return printable(f"{name} (as stored)")
    has_units = conventions.units and part.dtype.kind not in "mM"
    return printable(f"{name} ({conventions.units})" if has_units else name)


class _Scale(NamedTuple):
    """The coordinates along an axis, with their name and units."""

    values: Any
    title: str
    units: str = ""

    def label(self, axis: Any) -> None:
        """Label an axis of the drawing."""
        axis.set_label_text(self.title)
        if self.values.dtype.kind == "M":
            _show_dates(axis)

    def is_map_with(self, other: _Scale) -> bool:
        """Return whether both scales are of a map, which is drawn to scale unless it would become a narrow strip."""
        if not self.units or _UNITS.get(self.units, self.units) != _UNITS.get(other.units, other.units):
            return False
        spans = [float(np.ptp(scale.values)) if scale.values.dtype.kind in "iuf" else 0.0 for scale in (self, other)]
        return max(spans) <= _NARROWEST * min(spans)


def _show_dates(axis: Any) -> None:
    """Write dates in short, with what they have in common beside the axis."""
    dates = optional.library("matplotlib.dates")
    locator = dates.AutoDateLocator()
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _scale(array: Array, part: Window, number: int) -> _Scale:
    """Return the coordinates along an axis: from the array of the axis' name, else the indices."""
    axis = part.axes[number]
    assert isinstance(axis, range)
    name = array.dimension_names[number] if array.dimension_names is not None else None
    if name is None:
        return _Scale(np.asarray(axis), f"axis {number}")
    return _stored_scale(array, number, axis) or _Scale(np.asarray(axis), printable(name))


def _stored_scale(array: Array, number: int, indices: range) -> _Scale | None:
    """Return coordinates from the array next to this one that has the name of a dimension; ``None`` if it has none."""
    with suppress(TegulaError):
        part = coordinates_along(array, number, indices)
        if part is not None and isinstance(part.array, Array) and part.array.dtype.kind in "iufM":
            values = part.read()
            if np.isfinite(values).all():
                return _Scale(values, _title(part.array, part), part.array.conventions.units)
    return None


def _heading(target: str, node: Node, part: Window) -> str:
    """Return the title: the target, and the coordinates at which the axes that are not drawn were selected."""
    title = printable(redacted(target))
    lines = [title if len(title) < 80 else f"…{title[-79:]}"]
    names = (node.dimension_names if isinstance(node, Array) else None) or ()
    places = []
    for number, (name, index) in enumerate(zip(names, part.axes)):
        if isinstance(index, range) or name is None or not isinstance(node, Array):
            continue
        scale = _stored_scale(node, number, range(index, index + 1))
        if scale is not None:
            units = "" if scale.values.dtype.kind == "M" or not scale.units else f" {printable(scale.units)}"
            places.append(f"{printable(name)} = {value_text(scale.values[0])}{units}")
    return "\n".join([*lines, *([", ".join(places)] if places else [])])
