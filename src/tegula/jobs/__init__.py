"""Jobs: operations on whole arrays and hierarchies, carried out in units of bounded memory.

A job keeps a ledger of the units that are done (`tegula.convert` with ``resume=True``). The functions here find, show
and remove jobs that are running or were interrupted.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tegula.jobs.managing import JobState, clean_job, list_jobs, show_job

__all__ = ["JobState", "clean_job", "list_jobs", "show_job"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("tegula.jobs.managing"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
