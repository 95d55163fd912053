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
from tegula.errors import AlreadyExistsError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.jobs.ledger import Ledger
from tegula.jobs.recording import Recording
from tegula.jobs.rewriting.array_job import ArrayJob, Conduct, Prepared, entry_of
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.planning import is_taken, plan_of, without_writing
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.rewriting.targets import Options
from tegula.jobs.runners.runner import Runner
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.tables.table import Table
from tegula.targets.paths import place

__all__ = ["convert_recorded", "outline_recorded"]

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


class _VacancyCheck(ArrayJob):
    """A dry run that refuses a target that is not free."""

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Check that an array can be created."""
        check_vacant(self.store, prepared.draft.path, self.options.item, prepared.metadata, **prepared.allowed)
        return entry_of(prepared.draft, prepared.name, before=0, notes=())


def _check_vacant(node: Node, select: Any, store: Store, path: str, options: Options) -> None:
    """Check that the target is free, before the plan is stored."""
    if is_taken(store, path):
        raise AlreadyExistsError(
            "something already exists at this path; pass overwrite=True to replace it", path=place(store, path)
        )
    if next(iter(store.list_prefix(f"{path}/" if path else "")), None) is not None:
        Job(_VacancyCheck(store, path, without_writing(options), _report(options))).run(node, select)


class _DocumentsCheck(ArrayJob):
    """A dry run that refuses a target whose arrays have other documents than a conversion would write."""

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Check that the documents of an array are those that would be written."""
        wanted, path = {**prepared.metadata.documents}, prepared.draft.path
        if engine.fetch_documents(self.store, path, wanted) != wanted:
            raise NotFoundError("the array is not there, or another one", path=place(self.store, path))
        return entry_of(prepared.draft, prepared.name, before=0, notes=())


def _has_documents(node: Node, select: Any, store: Store, path: str, options: Options) -> bool:
    """Return whether all arrays at the target have the documents that a conversion would write."""
    try:
        Job(_DocumentsCheck(store, path, without_writing(options), _report(options))).run(node, select)
    except NotFoundError:
        return False
    return True


class _CompletionReport(ArrayJob):
    """A dry run that reports complete arrays and, with `verify`, compares them with the source."""

    left_out: Mapping[str, str] = MappingProxyType({})

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Report an array as it is."""
        name = prepared.name
        if name in self.left_out:
            raise UnsupportedError(self.left_out[name])
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
        return entry_of(prepared.draft, name, notes=prepared.notes, **sizes, **compared)

    def _stored_metadata(self, prepared: Prepared) -> ArrayMetadata:
        found = engine.read_metadata(self.store, prepared.draft.path, self.options.item.name)
        if not isinstance(found, ArrayMetadata):
            raise NotFoundError("the array has been deleted", path=place(self.store, prepared.draft.path))
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
