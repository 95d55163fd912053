"""Check of the documents at one path: each is fetched and parsed, and they are compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tegula import engine
from tegula.errors import MetadataError, StoreError, TegulaError, UnsupportedError
from tegula.formats import ALL_KEYS, FORMATS, Format, find_format, oddities
from tegula.jobs.checking.examination import Examination
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata
from tegula.stores import Generation

__all__ = ["DOCUMENT_KEYS", "Visit", "visited", "write_document"]

DOCUMENT_KEYS: Final = (*ALL_KEYS, *sorted({fmt.consolidated_key for fmt in FORMATS.values()} - {"", *ALL_KEYS}))
_ATTRIBUTES: Final = (".zattrs", "attrs", "__zattr__", "__attrs__")
_AMBIGUOUS: Final = ("zarr1", "zarr0.4")
"""Formats whose documents have common names, which other files may have, too."""


@dataclass(slots=True)
class Visit:
    """A path that is checked: the documents there, and the nodes that they describe.

    Parameters
    ----------
    exam : Examination
        Receives the findings.
    path : str
        The path.
    documents : mapping of str to bytes
        The documents of any format, by key relative to the path.
    nodes : list of (Format, NodeMetadata)
        The nodes, arrays before groups, newer formats before older ones; several, if there are documents of several
        formats.
    damaged : bool
        Whether there are documents of a node that can't be read.
    """

    exam: Examination
    path: str
    documents: Mapping[str, bytes] = field(default_factory=dict)
    nodes: list[tuple[Format, NodeMetadata]] = field(default_factory=list)
    damaged: bool = False

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
        kind = "unsupported" if isinstance(error, UnsupportedError) else "metadata"
        message = error.message if error.field is None else f"{error.message} (field {error.field!r})"
        self.find(kind, error.key or name, message)

    def listing(self) -> AbstractContextManager[None]:
        """Turn errors of listing and reading into findings."""
        return self.exam.listing(self.path, self.prefix)


def write_document(exam: Examination, key: str, raw: bytes, generation: Generation) -> None:
    """Repair a document, on condition that it is unchanged."""
    try:
        exam.store.set(key, raw, if_generation=generation)
    finally:
        engine.forget(exam.store, key)


def visited(exam: Examination, path: str) -> Visit:
    """Read and parse the documents at a path; faults become findings."""
    visit = Visit(exam, path)
    visit.documents = documents = _fetched(visit)
    failed: list[tuple[Format, TegulaError]] = []
    for fmt in FORMATS.values():
        main = next((key for key in fmt.node_keys if key in documents), None)
        if main is None:
            continue
        try:
            node = _parsed(visit, fmt, main)
        except TegulaError as error:
            failed.append((fmt, error.within(key=main)))
            continue
        if node is not None:
            visit.nodes.append((fmt, node))
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


def _fetched(visit: Visit) -> dict[str, bytes]:
    """Return the documents that can be read."""
    with suppress(StoreError):
        return engine.fetch_documents(visit.exam.store, visit.path, DOCUMENT_KEYS)
    documents: dict[str, bytes] = {}
    for key in DOCUMENT_KEYS:
        try:
            documents.update(engine.fetch_documents(visit.exam.store, visit.path, [key]))
        except StoreError as error:
            visit.damaged = True
            visit.find("unreadable", key, error.message)
    return documents


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


def _find_oddities(visit: Visit, fmt: Format) -> None:
    """Report what is read although the specification does not allow it."""
    with suppress(TegulaError):  # damaged attributes have been reported
        for key, name, message in oddities(fmt, visit.documents):
            visit.find("unusual-document", key, f"{message} (field {name!r})" if name else message)


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
