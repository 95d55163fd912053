"""Conversions with a ledger: the plan is made first, then the job begins or resumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.nodes.creating import check_vacant, create_parents
from tegula.engine.nodes.deleting import clear_place, delete_node, is_taken
from tegula.errors import NotFoundError, UnsupportedError
from tegula.jobs.ledger import Ledger
from tegula.jobs.publishing import array_at
from tegula.jobs.recording import Recording
from tegula.jobs.rewriting.array_job import ArrayJob, Prepared, bytes_stored, entry_of
from tegula.jobs.rewriting.planning import Conversion, refuse_taken
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.stores.targets.paths import location_of

__all__ = ["convert_recorded", "outline_recorded"]


def convert_recorded(conversion: Conversion, *, resume: bool, part: tuple[int, int]) -> ConvertReport:
    """Convert a node, and record finished units in a ledger.

    With `resume` one that is under way or was interrupted is resumed; `part` says which part to do, of how many.
    """
    store, path, fmt = conversion.store, conversion.path, conversion.layout.fmt
    plan, whole_job = conversion.plan(), Ledger(store, path, part)

    def check() -> None:
        if whole_job.replaces and fmt.has_groups:
            create_parents(store, path, fmt)
        elif not whole_job.replaces:
            _check_vacant(conversion)

    recording = Recording(
        whole_job,
        plan,
        resumes=resume or part != (1, 1),
        overwrite=conversion.run.overwrite,
        is_taken=partial(is_taken, store, path),
        looks_complete=lambda is_noted: is_noted and _has_documents(conversion),
    )
    with recording.under_way(check=check, clear=partial(clear_place, store, path)) as ledger:
        if ledger is None:
            return _completed_before(conversion, recording.left_out)
        recorded: dict[str, Any] = {"ledger": ledger, "plan": plan, "in_group": ledger.replaces, "overwrite": False}
        report = replace(conversion, path=ledger.made).walk(**recorded)
        if not report.units_left:
            for name in report.failed:  # what was written of arrays that can't be converted
                if name in plan.pieces:
                    delete_node(store, f"{ledger.made}/{name}".strip("/"))
            recording.finish(report.failed)
        elif recording.is_over():
            report.units_left = 0
    return report


def outline_recorded(conversion: Conversion, part: tuple[int, int]) -> ConvertReport:
    """Report what is left to do of a conversion that would be resumed, as `convert_recorded` does it.

    Raises
    ------
    AlreadyExistsError, MetadataError
        As `convert_recorded` does.
    """
    store, path, plan = conversion.store, conversion.path, conversion.plan()
    ledger, overwrite = Ledger(store, path, part), conversion.run.overwrite
    recording = Recording(ledger, plan, resumes=True, overwrite=overwrite, is_taken=partial(is_taken, store, path))
    outlook = recording.outlook()
    if outlook == "is complete":
        done = "the target is complete already, so there is nothing left to do"
        return ConvertReport(conversion.layout.fmt.name, dry_run=True, notes={"": [done]})
    if outlook == "begins":
        return conversion.walk()
    report = conversion.walk(ledger=ledger, plan=plan)
    done = f"{plan.units - ledger.left_in(plan)} of {plan.units} units are done; the estimate is for the others"
    report.notes.setdefault("", []).append(done)
    return report


class _VacancyCheck(ArrayJob):
    """A dry run that refuses a target that is not free."""

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Check that an array can be created."""
        check_vacant(self.store, prepared.draft.path, self.layout.fmt, prepared.metadata, **prepared.allowed)
        return entry_of(prepared.draft, prepared.name, before=0, notes=())


def _check_vacant(conversion: Conversion) -> None:
    """Check that the target is free, before the plan is stored."""
    store, path = conversion.store, conversion.path
    refuse_taken(store, path)
    if next(iter(store.list_prefix(f"{path}/" if path else "")), None) is not None:
        replace(conversion, run=conversion.without_writing).walk(_VacancyCheck)


class _DocumentsCheck(ArrayJob):
    """A dry run that refuses a target whose arrays have other documents than a conversion would write."""

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Check that the documents of an array are those that would be written."""
        wanted, path = {**prepared.metadata.documents}, prepared.draft.path
        if engine.fetch_documents(self.store, path, wanted) != wanted:
            raise NotFoundError("the array is not there, or another one", path=location_of(self.store, path))
        return entry_of(prepared.draft, prepared.name, before=0, notes=())


def _has_documents(conversion: Conversion) -> bool:
    """Return whether all arrays at the target have the documents that a conversion would write."""
    try:
        replace(conversion, run=conversion.without_writing).walk(_DocumentsCheck)
    except NotFoundError:
        return False
    return True


class _CompletionReport(ArrayJob):
    """A dry run that reports complete arrays and, with `verify`, compares them with the source."""

    def __init__(self, left_out: Mapping[str, str], *target: Any) -> None:
        super().__init__(*target)
        self.left_out = left_out

    def entry(self, source: Array, prepared: Prepared) -> ConvertedArray:
        """Report an array as it is."""
        name = prepared.name
        if name in self.left_out:
            raise UnsupportedError(self.left_out[name])
        compared: dict[str, Any] = {}
        if self.run.verify:
            draft = prepared.draft
            target = array_at(self.store, draft.path, self.layout.fmt.name, allow_pickle=draft.allow_pickle)
            read = self._source(source, "rewrite")
            piece = self.pieces(source, prepared)[1]
            compared = dict(zip(("verified", "digest"), self._verified(source, prepared, piece, target, read)))
        stored, after = prepared.draft.stored.amount_stored()
        sizes: dict[str, Any] = {"before": bytes_stored(source), "after": after, "stored": stored}
        return entry_of(prepared.draft, name, notes=prepared.notes, **sizes, **compared)


def _completed_before(conversion: Conversion, failed: Mapping[str, str]) -> ConvertReport:
    """Return the report on a target that this job has completed before, for example just before it was killed."""
    report = conversion.walk(partial(_CompletionReport, failed), dry_run=True)
    report.dry_run = False
    report.notes.setdefault("", []).append("the target was complete already")
    return report
