"""Plans of conversions: a walk over the source that writes nothing says which units there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.errors import MetadataError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.jobs.misplaced import refuse_misplaced
from tegula.jobs.plans import Plan, description_of, digest, fingerprint_of
from tegula.jobs.rewriting.array_job import ArrayJob, Prepared, Run, entry_of
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.rewriting.targets import Layout
from tegula.jobs.rewriting.temporary import between_name
from tegula.metadata.chunk_grids import ChunkGrid
from tegula.stores import MemoryStore, Store
from tegula.stores.targets.opening import store_of
from tegula.stores.targets.paths import location_of
from tegula.tables.table import Table

__all__ = ["Conversion", "for_reading", "is_taken", "said_of"]


class _Planner(ArrayJob):
    """A dry run that plans the units of each array."""

    def __init__(self, *target: Any) -> None:
        super().__init__(*target)
        self.pieces: dict[str, tuple[tuple[int, ...], ChunkGrid, dict[str, Any], str, tuple[int, ...]]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.described: dict[str, str] = {}

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
            self.pieces[between_name(name)] = shape, grids[0], fingerprint, target, temporary
        self.pieces[name] = shape, grids[-1], fingerprint, target, ()
        self.described[name] = description_of(source)
        return entry_of(prepared.draft, name, before=0, notes=())

    def container(self, node: Group | Table, name: str, made: bool) -> None:
        """Plan a group or table."""
        super().container(node, name, made)
        self.groups[name] = fingerprint_of(node.metadata)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion: what is read, where new arrays are written, what they are to be like, and how they are made.

    Parameters
    ----------
    source : Array, Group or Table
        The node to convert.
    select : object
        For an array, the selected part; ``None`` for all.
    store, path : Store, str
        The target.
    layout, run
        As for `ArrayJob`.
    said : mapping
        The user's options as text, for the plan.
    """

    source: Array | Group | Table
    select: Any
    store: Store
    path: str
    layout: Layout
    run: Run
    said: Mapping[str, str] = field(default_factory=dict)

    def walk(self, kind: Callable[..., ArrayJob] = ArrayJob, **changes: Any) -> ConvertReport:
        """Go through the source with an `ArrayJob`; `changes` are made to how that is done. Return its report."""
        run = replace(self.run, **changes)
        arrays = kind(self.store, self.path, self.layout, run, ConvertReport(self.layout.fmt.name, run.dry_run))
        return Job(arrays).run(self.source, self.select)

    def plan(self) -> Plan:
        """Return the plan. Arrays are in the order of their names, and refused ones are left out."""
        planner = _Planner(
            self.store, self.path, self.layout, self.without_writing, ConvertReport(self.layout.fmt.name)
        )
        Job(planner).run(self.source, self.select)
        plan = Plan("convert", {**self.said}, self.source.location, location_of(self.store, self.path))
        plan.groups, plan.described = planner.groups, planner.described
        for name, piece in sorted(planner.pieces.items()):
            plan.add(name, *piece)
        return plan

    @property
    def without_writing(self) -> Run:
        """How a walk is made that only plans or checks."""
        return replace(self.run, ledger=None, plan=None, dry_run=True, verify=False, progress=None)


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
