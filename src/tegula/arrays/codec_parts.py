"""The codecs of an array as users see them: filters and compressors, in the form of the array's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tegula import codecs, formats
from tegula.formats.keys import ZARR2_KEYS
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, inner_codecs

__all__ = [
    "Codec",
    "codec_document",
    "compressor_of",
    "compressors_of",
    "filters_of",
    "joined",
    "order_of",
    "serializer_of",
]

Codec = dict[str, Any]
_CHECKSUMS: Final = frozenset({"crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"})


def order_of(metadata: ArrayMetadata) -> str:
    """Return ``"F"`` if the axes are reversed within a stored chunk, otherwise ``"C"``.

    Examples
    --------
    >>> import tegula
    >>> order_of(tegula.create_array({}, shape=(4, 2), dtype="i4", order="F").metadata)
    'F'
    """
    reverse = [*range(metadata.ndim)][::-1]
    specs = inner_codecs(metadata.codecs)
    reversed_axes = any(s.name == "transpose" and [*s.configuration.get("order", ())] == reverse for s in specs)
    return "F" if reversed_axes and metadata.ndim > 1 else "C"


def filters_of(metadata: ArrayMetadata) -> tuple[Codec, ...]:
    """Return the codecs applied to the elements before compression.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, shape=9, dtype="i4", codecs=["numcodecs.shuffle", "zstd", "crc32c"])
    >>> filters_of(a.metadata), [codec["name"] for codec in compressors_of(a.metadata)]
    ((), ['numcodecs.shuffle', 'zstd', 'crc32c'])
    >>> compressor_of(a.metadata)["name"]
    'numcodecs.shuffle'
    """
    return tuple(codec_document(spec, metadata.format) for spec in _split(metadata)[0])


def compressors_of(metadata: ArrayMetadata) -> tuple[Codec, ...]:
    """Return the codecs applied to the bytes of a chunk; in Zarr v3 they include checksums."""
    return tuple(codec_document(spec, metadata.format) for spec in _split(metadata)[1])


def compressor_of(metadata: ArrayMetadata) -> Codec | None:
    """Return the first compressor that is not a checksum, ``None`` if there is none."""
    compressors = (spec for spec in _split(metadata)[1] if spec.name.removeprefix("numcodecs.") not in _CHECKSUMS)
    first = next(compressors, None)
    return None if first is None else codec_document(first, metadata.format)


def serializer_of(metadata: ArrayMetadata) -> Codec:
    """Return the codec of a Zarr v3 array that turns elements into bytes, those of the inner chunks if it has shards.

    Examples
    --------
    >>> import tegula
    >>> serializer_of(tegula.create_array({}, shape=9, dtype="i4").metadata)
    {'name': 'bytes', 'configuration': {'endian': 'little'}}
    """
    specs = inner_codecs(metadata.codecs)
    return codec_document(specs[codecs.serializer_position(specs, metadata.data_type)], metadata.format)


def joined(parts: Mapping[str, Any], format: str) -> list[CodecSpec]:
    """Return the codecs of ``filters``, ``serializer`` and ``compressors``, each given or ``"auto"``.

    Examples
    --------
    >>> [spec.name for spec in joined({"filters": "auto", "serializer": "bytes", "compressors": "auto"}, "zarr3")]
    ['bytes', 'zstd']
    """
    specs: list[CodecSpec] = []
    for key in ("filters", "serializer", "compressors"):
        if parts[key] != "auto":
            specs += codecs.codec_specs(parts[key])
        elif key == "compressors":
            specs += formats.find_format(format).compressors
    return specs


def codec_document(spec: CodecSpec, format: str) -> Codec:
    """Return a codec in the form of a format.

    Examples
    --------
    >>> spec = CodecSpec("zlib", {"level": 5})
    >>> codec_document(spec, "zarr2"), codec_document(spec, "zarr3")
    ({'id': 'zlib', 'level': 5}, {'name': 'zlib', 'configuration': {'level': 5}})
    """
    if format == "zarr3":
        options = {"configuration": dict(spec.configuration)} if spec.configuration else {}
        return {"name": spec.name, **options}
    return {"id": spec.name.removeprefix("numcodecs."), **spec.configuration}


def _split(metadata: ArrayMetadata) -> tuple[list[CodecSpec], list[CodecSpec]]:
    """Return filters and compressors."""
    if metadata.format == "zarr3":
        specs = inner_codecs(metadata.codecs)
        middle = codecs.serializer_position(specs, metadata.data_type)
        return [*specs[:middle]], [*specs[middle + 1 :]]
    own = metadata.codecs if metadata.format in ("zarr1", "zarr2") else formats.portable(metadata.codecs)
    others = [spec for spec in own if spec.name not in ("bytes", "transpose")]
    raw = metadata.documents.get(ZARR2_KEYS[0]) if metadata.format == "zarr2" else None
    if raw is not None and formats.load(raw, ZARR2_KEYS[0]).get("compressor") is None:
        return others, []
    return others[:-1], others[-1:]
