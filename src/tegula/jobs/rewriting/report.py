"""The report of a conversion, and what reports of conversions and syncs have in common."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tegula.display.markup import badge, card, fold, more, muted, page, table, text
from tegula.jobs.rewriting.estimating import Estimate
from tegula.jobs.rewriting.passes import Passes
from tegula.runtime.quantities import counted, human_bytes, human_seconds

__all__ = ["ConvertReport", "ConvertedArray", "Report", "table_of_arrays"]


_SHOWN: Final = 100  # arrays, and notes and failures, in HTML


@dataclass(frozen=True, slots=True, repr=False)
class ConvertedArray:
    """A converted array, as `ConvertReport` lists it.

    Parameters
    ----------
    path : str
        Path below the source; ``""`` for the source itself.
    shape, chunks : tuple of int
        Shape and chunks of the new array.
    nbytes : int
        Bytes of its elements in memory.
    nbytes_before, nbytes_after : int
        Bytes stored in the source (0 if not counted, since the store can't be listed) and in the target (0
        in a dry run).
    verified : bool or None
        Whether all values were read back and are equal; ``None`` without verification.
    notes : tuple of str
        Notes on what could not be kept.
    chunks_copied : int
        Number of chunks that were copied without decoding (0 in a dry run).
    chunks_stored : int
        Number of chunks, or shards, that the target stores (0 in a dry run).
    shards : tuple of int or None
        Shape of the new array's shards, if it has shards.
    codecs : tuple of str
        Names of the new array's codecs; with shards, of the inner chunks' codecs.
    digest : str
        The checksum of the values that verification has read back, as of `tegula.checksum`; empty without verification,
        or if they differ.
    dtype : str
        Data type of the new array.
    max_error, max_relative_error : float or None
        The largest difference of a new value, unpacked, and the largest one relative to the value; ``None`` if no
        change of values was requested.

    Examples
    --------
    >>> ConvertedArray("t", (365, 180), (100, 90), 262_800, 40_000, 37_000, verified=True)
    <tegula.ConvertedArray '/t' (365, 180) in chunks (100, 90), 39.1 KiB stored before, 36.1 KiB after, verified>
    """

    path: str
    shape: tuple[int, ...]
    chunks: tuple[Any, ...]
    nbytes: int
    nbytes_before: int
    nbytes_after: int
    verified: bool | None = None
    notes: tuple[str, ...] = ()
    chunks_copied: int = 0
    chunks_stored: int = 0
    shards: tuple[Any, ...] | None = None
    codecs: tuple[str, ...] = ()
    digest: str = ""
    dtype: str = ""
    max_error: float | None = None
    max_relative_error: float | None = None

    @property
    def error(self) -> str:
        """The largest errors as text; empty if no change of values was requested.

        Examples
        --------
        >>> ConvertedArray("t", (4,), (4,), 8, 32, 8, max_error=0.005, max_relative_error=1.7e-5).error
        '0.005 (1.7e-05 of the value)'
        """
        if self.max_error is None:
            return ""
        return f"{self.max_error:.3g} ({self.max_relative_error or 0:.2g} of the value)"

    def __repr__(self) -> str:
        sizes = f"{human_bytes(self.nbytes_before)} stored before, {human_bytes(self.nbytes_after)} after"
        verified = {None: "", True: ", verified", False: ", differs"}[self.verified]
        notes = f", {counted(len(self.notes), 'note')}" if self.notes else ""
        where = f"'/{self.path}' {self.shape} in chunks {self.chunks}"
        error = f", largest error {self.error}" if self.error else ""
        return f"<tegula.ConvertedArray {where}, {sizes}{verified}{error}{notes}>"


class Report:
    """What the reports of conversions and syncs have in common."""

    __slots__ = ()

    dry_run: bool
    arrays: Any
    failed: dict[str, str]
    source: str
    target: str

    @property
    def ok(self) -> bool:
        """``True`` if everything was done, and, with ``verify``, found equal to the source."""
        return not self.failed and not self.different

    @property
    def different(self) -> list[str]:
        """Paths of the arrays that verification found different from the source."""
        return [array.path for array in self.arrays if array.verified is False]

    @property
    def summary(self) -> str:
        """One line on everything."""
        raise NotImplementedError

    @property
    def _is_verified(self) -> bool:
        """Whether all arrays were read back and found equal to the source."""
        return bool(self.arrays) and all(array.verified for array in self.arrays)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return the report as a JSON document.

        Examples
        --------
        >>> print(ConvertReport("zarr3", groups=["a"]).to_json()[:15])
        {
          "ok": true,
        """
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_html(self) -> str:
        """Return the report as an HTML document with all arrays, notes and failures, which needs no other file.

        Examples
        --------
        >>> ConvertReport("zarr3", groups=["a"]).to_html().startswith("<!DOCTYPE html>")
        True
        """
        return page(f"tegula.{type(self).__name__} {self.target}", self._card(None))

    def __repr__(self) -> str:
        return f"<tegula.{type(self).__name__}: {self.summary}>"

    def _repr_html_(self) -> str:
        return self._card(_SHOWN)

    def _card(self, most: int | None) -> str:
        """Return HTML with a limited number of arrays, notes and failures, or with all."""
        raise NotImplementedError

    def _framed(self, headline: str, facts: list[tuple[str, str]], *bodies: str) -> str:
        """Return HTML that says what the report is about, and whether it is good."""
        good = badge("good", "done") if self.ok else badge("bad", "failed")
        state = badge("plain", "dry run") if self.dry_run else good
        places = [(name, text(url)) for name, url in (("Source", self.source), ("Target", self.target)) if url]
        return card(f"tegula.{type(self).__name__}", f"{state} {text(headline)}", table(places + facts), *bodies)


def table_of_arrays(number: int, rows: list[list[str]], heads: list[str]) -> str:
    """Return HTML with some of the arrays of a report, and how many there are."""
    left = more(number - len(rows), "arrays") if number > len(rows) else ""
    return fold(f"<b>Arrays</b> {muted(number)}", table(rows, heads), opened=True) + left


@dataclass(slots=True, repr=False)
class ConvertReport(Report):
    """The report of `tegula.convert`.

    Parameters
    ----------
    format : str
        The target's format.
    dry_run : bool
        Whether nothing was written.
    arrays : list of ConvertedArray
        The arrays that were converted, in order.
    groups : list of str
        Paths of the groups that were created.
    failed : dict of str to str
        Path and reason of each array of a hierarchy that could not be converted.
    notes : dict of str to list of str
        Notes by path of the group: what could not be kept, and at the top (``""``) how many arrays did not fit the
        requested chunks or shards.
    seconds : float
        Duration, including verification.
    units_left : int
        Number of units that are left to other parts of the job, or to a resumed one if an array could not be read;
        until they are done the target is incomplete.
    estimate : Estimate
        In a dry run, what the conversion would take.
    source, target : str
        URLs of the nodes.
    passes : dict of str to Passes
        In a dry run with ``max_memory``, by path, how the values of each array would get their new chunks.

    Examples
    --------
    >>> import tegula
    >>> source = tegula.MemoryStore()
    >>> tegula.save(source, [1, 2, 3], format="zarr2")
    >>> report = tegula.convert(source, tegula.MemoryStore(), format="zarr3", verify=True)
    >>> report.ok, report.arrays[0].shape
    (True, (3,))
    >>> report
    <tegula.ConvertReport: 1 array converted to zarr3, ... in memory, ... stored in 1 chunk (... before), ... ms>
    """

    format: str
    dry_run: bool = False
    arrays: list[ConvertedArray] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    units_left: int = 0
    estimate: Estimate = field(default_factory=Estimate)
    source: str = ""
    target: str = ""
    passes: dict[str, Passes] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements of all converted arrays in memory."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def nbytes_before(self) -> int:
        """Bytes that the source stores for all converted arrays."""
        return sum(array.nbytes_before for array in self.arrays)

    @property
    def nbytes_after(self) -> int:
        """Bytes that the target stores for all converted arrays (0 in a dry run)."""
        return sum(array.nbytes_after for array in self.arrays)

    @property
    def chunks_stored(self) -> int:
        """Number of chunks, or shards, that the target stores (0 in a dry run)."""
        return sum(array.chunks_stored for array in self.arrays)

    @property
    def chunks_copied(self) -> int:
        """Number of chunks that were copied without decoding (0 in a dry run)."""
        return sum(array.chunks_copied for array in self.arrays)

    @property
    def summary(self) -> str:
        """One line: what was converted, the totals, and the time it took.

        Examples
        --------
        >>> array = ConvertedArray("", (4,), (4,), 2048, 1536, 1024, chunks_copied=1, chunks_stored=1)
        >>> ConvertReport("zarr3", arrays=[array], groups=["a", "b"], seconds=0.25).summary
        '1 array and 2 groups converted to zarr3, 2.0 KiB in memory, 1.0 KiB stored in 1 chunk (1.5 KiB before), 250 ms'
        """
        parts = [self._headline()]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        if self.different:
            parts.append(f"{len(self.different)} different from the source")
        elif self._is_verified:
            parts.append("verified")
        parts.append(f"{human_bytes(self.nbytes)} in memory")
        before = f" ({human_bytes(self.nbytes_before)} before)" if self.nbytes_before or not self.nbytes_after else ""
        if self.dry_run:
            parts += [f"{human_bytes(self.nbytes_before)} stored", self.estimate.summary]
        else:
            chunks = counted(self.chunks_stored, "chunk")
            parts.append(f"{human_bytes(self.nbytes_after)} stored in {chunks}{before}")
        if self.units_left:
            others = "a resumed job" if self.failed else "other parts"
            parts.append(f"{counted(self.units_left, 'unit')} left to {others}")
        parts += [] if self.dry_run else [human_seconds(self.seconds)]
        return ", ".join(parts)

    def _headline(self) -> str:
        nodes = counted(len(self.arrays), "array")
        if self.groups:
            nodes += f" and {counted(len(self.groups), 'group')}"
        return f"{nodes} {'would be converted' if self.dry_run else 'converted'} to {self.format}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, including the totals.

        Examples
        --------
        >>> ConvertReport("zarr3").as_dict()["ok"]
        True
        """
        names = ("nbytes", "nbytes_before", "nbytes_after", "chunks_stored", "chunks_copied")
        return {"ok": self.ok, **asdict(self), "totals": {name: getattr(self, name) for name in names}}

    def _all_notes(self) -> list[tuple[str, str]]:
        """Return path and text of all notes, those of groups and of arrays."""
        groups = [(name, note) for name, several in self.notes.items() for note in several]
        return groups + [(array.path, note) for array in self.arrays for note in array.notes]

    def __str__(self) -> str:
        lines = [f"note: /{path}: {note}" for path, note in self._all_notes()]
        lines += [f"/{path}: {passes.summary}" for path, passes in self.passes.items()]
        lines += [f"failed: /{path}: {reason}" for path, reason in self.failed.items()]
        return "\n".join([self.summary, *lines, *(f"different: /{path}" for path in self.different)])

    def _card(self, most: int | None) -> str:
        stored = human_bytes(self.nbytes_before)
        if not self.dry_run:
            stored += f" before, {human_bytes(self.nbytes_after)} in {counted(self.chunks_stored, 'chunk')} after"
        amounts = [("In memory", human_bytes(self.nbytes)), ("Stored", stored), ("Time", human_seconds(self.seconds))]
        failed = _texts("Failed", [*self.failed.items()], most, opened=True)
        notes = _texts("Notes", self._all_notes(), most, opened=False)
        return self._framed(self._headline(), amounts, failed, notes, self._table(most))

    def _table(self, most: int | None) -> str:
        """Return the table of arrays; it has columns for errors and checksums if an array has one."""
        heads = ["Array", "Shape", "Data type", "Chunks", "Stored before", "After", "Copied as is", "Verified"]
        more_heads = {"Largest error": "error", "Checksum": "digest"}
        extra = {head: name for head, name in more_heads.items() if any(getattr(array, name) for array in self.arrays)}
        rows = []
        for array in self.arrays[:most]:
            verified = {None: "–", True: "yes", False: badge("bad", "different")}[array.verified]
            after, copied = human_bytes(array.nbytes_after), f"{array.chunks_copied} of {array.chunks_stored}"
            facts = [text(array.shape, 60), text(array.dtype, 30), text(array.chunks, 60)]
            facts.append(human_bytes(array.nbytes_before))
            written = ["–", "–"] if self.dry_run else [after, copied]
            others = [text(getattr(array, name)) or "–" for name in extra.values()]
            rows.append([f"/{text(array.path, 80)}", *facts, *written, verified, *others])
        return table_of_arrays(len(self.arrays), rows, [*heads, *extra])


def _texts(title: str, texts: list[tuple[str, str]], most: int | None, *, opened: bool) -> str:
    """Return HTML for paths and their texts; empty if there are none."""
    if not texts:
        return ""
    rows = [(f"/{text(path, 80)}", text(what, 300)) for path, what in texts[:most]]
    left = len(texts) - len(rows)
    body = table(rows) + (more(left, "lines") if left else "")
    return fold(f"<b>{title}</b> {muted(len(texts))}", body, opened=opened)
