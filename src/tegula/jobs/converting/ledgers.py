"""Conversions with a ledger: the plan is made first, then the job begins or resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.creating import check_vacant, read_back
from tegula.engine.deleting import clear_place, delete_node
from tegula.engine.opening import stored_array
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.jobs.converting.array_job import Conduct, Prepared, entry_of
from tegula.jobs.converting.budget import unit_grid
from tegula.jobs.converting.job import Job
from tegula.jobs.converting.report import ConvertedArray, ConvertReport
from tegula.jobs.converting.rules import Rules
from tegula.jobs.converting.targets import Options
from tegula.jobs.converting.temporary import between_name
from tegula.jobs.ledger import Ledger
from tegula.jobs.plans import Plan, digest, fingerprint_of
from tegula.jobs.recording import Recording
from tegula.jobs.runners.runner import Runner
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.tables.table import Table
from tegula.targets.paths import place

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
    recording = Recording(Ledger(store, path, part), plan, resume or part != (1, 1))
    with recording.under_way(
        overwrite=options.overwrite,
        check=lambda: _check_vacant(node, select, store, path, options),
        clear=lambda: clear_place(store, path),
        is_taken=lambda: is_taken(store, path),
    ) as ledger:
        if ledger is None:
            return _completed_before(node, select, store, path, options, runner, recording.left_out)
        conduct = Conduct(runner, ledger, plan, visible_early)
        job = Job(store, path, replace(options, overwrite=False), _report(options), conduct)
        job.run(node, select)
        if not job.report.units_left:
            for name in job.report.failed:  # what was written of arrays that can't be converted
                if name in plan.pieces:
                    delete_node(store, f"{path}/{name}".strip("/"))
            recording.finish(job.report.failed)
        elif recording.is_over():
            job.report.units_left = 0
    return job.report


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
    job = Job(store, path, options, report, conduct)
    job.run(node, select)
    report.notes.setdefault("", []).extend(notes)
    if not report.notes[""]:
        del report.notes[""]
    return report


def _report(options: Options) -> ConvertReport:
    return ConvertReport(options.item.name)


def _without_writing(options: Options) -> Options:
    return replace(options, dry_run=True, verify=False, progress=None)


# --- plans


class _Planner(Job):
    """A dry run that plans the units of each array."""

    found: dict[str, tuple[tuple[int, ...], ChunkGrid, dict[str, Any], str, tuple[int, ...]]]
    groups: dict[str, dict[str, Any]]

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Plan the units of an array."""
        prepared = self._prepared(source, name, select, *notes)
        final = read_back(self._options.item, prepared.target.metadata, name)
        how = [sorted(final.documents.items()), prepared.axes]
        how += [prepared.target.precision] if prepared.target.precision is not None else []
        target = digest(repr(how).encode())
        draft, memory = prepared.draft, self._options.max_memory
        passes = self._passes(source, prepared, draft)
        grid = unit_grid(source, prepared.axes, draft, memory, copies=2 if self._options.verify else 1)
        if passes is not None and passes.temporary is not None:
            first, grid = (regular_grid(each.unit) for each in passes.passes)
            self.found[between_name(name)] = draft.shape, first, fingerprint_of(source), target, passes.temporary
        self.found[name] = draft.shape, grid, fingerprint_of(source), target, ()
        return entry_of(prepared.draft, name, before=0, notes=()), prepared.target.misfits

    def _container(self, node: Group | Table, name: str, tables: dict[str, Mapping[str, Array]]) -> None:
        super()._container(node, name, tables)
        self.groups[name] = fingerprint_of(node.metadata)


def plan_of(node: Node, select: Any, store: Store, path: str, options: Options, said: Mapping[str, Any]) -> Plan:
    """Return the plan of a conversion. Arrays are in the order of their names, and refused ones are left out."""
    planner = _Planner(store, path, _without_writing(options), _report(options))
    planner.found, planner.groups = {}, {}
    planner.run(node, select)
    plan = Plan("convert", dict(said), node._place, place(store, path), groups=planner.groups)
    for name, found in sorted(planner.found.items()):
        plan.add(name, *found)
    return plan


# --- targets


class _VacancyCheck(Job):
    """A dry run that refuses a target that is not free."""

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Check that an array can be created."""
        prepared = self._prepared(source, name, select, *notes)
        where, item = self._place(name), self._options.item
        check_vacant(self._store, where, item, prepared.target.metadata, **prepared.allowed)
        return entry_of(prepared.draft, name, before=0, notes=()), prepared.target.misfits


def _check_vacant(node: Node, select: Any, store: Store, path: str, options: Options) -> None:
    """Check that the target is free, before the plan is stored."""
    if is_taken(store, path):
        raise AlreadyExistsError(
            "something already exists at this path; pass overwrite=True to replace it", path=place(store, path)
        )
    if next(iter(store.list_prefix(f"{path}/" if path else "")), None) is not None:
        _VacancyCheck(store, path, _without_writing(options), _report(options)).run(node, select)


def is_taken(store: Store, path: str) -> bool:
    """Return whether there is a node at a path, whether or not it can be read."""
    try:
        return (engine.read_metadata(store, path) or engine.implicit_group(store, path, None)) is not None
    except (MetadataError, UnsupportedError):
        return True


class _CompletionReport(Job):
    """A dry run that reports complete arrays and, with `verify`, compares them with the source."""

    left_out: Mapping[str, str] = MappingProxyType({})

    def array(
        self, source: Array, name: str, select: Any = None, *notes: str
    ) -> tuple[ConvertedArray, tuple[Rules, ...]]:
        """Report an array as it is."""
        if name in self.left_out:
            raise UnsupportedError(self.left_out[name])
        prepared = self._prepared(source, name, select, *notes)
        compared: dict[str, Any] = {}
        if self._options.verify:
            found = stored_array(self._store, prepared.draft.path, self._stored_metadata(prepared), **prepared.allowed)
            target = Array(found, prepared.draft.path, read_only=True)
            compared = dict(zip(("verified", "digest"), self._verified(source, prepared, target)))
        stored, after = prepared.draft._stored.amount_stored()
        sizes: dict[str, Any] = {
            "before": source.nbytes_stored() if source.store.listable else 0,
            "after": after,
            "stored": stored,
        }
        return entry_of(prepared.draft, name, notes=prepared.notes, **sizes, **compared), prepared.target.misfits

    def _stored_metadata(self, prepared: Prepared) -> ArrayMetadata:
        found = engine.read_metadata(self._store, prepared.draft.path, self._options.item.name)
        if not isinstance(found, ArrayMetadata):
            raise NotFoundError("the array has been deleted", path=place(self._store, prepared.draft.path))
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
    found = _CompletionReport(store, path, replace(options, dry_run=True), _report(options), Conduct(runner))
    found.left_out = failed
    found.run(node, select)
    found.report.notes.setdefault("", []).append("the target was complete already")
    return found.report
