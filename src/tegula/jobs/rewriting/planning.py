"""Plans of conversions: a walk over the source that writes nothing says which units there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.engine.nodes.deleting import is_taken
from tegula.engine.stored.misplaced import refuse_misplaced
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.formats import Format
from tegula.hierarchy.group import Group
from tegula.jobs.ledger import UNRECORDED
from tegula.jobs.plans import Piece, Plan, description_of, digest, fingerprint_of
from tegula.jobs.rewriting.array_job import ArrayJob, Prepared, Run, entry_of
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.rewriting.rules import Field, rules_of
from tegula.jobs.rewriting.targets import Layout
from tegula.stores import MemoryStore, Store
from tegula.stores.targets.opening import creating, store_of
from tegula.stores.targets.paths import location_of
from tegula.tables.table import Table

__all__ = ["Conversion", "layout_of", "opened_target", "refuse_taken", "said_of"]

_RULES: Final[tuple[Field, ...]] = ("chunks", "shards", "codecs", "dtype", "scale_offset", "bitround")


class _Planner(ArrayJob):
    """A dry run that plans the units of each array."""

    def __init__(self, *target: Any) -> None:
        super().__init__(*target)
        self.planned_pieces: list[Piece] = []
        self.groups: dict[str, dict[str, Any]] = {}

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Plan the units of an array."""
        refuse_misplaced(source.stored)
        name, final = prepared.name, prepared.metadata
        axes = [axis if isinstance(axis, int) else (axis.start, axis.step, len(axis)) for axis in prepared.axes]
        how = [sorted(final.documents.items()), axes]
        how += [prepared.target.precision] if prepared.target.precision is not None else []
        target = digest(repr(how).encode())
        (between, piece), fingerprint = self.pieces(source, prepared), fingerprint_of(source)
        if between is not None:
            self.planned_pieces.append(replace(between, source=fingerprint, target=target))
        described = description_of(source)
        self.planned_pieces.append(replace(piece, source=fingerprint, target=target, described=described))
        return entry_of(prepared.draft, name, before=0, notes=())

    def container(self, node: Group | Table, name: str, made: bool) -> None:
        """Plan a group or table."""
        super().container(node, name, made)
        self.groups[name] = fingerprint_of(node.metadata)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion: what is read, where new arrays are written, what they are to be like, and how they are made."""

    source: Array | Group | Table
    select: Any  # the selected part of an array; ``None`` for all
    store: Store  # of the target
    path: str
    layout: Layout
    run: Run
    said: Mapping[str, str] = field(default_factory=dict)  # the user's options as text, for the plan

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
        plan.groups = planner.groups
        for piece in sorted(planner.planned_pieces, key=lambda piece: piece.name):
            plan.add(piece)
        return plan

    @property
    def without_writing(self) -> Run:
        """How a walk is made that only plans or checks."""
        return replace(self.run, ledger=UNRECORDED, plan=None, dry_run=True, verify=False, progress=None)


def layout_of(fmt: Format, source: Array | Group | Table, given: Mapping[str, Any], consolidated: Any) -> Layout:
    """Return what new arrays are to be like, by the arguments of `tegula.convert` that say so.

    Raises
    ------
    MetadataError, UnsupportedError
        If an argument is not valid, or the format has no such thing.
    """
    single = isinstance(source, Array)
    if consolidated not in ("auto", True, False):
        raise MetadataError(f"consolidated must be 'auto', True or False, not {consolidated!r:.40}")
    if consolidated is True and fmt.consolidate is None:
        raise UnsupportedError(f"{fmt.name} has no consolidated metadata")
    if consolidated is True and single:
        raise MetadataError("only groups have consolidated metadata, and the source is an array")
    rules: dict[str, Any] = {name: rules_of(name, given.get(name), single) for name in _RULES}
    if fmt.name != "zarr3" and any(rules["shards"].values):
        raise UnsupportedError(f"{fmt.name} has no shards", field="shards")
    return Layout(fmt, **rules, checksum=bool(given.get("checksum")), consolidated=consolidated)


def refuse_taken(store: Store, path: str) -> None:
    """Raise `AlreadyExistsError` if there is a node at a path."""
    if is_taken(store, path):
        raise AlreadyExistsError(
            "something already exists at this path; pass overwrite=True to replace it", path=location_of(store, path)
        )


def said_of(**options: Any) -> dict[str, str]:
    """Return the user's options as text, for the plan."""
    return {name: repr(value)[:200] for name, value in options.items() if value is not None}


@contextmanager
def opened_target(target: Any, options: Mapping[str, Any] | None, *, dry_run: bool) -> Iterator[Store]:
    """Yield the store of a target, for reading in a dry run; at the end it is closed, unless it is the user's."""
    with nullcontext(_for_reading(target, options)) if dry_run else creating(target, options) as store:
        yield store
    if store is not target:
        store.close()


def _for_reading(target: Any, options: Mapping[str, Any] | None) -> Store:
    """Return the target's store for reading: opening an archive for writing would create it."""
    try:
        return store_of(target, read_only=True, storage_options=options)
    except NotFoundError:
        return MemoryStore()
