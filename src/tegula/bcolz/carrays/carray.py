"""The carray: a compressed array that grows along its first axis, in memory or in a directory."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, ClassVar, SupportsIndex

import numpy as np
import numpy.typing as npt

import tegula
from tegula.bcolz import attributes, parameters, storage
from tegula.bcolz.carrays.append_buffer import BufferedRows
from tegula.bcolz.carrays.creating import RowBlocks, create_rows
from tegula.bcolz.carrays.iteration import CarrayIteration, rows_where
from tegula.bcolz.carrays.selecting import as_selection, assign, selected
from tegula.bcolz.converting import as_count, as_index, as_rows, as_shape, as_values
from tegula.bcolz.errors import ModeError
from tegula.bcolz.printing import array2string, describe
from tegula.engine.concurrency.finalisers import call_apart
from tegula.errors import MetadataError, SelectionError, TegulaError, brief

__all__ = ["carray"]

_MAX_ROW = 2**31


class carray(CarrayIteration):
    """A compressed array that grows along its first axis.

    Appended rows stay in memory until they fill whole chunks. They are stored by `flush`, at the end of a ``with``
    block, when this object is read, and when it is deleted.

    Parameters
    ----------
    array : array_like, optional
        The first rows. Without it, the array in `rootdir` is opened.
    cparams : cparams, optional
        Compression parameters.
    dtype : dtype-like, optional
        Data type of the elements; by default that of `array`.
    dflt : scalar, optional
        Value of the elements that `resize` adds; zero by default.
    expectedlen : int, optional
        Expected number of rows, from which the chunk length is chosen; by default the length of `array`.
    chunklen : int, optional
        Rows of a chunk.
    rootdir : path, optional
        The directory to store the array in; without it, the array is in memory.
    safe : bool
        Accepted for compatibility; input is always converted as needed.
    mode : {"a", "w", "r"}
        ``'a'`` opens for reading and writing. ``'w'`` deletes the directory `rootdir`, or all rows of an array that is
        opened. ``'r'`` opens for reading.
    allow_pickle : bool, optional
        Allow an array of Python objects, which are unpickled and can run any code; by default
        ``defaults.allow_pickle``.

    Raises
    ------
    MetadataError
        If an argument is not valid.
    FileNotFoundError
        If there is no array to open.
    FileExistsError
        If `rootdir` exists, an array is given, and the mode is not ``'w'``.

    Examples
    --------
    >>> from tegula import bcolz
    >>> c = bcolz.carray([1, 2, 3], dflt=7)
    >>> c.append([4, 5])
    >>> c.resize(6)
    >>> c[3], c[::2], c.sum()
    (4, array([1, 3, 5]), np.int64(22))
    """

    _evaluate: ClassVar[Any]

    def __init__(
        self,
        array: Any = None,
        cparams: parameters.cparams | None = None,
        dtype: Any = None,
        dflt: Any = None,
        expectedlen: int | None = None,
        chunklen: int | None = None,
        rootdir: Any = None,
        safe: bool = True,
        mode: str = "a",
        allow_pickle: bool | None = None,
    ) -> None:
        # check the arguments
        if mode not in ("r", "w", "a"):
            raise MetadataError(f"mode must be 'r', 'w' or 'a', not {mode!r:.80}", field="mode")
        if array is None and rootdir is None:
            raise MetadataError("a carray needs an array, or a rootdir to open")
        self._rootdir = rootdir
        self._mode = mode
        self._safe = safe
        # open an existing array
        if array is None:
            stored = storage.open_stored(rootdir, mode, allow_pickle)
            self._attach(BufferedRows(stored, _chunklen_of(stored)))
            if mode == "w":
                self.resize(0)
            return
        # or create one
        if isinstance(array, carray) and dtype is None:
            # copy it block by block, unless it may lie in the directory that is deleted first
            replaces = rootdir is not None and os.path.lexists(rootdir)
            array = array[:] if replaces else array._blocks()
        self._attach(
            create_rows(
                array,
                cparams=cparams,
                dtype=dtype,
                dflt=dflt,
                expectedlen=expectedlen,
                chunklen=chunklen,
                rootdir=rootdir,
                mode=mode,
            )
        )

    def _blocks(self) -> RowBlocks:
        blocks = (block for _, block in self._rows.blocks(0, len(self)))
        return RowBlocks(self._array[:0], blocks, length=len(self))

    def _attach(self, rows: BufferedRows, memory_attrs: dict[str, Any] | None = None) -> None:
        """Make `rows` the rows of this object, with attributes from `memory_attrs` if it is in memory."""
        self._rows = rows
        self._is_view = False
        self._iteration: Iterator[Any] | None = None
        self._leftover = None
        self._memory_attrs = {} if memory_attrs is None else memory_attrs
        values = self._memory_attrs if self._rootdir is None else rows.array.attrs
        self._attrs = attributes.attrs(values, lambda: self._mode)
        if self._rootdir is not None:
            self._finalizer = weakref.finalize(self, _flush_at_exit, rows, os.fspath(self._rootdir))

    @property
    def rootdir(self) -> Any:
        """The directory that the carray is stored in; ``None`` in memory."""
        return self._rootdir

    @rootdir.setter
    def rootdir(self, value: Any) -> None:
        if self._rootdir is None:
            raise MetadataError("the rootdir of an array in memory can't be changed", field="rootdir")
        self._move(value, self._mode)

    @property
    def mode(self) -> str:
        """The mode: ``'a'``, ``'w'`` or ``'r'``."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if self._rootdir is not None and (value == "r") != (self._mode == "r"):
            self.flush()
            self._move(self._rootdir, value)
        self._mode = value

    def _move(self, rootdir: Any, mode: str) -> None:
        """Open the array again: its directory was moved, or the mode changes."""
        before = self._rows
        array = storage.open_stored(rootdir, mode, before.dtype.kind == "O")
        self._finalizer.detach()
        self._rootdir = rootdir
        self._attach(BufferedRows(array, before.chunklen))
        self._rows.append(before.pop())

    # --- reading and writing

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            start, stop, get = self._rows.cached  # the chunk that was read last
            return get(key - start) if start <= key < stop else self._rows.row(as_index(int(key), len(self._rows)))
        if isinstance(key, tuple) and len(key) == 1:
            return self[key[0]]
        if isinstance(key, str):
            key = self._evaluated(key)
        if getattr(key, "dtype", None) == np.bool_ and key.ndim == 1:
            return self._masked(key)
        selection, rest = as_selection(key, self.shape)
        found = self._array[selection]
        return found if rest is None else selected(found, rest)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_writable()
        if isinstance(key, str):
            key = self._evaluated(key)
        selection, rest = as_selection(key, self.shape, MetadataError)
        array = self._rows.flushed_for_writing()
        if self.dtype.kind != "O":
            value = as_values(value, self.dtype)
        if rest is None:
            array[selection] = value
            return
        part = array[selection]
        assign(part, rest, value)
        array[selection] = part

    def _masked(self, mask: Any) -> npt.NDArray[Any]:
        if len(mask) != len(self):
            raise SelectionError(f"a mask of {len(mask)} rows does not fit {len(self)} rows")
        parts = [*rows_where(self._rows, mask)]
        return np.concatenate(parts, dtype=self.dtype) if parts else self._array[:0]

    def _evaluated(self, expression: str) -> Any:
        """Evaluate an expression to a mask, with the variables of the caller of ``self[expression]``."""
        caller = sys._getframe(2)
        found = self._evaluate(expression, (caller.f_locals, caller.f_globals))
        if getattr(found, "dtype", None) != np.bool_:
            raise SelectionError(f"a selection needs a boolean expression, not {expression!r:.80}")
        if len(found) != len(self):
            raise SelectionError(f"a mask of {len(found)} rows does not fit {len(self)} rows")
        return found

    def _check_writable(self) -> None:
        if self._mode == "r":
            raise ModeError("the array can't be changed: the mode is 'r'", path=self._rootdir and str(self._rootdir))

    def append(self, array: Any) -> None:
        """Append rows, or one row.

        Parameters
        ----------
        array : array_like
            Rows of the carray's row shape, which are converted to its data type.

        Raises
        ------
        MetadataError
            If the shape does not fit.
        OSError
            If the mode is ``'r'``.

        Examples
        --------
        >>> from tegula import bcolz
        >>> c = bcolz.carray([[1, 2]])
        >>> c.append([3, 4])
        >>> c.append([[5, 6], [7, 8]])
        >>> c.shape
        (4, 2)
        """
        if self._is_view or self._mode == "r":
            self._detach()
            self._check_writable()
        rows = self._rows
        rows.append(as_rows(array, rows.dtype, rows.row_shape))

    def trim(self, nitems: float) -> None:
        """Remove rows at the end; a negative number adds rows.

        Examples
        --------
        >>> from tegula import bcolz
        >>> c = bcolz.carray([1, 2, 3])
        >>> c.trim(2)
        >>> c[:]
        array([1])
        """
        count = as_count(nitems)
        if count > len(self):
            raise MetadataError(f"{brief(count)} rows can't be removed from {len(self)}", field="nitems")
        self._resize(len(self) - count)

    def resize(self, nitems: float) -> None:
        """Change the number of rows; added rows hold `dflt`.

        Examples
        --------
        >>> from tegula import bcolz
        >>> c = bcolz.carray([1, 2], dflt=7)
        >>> c.resize(3)
        >>> c[:]
        array([1, 2, 7])
        """
        count = as_count(nitems)
        if count < 0:
            raise MetadataError(f"an array can't have {count} rows", field="nitems")
        self._resize(count)

    def _resize(self, length: int) -> None:
        if length != len(self):
            self._detach()
        self._check_writable()
        if length != len(self):
            self._rows.flushed_for_writing().resize((length, *self._rows.row_shape))

    def flush(self) -> None:
        """Store the appended rows that are still in memory.

        Examples
        --------
        >>> import tempfile
        >>> from tegula import bcolz
        >>> root = tempfile.TemporaryDirectory()
        >>> c = bcolz.carray([1, 2], rootdir=f"{root.name}/c")
        >>> c.append([3])
        >>> c.flush()
        >>> len(bcolz.open(f"{root.name}/c", mode="r"))
        3
        >>> c.purge()
        >>> root.cleanup()
        """
        if self._rootdir is not None:
            self._rows.flush()

    def purge(self) -> None:
        """Delete the directory that the carray is stored in."""
        if self._rootdir is not None:
            storage.delete(self._rootdir)
            self._rows.discard()

    def free_cachemem(self) -> None:
        """Free the memory of the chunk that was read last."""
        self._rows.drop_cache()

    # --- copies and views

    def copy(self, **kwargs: Any) -> carray:
        """Return a copy.

        Parameters
        ----------
        **kwargs
            Parameters of `carray`. The copy gets the default compression parameters unless `cparams` is given.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.carray([1, 2]).copy(cparams=bcolz.cparams(clevel=9)).cparams.clevel
        9
        """
        kwargs.setdefault("expectedlen", len(self))
        return carray(self, **kwargs)

    def view(self) -> carray:
        """Return another object with the same rows; before it changes their number, it copies them into memory.

        Examples
        --------
        >>> from tegula import bcolz
        >>> c = bcolz.carray([1, 2])
        >>> v = c.view()
        >>> v.append([3])
        >>> len(v), len(c)
        (3, 2)
        """
        other = _new(self._rows, {}, self._mode, self._safe)
        other._is_view = True
        return other

    def _detach(self) -> None:
        if self._is_view:
            self._rows = BufferedRows(storage.in_memory(self._array), self.chunklen)
            self._is_view, self._mode = False, "a"

    def reshape(self, newshape: SupportsIndex | Sequence[SupportsIndex]) -> carray:
        """Return a carray of another shape with the same elements; in a directory, it replaces this one.

        Parameters
        ----------
        newshape : int or sequence of int
            The shape; one length may be -1.

        Raises
        ------
        MetadataError
            If the shape does not fit the number of elements.

        Examples
        --------
        >>> from tegula import bcolz
        >>> bcolz.carray([1, 2, 3, 4]).reshape((2, -1))[:]
        array([[1, 2],
               [3, 4]])
        """
        shape = as_shape(newshape, self.size)
        temporary = None if self._rootdir is None else storage.temporary_beside(self._rootdir)
        empty = np.empty((0, *shape[1:]), self.dtype)
        out = carray(empty, cparams=self.cparams, dflt=self.dflt, expectedlen=shape[0], rootdir=temporary)
        # append the elements block by block; those of an incomplete new row stay for the next block
        row_size = prod(shape[1:])
        elements = np.empty(0, self.dtype)
        for _, block in self._rows.blocks(0, len(self)):
            elements = np.concatenate([elements, block.reshape(-1)], dtype=self.dtype)
            whole = elements.size // row_size * row_size
            out.append(elements[:whole].reshape(-1, *shape[1:]))
            elements = elements[whole:]
        for name, value in self.attrs:
            out.attrs[name] = value
        # replace the directory
        if temporary is not None:
            out.flush()
            storage.replace(self._rootdir, temporary)
            out._move(self._rootdir, self._mode)
            out._mode = self._mode
        return out

    # --- Python's and NumPy's protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self._array.__array__(dtype, copy)

    def __str__(self) -> str:
        return array2string(self)

    def __repr__(self) -> str:
        return describe(self)

    def __enter__(self) -> carray:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rootdir is not None:
            self.flush()
            return _reopened, (self._rootdir, self._mode, self.dtype.kind == "O")
        return _restored, (self._array, self.chunklen, self._memory_attrs, self._mode, self._safe)


def _chunklen_of(array: tegula.Array) -> int:
    return int(array.metadata.extra.get("chunklen", array.chunks[0]))


def _flush_at_exit(rows: BufferedRows, rootdir: str) -> None:
    try:
        if rows.are_pending:
            call_apart(rows.flush)
    except TegulaError:
        if os.path.isdir(rootdir):  # rows of a deleted directory need not be stored
            raise


def _reopened(rootdir: Any, mode: str, allow_pickle: bool) -> carray:
    return carray(rootdir=rootdir, mode="r" if mode == "r" else "a", allow_pickle=allow_pickle)


def _restored(array: tegula.Array, chunklen: int, attrs: dict[str, Any], mode: str, safe: bool) -> carray:
    return _new(BufferedRows(array, chunklen), attrs, mode, safe)


def _new(rows: BufferedRows, attrs: dict[str, Any], mode: str, safe: bool) -> carray:
    """Return a carray in memory with the given rows and attributes."""
    out = carray.__new__(carray)
    out._rootdir, out._mode, out._safe = None, mode, safe
    out._attach(rows, attrs)
    return out
