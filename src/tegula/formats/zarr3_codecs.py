"""Codecs and other extension objects in Zarr v3 documents (core, sections "Codecs" and "Extension definition")."""

from __future__ import annotations

from typing import Any, Final

from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.formats.keys import ZARR3_KEY
from tegula.metadata.nodes import CodecSpec

__all__ = [
    "ARRAY_TO_ARRAY", "ARRAY_TO_BYTES", "KEY", "codec_to_json", "codecs_from_json", "extension_from_json",
    "extensions_from_json",
]  # fmt: skip

KEY: Final = ZARR3_KEY
ARRAY_TO_BYTES: Final = frozenset(
    "bytes sharding_indexed n5_default vlen-utf8 vlen-bytes vlen-array zarrs.vlen_v2 packbits zfp numcodecs.pcodec"
    " numcodecs.zfpy zarrs.optional".split()
)
ARRAY_TO_ARRAY: Final = frozenset(
    ["transpose", "cast_value", "scale_offset", "bitround", "reshape", "zarrs.squeeze"]
    + [f"numcodecs.{name}" for name in ("delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype")]
)
_KNOWN: Final = ARRAY_TO_BYTES | ARRAY_TO_ARRAY | {"blosc", "gzip", "zstd", "crc32c", "conditional"}
_LISTED: Final = 5  # names in one message


def extension_from_json(value: Any, field: str) -> CodecSpec:
    """Read an extension object, or the bare name of one.

    Parameters
    ----------
    value : JSON value
        A name, or an object with ``name``, ``configuration`` and ``must_understand``.
    field : str
        The member of the document that it belongs to, for errors.

    Raises
    ------
    MetadataError
        If it is neither.

    Examples
    --------
    >>> extension_from_json("regular", "chunk_grid")
    CodecSpec(name='regular', configuration={}, must_understand=True)
    """
    if isinstance(value, str):
        return CodecSpec(value)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise MetadataError(f"{value!r:.80} is neither a name nor an object with a name", key=KEY, field=field)
    configuration = value.get("configuration", {})
    understand = value.get("must_understand", True)
    if not isinstance(configuration, dict) or not isinstance(understand, bool):
        raise MetadataError("configuration must be an object and must_understand true or false", key=KEY, field=field)
    return CodecSpec(value["name"], configuration, understand)


def extensions_from_json(value: Any, field: str) -> list[CodecSpec]:
    """Read a list of extension objects; `extension_from_json` documents parameters and errors."""
    if not isinstance(value, list):
        raise MetadataError(f"{field} must be a list, not {value!r:.80}", key=KEY, field=field)
    return [extension_from_json(item, field) for item in value]


def codecs_from_json(value: Any) -> tuple[CodecSpec, ...]:
    """Read a list of codecs, and check the order of their kinds (Zarr v3 core, section "Codecs").

    Raises
    ------
    MetadataError
        If there is not exactly one array→bytes codec, or an array→array codec after it.
    UnsupportedError
        If there is no array→bytes codec, and an unknown codec that may be one.

    Examples
    --------
    >>> codecs_from_json(["bytes", {"name": "gzip", "configuration": {"level": 1}}])[1].name
    'gzip'
    """
    codecs = extensions_from_json(value, "codecs")
    kinds = [1 if c.name in ARRAY_TO_BYTES else 0 if c.name in ARRAY_TO_ARRAY else 2 for c in codecs]
    if kinds.count(1) != 1:
        raise _wrong_serializers(codecs, [c.name for c, kind in zip(codecs, kinds) if kind == 1])
    # an unknown codec counts as bytes→bytes here; `build_chain` rejects it by name
    if 0 in kinds[kinds.index(1) :]:
        raise MetadataError("an array→array codec comes after the array→bytes codec", key=KEY, field="codecs")
    return tuple(codecs)


def _wrong_serializers(codecs: list[CodecSpec], serializers: list[str]) -> TegulaError:
    """Return the error for codecs without an array→bytes codec, which may be an unknown one, or with several."""
    unknown = [c.name for c in codecs if c.name not in _KNOWN and not c.name.startswith("numcodecs.")]
    if not serializers and unknown:
        return UnsupportedError(f"unknown codec {_list(unknown)}", key=KEY, field="codecs")
    stated = _list(serializers or [c.name for c in codecs])
    why = f"not {len(serializers)}: {stated}" if serializers else f"such as 'bytes', but there is none in [{stated}]"
    return MetadataError(f"there must be exactly one array→bytes codec, {why:.200}", key=KEY, field="codecs")


def _list(names: list[str]) -> str:
    return ", ".join(f"{name!r:.40}" for name in names[:_LISTED]) + ", …" * (len(names) > _LISTED)


def codec_to_json(codec: CodecSpec) -> dict[str, Any]:
    """Convert a codec to the object of a Zarr v3 document, including the codecs inside of shards.

    Raises
    ------
    MetadataError
        If a shard lacks its codecs.

    Examples
    --------
    >>> codec_to_json(CodecSpec("gzip", {"level": 1}))
    {'name': 'gzip', 'configuration': {'level': 1}}
    """
    configuration = dict(codec.configuration)
    out: dict[str, Any] = {"name": codec.name}
    if codec.name == "sharding_indexed":
        for name in ("codecs", "index_codecs"):
            if name not in configuration:
                raise MetadataError(f"sharding_indexed needs the option {name!r}", field=name, codec=codec.name)
            configuration[name] = [codec_to_json(inner) for inner in codecs_from_json(configuration[name])]
    if configuration or codec.name.startswith(("vlen-", "numcodecs.")):  # zarr-python writes {} for these
        out["configuration"] = configuration
    return out if codec.must_understand else {**out, "must_understand": False}
