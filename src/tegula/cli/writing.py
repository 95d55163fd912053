"""Writing a window of an array as npy, raw bytes, csv or JSON, block by block."""

from __future__ import annotations

import csv
import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.cli.values import plain_array
from tegula.cli.windows import Window
from tegula.errors import UnsupportedError

__all__ = ["WRITERS", "write_csv", "write_json", "write_npy", "write_raw"]

_TEXT_ELEMENTS: Final = 2**16  # as Python objects and text they take a multiple of their size


def write_npy(window: Window) -> Iterator[bytes]:
    """Write NumPy's npy format."""
    _refuse_objects(window, "npy")
    yield _npy_header(window.dtype, window.shape)
    yield from write_raw(window)


def write_raw(window: Window) -> Iterator[bytes]:
    """Write the bytes of the elements in C order, in the byte order of the array's data type."""
    _refuse_objects(window, "raw bytes")
    for values in window.pieces():
        yield values.tobytes()


def write_csv(window: Window) -> Iterator[bytes]:
    """Write a line for each row of a 2-d array, element of a 1-d one, or record, the latter below a line of names."""
    if len(window.shape) > 2:
        raise UnsupportedError(f"csv has no form for {len(window.shape)} dimensions; use json, or select two of them")
    names = window.dtype.names if len(window.shape) < 2 else None
    if names is not None:
        yield _lines([names])
    for block in window.blocks():
        for values in _small(np.atleast_1d(block)):
            rows = plain_array(values)
            if names is not None:
                rows = [[_cell(item[name]) for name in names] for item in rows]
            elif values.ndim == 1:
                rows = [[_cell(item)] for item in rows]
            elif values.dtype.kind not in "iufUM":
                rows = [[_cell(item) for item in row] for row in rows]
            yield _lines(rows)


def write_json(window: Window) -> Iterator[bytes]:
    """Write nested lists, with a line for each row."""
    yield from _nested(window)
    yield b"\n"


def _nested(window: Window) -> Iterator[bytes]:
    if not window.has_rows:
        yield _json(plain_array(window.read()))
        return
    before, between = b"[", b", " if len(window.shape) == 1 else b",\n "
    for row in _rows(window) if window.fits else map(_nested, window.rows()):
        yield before
        yield from row
        before = between
    yield b"[]" if before == b"[" else b"]"


def _rows(window: Window) -> Iterator[tuple[bytes]]:
    """Yield rows as JSON; of a 1-d window, many elements at once."""
    for block in window.blocks():
        for values in _small(block):
            items = plain_array(values)
            if values.ndim == 1:
                yield (_json(items)[1:-1],)
            else:
                yield from ((_json(row),) for row in items)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def _small(block: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    count = max(1, _TEXT_ELEMENTS // max(1, prod(block.shape[1:])))
    for start in range(0, len(block), count):
        yield block[start : start + count]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, dict)) else value


def _lines(rows: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(errors="backslashreplace")


def _refuse_objects(window: Window, name: str) -> None:
    if window.dtype.hasobject:
        raise UnsupportedError(f"elements of any length can't be written as {name}; use csv or json")


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
    "raw": write_raw,
}
"""The writers by the name of the output."""
