"""bcolz 1.x: the carray (``meta/storage``, ``meta/sizes``, ``__attrs__``) and the ctable (``__rootdirs__``) on disk.

Only the first axis is cut into chunks, of ``chunklen`` rows, each a Blosc 1 frame in a container of 16 bytes under
``data/__<number>.blp``. Every chunk is stored; the last one holds the rows that are left. ``meta/sizes`` alone says how
many rows there are: files of higher numbers, and rows beyond the end, are remains of something interrupted or removed.

Where the files that exist differ from the published description, the files win: a ctable's columns stand directly below
it, ``shuffle`` is a bool in files of bcolz 1.0 and older, which leave ``cname`` and ``quantize`` out and give the
default of an N-dimensional array as nested lists, and a default may be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.bcolz_defaults import default_from_json, default_to_json
from tegula.formats.dimension_names import attributes_with, names_in
from tegula.formats.documents import Style, integers, load, member, replace_document, rewrite
from tegula.formats.numpy_types import byte_order_codec, dtype_from_text
from tegula.metadata.chunk_grids import RegularAxis, regular_grid
from tegula.metadata.chunk_keys import BCOLZ_KEYS
from tegula.metadata.data_types import EXTENDED, OBJECT, DataType
from tegula.metadata.fill_values import undefined_fill
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, GroupMetadata, NodeMetadata

__all__ = [
    "DEFAULT_COMPRESSORS",
    "KEYS",
    "NAME",
    "NODE_KEYS",
    "SHAPE_KEY",
    "adapt",
    "automatic_chunk_nbytes",
    "automatic_chunklen",
    "automatic_chunks",
    "is_draft",
    "nbytes_by_size",
    "new_draft",
    "parse",
    "portable",
    "serialize",
]

NAME: Final = "bcolz"
NODE_KEYS: Final = ("meta/storage", "__rootdirs__")
SHAPE_KEY: Final = "meta/sizes"
KEYS: Final = (*NODE_KEYS, SHAPE_KEY, "__attrs__")
DEFAULT_COMPRESSORS: Final = (CodecSpec("numcodecs.blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1}),)
_CONTAINER: Final = CodecSpec("blpk")
_PICKLE: Final = CodecSpec("bcolz.pickle")
_QUANTIZE: Final = "numcodecs.quantize"
_STYLE: Final = Style(indent=None, spaced=True, ending="\n")
_MIB: Final = 2**20
_DRAFT: Final = b'{"under_creation": "'
_INCOMPLETE: Final = (
    "so it is not known how many rows there are: the array is still being created, or its creator was killed; "
    "if so, create it again with overwrite=True"
)


def automatic_chunklen(expectedlen: float, row_nbytes: int) -> int:
    """Return the rows of a chunk that bcolz chooses for an array.

    Parameters
    ----------
    expectedlen : int
        How many rows the array is expected to have.
    row_nbytes : int
        Bytes of one row in memory; bcolz counts 8 for a Python object.

    Examples
    --------
    >>> automatic_chunklen(25, 4), automatic_chunklen(10**9, 4)
    (4096, 524288)
    """
    return max(automatic_chunk_nbytes(expectedlen * row_nbytes / _MIB) // max(1, row_nbytes), 1)


def automatic_chunk_nbytes(expected_mib: float) -> int:
    """Return the bytes of a chunk that bcolz chooses for an array of so many mebibytes, from 0.0001 to 10000.

    Examples
    --------
    >>> automatic_chunk_nbytes(1), automatic_chunk_nbytes(10**9)
    (262144, 4194304)
    """
    zone = int(math.log10(min(max(expected_mib, 1e-4), 1e4)))
    return nbytes_by_size(10**zone)


def nbytes_by_size(expected_mib: float) -> int:
    """Return the bytes of a chunk by bcolz's formula, for an array of any number of mebibytes.

    Examples
    --------
    >>> nbytes_by_size(1), nbytes_by_size(0.5)
    (262144, 208896)
    """
    return 4096 * int(2 ** (math.log10(expected_mib) + 6))


def automatic_chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the chunk shape that bcolz chooses for an array of as many rows as it has."""
    rest = shape[1:]
    return (automatic_chunklen(shape[0], itemsize * math.prod(rest)), *rest) if shape else ()


def new_draft(token: str) -> bytes:
    """Return what stands for ``meta/sizes`` while the chunks of a new array are written.

    bcolz opens no array with it either.

    Examples
    --------
    >>> new_draft("7f3a")
    b'{"under_creation": "7f3a"}\\n'
    """
    return _DRAFT + token.encode() + b'"}\n'


def is_draft(raw: bytes) -> bool:
    """Return whether a document is what `new_draft` makes."""
    return raw.startswith(_DRAFT)


def parse(documents: Mapping[str, bytes]) -> NodeMetadata | None:
    """Read the documents of a carray or a ctable; ``None`` if there is neither.

    Raises
    ------
    MetadataError, UnsupportedError
        If a document is not valid, or holds what can't be read.
    """
    raw = documents.get("__attrs__", b"")
    attributes = load(raw, "__attrs__") if raw.strip() else {}
    if "meta/storage" in documents:
        return _parse_carray(documents, attributes)
    if "__rootdirs__" not in documents:
        return None
    names = member(load(documents["__rootdirs__"], "__rootdirs__"), "names", "__rootdirs__")
    return GroupMetadata(
        attributes=attributes, format=NAME, members=_names(names), documents=documents
    )  # fmt: skip


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(map(_is_name, value)):
        raise MetadataError(f"{value!r:.80} are not names of columns", key="__rootdirs__", field="names")
    if len({*value}) < len(value):
        raise MetadataError("two columns have one name", key="__rootdirs__", field="names")
    return tuple(value)


def _is_name(value: Any) -> bool:
    """Whether a directory of that name can stand below the ctable."""
    if not isinstance(value, str) or value in ("", ".", "..", *KEYS) or "/" in value or "\0" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _parse_carray(documents: Mapping[str, bytes], attributes: Mapping[str, Any]) -> ArrayMetadata:
    storage = load(documents["meta/storage"], "meta/storage")
    if "meta/sizes" not in documents:
        raise MetadataError(f"there is no meta/sizes, {_INCOMPLETE}", key="meta/sizes")
    if is_draft(documents["meta/sizes"]):
        raise MetadataError(f"meta/sizes says that the array is under creation, {_INCOMPLETE}", key="meta/sizes")
    sizes = load(documents["meta/sizes"], "meta/sizes")
    shape = integers(member(sizes, "shape", "meta/sizes"), "shape", "meta/sizes", least=0)
    if not shape:
        raise MetadataError("a carray has at least one axis", key="meta/sizes", field="shape")
    data_type = _data_type(member(storage, "dtype", "meta/storage"))
    chunklen = integers([member(storage, "chunklen", "meta/storage")], "chunklen", "meta/storage", least=1)[0]
    extra = {name: storage[name] for name in ("expectedlen",) if name in storage}
    cbytes = sizes.get("cbytes")
    if data_type is OBJECT:
        if len(shape) > 1:
            raise UnsupportedError("a carray of Python objects has one axis", key="meta/sizes", field="shape")
        chunklen, extra = 1, {**extra, "chunklen": chunklen}
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        grid=regular_grid([chunklen, *(max(1, size) for size in shape[1:])]),
        keys=BCOLZ_KEYS,
        codecs=_codecs(member(storage, "cparams", "meta/storage"), data_type),
        fill_value=default_from_json(storage.get("dflt", 0), data_type, shape[1:]),
        attributes=attributes,
        dimension_names=names_in(attributes, len(shape)),
        format=NAME,
        dense=True,
        stored_nbytes=cbytes if type(cbytes) is int else None,
        extra=extra,
        documents=documents,
    )


def _data_type(value: Any) -> DataType:
    dtype = dtype_from_text(value, "meta/storage")
    if dtype.kind == "O":
        return OBJECT
    return DataType(dtype)


def _codecs(cparams: Any, data_type: DataType) -> tuple[CodecSpec, ...]:
    if not isinstance(cparams, dict):
        raise MetadataError("cparams is not an object", key="meta/storage", field="cparams")
    given = {
        "cname": cparams.get("cname", "blosclz"),
        "clevel": cparams.get("clevel", 5),
        "shuffle": int(cparams["shuffle"]) if type(cparams.get("shuffle")) is bool else cparams.get("shuffle", 1),
    }
    quantize = cparams.get("quantize")
    if quantize is not None and type(quantize) is not int:
        raise MetadataError(f"{quantize!r:.80} is no number of digits", key="meta/storage", field="cparams.quantize")
    return _chain(data_type, CodecSpec("numcodecs.blosc", given), quantize or 0)


def _chain(data_type: DataType, compressor: CodecSpec, quantize: int) -> tuple[CodecSpec, ...]:
    """Put together the codecs of a chunk; bcolz reads parts of a frame only if its type size is the one expected."""
    frame = CodecSpec(compressor.name, {**compressor.configuration, "typesize": _typesize(data_type)})
    if data_type.variable:
        return (_PICKLE, frame, _CONTAINER)
    dtype = data_type.numpy
    filters = [CodecSpec(_QUANTIZE, {"digits": quantize, "dtype": dtype.str})] if quantize and dtype.kind == "f" else []
    return (byte_order_codec(dtype), *filters, frame, _CONTAINER)


def portable(codecs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Return codecs without what only bcolz has: its container, its pickles, and the type size it insists on.

    Examples
    --------
    >>> portable((CodecSpec("numcodecs.blosc", {"clevel": 5, "typesize": 8}), CodecSpec("blpk")))
    (CodecSpec(name='numcodecs.blosc', configuration={'clevel': 5}, must_understand=True),)
    """
    out = []
    for codec in codecs:
        if codec.name == _PICKLE.name:
            out.append(CodecSpec("numcodecs.pickle"))
        elif codec.name == "numcodecs.blosc" and "typesize" in codec.configuration:
            kept = {name: value for name, value in codec.configuration.items() if name != "typesize"}
            out.append(CodecSpec(codec.name, kept))
        elif codec.name != _CONTAINER.name:
            out.append(codec)
    return tuple(out)


def _typesize(data_type: DataType) -> int:
    dtype = data_type.numpy
    if data_type.variable or dtype.kind == "S" or dtype.itemsize > 255:
        return 4 if dtype.kind == "U" else 1
    return 4 if dtype.kind == "U" else max(1, dtype.itemsize)


def serialize(metadata: NodeMetadata) -> dict[str, bytes]:
    """Write the documents of a node, as bcolz writes them; those it was read from change only where it has.

    Raises
    ------
    UnsupportedError
        If the array is not one that `adapt` returns.
    """
    documents = metadata.documents
    attributes = documents
    if not documents.get("__attrs__", b"").strip():
        attributes = {key: raw for key, raw in documents.items() if key != "__attrs__"}
    out = {"__attrs__": replace_document(attributes, "__attrs__", metadata.attributes, _STYLE)}
    if isinstance(metadata, GroupMetadata):
        out["__rootdirs__"] = rewrite(documents, "__rootdirs__", {"names": [*(metadata.members or ())]}, _STYLE)
        return out
    out[SHAPE_KEY] = _sizes(metadata)
    out["meta/storage"] = documents.get("meta/storage") or rewrite({}, "meta/storage", _storage(metadata), _STYLE)
    return out


def _sizes(metadata: ArrayMetadata) -> bytes:
    documents = {key: raw for key, raw in metadata.documents.items() if key != SHAPE_KEY or not is_draft(raw)}
    raw = documents.get(SHAPE_KEY)
    if raw is not None and load(raw, SHAPE_KEY)["shape"] == [*metadata.shape]:
        return raw
    row = math.prod(metadata.shape[1:]) * metadata.data_type.numpy.itemsize
    nbytes = metadata.stored_nbytes
    sizes = {
        "shape": [*metadata.shape],
        "nbytes": metadata.shape[0] * row,
        # bcolz counts one uncompressed chunk for the rows at the end
        "cbytes": _chunklen(metadata) * row if nbytes is None else nbytes,
    }
    return rewrite(documents, SHAPE_KEY, sizes, _STYLE)


def _chunklen(metadata: ArrayMetadata) -> int:
    if not metadata.data_type.variable:
        return metadata.grid.largest_chunk()[0]
    chunklen: int = metadata.extra.get("chunklen") or automatic_chunklen(metadata.shape[0], 8)
    return chunklen


def _storage(metadata: ArrayMetadata) -> dict[str, Any]:
    codecs = {codec.name: codec.configuration for codec in metadata.codecs}
    frame = codecs["numcodecs.blosc"]
    return {
        "dtype": _dtype_to_text(metadata.data_type.numpy),
        "cparams": {
            "clevel": frame["clevel"],
            "shuffle": frame["shuffle"],
            "cname": frame["cname"],
            "quantize": codecs.get(_QUANTIZE, {}).get("digits", 0),
        },
        "chunklen": _chunklen(metadata),
        "expectedlen": metadata.extra.get("expectedlen", metadata.shape[0]),
        "dflt": default_to_json(metadata.fill_value, metadata.data_type),
    }


def _dtype_to_text(dtype: np.dtype[Any]) -> str:
    return "object" if dtype.kind == "O" else str(dtype)


def adapt(metadata: ArrayMetadata) -> ArrayMetadata:
    """Return the array as bcolz would hold it: cut along its first axis only, in C order, compressed with Blosc.

    Raises
    ------
    UnsupportedError
        If the data type, the chunk grid, the fill value or a codec has no form in bcolz.
    """
    data_type = _adapted_type(metadata)
    if metadata.ndim == 0:
        raise UnsupportedError("bcolz has no arrays without dimensions", field="shape")
    axes = metadata.grid.axes
    if not all(isinstance(axis, RegularAxis) for axis in axes):
        raise UnsupportedError("bcolz has regular chunk grids only", field="chunks")
    inner = metadata.shape[1:]
    if any(axis.longest() < size for axis, size in zip(axes[1:], inner)):
        raise UnsupportedError(
            f"bcolz cuts arrays along the first axis only, not into chunks of {metadata.grid.largest_chunk()}",
            field="chunks",
        )
    chunklen, extra = axes[0].longest(), dict(metadata.extra)
    if data_type.variable:
        if inner:
            raise UnsupportedError("a carray of Python objects has one axis", field="shape")
        if metadata.format != NAME or "chunklen" not in extra:
            extra["chunklen"] = automatic_chunklen(metadata.shape[0], 8)
        chunklen = 1
    compressor, quantize = _adapted_codecs(metadata, data_type)
    fill = metadata.fill_value
    fill = undefined_fill(data_type) if fill is None else fill.astype(data_type.numpy)
    default_to_json(fill, data_type)
    return ArrayMetadata(
        shape=metadata.shape,
        data_type=data_type,
        grid=regular_grid([chunklen, *(max(1, size) for size in inner)]),
        keys=BCOLZ_KEYS,
        codecs=_chain(data_type, compressor, quantize),
        fill_value=fill,
        attributes=attributes_with(metadata.attributes, metadata.dimension_names),
        dimension_names=metadata.dimension_names,
        format=NAME,
        dense=True,
        extra=extra,
    )


def _adapted_type(metadata: ArrayMetadata) -> DataType:
    data_type = metadata.data_type
    dtype = data_type.numpy
    if data_type.variable == "object":
        return OBJECT
    if data_type.variable:
        raise UnsupportedError("bcolz has text and bytes of one length only, such as 'U10' or 'S10'", field="dtype")
    if dtype in EXTENDED.values():
        raise UnsupportedError(f"bcolz has no data type {data_type}", field="dtype")
    endian = next((c.configuration.get("endian") for c in metadata.codecs if c.name == "bytes"), None)
    return DataType(dtype if endian is None else dtype.newbyteorder("<" if endian == "little" else ">"))


def _adapted_codecs(metadata: ArrayMetadata, data_type: DataType) -> tuple[CodecSpec, int]:
    """Return the compressor, and the digits to quantize to."""
    compressors, quantize = [], 0
    for codec in metadata.codecs:
        options = dict(codec.configuration)
        if codec.name in ("bytes", _CONTAINER.name, _PICKLE.name, "numcodecs.pickle"):
            continue
        if codec.name in ("blosc", "numcodecs.blosc"):
            compressors.append(_adapted_blosc(codec.name, options, data_type))
        elif codec.name == _QUANTIZE and type(options.get("digits")) is int and data_type.numpy.kind == "f":
            quantize = options["digits"]
        elif codec.name == "transpose" and [*options.get("order", ())] == [*range(metadata.ndim)]:
            continue
        else:
            raise UnsupportedError("bcolz has Blosc and quantize only, in C order", codec=codec.name)
    if len(compressors) > 1:
        raise UnsupportedError("bcolz has one compressor", codec="blosc")
    none = CodecSpec("numcodecs.blosc", {"cname": "lz4", "clevel": 0, "shuffle": 0})
    return (compressors[0] if compressors else none), quantize


def _adapted_blosc(name: str, options: dict[str, Any], data_type: DataType) -> CodecSpec:
    shuffle = options.get("shuffle", 1)
    shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}.get(shuffle, shuffle)
    if shuffle == -1:
        shuffle = 2 if data_type.numpy.itemsize == 1 else 1
    if options.get("blocksize"):
        raise UnsupportedError("bcolz has no block size", codec=name)
    if options.get("cname") == "snappy":
        raise UnsupportedError("bcolz no longer reads snappy, so it is not written", codec=name)
    return CodecSpec(
        "numcodecs.blosc",
        {"cname": options.get("cname", "lz4"), "clevel": options.get("clevel", 5), "shuffle": shuffle},
    )
