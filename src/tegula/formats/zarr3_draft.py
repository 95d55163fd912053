"""Drafts of Zarr v3 from 2019 to 2022: read-only, as zarr 2 wrote them with its experimental interface.

A hierarchy has one entry point, ``zarr.json``, at its root. The documents of all nodes are below ``meta/root/``, and
all chunks below ``data/root/``. `tegula.stores.zarr3_draft.DraftStore` shows these keys as those of an ordinary
hierarchy, in which each node has a ``zarr.json``: the document of the draft, with version and kind of the node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats import zarr2
from tegula.formats.descriptions import complete, memoized
from tegula.formats.dimension_names import names_in
from tegula.formats.documents import load, member
from tegula.formats.keys import DRAFTS
from tegula.formats.keys import ZARR3_KEY as KEY
from tegula.formats.zarr3_codecs import codec_to_json
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata
from tegula.runtime.frozen import replace

__all__ = [
    "DEFAULT_COMPRESSORS", "NAME", "TREES", "EntryPoint", "adapt", "entry_point", "is_entry_point", "parse",
    "serialize",
]  # fmt: skip

NAME: Final = "zarr3_draft"
TREES: Final = ("meta/", "data/")
"""The prefixes beside the entry point below which all documents and all chunks lie."""
DEFAULT_COMPRESSORS: Final = zarr2.DEFAULT_COMPRESSORS
_CORE: Final = re.compile(r"https?://purl\.org/zarr/spec/(?:protocol/)?core/3\.0(?:-dev)?/?")
_ENCODINGS: Final = ("application/json", "json")  # beside the URL of the protocol, which its drafts name
_CODEC: Final = re.compile(r"https?://purl\.org/zarr/spec/codecs?/([a-z0-9]+)/1\.[0-9]+/?")
_CODECS: Final = frozenset("blosc bz2 gzip lz4 lzma zlib zstd".split())
_SHARDING: Final = re.compile(r"https?://purl\.org/zarr/spec/storage_transformers/sharding/1\.0/?")
_ENTRY_MEMBERS: Final = frozenset("zarr_format metadata_encoding metadata_key_suffix extensions".split())
_ADDED: Final = frozenset(("zarr_format", "node_type"))
_GROUP_MEMBERS: Final = _ADDED | {"attributes", "extensions"}
_ARRAY_MEMBERS: Final = _GROUP_MEMBERS | frozenset(
    "shape data_type chunk_grid chunk_memory_layout compressor fill_value storage_transformers"
    " dimension_separator".split()  # the last is another copy of the separator in `chunk_grid`, by zarr 2
)
_FIELDS: Final = {
    "chunks": "chunk_grid", "dtype": "data_type", "order": "chunk_memory_layout", "filters": "attributes",
    "dimension_separator": "chunk_grid",
}  # fmt: skip
"""Members of ``.zarray`` in errors, and those of the draft."""
_ADVICE: Final = "drafts of Zarr v3 are read-only; convert the hierarchy to write it"


class EntryPoint(NamedTuple):
    """What the entry point of a hierarchy says.

    Parameters
    ----------
    version : str
        The version of the protocol, a URL.
    suffix : str
        The end of the names of all documents, such as ``.json``.
    """

    version: str
    suffix: str


def entry_point(raw: bytes) -> EntryPoint | None:
    """Read the entry point of a hierarchy; return ``None`` if the document is another one.

    Raises
    ------
    MetadataError
        If it is not valid.
    UnsupportedError
        If it names another version or encoding, or an extension that must be understood.

    Examples
    --------
    >>> entry_point(b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "metadata_key_suffix": ".json"}')
    EntryPoint(version='https://purl.org/zarr/spec/protocol/core/3.0', suffix='.json')
    >>> entry_point(b'{"zarr_format": 3, "node_type": "group"}')
    """
    if not is_entry_point(raw):
        return None
    document = load(raw, KEY)
    version = document["zarr_format"]
    if not _CORE.fullmatch(version):
        raise UnsupportedError(f"unknown draft of Zarr v3, {version!r:.80}", key=KEY, field="zarr_format")
    encoding = document.get("metadata_encoding", version)
    if encoding not in _ENCODINGS and not (isinstance(encoding, str) and _CORE.fullmatch(encoding)):
        raise UnsupportedError(f"unknown encoding of documents, {encoding!r:.80}", key=KEY, field="metadata_encoding")
    suffix = document.get("metadata_key_suffix", "")
    if not isinstance(suffix, str) or not re.fullmatch(r"(?:[.][A-Za-z0-9_-]{1,30}){0,4}", suffix):
        raise MetadataError(f"{suffix!r:.40} is no suffix of keys", key=KEY, field="metadata_key_suffix")
    _check_members(document, _ENTRY_MEMBERS)
    return EntryPoint(version, suffix)


def is_entry_point(raw: bytes) -> bool:
    """Return whether a document is the entry point of a hierarchy, even one that is not valid.

    Examples
    --------
    >>> is_entry_point(b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/4.0"}'), is_entry_point(b"{}")
    (True, False)
    """
    return (document := _load(raw)) is not None and "node_type" not in document


def _load(raw: bytes) -> dict[str, Any] | None:
    """Return the document of a draft; ``None`` if it belongs to another format, which reports what is wrong with it."""
    if b"purl.org" not in raw:
        return None
    try:
        document = load(raw, KEY)
    except MetadataError:
        return None
    return document if str(document.get("zarr_format")).startswith(DRAFTS) else None


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the document of a node, as a `DraftStore` shows it (sections "Array metadata" and "Group metadata").

    Parameters
    ----------
    documents : mapping of str to bytes
        The documents of a node, by key.

    Returns
    -------
    ArrayMetadata, GroupMetadata or None
        ``None`` if there is no ``zarr.json`` of a draft.

    Raises
    ------
    MetadataError
        If the document is not valid.
    UnsupportedError
        If it has an extension that must be understood, or is the entry point of a hierarchy, which is no node.

    Examples
    --------
    >>> array = parse({"zarr.json": b'''{
    ...     "zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "node_type": "array", "shape": [6, 3],
    ...     "data_type": "<i4", "chunk_grid": {"type": "regular", "chunk_shape": [4, 3], "separator": "/"},
    ...     "chunk_memory_layout": "C", "fill_value": 0, "attributes": {}, "extensions": [],
    ...     "compressor": {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0", "configuration": {"level": 1}}}'''})
    >>> array.keys.encode((1, 0)), [codec.name for codec in array.codecs]
    ('c1/0', ['bytes', 'numcodecs.gzip'])
    """
    raw = documents.get(KEY)
    document = None if raw is None else _load(raw)
    if document is None:
        return None
    kind = document.get("node_type")
    if kind is None:
        entry_point(raw or b"")
    if kind not in ("array", "group"):
        raise UnsupportedError(
            "this is the entry point of a hierarchy of a draft of Zarr v3, which is not written; to read it, open the"
            " hierarchy by its own path",
            key=KEY,
            field="zarr_format",
        )
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise MetadataError("attributes must be an object", key=KEY, field="attributes")
    _check_members(document, _GROUP_MEMBERS if kind == "group" else _ARRAY_MEMBERS)
    if kind == "group":
        return GroupMetadata(attributes=attributes, format=NAME, documents=documents)
    described = {name: value for name, value in document.items() if name not in ("attributes", "extensions")}
    described["filters"] = attributes.pop("filters", None) or None
    try:
        array = _describe(described)
        return complete(array, attributes, documents, names_in(attributes, array.ndim))
    except TegulaError as error:
        error.key, error.field = KEY, _FIELDS.get(error.field or "", error.field)
        raise


def _check_members(document: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse unknown members, and extensions, that must be understood."""
    for name in sorted(document.keys() - known):
        if not _may_be_ignored(document[name]):
            raise UnsupportedError(f"unknown member {name!r:.40}, which must be understood", key=KEY, field=name)
    extensions = document.get("extensions", [])
    if not isinstance(extensions, list):
        raise MetadataError("extensions must be a list", key=KEY, field="extensions")
    for extension in extensions:
        if not _may_be_ignored(extension):
            named = extension.get("extension") if isinstance(extension, dict) else extension
            raise UnsupportedError(
                f"unknown extension {named!r:.80}, which must be understood", key=KEY, field="extensions"
            )


def _may_be_ignored(extension: Any) -> bool:
    return isinstance(extension, dict) and extension.get("must_understand") is False


@memoized
def _describe(document: dict[str, Any]) -> ArrayMetadata:
    """Read the description of an array, in terms of Zarr v2, which has the same data types, fill values and codecs."""
    grid = _object(member(document, "chunk_grid", KEY), "chunk_grid")
    if grid.get("type") != "regular":
        raise UnsupportedError(f"unknown chunk grid {grid.get('type')!r:.40}", field="chunk_grid")
    separator = grid.get("separator", "/")
    compressor = _compressor(document.get("compressor"))
    described = zarr2.describe(
        {
            "zarr_format": 2,
            "shape": member(document, "shape", KEY),
            "chunks": member(grid, "chunk_shape", KEY),
            "dtype": _data_type(member(document, "data_type", KEY)),
            "compressor": compressor,
            "fill_value": document.get("fill_value"),
            "order": document.get("chunk_memory_layout", "C"),
            "filters": document["filters"],
            "dimension_separator": separator,
        }
    )
    keys = ChunkKeyEncoding(separator, "c", "", "c0")
    array = replace(described, keys=keys, format=NAME)
    return _sharded(array, document.get("storage_transformers", []))


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MetadataError(f"{field} must be an object", field=field)
    return value


def _data_type(value: Any) -> Any:
    """Return the ``dtype`` of Zarr v2 for a data type: its name, or the one that an extension names."""
    if isinstance(value, dict):
        value = member(value, "type", KEY)
    if isinstance(value, str):
        if (raw := re.fullmatch(r"r([1-9][0-9]{0,9})", value)) is not None and int(raw[1]) % 8 == 0:
            return f"|V{int(raw[1]) // 8}"
        return {"bool": "|b1", "i1": "|i1", "u1": "|u1"}.get(value, value)
    return value


def _compressor(value: Any) -> dict[str, Any] | None:
    """Return the ``compressor`` of Zarr v2."""
    if value is None:
        return None
    url = member(_object(value, "compressor"), "codec", KEY)
    known = _CODEC.fullmatch(url) if isinstance(url, str) else None
    if known is None or known[1] not in _CODECS:
        raise UnsupportedError(f"unknown codec {url!r:.120}", field="compressor")
    return {**_object(value.get("configuration", {}), "compressor"), "id": known[1]}


def _sharded(array: ArrayMetadata, transformers: Any) -> ArrayMetadata:
    """Return the array with its chunks in shards, if a storage transformer says so (draft of sharding, 2022)."""
    if not isinstance(transformers, list):
        raise MetadataError("storage transformers must be a list", field="storage_transformers")
    required = [one for one in transformers if not _may_be_ignored(one)]
    if not required:
        return array
    transformer = _object(required[0], "storage_transformers")
    url = transformer.get("extension")
    known = isinstance(url, str) and _SHARDING.fullmatch(url) is not None and transformer.get("type") == "indexed"
    if len(required) > 1 or not known:
        raise UnsupportedError(f"unknown storage transformer {url!r:.80}", field="storage_transformers")
    numbers = _object(transformer.get("configuration"), "storage_transformers").get("chunks_per_shard")
    counts = numbers if isinstance(numbers, list) else [numbers]
    counts += [1] * (array.ndim - len(counts))  # as zarr 2, for the axes of subarrays
    if len(counts) != array.ndim or not all(type(count) is int and 0 < count < 2**32 for count in counts):
        raise MetadataError(f"{numbers!r:.80} are no numbers of chunks", field="storage_transformers")
    inner = array.grid.largest_chunk()
    sharding = CodecSpec(
        "sharding_indexed",
        {
            "chunk_shape": [*inner],
            "codecs": [codec_to_json(codec) for codec in array.codecs],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "index_location": "end",
        },
    )
    shards = [length * count for length, count in zip(inner, counts)]
    return replace(array, grid=regular_grid(shards), codecs=(sharding,))


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Raise `UnsupportedError`: drafts are not written."""
    raise UnsupportedError(_ADVICE)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Raise `UnsupportedError`: drafts are not written."""
    raise UnsupportedError(_ADVICE)
