"""Zarr v3: one ``zarr.json`` for each node, and the consolidated metadata that a group's may carry.

The core specification (version 3.1) with the registered extensions: names may stand for extension objects, members that
must be understood and are not known are refused, and the attributes ``must_understand: false`` are honoured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.consolidated import Consolidated
from tegula.formats.descriptions import complete, remembering
from tegula.formats.dimension_names import attributes_without
from tegula.formats.documents import Style, dump, dump_members, integers, load, member, rewrite
from tegula.formats.members import Members, find_members
from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, RegularAxis, VaryingAxis, regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding, default_keys, v2_keys
from tegula.metadata.data_types import EXTENDED, DataType, data_type_from_json, data_type_to_json, packed
from tegula.metadata.fill_values import fill_from_document, fill_to_json, scalar_array, undefined_fill
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata

__all__ = [
    "DEFAULT_COMPRESSORS",
    "KEYS",
    "NAME",
    "NODE_KEYS",
    "SHAPE_KEY",
    "STYLE",
    "adapt",
    "codecs_from_json",
    "consolidate",
    "consolidated",
    "parse",
    "serialize",
]

NAME: Final = "zarr3"
KEYS: Final = ("zarr.json",)
NODE_KEYS: Final = KEYS
SHAPE_KEY: Final = KEYS[0]
DEFAULT_COMPRESSORS: Final = (CodecSpec("zstd", {"level": 0, "checksum": False}),)
_KEY: Final = "zarr.json"
STYLE: Final = Style(indent=2)
_ARRAY_MEMBERS: Final = frozenset(
    "zarr_format node_type shape data_type chunk_grid chunk_key_encoding fill_value codecs attributes dimension_names"
    " storage_transformers".split()
)
_GROUP_MEMBERS: Final = frozenset("zarr_format node_type attributes consolidated_metadata".split())
_COPIES: Final = "consolidated_metadata"
_COPIES_AT: Final = (_COPIES, "metadata")
_LARGE: Final = 2**15
_MAX_EDGES: Final = 2**20  # of all axes together
_MAX_TYPESIZE: Final = 255
_INDEX_CODECS: Final = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
_ARRAY_TO_BYTES: Final = frozenset(
    "bytes sharding_indexed vlen-utf8 vlen-bytes packbits numcodecs.pcodec numcodecs.zfpy".split()
)
_ARRAY_TO_ARRAY: Final = frozenset(
    ["transpose", "cast_value", "scale_offset"]
    + [f"numcodecs.{name}" for name in ("delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype")]
)


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the document of a node; ``None`` if there is none (Zarr v3 core, "array metadata", "group metadata").

    Raises
    ------
    MetadataError, UnsupportedError
        If the document is not valid, or holds something that must be understood and is not.
    """
    if _KEY not in documents:
        return None
    document, copies = _load(documents[_KEY])
    if type(member(document, "zarr_format", _KEY)) is not int or document["zarr_format"] != 3:
        raise MetadataError(f"zarr_format is {document['zarr_format']!r:.40}, not 3", key=_KEY, field="zarr_format")
    kind = member(document, "node_type", _KEY)
    if kind not in ("array", "group"):
        raise MetadataError(f"node_type must be array or group, not {kind!r:.40}", key=_KEY, field="node_type")
    known = _ARRAY_MEMBERS if kind == "array" else _GROUP_MEMBERS
    for name in document.keys() - known:
        extension = document[name]
        if not (isinstance(extension, dict) and extension.get("must_understand") is False):
            raise UnsupportedError(f"the extension {name!r} must be understood", key=_KEY, field=name)
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise MetadataError("attributes must be an object", key=_KEY, field="attributes")
    if kind == "group":
        return GroupMetadata(attributes=attributes, format=NAME, documents=documents, copies=copies)
    try:
        document.pop("attributes", None)
        array = _describe(document)
        return complete(array, attributes, documents, array.dimension_names)
    except (MetadataError, UnsupportedError) as error:
        error.within(key=_KEY)
        raise


def _load(raw: bytes) -> tuple[dict[str, Any], Consolidated | None]:
    """Read a document; if it has copies of many others, these are not read but found."""
    if len(raw) > _LARGE and f'"{_COPIES}"'.encode() in raw:
        levels = find_members(raw, _COPIES_AT)
        if levels is not None and levels[0].get("node_type") == b'"group"':
            return levels[0].parsed(without=_COPIES), _copies(levels)
    return load(raw, _KEY), None


def _copies(levels: list[Members]) -> Consolidated | None:
    if len(levels) == len(_COPIES_AT) + 1 and levels[1].get("kind") == b'"inline"':
        return Consolidated(levels[-1], only=_KEY)
    return None


@remembering
def _describe(document: dict[str, Any]) -> ArrayMetadata:
    shape = integers(member(document, "shape", _KEY), "shape", _KEY, least=0)
    data_type = data_type_from_json(member(document, "data_type", _KEY))
    for transformer in _extensions(document.get("storage_transformers", []), "storage_transformers"):
        if transformer.must_understand:
            raise UnsupportedError(
                f"no storage transformer is called {transformer.name!r}", key=_KEY, field="storage_transformers"
            )
    codecs = codecs_from_json(member(document, "codecs", _KEY))
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=_grid_from_json(member(document, "chunk_grid", _KEY), shape),
        keys=_keys_from_json(member(document, "chunk_key_encoding", _KEY)),
        codecs=codecs,
        fill_value=fill_from_document(member(document, "fill_value", _KEY), data_type),
        dimension_names=_dimension_names(document.get("dimension_names"), len(shape)),
        format=NAME,
    )


def _extension(value: Any, field: str) -> CodecSpec:
    """Read an extension object, or the name that stands for one (v3 core, "extension definition")."""
    if isinstance(value, str):
        return CodecSpec(value)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise MetadataError(f"{value!r:.80} is neither a name nor an object with one", key=_KEY, field=field)
    configuration = value.get("configuration", {})
    understand = value.get("must_understand", True)
    if not isinstance(configuration, dict) or not isinstance(understand, bool):
        raise MetadataError("a configuration must be an object, must_understand true or false", key=_KEY, field=field)
    return CodecSpec(value["name"], configuration, understand)


def _extensions(value: Any, field: str) -> list[CodecSpec]:
    if not isinstance(value, list):
        raise MetadataError(f"{field} must be a list, not {value!r:.80}", key=_KEY, field=field)
    return [_extension(item, field) for item in value]


def codecs_from_json(value: Any) -> tuple[CodecSpec, ...]:
    """Read a list of codecs and check the order of their kinds (v3 core, "codecs").

    Raises
    ------
    MetadataError
        If there is not exactly one array→bytes codec, or an array→array codec behind it.

    Examples
    --------
    >>> codecs_from_json(["bytes", {"name": "gzip", "configuration": {"level": 1}}])[1].name
    'gzip'
    """
    codecs = _extensions(value, "codecs")
    kinds = [1 if c.name in _ARRAY_TO_BYTES else 0 if c.name in _ARRAY_TO_ARRAY else 2 for c in codecs]
    if kinds.count(1) != 1:
        raise MetadataError(f"there must be one array→bytes codec, not {kinds.count(1)}", key=_KEY, field="codecs")
    # a codec nobody here knows could be of any kind; the chain refuses it by name when it is built
    if 0 in kinds[kinds.index(1) :]:
        raise MetadataError("an array→array codec stands behind the array→bytes codec", key=_KEY, field="codecs")
    return tuple(codecs)


def _grid_from_json(value: Any, shape: tuple[int, ...]) -> ChunkGrid:
    grid = _extension(value, "chunk_grid")
    if grid.name == "regular":
        chunks = member(grid.configuration, "chunk_shape", _KEY)
        lengths = integers(chunks, "chunk_shape", _KEY, least=0, ndim=len(shape))
        if any(length == 0 and size for length, size in zip(lengths, shape)):
            raise MetadataError("a chunk must be at least 1 long", key=_KEY, field="chunk_shape")
        return regular_grid([max(1, length) for length in lengths])
    if grid.name != "rectilinear":
        raise UnsupportedError(f"no chunk grid is called {grid.name!r}", key=_KEY, field="chunk_grid")
    shapes = member(grid.configuration, "chunk_shapes", _KEY)
    if grid.configuration.get("kind", "inline") != "inline":
        raise UnsupportedError("only inline rectilinear grids are known", key=_KEY, field="chunk_grid.kind")
    if not isinstance(shapes, list) or len(shapes) != len(shape):
        raise MetadataError("chunk_shapes must have an entry for each dimension", key=_KEY, field="chunk_shapes")
    most = _MAX_EDGES // max(1, len(shape))
    return ChunkGrid(tuple(_axis_from_json(item, size, most) for item, size in zip(shapes, shape)))


def _axis_from_json(value: Any, size: int, most: int) -> ChunkAxis:
    """Read one axis of a rectilinear grid: a length, or lengths and ``[length, count]`` runs."""
    wrong = MetadataError(f"{value!r:.80} are not the lengths of chunks", key=_KEY, field="chunk_shapes")
    if type(value) is int and 0 < value < 2**63:
        return RegularAxis(value)
    if not isinstance(value, list):
        raise wrong
    edges: list[int] = []
    for item in value:
        length, count = item if isinstance(item, list) and len(item) == 2 else (item, 1)
        if type(length) is not int or type(count) is not int or not 0 < length < 2**63 or count < 0:
            raise wrong
        if len(edges) + count > most:
            raise MetadataError(f"an axis has more than {most} chunks", key=_KEY, field="chunk_shapes")
        edges += [length] * count
    if not size <= sum(edges) < 2**63:
        raise MetadataError(f"the chunks of an axis cover {sum(edges)} of {size}", key=_KEY, field="chunk_shapes")
    return VaryingAxis(tuple(edges))


def _keys_from_json(value: Any) -> ChunkKeyEncoding:
    encoding = _extension(value, "chunk_key_encoding")
    makers = {"default": (default_keys, "/"), "v2": (v2_keys, ".")}
    if encoding.name not in makers:
        raise UnsupportedError(
            f"no chunk key encoding is called {encoding.name!r}", key=_KEY, field="chunk_key_encoding"
        )
    make, usual = makers[encoding.name]
    separator = encoding.configuration.get("separator", usual)
    if separator not in (".", "/"):
        raise MetadataError(
            f"the separator must be . or /, not {separator!r:.40}", key=_KEY, field="chunk_key_encoding"
        )
    return make(separator)


def _dimension_names(value: Any, ndim: int) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(name is None or isinstance(name, str) for name in value):
        raise MetadataError("dimension_names must be a list of strings and nulls", key=_KEY, field="dimension_names")
    if len(value) != ndim:
        raise MetadataError(f"{len(value)} names for {ndim} dimensions", key=_KEY, field="dimension_names")
    return tuple(value)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the document of a node, as zarr-python writes it; the one it was read from changes only where it has.

    Raises
    ------
    UnsupportedError
        If the array is not one that `adapt` returns.
    """
    documents = metadata.documents
    old = load(documents[_KEY], _KEY) if _KEY in documents else None
    changes: dict[str, Any] = {}
    if isinstance(metadata, GroupMetadata):
        if old is None:
            changes = {"attributes": metadata.attributes, "zarr_format": 3, "node_type": "group"}
    elif old is None:
        changes = _document(metadata)
    else:
        changes = {"shape": [*metadata.shape]}
        if metadata.grid.is_regular and 0 in _chunk_lengths(old) and 0 not in metadata.shape:
            changes["chunk_grid"] = _grid_to_json(metadata.grid)  # a length of 0 did while there was nothing to hold
        if not (metadata.grid.is_regular or _grid_from_json(old["chunk_grid"], tuple(old["shape"])) == metadata.grid):
            changes["chunk_grid"] = _grid_to_json(metadata.grid)
    if old is not None and (metadata.attributes or "attributes" in old):
        changes["attributes"] = metadata.attributes
    return {_KEY: rewrite(documents, _KEY, changes, STYLE, old)}


def _chunk_lengths(document: Mapping[str, Any]) -> list[Any]:
    grid = document.get("chunk_grid")
    lengths = grid["configuration"].get("chunk_shape", []) if isinstance(grid, dict) else []
    return lengths if isinstance(lengths, list) else []


def _document(metadata: ArrayMetadata) -> dict[str, Any]:
    fill = metadata.fill_value if metadata.fill_value is not None else undefined_fill(metadata.data_type)
    document = {
        "shape": [*metadata.shape],
        "data_type": data_type_to_json(metadata.data_type),
        "chunk_grid": _grid_to_json(metadata.grid),
        "chunk_key_encoding": {
            "name": "default" if metadata.keys.prefix else "v2",
            "configuration": {"separator": metadata.keys.separator},
        },
        "fill_value": _fill_to_json(fill, metadata.data_type),
        "codecs": [_codec_to_json(codec) for codec in metadata.codecs],
        "attributes": metadata.attributes,
    }
    if metadata.dimension_names is not None:
        document["dimension_names"] = [*metadata.dimension_names]
    return {**document, "zarr_format": 3, "node_type": "array", "storage_transformers": []}


def _fill_to_json(fill: Any, data_type: DataType) -> Any:
    if data_type.numpy.kind in "Mm":
        return int(fill.astype(data_type.numpy.newbyteorder("=")).view("i8"))  # NaT too, as zarr-python has it
    return fill_to_json(fill, data_type)


def _codec_to_json(codec: CodecSpec) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    out: dict[str, Any] = {"name": codec.name}
    if codec.name == "sharding_indexed":
        for name in ("codecs", "index_codecs"):
            if name not in configuration:
                raise MetadataError(f"the shards need {name}", field=name, codec=codec.name)
            configuration[name] = [_codec_to_json(inner) for inner in codecs_from_json(configuration[name])]
    if configuration or codec.name.startswith(("vlen-", "numcodecs.")):
        out["configuration"] = configuration
    return out if codec.must_understand else {**out, "must_understand": False}


def _grid_to_json(grid: ChunkGrid) -> dict[str, Any]:
    if grid.is_regular:
        return {"name": "regular", "configuration": {"chunk_shape": [*grid.largest_chunk()]}}
    if any(isinstance(axis, VaryingAxis) and len(axis.edges) > _MAX_EDGES // grid.ndim for axis in grid.axes):
        raise UnsupportedError(f"an axis has more than {_MAX_EDGES // grid.ndim} chunks", field="chunks")
    shapes = [axis.chunk if isinstance(axis, RegularAxis) else _runs(axis.edges) for axis in grid.axes]
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def _runs(edges: tuple[int, ...]) -> list[int | list[int]]:
    out: list[int | list[int]] = []
    for edge in edges:
        last = out[-1] if out else 0
        if isinstance(last, list) and last[0] == edge:
            last[1] += 1
        elif last == edge:
            out[-1] = [edge, 2]
        else:
            out.append(edge)
    return out


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Return the array as Zarr v3 would hold it: native dtype, byte order in a codec, and registered codec names.

    Raises
    ------
    UnsupportedError
        If the data type or a codec has no form in Zarr v3.
    """
    data_type = metadata.data_type
    codecs = [codec for codec in metadata.codecs if codec.name != "bytes"]
    if data_type.is_fixed and data_type.numpy not in EXTENDED.values():
        data_type = DataType(packed(data_type.numpy).newbyteorder("="), alias=data_type.alias)
    data_type_to_json(data_type)
    first = next((n for n, c in enumerate(codecs) if c.name not in _ARRAY_TO_ARRAY | _ARRAY_TO_BYTES), 0)
    # what has been compressed once has no elements any more
    sizes = [_typesize(data_type) if number <= first else 1 for number in range(len(codecs))]
    codecs = [_adapt_codec(codec, data_type, typesize) for codec, typesize in zip(codecs, sizes)]
    endian = next((c.configuration.get("endian") for c in metadata.codecs if c.name == "bytes"), None)
    before = [codec for codec in codecs if codec.name in _ARRAY_TO_ARRAY]
    middle = [codec for codec in codecs if codec.name in _ARRAY_TO_BYTES]
    after = [codec for codec in codecs if codec.name not in _ARRAY_TO_ARRAY | _ARRAY_TO_BYTES]
    if metadata.format == NAME:  # it may stand behind codecs that change the data type
        middle = [codec for codec in metadata.codecs if codec.name in _ARRAY_TO_BYTES]
    if not middle:
        middle = [_array_to_bytes(data_type, endian)]
    if len(middle) > 1:
        raise UnsupportedError("a chunk can be turned into bytes only once", codec=middle[1].name)
    if middle[0].name == "sharding_indexed":
        middle = [_adapt_shards(middle[0], metadata)]
    attributes, names = metadata.attributes, metadata.dimension_names
    if metadata.format != NAME and names is not None:
        attributes = attributes_without(attributes)  # where the other format keeps them
    fill = metadata.fill_value
    if fill is not None and data_type.variable:
        fill = scalar_array(fill[()], data_type)
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=metadata.grid,
        keys=metadata.keys if metadata.format == NAME else default_keys(),
        codecs=(*before, *middle, *after),
        fill_value=undefined_fill(data_type) if fill is None else fill.astype(data_type.numpy),
        attributes=attributes,
        dimension_names=names,
        format=NAME,
    )


def _array_to_bytes(data_type: DataType, endian: str | None) -> CodecSpec:
    if data_type.variable == "string":
        return CodecSpec("vlen-utf8")
    if data_type.variable == "bytes":
        return CodecSpec("vlen-bytes")
    return CodecSpec("bytes", {"endian": endian or "little"}) if data_type.has_byte_order else CodecSpec("bytes")


def _adapt_codec(codec: CodecSpec, data_type: DataType, typesize: int) -> CodecSpec:
    options = dict(codec.configuration)
    if codec.name == "numcodecs.blosc":
        shuffle = options.get("shuffle", 1)
        if shuffle == -1:
            shuffle = 2 if data_type.itemsize == 1 else 1
        names = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
        if shuffle not in names:
            raise MetadataError(
                f"shuffle must be 0, 1, 2 or -1, not {shuffle!r:.40}", codec=codec.name, field="shuffle"
            )
        return CodecSpec(
            "blosc",
            {
                "typesize": typesize,
                "cname": options.get("cname", "lz4"),
                "clevel": options.get("clevel", 5),
                "shuffle": names[shuffle],
                "blocksize": options.get("blocksize", 0),
            },
        )
    if codec.name == "blosc":
        usual = {"typesize": typesize, "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
        return CodecSpec("blosc", {**usual, **options})
    if codec.name in ("numcodecs.zstd", "zstd"):
        return CodecSpec("zstd", {"level": 0, "checksum": False, **options})
    if codec.name in ("numcodecs.gzip", "gzip"):
        return CodecSpec("gzip", {"level": 5, **options})
    if codec.name in ("numcodecs.vlen-utf8", "numcodecs.vlen-bytes"):
        return CodecSpec(codec.name.removeprefix("numcodecs."))
    if codec.name == "numcodecs.crc32c" and options.get("location", "end") == "end":
        return CodecSpec("crc32c")
    if codec.name.startswith("numcodecs.") and data_type.variable == "object":
        raise UnsupportedError("Zarr v3 has no data type for Python objects", codec=codec.name)
    return codec


def _typesize(data_type: DataType) -> int:
    """Return Blosc's ``typesize``: the elements' size, or 1 if Blosc's header has no room for that."""
    return data_type.itemsize if data_type.is_fixed and 0 < data_type.itemsize <= _MAX_TYPESIZE else 1


def _adapt_shards(codec: CodecSpec, metadata: ArrayMetadata) -> CodecSpec:
    """Return shards whose inner chunks are such as `adapt` makes them; ``bytes`` alone where none are named."""
    given = codec.configuration
    inner = replace(metadata, codecs=tuple(_extensions(given.get("codecs", []), "codecs")), format="")
    filled = {
        "codecs": [_codec_to_json(item) for item in adapt(inner).codecs],
        "index_codecs": given.get("index_codecs", _INDEX_CODECS),
        "index_location": given.get("index_location", "end"),
    }
    return replace(codec, configuration={**given, **filled})


def consolidated(documents: Mapping[str, bytes]) -> Mapping[str, Mapping[str, bytes]] | None:
    """Read inline consolidated metadata: the document of each member by its path, or ``None`` if there is none."""
    if _KEY not in documents:
        return None
    _, copies = _load(documents[_KEY])
    if copies is not None:
        return copies
    content = load(documents[_KEY], _KEY).get("consolidated_metadata")
    if content is None:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
        raise MetadataError("the consolidated metadata is not an object", key=_KEY, field="consolidated_metadata")
    if content.get("kind") != "inline":
        raise UnsupportedError(
            "only inline consolidated metadata is known", key=_KEY, field="consolidated_metadata.kind"
        )
    return {
        path: {_KEY: dump(node, _KEY, STYLE)} for path, node in content["metadata"].items() if isinstance(node, dict)
    }


def consolidate(group: GroupMetadata, members: Iterable[tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """Write ``zarr.json`` of a group with the documents of all its members inline; they come one by one, with paths."""
    document: dict[str, Any] = {"attributes": group.attributes, "zarr_format": 3}
    if _KEY in group.documents:
        document, _ = _load(group.documents[_KEY])
    node_type = document.pop("node_type", "group")
    nodes = ((path, _for_copy(documents[_KEY])) for path, documents in members if path)
    content = iter([("kind", "inline"), ("must_understand", False), ("metadata", nodes)])
    document = {**document, _COPIES: content, "node_type": node_type}
    return {_KEY: dump_members(document.items(), _KEY, STYLE)}


def _for_copy(raw: bytes) -> dict[str, Any]:
    """Return what the copy of a document says; that of a group says that it has no copies itself."""
    node, _ = _load(raw)
    if node.get("node_type") != "group":
        return node
    node_type = node.pop("node_type")
    empty = {"kind": "inline", "must_understand": False, "metadata": {}}
    return {**node, _COPIES: empty, "node_type": node_type}
