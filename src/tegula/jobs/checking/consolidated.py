"""Check of consolidated metadata: it is compared with the documents of the members."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tegula.errors import NotFoundError, TegulaError
from tegula.formats import Format
from tegula.hierarchy.group import Group
from tegula.jobs.checking.documents import Visit
from tegula.jobs.checking.examination import Repair
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores.interface import is_key

__all__ = ["ConsolidatedCheck", "consolidated_checks"]


class ConsolidatedCheck:
    """The consolidated metadata of a group, compared while its members are checked.

    It is repaired by consolidating again, if all members can be read and no deleted node has left keys: otherwise the
    old metadata may hold the only description of some data.
    """

    def __init__(self, group: Visit, fmt: Format, entries: Mapping[str, Mapping[str, bytes]]) -> None:
        self._group = group
        self._fmt = fmt
        self._entries = entries
        self._unread = group.exam.numbers["unread"]
        self._complete = True
        self._seen: set[str] = set()
        self._findings: list[tuple[str, str, str]] = []  # name, kind and message, in any order

    def compare(self, visit: Visit, reachable: bool) -> None:
        """Compare a node with its entry; one that can't be read is only noted."""
        name = visit.path[len(self._group.prefix) :]
        metadata = next((node for fmt, node in visit.nodes if fmt is self._fmt), None)
        if metadata is None:
            if visit.damaged and not visit.nodes:
                self._seen.add(name)
                self._complete = False
            return
        self._seen.add(name)
        entry = self._entries.get(name)
        if entry is None:
            if name and reachable:
                self._findings.append((name, "consolidated-missing", f"{name!r} exists, but is not in the copy"))
            return
        if not reachable:
            self._complete = False  # metadata made anew would leave out the members of an implicit group
        own = {key: raw for key, raw in visit.documents.items() if key in self._fmt.keys}
        if not _alike(own, entry, self._fmt, metadata):
            message = f"the copy of {name or 'the group itself'!r} differs from the document"
            self._findings.append((name, "consolidated-differs", message))

    def close(self) -> None:
        """Report the findings, after all members have been checked."""
        group, exam = self._group, self._group.exam
        self._findings.sort()  # members of a remote store come in any order
        for name in [name for name in self._entries if name and name not in self._seen]:
            message = f"the node {name!r} no longer exists"
            if is_key(name) and next(exam.store.list_prefix(f"{group.prefix}{name}/"), None) is not None:
                self._complete = False
                message += ", but there are keys below it: the copy may be their only description"
            self._findings.append((name, "consolidated-gone", message))
        complete = self._complete and exam.numbers["unread"] == self._unread
        repair = Repair("write the consolidated metadata again", self._consolidate) if complete else None
        for _, kind, message in self._findings:
            group.find(kind, self._fmt.consolidated_key, message, repair=repair)

    def _consolidate(self) -> None:
        group = self._group
        metadata = next(node for fmt, node in group.nodes if fmt is self._fmt)
        if not isinstance(metadata, GroupMetadata):
            raise NotFoundError("the group has been deleted", path=group.path)
        Group(group.exam.store, group.path, metadata, read_only=False).consolidate()


def consolidated_checks(group: Visit) -> list[ConsolidatedCheck]:
    """Return the consolidated metadata of a group, one for each of its formats that has any."""
    checks = []
    for fmt, metadata in group.nodes:
        key = fmt.consolidated_key
        if fmt.consolidated is None or not isinstance(metadata, GroupMetadata) or key not in group.documents:
            continue
        try:
            entries = fmt.consolidated({key: group.documents[key]})
        except TegulaError as error:
            group.find("metadata", key, error.message)
            continue
        if entries is not None:
            checks.append(ConsolidatedCheck(group, fmt, entries))
    return checks


def _alike(own: Mapping[str, bytes], entry: Mapping[str, bytes], fmt: Format, metadata: NodeMetadata) -> bool:
    """Return whether documents are equal as JSON or, since libraries write them differently, as metadata."""
    if _plain(own) == _plain(entry):
        return True
    try:
        other = fmt.parse({key: raw for key, raw in entry.items() if key in fmt.keys})
    except TegulaError:
        return False
    return bool(other == metadata)


def _plain(documents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return documents as JSON values in a canonical form."""
    plain = {}
    for key, raw in documents.items():
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            value = raw.decode("latin-1")
        if isinstance(value, dict):
            value.pop("consolidated_metadata", None)
        if value != {}:
            plain[key] = json.dumps(value, sort_keys=True)
    return plain
