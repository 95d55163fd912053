"""Findings: their kinds, and the report of a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple

from tegula.display.info import counted, human_bytes, human_seconds
from tegula.display.markup import badge, card, fold, more, muted, table, text

__all__ = ["KINDS", "CheckReport", "Finding", "Kind", "Severity"]

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
    "unusual-document": Kind("note", "Other readers may refuse it: correct it by hand, or convert the node."),
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
        '1 of 3 arrays has no checksums: values altered in storage are noticed only where they no longer decode'
        """
        number = self.arrays_without_checksum
        if not number:
            return ""
        have = "has" if number == 1 else "have"
        effect = "values altered in storage are noticed only where they no longer decode"
        return f"{number} of {counted(self.arrays, 'array')} {have} no checksums: {effect}"

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


_SHOWN: Final = 100  # findings in HTML
_COLOURS: Final[Mapping[Severity, str]] = {"error": "bad", "warning": "doubtful", "note": "plain"}  # in order


def _row(finding: Finding) -> tuple[str, str]:
    """Return the cells of one finding: severity; key, message and remedy."""
    state = badge("good", "repaired") if finding.repaired else badge(_COLOURS[finding.severity], finding.severity)
    key = f"<b>{text(finding.key or finding.path or '/', 120)}</b> {muted(finding.kind)}"
    remedy = (
        f"repair: {finding.repair}" if finding.repair and not finding.repaired else finding.repair or finding.remedy
    )
    return state, f"{key}<br>{text(finding.message, 300)}<br>{muted(remedy)}"
