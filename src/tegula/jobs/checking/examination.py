"""The state of a check: its store, findings and repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any

from tegula.display.info import counted
from tegula.errors import StoreError, TegulaError
from tegula.jobs.checking.findings import KINDS, CheckReport, Finding, Severity
from tegula.jobs.checking.names import foreign, is_record, is_system_file
from tegula.jobs.sharing import Share
from tegula.stores import Store

__all__ = ["Examination", "Progress", "Repair"]

Progress = Callable[[str, int, int], None]

_EXAMPLES = 3  # file names in one finding

_HIDES = frozenset({"metadata", "missing-document", "unreadable", "unsupported"})
"""Kinds of findings after which some nodes are unknown."""


@dataclass(slots=True, eq=False)
class Repair:
    """A repair of one or several findings that loses no data.

    Parameters
    ----------
    text : str
        Its description.
    act : callable
        Carries it out, on condition that the stored state is still as found.
    findings : list of Finding
        The findings it repairs that the report keeps.
    covers : Counter
        Number of findings of each severity it repairs, including any that the report does not keep.
    """

    text: str
    act: Callable[[], None]
    findings: list[Finding] = field(default_factory=list)
    covers: Counter[Severity] = field(default_factory=Counter)


class Examination:
    """The state of one check, to which several threads add findings.

    Nodes of a far store are examined together, each in a `part`, whose results are added in order.

    Parameters
    ----------
    store, path : Store, str
        The store, and the path to check.
    most : int
        Number of findings to keep.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its total bytes.
    allow_pickle : bool
        Whether unpickling is allowed.

    Attributes
    ----------
    requests : int
        The `concurrency` of the store.
    unread : int
        Number of nodes found so far that can't be read.
    share : Share or None
        The runner that checks the chunks and its ledger, if not this process checks them.
    """

    def __init__(self, store: Store, path: str, most: int, progress: Progress | None, allow_pickle: bool) -> None:
        self.store = store
        self.path = path
        self.requests = store.concurrency
        self.allow_pickle = allow_pickle
        self.report = CheckReport(f"{store.url}/{path}".rstrip("/"))
        self.unread = 0
        self.share: Share[Any] | None = None
        self._system_files: list[str] = []
        self._number_of_system_files = 0
        self._most = most
        self._progress = progress
        self._repairs: list[Repair] = []
        self._lock = Lock()

    def part(self) -> Examination:
        """Return an examination of a part, which another thread may carry out; see `add`."""
        made = Examination(self.store, self.path, self._most, None, self.allow_pickle)
        made._progress = None if self._progress is None else self.report_progress
        made.share = self.share
        return made

    def add(self, part: Examination) -> None:
        """Add the results of a part, as if it had been examined here."""
        report, other = self.report, part.report
        room = max(0, self._most - len(report.findings))
        kept, lost = other.findings[:room], {*map(id, other.findings[room:])}
        report.findings += kept
        for repair in part._repairs:
            repair.findings = [finding for finding in repair.findings if id(finding) not in lost]
            if repair.findings:
                self._repairs.append(repair)
        for kind, number in other.counts.items():
            report.counts[kind] = report.counts.get(kind, 0) + number
        for item in fields(CheckReport):
            if item.type == "int":
                setattr(report, item.name, getattr(report, item.name) + getattr(other, item.name))
        self.unread += part.unread
        self._number_of_system_files += part._number_of_system_files
        self._system_files += part._system_files[: _EXAMPLES - len(self._system_files)]

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
        """Add a finding, and its repair if there is one."""
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

    def find_foreign(self, path: str, key: str) -> bool:
        """Report a key of another program; return whether a key is one, or a record of a job, which is not reported."""
        if is_record(key):
            return True
        if is_system_file(key):
            self.add_system_files(key)
            return True
        found = foreign(key)
        if found is not None:
            self.find(found[0], path, key, found[1])
        return found is not None

    def add_system_files(self, *keys: str) -> None:
        """Collect keys of system files, which `close` reports in one finding."""
        with self._lock:
            self._number_of_system_files += len(keys)
            self._system_files += keys[: _EXAMPLES - len(self._system_files)]

    def close(self) -> None:
        """Report the system files, after everything has been checked."""
        number, examples = self._number_of_system_files, self._system_files
        if number:
            named = f" ({', '.join(key.rpartition('/')[2] for key in examples)}{', …' * (number > len(examples))})"
            what = f"{counted(number, 'file')} that operating systems leave beside others{named}"
            self.find("system-files", self.path, examples[0], what)

    def count(self, **numbers: int) -> None:
        """Add to the report's numbers."""
        with self._lock:
            for name, number in numbers.items():
                setattr(self.report, name, getattr(self.report, name) + number)

    def report_progress(self, path: str, done: int, total: int) -> None:
        """Call the user's function for the progress, if there is one."""
        if self._progress is not None:
            with self._lock:
                self._progress(path, min(done, total), total)

    @contextmanager
    def listing(self, path: str, key: str) -> Iterator[None]:
        """Turn errors of listing and reading into findings."""
        try:
            yield
        except StoreError as error:
            self.find("unreadable", path, error.key or key, error.message)

    def repair(self, announce: Callable[[Finding], None] | None) -> None:
        """Carry out all repairs; one that fails is reported and does not stop the others."""
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
