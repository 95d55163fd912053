"""Axes selected by an int or a slice."""

from __future__ import annotations

from typing import Any, TypeAlias

from tegula.errors import SelectionError
from tegula.metadata.chunk_grids import ChunkAxis, RegularAxis

__all__ = ["Column", "Row", "Runs", "fixed", "out_of_bounds", "runs"]

Row: TypeAlias = tuple[int, int, int, int, int, bool]

Column: TypeAlias = list[tuple[int, Any, Any, bool]]
"""Along one axis, for each chunk: its number, what to select of it, where that is in the work buffer, and `whole`."""


class Runs:
    """The table of an axis selected by an int or a slice: one row for each chunk touched.

    Attributes
    ----------
    rows : sequence of (number, first, count, step, work, whole)
        Number of the chunk along the axis; first index within the chunk, number of indices and distance between them
        (negative when the slice runs backwards, 1 for a single index); first index in the work buffer; whether the row
        has every index of the chunk that lies within the array. Made when first asked for.
    length : int or None
        Length of the axis in the work buffer; ``None`` for an int, which has no axis there.

    Examples
    --------
    >>> runs(slice(2, None, 3), 0, 10, RegularAxis(4)).rows
    [(0, 2, 1, 1, 0, False), (1, 1, 1, 1, 1, False), (2, 0, 1, 1, 2, False)]
    """

    __slots__ = ("_rows", "_span", "length")

    def __init__(
        self, length: int | None, span: tuple[int, int, int, ChunkAxis] | None, rows: list[Row] | None = None
    ) -> None:
        self.length = length
        self._span = span  # first index, step, size of the array's axis, and how it is cut
        self._rows = rows

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = [] if self._span is None else _cut(self.length or 0, *self._span)
        return self._rows

    @property
    def span(self) -> tuple[int, int, int] | None:
        """First index, step and length of a slice that selects something."""
        return (*self._span[:2], self.length) if self._span is not None and self.length else None

    @property
    def nchunks(self) -> int:
        """Number of rows, found without making them where the axis may have very many."""
        if self._rows is None and self._span is not None and self.length:
            start, step, _, cut = self._span
            if type(cut) is RegularAxis:
                if abs(step) >= cut.chunk:
                    return self.length
                return abs((start + (self.length - 1) * step) // cut.chunk - start // cut.chunk) + 1
        return len(self.rows)

    def column(self) -> Column:
        """Return the rows as selections."""
        if self.length is None:
            number, first, _, _, _, whole = self.rows[0]
            return [(number, first, None, whole)]
        found: Column = []
        for number, first, count, step, work, whole in self.rows:
            stop: int | None = first + (count - 1) * step + (1 if step > 0 else -1)
            if stop == -1:  # NumPy would count it from the end
                stop = None
            found.append((number, slice(first, stop, step), slice(work, work + count, 1), whole))
        return found


def out_of_bounds(index: int, axis: int, size: int) -> SelectionError:
    """Make the error for an index that is not within the array."""
    text = str(index) if index.bit_length() < 128 else f"of {index.bit_length()} bits"
    return SelectionError(f"index {text} is out of bounds for axis {axis} with size {size}")


def fixed(index: int, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Make the table of an axis that is selected by an int."""
    at = index + size if index < 0 else index
    if not 0 <= at < size:
        raise out_of_bounds(index, axis, size)
    if type(cut) is RegularAxis:
        chunk = cut.chunk
        number = at // chunk
        start = number * chunk
    else:
        number = cut.locate(at)
        start = cut.start(number)
        chunk = cut.length(number)
    return Runs(None, None, [(number, at - start, 1, 1, 0, chunk == 1 or size - start == 1)])


def runs(part: slice, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Make the table of an axis that is selected by a slice."""
    try:
        start, stop, step = part.indices(size)
    except (TypeError, ValueError) as error:
        raise SelectionError(f"a slice is not valid for axis {axis} with size {size}: {error}") from error
    length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    if length == 1:
        step = 1  # it may be larger than any integer of the machine
    return Runs(length, (start, step, size, cut)) if length > 0 else Runs(0, None)


def _cut(length: int, index: int, step: int, size: int, cut: ChunkAxis) -> list[Row]:
    """Divide the indices ``index, index + step, …`` among the chunks."""
    rows = []
    done = 0
    chunk = cut.chunk if type(cut) is RegularAxis else 0
    while done < length:
        if type(cut) is RegularAxis:
            number = index // chunk
            start = number * chunk
        else:
            number = cut.locate(index)
            start = cut.start(number)
            chunk = cut.length(number)
        end = min(start + chunk, size)
        count = (end - 1 - index) // step + 1 if step > 0 else (index - start) // -step + 1
        count = min(count, length - done)
        rows.append((number, index - start, count, step if count > 1 else 1, done, count == end - start))
        done += count
        index += count * step
    return rows
