"""A conversion: goes through a hierarchy, and has its arrays converted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import new_group
from tegula.engine.concurrency.pool import results_of
from tegula.engine.nodes.creating import create_node
from tegula.engine.nodes.deleting import delete_node, remove_incomplete
from tegula.errors import (
    AlreadyExistsError,
    CodecError,
    MetadataError,
    StoreError,
    TegulaError,
    UnsupportedError,
    store_failed,
)
from tegula.hierarchy.group import Group
from tegula.hierarchy.nodes import open_node
from tegula.hierarchy.walking import arrays_below
from tegula.jobs.rewriting.array_job import ArrayJob, label_of, reserved_note
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.rewriting.rules import Rules, match_rules
from tegula.jobs.rewriting.targets import kept_attributes
from tegula.metadata.nodes import GroupMetadata
from tegula.tables.columns import ORDER, column_names, with_names
from tegula.tables.table import Table

__all__ = ["Job"]

_REPORTED: Final = (UnsupportedError, CodecError, MetadataError)
_NAMED: Final = 5  # maximum number of arrays named in a note
_Attempt = tuple[str, ConvertedArray | str, tuple[Rules, ...]]
"""The path of an array, what was done or the reason why not, and the rules that do not fit."""


class Job:
    """A conversion under way: goes through a hierarchy, creates its groups, and fills its tables.

    `arrays` says what is done with each array, and has the target, the layout, the run and the report.
    """

    def __init__(self, arrays: ArrayJob) -> None:
        self._arrays = arrays
        self._store, self._layout, self._run = arrays.store, arrays.layout, arrays.run
        self._report = arrays.report
        self._requests = max(arrays.store.concurrency, arrays.run.runner.workers)
        self._misfits: dict[str, tuple[Rules, list[str], int]] = {}
        self._to_consolidate: list[str] = []
        self._columns_made: list[str] = []  # columns of tables, by their path below the target

    def run(self, source: Array | Group | Table, select: Any = None) -> ConvertReport:
        """Convert a node, or the selected part of an array; return the report."""
        self._arrays.begin(source)
        if isinstance(source, Array):
            match_rules(self._layout.rules, [(label_of(source, ""), source)])
            self._report.arrays.append(self._arrays.array(source, "", select)[0])
            self._arrays.finish()
        else:
            self._hierarchy(source)
        return self._report

    def _hierarchy(self, root: Group | Table) -> None:
        """Convert a group or table with all its members; report members that can't be converted."""
        self._requests = max(self._requests, root.store.concurrency)
        self._check_rules(root)
        self._nodes(root)
        self._arrays.finish()
        if not self._run.dry_run:
            self._check_sources()
        for rules, names, count in self._misfits.values():
            self._report.notes.setdefault("", []).append(rules.misfit(count, names))
        self._consolidate()

    def _consolidate(self) -> None:
        """Write the consolidated metadata of groups."""
        if not self._run.dry_run and not self._report.units_left:
            for name in reversed(self._to_consolidate):
                group = open_node(self._store, self._arrays.path_of(name), self._layout.fmt.name, read_only=False)
                if isinstance(group, Group) and self._is_stale(group):
                    group.consolidate()

    def _is_stale(self, group: Group) -> bool:
        """Return whether the consolidated metadata of a group are to be written."""
        return True

    def _check_sources(self) -> None:
        """Compare groups and tables with the store; columns of a table that was replaced meanwhile are removed."""
        for name in self._report.failed:
            self._arrays.sources.see_path(f"{self._arrays.sources.root}/{name}".lstrip("/"))
        try:
            self._arrays.sources.check()
        except BaseException:
            for name in () if self._run.ledger.lasts else self._columns_made:
                remove_incomplete(self._store, self._arrays.path_of(name))
            raise

    def _check_rules(self, root: Group | Table) -> None:
        """Check before anything is written that rules match arrays, and that codecs' options and shards fit."""
        match_rules(self._layout.rules, arrays_below(root, {}, implicit=True, strict=True))
        self._check_codecs(arrays_below(root, {}, implicit=True, strict=True))
        if not any(isinstance(each, (int, tuple)) and each and each is not True for each in self._layout.shards.values):
            return  # automatic ones are multiples of any chunks
        for name, source in arrays_below(root, {}, implicit=True, strict=True):
            try:
                self._arrays.planned(source, tuple(map(range, source.shape)), name)
            except TegulaError as error:
                if isinstance(error, MetadataError) and error.field == "shards":  # others when this array is converted
                    raise error.within(path=name) from None

    def _check_codecs(self, arrays: Iterator[tuple[str, Array]]) -> None:
        """Raise if the value of a codec's option is wrong for all arrays alike."""
        found: TegulaError | None = None
        for name, source in arrays if any(self._layout.codecs.values) else ():
            try:
                self._arrays.prepared(source, name)
            except TegulaError as error:
                if error.field == (found := found or error).field and str(error.field).startswith("codecs."):
                    continue
            return  # what is wrong with one array is reported when it is converted
        if found is not None:
            raise found

    def _nodes(self, root: Group | Table) -> None:
        tables: dict[str, Mapping[str, Array]] = {}
        self._container(root, "", tables)
        if isinstance(root, Group):
            for attempt in results_of(self._attempt, self._walked(root, tables), self._requests):
                self._record(attempt)

    def _walked(self, root: Group, tables: dict[str, Mapping[str, Array]]) -> Iterator[tuple[str, Array]]:
        """Yield path and node of the arrays to convert; create groups, and convert tables, on the way."""
        for name, node in root.walk(self._report.failed, implicit=True, strict=True):
            table = next((path for path in tables if not path or name.startswith(f"{path}/")), None)
            if table is not None:
                if name[len(table) :].strip("/") not in tables[table]:
                    self._report.failed[name] = "a table can't have members other than its columns"
                continue
            if isinstance(node, Array):
                self._arrays.sources.see(node)
                yield name, node
                continue
            try:
                self._container(node, name, tables)
            except _REPORTED as error:
                self._report.failed[name] = str(error)

    def _attempt(self, entry: tuple[str, Array], select: Any = None, *notes: str) -> _Attempt:
        """Convert one array of several."""
        name, source = entry
        try:
            return name, *self._arrays.array(source, name, select, *notes)
        except (*_REPORTED, StoreError) as error:
            if isinstance(error, StoreError) and error.path != source.location:
                raise  # the target can't be written
            if store_failed(error):
                self._arrays.leave(name)
            return name, str(error), ()

    def _record(self, attempt: _Attempt, *notes: str) -> bool:
        """Report the result for one array of several, and return whether it was converted."""
        name, result, misfits = attempt
        if isinstance(result, str):
            self._report.failed[name] = result
            return False
        self._report.arrays.append(replace(result, notes=(*notes, *result.notes)))
        for rules in misfits:
            _, some, count = self._misfits.get(rules.field, (rules, [], 0))
            self._misfits[rules.field] = (rules, [*some, name] if len(some) < _NAMED else some, count + 1)
        return True

    # --- groups and tables

    def _container(self, node: Group | Table, name: str, tables: dict[str, Mapping[str, Array]]) -> None:
        self._arrays.sources.see(node)
        columns = self._columns(node, name)
        attributes = node.attrs.asdict()
        if columns is not None:
            tables[name] = columns
            attributes.pop(ORDER, None)
        notes: list[str] = []
        attributes = kept_attributes(self._layout.fmt, attributes, notes)
        metadata = self._new_container(name, attributes, columns is not None)
        self._report.groups.append(name)
        self._arrays.container(node, name, made=metadata is not None and self._layout.fmt.has_groups)
        notes += [*reserved_note(self._layout.fmt, name), *self._consolidated(node, name)]
        if notes:
            self._report.notes[name] = notes
        if columns is not None:
            names = self._fill_table(name, columns)
            if metadata is None:
                return
            if columns and not names and not self._layout.fmt.has_groups:
                delete_node(self._store, self._arrays.path_of(name))  # bcolz can't open a table without columns
                self._report.groups.remove(name)
            else:
                path = self._arrays.path_of(name)
                engine.update_documents(self._store, path, metadata, lambda new: with_names(new, names))

    def _consolidated(self, node: Group | Table, name: str) -> list[str]:
        """Remember a group that gets consolidated metadata; return a note if that of the source is lost."""
        wanted = self._layout.consolidated
        has = isinstance(node, Group) and node.is_consolidated()
        if has and wanted is False:
            return ["the consolidated metadata are left out"]
        if has and self._layout.fmt.consolidate is None:
            return [f"the consolidated metadata are left out, since {self._layout.fmt.name} has none"]
        if has or (wanted is True and not name):
            self._to_consolidate.append(name)
        return []

    def _new_container(self, name: str, attributes: dict[str, Any], table: bool) -> GroupMetadata | None:
        fmt, path, overwrite = self._layout.fmt, self._arrays.path_of(name), self._arrays.replaces(name)
        if not fmt.has_groups and not (table and fmt.has_tables):
            if attributes:
                self._report.failed[name] = f"{fmt.name} has no groups, so the attributes of one can't be stored"
            return None
        if self._run.dry_run:
            return None
        try:
            if fmt.has_groups:
                options = {"overwrite": overwrite, "reserved": True, "has_parent": self._arrays.has_parent(name)}
                return new_group(self._store, path, attributes=attributes, format=fmt.name, **options)
            metadata = GroupMetadata(attributes=attributes, format=fmt.name, members=())
            create_node(self._store, path, fmt, metadata, overwrite, reserved=True)
            return metadata
        except AlreadyExistsError:
            node = engine.read_metadata(self._store, path) if self._run.ledger.lasts else None
            if isinstance(node, GroupMetadata) and node.format == fmt.name:
                return self._with_attributes(path, node, attributes)
            raise

    def _with_attributes(self, path: str, group: GroupMetadata, attributes: Mapping[str, Any]) -> GroupMetadata:
        """Add the attributes to a group that this job has created, since a part may have been killed before it did."""
        if attributes.keys() <= group.attributes.keys():
            return group
        return engine.update_documents(
            self._store, path, group, lambda new: replace(new, attributes={**attributes, **new.attributes})
        )

    def _columns(self, node: Group | Table, name: str) -> dict[str, Array] | None:
        """Return the columns of a table, or of a group that becomes one; ``None`` for other groups."""
        if isinstance(node, Table):
            arrays = ((column, self._column(node, name, column)) for column in node.names)
            return {column: array for column, array in arrays if array is not None}
        if not self._layout.fmt.has_tables or ORDER not in node.attrs:
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
            array: Array = table[column]
        except TegulaError as error:
            self._report.failed[f"{name}/{column}".lstrip("/")] = str(error)
            return None
        return array

    def _fill_table(self, name: str, columns: Mapping[str, Array]) -> list[str]:
        """Convert the columns up to the shortest length, and return the names of the converted ones."""
        fmt = self._layout.fmt
        rows = min((column.shape[0] for column in columns.values()), default=0)
        kept = fmt.has_groups or fmt.has_tables
        notes = [] if kept else ["the format can't store the order of the columns"]
        done = []

        def attempt(entry: tuple[str, Array]) -> _Attempt:
            column, source = entry
            longer = source.shape[0] > rows
            cut = [f"cut to the {rows} rows of the shortest column"] if longer else []
            return self._attempt((f"{name}/{column}".lstrip("/"), source), slice(rows) if longer else None, *cut)

        for column, result in zip(columns, results_of(attempt, columns.items(), self._requests)):
            if self._record(result, *notes):
                done.append(column)
                self._columns_made.append(f"{name}/{column}".lstrip("/"))
                notes = []
        return done
