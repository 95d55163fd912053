"""Conversions with a ledger: the plan is made first, then the job begins or resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.nodes.creating import check_vacant, create_parents
from tegula.engine.nodes.deleting import clear_place, delete_node
from tegula.engine.nodes.opening import stored_array
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.jobs.converting.array_job import ArrayJob, Conduct, Prepared, entry_of
from tegula.jobs.converting.budget import unit_grid
from tegula.jobs.converting.job import Job
from tegula.jobs.converting.report import ConvertedArray, ConvertReport
from tegula.jobs.converting.rules import Rules
from tegula.jobs.converting.targets import Options
from tegula.jobs.converting.temporary import between_name
from tegula.jobs.ledger import Ledger
from tegula.jobs.misplaced import refuse_misplaced
from tegula.jobs.plans import Plan, description_of, digest, fingerprint_of
from tegula.jobs.recording import Recording
from tegula.jobs.runners.runner import Runner
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.tables.table import Table
from tegula.targets.paths import location_of

__all__ = ["convert_recorded", "is_taken", "outline_recorded", "plan_of"]

Node = Array | Group | Table


def convert_recorded(
    node: Node,
    select: Any,
    store: Store,
    path: str,
    options: Options,
    runner: Runner,
    *,
    resume: bool,
    part: tuple[int, int],
    visible_early: bool,
    said: Mapping[str, Any],
) -> ConvertReport:
    """Convert a node, and record finished units in a ledger.

    Parameters
    ----------
    node, select, store, path, options, runner
        What to convert, where to and how, and the runner.
    resume : bool
        Whether to resume a conversion that is under way or was interrupted.
    part : (int, int)
        Which part to do, and how many there are.
    visible_early : bool
        Whether arrays can be seen before they are complete.
    said : mapping
        The user's options as text, for the plan.
    """
    plan = plan_of(node, select, store, path, options, said)
    whole = Ledger(store, path, part)
    recording = Recording(
        whole,
        plan,
        resume or part != (1, 1),
        lambda is_noted: is_noted and _has_documents(node, select, store, path, options),
    )

    def check() -> None:
        if whole.replaces and options.item.has_groups:
            create_parents(store, path, options.item)
        elif not whole.replaces:
            _check_vacant(node, select, store, path, options)

    with recording.under_way(
        overwrite=options.overwrite,
        check=check,
        clear=lambda: clear_place(store, path),
        is_taken=lambda: is_taken(store, path),
    ) as ledger:
        if ledger is None:
            return _completed_before(node, select, store, path, options, runner, recording.left_out)
        conduct = Conduct(runner, ledger, plan, visible_early, in_group=ledger.replaces)
        arrays = ArrayJob(store, ledger.made, replace(options, overwrite=False), _report(options), conduct)
        report = Job(arrays).run(node, select)
        if not report.units_left:
            for name in report.failed:  # what was written of arrays that can't be converted
                if name in plan.pieces:
                    delete_node(store, f"{ledger.made}/{name}".strip("/"))
            recording.finish(report.failed)
        elif recording.is_over():
            report.units_left = 0
    return report


def outline_recorded(
    node: Node, select: Any, store: Store, path: str, options: Options, part: tuple[int, int], said: Mapping[str, Any]
) -> ConvertReport:
    """Report what is left to do of a conversion that would be resumed; parameters are those of `convert_recorded`.

    Raises
    ------
    AlreadyExistsError, MetadataError
        As `convert_recorded` does.
    """
    plan = plan_of(node, select, store, path, options, said)
    ledger = Ledger(store, path, part)
    report, conduct, notes = ConvertReport(options.item.name, dry_run=True), Conduct(), list[str]()
    outlook = Recording(ledger, plan, resumes=True).outlook(
        overwrite=options.overwrite, is_taken=lambda: is_taken(store, path)
    )
    if outlook == "resumes":
        conduct = Conduct(ledger=ledger, plan=plan)
        left = sum(ledger.left_of(piece.first, piece.stop) for piece in plan.pieces.values())
        notes = [f"{plan.units - left} of {plan.units} units are done; the estimate is for the others"]
    elif outlook == "is complete":
        report.notes[""] = ["the target is complete already, so there is nothing left to do"]
        return report
    Job(ArrayJob(store, path, options, report, conduct)).run(node, select)
    report.notes.setdefault("", []).extend(notes)
    if not report.notes[""]:
        del report.notes[""]
    return report


def _report(options: Options) -> ConvertReport:
    return ConvertReport(options.item.name)


def _without_writing(options: Options) -> Options:
    return replace(options, dry_run=True, verify=False, progress=None)


# --- plans


class _Planner(ArrayJob):
    """A dry run that plans the units of each array."""

    found: dict[str, tuple[tuple[int, ...], ChunkGrid, dict[str, Any], str, tuple[int, ...]]]
    groups: dict[str, dict[str, Any]]
    described: dict[str, str]

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Plan the units of an array."""
        refuse_misplaced(source)
        prepared = self.prepared(source, name, select, *notes)
        final = prepared.metadata
        how = [sorted(final.documents.items()), prepared.axes]
        how += [prepared.target.precision] if prepared.target.precision is not None else []
        target = digest(repr(how).encode())
        draft, memory = prepared.draft, self.options.max_memory
        passes = self._passes(source, prepared, draft)
        grid = unit_grid(source, prepared.axes, draft, memory, copies=2 if self.options.verify else 1)
        if passes is not None and passes.temporary is not None:
            first, grid = (regular_grid(each.unit) for each in passes.passes)
            self.found[between_name(name)] = draft.shape, first, fingerprint_of(source), target, passes.temporary
        self.found[name] = draft.shape, grid, fingerprint_of(source), target, ()
        self.described[name] = description_of(source)
        return entry_of(prepared.draft, name, before=0, notes=()), prepared.target.misfits

    def container(self, node: Group | Table, name: str, made: bool) -> None:
        """Plan a group or table."""
        super().container(node, name, made)
        self.groups[name] = fingerprint_of(node.metadata)


def plan_of(node: Node, select: Any, store: Store, path: str, options: Options, said: Mapping[str, Any]) -> Plan:
    """Return the plan of a conversion. Arrays are in the order of their names, and refused ones are left out."""
    planner = _Planner(store, path, _without_writing(options), _report(options))
    planner.found, planner.groups, planner.described = {}, {}, {}
    Job(planner).run(node, select)
    plan = Plan("convert", dict(said), node.location, location_of(store, path), groups=planner.groups)
    plan.described = planner.described
    for name, found in sorted(planner.found.items()):
        plan.add(name, *found)
    return plan


# --- targets


class _VacancyCheck(ArrayJob):
    """A dry run that refuses a target that is not free."""

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Check that an array can be created."""
        prepared = self.prepared(source, name, select, *notes)
        where, item = self.place(name), self.options.item
        check_vacant(self.store, where, item, prepared.metadata, **prepared.allowed)
        return entry_of(prepared.draft, name, before=0, notes=()), prepared.target.misfits


def _check_vacant(node: Node, select: Any, store: Store, path: str, options: Options) -> None:
    """Check that the target is free, before the plan is stored."""
    if is_taken(store, path):
        raise AlreadyExistsError(
            "something already exists at this path; pass overwrite=True to replace it", path=location_of(store, path)
        )
    if next(iter(store.list_prefix(f"{path}/" if path else "")), None) is not None:
        Job(_VacancyCheck(store, path, _without_writing(options), _report(options))).run(node, select)


def is_taken(store: Store, path: str) -> bool:
    """Return whether there is a node at a path, whether or not it can be read."""
    try:
        return (engine.read_metadata(store, path) or engine.implicit_group(store, path, None)) is not None
    except (MetadataError, UnsupportedError):
        return True


class _DocumentsCheck(ArrayJob):
    """A dry run that refuses a target whose arrays have other documents than a conversion would write."""

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Check that the documents of an array are those that would be written."""
        prepared = self.prepared(source, name, select, *notes)
        wanted = {**prepared.metadata.documents}
        if engine.fetch_documents(self.store, self.place(name), wanted) != wanted:
            raise NotFoundError(
                "the array is not there, or another one", path=location_of(self.store, self.place(name))
            )
        return entry_of(prepared.draft, name, before=0, notes=()), prepared.target.misfits


def _has_documents(node: Node, select: Any, store: Store, path: str, options: Options) -> bool:
    """Return whether all arrays at the target have the documents that a conversion would write."""
    try:
        Job(_DocumentsCheck(store, path, _without_writing(options), _report(options))).run(node, select)
    except NotFoundError:
        return False
    return True


class _CompletionReport(ArrayJob):
    """A dry run that reports complete arrays and, with `verify`, compares them with the source."""

    left_out: Mapping[str, str] = MappingProxyType({})

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Report an array as it is."""
        if name in self.left_out:
            raise UnsupportedError(self.left_out[name])
        prepared = self.prepared(source, name, select, *notes)
        compared: dict[str, Any] = {}
        if self.options.verify:
            found = stored_array(self.store, prepared.draft.path, self._stored_metadata(prepared), **prepared.allowed)
            target = Array(found, prepared.draft.path, read_only=True)
            read = self._source(source, "rewrite")
            compared = dict(zip(("verified", "digest"), self._verified(source, prepared, target, read)))
        stored, after = prepared.draft.stored.amount_stored()
        sizes: dict[str, Any] = {
            "before": source.nbytes_stored() if source.store.listable else 0,
            "after": after,
            "stored": stored,
        }
        return entry_of(prepared.draft, name, notes=prepared.notes, **sizes, **compared), prepared.target.misfits

    def _stored_metadata(self, prepared: Prepared) -> ArrayMetadata:
        found = engine.read_metadata(self.store, prepared.draft.path, self.options.item.name)
        if not isinstance(found, ArrayMetadata):
            raise NotFoundError("the array has been deleted", path=location_of(self.store, prepared.draft.path))
        return found


def _completed_before(
    node: Node,
    select: Any,
    store: Store,
    path: str,
    options: Options,
    runner: Runner,
    failed: Mapping[str, str],
) -> ConvertReport:
    """Return the report on a target that this job has completed before, for example just before it was killed."""
    arrays = _CompletionReport(store, path, replace(options, dry_run=True), _report(options), Conduct(runner))
    arrays.left_out = failed
    report = Job(arrays).run(node, select)
    report.notes.setdefault("", []).append("the target was complete already")
    return report
