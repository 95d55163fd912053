"""Codecs: how a chunk becomes bytes and bytes a chunk, in plain Python and numcodecs.

`build_chain` makes a `CodecChain` of a list of codec descriptions. What is stored is not trusted: a decoder makes
exactly as many bytes as the chunk's shape calls for, or raises `~tegula.errors.CodecError`.
"""

from tegula.codecs.chain import CodecChain, build_chain, known_codecs, serializer_position
from tegula.codecs.fill import equals_fill
from tegula.codecs.native import runs_in_kernel
from tegula.codecs.sharding import EMPTY, Sharding
from tegula.codecs.specs import codec_specs, complete, lacking

__all__ = [
    "EMPTY", "CodecChain", "Sharding", "build_chain", "codec_specs", "complete", "equals_fill", "known_codecs",
    "lacking", "runs_in_kernel", "serializer_position",
]  # fmt: skip
