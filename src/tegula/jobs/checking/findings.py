"""Findings: their kinds, the report of a check, and the examination that collects them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

from tegula.display.markup import badge, card, fold, more, muted, table, text
from tegula.errors import StoreError, TegulaError
from tegula.jobs.sharing import Share
from tegula.jobs.units import Progress
from tegula.runtime.quantities import counted, human_bytes, human_seconds
from tegula.stores import Store
from tegula.stores.capabilities import stored_key

__all__ = ["KINDS", "CheckReport", "Examination", "Finding", "Repair"]

Severity = Literal["error", "warning", "note"]


class Kind(NamedTuple):
    """A kind of finding: its severity, and its remedy."""

    severity: Severity
    remedy: str


_RESTORE: Final = "Restore it from a backup, or write it again from the source of its values."
_CONSOLIDATE: Final = "Consolidate the metadata again (Group.consolidate, or --repair)."
_DELETE_WHEN_IDLE: Final = "Delete it when the program that made it is not running."

KINDS: Final[Mapping[str, Kind]] = {
    # --- documents
    "metadata": Kind("error", "Correct the document by hand, or restore it from a backup; the chunks are not lost."),
    "missing-document": Kind("error", "Restore the document from a backup, or write one that describes the chunks."),
    "contradicting-documents": Kind("warning", "Delete the documents that do not describe the stored chunks."),
    "several-formats": Kind("note", "Keep both descriptions in step, or delete the one that no program reads."),
    "other-format": Kind("note", "Convert it, so that readers of the group's format see it."),
    "unsupported": Kind("warning", "Install the missing package, or check it with a program that supports it."),
    "unstated-option": Kind(
        "warning", "Convert the array, which writes the option, or add it to the document by hand."
    ),
    "unusual-document": Kind("note", "Other readers may refuse it: repair it, correct it by hand, or convert it."),
    "implicit-group": Kind("note", "Create the group's document, so that other programs see it as a group."),
    # --- chunks
    "unreadable": Kind("error", "Check permissions, links and the disk, then run the check again."),
    "damaged-chunk": Kind("error", _RESTORE),
    "damaged-index": Kind("error", _RESTORE),
    "overlapping-chunks": Kind("warning", "Compare the values with another copy, and write the shard again."),
    "trailing-bytes": Kind("warning", "Nothing reads them; writing the chunk again removes them."),
    "trailing-zeros": Kind("note", "Some readers refuse them; writing the chunks again removes them."),
    "missing-chunk": Kind("error", _RESTORE),
    "misplaced-chunks": Kind("error", "Set the field of the document, or give the chunks the keys that it states."),
    "obstructed-chunk": Kind("error", "Move away the directory or file in place of the chunk."),
    "chunk-outside": Kind("warning", "Nothing reads it: delete it, or enlarge the array if the rows belong to it."),
    "leftover-rows": Kind("note", "Nothing reads them, and the next append overwrites them; there is nothing to do."),
    # --- other keys
    "stray-key": Kind("warning", "Find out what it is, and move or delete it."),
    "stray-prefix": Kind("warning", "If these are an array's chunks, restore its document; else move or delete them."),
    "odd-name": Kind("warning", "Nothing reads it: rename it with another program, or leave it where it is."),
    "system-files": Kind("note", "Nothing reads them: delete them, or leave them where they are."),
    "foreign-temporary": Kind("warning", _DELETE_WHEN_IDLE),
    "foreign-lock": Kind("note", _DELETE_WHEN_IDLE),
    "interrupted-job": Kind("note", "Run the same command with --resume, or remove the job with `tegula jobs clean`."),
    "temporary-file": Kind("warning", "A writer was killed: writing there, or --repair, removes it."),
    "not-listed": Kind("note", "Only what documents name was checked; check other keys where they can be listed."),
    # --- bcolz and tables
    "wrong-counts": Kind("warning", "Readers do not use them; --repair writes the correct numbers."),
    "missing-directory": Kind("warning", "bcolz does not open the array without it; --repair makes it."),
    "missing-column": Kind("error", "Restore the column, or remove its name from the list of columns."),
    "unlisted-column": Kind("warning", "Add its name to the list of columns, or move it away."),
    "unequal-columns": Kind("warning", "The table has as many rows as the shortest; cut the others (Table.repair)."),
    # --- consolidated metadata
    "consolidated-differs": Kind("warning", _CONSOLIDATE),
    "consolidated-missing": Kind("warning", _CONSOLIDATE),
    "consolidated-gone": Kind("warning", _CONSOLIDATE),
}
"""Every kind of finding by name."""
_SHOWN: Final = 100  # findings in HTML
_COLOURS: Final[Mapping[Severity, str]] = {"error": "bad", "warning": "doubtful", "note": "plain"}  # in order
_EXAMPLES: Final = 3  # file names in one finding
_HIDES: Final = frozenset({"metadata", "missing-document", "unreadable", "unsupported"})
"""Kinds of findings after which some nodes are unknown."""
_FILES = r"\._[^/]*|\.DS_Store|\.directory|(?i:(?:eh)?thumbs\.db|desktop\.ini)"
_DIRECTORIES = r"__MACOSX|\.(?:AppleDouble|Spotlight-V100|Trashes|fseventsd)|\$RECYCLE\.BIN|@eaDir"
_FOREIGN: Final = [
    (re.compile(pattern).search, kind, writer)
    for pattern, kind, writer in [
        (r"(?:\A|/)\.tegula_(?:job/(?!plan\.json\Z).*|job-[^/]*/.*|sync/.*|complete)\Z", "", "a job of tegula"),
        (r"(?:\A|/)\.ncz(?:arr|group|array|attrs?)\Z", "", "the netCDF library, version 4.8.0"),
        (rf"(?:\A|/)(?:(?:{_FILES})\Z|(?:{_DIRECTORIES})/)", "system-files", "an operating system"),
        (r"\.[0-9a-f]{32}\.partial\Z", "foreign-temporary", "a writer of zarr-python"),
        (r"#[0-9]+\Z", "foreign-temporary", "a writer of the library object_store"),
        (r"(?:\A|/)\.tegula_job/plan\.json\Z", "interrupted-job", "a job of tegula"),
        (r"\.__lock\Z", "foreign-lock", "a writer of TensorStore"),
    ]
]


@dataclass(slots=True, repr=False)
class Finding:
    """A finding of `tegula.check`.

    Parameters
    ----------
    kind : str
        Its kind, from the table in "Check and repair".
    severity : {"error", "warning", "note"}
        Errors are lost or damaged data, warnings need attention, notes are harmless.
    path : str
        Path of the node in the store.
    key : str
        The key in question; one that ends in ``/`` stands for all keys below.
    message, remedy : str
        The fault, and what to do about it.
    repair : str or None
        Its repair in words, if it can be repaired.
    repaired : bool
        Whether it has been repaired.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> group = tegula.create_group(store)
    >>> generation = store.set("data/part-1", b"")
    >>> for found in tegula.check(store).findings:
    ...     print(found)
    ...     print(found.remedy)
    warning: stray-prefix: data/: there is one key below it, but no node
    If these are an array's chunks, restore its document; else move or delete them.
    """

    kind: str
    severity: Severity
    path: str
    key: str
    message: str
    remedy: str
    repair: str | None = None
    repaired: bool = False

    def __str__(self) -> str:
        state = "repaired" if self.repaired else self.severity
        return f"{state}: {self.kind}: {self.key or self.path or '/'}: {self.message}"

    def __repr__(self) -> str:
        return f"<tegula.Finding {self}>"


@dataclass(slots=True, repr=False)
class CheckReport:
    """The report of `tegula.check`.

    Parameters
    ----------
    source : str
        URL of the node.
    groups, arrays, tables : int
        Nodes that could be read.
    chunks, missing_chunks : int
        Chunks that were decoded, inner chunks of shards counted one by one; and chunks (shards) that are absent and
        read as the fill value.
    nbytes_stored, nbytes_decoded : int
        Bytes of the chunks as stored, and decoded.
    findings : list of Finding
        The findings, up to `max_findings`.
    counts : dict of str to int
        Number of findings of each kind, including those not kept in `findings`.
    errors, warnings, notes : int
        Number of findings of each severity that are not repaired.
    failed_repairs : dict of str to str
        Key and reason of each repair that failed.
    arrays_without_checksum : int
        Arrays with chunks that have no checksum, in which altered values may go unnoticed.
    seconds : float
        Duration.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, [1, 2, 3], format="zarr2")
    >>> generation = store.set("0", b"damaged")
    >>> report = tegula.check(store)
    >>> report.ok, [(found.kind, found.key) for found in report.findings]
    (False, [('damaged-chunk', '0')])
    """

    source: str
    groups: int = 0
    arrays: int = 0
    tables: int = 0
    chunks: int = 0
    missing_chunks: int = 0
    nbytes_stored: int = 0
    nbytes_decoded: int = 0
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    failed_repairs: dict[str, str] = field(default_factory=dict)
    arrays_without_checksum: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """``True`` if no errors are left."""
        return not self.errors

    @property
    def summary(self) -> str:
        """One line with the counts and the result."""
        nodes = [(self.groups, "group"), (self.tables, "table"), (self.arrays, "array")]
        severities = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")]
        checked, found = (
            ", ".join(counted(number, name) for number, name in several if number) for several in (nodes, severities)
        )
        repaired = sum(finding.repaired for finding in self.findings)
        done = f", {repaired} repaired" if repaired else ""
        return f"{checked or 'no nodes'}, {counted(self.chunks, 'chunk')}: {found or 'nothing wrong'}{done}"

    @property
    def checksum_note(self) -> str:
        """A sentence on arrays without checksums; empty if all arrays with chunks have them.

        Examples
        --------
        >>> CheckReport("memory:", arrays=3, arrays_without_checksum=1).checksum_note
        '1 of 3 arrays has no checksums'
        """
        number = self.arrays_without_checksum
        if not number:
            return ""
        have = "has" if number == 1 else "have"
        return f"{number} of {counted(self.arrays, 'array')} {have} no checksums"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values.

        Examples
        --------
        >>> CheckReport("memory:").as_dict()["ok"]
        True
        """
        members = asdict(self)
        findings = members.pop("findings")
        return {"ok": self.ok, **members, "findings": findings}

    def __str__(self) -> str:
        left_out = Counter(self.counts)
        left_out.subtract(Counter(finding.kind for finding in self.findings))
        more = [f"... and {number} more of the kind {kind}" for kind, number in left_out.items() if number > 0]
        return "\n".join([f"{self.source}: {self.summary}", *map(str, self.findings), *more])

    def __repr__(self) -> str:
        return f"<tegula.CheckReport {self.source!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        state = badge("good", "sound") if self.ok else badge("bad", counted(self.errors, "error"))
        missing = f", {counted(self.missing_chunks, 'chunk')} not stored" if self.missing_chunks else ""
        read, decoded = human_bytes(self.nbytes_stored), human_bytes(self.nbytes_decoded)
        facts = [
            ("Found", text(self.summary)),
            ("Read", f"{read}, {decoded} decoded{missing}, {human_seconds(self.seconds)}"),
        ]
        if self.checksum_note:
            facts.append(("Checksums", text(self.checksum_note)))
        ordered = sorted(self.findings, key=lambda finding: [*_COLOURS].index(finding.severity))
        rows = [_row(finding) for finding in ordered[:_SHOWN]]
        total = sum(self.counts.values())
        body = table(rows) + (more(total - len(rows), "findings") if total > len(rows) else "")
        findings = fold(f"<b>Findings</b> {muted(total)}", body, opened=True) if rows else ""
        return card("tegula.CheckReport", f"{state} {text(self.source, 120)}", table(facts), findings)


def _row(finding: Finding) -> tuple[str, str]:
    """Return the cells of one finding: severity; key, message and remedy."""
    state = badge("good", "repaired") if finding.repaired else badge(_COLOURS[finding.severity], finding.severity)
    key = f"<b>{text(finding.key or finding.path or '/', 120)}</b> {muted(finding.kind)}"
    remedy = finding.repair or finding.remedy
    if finding.repair and not finding.repaired:
        remedy = f"repair: {remedy}"
    return state, f"{key}<br>{text(finding.message, 300)}<br>{muted(remedy)}"


@dataclass(slots=True, eq=False)
class Repair:
    """A repair of one or several findings that loses no data."""

    text: str
    act: Callable[[], None]  # on condition that the stored state is still as found
    covers: Counter[str] = field(default_factory=Counter)  # errors, warnings and notes, also those that are not kept


@dataclass(slots=True, eq=False)
class Examination:
    """The state of one check, to which several threads add findings.

    Nodes of a remote store are examined together, each in a `part`, whose results are added in order.
    """

    store: Store
    path: str
    most: int  # findings to keep
    progress: Progress | None
    allow_pickle: bool
    missing_chunks: str | None = None
    share: Share[Any] | None = None  # checks the chunks, if not this process does
    findings: list[tuple[Finding, Repair | None]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # findings of each kind
    numbers: Counter[str] = field(default_factory=Counter)  # of the report; and others, as `unread` nodes
    system_files: list[str] = field(default_factory=list)  # a few examples
    lock: Lock = field(default_factory=Lock)

    @property
    def source(self) -> str:
        """The URL of what is checked."""
        return f"{self.store.url}/{self.path}".rstrip("/")

    def part(self) -> Examination:
        """Return an examination of a part, which another thread may carry out; see `add`."""
        how = self.allow_pickle, self.missing_chunks, self.share
        return Examination(self.store, self.path, self.most, self.progress, *how)

    def add(self, part: Examination) -> None:
        """Add the results of a part, as if it had been examined here."""
        self.findings += part.findings[: max(0, self.most - len(self.findings))]
        self.counts.update(part.counts)
        self.numbers.update(part.numbers)
        self.system_files += part.system_files[: _EXAMPLES - len(self.system_files)]

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
        key = key if key.endswith("/") else stored_key(self.store, key)  # of a draft, the file that is there
        finding = Finding(kind, severity or usual.severity, path, key, message, usual.remedy, text)
        with self.lock:
            self.counts[kind] += 1
            self.numbers[f"{finding.severity}s"] += 1
            self.numbers["unread"] += kind in _HIDES
            if repair is not None:
                repair.covers[f"{finding.severity}s"] += 1
            if len(self.findings) < self.most:
                self.findings.append((finding, repair))

    def find_foreign(self, path: str, key: str) -> bool:
        """Return whether another program or a job has made a key; report it, unless it belongs there."""
        kind, writer = next(((kind, writer) for search, kind, writer in _FOREIGN if search(key)), (None, ""))
        if kind == "system-files":  # reported together, by `close`
            with self.lock:
                self.numbers["system_files"] += 1
                self.system_files += [key][: _EXAMPLES - len(self.system_files)]
        elif kind:
            self.find(kind, path, key, f"{writer} was interrupted, or is at work")
        return kind is not None

    def close(self) -> None:
        """Report the system files in one finding, after everything has been checked."""
        number, examples = self.numbers["system_files"], self.system_files
        if number:
            named = f" ({', '.join(key.rpartition('/')[2] for key in examples)}{', …' * (number > len(examples))})"
            what = f"{counted(number, 'file')} that operating systems leave beside others{named}"
            self.find("system-files", self.path, examples[0], what)

    def count(self, **numbers: int) -> None:
        """Add to the numbers of the report."""
        with self.lock:
            self.numbers.update(numbers)

    def report_progress(self, path: str, done: int, total: int) -> None:
        """Call the user's function for the progress, if there is one."""
        if self.progress is not None:
            self.progress(path, min(done, total), total)

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
        for number in fields(CheckReport):
            if number.type == "int":
                setattr(report, number.name, self.numbers[number.name])
        return report
