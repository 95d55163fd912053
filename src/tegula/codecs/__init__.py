"""Codecs: encoding and decoding chunks, with Python and numcodecs.

`build_chain` builds a `CodecChain` from a list of codec descriptions. Stored bytes are not trusted: a decoder returns
exactly as many bytes as the shape of the chunk requires, or raises `~tegula.errors.CodecError`.
"""

from typing import TYPE_CHECKING

from tegula.runtime.deferred import on_first_use

if TYPE_CHECKING:
    from tegula.codecs.chain import CodecChain, build_chain
    from tegula.codecs.describing import runs_in_kernel
    from tegula.codecs.fill import equals_fill
    from tegula.codecs.registry import known_codecs, serializer_position
    from tegula.codecs.serializers.sharding import EMPTY, Sharding
    from tegula.codecs.specs import codec_specs, complete, lacking

__all__ = [
    "EMPTY", "CodecChain", "Sharding", "build_chain", "codec_specs", "complete", "equals_fill", "known_codecs",
    "lacking", "runs_in_kernel", "serializer_position",
]  # fmt: skip

_HOMES = {
    "chain": "CodecChain build_chain",
    "describing": "runs_in_kernel",
    "fill": "equals_fill",
    "registry": "known_codecs serializer_position",
    "serializers.sharding": "EMPTY Sharding",
    "specs": "codec_specs complete lacking",
}

if not TYPE_CHECKING:  # otherwise type checkers accept any name
    __getattr__, __dir__ = on_first_use(__name__, _HOMES, in_threads=True)
