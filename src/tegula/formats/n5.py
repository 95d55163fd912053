"""N5: ``attributes.json``, which holds the description of an array beside the user's attributes.

N5 lists axes from the fastest to the slowest. An array is shown in C order, as zarr's ``N5Store`` and z5py show it: the
numbers of the document, the header of a block and the key of a chunk are in reverse order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.chunk_grids import regular_grid_from_json
from tegula.formats.descriptions import complete, memoized
from tegula.formats.dimension_names import attributes_with, attributes_without, names_in
from tegula.formats.documents import integers, load, member, replace_document
from tegula.formats.keys import N5_KEY, N5_MEMBERS, Style
from tegula.formats.layout import automatic_shuffle, shuffle_number, without_blocks
from tegula.formats.leniency import plain_options
from tegula.metadata.chunk_keys import N5_KEYS
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, NodeMetadata
from tegula.metadata.nodes import GroupMetadata as Group
from tegula.metadata.spacing import UNITS, resolution_steps, stated_steps, transform_of, units_steps

__all__ = [
    "DEFAULT_COMPRESSORS",
    "KEY",
    "NAME",
    "TYPES",
    "adapt",
    "parse",
    "portable_attributes",
    "serialize",
    "stored_attributes",
]

NAME: Final = "n5"
KEY: Final = N5_KEY
DEFAULT_COMPRESSORS: Final = (CodecSpec("numcodecs.gzip", {"level": 5}),)
_STYLE: Final = Style(indent=4, sort_keys=True)
_VERSION: Final = "2.0.0"
"""The version in new documents, as zarr and z5py write it: every reader of N5 knows it."""
_NEWEST: Final = 4
_OF_NODES: Final = ("n5",)
_OF_ARRAYS: Final = tuple(sorted(N5_MEMBERS - {*_OF_NODES}))
TYPES: Final = frozenset(
    [*(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64"]
)
"""The names of the data types."""
_LONGEST: Final = 2**32 - 1  # the header of a block has 32 bits for each axis
_LEAST_LZ4: Final = 64  # bytes, of the blocks of Java's streams
_XZ: Final = 1
_XZ_CHECKS: Final = (-1, 4)  # the default, by either name


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the document of an array or a group (N5, "File-system specification").

    Parameters
    ----------
    documents : mapping of str to bytes
        The documents of a node, by key.

    Returns
    -------
    ArrayMetadata, GroupMetadata or None
        ``None`` if there is no ``attributes.json``. Without ``dimensions`` and ``dataType`` the node is a group.

    Raises
    ------
    MetadataError
        If the document is not valid.
    UnsupportedError
        If it describes an array that tegula can't read, or has a later major version.

    Examples
    --------
    >>> array = parse({"attributes.json": b'''{
    ...     "dimensions": [6, 3], "blockSize": [4, 3], "dataType": "int32", "compression": {"type": "raw"}}'''})
    >>> array.shape, array.keys.encode((0, 1))
    ((3, 6), '1/0')
    """
    raw = documents.get(KEY)
    if raw is None:
        return None
    document = load(raw, KEY)
    version = str(document.get("n5"))  # the Java library reads a number, too
    major = re.match(r"\d+", version)
    if major is not None and int(major[0][:9]) > _NEWEST:
        raise UnsupportedError(f"version {version:.40} of N5 is newer than version {_NEWEST}", key=KEY, field="n5")
    if not _is_array(document):
        attributes = {name: value for name, value in document.items() if name not in _OF_NODES}
        return Group(attributes=attributes, format=NAME, documents=documents)
    array = _describe({name: document[name] for name in _OF_ARRAYS if name in document})
    attributes = {name: value for name, value in document.items() if name not in N5_MEMBERS}
    return complete(array, attributes, documents, _names_in(attributes, array.ndim))


def _is_array(document: Mapping[str, Any]) -> bool:
    return "dimensions" in document and "dataType" in document


@memoized
def _describe(document: dict[str, Any]) -> ArrayMetadata:
    """Read the members that describe an array."""
    lengths = integers(document["dimensions"], "dimensions", KEY, least=0)
    shape = lengths[::-1]
    if not shape:
        raise MetadataError("an array of N5 has at least one dimension", key=KEY, field="dimensions")
    name = document["dataType"]
    if not isinstance(name, str) or name not in TYPES:
        raise UnsupportedError(f"N5 has no numbers of type {name!r:.40}", key=KEY, field="dataType")
    # in version 1 the size of blocks could be left out
    chunks = document.get("blockSize", [*lengths])
    grid = regular_grid_from_json(chunks[::-1] if isinstance(chunks, list) else chunks, shape, "blockSize", KEY)
    data_type = DataType(np.dtype(name))
    stated = document.get("compression")
    if stated is None and "compressionType" in document:  # version 1
        stated = {"type": document["compressionType"]}
    if stated is None:
        member(document, "compression", KEY)
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=grid,
        keys=N5_KEYS,
        codecs=_chain(data_type, len(shape), _compressors(stated)),
        fill_value=np.zeros((), data_type.numpy),
        format=NAME,
    )


def _chain(data_type: DataType, ndim: int, compressors: list[CodecSpec]) -> tuple[CodecSpec, ...]:
    """Return the codecs of a block: the axes in the order of N5, then a header and the elements in C order."""
    reverse = {"order": [*range(ndim)][::-1]}
    inner: list[Any] = [{"name": "transpose", "configuration": reverse}]
    inner.append({"name": "bytes", "configuration": {"endian": "big"} if data_type.has_byte_order else {}})
    inner += [{"name": codec.name, "configuration": dict(codec.configuration)} for codec in compressors]
    return CodecSpec("transpose", reverse), CodecSpec("n5_default", {"codecs": inner})


# --- compression


def _compressors(stated: Any) -> list[CodecSpec]:
    """Read ``compression``; missing options have the defaults of the Java library."""
    if not isinstance(stated, dict) or not isinstance(stated.get("type"), str):
        raise MetadataError(f"{stated!r:.80} is not a compression", key=KEY, field="compression")
    kind, options = stated["type"], plain_options(stated, stated, "type", "compression")
    if kind == "raw":
        return []
    if kind == "gzip":
        level = options.get("level", -1)
        zlib, field = options.get("useZlib", False), "compression.useZlib"
        if type(zlib) is not bool:
            raise MetadataError(f"{field} must be true or false, not {zlib!r:.40}", key=KEY, field=field)
        name = "numcodecs.zlib" if zlib else "numcodecs.gzip"
        return [CodecSpec(name, {"level": 6 if level == -1 else level})]
    if kind == "bzip2":
        return [CodecSpec("numcodecs.bz2", {"level": options.get("blockSize", 9)})]
    if kind in ("xz", "lzma"):  # zarr calls it lzma unless it is the usual container
        usual = {"format": _XZ, "check": -1, "preset": 6, "filters": None}
        return [CodecSpec("numcodecs.lzma", {name: options.get(name, value) for name, value in usual.items()})]
    if kind == "lz4" and ("id" in options or "acceleration" in options):  # zarr stores blocks without a stream
        return [CodecSpec("numcodecs.lz4", {"acceleration": options.get("acceleration", 1)})]
    if kind == "lz4":
        size = options.get("blockSize", 2**16)
        # smaller than any block of Java's streams is what z5 writes there: a level, and blocks without a stream
        is_level = type(size) is int and 0 <= size < _LEAST_LZ4
        return [CodecSpec("z5.lz4", {"level": size}) if is_level else CodecSpec("lz4block", {"blockSize": size})]
    if kind == "zstd":
        return [CodecSpec("numcodecs.zstd", {"level": options.get("level", 3)})]
    if kind == "blosc":
        java = {"cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0}
        return [CodecSpec("numcodecs.blosc", {name: options.get(name, value) for name, value in java.items()})]
    raise UnsupportedError(f"N5 has no compression {kind!r:.40}", key=KEY, field="compression")


def _compression(codec: CodecSpec) -> dict[str, Any]:
    """Return ``compression`` for a codec that `_adapt_compressor` returns."""
    options = codec.configuration
    if codec.name in ("numcodecs.gzip", "numcodecs.zlib"):
        return {"type": "gzip", "level": options.get("level", 1), "useZlib": codec.name == "numcodecs.zlib"}
    if codec.name == "numcodecs.bz2":
        return {"type": "bzip2", "blockSize": options.get("level", 1)}
    if codec.name == "numcodecs.lzma":
        preset = options.get("preset")
        return {"type": "xz", "preset": 6 if preset is None else preset}
    return {"type": {"lz4block": "lz4"}.get(codec.name, codec.name.removeprefix("numcodecs.")), **options}


def _adapt_compressor(codec: CodecSpec, data_type: DataType) -> CodecSpec:
    """Convert a compressor to the nearest one that all N5 libraries read."""
    name, options = codec.name.removeprefix("numcodecs."), dict(codec.configuration)
    if name in ("gzip", "zlib", "bz2"):
        return CodecSpec(f"numcodecs.{name}", {"level": options.get("level", 5 if name == "gzip" else 1)})
    if name == "zstd" and not options.get("checksum"):
        return CodecSpec("numcodecs.zstd", {"level": options.get("level", 0)})
    if name == "lzma":
        plain = options.get("format", _XZ) == _XZ and options.get("check", -1) in _XZ_CHECKS
        if plain and not options.get("filters") and options.get("preset", 6) in (None, *range(10)):
            preset = options.get("preset")
            usual = {"format": _XZ, "check": -1, "preset": 6 if preset is None else preset, "filters": None}
            return CodecSpec("numcodecs.lzma", usual)
    if name in ("lz4", "lz4block", "z5.lz4"):
        return CodecSpec("lz4block", {"blockSize": options.get("blockSize", 2**16)})
    if name == "blosc":
        shuffle = automatic_shuffle(shuffle_number(options.get("shuffle", 1)), data_type.itemsize)
        usual = {"cname": "lz4", "clevel": 5, "shuffle": shuffle, "blocksize": 0}
        kept = {option: options.get(option, value) for option, value in usual.items() if option != "shuffle"}
        return CodecSpec("numcodecs.blosc", {**kept, "shuffle": shuffle})
    raise UnsupportedError(f"N5 has no form for the codec {codec.name!r} with these options", codec=codec.name)


# --- writing


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the document of a node; a document that has not changed keeps its bytes.

    Raises
    ------
    UnsupportedError
        If an attribute has a name that N5 reserves.
    """
    raw = metadata.documents.get(KEY)
    old = {} if raw is None else load(raw, KEY)
    is_array = isinstance(metadata, ArrayMetadata)
    own = N5_MEMBERS if is_array and _is_array(old) else _OF_NODES
    known = old.keys() - own
    _check_attributes({name for name in metadata.attributes if is_array or name not in known})
    new = {name: value for name, value in old.items() if name in own or name in metadata.attributes}
    if raw is None:
        new["n5"] = _VERSION
        new |= _document(metadata) if isinstance(metadata, ArrayMetadata) else {}
    elif isinstance(metadata, ArrayMetadata):
        new["dimensions"] = [*metadata.shape[::-1]]
        if 0 in new.get("blockSize", ()) and 0 not in metadata.shape:
            # blocks of length 0 are valid only as long as the array is empty
            new["blockSize"] = [*metadata.grid.largest_chunk()[::-1]]
        if "blockSize" not in new and "dimensions" in old and old["dimensions"] != new["dimensions"]:
            new["blockSize"] = [*metadata.grid.largest_chunk()[::-1]]
    return {KEY: replace_document(metadata.documents, KEY, {**new, **metadata.attributes}, _STYLE)}


def _document(metadata: ArrayMetadata) -> dict[str, Any]:
    compressors = [codec for codec in without_blocks(metadata.codecs) if codec.name not in ("bytes", "transpose")]
    return {
        "dimensions": [*metadata.shape[::-1]],
        "blockSize": [*metadata.grid.largest_chunk()[::-1]],
        "dataType": metadata.data_type.numpy.name,
        "compression": _compression(compressors[0]) if compressors else {"type": "raw"},
    }


def _check_attributes(names: set[str]) -> None:
    """Raise if N5 reserves one of the names of new attributes."""
    reserved = sorted(N5_MEMBERS & names)
    if reserved:
        listed = ", ".join(map(repr, reserved))
        raise UnsupportedError(f"N5 has members of its own with the names {listed}", key=KEY, field="attributes")


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Convert metadata to N5: numbers, big-endian in blocks with a header, at most one compressor, missing ones zero.

    Parameters
    ----------
    metadata : ArrayMetadata
        An array of any format, or a new one.

    Returns
    -------
    ArrayMetadata
        The same elements, in a form that `serialize` writes.

    Raises
    ------
    UnsupportedError
        If the data type, chunk grid, fill value, a codec or the name of an attribute has no form in N5.
    """
    dtype = metadata.data_type.numpy
    if not metadata.data_type.is_fixed or dtype.name not in TYPES:
        raise UnsupportedError(f"N5 has no data type {metadata.data_type}", field="dtype")
    if metadata.ndim == 0:
        raise UnsupportedError("N5 has no arrays without dimensions", field="shape")
    if not metadata.grid.is_regular:
        raise UnsupportedError("N5 supports only regular chunk grids", field="chunks")
    if max(metadata.grid.largest_chunk()) > _LONGEST:
        raise UnsupportedError("a block of N5 has less than 2**32 elements along each axis", field="chunks")
    if metadata.fill_value is not None and any(metadata.fill_value.tobytes()):
        value = metadata.fill_value.item()
        raise UnsupportedError(f"missing blocks of N5 are zero, not {value!r:.40}", field="fill_value")
    _check_attributes({*metadata.attributes})
    # the order of the elements in a block is fixed: other orders, which change no values, are left out
    codecs = [codec for codec in without_blocks(metadata.codecs) if codec.name not in ("bytes", "transpose")]
    if len(codecs) > 1:
        raise UnsupportedError("N5 supports one compressor and no filters", codec=codecs[0].name)
    data_type = DataType(dtype.newbyteorder("="))
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=metadata.grid,
        keys=N5_KEYS,
        codecs=_chain(data_type, metadata.ndim, [_adapt_compressor(codec, data_type) for codec in codecs]),
        fill_value=np.zeros((), data_type.numpy),
        attributes=stored_attributes(metadata),
        dimension_names=metadata.dimension_names,
        format=NAME,
    )


# --- names of dimensions


def _names_in(attributes: Mapping[str, Any], ndim: int) -> tuple[str | None, ...] | None:
    """Return the names of the dimensions, if attributes agree on them.

    They are in ``_ARRAY_DIMENSIONS`` (xarray) or ``transform.axes`` (COSEM), from the slowest axis to the fastest
    unless ``transform.order`` is ``"F"``, and in ``axes`` (TensorStore, OpenOrganelle), in the order of N5.
    """
    transform = transform_of(attributes)
    orders = [names_in(attributes, ndim), _axes(attributes.get("axes"), ndim, -1)]
    orders.append(_axes(transform.get("axes"), ndim, 1) if transform is not None else None)
    stated = [names for names in orders if names is not None]
    return stated[0] if stated and all(names == stated[0] for names in stated) else None


def _axes(value: Any, ndim: int, step: int) -> tuple[str | None, ...] | None:
    """Return the names in a list, of which every second occurrence of a name makes the list unclear."""
    if not isinstance(value, list) or len(value) != ndim or not all(isinstance(name, str) for name in value):
        return None
    names = [name for name in value if name]
    return tuple(name or None for name in value[::step]) if len({*names}) == len(names) else None


def stored_attributes(metadata: ArrayMetadata) -> Mapping[str, Any]:
    """Return the attributes of an array of any format as N5 has them, the reverse of `portable_attributes`.

    The names of the dimensions are in ``axes``, unless these can't hold them.
    """
    attributes, names = _with_units(metadata.attributes, metadata.ndim), metadata.dimension_names
    if names is None or (metadata.format == NAME and _names_in(attributes, metadata.ndim) == names):
        return attributes
    axes = [name or "" for name in names[::-1]]
    if "" in names or _axes(axes, len(names), -1) is None or attributes.get("axes", axes) != axes:
        return attributes_with(attributes, names)
    return {"axes": axes, **attributes_without(attributes)}


def _with_units(attributes: Mapping[str, Any], ndim: int) -> Mapping[str, Any]:
    """Return attributes with ``units`` and ``resolution`` instead of ``dimension_units``, unless others say it.

    ``dimension_units`` stays if it can't be read, or an axis has none, which N5 has no form for.
    """
    steps = units_steps(attributes.get(UNITS), ndim)
    if steps is None:
        return attributes
    others = {name: value for name, value in attributes.items() if name != UNITS}
    kept = attributes if None in attributes[UNITS] else others
    is_said = stated_steps(others, ndim, fastest_first=True) is not None
    if is_said and stated_steps(attributes, ndim, fastest_first=True) is not None:
        return kept
    if not {"units", "resolution"}.isdisjoint(attributes):
        return attributes
    return {**kept, "units": [step.unit for step in steps[::-1]], "resolution": [step.length for step in steps[::-1]]}


def portable_attributes(metadata: ArrayMetadata) -> Mapping[str, Any]:
    """Return the attributes of an array for other formats.

    Names of dimensions, which other formats keep elsewhere, are left out. Distances and units of elements are in
    ``dimension_units``, as TensorStore has them in Zarr v3, from the slowest axis to the fastest, instead of in
    ``units`` and ``resolution`` or beside ``transform`` and ``pixelResolution``.

    Examples
    --------
    >>> array = parse({"attributes.json": b'''{
    ...     "dimensions": [6, 3], "blockSize": [4, 3], "dataType": "int32", "compression": {"type": "raw"},
    ...     "axes": ["x", "y"], "units": ["nm", "um"], "resolution": [4, 0.5]}'''})
    >>> portable_attributes(array), array.dimension_names
    ({'dimension_units': ['0.5 um', '4 nm']}, ('y', 'x'))
    """
    attributes, ndim = dict(metadata.attributes), metadata.ndim
    if _axes(attributes.get("axes"), ndim, -1) == metadata.dimension_names is not None:
        del attributes["axes"]
    steps = stated_steps(attributes, ndim, fastest_first=True)
    if steps is not None and None in attributes.get(UNITS, [None]):
        if resolution_steps(attributes, ndim) is not None:
            attributes = {name: value for name, value in attributes.items() if name not in ("units", "resolution")}
        attributes.setdefault(UNITS, [str(step) for step in steps])
    return attributes
