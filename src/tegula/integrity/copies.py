"""Consolidated metadata: copies of the documents below a group, compared with the documents themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tegula.errors import NotFoundError, TegulaError
from tegula.formats import Format
from tegula.group import Group
from tegula.integrity.documents import Place, below
from tegula.integrity.examination import Examination, Repair
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores.interface import is_key

__all__ = ["Copies", "copies_of"]


class Copies:
    """The copies that a group holds, while what is below it is looked at.

    It can be written anew if all nodes below can be read, and none is gone of which there still are keys: only then is
    a new copy no worse than the old one.
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
        self._found: list[tuple[str, str]] = []

    def compare(self, place: Place, metadata: NodeMetadata, item: Format, reachable: bool) -> None:
        """Compare a node with its copy."""
        if item is not self._item:
            return
        name = place.path[len(self._place.prefix) :] if place is not self._place else ""
        self._seen.add(name)
        copy = self._entries.get(name)
        if copy is None:
            if name and reachable:
                self._found.append(("consolidated-missing", f"{name!r} is there, but not in the copy"))
            return
        if not reachable:
            self._complete = False  # what is in an implicit group would be left out of a new copy
        own = {key: raw for key, raw in place.documents.items() if key in item.keys}
        if not _alike(own, copy, item, metadata):
            self._found.append(("consolidated-differs", f"the copy of {name or 'the group itself'!r} is another one"))

    def skip(self, place: Place) -> None:
        """Take notice of a node that can't be read."""
        self._seen.add(place.path[len(self._place.prefix) :] if place is not self._place else "")
        self._complete = False

    def close(self) -> None:
        """Tell what was found, once all below the group has been looked at."""
        exam, path = self._exam, self._place.path
        gone = [name for name in self._entries if name and name not in self._seen]
        for name in gone:
            message = f"there is no node {name!r} any more"
            if is_key(name) and next(exam.store.list_prefix(f"{self._place.prefix}{name}/"), None) is not None:
                self._complete = False
                message += ", but there are keys below it: the copy may be all that describes them"
            self._found.append(("consolidated-gone", message))
        complete = self._complete and exam.unread == self._unread
        repair = Repair("write the consolidated metadata anew", self._consolidate) if complete else None
        for kind, message in self._found:
            exam.find(kind, path, below(path, self._item.consolidated_key), message, repair=repair)

    def _consolidate(self) -> None:
        metadata = next(node for item, node in self._place.nodes if item is self._item)
        if not isinstance(metadata, GroupMetadata):
            raise NotFoundError("the group is gone", path=self._place.path)
        Group(self._exam.store, self._place.path, metadata, read_only=False).consolidate()


def copies_of(exam: Examination, place: Place, item: Format, metadata: NodeMetadata) -> Copies | None:
    """Return the copies that a group holds, if any."""
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
    """Whether documents say the same: as JSON, or, since libraries write their own form of them, as metadata."""
    if _plain(own) == _plain(copy):
        return True
    try:
        other = item.parse({key: raw for key, raw in copy.items() if key in item.keys})
    except TegulaError:
        return False
    return bool(other == metadata)


def _plain(documents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return documents in one form of text, without what makes no difference."""
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
