"""One examination: where it looks, what it has found, and the repairs that would mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from tegula.errors import StoreError, TegulaError
from tegula.info import counted
from tegula.integrity.findings import KINDS, CheckReport, Finding, Severity
from tegula.stores import Store

__all__ = ["Examination", "Progress", "Repair"]

Progress = Callable[[str, int, int], None]

_EXAMPLES = 3  # of files that one finding names

_HIDES = frozenset({"metadata", "missing-document", "unreadable", "unsupported"})
"""Kinds after which it is not known of all nodes what they are."""


@dataclass(slots=True, eq=False)
class Repair:
    """Something that mends one finding or several, and loses nothing.

    Parameters
    ----------
    text : str
        What it does.
    act : callable
        Does it, on condition that what was found still is so.
    findings : list of Finding
        What it mends, as far as the report has room for them.
    covers : Counter
        How many findings of each severity it mends, those included that the report has no room for.
    """

    text: str
    act: Callable[[], None]
    findings: list[Finding] = field(default_factory=list)
    covers: Counter[Severity] = field(default_factory=Counter)


class Examination:
    """What one check knows; several threads may tell it what they find.

    Parameters
    ----------
    store, path : Store, str
        Where it looks.
    most : int
        How many findings are kept.
    progress : callable, optional
        Called with path, bytes done and bytes in all of the array at hand.
    allow_pickle : bool
        Whether chunks may be unpickled.

    Attributes
    ----------
    unread : int
        How often it was found so far that a node is there, and can't be read.
    """

    def __init__(self, store: Store, path: str, most: int, progress: Progress | None, allow_pickle: bool) -> None:
        self.store = store
        self.path = path
        self.allow_pickle = allow_pickle
        self.report = CheckReport(f"{store.url}/{path}".rstrip("/"))
        self.unread = 0
        self._system_files: list[str] = []
        self._number_of_system_files = 0
        self._most = most
        self._progress = progress
        self._repairs: list[Repair] = []
        self._lock = Lock()

    def find(
        self,
        kind: str,
        path: str,
        key: str,
        message: str,
        *,
        severity: Severity | None = None,
        repair: Repair | None = None,
    ) -> None:
        """Take a finding, and what would mend it."""
        usual = KINDS[kind]
        text = None if repair is None else repair.text
        finding = Finding(kind, severity or usual.severity, path, key, message, usual.remedy, text)
        with self._lock:
            self.report.counts[kind] = self.report.counts.get(kind, 0) + 1
            self._add(finding.severity, 1)
            kept = len(self.report.findings) < self._most
            if kept:
                self.report.findings.append(finding)
            if repair is not None:
                repair.covers[finding.severity] += 1
                if kept:
                    if not repair.findings:
                        self._repairs.append(repair)
                    repair.findings.append(finding)
            self.unread += kind in _HIDES

    def pass_over(self, *keys: str) -> None:
        """Collect keys of system files, to report them in one finding."""
        with self._lock:
            self._number_of_system_files += len(keys)
            self._system_files += keys[: _EXAMPLES - len(self._system_files)]

    def close(self) -> None:
        """Make a finding of what was passed over, once everything has been looked at."""
        number, examples = self._number_of_system_files, self._system_files
        if number:
            named = f" ({', '.join(key.rpartition('/')[2] for key in examples)}{', …' * (number > len(examples))})"
            what = f"{counted(number, 'file')} that macOS leaves beside others{named}"
            self.find("system-files", self.path, examples[0], what)

    def count(self, **numbers: int) -> None:
        """Add to the report's numbers."""
        with self._lock:
            for name, number in numbers.items():
                setattr(self.report, name, getattr(self.report, name) + number)

    def tell(self, path: str, done: int, total: int) -> None:
        """Say how far it has come."""
        if self._progress is not None:
            with self._lock:
                self._progress(path, min(done, total), total)

    @contextmanager
    def listing(self, path: str, key: str) -> Iterator[None]:
        """Make a finding of what the store can't list or read."""
        try:
            yield
        except StoreError as error:
            self.find("unreadable", path, error.key or key, error.message)

    def repair(self, announce: Callable[[Finding], None] | None) -> None:
        """Do all repairs; one that can't be done is told, and does not keep others from being done."""
        for repair in self._repairs:
            if announce is not None:
                for finding in repair.findings:
                    announce(finding)
            try:
                repair.act()
            except TegulaError as error:
                for finding in repair.findings:
                    self.report.failed_repairs[finding.key] = str(error)
                continue
            for finding in repair.findings:
                finding.repaired = True
            for severity, number in repair.covers.items():
                self._add(severity, -number)

    def _add(self, severity: Severity, number: int) -> None:
        name = f"{severity}s"
        setattr(self.report, name, getattr(self.report, name) + number)
