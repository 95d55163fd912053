"""Documents that the specifications do not allow, but other writers make: brought into the form that they allow.

This module alone says which documents these are. `tegula.check` reports them, since other readers may refuse them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tegula.formats.documents import NO_ATTRIBUTES

__all__ = ["Oddity", "note_in", "odd_attributes", "odd_encodings", "plain_zarr2", "plain_zarr3"]

Document: TypeAlias = dict[str, Any]


class Oddity(NamedTuple):
    """What is unusual about a document: its key, the field, and a sentence."""

    key: str
    field: str
    message: str


Note: TypeAlias = Callable[[str, str], object]
"""Takes the field and the sentence of an oddity."""


def note_in(oddities: list[Oddity], key: str, field: str, message: str) -> None:
    """Add an oddity of the document with a key to a list; with the first two arguments bound, it is a `Note`."""
    oddities.append(Oddity(key, field, message))


def _ignore(field: str, message: str) -> None:
    return


def odd_attributes(documents: Mapping[str, bytes], key: str) -> list[Oddity]:
    """Return the oddity of a document that states that there are no attributes, but not by an empty object."""
    raw = documents.get(key, b"").strip()
    return [Oddity(key, "", f"the document is {raw.decode()} instead of {{}}")] if raw in NO_ATTRIBUTES else []


def odd_encodings(documents: Mapping[str, bytes]) -> list[Oddity]:
    """Return the documents that are not in UTF-8, or have a byte order mark."""
    oddities = []
    for key, raw in documents.items():
        encoding = json.detect_encoding(raw)
        if encoding != "utf-8":
            what = "a byte order mark" if encoding == "utf-8-sig" else f"the encoding {encoding.upper()}"
            oddities.append(Oddity(key, "", f"the document has {what}"))
    return oddities


def plain_zarr2(document: Document, note: Note = _ignore) -> Document:
    """Return a ``.zarray`` in the form of Zarr v2: the same object if it has this form, otherwise a changed copy.

    Parameters
    ----------
    document : dict
        The parsed document.
    note : callable
        Called with the field and a sentence for each change.

    Examples
    --------
    >>> plain_zarr2({"shape": 3, "chunks": [3], "compressor": None, "filters": []})
    {'shape': [3], 'chunks': [3], 'compressor': None, 'filters': []}
    """
    changes: Document = {}
    for name in ("shape", "chunks"):
        sizes = document.get(name)
        if type(sizes) is int:
            note(name, f"{name} is a number instead of a list")
            changes[name] = [sizes]
        elif isinstance(sizes, list) and any(type(size) is float and size.is_integer() for size in sizes):
            note(name, f"{name} has floating-point numbers")
            changes[name] = [int(size) if type(size) is float and size.is_integer() else size for size in sizes]
    for name in ("filters", "compressor"):
        if name not in document:
            note(name, f"the document has no member {name!r}; none is used")
            changes[name] = None
    filters, compressor = document.get("filters"), document.get("compressor")
    if isinstance(filters, list):
        plain = [_without_threads(item, item, "id", "filters", note) for item in filters]
        if any(one is not other for one, other in zip(plain, filters)):
            changes["filters"] = plain
    if (options := _without_threads(compressor, compressor, "id", "compressor", note)) is not compressor:
        changes["compressor"] = options
    return {**document, **changes} if changes else document


def plain_zarr3(document: Document, note: Note = _ignore) -> Document:
    """Return a ``zarr.json`` in the form of Zarr v3, as `plain_zarr2` does for Zarr v2.

    Examples
    --------
    >>> plain_zarr3({"attributes": None, "codecs": [{"name": "endian", "configuration": {"endian": "big"}}]})
    {'attributes': {}, 'codecs': [{'name': 'bytes', 'configuration': {'endian': 'big'}}]}
    """
    changes: Document = {}
    for name, empty, odd in (("attributes", {}, []), ("storage_transformers", [], {})):
        if name in document and (document[name] is None or document[name] == odd):
            note(name, f"{name} is {json.dumps(document[name])} instead of {json.dumps(empty)}")
            changes[name] = empty
    if type(document.get("shape")) is int:
        note("shape", "shape is a number instead of a list")
        changes["shape"] = [document["shape"]]
    grid = document.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    if isinstance(configuration, dict) and type(configuration.get("chunk_shape")) is int:
        note("chunk_grid", "chunk_shape is a number instead of a list")
        lengths = [configuration["chunk_shape"]]
        changes["chunk_grid"] = {**document["chunk_grid"], "configuration": {**configuration, "chunk_shape": lengths}}
    if "codecs" in document and (codecs := _plain_codecs(document["codecs"], note)) is not document["codecs"]:
        changes["codecs"] = codecs
    return {**document, **changes} if changes else document


_LISTS: Final = ("codecs", "index_codecs")  # codecs in the configuration of sharding
_BLOSC: Final = ("blosc", "numcodecs.blosc")


def _plain_codecs(codecs: Any, note: Note) -> Any:
    """Return a list of codecs with the names and options of Zarr v3, also inside of shards."""
    if not isinstance(codecs, list):
        return codecs
    plain = [_plain_codec(item, note) for item in codecs]
    return codecs if all(one is other for one, other in zip(plain, codecs)) else plain


def _plain_codec(codec: Any, note: Note) -> Any:
    if codec == "endian" or (isinstance(codec, dict) and codec.get("name") == "endian"):
        note("codecs", "the codec 'bytes' is called 'endian', as in drafts of 2022")
        return "bytes" if codec == "endian" else {**codec, "name": "bytes"}
    configuration = codec.get("configuration") if isinstance(codec, dict) else None
    if not isinstance(configuration, dict):
        return codec
    plain = _without_threads(codec, configuration, "name", "codecs", note)
    for name in _LISTS:
        if name in plain and (inner := _plain_codecs(plain[name], note)) is not plain[name]:
            plain = {**plain, name: inner}
    return codec if plain is configuration else {**codec, "configuration": plain}


def _without_threads(codec: Any, options: Any, key: str, field: str, note: Note) -> Any:
    """Return the options of a codec without the number of threads, which some writers store with Blosc."""
    if not isinstance(codec, dict) or codec.get(key) not in _BLOSC or "nthreads" not in options:
        return options
    note(field, "the option 'nthreads' of blosc is not part of the format")
    return {name: value for name, value in options.items() if name != "nthreads"}
