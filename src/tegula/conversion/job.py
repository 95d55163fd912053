"""One conversion: a hierarchy is walked, and each array and table of it converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tegula import engine
from tegula.array import Array
from tegula.columns import ORDER, column_names, with_names
from tegula.conversion.report import ConvertedArray, ConvertReport
from tegula.conversion.rewriting import rewrite, same_values
from tegula.conversion.targets import Axis, Options, keeps_codecs, selected_axes, target_metadata
from tegula.creation import create_node, delete_node, new_array_of, new_group
from tegula.engine import can_copy_chunks, copy_chunks
from tegula.errors import CodecError, MetadataError, StoreError, TegulaError, UnsupportedError
from tegula.group import Group
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store
from tegula.table import Table

__all__ = ["Job"]

_REPORTED: Final = (UnsupportedError, CodecError, MetadataError)


class Job:
    """Where a conversion goes, how, and what it has done.

    Parameters
    ----------
    store, path : Store, str
        The target.
    options : Options
        What was asked for.
    report : ConvertReport
        Takes what is done.
    """

    def __init__(self, store: Store, path: str, options: Options, report: ConvertReport) -> None:
        self._store = store
        self._path = path
        self._options = options
        self.report = report

    def hierarchy(self, root: Group | Table) -> None:
        """Convert a group or a table with all below it; what can't be converted is reported."""
        tables: dict[str, Mapping[str, Array]] = {}
        self._container(root, "", tables)
        if isinstance(root, Table):
            return
        for name, node in root.walk(self.report.failed, implicit=True):
            table = next((path for path in tables if not path or name.startswith(f"{path}/")), None)
            if table is not None:
                if name[len(table) :].strip("/") not in tables[table]:
                    self.report.failed[name] = "a table holds nothing but its columns"
                continue
            if isinstance(node, Array):
                self._attempt(node, name)
                continue
            try:
                self._container(node, name, tables)
            except _REPORTED as error:
                self.report.failed[name] = str(error)

    def _attempt(self, source: Array, name: str, select: Any = None, *notes: str) -> bool:
        """Convert one array of several, and return whether that could be done."""
        try:
            self.report.arrays.append(self.array(source, name, select, *notes))
        except (*_REPORTED, StoreError) as error:
            if isinstance(error, StoreError) and error.path != source._place:
                raise  # it is the target that can't be written
            self.report.failed[name] = str(error)
            return False
        return True

    def array(self, source: Array, name: str, select: Any = None, *notes: str) -> ConvertedArray:
        """Convert one array, its path below the source being `name`."""
        options, store, path = self._options, self._store, self._place(name)
        axes = selected_axes(select, source.shape)
        metadata, found = target_metadata(source, axes, options)
        notes = (*notes, *found)
        allowed = {"allow_pickle": source._allow_pickle}
        if options.dry_run:
            draft = Array(engine.stored_array(store, path, metadata, **allowed), path, read_only=True)
            before = source.nbytes_stored()
            return ConvertedArray(name, draft.shape, draft.chunks, draft.nbytes, before, 0, None, notes)
        target = new_array_of(store, path, options.item, metadata, options.overwrite, filled=False, **allowed)
        try:
            copied, before, after = self._move(source, axes, target, name)
        except BaseException:  # Ctrl-C, too
            delete_node(store, path)  # half an array would look like a whole one
            raise
        verified = same_values(source, axes, target) if options.verify else None
        return ConvertedArray(name, target.shape, target.chunks, target.nbytes, before, after, verified, notes, copied)

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")

    def _move(self, source: Array, axes: list[Axis | int], target: Array, name: str) -> tuple[int, int, int]:
        """Bring the values over; return how many chunks were copied as they are, and the bytes stored of both."""
        old, new = source._stored, target._stored
        done = copied = before = after = 0
        whole = axes == [(0, 1, size) for size in source.shape]
        if not (whole and keeps_codecs(source, target.metadata, self._options) and can_copy_chunks(old, new)):
            for nbytes in rewrite(source, axes, target):
                done += nbytes
                self._tell(name, done, target)
            return 0, source.nbytes_stored(), target.nbytes_stored()
        for moved in copy_chunks(old, new):
            done, copied = done + moved.nbytes, copied + moved.copied
            before, after = before + moved.read, after + moved.stored
            self._tell(name, done, target)
        return copied, before, after

    def _tell(self, name: str, done: int, target: Array) -> None:
        if self._options.progress is not None:
            self._options.progress(name, done, target.nbytes)

    # --- groups and tables

    def _container(self, node: Group | Table, name: str, tables: dict[str, Mapping[str, Array]]) -> None:
        columns = self._columns(node, name)
        attributes = node.attrs.asdict()
        if columns is not None:
            tables[name] = columns
            attributes.pop(ORDER, None)
        metadata = self._new_container(name, attributes, columns is not None)
        self.report.groups.append(name)
        if not name:  # what is below is new, unless the format has no groups
            options = self._options
            self._options = replace(options, overwrite=options.overwrite and not options.item.has_groups)
        if columns is not None:
            names = self._fill_table(name, columns)
            if metadata is None:
                return
            if columns and not names and not self._options.item.has_groups:
                delete_node(self._store, self._place(name))  # other programs open no table without columns
                self.report.groups.remove(name)
            else:
                engine.update_documents(self._store, self._place(name), metadata, lambda new: with_names(new, names))

    def _new_container(self, name: str, attributes: dict[str, Any], table: bool) -> GroupMetadata | None:
        item, path, overwrite = self._options.item, self._place(name), self._options.overwrite
        if not item.has_groups and not (table and item.has_tables):
            if attributes:
                self.report.failed[name] = f"{item.name} has no groups, so no place for their attributes"
            return None
        if self._options.dry_run:
            return None
        if item.has_groups:
            return new_group(self._store, path, attributes=attributes, format=item.name, overwrite=overwrite)
        metadata = GroupMetadata(attributes=attributes, format=item.name, members=())
        create_node(self._store, path, item, metadata, overwrite)
        return metadata

    def _columns(self, node: Group | Table, name: str) -> dict[str, Array] | None:
        """Return the columns of a table, or of a group that becomes one where the format has tables."""
        if isinstance(node, Table):
            found = ((column, self._column(node, name, column)) for column in node.names)
            return {column: array for column, array in found if array is not None}
        if not self._options.item.has_tables or ORDER not in node.attrs:
            return None
        try:
            names = column_names(node.metadata) or ()
            columns = {column: node[column] for column in names}
        except TegulaError:
            return None
        if not all(isinstance(column, Array) and column.ndim for column in columns.values()):
            return None
        return columns if len({len(column) for column in columns.values()}) == 1 else None

    def _column(self, table: Table, name: str, column: str) -> Array | None:
        try:
            found: Array = table[column]
        except TegulaError as error:
            self.report.failed[f"{name}/{column}".lstrip("/")] = str(error)
            return None
        return found

    def _fill_table(self, name: str, columns: Mapping[str, Array]) -> list[str]:
        """Convert the columns as far as all of them go, and return the names of those that could be converted."""
        item = self._options.item
        rows = min((column.shape[0] for column in columns.values()), default=0)
        kept = item.has_groups or item.has_tables
        notes = [] if kept else ["the order of the columns has no place in the format"]
        done = []
        for column, source in columns.items():
            path = f"{name}/{column}".lstrip("/")
            longer = source.shape[0] > rows
            cut = [f"cut to the {rows} rows of the shortest column"] if longer else []
            if self._attempt(source, path, slice(rows) if longer else None, *notes, *cut):
                done.append(column)
                notes = []
        return done
