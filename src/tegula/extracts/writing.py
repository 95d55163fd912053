"""Writers of a window as npy, raw bytes, csv, JSON or plain text, block by block.

A caller may replace the letters of csv and plain text that would control a terminal; JSON has escapes for them.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tegula.errors import UnsupportedError
from tegula.extracts.coordinates import Heads
from tegula.extracts.values import array_to_json, json_text
from tegula.extracts.windows import Window

__all__ = [
    "SUFFIXES",
    "WRITERS",
    "write_csv",
    "write_headed_csv",
    "write_json",
    "write_npy",
    "write_raw",
    "write_text",
    "writer",
]

Show: TypeAlias = Callable[[str], str]
_TEXT_ELEMENTS: Final = 2**16  # converted at once: Python objects and text take a multiple of their size


def write_npy(window: Window) -> Iterator[bytes]:
    """Yield a file in NumPy's npy format."""
    _refuse_objects(window, "npy")
    yield _npy_header(window.dtype, window.shape)
    yield from write_raw(window)


def write_raw(window: Window) -> Iterator[bytes]:
    """Yield the bytes of the elements in C order, in the byte order of the data type."""
    _refuse_objects(window, "raw bytes")
    for values in window.pieces():
        yield values.tobytes()


def write_csv(window: Window, show: Show | None = None) -> Iterator[bytes]:
    """Yield csv: a line for each row (2-d) or element (1-d); structured elements have a header line of field names."""
    if len(window.shape) > 2:
        raise UnsupportedError(f"csv can't hold {len(window.shape)} dimensions; use json, or select two of them")
    names = window.dtype.names if len(window.shape) < 2 else None
    if names is not None:
        yield _lines([names], show)
    for block in window.blocks():
        for values in _small(np.atleast_1d(block)):
            yield _lines(_cells(values), show)


def write_headed_csv(window: Window, name: str, heads: Sequence[Heads]) -> Iterator[bytes]:
    """Yield csv with coordinates: those of the last dimension in the first line, those of others in columns.

    Parameters
    ----------
    window : Window
        At least one dimension of an array. If it is the only one, its coordinates are a column, too.
    name : str
        The name of the values, at the head of their column.
    heads : sequence of Heads
        The name and the coordinates of each dimension.

    Examples
    --------
    >>> import tegula
    >>> from tegula.extracts.windows import window
    >>> part = window(tegula.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), (...,))
    >>> print(b"".join(write_headed_csv(part, "t", [Heads(name, range(2)) for name in "zyx"])).decode())
    z,y\\x,0,1
    0,0,1,2
    0,1,3,4
    1,0,5,6
    1,1,7,8
    <BLANKLINE>
    """
    if not heads or len(heads) != len(window.shape) or window.dtype.names is not None:
        raise UnsupportedError("csv has coordinates for dimensions of plain elements; select some")
    titles, texts = [one.title for one in heads], [_Texts(one) for one in heads]
    *outer, down = texts[:-1] or texts
    yield _lines([[titles[0], name] if len(heads) == 1 else [*titles[:-2], "\\".join(titles[-2:]), *texts[-1]]], None)
    for fixed, plane in zip(_combined(outer), _planes(window.for_text())):
        beside = iter(down)
        for block in plane:
            for values in _small(block):
                # cells come first: of the longer one zip takes an item too many
                yield _lines([[*fixed, head, *line] for line, head in zip(_cells(values), beside)], None)


class _Texts:
    """The coordinates along a dimension: few stored ones are kept, and many are read each time, block by block."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._kept: list[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        stored = self._heads.stored
        if stored is None:
            return self._heads.computed()
        if len(self._heads.indices) > _TEXT_ELEMENTS:
            return self._read(stored)
        if self._kept is None:
            self._kept = [*self._read(stored)]
        return iter(self._kept)

    @staticmethod
    def _read(part: Window) -> Iterator[Any]:
        for block in part.for_text().blocks():
            for values in _small(block):
                yield from array_to_json(values)


def _combined(heads: Sequence[_Texts]) -> Iterator[tuple[Any, ...]]:
    """Yield the coordinates of each plane; unlike `itertools.product` it holds none of them."""
    if not heads:
        yield ()
        return
    for head in heads[0]:
        for others in _combined(heads[1:]):
            yield (head, *others)


def _cells(values: npt.NDArray[Any]) -> list[list[Any]]:
    """Return the cells of a 1-d or 2-d array, line by line."""
    rows: list[Any] = array_to_json(values)
    names = values.dtype.names if values.ndim == 1 else None
    if names is not None:
        return [[_cell(item[name]) for name in names] for item in rows]
    if values.ndim == 1:
        return [[_cell(item)] for item in rows]
    if values.dtype.kind not in "iufUM":
        return [[_cell(item) for item in row] for row in rows]
    return rows


def write_text(window: Window, show: Show | None = None) -> Iterator[bytes]:
    """Yield text for `numpy.loadtxt`: elements separated by spaces, and 2-d slices by an empty line.

    Field names are in a comment at the top. Booleans are 1 and 0, complex numbers are written as ``(1+2j)``, and text
    with spaces is quoted.
    """
    names = window.dtype.names if len(window.shape) < 2 else None
    if names is not None:
        yield b"# " + _lines([names], show, " ")
    for number, plane in enumerate(_planes(window)):
        if number:
            yield b"\n"
        for block in plane:
            for values in _small(np.atleast_1d(block)):
                if values.dtype.kind == "b":
                    yield _lines(_cells(values.astype("u1")), show, " ")
                elif values.dtype.kind == "c":
                    yield _lines(_cells(values.astype(object).astype("U")), show, " ")
                else:
                    yield _lines(_cells(values), show, " ")


def _planes(window: Window) -> Iterator[Iterator[npt.NDArray[Any]]]:
    """Yield the 2-d slices of a window, each as blocks of rows."""
    if len(window.shape) <= 2:
        yield window.blocks()
    elif window.fits:
        for block in window.blocks():
            if block.size:
                yield from (iter([plane]) for plane in block.reshape(-1, *block.shape[-2:]))
    else:
        for row in window.rows():
            yield from _planes(row)


def write_json(window: Window) -> Iterator[bytes]:
    """Yield JSON: nested lists with a line for each row; structured elements become objects."""
    yield from _nested(window)
    yield b"\n"


def _nested(window: Window) -> Iterator[bytes]:
    if not window.has_rows:
        yield _json(array_to_json(window.read()))
        return
    before, between = b"[", b", " if len(window.shape) == 1 and window.dtype.names is None else b",\n "
    for row in _rows(window) if window.fits else map(_nested, window.rows()):
        yield before
        yield from row
        before = between
    yield b"[]" if before == b"[" else b"]"


def _rows(window: Window) -> Iterator[tuple[bytes]]:
    """Yield rows as JSON; for a 1-d window, many elements at once."""
    for block in window.blocks():
        for values in _small(block):
            items = array_to_json(values)
            if values.ndim == 1 and values.dtype.names is None:
                yield (_json(items)[1:-1],)
            else:
                yield from ((_json(row),) for row in items)


def _json(value: Any) -> bytes:
    return json_text(value).encode()


def _small(block: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    count = max(1, _TEXT_ELEMENTS // max(1, prod(block.shape[1:])))
    for start in range(0, len(block), count):
        yield block[start : start + count]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json_text(value) if isinstance(value, (bool, list, dict)) else value


def _lines(rows: Any, show: Show | None, delimiter: str = ",") -> bytes:
    if show is not None:
        rows = [[show(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", delimiter=delimiter).writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")


def _refuse_objects(window: Window, name: str) -> None:
    if window.dtype.hasobject:
        raise UnsupportedError(f"variable-length elements can't be written as {name}; use csv or json")


def _npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    out = io.BytesIO()
    for write in (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0):
        try:
            write(out, facts)
            return out.getvalue()
        except ValueError:  # too long, or field names beyond latin-1
            out = io.BytesIO()
    text = repr(facts).encode()
    text += b" " * (-(len(text) + 13) % 64) + b"\n"
    return np.lib.format.magic(3, 0) + struct.pack("<I", len(text)) + text


WRITERS: Mapping[str, Callable[[Window], Iterator[bytes]]] = {
    "npy": write_npy,
    "csv": write_csv,
    "json": write_json,
    "text": write_text,
    "raw": write_raw,
}
"""The writers by the name of the output format."""
_OF_LINES: Final = {"csv": write_csv, "text": write_text}  # JSON has escapes for what is not printable


def writer(format: str, show: Show) -> Callable[[Window], Iterator[bytes]]:
    """Return the writer of an output format for a terminal; `show` replaces letters of text that would control it."""
    return partial(_OF_LINES[format], show=show) if format in _OF_LINES else WRITERS[format]


SUFFIXES: Final[Mapping[str, str]] = {
    ".npy": "npy", ".csv": "csv", ".json": "json", ".txt": "text", ".text": "text", ".raw": "raw", ".bin": "raw",
}  # fmt: skip
"""The output formats by the suffix of a file name, in lower case."""
