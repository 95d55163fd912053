"""Input from Arrow: streams of record batches, converted to columns of NumPy piece by piece.

A missing value becomes the given fill value, else NaN or NaT; if the type has neither, it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.chunking import whole_chunks
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.runtime.optional import library
from tegula.tables.frames import is_pandas

__all__ = ["ArrowRows", "columns_of_arrow", "is_arrow", "rows_of_piece"]

Array = npt.NDArray[Any]

_PIECE_BYTES: Final = 2**26
_HOW_TO_FILL: Final = "fill missing values first, or give create_table a value for them in fill_values"


def is_arrow(value: Any) -> bool:
    """Return whether rows are read through Arrow's interface for streams or arrays; pandas DataFrames are not.

    Examples
    --------
    >>> is_arrow({"a": [1]})
    False
    """
    has_interface = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return has_interface and not isinstance(value, type) and not is_pandas(value)


def rows_of_piece(longest: int, row_nbytes: int) -> int:
    """Return the number of rows in a piece: whole chunks of the columns, the longest of which has `longest` rows."""
    return whole_chunks(longest, row_nbytes, _PIECE_BYTES // 2)  # fewer bytes than `take` reads at once


class ArrowRows:
    """The rows of an Arrow stream, taken piece by piece; those in memory already are one piece.

    Parameters
    ----------
    rows : object
        An object with Arrow's interface for streams or arrays.
    fill_values : mapping, optional
        Values that replace missing ones, by column.
    fixed_width : bool
        Whether text becomes arrays of fixed width; otherwise Python strings.

    Raises
    ------
    MetadataError
        If the object does not hold rows with columns.

    Examples
    --------
    >>> import pyarrow
    >>> rows = ArrowRows(pyarrow.table({"a": [1, None, 3]}).to_reader(max_chunksize=1), {"a": -1})
    >>> rows.take(2), rows.take(2), rows.take(2)
    ({'a': array([ 1, -1])}, {'a': array([3])}, None)
    """

    def __init__(self, rows: Any, fill_values: Mapping[str, Any] | None = None, *, fixed_width: bool = False) -> None:
        arrow = library("pyarrow")
        self._fills = fill_values or {}
        self._fixed_width = fixed_width
        self._rest: list[Any] = []
        self._batches: Iterator[Any] = iter(())
        self._started = False
        with _reading():
            if isinstance(rows, (arrow.Table, arrow.RecordBatch)) or not hasattr(rows, "__arrow_c_stream__"):
                self._rest = [rows if isinstance(rows, arrow.Table) else arrow.table(rows)]
                self._schema = self._rest[0].schema
            else:
                is_reader = isinstance(rows, arrow.RecordBatchReader)
                reader = rows if is_reader else arrow.RecordBatchReader.from_stream(rows)
                self._batches, self._schema = iter(reader), reader.schema
        self.is_stream = not self._rest
        """Whether the rows come piece by piece."""

    def take(self, rows: int | None = None) -> dict[str, Array] | None:
        """Return the columns of the next rows, or ``None`` after the last; the first piece may have no rows.

        Parameters
        ----------
        rows : int, optional
            Maximum number of rows; by default as many as take some 64 MiB.

        Raises
        ------
        MetadataError, UnsupportedError
            If the stream fails, a value is missing, or NumPy has no type for a column.
        """
        rows_taken = self._next(rows)
        return None if rows_taken is None else columns_of_arrow(rows_taken, self._fills, self._fixed_width)

    def empty(self) -> dict[str, Array]:
        """Return the columns without rows."""
        return columns_of_arrow(self._schema.empty_table(), fixed_width=self._fixed_width)

    def kept(self) -> Iterator[dict[str, Array]]:
        """Yield all pieces, and write them to a temporary file, from which `take` then reads them again."""
        arrow = library("pyarrow")
        file = TemporaryFile()  # noqa: SIM115 - closed with the last batch read from it
        try:
            with arrow.ipc.new_stream(file, self._schema) as writer:
                while (table := self._next(None)) is not None:
                    writer.write_table(table)
                    yield columns_of_arrow(table, self._fills, self._fixed_width)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        self._batches, self._started = _batches_in(file), False

    def _next(self, rows: int | None) -> Any:
        """Return the next rows as a table of pyarrow, or ``None`` after the last."""
        arrow = library("pyarrow")
        parts, self._rest = self._rest, []
        count, size = sum(map(len, parts)), sum(part.nbytes for part in parts)
        with _reading():
            while size < _PIECE_BYTES and (rows is None or count < rows):
                batch = next(self._batches, None)
                if batch is None:
                    break
                parts.append(arrow.Table.from_batches([batch]))
                count, size = count + len(batch), size + batch.nbytes
        if not parts and self._started:
            return None
        self._started = True
        table = arrow.concat_tables(parts) if parts else self._schema.empty_table()
        if rows is not None and self.is_stream and count > rows:
            self._rest, table = [table.slice(rows)], table.slice(0, rows)
        return table


def _batches_in(file: BinaryIO) -> Iterator[Any]:
    with file:
        yield from library("pyarrow").ipc.open_stream(file)


def columns_of_arrow(
    table: Any, fill_values: Mapping[str, Any] | None = None, fixed_width: bool = False
) -> dict[str, Array]:
    """Return the columns of an Arrow table, or of a value with its interface; categories become their values.

    Parameters
    ----------
    table : object
        The table.
    fill_values : mapping, optional
        Values that replace missing ones, by column.
    fixed_width : bool
        Return text in arrays of fixed width, not as Python strings.

    Raises
    ------
    MetadataError
        If a value is missing that neither NaN nor NaT can represent; the message names the column.
    UnsupportedError
        If NumPy has no type for a column.
    """
    arrow = library("pyarrow")
    if not isinstance(table, arrow.Table):
        with _reading():
            table = arrow.table(table)
    if len({*table.column_names}) < len(table.column_names):
        raise MetadataError("two columns have the same name", field="columns")
    fills = fill_values or {}
    return {name: _column(name, table.column(name), fills.get(name), fixed_width) for name in table.column_names}


@contextmanager
def _reading() -> Iterator[None]:
    arrow = library("pyarrow")
    try:
        yield
    except TegulaError:
        raise
    except (arrow.ArrowException, TypeError, ValueError, OSError) as error:
        reason = str(error).partition(". Detail: ")[0]  # pyarrow adds tracebacks of Python
        raise MetadataError(f"these rows of Arrow can't be read: {reason}") from error


def _column(name: str, column: Any, fill: Any, fixed_width: bool) -> Array:
    arrow = library("pyarrow")
    try:
        chunks = [_decoded(chunk) for chunk in column.chunks or [column.combine_chunks()]]
        if fill is not None and column.null_count:
            chunks = [chunk.fill_null(fill) for chunk in chunks]
        parts = [_values(chunk, fixed_width) for chunk in chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    except TegulaError as error:
        error.within(field=name)
        raise
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise MetadataError(f"values of {column.type} can't be stored: {error}", field=name) from error


def _decoded(column: Any) -> Any:
    """Return an array of plain values for one with a dictionary, or of views."""
    arrow = library("pyarrow")
    kind = column.type
    if arrow.types.is_dictionary(kind):
        return arrow.DictionaryArray.from_arrays(column.indices, _decoded(column.dictionary)).dictionary_decode()
    for view, plain in ((arrow.string_view(), arrow.large_string()), (arrow.binary_view(), arrow.large_binary())):
        if kind == view:
            return column.cast(plain)
    return column


def _values(column: Any, fixed_width: bool) -> Array:
    """Return the values of an Arrow array; nested arrays are put together from their parts."""
    types, kind = library("pyarrow").types, column.type
    is_time = types.is_timestamp(kind) or types.is_duration(kind) or types.is_date(kind)
    if column.null_count and not (types.is_floating(kind) or is_time):
        raise MetadataError(f"a value is missing, which {kind} can't represent: {_HOW_TO_FILL}")
    if types.is_fixed_size_list(kind):
        inner = _values(_decoded(column.flatten()), fixed_width)
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if types.is_struct(kind):
        parts = [_values(_decoded(part), True) for part in column.flatten()]
        return _records({field.name: part for field, part in zip(kind, parts)}, len(column))
    if types.is_fixed_size_binary(kind):
        content = column.buffers()[1]
        raw = np.frombuffer(content, f"V{kind.byte_width}") if content else np.empty(0, f"V{kind.byte_width}")
        return raw[column.offset : column.offset + len(column)]
    _check_plain(kind)
    is_binary = types.is_binary(kind) or types.is_large_binary(kind)
    if fixed_width and (types.is_string(kind) or types.is_large_string(kind) or is_binary):
        return _fixed_text(column)
    if types.is_date64(kind):
        column = column.cast(library("pyarrow").date32())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _check_plain(kind: Any) -> None:
    types = library("pyarrow").types
    how = ""
    if types.is_timestamp(kind) and kind.tz is not None:
        how = "times are stored without a time zone; convert them to UTC and to a timestamp without one"
    elif types.is_decimal(kind):
        how = "cast it to float64, or to a whole number"
    elif types.is_list(kind) or types.is_large_list(kind):
        how = "if all lists have the same length, cast it to a list of fixed size"
    elif types.is_nested(kind) or types.is_time(kind) or types.is_null(kind) or types.is_interval(kind):
        how = "leave it out, or cast it to another type"
    if how:
        raise UnsupportedError(f"NumPy has no type for a column of {kind}: {how}")


def _fixed_text(column: Any) -> Array:
    """Return text or byte strings in an array of fixed width."""
    types, kind = library("pyarrow").types, column.type
    is_text = types.is_string(kind) or types.is_large_string(kind)
    _, offset_bytes, content = column.buffers()
    if not len(column):
        return np.empty(0, "U1" if is_text else "S1")
    wide = types.is_large_string(kind) or types.is_large_binary(kind)
    offsets = np.frombuffer(offset_bytes, "i8" if wide else "i4")[column.offset : column.offset + len(column) + 1]
    codes = np.frombuffer(content or b"", np.uint8)[: offsets[-1]]
    lengths = np.diff(offsets)
    if not codes[offsets[1:][lengths > 0] - 1].all():
        raise MetadataError("text ends in NUL, which NumPy would cut off")
    codes = codes[offsets[0] :]
    if is_text and codes.max(initial=0) >= 128:
        return np.array(column.to_pylist())
    width = max(1, int(lengths.max()))
    matrix = np.zeros((len(column), width), np.uint32 if is_text else np.uint8)
    matrix[np.arange(width) < lengths[:, None]] = codes
    return matrix.reshape(-1).view(f"{'U' if is_text else 'S'}{width}")


def _records(parts: Mapping[str, Array], length: int) -> Array:
    """Return a struct's parts as records, or as complex numbers if they are its real and imaginary parts."""
    if [*parts] == ["real", "imag"] and {part.dtype.str[1:] for part in parts.values()} in ({"f4"}, {"f8"}):
        numbers = np.empty(parts["real"].shape, np.result_type(parts["real"], np.complex64))
        numbers.real, numbers.imag = parts["real"], parts["imag"]
        return numbers
    records = np.empty(length, [(name, part.dtype, part.shape[1:]) for name, part in parts.items()])
    for name, part in parts.items():
        records[name] = part
    return records
