"""Row input: rows that users give, converted to arrays that fit the columns; values are never truncated silently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.arrays.values import as_data, as_element, as_values
from tegula.errors import MetadataError
from tegula.metadata.data_types import DataType
from tegula.tables.arrow_input import ArrowRows, columns_of_arrow, is_arrow, rows_of_piece
from tegula.tables.frames import columns_of_pandas, is_pandas

__all__ = ["as_column", "as_columns", "as_rows", "fitted", "fitted_rows", "pieces_to_append"]

Array = npt.NDArray[Any]


def as_columns(rows: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Split rows into columns by name, without checking the values.

    Parameters
    ----------
    rows : mapping, structured array, DataFrame, Arrow table, or sequence
        A sequence holds the columns in the order of `names`.
    names : sequence of str, optional
        Names of the columns, if they are known.

    Raises
    ------
    MetadataError
        If `rows` is none of these.

    Examples
    --------
    >>> as_columns([[1, 2], [3.0, 4.0]], ["a", "b"])
    {'a': [1, 2], 'b': [3.0, 4.0]}
    """
    if isinstance(rows, Mapping):
        columns = dict(rows)
    elif is_pandas(rows):
        columns = columns_of_pandas(rows)
    elif is_arrow(rows):
        columns = columns_of_arrow(rows)
    elif isinstance(rows, (np.ndarray, np.void)) and rows.dtype.names is not None:
        records = np.atleast_1d(rows)
        columns = {name: records[name] for name in rows.dtype.names}
    elif names is not None and isinstance(rows, (list, tuple)):
        if len(rows) != len(names):
            raise MetadataError(f"there are {len(names)} columns, not {len(rows)}")
        columns = dict(zip(names, rows))
    else:
        raise MetadataError(
            f"a {type(rows).__name__} does not hold rows; give a dict of columns, a structured array or a DataFrame"
        )
    for name in columns:
        if not isinstance(name, str):
            raise MetadataError(f"the name of a column must be text, not {name!r:.80}", field="columns")
    return columns


def as_rows(values: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Split values for existing rows into columns; a record or tuple is one row, a list of tuples several.

    Raises
    ------
    MetadataError
        If the values are not rows of that type.
    """
    if isinstance(values, tuple):
        single = {name: items[0] for name, items in _split([values], dtype).items()}
        return {name: as_element(value) if dtype[name].kind == "O" else value for name, value in single.items()}
    if isinstance(values, list):
        return _split(values, dtype)
    if isinstance(values, (np.ndarray, np.void)) and values.shape == () and values.dtype.names is not None:
        return {name: values[name] for name in values.dtype.names}
    return as_columns(values)


def _split(rows: list[Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Split tuples or records into columns: tuples in order, records by the names of their fields."""
    names = dtype.names or ()
    if not rows:
        return {name: np.empty(0, dtype)[name] for name in names}
    columns: dict[str, Any] = {name: [*items] for name, items in zip(names, zip(*(_items(row, names) for row in rows)))}
    for name, items in columns.items():
        if dtype[name].base.names is not None:
            try:
                columns[name] = _as_records(items, dtype[name].base)
            except MetadataError as error:
                error.field = name  # the column, not a field of its records
                raise
    return columns


def _as_records(items: list[Any], dtype: np.dtype[Any]) -> Array:
    """Convert nested lists of tuples or records to an array whose fields have the types of the given values."""
    shape = [len(items)]
    while items and all(isinstance(item, list) or getattr(item, "ndim", 0) for item in items):
        shape.append(len(items[0]))
        if any(len(item) != shape[-1] for item in items):
            raise MetadataError("the lists of records differ in length")
        items = [record for item in items for record in item]
    fields = {name: _plain_text(as_column(values)) for name, values in _split(items, dtype).items()}
    records = np.empty(len(items), [(name, values.dtype, values.shape[1:]) for name, values in fields.items()])
    for name, values in fields.items():
        records[name] = values
    return records.reshape(shape)


def _items(row: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """Return the values of one row in the order of the columns."""
    if isinstance(row, (np.ndarray, np.void)) and row.shape == () and row.dtype.names is not None:
        if {*row.dtype.names} != {*names}:
            fields, wanted = ", ".join(row.dtype.names), ", ".join(names)
            raise MetadataError(f"the values are not rows: a record has the fields {fields:.200}, not {wanted:.200}")
        record = _unmasked(row)[()]
        return [record[name] for name in names]
    if not isinstance(row, tuple):
        shown = " ".join(repr(row).split())
        raise MetadataError(f"the values are not rows: {shown:.60} is neither a tuple nor a record")
    if len(row) != len(names):
        raise MetadataError(f"the values are not rows: there are {len(names)} columns, not {len(row)}")
    return row


def pieces_to_append(rows: Any, columns: Mapping[str, Any]) -> Iterator[Any]:
    """Yield rows for appending to columns: a stream in pieces that end where chunks do, anything else as it is.

    Parameters
    ----------
    rows : object
        As for `as_columns`, or an `ArrowRows` from which some rows were taken already.
    columns : mapping of str to tegula.Array
        The table's columns, at least one; each piece is appended before the next one is taken.
    """
    if is_arrow(rows):
        rows = ArrowRows(rows, fixed_width=all(column.dtype.kind != "O" for column in columns.values()))
    if not isinstance(rows, ArrowRows):
        yield rows
        return
    longest = max(column.metadata.grid.axes[0].longest() for column in columns.values())
    width = sum(column.dtype.itemsize * prod(column.shape[1:]) for column in columns.values())
    step = rows_of_piece(longest, width)
    while (piece := rows.take(step - next(iter(columns.values())).shape[0] % step)) is not None:
        yield piece


def fitted_rows(rows: Any, columns: Mapping[str, Any]) -> dict[str, Array]:
    """Convert rows for appending: all columns must be given, with equal lengths and values that fit.

    Parameters
    ----------
    rows : object
        As for `as_columns`; single values are one row.
    columns : mapping of str to tegula.Array
        The table's columns.

    Raises
    ------
    MetadataError
        If something does not fit; the message names the column.
    """
    values = as_columns(rows, [*columns])
    missing = [name for name in columns if name not in values]
    unknown = [name for name in values if name not in columns]
    if missing or unknown:
        what = f"there is no column {unknown[0]!r:.80}" if unknown else f"the column {missing[0]!r:.80} is missing"
        raise MetadataError(f"{what}; the table has {', '.join(columns)}", field=(unknown or missing)[0])
    parts = {name: fitted(name, values[name], column.metadata.data_type) for name, column in columns.items()}
    if all(part.ndim == columns[name].ndim - 1 for name, part in parts.items()):
        parts = {name: part[None] for name, part in parts.items()}
    for name, part in parts.items():
        if part.ndim != columns[name].ndim or part.shape[1:] != columns[name].shape[1:]:
            raise MetadataError(
                f"values of shape {part.shape} are given for rows of shape {columns[name].shape[1:]}",
                field=name,
            )
    lengths = {name: len(part) for name, part in parts.items()}
    if len({*lengths.values()}) > 1:
        raise MetadataError(f"the columns differ in length: {lengths}"[:400])
    return parts


def fitted(name: str, values: Any, data_type: DataType) -> Array:
    """Convert values for a column; floating-point numbers may be rounded, other values must be kept exactly.

    Raises
    ------
    MetadataError
        If values don't fit: text too long, whole numbers out of range, fractions for whole numbers, times between the
        ticks of the column's unit; the message names the column.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> fitted("a", [1.0, 2.0], as_data_type("u1"))
    array([1, 2], dtype=uint8)
    """
    try:
        if data_type.variable:
            return _variable(as_values(_unmasked(values), data_type, data_type.numpy), data_type)
        with np.errstate(all="ignore"):
            return _exact(_plain_text(as_column(values)), data_type.numpy)
    except MetadataError as error:
        error.within(field=name)
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"values don't fit the column, which is {data_type}: {error}", field=name) from error


def as_column(values: Any) -> Array:
    """Convert the values of a new column to an array.

    Raises
    ------
    MetadataError
        If the values do not form an array, NumPy would cut something off, or a value is masked that neither NaN nor NaT
        can represent.

    Examples
    --------
    >>> as_column(["a", "bc"])
    array(['a', 'bc'], dtype='<U2')
    """
    array = as_data(_unmasked(values))
    if isinstance(values, (list, tuple)) and array.dtype.kind in "US":
        _refuse_nul(values)
    return array


def _unmasked(values: Any) -> Any:
    """Replace masked values by NaN or NaT."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if b"\1" not in np.ma.getmask(values).tobytes():  # a mask of booleans, or of records of booleans
        return np.asarray(values)
    if values.dtype.kind in "fc":
        return values.filled(np.nan)
    if values.dtype.kind in "mM":
        return values.filled(values.dtype.type("NaT"))
    raise MetadataError(f"a value is masked, and {values.dtype} can't represent missing ones")


def _plain_text(array: Array) -> Array:
    """Convert text in objects, or of NumPy's variable-width type, to a fixed width."""
    if array.dtype.kind == "T" or (array.dtype.kind == "O" and array.size):
        kinds = {type(item) for item in array.flat}
        if kinds <= {str, np.str_} or kinds <= {bytes, np.bytes_}:
            _refuse_nul(array.flat)
            return np.array(array.tolist())
    return array


def _refuse_nul(items: Iterable[Any]) -> None:
    """Refuse text that ends in NUL, which NumPy would cut off as padding."""
    for item in items:
        if isinstance(item, (list, tuple)):
            _refuse_nul(item)
        elif isinstance(item, (str, bytes)) and item[-1:] in ("\0", b"\0"):
            raise MetadataError(f"{item!r:.60} ends in NUL, which NumPy would cut off")


def _variable(array: Array, data_type: DataType) -> Array:
    wanted: tuple[type, ...] = {"string": (str,), "bytes": (bytes, bytearray)}.get(data_type.variable, (object,))
    for item in array.flat:
        if not isinstance(item, wanted):
            raise MetadataError(f"{item!r:.60} is not a value of a column of {data_type}")
    return array


def _text(array: Array, dtype: np.dtype[Any]) -> Array:
    if array.dtype.kind not in "US" and array.size:
        raise MetadataError(f"{array.dtype} is not text, which the column holds")
    array = array.astype(dtype.kind)
    width = dtype.itemsize // (4 if dtype.kind == "U" else 1)
    lengths = np.char.str_len(array)
    if array.size and lengths.max() > width:
        longest = array.flat[lengths.argmax()]
        raise MetadataError(f"{str(longest)!r:.60} has {lengths.max()} characters, the column takes {width}")
    return array.astype(dtype)


def _exact(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert an array; only floating-point numbers may be rounded."""
    if array.dtype == dtype:
        return array
    if dtype.kind in "US":
        return _text(array, dtype)
    if dtype.kind in "mM":
        return _times(array, dtype)
    return _converted(array, dtype) if dtype.names is None else _records(array, dtype)


def _converted(array: Array, dtype: np.dtype[Any]) -> Array:
    if array.dtype.kind in "US" and array.size:
        raise MetadataError(f"text is given for a column of {dtype}")
    if dtype.type is np.void and array.size:
        raise MetadataError(f"{array.dtype} is given for a column of {dtype}")
    if array.dtype.kind == "c" and dtype.kind in "biuf":
        raise MetadataError(f"complex numbers are given for a column of {dtype}")
    if array.dtype.kind == "O" and dtype.kind in "biufc" and any(item is None for item in array.flat):
        raise MetadataError("a value is missing")
    converted = array.astype(dtype)
    same_kind = array.dtype.kind == dtype.kind and np.can_cast(array.dtype, dtype, "safe")
    if dtype.kind in "biu" and not same_kind:
        _check_exact(converted == array, array, dtype)
    return converted


def _times(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert to times of the column's unit: they must lie on its ticks, and within its range."""
    times = array
    if array.dtype.kind == "O":
        items = [_time_of(item, dtype) for item in array.flat]
        times = np.array(items, f"{dtype.kind}8").reshape(array.shape)  # in the unit that these values need
    elif array.dtype.kind in "US" and dtype.kind == "M":
        times, seconds = array.astype("M8"), array.astype("M8[s]")
        # years that are out of the range of the unit that others need
        _check_exact((times.astype("M8[s]") == seconds) | np.isnat(seconds), array, dtype)
    if times.dtype.kind not in f"biuf{dtype.kind}" and array.size:
        raise MetadataError(f"{array.dtype} is given for a column of {dtype}")
    converted = times.astype(dtype)
    back = converted.astype(times.dtype if times.dtype.kind == dtype.kind else np.int64)
    _check_exact((back == times) | (np.isnat(converted) & np.isnan(times)), array, dtype)
    return converted


def _time_of(item: Any, dtype: np.dtype[Any]) -> Any:
    """Return one time as NumPy takes it, which takes neither nanoseconds nor NaT from the times of pandas."""
    if isinstance(item, (np.generic, np.ndarray)) and {item.dtype.kind, dtype.kind} == {"M", "m"}:
        raise MetadataError(f"{item!r:.60} is not a value of {dtype}")
    if item != item:  # noqa: PLR0124, NaN or NaT
        return None
    to_numpy = getattr(item, "to_datetime64" if dtype.kind == "M" else "to_timedelta64", None)
    return item if to_numpy is None else to_numpy()


def _records(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert records field by field: by name if they have the same names, otherwise in order."""
    names, fields = dtype.names or (), array.dtype.names or ()
    if array.dtype.kind == "O" or not array.size:
        return array.astype(dtype)
    if len(fields) != len(names):
        raise MetadataError(f"{array.dtype} is given for a column of {dtype}")
    out = np.zeros(array.shape, dtype)
    for name, old in zip(names, names if {*fields} == {*names} else fields):
        part = _exact(array[old], dtype[name].base)
        if part.shape != out[name].shape:
            raise MetadataError(f"{array.dtype} is given for a column of {dtype}")
        out[name] = part
    return out


def _check_exact(same: Any, array: Array, dtype: np.dtype[Any]) -> None:
    if not np.all(same):
        raise MetadataError(f"{array.flat[np.argmin(same)]!s:.60} is not a value of {dtype}")
