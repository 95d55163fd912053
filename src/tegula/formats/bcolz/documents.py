"""bcolz 1.x: the carray (``meta/storage``, ``meta/sizes``, ``__attrs__``) and the ctable (``__rootdirs__``) on disk.

Implements "The persistence layer for bcolz 1.x series". Only the first axis is divided into chunks, of ``chunklen``
rows. Each chunk is a Blosc 1 frame after a header of 16 bytes, stored as ``data/__<number>.blp``. Every chunk is
stored; the last one holds the remaining rows. Only ``meta/sizes`` states the number of rows: files with higher numbers,
and rows beyond that number, are leftovers of interrupted or undone operations.

Where files in use differ from that description, the files take precedence: the columns of a ctable are directly in it;
files of bcolz 1.0 and older store ``shuffle`` as a bool, leave out ``cname`` and ``quantize``, and store the default of
an N-dimensional array as nested lists; a default may be NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.bcolz.chunks import automatic_chunklen
from tegula.formats.bcolz.codecs import QUANTIZE, codecs_from_json
from tegula.formats.bcolz.defaults import default_from_json, default_to_json
from tegula.formats.descriptions import memoized
from tegula.formats.dimension_names import names_in
from tegula.formats.documents import integers, load, load_attributes, member, replace_document, rewrite
from tegula.formats.keys import BCOLZ_KEYS, BCOLZ_NODE_KEYS, BCOLZ_SHAPE_KEY, Style
from tegula.formats.numpy_types import dtype_from_text, dtype_to_text
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.chunk_keys import BCOLZ_KEYS as CHUNK_KEYS
from tegula.metadata.data_types import OBJECT, DataType
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata
from tegula.runtime import frozen
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula.formats import json_encoding
else:
    json_encoding = Later("tegula.formats.json_encoding")

__all__ = [
    "DEFAULT_COMPRESSORS",
    "KEYS",
    "NAME",
    "NODE_KEYS",
    "SHAPE_KEY",
    "is_draft",
    "new_draft",
    "parse",
    "serialize",
]

NAME: Final = "bcolz"
NODE_KEYS: Final = BCOLZ_NODE_KEYS
SHAPE_KEY: Final = BCOLZ_SHAPE_KEY
KEYS: Final = BCOLZ_KEYS
DEFAULT_COMPRESSORS: Final = (CodecSpec("numcodecs.blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1}),)
_STYLE: Final = Style(indent=None, spaced=True, ending="\n")
_usual_sizes: Final = re.compile(rb'\{"shape": (\[[0-9, ]*\]), "nbytes": [0-9]+, "cbytes": [0-9]+\}(\s*)').fullmatch
_DRAFT: Final = b'{"under_creation": "'
_INCOMPLETE: Final = (
    "so its length is unknown: the array is still being created, or the process that created it was killed; "
    "in that case create it again with overwrite=True"
)


def new_draft(token: str) -> bytes:
    """Return the placeholder for ``meta/sizes`` while the chunks of a new array are written.

    bcolz does not open an array with this placeholder either.

    Parameters
    ----------
    token : str
        A text that is unique to this creation, so that it recognizes its own placeholder.

    Examples
    --------
    >>> new_draft("7f3a")
    b'{"under_creation": "7f3a"}\\n'
    """
    return _DRAFT + token.encode() + b'"}\n'


def is_draft(raw: bytes) -> bool:
    """Return whether a document is a placeholder made by `new_draft`."""
    return raw.startswith(_DRAFT)


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the documents of a carray or a ctable (sections "The `meta` files" and "The `__attrs__` file").

    Examples
    --------
    >>> parse({"__rootdirs__": b'{"names": ["x", "y"]}'}).members
    ('x', 'y')
    """
    attributes = load_attributes(documents, "__attrs__") if documents.get("__attrs__", b"").strip() else {}
    if "meta/storage" in documents:
        return _parse_carray(documents, attributes)
    if "__rootdirs__" not in documents:
        return None
    names = member(load(documents["__rootdirs__"], "__rootdirs__"), "names", "__rootdirs__")
    return GroupMetadata(attributes=attributes, format=NAME, members=_column_names(names), documents=documents)


def _column_names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(map(_is_name, value)):
        raise MetadataError(f"{value!r:.80} are not column names", key="__rootdirs__", field="names")
    if len({*value}) < len(value):
        raise MetadataError("two columns have the same name", key="__rootdirs__", field="names")
    return tuple(value)


def _is_name(value: Any) -> bool:
    """Return whether a directory in the ctable can have that name."""
    if not isinstance(value, str) or value in ("", ".", "..", *KEYS) or "/" in value or "\0" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _parse_carray(documents: Mapping[str, bytes], attributes: Mapping[str, Any]) -> ArrayMetadata:
    # `meta/sizes` is the last document that a creation writes
    storage = load(documents["meta/storage"], "meta/storage")
    if "meta/sizes" not in documents:
        raise MetadataError(f"meta/sizes is missing, {_INCOMPLETE}", key="meta/sizes")
    if is_draft(documents["meta/sizes"]):
        raise MetadataError(f"meta/sizes has no length yet, {_INCOMPLETE}", key="meta/sizes")
    sizes = load(documents["meta/sizes"], "meta/sizes")
    shape = integers(member(sizes, "shape", "meta/sizes"), "shape", "meta/sizes", least=0)
    if not shape:
        raise MetadataError("a carray has at least one axis", key="meta/sizes", field="shape")
    # arrays that differ only in these numbers share one description
    shared = _describe({**storage, "expectedlen": None, "row": [*shape[1:]]})
    expectedlen, cbytes = storage.get("expectedlen"), sizes.get("cbytes")
    extra = {"expectedlen": expectedlen} if type(expectedlen) is int else {}  # it is a hint: damage to it does no harm
    return frozen.replace(
        shared,
        shape=shape,
        attributes=attributes,
        dimension_names=names_in(attributes, len(shape)),
        stored_nbytes=cbytes if type(cbytes) is int else None,
        extra={**extra, **shared.extra},
        documents=documents,
    )


@memoized
def _describe(storage: dict[str, Any]) -> ArrayMetadata:
    """Read ``meta/storage`` with the shape of a row; the array that is returned has no rows."""
    data_type = _data_type(member(storage, "dtype", "meta/storage"))
    chunklen = integers([member(storage, "chunklen", "meta/storage")], "chunklen", "meta/storage", least=1)[0]
    row, extra = storage["row"], {}
    # bcolz stores each object in a chunk of its own, whatever `chunklen` says
    if data_type is OBJECT:
        if row:
            raise UnsupportedError("a carray of Python objects has one axis", key="meta/sizes", field="shape")
        chunklen, extra = 1, {"chunklen": chunklen}
    return ArrayMetadata(
        shape=(0, *row),
        data_type=data_type,
        grid=regular_grid([chunklen, *(max(1, size) for size in row)]),
        keys=CHUNK_KEYS,
        codecs=codecs_from_json(member(storage, "cparams", "meta/storage"), data_type),
        fill_value=default_from_json(storage.get("dflt", 0), data_type, tuple(row)),
        format=NAME,
        dense=True,
        extra=extra,
    )


def _data_type(value: Any) -> DataType:
    dtype = dtype_from_text(value, "meta/storage")
    return OBJECT if dtype.kind == "O" else DataType(dtype)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the documents of a node as bcolz writes them; documents that have not changed keep their bytes."""
    documents = metadata.documents
    attributes = documents
    if not documents.get("__attrs__", b"").strip():  # bcolz leaves an empty file
        attributes = {key: raw for key, raw in documents.items() if key != "__attrs__"}
    out = {"__attrs__": replace_document(attributes, "__attrs__", metadata.attributes, _STYLE)}
    if isinstance(metadata, GroupMetadata):
        out["__rootdirs__"] = rewrite(documents, "__rootdirs__", {"names": [*(metadata.members or ())]}, _STYLE)
        return out
    out[SHAPE_KEY] = _sizes(metadata)
    out["meta/storage"] = documents.get("meta/storage") or rewrite({}, "meta/storage", _storage(metadata), _STYLE)
    return out


def _sizes(metadata: ArrayMetadata) -> bytes:
    """Write ``meta/sizes``: the shape, and sizes in bytes that nothing reads."""
    raw = metadata.documents.get(SHAPE_KEY)
    if raw is not None and raw.startswith(_DRAFT):
        raw = None
    row = math.prod(metadata.shape[1:]) * metadata.data_type.numpy.itemsize
    nbytes, cbytes = metadata.shape[0] * row, metadata.stored_nbytes
    if cbytes is None:  # bcolz counts the buffer for the last rows as one uncompressed chunk
        cbytes = _chunklen(metadata) * row
    # each append writes this document, so parsing it is avoided in the usual case
    usual = None if raw is None else _usual_sizes(raw)
    if raw is not None and usual is not None:
        shape = str([*metadata.shape]).encode()
        if usual[1] == shape:
            return raw
        return b'{"shape": %b, "nbytes": %d, "cbytes": %d}%b' % (shape, nbytes, cbytes, usual[2])
    old = {} if raw is None else load(raw, SHAPE_KEY)
    if raw is not None and old["shape"] == [*metadata.shape]:
        return raw
    sizes = {"shape": [*metadata.shape], "nbytes": nbytes, "cbytes": cbytes}
    style = _STYLE if raw is None else json_encoding.style_of(raw)
    return json_encoding.dump({**old, **sizes}, SHAPE_KEY, style)


def _chunklen(metadata: ArrayMetadata) -> int:
    """Return ``chunklen``, which for objects is not the length of a stored chunk."""
    if not metadata.data_type.variable:
        return metadata.grid.largest_chunk()[0]
    chunklen: int = metadata.extra.get("chunklen") or automatic_chunklen(metadata.shape[0], 8)
    return chunklen


def _storage(metadata: ArrayMetadata) -> dict[str, Any]:
    codecs = {codec.name: codec.configuration for codec in metadata.codecs}
    frame = codecs["numcodecs.blosc"]
    return {
        "dtype": dtype_to_text(metadata.data_type.numpy),
        "cparams": {
            "clevel": frame["clevel"],
            "shuffle": frame["shuffle"],
            "cname": frame["cname"],
            "quantize": codecs.get(QUANTIZE, {}).get("digits", 0),
        },
        "chunklen": _chunklen(metadata),
        "expectedlen": metadata.extra.get("expectedlen", metadata.shape[0]),
        "dflt": default_to_json(metadata.fill_value, metadata.data_type),
    }
