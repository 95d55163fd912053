"""The columns of a ctable: carrays by name, in order; on disk, in directories inside the table's directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy.typing as npt

import tegula
from tegula import engine
from tegula.arrays.growing import change_rows
from tegula.bcolz import storage
from tegula.bcolz.carrays.append_buffer import NO_CHUNK
from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.converting import as_new_rows, as_values
from tegula.bcolz.errors import ExistsError, MissingError
from tegula.bcolz.parameters import cparams
from tegula.engine.nodes.creating import create_node
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, TegulaError
from tegula.formats import find_format
from tegula.tables.columns import described

__all__ = ["Columns", "is_inside"]

_FORMAT: Final = find_format("bcolz")


def is_inside(path: Any, folder: Any) -> bool:
    """Return whether a path is a folder or lies inside it."""
    inner, outer = os.path.realpath(os.fspath(path)), os.path.realpath(os.fspath(folder))
    return bool(inner == outer or inner.startswith(outer + os.sep))


def _node(rootdir: str, mode: str) -> tegula.Table:
    """Open the table in a directory, for its attributes and the order of its columns."""
    store = tegula.LocalStore(rootdir, read_only=mode == "r")
    with suppress(NotFoundError):
        node = tegula.open(store, "r" if mode == "r" else "r+", format="bcolz")
        if isinstance(node, tegula.Table):
            return node
    raise MissingError("the directory does not hold a ctable", path=rootdir)


def _create_in_directory(rows: dict[str, Any], rootdir: str, mode: str, options: dict[str, Any]) -> dict[str, carray]:
    """Create the columns of a table, then the table; after an error, delete the columns that were created here."""
    columns: dict[str, carray] = {}
    try:
        for name, column in rows.items():
            # never mode 'w': a column that exists by now belongs to another process that creates the same table
            path = os.path.join(rootdir, name)
            columns[name] = carray(column, rootdir=path, mode="r" if mode == "r" else "a", **options)
            columns[name].mode = mode
        create_node(tegula.LocalStore(rootdir), "", _FORMAT, described(_FORMAT, {}, [*columns]), overwrite=False)
    except BaseException as error:
        for column in columns.values():
            with suppress(OSError, TegulaError):
                column.purge()
        with suppress(OSError):
            os.rmdir(rootdir)  # unless another process has created a table here
        if isinstance(error, AlreadyExistsError) and not isinstance(error, ExistsError):
            raise ExistsError(error.message, path=rootdir) from error
        raise
    return columns


class Columns(Mapping[str, carray]):
    """The columns of a ctable, by name (``ctable.cols``).

    Assigning to an existing column replaces its values; data type and compression parameters stay.

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
        """Create columns, and the table's directory if `rootdir` is given; after an error, delete what was created."""
        dtype = options.get("dtype")
        rows = {name: v if isinstance(v, carray) else as_new_rows(v, dtype) for name, v in values.items()}
        if len({len(column) for column in rows.values()}) > 1:
            raise MetadataError("all columns must have the same length", field="columns")
        # in memory, carrays are used as they are
        if rootdir is None:
            columns = {n: v if isinstance(v, carray) else carray(v, mode=mode, **options) for n, v in rows.items()}
            return cls(columns, None, mode, None)
        for column in rows.values():
            if isinstance(column, carray) and column.rootdir is not None and is_inside(column.rootdir, rootdir):
                raise ExistsError("a table can't replace the table that its columns belong to", path=rootdir)
        with storage.replacing(rootdir, mode) as place:
            columns = _create_in_directory(rows, place, mode, options)
        if place != rootdir:
            for name, column in columns.items():
                column._move(os.path.join(rootdir, name), mode)
        return cls(columns, rootdir, mode, _node(rootdir, mode))

    @property
    def length(self) -> int:
        """Number of rows of the shortest column; without columns, that of the column removed last."""
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
            raise MetadataError(f"the column has {len(old)} rows, and the number of new values differs")
        if self.rootdir is None and isinstance(values, carray):
            self._columns[name] = values
            return
        try:
            old[:] = as_values(values, old.dtype)
        except TypeError as error:
            raise MetadataError(f"the values can't be converted to {old.dtype}: {error}") from error

    def in_order(self) -> dict[str, carray]:
        """Return the columns as a plain dict, which is faster to iterate over."""
        return dict(zip(self.names, map(self._columns.__getitem__, self.names)))

    def append(self, values: Mapping[str, npt.NDArray[Any]], at_once: bool) -> None:
        """Append rows to all columns.

        Parameters
        ----------
        values : mapping of str to ndarray
            The rows, by column.
        at_once : bool
            Store the rows immediately, in all columns or, after an error, in none.

        Raises
        ------
        MetadataError
            If the columns differ in length.
        """
        # columns of different lengths must be cut to the same length before they can grow
        rows_of, lengths = {}, []
        for name in self.names:
            rows_of[name] = buffer = self._columns[name]._rows
            lengths.append(buffer.array.stored.metadata.shape[0] + buffer.count)
            at_once = at_once and not buffer.count
        if lengths and (lengths[0] if at_once else max(lengths)) > min(lengths):
            raise MetadataError(
                f"the columns differ in length: {dict(zip(rows_of, lengths))}; "
                f"resize({min(lengths)}) cuts them to the shortest",
                path=self.rootdir,
            )
        # append to the buffers, or to all stored arrays as one
        if not at_once:
            for column in self._columns.values():
                column._check_writable()
            for name, rows in values.items():
                rows_of[name].append(rows)
        elif any(map(len, values.values())):
            # rows beyond the end of the first column come from an interrupted append: they are overwritten
            self._change_rows(lambda arrays: engine.append_rows(arrays, [*values.values()]))

    def resize(self, length: int) -> None:
        """Change the number of rows of all columns; in a directory, of all or, after an error, of none."""
        if self._node is None:
            for column in self._columns.values():
                column.resize(length)
            return
        self.flush()
        if self.names:
            self._change_rows(lambda arrays: engine.resize_rows(arrays, length))

    def flush(self) -> None:
        """Store the appended rows that are still in memory."""
        for column in self._columns.values():
            if column._rows.count:
                column.flush()

    def _change_rows(self, act: Callable[[list[tuple[engine.StoredArray, str]]], list[engine.StoredArray]]) -> None:
        buffers, arrays = [], []
        for name in self.names:
            buffers.append(buffer := self._columns[name]._rows)
            arrays.append(buffer.array)
        change_rows(arrays, act)
        for buffer in buffers:
            buffer.cached = NO_CHUNK

    def add(self, name: str, position: int, values: Any, move: bool, options: dict[str, Any]) -> None:
        """Add a new column at a position; in a directory, store its data before its name."""
        if self.rootdir is None:
            self.insert(name, position, carray(values, **options))
            return
        if name in ("", ".", "..", "__attrs__", "__rootdirs__") or "/" in name or os.sep in name or "\0" in name:
            raise MetadataError(f"{name!r:.80} can't be the name of a column", path=self.rootdir)
        path = os.path.join(self.rootdir, name)
        if move and isinstance(values, carray) and values.rootdir is not None:
            values.flush()
            storage.clear(path, "a")
            shutil.move(values.rootdir, path)
            values.rootdir = path
            column = values
        else:
            column = carray(values, **{"rootdir": path, **options})
        self.insert(name, position, column)

    def insert(self, name: str, pos: int, column: carray) -> None:
        """Insert a column that is already stored at a position."""
        self.names.insert(pos, name)
        self._columns[name] = column
        self._store_names()

    def pop(self, name: str) -> carray:
        """Remove a column from the table and return it; its data stays where it is."""
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
