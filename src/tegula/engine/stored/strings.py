"""Chunks of variable-length strings: arrays of Python objects, which the kernel encodes and decodes."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tegula import config
from tegula.codecs import CodecChain
from tegula.codecs.native import NativeStrings
from tegula.errors import UnsupportedError
from tegula.runtime import executors

if TYPE_CHECKING:
    from tegula._kernel import Strings

__all__ = ["StringChain"]

Chunk = npt.NDArray[Any]


class StringChain(CodecChain):
    """A codec chain for variable-length strings that uses the kernel if the setting and the codecs allow it.

    Parameters
    ----------
    chain : CodecChain
        The chain in Python, for everything that the kernel does not support.
    """

    __slots__ = ("_back", "_known", "_order", "_strings")

    def __init__(self, chain: CodecChain) -> None:
        super().__init__(chain.array_codecs, chain.serializer, chain.buffer_codecs)
        self._known = False
        self._strings: Strings | None = None
        self._order: tuple[int, ...] | None = None
        self._back: Any = None

    def _kernel(self) -> Strings | None:
        """Return the kernel's codec for the chunks; ``None`` if the kernel is not used."""
        library = executors.choose(config.current().executor)
        if library is None:
            return None
        if not self._known:
            native = self.native
            if native is not None and isinstance(native.serializer, NativeStrings):
                self._order = native.order
                self._back = None if self._order is None else np.argsort(self._order)
                with suppress(UnsupportedError):  # options that the kernel's codecs do not support
                    self._strings = library.Strings(is_text=native.serializer.is_text, buffers=native.buffers)
            self._known = True
        return self._strings

    def decode(self, data: Any, shape: tuple[int, ...]) -> Chunk:
        """Decode a chunk; see `CodecChain.decode`."""
        strings = self._kernel()
        if strings is None:
            return super().decode(data, shape)
        stored = shape if self._order is None else tuple([shape[axis] for axis in self._order])
        count = prod(shape)
        chunk: Chunk = np.empty(count, object)
        chunk[:] = strings.decode(bytes(data), count, config.current().max_chunk_bytes)
        chunk = chunk.reshape(stored)
        return chunk if self._back is None else chunk.transpose(self._back)

    def encode(self, chunk: Chunk) -> Any:
        """Encode a chunk; see `CodecChain.encode`."""
        strings = self._kernel()
        if strings is None:
            return super().encode(chunk)
        stored = chunk if self._order is None else chunk.transpose(self._order)
        data = strings.encode(stored.ravel().tolist())
        return super().encode(chunk) if data is None else data  # raises an error that names the wrong element
