"""Check of the documents at one path: each is fetched and parsed, and they are compared with each other.

Consolidated metadata is compared with the documents of the members.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from tegula import engine
from tegula.display.markup import shorten
from tegula.engine.documents.reading import documents_of
from tegula.errors import ConflictError, MetadataError, StoreError, TegulaError, UnsupportedError
from tegula.formats import ALL_KEYS, FORMATS, Format, find_format, oddities
from tegula.formats.keys import NETCDF_KEY
from tegula.formats.leniency import corrected
from tegula.formats.located.splicing import with_values
from tegula.hierarchy.consolidating import replace_entry
from tegula.hierarchy.drafts import elsewhere
from tegula.hierarchy.group import Group
from tegula.jobs.checking.findings import Examination, Repair
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata, NodeMetadata
from tegula.stores import Generation
from tegula.stores.arguments import is_key

__all__ = ["DOCUMENT_KEYS", "ConsolidatedCheck", "Visit", "consolidated_checks", "visited", "write_document"]

DOCUMENT_KEYS: Final = (*ALL_KEYS, *sorted({fmt.consolidated_key for fmt in FORMATS.values()} - {"", *ALL_KEYS}))
_ATTRIBUTES: Final = (".zattrs", "attrs", "__zattr__", "__attrs__")
_AMBIGUOUS: Final = ("zarr1", "zarr0.4")
"""Formats whose documents have common names, which other files may have, too."""


@dataclass(slots=True)
class Visit:
    """A path that is checked: the documents there, and the nodes that they describe."""

    exam: Examination
    path: str
    documents: dict[str, bytes] = field(default_factory=dict)  # of any format, by key relative to the path
    nodes: list[tuple[Format, NodeMetadata]] = field(default_factory=list)  # arrays first, newer formats first
    damaged: bool = False  # whether there are documents of a node that can't be read
    errors: int = 0  # found before

    @property
    def prefix(self) -> str:
        """The prefix of all keys below the path."""
        return f"{self.path}/" if self.path else ""

    @property
    def fmt(self) -> Format:
        """The format of the first node."""
        return self.nodes[0][0]

    @property
    def arrays(self) -> list[tuple[Format, ArrayMetadata]]:
        """The nodes that are arrays."""
        return [(fmt, node) for fmt, node in self.nodes if isinstance(node, ArrayMetadata)]

    def own_keys(self) -> frozenset[str]:
        """Return the keys, relative to the path, that are documents of the formats found here."""
        if self.damaged:
            return frozenset(DOCUMENT_KEYS)
        return frozenset(key for fmt, _ in self.nodes for key in (*fmt.keys, fmt.consolidated_key) if key)

    def find(self, kind: str, name: str, message: str, **options: Any) -> None:
        """Add a finding about a key, given relative to the path; see `Examination.find`."""
        self.exam.find(kind, self.path, self.prefix + name, message, **options)

    def find_error(self, error: TegulaError, name: str = "") -> None:
        """Add a finding for an error in a document."""
        limit = error.field == "chunks" and "max_chunk_bytes" in error.message
        kind = "unsupported" if limit or isinstance(error, UnsupportedError) else "metadata"
        details = {"field": error.field, "codec": error.codec}
        known = "".join(f" ({what} {value!r})" for what, value in details.items() if value is not None)
        self.find(kind, error.key or name, f"{error.message}{known}")

    def listing(self) -> AbstractContextManager[None]:
        """Turn errors of listing and reading into findings."""
        return self.exam.listing(self.path, self.prefix)


def write_document(exam: Examination, key: str, raw: bytes, generation: Generation) -> None:
    """Repair a document, on condition that it is unchanged."""
    try:
        exam.store.set(key, raw, if_generation=generation)
    finally:
        engine.forget(exam.store, key)


def set_members(visit: Visit, fmt: Format, members: Mapping[str, Any]) -> None:
    """Set members of an array's document that is as it was found or last repaired, and of its consolidated copies."""
    store, key = visit.exam.store, visit.prefix + fmt.shape_key
    raw, generation = store.get(key, with_generation=True)
    if raw != visit.documents[fmt.shape_key]:
        raise ConflictError("another process has changed the document; run the check again", key=key)
    new = with_values(raw, key, members)
    write_document(visit.exam, key, new, generation)
    visit.documents[fmt.shape_key] = new
    parts = visit.path.split("/") if visit.path else []
    for depth in range(len(parts)):
        replace_entry(store, "/".join(parts[:depth]), "/".join(parts[depth:]), fmt.name, {fmt.shape_key: new})


def visited(exam: Examination, path: str) -> Visit:
    """Read and parse the documents at a path; faults become findings."""
    visit = Visit(exam, path, errors=exam.numbers["errors"])
    documents = _fetched(visit)
    failed: list[tuple[Format, TegulaError]] = []
    for fmt in FORMATS.values():
        main = next((key for key in fmt.node_keys if key in documents), None)
        if main is None:
            continue
        try:
            node = _parsed(visit, fmt, main)
        except TegulaError as error:
            if (found := _elsewhere(exam, path, error)) is not None:
                return visited(found, path)
            failed.append((fmt, error.within(key=main)))
            continue
        if node is not None:
            visit.nodes.append((fmt, node))
            with suppress(TegulaError):  # damaged attributes have been reported
                _find_oddities(visit, fmt)
    visit.nodes.sort(key=lambda pair: not isinstance(pair[1], ArrayMetadata))  # a stable sort
    for fmt, reason in failed:
        if _belongs_to_format(fmt, documents, bool(visit.nodes)):
            visit.damaged = True
            visit.find_error(reason)
        else:
            visit.find("stray-key", fmt.node_keys[0], "it is not a document of this format", severity="note")
    if not visit.nodes and not visit.damaged:
        _find_incomplete(visit)
    _compare(visit)
    return visit


def _elsewhere(exam: Examination, path: str, error: TegulaError) -> Examination | None:
    """Return an examination of the hierarchy of a draft whose entry point is at a path, with the same findings."""
    if not isinstance(error, UnsupportedError):
        return None
    with suppress(MetadataError, UnsupportedError):  # which the entry point is said to be
        if (found := elsewhere(exam.store, path, error)) is not None:
            return replace(exam, store=found[0])
    return None


def _find_oddities(visit: Visit, fmt: Format) -> None:
    """Report what documents have that their format does not allow; what reading corrects can be written, too."""
    raw = visit.documents.get(fmt.shape_key)
    changes = {} if raw is None else corrected(fmt.name, raw, fmt.shape_key)
    repair = None
    if changes:
        values = ", ".join(f"{name} {shorten(json.dumps(value), 200)}" for name, value in changes.items())
        repair = Repair(f"write {values}", partial(set_members, visit, fmt, changes))
    for odd in oddities(fmt, visit.documents):
        act = repair if odd.field in changes and odd.key == fmt.shape_key else None
        message = f"{odd.message} (field {odd.field!r})" if odd.field else odd.message
        visit.find("unusual-document", odd.key, message, repair=act)


def _fetched(visit: Visit) -> dict[str, bytes]:
    """Read the documents of a path."""
    stored = documents_of(visit.exam.store, [visit.path], DOCUMENT_KEYS)[0]
    for key in DOCUMENT_KEYS:
        try:
            raw = stored.get(key)
        except StoreError as error:
            visit.damaged = True
            visit.find("unreadable", key, error.message)
        else:
            if raw is not None:
                visit.documents[key] = raw
    return visit.documents


def _parsed(visit: Visit, fmt: Format, main: str) -> NodeMetadata | None:
    """Parse the documents of one format; if only the attributes are damaged, report that and parse without them."""
    documents = visit.documents
    others = [key for key in fmt.node_keys if key != main and key in documents]
    for key in others:
        visit.find("contradicting-documents", key, f"{main} beside it describes another kind of node")
    own = {key: documents[key] for key in fmt.keys if key in documents and key not in others}
    try:
        return fmt.parse(own)
    except MetadataError as error:
        if error.key not in _ATTRIBUTES or own.keys().isdisjoint(_ATTRIBUTES):
            raise
        node = fmt.parse({key: raw for key, raw in own.items() if key not in _ATTRIBUTES})
        visit.find_error(error)
        return node


def _belongs_to_format(fmt: Format, documents: Mapping[str, bytes], beside: bool) -> bool:
    """Return whether an unreadable document belongs to the format, and is not another file of that name."""
    if fmt.name not in _AMBIGUOUS:
        return True
    main, attributes = fmt.keys
    return not beside and (attributes in documents or documents[main].lstrip().startswith(b"{"))


def _find_incomplete(visit: Visit) -> None:
    """Report documents of a node whose main document is missing, and damage to them."""
    documents = visit.documents
    beside = next((key for key in (".zmetadata", ".zattrs") if key in documents), None)
    if "meta/sizes" in documents:
        visit.find("missing-document", "meta/storage", "there is a length, but no document with data type and codec")
    elif beside is not None:
        zarr2 = find_format("zarr2")
        for read in (zarr2.parse, zarr2.consolidated):
            try:
                if read is not None:
                    read({".zgroup": b'{"zarr_format": 2}', **documents})
            except TegulaError as error:
                visit.find_error(error)
        visit.find("missing-document", ".zgroup", f"there is {beside}, but no .zgroup and no .zarray")
    visit.damaged = "meta/sizes" in documents or beside is not None


def _compare(visit: Visit) -> None:
    """Report several descriptions of one node, and whether they agree."""
    for fmt, other in visit.nodes[1:]:
        first, one = visit.nodes[0]
        differs = ""
        if isinstance(one, ArrayMetadata) and isinstance(other, ArrayMetadata):
            if one.shape != other.shape:
                differs = f"another shape, {other.shape},"
            elif one.data_type.numpy.newbyteorder("=") != other.data_type.numpy.newbyteorder("="):
                differs = f"another data type, {other.data_type},"
        key = next(key for key in fmt.node_keys if key in visit.documents)
        if differs:
            visit.find("contradicting-documents", key, f"{fmt.name} has {differs} than {first.name}")
        else:
            visit.find("several-formats", key, f"{first.name} and {fmt.name} both have documents here")


@dataclass(slots=True)
class ConsolidatedCheck:
    """The consolidated metadata of a group, compared while its members are checked.

    It is repaired by consolidating again, if all members can be read and no deleted node has left keys: otherwise it
    may hold the only description of some data.
    """

    group: Visit
    fmt: Format
    metadata: GroupMetadata
    entries: Mapping[str, Mapping[str, bytes]]
    unread: int  # nodes that could not be read before
    complete: bool = True
    seen: set[str] = field(default_factory=set)
    findings: list[tuple[str, str, str]] = field(default_factory=list)  # name, kind and message, in any order

    def compare(self, visit: Visit, reachable: bool) -> None:
        """Compare a node with its entry; one that can't be read is only noted."""
        name = visit.path[len(self.group.prefix) :]
        metadata = next((node for fmt, node in visit.nodes if fmt is self.fmt), None)
        if metadata is None:
            if visit.damaged and not visit.nodes:
                self.seen.add(name)
                self.complete = False
            return
        self.seen.add(name)
        entry = self.entries.get(name)
        if entry is None:
            if name and reachable:
                self.findings.append((name, "consolidated-missing", f"{name!r} exists, but is not in the copy"))
            return
        if not reachable:
            self.complete = False  # metadata made anew would leave out the members of an implicit group
        own = {key: raw for key, raw in visit.documents.items() if key in self.fmt.keys}
        own.pop(NETCDF_KEY, None)
        if not _alike(own, entry, self.fmt, metadata):
            message = f"the copy of {name or 'the group itself'!r} differs from the document"
            self.findings.append((name, "consolidated-differs", message))

    def close(self) -> None:
        """Report the findings, after all members have been checked."""
        group, exam = self.group, self.group.exam
        self.findings.sort()  # members of a remote store come in any order
        for name in [name for name in self.entries if name and name not in self.seen]:
            message = f"the node {name!r} no longer exists"
            if is_key(name) and next(exam.store.list_prefix(f"{group.prefix}{name}/"), None) is not None:
                self.complete = False
                message += ", but there are keys below it: the copy may be their only description"
            self.findings.append((name, "consolidated-gone", message))
        complete = self.complete and exam.numbers["unread"] == self.unread
        act = Group(exam.store, group.path, self.metadata, read_only=False).consolidate
        repair = Repair("write the consolidated metadata again", act) if complete else None
        for _, kind, message in self.findings:
            group.find(kind, self.fmt.consolidated_key, message, repair=repair)


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
            checks.append(ConsolidatedCheck(group, fmt, metadata, entries, group.exam.numbers["unread"]))
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
        value: Any = raw.decode("latin-1")
        with suppress(ValueError, RecursionError):
            value = json.loads(raw)
        if isinstance(value, dict):
            value.pop("consolidated_metadata", None)
        if value != {}:
            plain[key] = json.dumps(value, sort_keys=True)
    return plain
