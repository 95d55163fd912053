"""The arguments ``compression`` and ``compression_opts``, and the form in which zarr 1.1 stores them."""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tegula.errors import MetadataError
from tegula.metadata.nodes import CodecSpec

__all__ = ["compression_of", "normalise_compression"]

_NAMES: Final = {
    "default": "blosc",
    "blosc": "blosc",
    "zlib": "zlib",
    "gzip": "zlib",  # zarr 1 has no other gzip
    "bz2": "bz2",
    "lzma": "lzma",
    "none": "none",
    None: "none",
}
_CNAMES: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_FORMATS: Final = (lzma.FORMAT_XZ, lzma.FORMAT_ALONE, lzma.FORMAT_RAW)
_CHECKS: Final = (lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256)
_SHUFFLES: Final = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def normalise_compression(compression: str | None, options: Any) -> tuple[str, Any]:
    """Return the name and options of a compressor as ``meta`` stores them, with all defaults.

    Parameters
    ----------
    compression : {"default", "blosc", "zlib", "gzip", "bz2", "lzma", "none", None}
        Name of the compressor; ``"default"`` means Blosc, ``"gzip"`` means zlib.
    options : int, mapping or None
        The level for zlib (0 to 9) and bz2 (1 to 9); ``cname``, ``clevel`` and ``shuffle`` for Blosc; ``format``,
        ``check``, ``preset`` and ``filters`` for lzma. Other members of a mapping are ignored.

    Raises
    ------
    MetadataError
        If there is no such compressor, or an option is not valid.

    Examples
    --------
    >>> normalise_compression("default", {"clevel": 3})
    ('blosc', {'cname': 'lz4', 'clevel': 3, 'shuffle': 1})
    >>> normalise_compression("gzip", None), normalise_compression(None, None)
    (('zlib', 1), ('none', None))
    """
    name = _NAMES.get(compression) if compression is None or isinstance(compression, str) else None
    if name is None:
        names = ", ".join(str(known) for known in _NAMES)
        raise MetadataError(f"there is no compressor {compression!r:.80}; choose one of {names}", field="compression")
    if name == "none":
        if options is not None:
            raise MetadataError("there are no options without a compressor", field="compression_opts")
        return name, None
    if name in ("zlib", "bz2"):
        return name, _integer("level", options, 1, range(0 if name == "zlib" else 1, 10))
    if not isinstance(options, Mapping) and options is not None:
        raise MetadataError(f"the options of {name} must be a mapping, not {options!r:.80}", field="compression_opts")
    return name, (_blosc if name == "blosc" else _lzma)(options or {})


def _blosc(options: Mapping[str, Any]) -> dict[str, Any]:
    cname = options.get("cname")
    if isinstance(cname, bytes):
        cname = cname.decode("ascii", "replace")
    if cname is not None and cname not in _CNAMES:
        raise MetadataError(
            f"Blosc has no compressor {cname!r:.80}; choose one of {', '.join(_CNAMES)}", field="compression_opts"
        )
    return {
        "cname": "lz4" if cname is None else cname,
        "clevel": _integer("clevel", options.get("clevel"), 5, range(10)),
        "shuffle": _integer("shuffle", options.get("shuffle"), 1, range(3)),
    }


def _lzma(options: Mapping[str, Any]) -> dict[str, Any]:
    filters = options.get("filters")
    if filters is not None:
        if not isinstance(filters, Sequence) or not all(isinstance(item, Mapping) for item in filters):
            raise MetadataError(f"filters must be a list of mappings, not {filters!r:.80}", field="compression_opts")
        filters = [dict(item) for item in filters]
    preset = _integer("preset", options.get("preset"), 1, range(10))
    return {
        "format": _integer("format", options.get("format"), lzma.FORMAT_XZ, _FORMATS),
        "check": _integer("check", options.get("check"), lzma.CHECK_NONE, _CHECKS),
        "preset": None if filters else preset,  # the filters have presets of their own
        "filters": filters,
    }


def _integer(name: str, value: Any, default: int, allowed: Sequence[int]) -> int:
    try:
        number = default if value is None else int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"{name} must be a number, not {value!r:.80}", field="compression_opts") from error
    if number not in allowed:
        choices = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(str, allowed))
        raise MetadataError(f"{name} must be {choices}, not {value!r:.80}", field="compression_opts")
    return number


def compression_of(codecs: Sequence[CodecSpec]) -> tuple[str, Any]:
    """Return the name and options of the last codec of an array of any format, as zarr 1.x shows them.

    Examples
    --------
    >>> compression_of([CodecSpec("bytes"), CodecSpec("numcodecs.zlib", {"level": 1})])
    ('zlib', 1)
    """
    compressors = [codec for codec in codecs if codec.name not in ("transpose", "bytes")]
    if not compressors:
        return "none", None
    codec = compressors[-1]
    options = {name: codec.configuration[name] for name in sorted(codec.configuration)}
    name = codec.name.removeprefix("numcodecs.")
    if name in ("zlib", "gzip", "bz2"):
        return name, options.get("level", 1)
    if name == "blosc":
        options["shuffle"] = _SHUFFLES.get(options.get("shuffle", 1), options.get("shuffle", 1))
    return name, options
