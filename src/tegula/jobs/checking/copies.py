"""Check of consolidated metadata: the copies are compared with the documents of the members."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tegula.errors import NotFoundError, TegulaError
from tegula.formats import Format
from tegula.hierarchy.group import Group
from tegula.jobs.checking.documents import Place, below
from tegula.jobs.checking.examination import Examination, Repair
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores.arguments import is_key

__all__ = ["Copies", "copies_of"]


class Copies:
    """The consolidated metadata of a group, compared while its members are checked.

    It is repaired by consolidating again, if all members can be read and no deleted node has left keys: otherwise the
    old copy may hold the only description of some data.
    """

    def __init__(
        self, exam: Examination, place: Place, item: Format, entries: Mapping[str, Mapping[str, bytes]]
    ) -> None:
        self._complete = True
        self._unread = exam.unread
        self._exam = exam
        self._place = place
        self._item = item
        self._entries = entries
        self._seen: set[str] = set()
        self._found: list[tuple[str, str, str]] = []  # name, kind and message, in any order

    def compare(self, place: Place, metadata: NodeMetadata, item: Format, reachable: bool) -> None:
        """Compare a node with its copy."""
        if item is not self._item:
            return
        name = place.path[len(self._place.prefix) :] if place is not self._place else ""
        self._seen.add(name)
        copy = self._entries.get(name)
        if copy is None:
            if name and reachable:
                self._found.append((name, "consolidated-missing", f"{name!r} exists, but is not in the copy"))
            return
        if not reachable:
            self._complete = False  # a new copy would leave out the members of an implicit group
        own = {key: raw for key, raw in place.documents.items() if key in item.keys}
        if not _alike(own, copy, item, metadata):
            self._found.append(
                (name, "consolidated-differs", f"the copy of {name or 'the group itself'!r} differs from the document")
            )

    def skip(self, place: Place) -> None:
        """Note that a node can't be read."""
        self._seen.add(place.path[len(self._place.prefix) :] if place is not self._place else "")
        self._complete = False

    def close(self) -> None:
        """Report the findings, after all members have been checked."""
        exam, path = self._exam, self._place.path
        self._found.sort()  # members of a far store come in any order
        gone = [name for name in self._entries if name and name not in self._seen]
        for name in gone:
            message = f"the node {name!r} no longer exists"
            if is_key(name) and next(exam.store.list_prefix(f"{self._place.prefix}{name}/"), None) is not None:
                self._complete = False
                message += ", but there are keys below it: the copy may be their only description"
            self._found.append((name, "consolidated-gone", message))
        complete = self._complete and exam.unread == self._unread
        repair = Repair("write the consolidated metadata again", self._consolidate) if complete else None
        for _, kind, message in self._found:
            exam.find(kind, path, below(path, self._item.consolidated_key), message, repair=repair)

    def _consolidate(self) -> None:
        metadata = next(node for item, node in self._place.nodes if item is self._item)
        if not isinstance(metadata, GroupMetadata):
            raise NotFoundError("the group has been deleted", path=self._place.path)
        Group(self._exam.store, self._place.path, metadata, read_only=False).consolidate()


def copies_of(exam: Examination, place: Place, item: Format, metadata: NodeMetadata) -> Copies | None:
    """Return the consolidated metadata of a group, if it has any."""
    if item.consolidated is None or not isinstance(metadata, GroupMetadata):
        return None
    key = item.consolidated_key
    if key not in place.documents:
        return None
    try:
        entries = item.consolidated({key: place.documents[key]})
    except TegulaError as error:
        exam.find("metadata", place.path, below(place.path, key), error.message)
        return None
    return None if entries is None else Copies(exam, place, item, entries)


def _alike(own: Mapping[str, bytes], copy: Mapping[str, bytes], item: Format, metadata: NodeMetadata) -> bool:
    """Return whether documents are equal as JSON or, since libraries write them differently, as metadata."""
    if _plain(own) == _plain(copy):
        return True
    try:
        other = item.parse({key: raw for key, raw in copy.items() if key in item.keys})
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
