"""The report of a sync: what was transferred, or would be."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from tegula.display.markup import table, text
from tegula.jobs.rewriting.report import Report, table_of_arrays
from tegula.runtime.quantities import counted, human_bytes, human_seconds

__all__ = ["SyncReport", "SyncedArray", "together"]

_BOXES: Final = 8  # of an array, in texts and HTML
_ACTIONS: Final = "new", "replaced", "changed", "same"  # of two, the first says what both did
_ADDED: Final = (
    "chunks_changed", "nbytes_changed", "chunks_written", "chunks_deleted", "documents", "nbytes_read",
    "nbytes_written",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class SyncedArray:
    """What a sync has done with an array, or would do, as `SyncReport` lists it.

    Parameters
    ----------
    path : str
        Path below the source; ``""`` for the source itself.
    action : {"new", "changed", "same", "replaced"}
        Whether the array was new in the target, changed in place, in step already, or replaced as a whole.
    why : tuple of str
        The reasons, in words.
    chunks, chunks_changed : int
        Number of chunks, or shards, that the source stores, and of those that are new, changed or gone since the last
        sync.
    nbytes_changed : int
        Bytes of the new and changed chunks as they are stored.
    chunks_written, chunks_deleted : int
        Number of chunks of the target that are written and deleted.
    documents : int
        Number of documents that are written.
    nbytes_read, nbytes_written : int
        Bytes read and written: of stored chunks if these are copied as they are, else of elements (0 in a dry run).
    boxes : tuple
        In a dry run, boxes of elements that cover the changed chunks: start and stop along each axis.
    attributes : dict of str to str
        By name, which attributes are ``"new"``, ``"changed"`` or ``"deleted"``.
    overwritten : tuple of str
        What others have changed in the target, and the sync overwrites with ``force``.
    verified : bool or None
        Whether both sides were read and are equal; ``None`` without verification.
    notes : tuple of str
        Notes on what the target's format could not keep.

    Examples
    --------
    >>> SyncedArray("t", "changed", ("3 chunks are new",), chunks=30, chunks_changed=3, nbytes_changed=3000)
    <tegula.SyncedArray '/t' changed: 3 chunks are new>
    """

    path: str
    action: str
    why: tuple[str, ...] = ()
    chunks: int = 0
    chunks_changed: int = 0
    nbytes_changed: int = 0
    chunks_written: int = 0
    chunks_deleted: int = 0
    documents: int = 0
    nbytes_read: int = 0
    nbytes_written: int = 0
    boxes: tuple[tuple[tuple[int, int], ...], ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    overwritten: tuple[str, ...] = ()
    verified: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """How many values are written and deleted, documents included; as many are read at most.

        Examples
        --------
        >>> SyncedArray("t", "changed", chunks_written=3, chunks_deleted=1, documents=1).requests
        5
        """
        return self.chunks_written + self.chunks_deleted + self.documents

    @property
    def reason(self) -> str:
        """The reasons in one line.

        Examples
        --------
        >>> SyncedArray("t", "changed", ("1 chunk is new",), attributes={"units": "changed"}).reason
        "1 chunk is new; attribute 'units' is changed"
        """
        kinds: dict[str, list[str]] = {}
        for name, kind in self.attributes.items():
            kinds.setdefault(kind, []).append(repr(name))
        told = [
            f"attribute{'s' if len(names) > 1 else ''} {', '.join(names)} {'are' if len(names) > 1 else 'is'} {kind}"
            for kind, names in kinds.items()
        ]
        return "; ".join([*self.why, *told])

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<tegula.SyncedArray '/{self.path}' {self.action}{reason}>"


def together(before: SyncedArray, after: SyncedArray) -> SyncedArray:
    """Return the entry for what two rounds of a sync have done with an array.

    Examples
    --------
    >>> new = SyncedArray("t", "new", ("it is not there",), chunks=3, chunks_written=3)
    >>> made = together(new, SyncedArray("t", "changed", ("1 chunk is new",), chunks=4, chunks_written=1))
    >>> made, made.chunks, made.chunks_written
    (<tegula.SyncedArray '/t' new: it is not there; 1 chunk is new>, 4, 4)
    """
    sums: dict[str, Any] = {name: getattr(before, name) + getattr(after, name) for name in _ADDED}
    return replace(
        after,
        action=min(before.action, after.action, key=_ACTIONS.index),
        why=(*dict.fromkeys((*before.why, *after.why)),),
        attributes={**before.attributes, **after.attributes},
        overwritten=(*dict.fromkeys((*before.overwritten, *after.overwritten)),),
        **sums,
    )


@dataclass(slots=True, repr=False)
class SyncReport(Report):
    """The report of `tegula.sync` or `tegula.diff`.

    Parameters
    ----------
    source, target : str
        URLs of the nodes.
    format : str
        The target's format.
    dry_run : bool
        Whether nothing was written.
    arrays : list of SyncedArray
        The arrays of the source, in order.
    groups : dict of str to str
        Path of each group that is ``"new"`` or has other attributes (``"changed"``).
    extra : list of str
        Paths of the nodes that the target has and the source does not.
    deleted : list of str
        Paths of those that were deleted.
    failed : dict of str to str
        Path and reason of each array that could not be synced.
    notes : dict of str to list of str
        Notes by path of the group.
    changing : bool
        Whether the source changed at the end, so that the next sync has something to do.
    seconds : float
        Duration.
    units_left : int
        Number of units that are left to other parts.
    overwritten : dict of str to tuple of str
        By path, what others have changed in the target, and the sync overwrites with ``force``.

    Examples
    --------
    >>> import tegula
    >>> source, target = tegula.MemoryStore(), tegula.MemoryStore()
    >>> tegula.save(source, [1, 2, 3])
    >>> tegula.sync(source, target).arrays[0].action, tegula.sync(source, target).arrays[0].action
    ('new', 'same')
    """

    source: str = ""
    target: str = ""
    format: str = ""
    dry_run: bool = False
    arrays: list[SyncedArray] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    changing: bool = False
    seconds: float = 0.0
    units_left: int = 0
    overwritten: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_same(self) -> bool:
        """Whether there was, or is, nothing to transfer; nodes that only the target has do not count."""
        return not (self.groups or self.deleted or any(array.action != "same" for array in self.arrays))

    @property
    def summary(self) -> str:
        """One line: what was transferred, or would be.

        Examples
        --------
        >>> SyncReport(arrays=[SyncedArray("t", "same")], seconds=0.5).summary
        '1 array, nothing to do, 500 ms'
        """
        parts = [counted(len(self.arrays), "array")]
        numbers = {kind: sum(array.action == kind for array in self.arrays) for kind in ("new", "changed", "replaced")}
        parts += [f"{number} {kind}" for kind, number in numbers.items() if number]
        parts += [f"{counted(len(self.groups), 'group')} new or changed"] if self.groups else []
        counts = {
            name: sum(getattr(array, name) for array in self.arrays) for name in ("chunks_written", "chunks_deleted")
        }
        written, deleted = ("to write", "to delete") if self.dry_run else ("written", "deleted")
        if counts["chunks_written"]:
            nbytes = human_bytes(sum(array.nbytes_changed for array in self.arrays))
            parts.append(f"{counted(counts['chunks_written'], 'chunk')} {written}, {nbytes} of the source have changed")
        for number, noun in ((counts["chunks_deleted"], "chunk"), (len(self.deleted), "node")):
            parts += [f"{counted(number, noun)} {deleted}"] if number else []
        parts += [f"{len(self.extra)} more in the target"] if self.extra and not self.deleted else []
        if self.dry_run and not self.is_same:
            documents = counted(sum(array.documents for array in self.arrays), "document")
            parts.append(f"{counted(sum(array.requests for array in self.arrays), 'request')} with {documents}")
        parts += ["nothing to do"] if self.is_same and not self.failed else []
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += ["different from the source"] if self.different else ["verified"] if self._is_verified else []
        parts += ["the source changes"] if self.changing else []
        parts += [f"{self.units_left} left to other parts"] if self.units_left else []
        return ", ".join([*parts, *([] if self.dry_run else [human_seconds(self.seconds)])])

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values.

        Examples
        --------
        >>> SyncReport().as_dict()["ok"]
        True
        """
        values = {"ok": self.ok, "is_same": self.is_same, **asdict(self)}
        for told, array in zip(values["arrays"], self.arrays):
            told["requests"] = array.requests
        return values

    def lines(self) -> list[str]:
        """Return a line for each node that is not the same, and for each of its boxes, in a limited number.

        Examples
        --------
        >>> SyncReport(arrays=[SyncedArray("t", "new", ("it is not there",))], extra=["old"]).lines()
        ['new: /t: it is not there', 'only in the target: /old']
        """
        told = list[str]()
        for array in self._changed():
            told.append(f"{array.action}: /{array.path}{f': {array.reason}' if array.reason else ''}")
            told += [f"  {_box(box)}" for box in array.boxes[:_BOXES]]
            told += [f"  and {len(array.boxes) - _BOXES} more boxes"] if len(array.boxes) > _BOXES else []
        return [*self._of_groups(), *told, *self._others()]

    def _changed(self) -> list[SyncedArray]:
        return [array for array in self.arrays if array.action != "same"]

    def _of_groups(self) -> list[str]:
        return [f"{kind}: /{path} (group)" for path, kind in self.groups.items()]

    def _others(self) -> list[str]:
        told = [f"overwritten: /{path}: {what}" for path, several in self.overwritten.items() for what in several]
        told += [f"deleted: /{path}" for path in self.deleted]
        told += [f"only in the target: /{path}" for path in self.extra if path not in self.deleted]
        told += [f"note: /{path}: {note}" for path, several in self.notes.items() for note in several]
        told += [f"failed: /{path}: {reason}" for path, reason in self.failed.items()]
        return told + [f"different: /{path}" for path in self.different]

    def __str__(self) -> str:
        return "\n".join([self.summary, *self.lines()])

    def _card(self, most: int | None) -> str:
        rows = []
        for array in self._changed()[:most]:
            boxes = ", ".join(_box(box) for box in array.boxes[:_BOXES]) + (" …" if len(array.boxes) > _BOXES else "")
            numbers = f"{array.chunks_changed} of {array.chunks}", human_bytes(array.nbytes_changed)
            facts = text(array.reason, 300), text(boxes, 300) or "–"
            rows.append([f"/{text(array.path, 80)}", array.action, *numbers, str(array.requests), *facts])
        heads = ["Array", "", "Chunks changed", "Bytes", "Requests", "Why", "Boxes"]
        arrays = table_of_arrays(len(self._changed()), rows, heads) if rows else ""
        others = [[text(line, 300)] for line in (*self._of_groups(), *self._others())]
        return self._framed(self.summary, [], arrays, table(others[:most]) if others else "")


def _box(box: tuple[tuple[int, int], ...]) -> str:
    return f"[{', '.join(f'{start}:{stop}' for start, stop in box)}]"
