"""kerchunk references in Parquet: each file has the rows for a fixed number of chunks of an array, read when needed.

The layout is that of fsspec's ``LazyReferenceMapper``: ``.zmetadata`` has the documents of all nodes and the number of
rows per file, and a file such as ``x/refs.3.parq`` has the rows for chunks of ``x``, which are numbered with the last
axis fastest. A row has the columns ``path``, ``offset``, ``size`` and ``raw``, some of which may be missing.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import Any, Final

from tegula import config
from tegula.config.budget import Budget, check_size, parse_json
from tegula.errors import NotFoundError, StoreError
from tegula.runtime.optional import library
from tegula.stores.arguments import is_key
from tegula.stores.interface import Store
from tegula.stores.key_tree import KeyTree
from tegula.stores.references.parquet_pages import pages_of
from tegula.stores.references.sets import Reference, ReferenceSet, inlined, reference_from

__all__ = ["INDEX", "ParquetReferences", "record_key"]

INDEX: Final = ".zmetadata"
_SIZE: Final = b'"record_size"'
"""The key of the document that describes all nodes."""

_KEPT: Final = 32  # files of rows that stay in memory, unless they are large
_COLUMNS: Final = ("path", "offset", "size", "raw")
_MOST_AXES: Final = 32
_TRIED: Final = 64  # arrays in which a URL is looked for
_ABSENT: Final = 2**16  # the cost of asking for rows that are not there
_GROUP: Final = 2**14
_ROW: Final = 32
_ROWS: Final = 2**16  # that are decoded at a time
_AT_ONCE: Final = 2**24  # bytes of text that are decoded at a time
_PLAIN: Final = 2**26  # bytes of the texts of a column without a dictionary
_DELTA_BYTE_ARRAY: Final = 7  # an encoding whose values may be much longer than their bytes
_INDEXED: Final = frozenset((-1, 0, 2, 8))  # encodings of texts that can stay indexes into a dictionary
_record_of = re.compile(r"(?:(.*)/)?refs\.([0-9]{1,18})\.parq", re.DOTALL).fullmatch

_Table = Mapping[str, Any]


def record_key(name: str, record: int) -> str:
    """Return the key of the rows of one record of an array.

    Examples
    --------
    >>> record_key("group/x", 3)
    'group/x/refs.3.parq'
    """
    return f"{name}/refs.{record}.parq"


def is_index(raw: bytes) -> bool:
    """Return whether a ``.zmetadata`` is that of references, and not the consolidated metadata of a group.

    Examples
    --------
    >>> is_index(b'{"metadata": {}, "record_size": 1000}'), is_index(b'{"zarr_consolidated_format": 1, "metadata": {}}')
    (True, False)
    """
    if _SIZE not in raw or len(raw) > config.current().max_input_bytes:
        return _SIZE in raw  # most documents of groups do not mention it
    try:
        document = parse_json(raw, StoreError)
    except StoreError:
        return True  # opening it raises the error that names the fault
    return isinstance(document, dict) and "record_size" in document


class ParquetReferences(ReferenceSet):
    """References in a directory of Parquet files.

    Parameters
    ----------
    store : Store
        The directory.

    Raises
    ------
    NotFoundError, StoreError
        If the directory has no such references.
    UnsupportedError
        If pyarrow is not installed.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        raw = store.get(INDEX, (0, config.current().max_input_bytes + 1))
        if raw is None:
            raise NotFoundError(f"there is no {INDEX}, which references in Parquet have")
        try:
            document = parse_json(raw, StoreError)
        except StoreError as error:
            raise error.within(key=INDEX) from None
        try:
            documents, self._size = document["metadata"], document["record_size"]
        except (KeyError, TypeError) as error:
            raise StoreError(f"this is not the document of references in Parquet: {error!r:.80}", key=INDEX) from error
        if not isinstance(documents, dict) or type(self._size) is not int or not 0 < self._size < 2**31:
            raise StoreError("metadata must be a JSON object and record_size a whole number of at least 1", key=INDEX)
        self._documents = {key: value for key, value in documents.items() if is_key(key)}
        self._tree = KeyTree(self._documents)
        self._grids: dict[str, tuple[int, ...]] = {}
        self._tables: OrderedDict[tuple[str, int], tuple[_Table | None, int]] = OrderedDict()
        self._taken = 0  # bytes of the tables
        self._lock = threading.Lock()
        library("pyarrow.parquet")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store,)

    def find(self, key: str) -> Reference | bytes | None:
        document = self._documents.get(key)
        if document is not None:
            return reference_from(document)
        name, _, chunk = key.rpartition("/")
        grid = self._grid(name) if name else None
        number = None if grid is None else _number(chunk, grid)
        return None if number is None else self._row(name, number)

    def keys(self, prefix: str) -> Iterator[str]:
        yield from self._tree.keys(prefix)
        if self.store.listable:  # then only rows that are there are looked for
            for name, record in sorted(self._records(self.store.list_prefix(prefix))):
                yield from self._chunks(name, record)
            return
        for key in self._documents:
            name, _, last = key.rpartition("/")
            if last == ".zarray" and f"{name}/".startswith(prefix):
                yield from self._all_chunks(name)

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        keys, prefixes = self._tree.children(prefix)
        if f"{prefix}.zarray" in self._documents:
            name = prefix[:-1]
            if self.store.listable:
                records = sorted(self._records(self.store.list_dir(prefix)[0]))
                chunks = [key for _, record in records for key in self._chunks(name, record)]
            else:
                chunks = [*self._all_chunks(name)]
            keys = sorted([*keys, *chunks])
        return keys, prefixes

    def some_url(self) -> str | None:
        names = (key[: -len("/.zarray")] for key in self._documents if key.endswith("/.zarray"))
        for name in islice(names, _TRIED):
            found = self._row(name, 0) if prod(self._grid(name) or (0,)) else None
            if isinstance(found, Reference):
                return found.url
        return None

    # --- rows

    def _records(self, keys: Iterator[str] | list[str]) -> Iterator[tuple[str, int]]:
        """Yield the array and the number of each record of rows among keys."""
        for key in keys:
            found = _record_of(key)
            if found is not None and found[1] is not None and record_key(found[1], int(found[2])) == key:
                yield found[1], int(found[2])

    def _all_chunks(self, name: str) -> Iterator[str]:
        """Yield the keys of the chunks of an array in a store that can't be listed, by asking for each record."""
        budget = Budget()
        for record in range(-(-prod(self._grid(name) or (1,)) // self._size)):
            if self._table(name, record) is None:
                budget.spend(_ABSENT, "asking for rows of references that are not there")
            yield from self._chunks(name, record)

    def _chunks(self, name: str, record: int) -> Iterator[str]:
        """Yield the keys of the chunks in a record that have a reference or a value."""
        grid = self._grid(name)
        table = None if grid is None else self._table(name, record)
        if grid is None or table is None:
            return
        sizes = grid or (1,)
        rows = max((len(column) for column in table.values()), default=0)
        for row in range(min(rows, self._size, prod(sizes) - record * self._size)):
            if _is_present(table, row):
                number, parts = record * self._size + row, []
                for size in reversed(sizes):
                    number, part = divmod(number, size)
                    parts.append(str(part))
                yield f"{name}/{'.'.join(reversed(parts))}"

    def _grid(self, name: str) -> tuple[int, ...] | None:
        """Return how many chunks an array has along each axis; ``None`` if there is no such array."""
        if name not in self._grids:
            document = self._documents.get(f"{name}/.zarray")
            if document is None:
                return None
            try:
                array = parse_json(document.encode(), StoreError) if isinstance(document, str) else document
                lengths = [*zip(array["shape"], array["chunks"], strict=True)]
                grid = tuple(len(range(0, size, chunk)) for size, chunk in lengths[: _MOST_AXES + 1])
            except (ValueError, KeyError, TypeError, OverflowError, StoreError) as error:
                raise StoreError(f"shape and chunks are not valid: {error!r:.80}", key=f"{name}/.zarray") from error
            if len(grid) > _MOST_AXES:
                raise StoreError(f"an array can't have {len(lengths)} axes", key=f"{name}/.zarray", field="shape")
            self._grids[name] = grid
        return self._grids[name]

    def _row(self, name: str, number: int) -> Reference | bytes | None:
        record, row = divmod(number, self._size)
        table = self._table(name, record)
        if table is None:
            return None
        try:
            return _entry(table, row)
        except StoreError as error:
            raise error.within(key=record_key(name, record)) from None

    def _table(self, name: str, record: int) -> _Table | None:
        """Return the columns of a record; ``None`` if no chunk of it has a reference."""
        with self._lock:
            if (name, record) in self._tables:
                self._tables.move_to_end((name, record))
                return self._tables[name, record][0]
        table, size = self._read(record_key(name, record))
        most = config.current().max_input_bytes
        with self._lock:
            self._taken += size - self._tables.pop((name, record), (None, 0))[1]
            self._tables[name, record] = table, size
            while len(self._tables) > _KEPT or (len(self._tables) > 1 and self._taken > most):
                self._taken -= self._tables.popitem(last=False)[1][1]
        return table

    def _read(self, key: str) -> tuple[_Table | None, int]:
        """Return the columns of a file of rows, and their size in memory."""
        raw = self.store.get(key, (0, config.current().max_input_bytes + 1))
        if raw is None:
            return None, 0
        try:
            check_size(len(raw), "a file of references")
            return _columns(raw, self._size)
        except StoreError as error:
            raise error.within(key=key) from None
        except Exception as error:  # pyarrow raises errors of its own, and OSError
            raise StoreError(f"the rows of references can't be read: {error}", key=key) from error


def _columns(raw: bytes, most: int) -> tuple[_Table, int]:
    """Decode the columns of a file of at most so many rows, piece by piece within its budget.

    Texts stay encoded as dictionaries, if they are stored so.
    """
    parquet, source = library("pyarrow.parquet"), library("pyarrow").BufferReader
    budget = Budget(len(raw))
    before = budget.left
    footer = parquet.read_metadata(source(raw))
    if footer.num_rows > most:
        raise StoreError(f"there are {footer.num_rows} rows, more than the {most} that a file of references has")
    schema = [footer.schema.column(number) for number in range(footer.num_columns)]
    wanted = {column.path: number for number, column in enumerate(schema) if column.path.split(".")[0] in _COLUMNS}
    if not wanted.keys() <= {*_COLUMNS} or any(schema[number].max_repetition_level for number in wanted.values()):
        raise StoreError("the columns of references must not be nested")

    # pages of these columns, before the decoder allocates what they say
    longest = 0
    texts = {name for name, number in wanted.items() if schema[number].physical_type == "BYTE_ARRAY"}
    for group in range(footer.num_row_groups):
        budget.spend(_GROUP, "the row groups of references")
        for name, number in wanted.items():
            chunk = footer.row_group(group).column(number)
            start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
            for page in pages_of(raw, start, start + chunk.total_compressed_size):
                budget.spend(page.size, "decompressing the rows of references")
                longest = max(longest, page.size) if page.encoding == _DELTA_BYTE_ARRAY else longest
                if page.encoding not in _INDEXED:
                    texts.discard(name)

    # their values
    file = parquet.ParquetFile(source(raw), metadata=footer, read_dictionary=[*texts])
    rows = min(_ROWS, _AT_ONCE // longest or 1) if longest else _ROWS
    pieces: list[Any] = []
    places: set[int] = set()
    for batch in file.iter_batches(rows, columns=[*wanted]):
        budget.spend(_ROW * len(batch), "the rows of references")
        for column in batch.columns:
            text = getattr(column, "dictionary", column)  # which several batches may share
            place = text.buffers()[-1].address if text.nbytes and text is not column else 0
            if place not in places or not place:
                places.add(place)
                budget.spend(text.nbytes, "the texts of references")
        pieces.append(batch)
    arrow = library("pyarrow")
    table = arrow.Table.from_batches(pieces, arrow.schema([file.schema_arrow.field(name) for name in wanted]))
    found = {name: table.column(name) for name in wanted}
    return {name: _plain(column, budget) for name, column in found.items()}, before - budget.left


def _plain(column: Any, budget: Budget) -> Any:
    """Return a column as one array, whose rows are found faster, unless its texts would become many times as long."""
    if library("pyarrow").types.is_dictionary(column.type):
        compute = library("pyarrow.compute")
        lengths = [compute.binary_length(piece.dictionary).take(piece.indices) for piece in column.chunks]
        size = sum(compute.sum(each).as_py() or 0 for each in lengths)
        if size > min(_PLAIN, budget.left):
            return column
        budget.spend(size, "the texts of references")
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


def _number(chunk: str, grid: tuple[int, ...]) -> int | None:
    """Return the number of a chunk from its name; ``None`` if the grid has no such chunk."""
    parts, sizes = chunk.split("."), grid or (1,)
    if len(parts) != len(sizes) or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        return None
    number = 0
    for part, size in zip(parts, sizes):
        if int(part) >= size or str(int(part)) != part:
            return None
        number = number * size + int(part)
    return number


def _is_present(table: _Table, row: int) -> bool:
    """Return whether a row has a value or names a file; what it says is checked when it is looked up."""
    return any(_is_there(table.get(name), row) for name in ("raw", "path"))


def _is_there(column: Any, row: int) -> bool:
    """Return whether a column has a value in a row, without a copy of the value."""
    if column is None or row >= len(column) or not (scalar := column[row]).is_valid:
        return False
    return not library("pyarrow").types.is_floating(scalar.type) or _integer(scalar.as_py()) is not None


def _entry(table: _Table, row: int) -> Reference | bytes | None:
    raw = _cell(table, "raw", row)
    if raw is not None:
        if not isinstance(raw, (bytes, str)):
            raise StoreError(f"row {row} has no bytes in the column raw, but {raw!r:.60}")
        return inlined(raw.encode() if isinstance(raw, str) else raw)
    url, offset, size = (_cell(table, name, row) for name in ("path", "offset", "size"))
    if url is None:
        return None
    whole = not offset and not size
    found = reference_from([url] if whole else [url, offset or 0, size or 0])
    return found if isinstance(found, Reference) else None


def _cell(table: _Table, name: str, row: int) -> Any:
    column = table.get(name)
    if column is None or row >= len(column):
        return None
    value = column[row].as_py()
    return _integer(value) if isinstance(value, float) else value


def _integer(value: float) -> int | None:
    """Return a number as fastparquet writes it: a float, of which NaN is a missing number or text."""
    return int(value) if value.is_integer() else None
