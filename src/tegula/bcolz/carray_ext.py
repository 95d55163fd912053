"""``bcolz.carray_ext``: the carray, a single chunk, and facts about Blosc."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.parameters import blosc_compressor_list, blosc_set_nthreads, blosc_version, cparams
from tegula.bcolz.printing import HEADER, blocksize
from tegula.errors import MetadataError

__all__ = ["blosc_compressor_list", "blosc_version", "carray", "chunk"]

_blosc_set_nthreads = blosc_set_nthreads


class chunk:
    """A compressed, read-only chunk in memory.

    Parameters
    ----------
    array : array_like
        The rows, at least one.
    atom : numpy.dtype
        Data type of a row, which may have a shape.
    cparams : cparams
        Compression parameters.

    Raises
    ------
    MetadataError
        If there are no rows, or they do not fit the data type.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula import bcolz
    >>> rows = chunk(np.arange(1000), atom=np.dtype("i8"), cparams=bcolz.cparams())
    >>> rows[1], rows[1:8:3], rows.cbytes < rows.nbytes
    (1, array([1, 4, 7]), True)
    """

    def __init__(self, array: Any, atom: Any, cparams: cparams) -> None:
        rows = np.asarray(array)
        if not rows.ndim or not len(rows):
            raise MetadataError("a chunk needs at least one row", field="array")
        self._rows = carray(rows, dtype=atom, cparams=cparams, chunklen=len(rows))
        self._atom: np.dtype[Any] = np.dtype(atom)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of a row."""
        return self._atom

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, uncompressed."""
        return self._rows.nbytes

    @property
    def cbytes(self) -> int:
        """Bytes of all rows, compressed."""
        return len(self.getdata())

    @property
    def blocksize(self) -> int:
        """Block size of Blosc in bytes."""
        return blocksize(self._rows)

    def getdata(self) -> bytes:
        """Return the Blosc frame."""
        stored = self._rows._array
        value: bytes = stored.store.get(stored.metadata.keys.encode((0,) * stored.ndim)) or b""
        return value[HEADER:]

    def __getitem__(self, key: Any) -> Any:
        return self._rows[key]

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        return str(self._rows)

    def __repr__(self) -> str:
        ratio = self.nbytes / self.cbytes
        return f"chunk({self.dtype})  nbytes: {self.nbytes}; cbytes: {self.cbytes}; ratio: {ratio:.2f}\n{self!s}"
