"""Predicates of other libraries: pyarrow and polars evaluate their own expressions, on the columns these use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array as Column
from tegula.errors import MetadataError, NotFoundError, UnsupportedError
from tegula.runtime.optional import library
from tegula.tables.arrow_types import arrow_array, arrow_field
from tegula.tables.expressions import Expression, compile_expression
from tegula.tables.queries import Predicate

__all__ = ["ForeignPredicate", "as_predicate", "fields_used"]


class ForeignPredicate:
    """A condition that another library evaluates, on blocks of the columns that the condition uses.

    Parameters
    ----------
    fields : mapping
        Arrow fields of these columns, by name.
    kept : callable
        Called with a pyarrow table and the name of its column of row numbers; returns the numbers of matching rows.
    """

    def __init__(self, fields: Mapping[str, Any], kept: Callable[[Any, str], npt.NDArray[Any]]) -> None:
        self._fields = fields
        self._kept = kept
        self.names: tuple[str, ...] = (*fields,)
        """The columns that it uses."""
        self.reduces = False
        """Whether it contains a reduction, so that it can't be evaluated block by block."""

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return for each row whether the condition is true; null counts as false.

        Raises
        ------
        MetadataError
            If the condition can't be computed.
        """
        parts = {name: arrow_array(name, variables[name], field.type) for name, field in self._fields.items()}
        length = len(next(iter(parts.values()))) if parts else 1  # a constant is true for all rows or for none
        number = next(name for name in (f"row{'_' * count}" for count in range(len(parts) + 1)) if name not in parts)
        rows = library("pyarrow").table({**parts, number: np.arange(length)})
        try:
            kept = self._kept(rows, number)
        except Exception as error:  # other libraries raise anything, also errors of their own
            raise MetadataError(f"the condition can't be computed: {error}", field="where") from error
        mask = np.zeros(length, bool)
        mask[kept] = True
        return mask if parts else mask[0]


def as_predicate(where: Any, columns: Mapping[str, Column]) -> Predicate:
    """Return a condition on the rows of a table as an object that evaluates it block by block.

    Parameters
    ----------
    where : str, Expression, pyarrow.compute.Expression or polars.Expr
        The condition.
    columns : mapping of str to tegula.Array
        The columns of the table.

    Raises
    ------
    MetadataError, UnsupportedError, NotFoundError
        If it is not a condition, or uses columns that do not exist.
    """
    if isinstance(where, Expression):
        return where
    owner = type(where).__module__.partition(".")[0]
    if owner == "pyarrow" and isinstance(where, library("pyarrow.compute").Expression):
        return _of_pyarrow(where, columns)
    if owner == "polars" and isinstance(where, library("polars").Expr):
        return _of_polars(where, columns)
    return compile_expression(where)


def _of_pyarrow(where: Any, columns: Mapping[str, Column]) -> ForeignPredicate:
    text = str(where)
    try:  # opening all columns takes long if the table has many
        used = fields_used(where, _fields(columns, [name for name in columns if name in text]))
    except MetadataError:
        used = fields_used(where, _fields(columns, [*columns]))
    return ForeignPredicate(used, lambda rows, number: np.asarray(rows.filter(where)[number]))


def _fields(columns: Mapping[str, Column], names: list[str]) -> dict[str, Any]:
    fields = {}
    for name in names:
        with suppress(UnsupportedError):  # no condition can use this column
            fields[name] = arrow_field(name, columns[name])
    return fields


def fields_used(expression: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a pyarrow expression uses, which pyarrow does not report.

    Raises
    ------
    MetadataError
        If it can't be computed from the fields.

    Examples
    --------
    >>> import pyarrow.compute
    >>> fields = {name: pyarrow.field(name, pyarrow.int8()) for name in "abc"}
    >>> [*fields_used(pyarrow.compute.field("a") + 1 > pyarrow.compute.field("c"), fields)]
    ['a', 'c']
    """
    arrow = library("pyarrow")
    dataset = library("pyarrow.dataset")

    def reason_against(chosen: Mapping[str, Any]) -> Exception | None:
        rows = arrow.schema(chosen.values()).empty_table()
        try:
            dataset.Scanner.from_batches(rows.to_batches(), schema=rows.schema, columns={"": expression})
        except (arrow.ArrowException, TypeError, ValueError) as error:
            return error
        return None

    error = reason_against(fields)
    if error is not None:
        raise MetadataError(f"the condition can't be computed: {error}", field="where") from error
    used = dict(fields)
    for name in fields:
        others = {other: item for other, item in used.items() if other != name}
        if reason_against(others) is None:
            used = others
    return used


def _of_polars(where: Any, columns: Mapping[str, Column]) -> ForeignPredicate:
    polars = library("polars")
    used = dict.fromkeys(where.meta.root_names())
    unknown = [name for name in used if name not in columns]
    if unknown:
        raise NotFoundError(f"there is no column {unknown[0]!r:.80}; the columns are {', '.join(columns)}"[:400])

    fields = {name: arrow_field(name, columns[name]) for name in used}
    if fields and not _is_by_row(where, fields):
        raise UnsupportedError(
            "a condition has to look at one row at a time; filter the LazyFrame of tegula.arrow.scan_polars instead",
            field="where",
        )

    def kept(rows: Any, number: str) -> npt.NDArray[Any]:
        return np.asarray(polars.from_arrow(rows).filter(where)[number].to_numpy())

    return ForeignPredicate(fields, kept)


def _is_by_row(where: Any, fields: Mapping[str, Any]) -> bool:
    """Return whether a condition looks at one row at a time: then polars pushes it down to the source of a scan."""
    polars = library("polars")
    empty = polars.from_arrow(library("pyarrow").schema(fields.values()).empty_table())
    passed_on = []

    def read(columns: Any, predicate: Any, _rows: Any, _batch_rows: Any) -> Iterator[Any]:
        passed_on.append(predicate is not None)
        yield empty if columns is None else empty.select(columns)

    frame = library("polars.io.plugins").register_io_source(read, schema=empty.schema)
    try:
        # a single expression, of which polars can't push down only a part
        frame.filter(polars.when(where).then(True).otherwise(False)).collect()
    except Exception as error:  # polars raises errors of its own
        raise MetadataError(f"the condition can't be computed: {error}", field="where") from error
    return all(passed_on)
