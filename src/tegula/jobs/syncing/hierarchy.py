"""The sync of a hierarchy: its groups, tables and arrays, and what only the target has."""

from __future__ import annotations

import _thread
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.documents.finding import SYNC_DIRECTORY, children
from tegula.engine.nodes.deleting import delete_node
from tegula.engine.reading.remote import delete_prefix
from tegula.errors import ConflictError, NotFoundError, TegulaError, UnsupportedError
from tegula.hierarchy.consolidating import has_consolidated
from tegula.hierarchy.group import Group
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.syncing.array_job import OverwritingError, SyncJob, would_overwrite
from tegula.jobs.syncing.changes import OTHER_ATTRIBUTES, attribute_changes, digest_of_attributes, foreign_at, is_node
from tegula.jobs.syncing.memory import ANY_DOCUMENTS, Memory, OvertakenError, Remembered
from tegula.jobs.syncing.report import together
from tegula.jobs.syncing.states import no_chunks
from tegula.metadata.nodes import GroupMetadata
from tegula.runtime.frozen import replace as frozen_replace
from tegula.stores.capabilities import is_link
from tegula.stores.targets.paths import location_of
from tegula.tables.columns import ORDER
from tegula.tables.table import Table

__all__ = ["Syncing"]


class Syncing(Job):
    """A sync under way.

    Attributes
    ----------
    groups : dict of str to str
        The groups that are new or changed, by path below the source.
    extra, deleted : list of str
        The nodes that only the target has, and those of them that were deleted.
    overwritten : dict of str to str
        By path, what others have changed in groups and in nodes to delete, and is overwritten by force.
    refused : list of OverwritingError
        What was not done, since it would overwrite what others have changed.
    is_changing : bool
        Whether the source has changed while it was synced.
    """

    _arrays: SyncJob

    def __init__(self, arrays: SyncJob, *, delete: bool, remembered: bool) -> None:
        super().__init__(arrays)
        self.arrays, self.report = arrays, arrays.report
        self._has_old_rules = remembered
        self.groups: dict[str, str] = {}
        self.overwritten: dict[str, str] = {}
        self.extra, self.deleted = list[str](), list[str]()
        self.refused: list[OverwritingError] = []
        self.is_changing = False
        self._delete, self._seen, self._containers = delete, set[str](), set[str]()
        self._barred = list[str]()  # beginnings of the paths below groups that could not be made
        self._had_consolidated = set[str]()
        self._marker = f"{arrays.path_of('')}/{SYNC_DIRECTORY}/stale".lstrip("/")
        self._is_marked, self._marking = False, _thread.allocate_lock()
        arrays.before_change = self._mark

    def add(self, earlier: Syncing) -> None:
        """Count what an earlier round of the same sync has done with what the source still has, and has deleted."""
        synced = self.arrays.synced
        for name in synced.keys() & earlier.arrays.synced.keys():
            synced[name] = together(earlier.arrays.synced[name], synced[name])
        for name, what in earlier.groups.items():
            if name in self._containers:
                self.groups[name] = what
        self.overwritten = {**earlier.overwritten, **self.overwritten}
        self.deleted = sorted({*earlier.deleted, *self.deleted})
        self.extra = sorted({*self.extra, *self.deleted})

    def _overwrite(self, name: str, what: str) -> None:
        """Note what others have changed in a node other than an array, if that is anything.

        Raises
        ------
        OverwritingError
            Unless it may be overwritten.
        """
        if not what:
            return
        if not self._arrays.force and not self._run.dry_run:
            error = would_overwrite(what, location_of(self._store, self._arrays.path_of(name)))
            self.refused.append(error)
            self._report.failed[name] = str(error)
            raise error
        self.overwritten[name] = what

    # --- consolidated metadata

    def _consolidated(self, node: Group | Table, name: str) -> list[str]:
        notes = super()._consolidated(node, name)
        if name in self._had_consolidated and name not in self._to_consolidate:  # they would become stale
            self._to_consolidate.append(name)
        return notes

    def _consolidate(self) -> None:
        self._sweep()
        super()._consolidate()
        if (
            self._to_consolidate
            and not (self._run.dry_run or self._arrays.unfinished)
            and self._store.exists(self._marker)
        ):
            self._store.delete(self._marker)

    def _mark(self) -> None:
        """Note in the target that consolidated metadata are to be written, by the next sync if this one is killed."""
        with self._marking:
            if self._to_consolidate and not self._is_marked and not self._run.dry_run:
                self._store.set(self._marker, b"")
                self._is_marked = True

    def _is_stale(self, group: Group) -> bool:
        """Return whether consolidated metadata are to be written: if they are not there, or anything has changed."""
        return self._is_marked or not group.is_consolidated() or self._store.exists(self._marker)

    # --- what is seen

    def _check_rules(self, root: Group | Table) -> None:
        if not self._has_old_rules:  # those of the last sync may be about arrays that are gone
            super()._check_rules(root)

    def _walked(self, root: Group, tables: dict[str, Mapping[str, Array]]) -> Iterator[tuple[str, Array]]:
        for name, array in super()._walked(root, tables):
            self._seen.add(name)
            if not self._is_barred(name):
                yield name, array

    def _is_barred(self, name: str) -> bool:
        """Return whether a node lies in a group that could not be made."""
        return f"{name}/".startswith(tuple(self._barred))

    def _attempt(self, entry: tuple[str, Array], select: Any = None, *notes: str) -> Any:
        self._seen.add(entry[0])
        try:
            return super()._attempt(entry, select, *notes)
        except OverwritingError as error:
            self.refused.append(error)
            return entry[0], str(error), ()
        except (ConflictError, NotFoundError) as error:  # it changes all the time, or is gone
            self.is_changing = True
            return entry[0], str(error), ()

    def _check_sources(self) -> None:
        try:
            super()._check_sources()
        except (ConflictError, NotFoundError):  # members were added or deleted: the next sync sees them
            self.is_changing = True

    # --- groups and tables

    def _container(self, node: Group | Table, name: str, tables: dict[str, Mapping[str, Array]]) -> None:
        self._seen.add(name)
        if self._is_barred(name):
            return
        with suppress(OverwritingError):  # the rest is synced
            super()._container(node, name, tables)
            self._containers.add(name)
        for column in tables.get(name, {}):
            self._seen.add(f"{name}/{column}".lstrip("/"))

    def _new_container(self, name: str, attributes: dict[str, Any], table: bool) -> GroupMetadata | None:
        """Create a group, or bring the attributes of the one that is there up to date."""
        store, path, fmt = self._store, self._arrays.path_of(name), self._layout.fmt
        if not fmt.has_groups and not (table and fmt.has_tables):
            return super()._new_container(name, attributes, table)
        while True:
            memory = Memory(store, path, is_shared=self._run.plan is not None)
            known = memory.read()
            try:
                node = engine.read_metadata(store, path)
            except TegulaError:
                node = None
                known = known or Remembered()  # `create_node` says what is wrong
            if not isinstance(node, GroupMetadata) or node.format != fmt.name:
                break
            there, wanted = _own(node.attributes), _own(attributes)
            differs = bool(attribute_changes(there, wanted))
            is_foreign = differs and (known is None or digest_of_attributes(there) not in known.documents)
            if is_foreign and memory.is_shared and not memory.is_current():
                continue  # another part was writing
            with suppress(OvertakenError):
                return self._kept_group(name, path, node, attributes, memory, known, is_foreign=is_foreign)
        if node is not None:
            self._barred.append(f"{name}/".lstrip("/"))
            self._overwrite(name, foreign_at(store, path))
            if self._run.ledger.lasts:  # one may delete what another has written already
                raise UnsupportedError(
                    "a group takes the place of an array, which parts of a sync can't do: sync once without part",
                    path=location_of(store, path),
                )
            self._barred.pop()
            self._remove(path)
        self.groups[name] = "new"
        self._mark()
        if not self._run.dry_run:  # from the beginning, so that a group without attributes is known, too
            Memory(store, path).write(_remembered({}, _own(attributes)))
        made = super()._new_container(name, attributes, table)
        if made is not None:
            Memory(store, path).write(_remembered(_own(attributes)))
        return made

    def _kept_group(
        self,
        name: str,
        path: str,
        node: GroupMetadata,
        attributes: dict[str, Any],
        memory: Memory,
        known: Remembered | None,
        *,
        is_foreign: bool,
    ) -> GroupMetadata | None:
        there, wanted = _own(node.attributes), _own(attributes)
        differs = bool(attribute_changes(there, wanted))
        if has_consolidated(self._store, path, node):
            self._had_consolidated.add(name)
        if is_foreign:
            try:
                self._overwrite(name, OTHER_ATTRIBUTES)
            except OverwritingError:
                return node
        if differs:
            self.groups[name] = "changed"
        if self._run.dry_run:
            return None
        if differs:
            self._mark()
            memory.write(_remembered(there, wanted))
            kept = {key: value for key, value in node.attributes.items() if key == ORDER}
            node = engine.update_documents(self._store, path, node, lambda new: replace_attributes(new, wanted | kept))
        if known is None or differs or known.documents != (digest_of_attributes(wanted),):
            memory.write(_remembered(wanted))
        return node

    # --- what only the target has

    def _sweep(self) -> None:
        """Find the nodes that only the target has, and delete them if that is wanted."""
        seen = self._seen | {*self._report.failed}
        if not self._store.listable or self._arrays.unfinished:
            return
        for name in sorted(self._containers):
            path = self._arrays.path_of(name)
            prefix = f"{path}/" if path else ""
            for child in children(self._store, prefix):
                below = f"{name}/{child[len(prefix) : -1]}".lstrip("/")
                if below not in seen and (is_node(self._store, child[:-1]) or self._is_left(child[:-1])):
                    self.extra.append(below)
        for name in self.extra if self._delete else ():
            path = self._arrays.path_of(name)
            with suppress(OverwritingError):
                self._overwrite(name, foreign_at(self._store, path))
                self._remove(path)
                self.deleted.append(name)

    def _is_left(self, path: str) -> bool:
        """Return whether there is what a sync has left of a node that is to be deleted, when it was killed."""
        found = Memory(self._store, path).read() if self._delete else None
        return found is not None and not found.is_complete

    def _remove(self, path: str) -> None:
        """Delete a node; its memory says so from the beginning, and goes last."""
        self._mark()
        if self._run.dry_run:
            return
        memory, prefix = Memory(self._store, path), f"{path}/" if path else ""
        if is_link(self._store, prefix) or memory.read() is None:
            delete_node(self._store, path)
            return
        memory.write(Remembered(documents=(ANY_DOCUMENTS,)))
        delete_node(self._store, path, keep=f"{prefix}{SYNC_DIRECTORY}/")
        delete_prefix(self._store, f"{prefix}{SYNC_DIRECTORY}/")


def replace_attributes(metadata: GroupMetadata, attributes: Mapping[str, Any]) -> GroupMetadata:
    """Return the metadata of a group with other attributes."""
    made: GroupMetadata = frozen_replace(metadata, attributes={**attributes})
    return made


def _own(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a group without the order of columns, which is no part of them."""
    return {name: value for name, value in attributes.items() if name != ORDER}


def _remembered(*attributes: Mapping[str, Any]) -> Remembered:
    empty = no_chunks(0)
    digests = tuple(map(digest_of_attributes, attributes))
    return replace(Remembered(sources=empty, targets=empty), documents=digests, is_complete=True)
