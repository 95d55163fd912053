"""Check of the documents at one path: each is fetched and parsed, and they are compared with each other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tegula import engine
from tegula.errors import MetadataError, StoreError, TegulaError, UnsupportedError
from tegula.formats import FORMATS, Format, find_format, oddities
from tegula.jobs.checking.examination import Examination
from tegula.metadata.nodes import ArrayMetadata, NodeMetadata

__all__ = ["ALL_KEYS", "Place", "below", "own_keys", "read_place"]

ALL_KEYS: Final = tuple(
    dict.fromkeys(
        key for item in FORMATS.values() for key in (*item.keys, item.consolidated_key) if key
    )
)  # fmt: skip
_ATTRIBUTES: Final = (".zattrs", "attrs", "__zattr__", "__attrs__")
_AMBIGUOUS: Final = ("zarr1", "zarr0.4")
"""Formats whose documents have common names, which other files may have, too."""


@dataclass(slots=True)
class Place:
    """The documents at one path, and the nodes they describe.

    Parameters
    ----------
    path : str
        The path.
    documents : mapping of str to bytes
        The documents of any format, by key relative to it.
    nodes : list of (Format, NodeMetadata)
        The nodes, arrays before groups, newer formats before older ones; several, if there are documents of several
        formats.
    damaged : bool
        Whether there are documents of a node that can't be read.
    """

    path: str
    documents: Mapping[str, bytes]
    nodes: list[tuple[Format, NodeMetadata]]
    damaged: bool

    @property
    def prefix(self) -> str:
        """The prefix of all keys below the path."""
        return f"{self.path}/" if self.path else ""


def below(path: str, name: str) -> str:
    """Return the path of a member."""
    return f"{path}/{name}" if path else name


def own_keys(place: Place) -> frozenset[str]:
    """Return the keys that are documents of the formats found at a place, relative to it."""
    if place.damaged:
        return frozenset(ALL_KEYS)
    keys = {key for item, _ in place.nodes for key in (*item.keys, item.consolidated_key) if key}
    return frozenset(keys)


def read_place(exam: Examination, path: str) -> Place:
    """Read and parse the documents at a path; faults become findings."""
    prefix = f"{path}/" if path else ""
    documents, lost = _fetch(exam, path)
    nodes: list[tuple[Format, NodeMetadata]] = []
    failed: list[tuple[Format, TegulaError]] = []
    for item in FORMATS.values():
        main = next((key for key in item.node_keys if key in documents), None)
        if main is None:
            continue
        try:
            node = _parse(exam, path, item, documents, main)
        except TegulaError as error:
            failed.append((item, error.within(key=main)))
            continue
        if node is not None:
            nodes.append((item, node))
            _find_oddities(exam, path, item, documents)
    nodes.sort(key=lambda pair: not isinstance(pair[1], ArrayMetadata))  # a stable sort
    damaged = lost
    for item, reason in failed:
        if _belongs_to_format(item, documents, bool(nodes)):
            damaged = True
            _report(exam, path, reason)
        else:
            exam.find(
                "stray-key", path, prefix + item.node_keys[0], "it is not a document of this format", severity="note"
            )
    if not nodes and not damaged:
        damaged = _find_incomplete(exam, path, documents)
    found = Place(path, documents, nodes, damaged)
    _compare(exam, found)
    return found


def _fetch(exam: Examination, path: str) -> tuple[dict[str, bytes], bool]:
    """Return the documents, and whether one exists that can't be read."""
    try:
        return engine.fetch_documents(exam.store, path, ALL_KEYS), False
    except StoreError:
        pass
    documents: dict[str, bytes] = {}
    lost = False
    for key in ALL_KEYS:
        try:
            documents.update(engine.fetch_documents(exam.store, path, [key]))
        except StoreError as error:
            lost = True
            exam.find("unreadable", path, below(path, key), error.message)
    return documents, lost


def _parse(
    exam: Examination, path: str, item: Format, documents: Mapping[str, bytes], main: str
) -> NodeMetadata | None:
    """Parse the documents of one format; if only the attributes are damaged, report that and parse without them."""
    others = [key for key in item.node_keys if key != main and key in documents]
    own = {key: documents[key] for key in item.keys if key in documents and key not in others}
    for key in others:
        exam.find("contradicting-documents", path, below(path, key), f"{main} beside it describes another kind of node")
    try:
        return item.parse(own)
    except MetadataError as error:
        kept = {key: raw for key, raw in own.items() if key not in _ATTRIBUTES}
        if error.key not in _ATTRIBUTES or len(kept) == len(own):
            raise
        node = item.parse(kept)
        _report(exam, path, error)
        return node


def _report(exam: Examination, path: str, error: TegulaError) -> None:
    kind = "unsupported" if isinstance(error, UnsupportedError) else "metadata"
    message = error.message if error.field is None else f"{error.message} (field {error.field!r})"
    exam.find(kind, path, below(path, error.key or ""), message)


def _find_damaged(exam: Examination, path: str, documents: Mapping[str, bytes]) -> None:
    """Report damage to the documents that Zarr v2 has beside the main one."""
    item = find_format("zarr2")
    for read in (item.parse, item.consolidated):
        try:
            if read is not None:
                read({".zgroup": b'{"zarr_format": 2}', **documents})
        except TegulaError as error:
            _report(exam, path, error)


def _find_oddities(exam: Examination, path: str, item: Format, documents: Mapping[str, bytes]) -> None:
    """Report what is read although the specification does not allow it."""
    with suppress(TegulaError):  # damaged attributes have been reported
        for key, field, message in oddities(item, documents):
            text = message if not field else f"{message} (field {field!r})"
            exam.find("unusual-document", path, below(path, key), text)


def _belongs_to_format(item: Format, documents: Mapping[str, bytes], beside: bool) -> bool:
    """Return whether an unreadable document belongs to the format, and is not another file of that name."""
    if item.name not in _AMBIGUOUS:
        return True
    main, attributes = item.keys
    return not beside and (attributes in documents or documents[main].lstrip().startswith(b"{"))


def _find_incomplete(exam: Examination, path: str, documents: Mapping[str, bytes]) -> bool:
    """Report documents of a node whose main document is missing."""
    if "meta/sizes" in documents:
        exam.find(
            "missing-document",
            path,
            below(path, "meta/storage"),
            "there is a length, but no document with data type and codec",
        )
        return True
    for key in (".zmetadata", ".zattrs"):
        if key in documents:
            _find_damaged(exam, path, documents)
            exam.find(
                "missing-document", path, below(path, ".zgroup"), f"there is {key}, but no .zgroup and no .zarray"
            )
            return True
    return False


def _compare(exam: Examination, place: Place) -> None:
    """Report several descriptions of one node, and whether they agree."""
    for item, other in place.nodes[1:]:
        first, one = place.nodes[0]
        key = below(place.path, next(key for key in item.node_keys if key in place.documents))
        differs = _difference(one, other)
        if differs:
            exam.find("contradicting-documents", place.path, key, f"{item.name} has {differs} than {first.name}")
        else:
            exam.find("several-formats", place.path, key, f"{first.name} and {item.name} both have documents here")


def _difference(one: NodeMetadata, other: NodeMetadata) -> str:
    if isinstance(one, ArrayMetadata) and isinstance(other, ArrayMetadata):
        if one.shape != other.shape:
            return f"another shape, {other.shape},"
        if one.data_type.numpy.newbyteorder("=") != other.data_type.numpy.newbyteorder("="):
            return f"another data type, {other.data_type},"
    return ""
