"""A picture of a chunk grid: the last two axes as a rectangle, the ones before as sheets behind it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid

__all__ = ["chunk_grid_svg"]

_SIDE: Final = 120.0  # pixels of the longer side
_LINES: Final = 40  # more chunk borders than this along a side are thinned out
_SHEET: Final = 6.0


def chunk_grid_svg(shape: Sequence[int], grid: ChunkGrid, names: Sequence[str | None] | None = None) -> str:
    """Draw the chunk grid of an array as an SVG element.

    Parameters
    ----------
    shape : sequence of int
        The array's shape.
    grid : ChunkGrid
        Its chunks.
    names : sequence of str or None, optional
        Names of the axes, for the labels.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import regular_grid
    >>> chunk_grid_svg((4, 6), regular_grid((2, 3))).count("<line")
    6
    """
    if not shape or 0 in shape:
        return ""
    rows, columns = (1, shape[0]) if len(shape) == 1 else (shape[-2], shape[-1])
    scale = _SIDE / max(rows, columns)
    height, width = max(8.0, rows * scale), max(8.0, columns * scale)
    sheets = min(len(shape) - 2, 3) if len(shape) > 2 else 0
    left, top = sheets * _SHEET + 1, sheets * _SHEET + 1
    parts = [
        f'<rect x="{left - n * _SHEET:.1f}" y="{top - n * _SHEET:.1f}" width="{width:.1f}" height="{height:.1f}" '
        'fill="#e8eef7" stroke="#5b7aa8"/>'
        for n in range(sheets, -1, -1)
    ]
    across = _borders(grid.axes[-1], columns, width)
    down = _borders(grid.axes[-2], rows, height) if len(shape) > 1 else []
    parts += [_line(left + x, top, left + x, top + height) for x in across]
    parts += [_line(left, top + y, left + width, top + y) for y in down]
    labels = [name or "" for name in names] if names else [""] * len(shape)
    parts.append(_text(left + width / 2, top + height + 14, f"{labels[-1]} {columns}".strip()))
    if len(shape) > 1:
        parts.append(_text(left + width + 22, top + height / 2 + 4, f"{labels[-2]} {rows}".strip()))
    full_width, full_height = left + width + 46, top + height + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{full_width:.0f}" height="{full_height:.0f}" '
        f'font-size="10" font-family="sans-serif" text-anchor="middle">{"".join(parts)}</svg>'
    )


def _borders(axis: ChunkAxis, size: int, pixels: float) -> list[float]:
    """Return where the borders of chunks go along a side, its ends included."""
    count = axis.count(size)
    step = max(1, -(-count // _LINES))
    starts = [axis.start(number) for number in range(0, count, step)]
    return [start / size * pixels for start in starts] + [pixels]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#5b7aa8" stroke-width="0.6"/>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
