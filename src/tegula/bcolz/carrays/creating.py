"""New carrays: their arguments checked, their directory cleared, and their first rows stored."""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.chunking import as_length
from tegula.arrays.creation import completing
from tegula.bcolz import parameters, storage
from tegula.bcolz.carrays.append_buffer import BufferedRows
from tegula.bcolz.converting import as_default, as_new_rows, row_type
from tegula.bcolz.errors import KindError, ModeError
from tegula.errors import MetadataError
from tegula.formats.bcolz.chunks import automatic_chunklen

__all__ = ["RowBlocks", "create_rows"]

_MAX_ROW_BYTES: Final = 2**31


class RowBlocks:
    """The first rows of a new carray, given in blocks. Other processes see the carray only when all are stored.

    Parameters
    ----------
    like : ndarray
        An array without rows that has the data type and the row shape.
    blocks : iterable of ndarray
        The rows, one block after the other.
    length : int, optional
        Number of rows, if it is known.
    defaults : int
        Number of rows that hold the carray's `dflt`, after those of the blocks.
    """

    def __init__(
        self,
        like: npt.NDArray[Any],
        blocks: Iterable[npt.NDArray[Any]] = (),
        *,
        length: int | None = None,
        defaults: int = 0,
    ) -> None:
        self.like = like
        self.blocks = blocks
        self.length = length
        self.defaults = defaults

    def __bool__(self) -> bool:
        """Return false if it is known that there are no rows."""
        return bool(self.blocks or self.defaults) if self.length is None else self.length > 0


def create_rows(
    array: Any,
    *,
    cparams: parameters.cparams | None,
    dtype: Any,
    dflt: Any,
    expectedlen: float | None,
    chunklen: int | None,
    rootdir: Any,
    mode: str,
) -> BufferedRows:
    """Create the array of a carray and store its first rows.

    Parameters
    ----------
    array : array_like or RowBlocks
        The first rows.
    cparams, dtype, dflt, expectedlen, chunklen, rootdir, mode
        As for `carray`.

    Raises
    ------
    MetadataError
        If an argument is not valid.
    FileExistsError
        If the directory exists and the mode is not ``'w'``.
    """
    # check the arguments
    if cparams is None:
        cparams = parameters.cparams()
    if not isinstance(cparams, parameters.cparams):
        raise MetadataError(f"cparams must be an instance of cparams, not {cparams!r:.80}", field="cparams")
    rows = as_new_rows(array.like if isinstance(array, RowBlocks) else array, dtype)
    source = array if isinstance(array, RowBlocks) else RowBlocks(rows[:0], [rows], length=len(rows))
    element, row_shape = row_type(rows, dtype)
    row_nbytes = _checked_row_nbytes(element, row_shape)
    if chunklen is not None and (not isinstance(chunklen, int) or chunklen < 1):
        raise MetadataError(f"chunklen must be a positive int, not {chunklen!r:.80}", field="chunklen")
    if not isinstance(expectedlen, (int, float, np.number, type(None))):
        raise KindError(f"expectedlen must be a number, not {expectedlen!r:.80}", field="expectedlen")
    try:
        expectedlen = (source.length or 0) if expectedlen is None else int(expectedlen)
    except (ValueError, OverflowError) as error:
        raise MetadataError(f"expectedlen can't be {expectedlen}", field="expectedlen") from error
    as_length(abs(expectedlen), "expectedlen")
    if rootdir is not None and mode == "r" and source:
        raise ModeError("rows can't be stored: the mode is 'r'", path=os.fspath(rootdir))
    if chunklen is None:
        chunklen = automatic_chunklen(expectedlen, row_nbytes)
    options = {"cparams": cparams, "fill_value": as_default(dflt, element), "expectedlen": expectedlen}

    def made(place: Any) -> BufferedRows:
        """Create the array and store the rows."""
        with (
            storage.removing_empty(place),
            completing(storage.create(place, row_shape, element, chunklen, **options)) as stored,
        ):
            created = BufferedRows(stored, chunklen)
            for block in source.blocks:
                created.append(block)
            created.flush()
            if source.defaults:
                stored.resize((len(stored) + source.defaults, *row_shape))
        return created

    if rootdir is None or not os.path.lexists(rootdir):
        return made(rootdir)
    # replace what is in the directory, but only if creating the array in memory does not fail
    storage.create(None, row_shape, element, chunklen, **options)
    with storage.replacing(rootdir, mode) as place:
        created = made(place)
    if place == rootdir:
        return created
    return BufferedRows(storage.open_stored(rootdir, mode, element.kind == "O"), chunklen)


def _checked_row_nbytes(element: np.dtype[Any], row_shape: tuple[int, ...]) -> int:
    row_nbytes = element.itemsize * prod(row_shape)
    if row_nbytes >= _MAX_ROW_BYTES:
        raise MetadataError(f"a row of {row_nbytes} bytes is too large", field="dtype")
    if row_nbytes == 0:
        raise KindError("a row needs at least one byte", field="dtype")
    return row_nbytes
