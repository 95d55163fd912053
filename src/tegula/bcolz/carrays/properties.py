"""Properties of a carray: its shape, data type, sizes, parameters and chunks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, overload

import numpy as np
import numpy.typing as npt

import tegula
from tegula.bcolz import attributes, parameters, storage
from tegula.bcolz.carrays.append_buffer import BufferedRows
from tegula.bcolz.converting import as_index
from tegula.bcolz.printing import HEADER

__all__ = ["CarrayProperties"]


class CarrayProperties:
    """The properties of a carray that are computed from its rows."""

    _rows: BufferedRows
    _attrs: attributes.attrs
    _safe: bool
    _leftover: npt.NDArray[Any] | None

    @property
    def _array(self) -> tegula.Array:
        """The array, with all rows stored."""
        return self._rows.flushed()

    @property
    def attrs(self) -> attributes.attrs:
        """The attributes."""
        return self._attrs

    @property
    def len(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return (len(self._rows), *self._rows.row_shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return 1 + len(self._rows.row_shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return self._rows.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def atomsize(self) -> int:
        """Bytes of a row."""
        return self.itemsize * prod(self._rows.row_shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, uncompressed."""
        return self.atomsize * len(self._rows)

    @property
    def cbytes(self) -> int:
        """Bytes of the full chunks, compressed, and of one more chunk, uncompressed, as bcolz counts.

        That chunk stands for the rows after the last full one. Python objects are stored one by one and have no such
        chunk.
        """
        array = self._array
        count, left = divmod(len(array), array.chunks[0])
        frames: int = array.nbytes_stored() - count * HEADER
        if self.dtype.kind == "O":
            return frames
        last = array.store.size(array.metadata.keys.encode((count, *[0] * (array.ndim - 1)))) if left else 0
        return frames - (last or 0) + self.chunklen * self.atomsize

    def __sizeof__(self) -> int:
        return self._rows.memory_nbytes()

    @property
    def chunklen(self) -> int:
        """Rows of a chunk."""
        return self._rows.chunklen

    @property
    def cparams(self) -> parameters.cparams:
        """Compression parameters."""
        return storage.cparams_of(self._rows.array)

    @property
    def dflt(self) -> Any:
        """Value of the elements that `resize` adds."""
        return self._rows.array.fill_value

    @property
    def expectedlen(self) -> int:
        """Number of rows that was expected when the carray was created."""
        return int(self._rows.array.metadata.extra.get("expectedlen", len(self)))

    @property
    def safe(self) -> bool:
        """The argument `safe` that the carray was created with."""
        return self._safe

    # --- chunks

    @property
    def nchunks(self) -> int:
        """Number of full chunks."""
        return len(self._rows) // self.chunklen

    @property
    def nleftover(self) -> int:
        """Number of rows after the last full chunk."""
        return len(self._rows) % self.chunklen

    leftover_elements = nleftover

    @property
    def leftover_bytes(self) -> int:
        """Bytes of the rows after the last full chunk."""
        return self.nleftover * self.atomsize

    @property
    def leftover_array(self) -> npt.NDArray[Any]:
        """The rows after the last full chunk, in an array of the length of a chunk."""
        self._leftover = np.zeros((self.chunklen, *self._rows.row_shape), self.dtype)
        self._leftover[: self.nleftover] = self._array[self.nchunks * self.chunklen :]
        return self._leftover

    @property
    def leftover_ptr(self) -> int:
        """Address of `leftover_array`, valid until one of the two properties is read again."""
        return self.leftover_array.ctypes.data

    @property
    def partitions(self) -> list[tuple[int, int]]:
        """First row and end of each full chunk."""
        return [(n * self.chunklen, (n + 1) * self.chunklen) for n in range(self.nchunks)]

    @property
    def chunks(self) -> Sequence[npt.NDArray[Any]]:
        """The full chunks, each of which is decoded when it is taken from the sequence."""
        return _Chunks(self._array, self.partitions)


class _Chunks(Sequence[npt.NDArray[Any]]):
    """Parts of an array, which are read when they are taken."""

    def __init__(self, array: tegula.Array, partitions: list[tuple[int, int]]) -> None:
        self._array = array
        self._partitions = partitions

    def __len__(self) -> int:
        return len(self._partitions)

    @overload
    def __getitem__(self, index: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[npt.NDArray[Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._array[start:stop] for start, stop in self._partitions[index]]
        start, stop = self._partitions[as_index(index, len(self))]
        return self._array[start:stop]
