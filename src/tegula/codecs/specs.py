"""Codec descriptions: conversion of a user's argument, and completion with the options that other readers need.

A document has to state more than a user's argument. Other readers reject ``bytes`` without ``endian`` for elements of
several bytes, and a filter of numcodecs without the data type of its input.
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tegula.codecs.chain import build_steps
from tegula.codecs.serializers.sharding import INDEX_TYPE, inner_specs
from tegula.codecs.stages import Codec, Shape, library
from tegula.errors import MetadataError, UnsupportedError
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import CodecSpec

__all__ = ["codec_specs", "complete", "lacking"]

_PREFIX: Final = "numcodecs."
_OF_ZARR3: Final = frozenset(
    "bytes transpose blosc gzip zstd crc32c sharding_indexed vlen-utf8 vlen-bytes packbits cast_value"
    " vlen-array zarrs.vlen_v2 scale_offset n5_default bitround reshape zarrs.squeeze zarrs.optional zfp"
    " conditional".split()
)
"""Codecs of Zarr v3; any other name is that of a codec of numcodecs."""

_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "zstd": {"level": 0, "checksum": False},
    "gzip": {"level": 5},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
    "numcodecs.blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "numcodecs.bz2": {"level": 1},
    "numcodecs.gzip": {"level": 1},
    "numcodecs.zlib": {"level": 1},
    "numcodecs.zstd": {"level": 0},
}
"""Default options of codecs for which they do not depend on the data."""

_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "transpose": ("order",),
    "sharding_indexed": ("chunk_shape",),
    "n5_default": ("codecs",),
    "zarrs.optional": ("mask_codecs", "data_codecs"),
    "cast_value": ("data_type",),
    "bitround": ("keepbits",),
    "reshape": ("shape",),
    "zfp": ("mode",),
    "conditional": ("codecs",),
    "numcodecs.astype": ("encode_dtype",),
    "numcodecs.bitround": ("keepbits",),
    "numcodecs.categorize": ("labels",),
    "numcodecs.fixedscaleoffset": ("offset", "scale"),
    "numcodecs.quantize": ("digits",),
    "numcodecs.vlen-array": ("dtype",),
}
"""Options without a default."""

_WITHOUT_OPTIONS: Final = frozenset(
    _PREFIX + name
    for name in (
        "adler32", "base64", "crc32", "crc32c", "delta", "fletcher32", "jenkins_lookup3", "json", "json2", "lz4",
        "lzma", "msgpack", "msgpack2", "packbits", "pcodec", "pickle", "shuffle", "vlen-bytes", "vlen-utf8", "zfpy",
    )
)  # fmt: skip
"""Codecs of numcodecs without required options; for codecs in none of these tables, the signature is inspected."""

_CHAINS: Final = ("codecs", "index_codecs", "mask_codecs", "data_codecs")
"""Options of codecs that are codecs themselves."""

_STATED: Final[Mapping[str, tuple[str, ...]]] = {
    "blosc": ("cname", "clevel", "shuffle", "typesize", "blocksize"),
    "gzip": ("level",),
    "zstd": ("level",),
    "sharding_indexed": ("codecs", "index_codecs"),
    "numcodecs.delta": ("dtype",),
    "numcodecs.fixedscaleoffset": ("dtype",),
    "numcodecs.quantize": ("dtype",),
    "numcodecs.astype": ("decode_dtype",),
    "numcodecs.categorize": ("dtype",),
    "numcodecs.shuffle": ("elementsize",),
}
"""Options that TensorStore, zarr-python or numcodecs require in a document, although tegula does not."""


# --- a user's argument


def codec_specs(value: Any) -> list[CodecSpec]:
    """Convert a user's ``codecs``, ``filters`` or ``compressors`` argument to codec descriptions.

    Parameters
    ----------
    value : None, False, "none", codec, or sequence of codecs
        A codec is a name (``"zstd"``, ``"delta"``), a Zarr v3 object (``{"name": …, "configuration": …}``; options may
        also be beside the name), a configuration of numcodecs (``{"id": …}``), or a codec object of numcodecs or
        zarr-python. Names are those of Zarr v3, and names registered with numcodecs.

    Raises
    ------
    MetadataError
        If a value is none of these, or lacks a required option.
    UnsupportedError
        If there is no codec of that name.

    Examples
    --------
    >>> codec_specs([{"id": "delta", "dtype": "<i4"}, "zstd"])[0].name, codec_specs("none")
    ('numcodecs.delta', [])
    >>> codec_specs("zstd:9")[0].configuration["level"]
    9
    >>> codec_specs({"name": "bitround", "keepbits": 10})
    [CodecSpec(name='bitround', configuration={'keepbits': 10}, must_understand=True)]
    """
    if value is None or value is False or (isinstance(value, str) and value == "none"):
        return []
    one = isinstance(value, (str, Mapping, CodecSpec)) or hasattr(value, "get_config") or hasattr(value, "to_dict")
    items = [value] if one else value
    if not isinstance(items, Sequence):
        raise MetadataError(f"{items!r:.80} are not codecs", field="codecs")
    return [_codec_spec(item) for item in items]


def _codec_spec(item: Any) -> CodecSpec:
    # objects and names become mappings
    if isinstance(item, CodecSpec):
        return item
    if hasattr(item, "get_config"):
        item = item.get_config()
    elif hasattr(item, "to_dict"):
        item = _from_zarr_python(item)
    if item == "none":
        raise MetadataError("'none' means no codecs at all; it can't be one of several", field="codecs")
    if isinstance(item, str):
        item = _with_level(item)

    # name and options
    wrong = MetadataError(f"{item!r:.80} is not a codec", field="codecs")
    if not isinstance(item, Mapping):
        raise wrong
    options = {key: option for key, option in item.items() if key not in ("id", "name", "must_understand")}
    if isinstance(item.get("id"), str):
        name = _PREFIX + item["id"].removeprefix(_PREFIX)
    elif isinstance(item.get("name"), str):
        options = options.get("configuration", {}) if options.keys() == {"configuration"} else options
        name = _full_name(item["name"], options)
    else:
        raise wrong
    if not isinstance(options, Mapping) or "configuration" in options:
        raise wrong

    # complete the options
    _check_required(name, options)
    if name in ("sharding_indexed", "n5_default", "zarrs.optional", "conditional"):
        parts = [part for part in _CHAINS if part in options]
        options = {**options, **{part: _as_json(codec_specs(options[part])) for part in parts}}
    return CodecSpec(name, {**_DEFAULTS.get(name, {}), **options}, item.get("must_understand") is not False)


def _full_name(name: str, options: Any = ()) -> str:
    is_of_zarr3 = name in _OF_ZARR3 and not (name == "vlen-array" and options)  # that of numcodecs has the option dtype
    return name if is_of_zarr3 or name.startswith(_PREFIX) else f"{_PREFIX}{name}"


def _with_level(text: str) -> dict[str, Any]:
    """Return the name in a text such as ``zstd`` or ``zstd:9`` with the level behind it."""
    if "," in text:
        listed = [part.strip() for part in text.split(",")]
        raise MetadataError(f"several codecs are given as a list: {listed!r:.200}, not as {text!r:.80}", field="codecs")
    name, colon, level = text.partition(":")
    if not colon:
        return {"name": name}
    known = _DEFAULTS.get(name) or _DEFAULTS.get(f"{_PREFIX}{name}", {})
    option = next((option for option in ("level", "clevel", "preset") if option in known), None)
    if option is None:
        _check_required(_full_name(name), {})
        raise MetadataError(f"the codec {name!r:.80} has no level to set as in {text!r:.80}", field="codecs")
    try:
        return {"name": name, option: int(level)}
    except ValueError:
        raise MetadataError(f"{text!r:.80} is not a codec and its level, such as 'zstd:9'", field="codecs") from None


def _from_zarr_python(codec: Any) -> Any:
    """Convert a codec object of zarr-python to JSON, without the options that zarr-python derives from the array."""
    document = codec.to_dict()
    chosen = getattr(codec, "_tunable_attrs", ())
    if chosen and isinstance(document, Mapping) and isinstance(document.get("configuration"), Mapping):
        stated = {name: option for name, option in document["configuration"].items() if name not in chosen}
        return {**document, "configuration": stated}
    return document


def _as_json(specs: Sequence[CodecSpec]) -> list[dict[str, Any]]:
    """Convert the codecs inside of a configuration to JSON."""
    out = []
    for spec in specs:
        configuration = {"configuration": dict(spec.configuration)} if spec.configuration else {}
        out.append({"name": spec.name, **configuration, **({} if spec.must_understand else {"must_understand": False})})
    return out


def _check_required(name: str, options: Mapping[str, Any]) -> None:
    """Raise if a codec is unknown, or lacks an option without a default."""
    if name in _REQUIRED or name in _DEFAULTS or name in _OF_ZARR3 or name in _WITHOUT_OPTIONS:
        required: Sequence[str] = _REQUIRED.get(name, ())
    else:
        required = _required_by_numcodecs(name)
    for option in required:
        if option not in options:
            plain = name.removeprefix(_PREFIX)
            raise MetadataError(
                f"the codec needs the option {option!r}, as in {{'name': {plain!r}, {option!r}: …}}",
                field=f"codecs.{option}",
                codec=name,
            )


def _required_by_numcodecs(name: str) -> list[str]:
    """Return the options without a default of a codec registered with numcodecs, from its signature."""
    plain = name.removeprefix(_PREFIX)
    registry = library("numcodecs.registry")
    kind = registry.codec_registry.get(plain)
    if kind is None:
        if plain not in getattr(registry, "entries", ()):  # entry points, which numcodecs imports on first use
            known = [*_OF_ZARR3, *registry.codec_registry]
            close = difflib.get_close_matches(plain, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise UnsupportedError(f"no codec {plain!r:.80} is known{hint}", field="codecs", codec=name)
        return []
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [item.name for item in parameters if item.kind in kinds and item.default is item.empty]


# --- the codecs of a document


def complete(
    specs: Sequence[CodecSpec], data_type: DataType, *, ndim: int, chunk_shape: Shape | None = None
) -> tuple[CodecSpec, ...]:
    """Complete a chain with the options that other readers need.

    Parameters
    ----------
    specs : sequence of CodecSpec
        A whole chain, in the order of encoding.
    data_type : DataType
        Type of the array's elements.
    ndim : int
        Number of dimensions.
    chunk_shape : tuple of int, optional
        Shape of the chunks, if all have the same.

    Returns
    -------
    tuple of CodecSpec
        The same chain; options that are stated stay.

    Raises
    ------
    MetadataError, UnsupportedError
        As `build_chain`.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> complete([CodecSpec("numcodecs.delta"), CodecSpec("bytes")], as_data_type("i4"), ndim=1)[0].configuration
    {'dtype': '<i4', 'astype': '<i4'}
    """
    if all(_is_complete(spec, data_type) for spec in specs):
        return tuple(specs)
    steps = build_steps(specs, data_type, ndim=ndim, chunk_shape=chunk_shape)
    return tuple(replace(step[0], configuration=_full(*step)) for step in steps)


def lacking(
    specs: Sequence[CodecSpec], data_type: DataType, *, ndim: int, chunk_shape: Shape | None = None
) -> list[tuple[str, str]]:
    """Return the codec and the name of each option that a document lacks, including codecs inside of codecs.

    The arguments are those of `complete`.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> lacking([CodecSpec("bytes"), CodecSpec("zstd")], as_data_type("i4"), ndim=1)
    [('bytes', 'endian'), ('zstd', 'level')]
    """
    missing: list[tuple[str, str]] = []
    for spec, _, before, axes, shape in build_steps(specs, data_type, ndim=ndim, chunk_shape=chunk_shape):
        stated = _STATED.get(spec.name, ())
        if spec.name == "bytes" and before.has_byte_order and before.numpy.names is None:
            stated = ("endian",)  # zarr-python never writes it for structures
        if spec.name == "blosc" and spec.configuration.get("shuffle") == "noshuffle":
            stated = tuple(name for name in stated if name != "typesize")
        missing += [(spec.name, name) for name in stated if spec.configuration.get(name) is None]
        for name, inner, axes_inside, shape_inside in _inside(spec, before, axes, shape):
            missing += lacking(inner_specs(spec, name), inner, ndim=axes_inside, chunk_shape=shape_inside)
    return missing


def _is_complete(spec: CodecSpec, data_type: DataType) -> bool:
    """Return whether a codec is known to state all options, without building the chain."""
    if spec.name == "bytes":
        return "endian" in spec.configuration or not data_type.has_byte_order
    if spec.name in _DEFAULTS:
        return _DEFAULTS[spec.name].keys() <= spec.configuration.keys()
    return spec.name in ("crc32c", "vlen-utf8", "vlen-bytes", "numcodecs.vlen-utf8", "numcodecs.vlen-bytes")


def _inside(
    spec: CodecSpec, before: DataType, ndim: int, shape: Shape | None
) -> list[tuple[str, DataType, int, Shape | None]]:
    """Return the chains inside of a codec: the option, and data type, dimensions and shape of the elements."""
    if spec.name == "n5_default":
        return [("codecs", before, ndim, shape)]
    if spec.name == "sharding_indexed":
        inner = tuple(spec.configuration["chunk_shape"])
        return [("codecs", before, ndim, inner), ("index_codecs", INDEX_TYPE, ndim + 1, None)]
    if spec.name == "zarrs.optional" and before.inner is not None:
        return [("mask_codecs", DataType(np.dtype(bool)), ndim, shape), ("data_codecs", before.inner, 1, None)]
    return []


def _full(spec: CodecSpec, codec: Codec | None, before: DataType, ndim: int, shape: Shape | None) -> Mapping[str, Any]:
    """Return the complete configuration of a codec whose input is of the type `before`, and perhaps of one shape."""
    options = dict(spec.configuration)
    if spec.name == "bytes":
        return {"endian": "little", **options} if before.has_byte_order else options
    if spec.name in _DEFAULTS:
        return {**_DEFAULTS[spec.name], **options}
    if spec.name == "transpose" and isinstance(options.get("order"), str):  # the form of early drafts
        return {"order": [*range(ndim)][:: 1 if options["order"] == "C" else -1]}
    if chains := _inside(spec, before, ndim, shape):
        return options | {
            name: _as_json(complete(inner_specs(spec, name), inner, ndim=axes, chunk_shape=inside))
            for name, inner, axes, inside in chains
        }
    made = getattr(codec, "codec", None)  # the object of numcodecs, which knows the type of its input
    lacks = any(options.get(name) is None for name in _STATED.get(spec.name, ()))
    return {**options, **_stated_by(made)} if lacks and made is not None else options


def _stated_by(made: Any) -> dict[str, Any]:
    """Return the configuration of a codec object of numcodecs, as far as it has a JSON form."""
    options = {}
    for name, value in made.get_config().items():
        with suppress(TypeError, ValueError, RecursionError):
            options[name] = json.loads(json.dumps(value))
    options.pop("id", None)
    return options
