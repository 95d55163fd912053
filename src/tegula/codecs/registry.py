"""The codecs by name: the kind of each, and the module that builds it.

A module is imported when an array first needs one of its codecs. The names are those of the array formats; any other
codec that is registered with numcodecs is ``numcodecs.<id>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from tegula.codecs.stages import Context, library
from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["builder", "check_pickle", "is_ignored", "known_codecs", "serializer_position"]

_PREFIX: Final = "numcodecs."
# by kind, the module of each codec in this package or its folders
_ARRAYS: Final = {
    "transpose": "transpose", "cast_value": "cast_value", "scale_offset": "scale_offset", "bitround": "bitround",
    "reshape": "reshape", "zarrs.squeeze": "reshape",
}  # fmt: skip
_SERIALIZERS: Final = {
    "bytes": "bytes", "sharding_indexed": "sharding", "packbits": "packbits", "n5_default": "n5",
    "vlen-utf8": "vlen", "vlen-bytes": "vlen", "numcodecs.vlen-utf8": "vlen", "numcodecs.vlen-bytes": "vlen",
    "numcodecs.vlen-array": "vlen", "vlen-array": "vlen", "zarrs.vlen_v2": "vlen",
    "numcodecs.json2": "objects", "numcodecs.json": "objects",
    "numcodecs.msgpack2": "objects", "numcodecs.msgpack": "objects", "numcodecs.pickle": "objects",
    "numcodecs.pcodec": "pcodec", "numcodecs.zfpy": "zfpy", "zfp": "zfp", "bcolz.pickle": "objects",
    "zarrs.optional": "optional",
}  # fmt: skip
_BUFFERS: Final = {
    "blosc": "blosc", "numcodecs.blosc": "blosc", "gzip": "deflate", "numcodecs.gzip": "deflate",
    "numcodecs.zlib": "deflate", "numcodecs.bz2": "bz2", "numcodecs.lzma": "lzma", "zstd": "zstd",
    "numcodecs.zstd": "zstd", "numcodecs.lz4": "lz4", "z5.lz4": "lz4", "lz4block": "lz4block",
    "crc32c": "checksums", "numcodecs.crc32c": "checksums", "numcodecs.crc32": "checksums",
    "numcodecs.adler32": "checksums", "blpk": "blpk", "conditional": "conditional",
}  # fmt: skip
_CORE_SERIALIZERS: Final = frozenset(
    "bytes sharding_indexed packbits n5_default vlen-utf8 vlen-bytes zfp zarrs.optional".split()
)
_PICKLES: Final = ("pickle", "numcodecs.pickle", "bcolz.pickle", "dill", "cloudpickle")

_builders: dict[tuple[str, str], Callable[[CodecSpec, Context], Any]] = {}


def known_codecs() -> list[str]:
    """Return the names of all codecs, including those registered with numcodecs.

    Examples
    --------
    >>> {"bytes", "zstd", "numcodecs.delta"} <= {*known_codecs()}
    True
    """
    registry: Mapping[str, Any] = {}
    with suppress(UnsupportedError):
        registry = library("numcodecs.registry").codec_registry
    return sorted({*_ARRAYS, *_SERIALIZERS, *_BUFFERS, *(_PREFIX + name for name in registry)})


def serializer_position(specs: Sequence[CodecSpec], data_type: DataType) -> int:
    """Return the position of the array→bytes codec in a chain, or the length of the chain if there is none.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> serializer_position([CodecSpec("transpose"), CodecSpec("bytes"), CodecSpec("zstd")], as_data_type("f8"))
    1
    """
    for position, spec in enumerate(specs):
        if spec.name in _SERIALIZERS or (spec.name == "numcodecs.categorize" and data_type.variable):
            return position
    return len(specs)


def builder(name: str, side: int) -> Callable[[CodecSpec, Context], Any]:
    """Return the function that builds a codec, and import its module.

    Parameters
    ----------
    name : str
        Name of the codec.
    side : {-1, 0, 1}
        Position before, at or after the array→bytes codec; a filter of numcodecs may be before or after it.

    Raises
    ------
    MetadataError
        If the codec can't be at this position.
    UnsupportedError
        If there is no codec of that name.
    """
    # find its module and the function in it
    table, folder, entry = (
        (_ARRAYS, "", "build_array_codec"),
        (_SERIALIZERS, "serializers.", "build_serializer"),
        (_BUFFERS, "compressors.", "build_buffer_codec"),
    )[side + 1]
    if name in table:
        module, entry = folder + table[name], "build"
    elif side > 0 and name == "numcodecs.pcodec":
        module, entry = "serializers.pcodec", "build_filter"
    elif name in _ARRAYS or name in _BUFFERS or name in _CORE_SERIALIZERS:
        raise MetadataError("the codec can't stand at this position of the chain", field="codecs", codec=name)
    elif name.startswith(_PREFIX):
        module = "numcodecs_bridge"
    else:
        raise UnsupportedError(f"unknown codec {name!r:.80}", field="codecs")

    # import it once
    key = (module, entry)
    if key not in _builders:
        _builders[key] = getattr(import_module(f"tegula.codecs.{module}"), entry)
    return _builders[key]


def check_pickle(spec: CodecSpec, allow_pickle: bool) -> None:
    """Raise if a codec unpickles although that is not allowed.

    Raises
    ------
    UnsupportedError
        If `allow_pickle` is False and the codec, or another codec in its configuration, unpickles.
    """
    if not allow_pickle and (spec.name in _PICKLES or _mentions_pickle(spec.configuration)):
        raise UnsupportedError(
            "unpickling executes code that the data contains; pass allow_pickle=True if you trust their source",
            codec=spec.name,
        )


def is_ignored(spec: CodecSpec, error: UnsupportedError) -> bool:
    """Return whether a codec that could not be built is left out: an unknown one that need not be understood.

    Examples
    --------
    >>> is_ignored(CodecSpec("new", {}, must_understand=False), UnsupportedError("unknown codec 'new'"))
    True
    """
    return error.codec is None and not spec.must_understand


def _mentions_pickle(value: Any) -> bool:
    """Return whether a configuration contains the name of a codec that unpickles, at any depth."""
    if isinstance(value, Mapping):
        named = any(value.get(key) in _PICKLES for key in ("id", "name"))
        return named or any(map(_mentions_pickle, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_mentions_pickle, value))
