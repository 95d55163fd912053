"""Warnings about targets that a job is writing, or has left incomplete."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tegula.cli.reporting import print_message
from tegula.errors import TegulaError
from tegula.jobs.managing import Done, JobState, done_before, jobs_around
from tegula.stores import Store
from tegula.stores.secrets import redacted
from tegula.stores.targets.opening import store_of
from tegula.stores.targets.paths import address_of, local_path

__all__ = ["done_at", "job_text", "warn_of_jobs", "warn_of_jobs_at"]


def warn_of_jobs(store: Store, path: str) -> list[JobState]:
    """Return the jobs that write a node, a group above it or a member of it, with a warning for each."""
    jobs = jobs_around(store, path)
    for job in jobs:
        print_message("warning", job_text(job))
    return jobs


def warn_of_jobs_at(target: str, options: Mapping[str, Any]) -> None:
    """Warn of the jobs at a target that can't be opened, maybe since it is not complete."""
    with suppress(TegulaError):
        outer, inner, _ = address_of(target, "")
        with store_of(outer, read_only=True, storage_options=options) as store:
            warn_of_jobs(store, inner)


def done_at(target: str, inner: str, options: Mapping[str, Any] | None) -> dict[str, Done]:
    """Return what an interrupted job at a target has done, by array; nothing if that can't be read."""
    with suppress(TegulaError):
        outer, inner, _ = address_of(target, inner)
        with store_of(outer, read_only=True, storage_options=options) as store:
            return done_before(store, inner)
    return {}


def job_text(job: JobState) -> str:
    """Say how far a job is, and how it goes on."""
    source, target = (redacted(local_path(url) or url) for url in (job.source, job.target))
    what = f"{target} is incomplete: tegula {job.operation} from {source}"
    share = f"at {100 * job.units_done // job.units} %" if job.units else "without a record"
    if job.state == "running":
        return f"{what} is under way, {share}"
    return f"{what} was interrupted {share}; run it again with --resume, or remove it with: tegula jobs clean {target}"
