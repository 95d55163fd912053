"""Documents that the specifications do not allow, but other writers make: brought into the form that they allow.

This module alone says which documents these are. `tegula.check` reports them, since other readers may refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tegula.formats.documents import NO_ATTRIBUTES, load
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import Frozen

if TYPE_CHECKING:
    import json
else:
    json = Later("json")

__all__ = [
    "Oddity",
    "corrected",
    "note_in",
    "odd_attributes",
    "odd_encodings",
    "plain_options",
    "plain_zarr2",
    "plain_zarr3",
]

Document: TypeAlias = dict[str, Any]


class Oddity(Frozen):
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
    chunks = changes.get("chunks", document.get("chunks"))
    if (proper := _plain_lengths(chunks, repeat(1))) is not chunks:
        note("chunks", _instead("chunks", chunks, proper))
        changes["chunks"] = proper
    for name in ("filters", "compressor"):
        if name not in document:
            note(name, f"the document has no member {name!r}; none is used")
            changes[name] = None
    filters, compressor = document.get("filters"), document.get("compressor")
    if isinstance(filters, list):
        plain = [plain_options(item, item, "id", "filters", note) for item in filters]
        if any(one is not other for one, other in zip(plain, filters)):
            changes["filters"] = plain
    if (options := plain_options(compressor, compressor, "id", "compressor", note)) is not compressor:
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
    codecs = document.get("codecs")
    if (plain := _plain_codecs(codecs, note)) is not codecs:
        changes["codecs"] = plain
    grid = document.get("chunk_grid")
    if (plain := _plain_grid(grid, plain, note)) is not grid:
        changes["chunk_grid"] = plain
    return {**document, **changes} if changes else document


_PLAIN: Final[Mapping[str, Callable[[Document], Document]]] = {"zarr2": plain_zarr2, "zarr3": plain_zarr3}


def corrected(format: str, raw: bytes, key: str) -> Document:
    """Return the members of a document that its format does not allow, corrected.

    Examples
    --------
    >>> raw = b'{"zarr_format": 2, "shape": [0], "chunks": [0], "compressor": null, "filters": null}'
    >>> corrected("zarr2", raw, ".zarray")
    {'chunks': [1]}
    """
    if format not in _PLAIN:
        return {}
    old = load(raw, key)
    new = _PLAIN[format](old)
    return {name: value for name, value in new.items() if name not in old or old[name] is not value}


def _plain_lengths(lengths: Any, units: Iterable[int] | None) -> Any:
    """Return the chunk lengths of a regular grid as integers of at least 1; those of shards are multiples of `units`.

    ``true`` is 1, and 0 or ``false``, which some writers store for an axis of length 0, the least possible length. No
    chunk can be stored with such a length, so that no chunk has another place. Without `units`, 0 stays.
    """
    if not isinstance(lengths, list):
        return lengths
    least = repeat(0) if units is None else chain(units, repeat(1))
    plain = [int(length) or unit if type(length) in (bool, int) else length for length, unit in zip(lengths, least)]
    return lengths if all(type(one) is type(other) and one == other for one, other in zip(plain, lengths)) else plain


def _plain_grid(grid: Any, codecs: Any, note: Note) -> Any:
    """Return a ``chunk_grid`` in the form of Zarr v3; `codecs` are those of the document, in that form."""
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    if not isinstance(configuration, dict):
        return grid
    plain = grid
    lengths = configuration.get("chunk_shape")
    if type(lengths) is int:
        note("chunk_grid", "chunk_shape is a number instead of a list")
        lengths = [lengths]
        plain = {**grid, "configuration": {**configuration, "chunk_shape": lengths}}
    if grid.get("name") == "regular" and isinstance(lengths, list):
        units = _inner_lengths(codecs)
        proper = lengths if units is None else _plain_lengths(lengths, units)
        varying = [length for length in proper if isinstance(length, list)]
        if 0 < len(varying) < len(proper) and not any(isinstance(edge, list) for axis in varying for edge in axis):
            # zarr-python 3.2 wrote this; a grid of lists alone, or of runs, is no known mistake
            note("chunk_grid", "a grid called regular has lists of chunk lengths")
            plain = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": proper}}
        elif proper is not lengths:
            note("chunk_grid", _instead("chunk_shape", lengths, proper))
            plain = {**grid, "configuration": {**configuration, "chunk_shape": proper}}
    if plain.get("name") == "rectilinear":
        shapes = plain["configuration"].get("chunk_shapes")
        if (edges := _plain_edges(shapes)) is not shapes:
            note("chunk_grid", _instead("chunk_shapes", shapes, edges))
            plain = {**plain, "configuration": {**plain["configuration"], "chunk_shapes": edges}}
    return plain


def _inner_lengths(codecs: Any) -> list[int] | None:
    """Return the shape of the inner chunks of shards, ``[]`` if there are none, ``None`` if it is not valid."""
    for codec in codecs if isinstance(codecs, list) else ():
        if isinstance(codec, dict) and codec.get("name") == "sharding_indexed":
            options = codec.get("configuration")
            lengths = options.get("chunk_shape") if isinstance(options, dict) else None
            valid = isinstance(lengths, list) and all(type(length) is int and length > 0 for length in lengths)
            return lengths if valid else None
    return []


def _plain_edges(shapes: Any) -> Any:
    """Return the chunk lengths of a rectilinear grid, in which ``true`` is 1 and 4.0 is 4, except for counts."""
    if not isinstance(shapes, list):
        return shapes
    plain = [[_plain_edge(edge) for edge in axis] if isinstance(axis, list) else axis for axis in shapes]
    return shapes if json.dumps(plain) == json.dumps(shapes) else plain


def _plain_edge(edge: Any) -> Any:
    if isinstance(edge, list) and len(edge) == 2:
        return [_plain_edge(edge[0]) if not isinstance(edge[0], list) else edge[0], edge[1]]
    return int(edge) if edge is True or (type(edge) is float and edge.is_integer() and edge >= 1) else edge


def _instead(name: str, found: Any, plain: Any) -> str:
    texts = [f"{text[:57]}..." if len(text) > 60 else text for text in (json.dumps(found), json.dumps(plain))]
    return f"{name} is {texts[0]} instead of {texts[1]}"


_LISTS: Final = ("codecs", "index_codecs")  # codecs in the configuration of sharding
_BLOSC: Final = ("blosc", "numcodecs.blosc")
_INTEGERS: Final = frozenset(
    ("acceleration", "blockSize", "blocksize", "clevel", "digits", "keepbits", "level", "preset", "shuffle", "typesize")
)


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
    plain = plain_options(codec, configuration, "name", "codecs", note)
    lengths = plain.get("chunk_shape")
    if codec.get("name") == "sharding_indexed" and (proper := _plain_lengths(lengths, None)) is not lengths:
        note("codecs", _instead("chunk_shape", lengths, proper))
        plain = {**plain, "chunk_shape": proper}
    for name in _LISTS:
        if name in plain and (inner := _plain_codecs(plain[name], note)) is not plain[name]:
            plain = {**plain, name: inner}
    return codec if plain is configuration else {**codec, "configuration": plain}


def plain_options(codec: Any, options: Any, key: str, field: str, note: Note = _ignore) -> Any:
    """Return the options of a codec without Blosc's number of threads, and with 5 where a writer stored 5.0."""
    if not isinstance(codec, dict) or not isinstance(options, dict):
        return options
    plain = options
    if codec.get(key) in _BLOSC and "nthreads" in options:
        note(field, "the option 'nthreads' of blosc is not part of the format")
        plain = {name: value for name, value in options.items() if name != "nthreads"}
    for name in _INTEGERS.intersection(plain):
        value = plain[name]
        if type(value) is float and value.is_integer():
            note(field, f"the option {name!r} is a floating-point number")
            plain = {**plain, name: int(value)}
    return plain
