"""Axes selected by an int or a slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from tegula.errors import SelectionError
from tegula.metadata.chunk_grids import ChunkAxis, RegularAxis

__all__ = ["Column", "Entry", "Row", "Runs", "fixed", "out_of_bounds", "runs"]

Row: TypeAlias = tuple[int, int, int, int, int, bool]

Entry: TypeAlias = tuple[int, Any, Any, bool]
"""Of a chunk along one axis: its number, what to select of it, where that is in the work buffer, and `whole`."""

Column: TypeAlias = Iterable[Entry]
"""The entries of an axis: a list, or where that would be long an iterable that makes them one after the other."""

LONG: Final = 2**12
"""More rows than this are not kept in memory."""


class Runs:
    """An axis selected by an int or a slice: one row for each chunk touched, computed when it is asked for.

    A row is ``(number, first, count, step, work, whole)``: number of the chunk along the axis; first index within the
    chunk, number of indices and distance between them (negative when the slice runs backwards, 1 for a single index);
    first index in the work buffer; whether the row has every index of the chunk that lies within the array.

    Attributes
    ----------
    start, step, count : int
        The selected indices of the array's axis.
    length : int or None
        Length of the axis in the work buffer; ``None`` for an int, which has no axis there.

    Examples
    --------
    >>> table = runs(slice(2, None, 3), 0, 10, RegularAxis(4))
    >>> list(table.rows())
    [(0, 2, 1, 1, 0, False), (1, 1, 1, 1, 1, False), (2, 0, 1, 1, 2, False)]
    >>> table.find(2)
    (2, slice(0, 1, 1), slice(2, 3, 1), False)
    """

    __slots__ = ("_cut", "_size", "count", "length", "start", "step")

    def __init__(self, length: int | None, span: tuple[int, int, int], size: int, cut: ChunkAxis) -> None:
        self.length = length
        self.start, self.step, self.count = span
        self._size = size
        self._cut = cut

    def rows(self) -> Iterator[Row]:
        """Divide the indices among the chunks, and yield a row for each."""
        cut, size, step, left = self._cut, self._size, self.step, self.count
        index, done = self.start, 0
        chunk = cut.chunk if type(cut) is RegularAxis else 0
        while left:
            if type(cut) is RegularAxis:
                number = index // chunk
                start = number * chunk
            else:
                number = cut.locate(index)
                start = cut.start(number)
                chunk = cut.length(number)
            end = min(start + chunk, size)
            count = (end - 1 - index) // step + 1 if step > 0 else (index - start) // -step + 1
            count = min(count, left)
            yield (number, index - start, count, step if count > 1 else 1, done, count == end - start)
            done += count
            left -= count
            index += count * step

    @property
    def nchunks(self) -> int:
        """Number of rows, found without making them where the axis may have very many."""
        count, cut = self.count, self._cut
        if count <= 1:
            return count
        last = self.start + (count - 1) * self.step
        if type(cut) is RegularAxis:
            chunk = cut.chunk
            return count if abs(self.step) >= chunk else abs(last // chunk - self.start // chunk) + 1
        if abs(self.step) == 1:  # no chunk is left out between the first and the last
            return abs(int(cut.locate(last)) - int(cut.locate(self.start))) + 1
        return sum(1 for _ in self.rows())

    def column(self) -> Column:
        """Return the rows as selections."""
        return [*self] if self.nchunks <= LONG else self

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, self.rows())

    def find(self, number: int) -> Entry | None:
        """Return what is selected of a chunk; ``None`` if nothing is."""
        cut, step, count = self._cut, self.step, self.count
        if number >= cut.count(self._size):
            return None
        start = cut.start(number)
        end = min(start + cut.length(number), self._size)
        # the first and the last position of which the index lies in the chunk
        low, high = (start, end - 1) if step > 0 else (end - 1, start)
        first = max(0, -((self.start - low) // step))
        last = min(count - 1, (high - self.start) // step)
        if first > last:
            return None
        here = last - first + 1
        inner = self.start + first * step - start
        return self._entry((number, inner, here, step if here > 1 else 1, first, here == end - start))

    def _entry(self, row: Row) -> Entry:
        number, first, count, step, work, whole = row
        if self.length is None:
            return number, first, None, whole
        stop: int | None = first + (count - 1) * step + (1 if step > 0 else -1)
        if stop == -1:  # NumPy would count it from the end
            stop = None
        return number, slice(first, stop, step), slice(work, work + count, 1), whole


def out_of_bounds(index: int, axis: int, size: int) -> SelectionError:
    """Make the error for an index that is not within the array."""
    text = str(index) if index.bit_length() < 128 else f"of {index.bit_length()} bits"
    return SelectionError(f"index {text} is out of bounds for axis {axis} with size {size}")


def fixed(index: int, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Make the table of an axis that is selected by an int."""
    at = index + size if index < 0 else index
    if not 0 <= at < size:
        raise out_of_bounds(index, axis, size)
    return Runs(None, (at, 1, 1), size, cut)


def runs(part: slice, axis: int, size: int, cut: ChunkAxis) -> Runs:
    """Make the table of an axis that is selected by a slice."""
    try:
        start, stop, step = part.indices(size)
    except (TypeError, ValueError) as error:
        raise SelectionError(f"a slice is not valid for axis {axis} with size {size}: {error}") from error
    length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    if length <= 0:
        return Runs(0, (0, 1, 0), size, cut)
    if length == 1:
        step = 1  # it may be larger than any integer of the machine
    return Runs(length, (start, step, length), size, cut)
