"""Chunks of text and bytes of any length, with the kernel's help: Python objects are made here, their bytes there."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tegula import config, executors
from tegula.codecs import CodecChain
from tegula.codecs.stages import NativeTexts
from tegula.errors import UnsupportedError

if TYPE_CHECKING:
    from tegula._kernel import Texts

__all__ = ["TextChain"]

Chunk = npt.NDArray[Any]


class TextChain(CodecChain):
    """A chain of codecs whose text the kernel encodes and decodes, if the setting and the codecs let it.

    Parameters
    ----------
    chain : CodecChain
        The chain for elements of variable length; what the kernel does not do is done by it.
    """

    __slots__ = ("_back", "_known", "_order", "_texts")

    def __init__(self, chain: CodecChain) -> None:
        super().__init__(chain._arrays, chain._serializer, chain._buffers)
        self._known = False
        self._texts: Texts | None = None
        self._order: tuple[int, ...] | None = None
        self._back: Any = None

    def _kernel(self) -> Texts | None:
        """Return the kernel's codec for the text of a chunk; ``None`` if Python has to do all of it."""
        library = executors.choose(config.current().executor)
        if library is None:
            return None
        if not self._known:
            native = self.native
            if native is not None and isinstance(native.serializer, NativeTexts):
                self._order = native.order
                self._back = None if self._order is None else np.argsort(self._order)
                with suppress(UnsupportedError):  # options that the kernel's codecs do not know
                    self._texts = library.Texts(is_text=native.serializer.is_text, buffers=native.buffers)
            self._known = True
        return self._texts

    def decode(self, data: Any, shape: tuple[int, ...]) -> Chunk:
        """Make the chunk of bytes; see `CodecChain.decode`."""
        texts = self._kernel()
        if texts is None:
            return super().decode(data, shape)
        stored = shape if self._order is None else tuple([shape[axis] for axis in self._order])
        count = prod(shape)
        chunk: Chunk = np.empty(count, object)
        chunk[:] = texts.decode(bytes(data), count, config.current().max_chunk_bytes)
        chunk = chunk.reshape(stored)
        return chunk if self._back is None else chunk.transpose(self._back)

    def encode(self, chunk: Chunk) -> Any:
        """Make the bytes of a chunk; see `CodecChain.encode`."""
        texts = self._kernel()
        if texts is None:
            return super().encode(chunk)
        stored = chunk if self._order is None else chunk.transpose(self._order)
        data = texts.encode(stored.ravel().tolist())
        return super().encode(chunk) if data is None else data  # which reports what is wrong with which element
