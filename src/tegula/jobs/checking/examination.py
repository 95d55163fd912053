"""The state of a check: findings, counts and repairs, and which keys other programs leave among those of nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any, Final

from tegula.display.info import counted
from tegula.errors import StoreError, TegulaError
from tegula.jobs.checking.findings import KINDS, CheckReport, Finding, Severity
from tegula.jobs.sharing import Share
from tegula.jobs.units import Progress
from tegula.stores import Store

__all__ = ["Examination", "Repair"]

_EXAMPLES: Final = 3  # file names in one finding
_HIDES: Final = frozenset({"metadata", "missing-document", "unreadable", "unsupported"})
"""Kinds of findings after which some nodes are unknown."""
_FILES = r"\._[^/]*|\.DS_Store|\.directory|(?i:(?:eh)?thumbs\.db|desktop\.ini)"
_DIRECTORIES = r"__MACOSX|\.(?:AppleDouble|Spotlight-V100|Trashes|fseventsd)|\$RECYCLE\.BIN|@eaDir"
_FOREIGN: Final = [
    (re.compile(pattern).search, kind, writer)
    for pattern, kind, writer in [
        (r"(?:\A|/)\.tegula_(?:job/(?!plan\.json\Z).*|job-[^/]*/.*|complete)\Z", "", "a job of tegula"),
        (rf"(?:\A|/)(?:(?:{_FILES})\Z|(?:{_DIRECTORIES})/)", "system-files", "an operating system"),
        (r"\.[0-9a-f]{32}\.partial\Z", "foreign-temporary", "a writer of zarr-python"),
        (r"#[0-9]+\Z", "foreign-temporary", "a writer of the library object_store"),
        (r"(?:\A|/)\.tegula_job/plan\.json\Z", "interrupted-job", "a job of tegula"),
        (r"\.__lock\Z", "foreign-lock", "a writer of TensorStore"),
    ]
]


@dataclass(slots=True, eq=False)
class Repair:
    """A repair of one or several findings that loses no data."""

    text: str
    act: Callable[[], None]  # on condition that the stored state is still as found
    covers: Counter[str] = field(default_factory=Counter)  # errors, warnings and notes, also those that are not kept


class Examination:
    """The state of one check, to which several threads add findings.

    Nodes of a remote store are examined together, each in a `part`, whose results are added in order.
    """

    def __init__(self, store: Store, path: str, most: int, progress: Progress | None, allow_pickle: bool) -> None:
        self.store = store
        self.path = path
        self.allow_pickle = allow_pickle
        self.share: Share[Any] | None = None  # checks the chunks, if not this process does
        self.source = f"{store.url}/{path}".rstrip("/")
        self.findings: list[tuple[Finding, Repair | None]] = []  # the first `most`
        self.counts: Counter[str] = Counter()  # findings of each kind
        self.numbers: Counter[str] = Counter()  # of the report; also nodes that are `unread`, and `system_files`
        self._system_files: list[str] = []  # a few examples
        self._most = most
        self._progress = progress
        self._lock = Lock()

    def part(self) -> Examination:
        """Return an examination of a part, which another thread may carry out; see `add`."""
        part = Examination(self.store, self.path, self._most, self._progress, self.allow_pickle)
        part.share = self.share
        return part

    def add(self, part: Examination) -> None:
        """Add the results of a part, as if it had been examined here."""
        self.findings += part.findings[: max(0, self._most - len(self.findings))]
        self.counts.update(part.counts)
        self.numbers.update(part.numbers)
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
            self.counts[kind] += 1
            self.numbers[f"{finding.severity}s"] += 1
            self.numbers["unread"] += kind in _HIDES
            if repair is not None:
                repair.covers[f"{finding.severity}s"] += 1
            if len(self.findings) < self._most:
                self.findings.append((finding, repair))

    def find_foreign(self, path: str, key: str) -> bool:
        """Return whether another program or a job has made a key; report it, unless it is a record of a job.

        System files are collected for `close`.
        """
        kind, writer = next(((kind, writer) for search, kind, writer in _FOREIGN if search(key)), (None, ""))
        if kind == "system-files":
            with self._lock:
                self.numbers["system_files"] += 1
                self._system_files += [key][: _EXAMPLES - len(self._system_files)]
        elif kind:
            self.find(kind, path, key, f"{writer} was interrupted, or is at work")
        return kind is not None

    def close(self) -> None:
        """Report the system files in one finding, after everything has been checked."""
        number, examples = self.numbers["system_files"], self._system_files
        if number:
            named = f" ({', '.join(key.rpartition('/')[2] for key in examples)}{', …' * (number > len(examples))})"
            what = f"{counted(number, 'file')} that operating systems leave beside others{named}"
            self.find("system-files", self.path, examples[0], what)

    def count(self, **numbers: int) -> None:
        """Add to the numbers of the report."""
        with self._lock:
            self.numbers.update(numbers)

    def report_progress(self, path: str, done: int, total: int) -> None:
        """Call the user's function for the progress, if there is one."""
        if self._progress is not None:
            self._progress(path, min(done, total), total)

    @contextmanager
    def listing(self, path: str, key: str) -> Iterator[None]:
        """Turn errors of listing and reading into findings."""
        try:
            yield
        except StoreError as error:
            self.find("unreadable", path, error.key or key, error.message)

    def repair(self, announce: Callable[[Finding], None] | None) -> dict[str, str]:
        """Carry out all repairs; return key and reason of those that fail, which do not stop the others."""
        repairs: dict[Repair, list[Finding]] = {}
        for finding, repair in self.findings:
            if repair is not None:
                repairs.setdefault(repair, []).append(finding)
        failed: dict[str, str] = {}
        for repair, findings in repairs.items():
            if announce is not None:
                for finding in findings:
                    announce(finding)
            try:
                repair.act()
            except TegulaError as error:
                failed.update((finding.key, str(error)) for finding in findings)
                continue
            for finding in findings:
                finding.repaired = True
            self.numbers.subtract(repair.covers)
        return failed

    def report(self) -> CheckReport:
        """Return the report of everything that has been found."""
        report = CheckReport(self.source, findings=[finding for finding, _ in self.findings], counts={**self.counts})
        for item in fields(CheckReport):
            if item.type == "int":
                setattr(report, item.name, self.numbers[item.name])
        return report
