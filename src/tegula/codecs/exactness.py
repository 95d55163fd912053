"""What codecs do to values: whether elements that were stored are those that are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import numpy as np

from tegula.metadata.nodes import CodecSpec

__all__ = ["effect_on_values"]

_EXACT: Final = frozenset(
    "adler32 base64 blosc blpk bytes bz2 crc32 crc32c fletcher32 gzip jenkins_lookup3 lz4 lz4block lzma n5_default"
    " pcodec reshape sharding_indexed shuffle squeeze transpose vlen-bytes vlen-utf8 vlen_v2 zlib zstd".split()
)
_EACH: Final = frozenset(
    "astype bitround cast_value categorize conditional fixedscaleoffset json json2 msgpack msgpack2 optional packbits"
    " pickle quantize scale_offset".split()
)


def effect_on_values(specs: Iterable[CodecSpec], dtype: np.dtype[Any]) -> Literal["none", "each", "mixed"]:
    """Return what codecs do to elements: nothing; the same to equal ones; or something that depends on others, too.

    Of a codec that is not known here, the latter is assumed.

    Examples
    --------
    >>> effect_on_values([CodecSpec("bytes"), CodecSpec("zstd")], np.dtype("f4"))
    'none'
    >>> effect_on_values([CodecSpec("bitround"), CodecSpec("bytes")], np.dtype("f4"))
    'each'
    >>> [effect_on_values([CodecSpec("numcodecs.delta")], np.dtype(kind)) for kind in ("i4", "f4")]
    ['none', 'mixed']
    """
    names = {spec.name.rpartition(".")[2] for spec in specs}
    if dtype.kind in "iub":
        names.discard("delta")  # sums of floats depend on those before
    return "none" if names <= _EXACT else "each" if names <= _EXACT | _EACH else "mixed"
