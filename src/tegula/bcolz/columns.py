"""The columns of a ctable: named, in order, and each a carray; in a directory, one below that of the table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from keyword import iskeyword
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tegula
from tegula import engine
from tegula.arrays import change_rows
from tegula.bcolz import storage
from tegula.bcolz.carrays import carray
from tegula.bcolz.converting import as_new_rows, as_rows, as_values
from tegula.bcolz.errors import ExistsError, MissingError
from tegula.bcolz.parameters import cparams
from tegula.errors import MetadataError, NotFoundError
from tegula.formats import find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import LocalStore

__all__ = ["Columns", "as_columns", "is_inside", "values_of_rows"]

_FORMAT: Final = find_format("bcolz")


def as_columns(columns: Any, names: Any) -> dict[str, Any]:
    """Return the columns of a new table by name: of a sequence of columns, or of a structured array."""
    if isinstance(columns, np.ndarray):
        if columns.dtype.names is None or columns.ndim != 1:
            raise MetadataError("an array of columns must be structured and have one dimension", field="columns")
        fields = names if names is not None else columns.dtype.names
        unknown = [name for name in fields if name not in columns.dtype.names]
        if unknown:
            raise MetadataError(f"the array has no field {unknown[0]!r:.80}", field="names")
        return {name: columns[name] for name in _identifiers(fields)}
    if not isinstance(columns, (list, tuple)):
        raise MetadataError(f"columns must be a list or a structured array, not {type(columns)}", field="columns")
    if names is None:
        names = [f"f{position}" for position in range(len(columns))]
    if not isinstance(names, (list, tuple)):
        raise MetadataError(f"names must be a list or a tuple, not {names!r:.80}", field="names")
    if len(names) != len(columns) or not columns:
        raise MetadataError(f"there are {len(columns)} columns and {len(names)} names", field="names")
    return dict(zip(_identifiers(names), columns))


def _identifiers(names: Sequence[Any]) -> list[str]:
    out = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    for name in out:
        if not name.isidentifier() or iskeyword(name):
            raise MetadataError(f"{name!r:.80} can't be the name of a column: it is no identifier", field="names")
    if len({*out}) < len(out):
        raise MetadataError("two columns can't have one name", field="names")
    return out


def values_of_rows(rows: Any, columns: Mapping[str, carray]) -> dict[str, npt.NDArray[Any]]:
    """Return the values of rows to append, by column; what does not fit is refused."""
    given: Mapping[str, Any]
    if isinstance(rows, (list, tuple)):
        if len(rows) != len(columns):
            raise MetadataError(f"there are values for {len(rows)} columns, the table has {len(columns)}")
        given = dict(zip(columns, rows))
    elif isinstance(rows, (np.ndarray, np.void)) and rows.dtype.names is not None:
        given = {name: rows[name] for name in rows.dtype.names}
    elif isinstance(rows, Mapping):
        given = rows
    else:
        raise MetadataError(f"rows can't be made of {type(rows)}")
    missing = [name for name in columns if name not in given]
    if missing:
        raise MetadataError(f"there are no values for column {missing[0]!r}")
    values = {}
    for name, column in columns.items():
        dtype, inner = column._rows.dtype, column._rows.inner
        value = given[name]
        if inner and isinstance(value, (list, tuple)) and not value:
            value = np.empty((0, *inner), dtype)
        try:
            values[name] = as_rows(value, dtype, inner)
        except MetadataError as error:
            error.within(field=name)
            raise
    if len({len(value) for value in values.values()}) > 1:
        raise MetadataError("all columns must get the same number of values")
    return values


def is_inside(path: Any, folder: Any) -> bool:
    """Return whether a path is that of a folder or leads into it."""
    inner, outer = os.path.realpath(os.fspath(path)), os.path.realpath(os.fspath(folder))
    return bool(inner == outer or inner.startswith(outer + os.sep))


def _node(rootdir: str, mode: str) -> tegula.Table:
    """Return the table in a directory, for its attributes and the order of its columns."""
    store = LocalStore(rootdir, read_only=mode == "r")
    found = engine.read_metadata(store, "", _FORMAT.name)
    if not isinstance(found, GroupMetadata):
        raise MissingError("there is no ctable", path=rootdir)
    return tegula.Table(store, "", found, read_only=mode == "r")


class Columns(Mapping[str, carray]):
    """The columns of a ctable, by name (``ctable.cols``).

    Assigning to a column that exists replaces its values; the data type and the compression stay.

    Examples
    --------
    >>> from tegula import bcolz
    >>> t = bcolz.ctable([[1, 2], [3, 4]], names=["a", "b"])
    >>> t.cols["a"] = [5, 6]
    >>> [*t.cols], t.cols["a"][:]
    (['a', 'b'], array([5, 6]))
    """

    def __init__(self, columns: dict[str, carray], rootdir: str | None, mode: str, node: tegula.Table | None) -> None:
        self.names = [*columns]
        self.rootdir = rootdir
        self.mode = mode
        self._columns = columns
        self._node = node
        self._length = 0
        self.attributes: MutableMapping[str, Any] = {} if node is None else node.attrs

    @classmethod
    def open(cls, rootdir: str, mode: str, allow_pickle: bool | None) -> Columns:
        """Open the columns in a table's directory."""
        node = _node(rootdir, mode)
        columns = {
            name: carray(rootdir=os.path.join(rootdir, name), mode=mode, allow_pickle=allow_pickle)
            for name in node.names
        }
        return cls(columns, rootdir, mode, node)

    @classmethod
    def create(cls, values: dict[str, Any], rootdir: str | None, mode: str, options: dict[str, Any]) -> Columns:
        """Make columns, and the table's directory if it has one; nothing is left of it if that fails."""
        dtype = options.get("dtype")
        rows = {name: v if isinstance(v, carray) else as_new_rows(v, dtype) for name, v in values.items()}
        if len({len(column) for column in rows.values()}) > 1:
            raise MetadataError("all columns must have the same length", field="columns")
        if rootdir is None:
            return cls(
                {name: v if isinstance(v, carray) else carray(v, mode=mode, **options) for name, v in rows.items()},
                None,
                mode,
                None,
            )
        for column in rows.values():
            if isinstance(column, carray) and column.rootdir is not None and is_inside(column.rootdir, rootdir):
                raise ExistsError("a table can't replace the one its columns are of", path=rootdir)
        storage.clear(rootdir, mode)
        try:
            columns = {
                name: carray(column, rootdir=os.path.join(rootdir, name), mode=mode, **options)
                for name, column in rows.items()
            }
            metadata = GroupMetadata(format=_FORMAT.name, members=tuple(columns))
            engine.create_documents(LocalStore(rootdir), "", _FORMAT, metadata, overwrite=True)
            return cls(columns, rootdir, mode, _node(rootdir, mode))
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(rootdir)
            raise

    @property
    def length(self) -> int:
        """Rows of the shortest column; without columns, of the last one there was."""
        return min(map(len, self._columns.values()), default=self._length)

    @property
    def cparams(self) -> cparams | None:
        """The compression parameters of the first column."""
        return self._columns[self.names[0]].cparams if self.names else None

    def __getitem__(self, name: str) -> carray:
        try:
            return self._columns[name]
        except KeyError:
            raise NotFoundError(f"there is no column {name!r:.80}", path=self.rootdir) from None

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __setitem__(self, name: str, values: Any) -> None:
        if name not in self._columns:
            self.add(name, len(self.names), values, False, {})
            return
        old = self._columns[name]
        if not hasattr(values, "__len__") or len(values) != len(old):
            raise MetadataError(f"the column has {len(old)} rows, the new values are of another number")
        if self.rootdir is None and isinstance(values, carray):
            self._columns[name] = values
            return
        try:
            old[:] = as_values(values, old.dtype)
        except TypeError as error:
            raise MetadataError(f"the values can't be those of a column of {old.dtype}: {error}") from error

    def in_order(self) -> dict[str, carray]:
        """Return the columns as a plain dict, which is faster to go through."""
        return {name: self._columns[name] for name in self.names}

    def append(self, values: Mapping[str, npt.NDArray[Any]], at_once: bool) -> None:
        """Add rows to all columns; if they are to be stored at once, then to all columns or to none."""
        rows_of = {name: column._rows for name, column in self.in_order().items()}
        lengths = [*map(len, rows_of.values())]
        at_once = at_once and not self._waiting()
        if lengths and (lengths[0] if at_once else max(lengths)) > min(lengths):
            raise MetadataError(
                f"the columns differ in length: {dict(zip(rows_of, lengths))}; "
                f"resize({min(lengths)}) cuts them to the shortest",
                path=self.rootdir,
            )
        if not at_once:
            for column in self._columns.values():
                column._check_writable()
            for name, rows in values.items():
                rows_of[name].append(rows)
        elif any(map(len, values.values())):
            # what other columns have beyond the first one's end, an append that was interrupted has left
            self._together(lambda arrays: engine.append_rows(arrays, [*values.values()]))

    def resize(self, length: int) -> None:
        """Change the length of all columns; in a directory, of all at once."""
        if self._node is None:
            for column in self._columns.values():
                column.resize(length)
            return
        self.flush()
        if self.names:
            self._together(lambda arrays: engine.resize_rows(arrays, length))

    def flush(self) -> None:
        """Store the rows that wait."""
        for column in self._columns.values():
            column.flush()

    def _waiting(self) -> bool:
        return any(len(column) > column._rows.array.shape[0] for column in self._columns.values())

    def _together(self, act: Callable[[list[tuple[engine.StoredArray, str]]], list[ArrayMetadata]]) -> None:
        rows = [self._columns[name]._rows for name in self.names]
        change_rows([item.array for item in rows], act)
        for item in rows:
            item.forget()

    def add(self, name: str, position: int, values: Any, move: bool, options: dict[str, Any]) -> None:
        """Put a new column at a position; in a directory its data come first, its name after them."""
        if self.rootdir is None:
            self.insert(name, position, carray(values, **options))
            return
        if name in ("", ".", "..", "__attrs__", "__rootdirs__") or "/" in name or os.sep in name or "\0" in name:
            raise MetadataError(f"{name!r:.80} can't be the name of a column", path=self.rootdir)
        place = os.path.join(self.rootdir, name)
        if move and isinstance(values, carray) and values.rootdir is not None:
            values.flush()
            storage.clear(place, "a")
            shutil.move(values.rootdir, place)
            values.rootdir = place
            column = values
        else:
            column = carray(values, **{"rootdir": place, **options})
        self.insert(name, position, column)

    def insert(self, name: str, pos: int, column: carray) -> None:
        """Put a column, which is stored already, at a position."""
        self.names.insert(pos, name)
        self._columns[name] = column
        self._store_names()

    def pop(self, name: str) -> carray:
        """Take a column out of the table and return it; its data stay where they are."""
        column = self[name]
        self._length = self.length
        self.names.remove(name)
        del self._columns[name]
        self._store_names()
        return column

    def _store_names(self) -> None:
        if self._node is not None:
            names = tuple(self.names)
            engine.update_documents(
                self._node.store, "", self._node.metadata, lambda metadata: replace(metadata, members=names)
            )

    def __repr__(self) -> str:
        return "".join(f"{name} : {self._columns[name]!r}\n" for name in self.names)
