"""A drawing of a chunk grid: the last three axes as a box, a rectangle or a strip, earlier ones as strips above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt
from typing import Final

from tegula.display.markup import shorten
from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, regular_grid

__all__ = ["chunk_grid_svg"]

_LONGEST: Final = 120.0  # pixels of the longest axis
_SHORTEST: Final = 16.0  # pixels of the shortest axis
_LINES: Final = 40  # more chunk borders than this along an axis are thinned out
_STRIPS: Final = 4  # leading axes that are drawn; more are counted
_STRIP: Final = 10.0  # pixels that a strip is high
_GAP: Final = 8.0
_LETTER: Final = 6.2  # pixels, width of a letter of a label
_SLANT: Final = sqrt(0.5)  # the depth axis goes up to the right at 45 degrees

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Side:
    """A drawn axis.

    Parameters
    ----------
    pixels : float
        Its length.
    label : str
        Its name, if it has one, and its number of elements.
    heavy, light : list of float
        Positions of borders in pixels: heavy for chunks (shards), light for inner chunks; the ends are heavy.
    """

    pixels: float
    label: str
    heavy: list[float]
    light: list[float]


def chunk_grid_svg(
    shape: Sequence[int],
    grid: ChunkGrid,
    names: Sequence[str | None] | None = None,
    inner: Sequence[int] | None = None,
) -> str:
    """Draw the chunk grid of an array as an SVG element in the colours of the surrounding text.

    Every axis is labelled; a longer axis is never drawn shorter than another one.

    Parameters
    ----------
    shape : sequence of int
        The array's shape.
    grid : ChunkGrid
        Its chunks, or its shards.
    names : sequence of str or None, optional
        Names of the axes, for the labels.
    inner : sequence of int, optional
        Shape of the chunks in a shard, drawn with thinner lines.

    Returns
    -------
    str
        An ``<svg>`` element; empty for an array without axes or elements.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> svg = chunk_grid_svg((4, 6), regular_grid((2, 3)), ["y", "x"])
    >>> ">y 4</text>" in svg, ">x 6</text>" in svg
    (True, True)
    """
    if not shape or 0 in shape:
        return ""
    sides = _sides(shape, grid, names, inner)
    drawing = _Drawing()
    strips, body = sides[:-3], sides[-3:]
    # the strips of the leading axes, and space on the left for the label of the rows
    left = 1 + (len(body[-2].label) * _LETTER + 6 if len(body) > 1 else 0)
    top = 1.0
    for side in strips[:_STRIPS]:
        drawing.box((left, top), side, _Side(_STRIP, "", [0, _STRIP], []))
        drawing.text((left + side.pixels + 6, top + _STRIP - 1), side.label, "start")
        top += _STRIP + _GAP
    if len(strips) > _STRIPS:
        drawing.text((left, top + _STRIP - 1), f"and {len(strips) - _STRIPS} more axes", "start")
        top += _STRIP + _GAP
    # the last three axes
    width, height = body[-1].pixels, body[-2].pixels if len(body) > 1 else 24.0
    depth = body[-3].pixels * _SLANT if len(body) > 2 else 0.0
    front = (left, top + depth)
    down = body[-2] if len(body) > 1 else _Side(height, "", [0, height], [])
    if len(body) > 2:
        drawing.roof(front, body[-1], down, body[-3])
        drawing.text((left + width + depth / 2 + 8, top + height + depth / 2 + 10), body[-3].label, "start")
    drawing.box(front, body[-1], down)
    drawing.text((left + width / 2, top + depth + height + 14), body[-1].label, "middle")
    if len(body) > 1:
        drawing.text((left - 6, top + depth + height / 2 + 4), body[-2].label, "end")
    chunks = [str(axis.start(1)) if axis.count(size) > 1 else str(size) for axis, size in zip(grid.axes, shape)]
    what = f"{' × '.join(map(str, shape))} elements in {'shards' if inner else 'chunks'} of {' × '.join(chunks)}"
    return drawing.svg(what)


def _sides(
    shape: Sequence[int], grid: ChunkGrid, names: Sequence[str | None] | None, inner: Sequence[int] | None
) -> list[_Side]:
    """Scale the axes, all alike, and find the borders on them."""
    longest = max(shape)
    sides = []
    for number, (size, axis) in enumerate(zip(shape, grid.axes)):
        pixels = max(_SHORTEST, size / longest * _LONGEST)
        name = shorten(names[number] or "", 12) if names else ""
        light = _borders(regular_grid(inner).axes[number], size, pixels, exact=True) if inner else []
        sides.append(_Side(pixels, f"{name} {size}".strip(), _borders(axis, size, pixels), light))
    return sides


def _borders(axis: ChunkAxis, size: int, pixels: float, *, exact: bool = False) -> list[float]:
    """Return the positions of chunk borders and of both ends; too many are thinned out, or if `exact`, left out."""
    count = axis.count(size)
    if exact and count > _LINES:
        return []
    step = max(1, -(-count // _LINES))
    starts = [axis.start(number) for number in range(0, count, step)]
    return [start / size * pixels for start in starts] + [pixels]


class _Drawing:
    """Faces, lines and labels of a drawing, and its size."""

    def __init__(self) -> None:
        self._faces: list[str] = []
        self._heavy: list[str] = []
        self._light: list[str] = []
        self._texts: list[str] = []
        self._right = self._bottom = 0.0

    def box(self, corner: Point, across: _Side, down: _Side) -> None:
        """Draw a rectangle with borders across and down."""
        self._face(corner, (across.pixels, 0), (0, down.pixels), across, down, 0.35)

    def roof(self, corner: Point, across: _Side, down: _Side, back: _Side) -> None:
        """Draw the top and the right side of a box whose front has its upper left corner there."""
        x, y = corner
        deep = (back.pixels * _SLANT, -back.pixels * _SLANT)
        self._face(corner, (across.pixels, 0), deep, across, back, 0.18)
        self._face((x + across.pixels, y), deep, (0, down.pixels), back, down, 0.5)

    def _face(self, corner: Point, one: Point, other: Point, along: _Side, beside: _Side, shade: float) -> None:
        """Draw a parallelogram between two edges, with the borders of chunks on it."""
        x, y = corner
        corners = [(x, y), (x + one[0], y + one[1])]
        corners += [(x + one[0] + other[0], y + one[1] + other[1]), (x + other[0], y + other[1])]
        self._reach(max(x for x, _ in corners), max(y for _, y in corners))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self._faces.append(f'<polygon points="{points}" fill="#6b9bd8" fill-opacity="{shade}" stroke="none"/>')
        for side, edge, across in ((along, one, other), (beside, other, one)):
            for lines, borders in ((self._light, side.light), (self._heavy, side.heavy)):
                for border in borders:
                    part = border / side.pixels
                    start = (x + edge[0] * part, y + edge[1] * part)
                    lines.append(f"M{start[0]:.1f} {start[1]:.1f}l{across[0]:.1f} {across[1]:.1f}")

    def text(self, place: Point, text: str, anchor: str) -> None:
        """Write a label."""
        width = len(text) * _LETTER
        self._reach(place[0] + (width if anchor == "start" else width / 2 if anchor == "middle" else 0), place[1] + 4)
        anchored = f'text-anchor="{anchor}"'
        self._texts.append(f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" {anchored}>{escape(text)}</text>')

    def _reach(self, right: float, bottom: float) -> None:
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)

    def svg(self, description: str) -> str:
        """Return the SVG element."""
        width, height = self._right + 2, self._bottom + 2
        line = 'fill="none" stroke="currentColor"'
        light = f'<path {line} stroke-opacity="0.35" stroke-width="0.5" d="{"".join(self._light)}"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img" '
            f'aria-label="{escape(description)}" font-size="11" font-family="sans-serif" fill="currentColor">'
            f"{''.join(self._faces)}{light if self._light else ''}"
            f'<path {line} stroke-opacity="0.75" stroke-width="0.9" d="{"".join(self._heavy)}"/>'
            f"{''.join(self._texts)}</svg>"
        )
