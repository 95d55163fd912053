"""Elements as JSON: rows of tables, and statistics of a selection, in bounded memory."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import indices_of
from tegula.engine.reading.costs import element_bytes, reading_cost
from tegula.errors import SelectionError, TegulaError, UnsupportedError
from tegula.extracts.projections import Projection
from tegula.extracts.selections import parse_selection
from tegula.extracts.values import array_to_json, to_json
from tegula.extracts.windows import Picked, Window, window
from tegula.hierarchy.group import Group
from tegula.hierarchy.opening import open_table
from tegula.jobs.statistics.statistics import statistics_of_blocks
from tegula.server.consistency import Work
from tegula.server.content import Content
from tegula.server.matching import ALL, Matching, Query, matching_cost, used_columns
from tegula.tables.table import Table

__all__ = [
    "BLOCK",
    "COST",
    "part_of",
    "read_axes",
    "row_statistics_work",
    "rows",
    "rows_work",
    "selection_statistics",
    "selection_statistics_work",
    "table_at",
]

COST: Final = 2**25
"""Bytes of memory to hold while elements are read."""
BLOCK: Final = 2**24
"""The most bytes of a selection to read at once."""
_MOST_ROWS: Final = 1000
_MOST_COLUMNS: Final = 1000
_MOST_CELLS: Final = 100_000
_MOST_BYTES: Final = 2**24  # of the rows in memory
_LONGEST_CELL: Final = 2000  # letters
_MOST_ITEMS: Final = 64  # in a cell that is an array
_MOST_STATISTICS: Final = 2**28

Json = dict[str, Any]


def table_at(content: Content, path: str) -> Table | Array:
    """Return the table at a path, even in a format without tables; or an array with rows."""
    node = content.open(path)
    if isinstance(node, Group):
        try:
            return open_table(content.store, path=content.store_path(path))
        except TegulaError as error:
            raise SelectionError("this group is not a table: its members are not arrays of equal length") from error
    if isinstance(node, Array) and not node.shape:
        raise SelectionError("an array without axes has no rows", path=f"/{path}")
    return node


def rows(
    content: Content, path: str, columns: list[str] | None, start: int, stop: int | None, query: Query = ALL
) -> Json:
    """Return rows of a table, or of an array along its first axis; fewer than requested if they are large.

    Parameters
    ----------
    content : Content
        The served content.
    path : str
        Path of the table or array.
    columns : list of str, optional
        Columns of the table, or fields of structured elements; by default all of them, up to 1,000.
    start, stop : int
        The rows; not more than 1,000 are returned. With a query they count those that match, in its order.
    query : Query
        The condition on the rows, and the column that they are sorted by.

    Raises
    ------
    NotFoundError, SelectionError
        If there is no such node or column.
    MetadataError, UnsupportedError
        If the query is not valid.

    Examples
    --------
    >>> import tegula
    >>> t = tegula.create_table({}, {"a": [1, 2, 3], "b": [0.5, float("nan"), 2.5]})
    >>> page = rows(Content(t), "", None, 1, 3)
    >>> page["rows"], page["total"], [column["name"] for column in page["columns"]]
    ([[2, 'NaN'], [3, 2.5]], 3, ['a', 'b'])
    >>> page = rows(Content(t), "", None, 0, None, Query("a > 1", "a", descending=True))
    >>> page["rows"], page["total"], page["numbers"], page["searched"]
    ([[3, 2.5], [2, 'NaN']], 2, [2, 1], 3)
    """
    return rows_work(content, path, columns, start, stop, query, Matching()).run()


def rows_work(
    content: Content,
    path: str,
    columns: list[str] | None,
    start: int,
    stop: int | None,
    query: Query,
    matching: Matching,
) -> Work[Json]:
    """Return the work of `rows`; also raises `ConflictError` if the table is being replaced."""
    node = table_at(content, path)
    start, stop = max(0, start), start + _MOST_ROWS if stop is None else min(max(start, stop), start + _MOST_ROWS)
    sources = _columns(node, columns)
    width = max(1, sum(prod(shape) * element_bytes(dtype) for dtype, shape in sources.values()))
    most = max(1, min(_MOST_BYTES // width, _MOST_CELLS // max(1, len(sources))))
    if width > _MOST_BYTES:
        raise SelectionError(f"a row has {width} bytes; ask for fewer columns, or for a selection of its values")
    arrays = [node[name] for name in sources] if isinstance(node, Table) else [node]
    used = used_columns(node, query) if query else []
    watch = content.watch(node, *(arrays + used if isinstance(node, Table) else ()))

    def run() -> Json:
        found = matching.find(path, node, query, watch) if query else None
        total = len(node) if found is None else len(found.numbers)
        first, last = min(start, total), min(stop, start + most, total)
        chosen: Any = slice(first, last) if found is None else found.numbers[first:last]
        cells = [_column(node, name, chosen) for name in sources]
        more = {} if found is None else {"numbers": chosen.tolist(), "length": len(node), "searched": found.searched}
        return {
            "path": path,
            "columns": [
                {"name": name, "dtype": _type_name(node, name, dtype), "shape": [*shape]}
                for name, (dtype, shape) in sources.items()
            ],
            "start": first,
            "stop": last,
            "total": total,
            "rows": [list(row) for row in zip(*cells)] if cells else [[] for _ in range(first, last)],
            **more,
        }

    length = len(node)
    seen = [] if query else [range(min(start, length), min(stop, start + most, length))]
    cost = max((reading_cost(array.stored, seen) for array in arrays), default=0)  # one column after another
    return Work(COST + cost + (matching_cost(used) if query else 0), partial(watch.guard, run))


def _columns(node: Table | Array, wanted: list[str] | None) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return type and inner shape of each column; an array without fields has one column without a name."""
    if isinstance(node, Table):
        names = node.names
    elif node.dtype.names is None:
        names = ("",)
    else:
        names = node.dtype.names
    chosen = [*names[:_MOST_COLUMNS]] if wanted is None else wanted
    if len(chosen) > _MOST_COLUMNS:
        raise SelectionError(f"at most {_MOST_COLUMNS} columns can be read at once, not {len(chosen)}")
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise SelectionError(f"there is no column {unknown[0]!r:.80}")
    columns = {}
    for name in chosen:
        if isinstance(node, Table):
            column = node[name]
            columns[name] = column.dtype, column.shape[1:]
        else:
            dtype = node.dtype[name] if name else node.dtype
            columns[name] = dtype.base, (*node.shape[1:], *dtype.shape)
    return columns


def _type_name(node: Table | Array, name: str, dtype: np.dtype[Any]) -> str:
    if isinstance(node, Table):
        return str(node[name].metadata.data_type)
    return str(dtype) if name else str(node.metadata.data_type)


def _column(node: Table | Array, name: str, chosen: Any) -> list[Any]:
    column: Any = node[name] if isinstance(node, Table) else node
    is_field = name and not isinstance(node, Table)
    values = np.asarray(column[name, chosen] if is_field else column[chosen])
    if values.ndim > 1 and prod(values.shape[1:]) > _MOST_ITEMS:
        return [_shortened(row) for row in values]
    return [_cell(row) for row in array_to_json(values)]


def _shortened(row: Any) -> Any:
    first = array_to_json(row.reshape(-1)[:_MOST_ITEMS])
    return {"values": [_cell(value) for value in first], "shape": [*row.shape]}


def _cell(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_CELL:
        return f"{value[:_LONGEST_CELL]}…"
    return value


def part_of(
    node: Array | Table | Picked, selection: str, *, decodes: bool = False, through: int | None = None
) -> Window:
    """Return the window of a selection as text, all elements if it is empty; maybe of the greatest along an axis."""
    parts = parse_selection(selection) if selection.strip() else (...,)
    if through is not None:
        if not isinstance(node, Array):
            raise SelectionError("tables have no greatest elements along an axis")
        axes = indices_of(parts, node.shape)
        along = axes[through] if through < len(axes) else None
        if not isinstance(along, range):
            raise SelectionError(f"the selection has no range of indices along the axis {through}")
        chosen = (*axes[:through], *axes[through + 1 :])
        return window(Projection(node, through, along), chosen, block_bytes=BLOCK, decodes=decodes)
    return window(node, parts, block_bytes=BLOCK, decodes=decodes)


def read_axes(part: Window) -> tuple[int | range, ...]:
    """Return the indices along each axis that a window reads."""
    return part.array.axes_of(part.axes) if isinstance(part.array, Projection) else part.axes


def selection_statistics(content: Content, path: str, selection: str) -> Json:
    """Return minimum, maximum, mean, missing values and a histogram of a selection.

    Raises
    ------
    NotFoundError, SelectionError
        If there is no such node or selection.
    UnsupportedError
        If the selection is too large.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> g["x"] = [1.0, float("nan"), 4.0, 9.0]
    >>> result = selection_statistics(Content(g), "x", "0:3")
    >>> result["count"], result["missing"], result["max"], result["mean"]
    (2, 1, 4.0, 2.5)
    """
    return selection_statistics_work(content, path, selection).run()


def selection_statistics_work(content: Content, path: str, selection: str, through: int | None = None) -> Work[Json]:
    """Return the work of `selection_statistics`, maybe of the greatest elements along the axis `through`.

    It also raises `ConflictError` if the array is being replaced.
    """
    array = _measured(content.open(path), path)
    part = part_of(array, selection, through=through)
    _check_size(part)
    watch = content.watch(array)

    def run() -> Json:
        result = statistics_of_blocks(array, part.pieces())
        return {**to_json(result.as_dict()), "path": path, "selection": selection, "shape": [*part.shape]}

    return Work(COST + reading_cost(array.stored, read_axes(part)), partial(watch.guard, run))


def row_statistics_work(content: Content, path: str, column: str, query: Query, matching: Matching) -> Work[Json]:
    """Return the work of the statistics of a column among the rows of a table that match a query.

    Of an array, which has no columns, those of its elements.
    """
    node = table_at(content, path)
    if isinstance(node, Table) and column not in node.names:
        raise SelectionError(f"there is no column {column!r:.80}")
    array = _measured(node[column] if isinstance(node, Table) else node, path)
    used = used_columns(node, query)
    watch = content.watch(node, *((array, *used) if isinstance(node, Table) else ()))

    def run() -> Json:
        found = matching.find(path, node, query, watch)
        part = part_of(Picked(array, found.numbers), "")
        _check_size(part)
        result = to_json(statistics_of_blocks(array, part.pieces()).as_dict())
        about = {"matching": len(found.numbers), "searched": found.searched, "length": len(node)}
        return {**result, "path": path, "column": column, "shape": [*part.shape], **about}

    return Work(COST + reading_cost(array.stored, ()) + matching_cost(used), partial(watch.guard, run))


def _measured(node: Any, path: str) -> Array:
    if not isinstance(node, Array):
        raise SelectionError(
            "statistics are computed for one array; name an array or a column in the path", path=f"/{path}"
        )
    return node


def _check_size(part: Window) -> None:
    nbytes = prod(part.shape) * element_bytes(part.dtype)
    if nbytes > _MOST_STATISTICS:
        raise UnsupportedError(f"the selection has {nbytes} bytes; at most {_MOST_STATISTICS} are measured at once")
