"""Plans of conversions: a walk over the source that writes nothing says which units there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.errors import MetadataError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.jobs.misplaced import refuse_misplaced
from tegula.jobs.plans import Plan, description_of, digest, fingerprint_of
from tegula.jobs.rewriting.array_job import ArrayJob, Prepared, entry_of
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.rewriting.targets import Options
from tegula.jobs.rewriting.temporary import between_name
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.stores import MemoryStore, Store
from tegula.tables.table import Table
from tegula.targets.paths import place
from tegula.targets.stores import store_of

__all__ = ["for_reading", "is_taken", "plan_of", "said_of", "without_writing"]


class _Planner(ArrayJob):
    """A dry run that plans the units of each array."""

    found: dict[str, tuple[tuple[int, ...], ChunkGrid, dict[str, Any], str, tuple[int, ...]]]
    groups: dict[str, dict[str, Any]]
    described: dict[str, str]

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Plan the units of an array."""
        refuse_misplaced(source)
        name, final = prepared.name, prepared.metadata
        how = [sorted(final.documents.items()), prepared.axes]
        how += [prepared.target.precision] if prepared.target.precision is not None else []
        target = digest(repr(how).encode())
        temporary, grids = self.unit_grids(source, prepared)
        shape, fingerprint = prepared.draft.shape, fingerprint_of(source)
        if temporary:
            self.found[between_name(name)] = shape, grids[0], fingerprint, target, temporary
        self.found[name] = shape, grids[-1], fingerprint, target, ()
        self.described[name] = description_of(source)
        return entry_of(prepared.draft, name, before=0, notes=())

    def container(self, node: Group | Table, name: str, made: bool) -> None:
        """Plan a group or table."""
        super().container(node, name, made)
        self.groups[name] = fingerprint_of(node.metadata)


def plan_of(
    node: Array | Group | Table, select: Any, store: Store, path: str, options: Options, said: Mapping[str, Any]
) -> Plan:
    """Return the plan of a conversion. Arrays are in the order of their names, and refused ones are left out."""
    planner = _Planner(store, path, without_writing(options), ConvertReport(options.item.name))
    planner.found, planner.groups, planner.described = {}, {}, {}
    Job(planner).run(node, select)
    plan = Plan("convert", dict(said), node.location, place(store, path), groups=planner.groups)
    plan.described = planner.described
    for name, found in sorted(planner.found.items()):
        plan.add(name, *found)
    return plan


def without_writing(options: Options) -> Options:
    """Return options for a walk that only plans."""
    return replace(options, dry_run=True, progress=None)


def is_taken(store: Store, path: str) -> bool:
    """Return whether there is a node at a path, whether or not it can be read."""
    try:
        return (engine.read_metadata(store, path) or engine.implicit_group(store, path, None)) is not None
    except (MetadataError, UnsupportedError):
        return True


def said_of(**options: Any) -> dict[str, str]:
    """Return the user's options as text, for the plan."""
    return {name: repr(value)[:200] for name, value in options.items() if value is not None}


def for_reading(target: Any, options: Mapping[str, Any] | None) -> Store:
    """Return the target's store for reading: opening an archive for writing would create it."""
    try:
        return store_of(target, read_only=True, storage_options=options)
    except NotFoundError:
        return MemoryStore()
