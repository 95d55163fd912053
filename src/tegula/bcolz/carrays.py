"""The carray: a compressed array that grows along its first axis, in memory or in a directory."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import tegula
from tegula.bcolz import attributes, parameters, storage
from tegula.bcolz.converting import as_count, as_default, as_index, as_new_rows, as_rows, as_shape, as_values, row_type
from tegula.bcolz.errors import KindError, ModeError, NotImplementedHereError
from tegula.bcolz.iteration import Going, each, hits, limited, rows_where
from tegula.bcolz.printing import HEADER, array2string, describe
from tegula.bcolz.rows import Rows
from tegula.bcolz.selecting import as_selection, assign, selected
from tegula.creation import completing
from tegula.errors import MetadataError, SelectionError, TegulaError
from tegula.formats.bcolz1 import automatic_chunklen

__all__ = ["carray"]

_MAX_ROW = 2**31


class NewRows:
    """The rows of a new carray where these are not in memory: no other process sees the carray without them.

    Parameters
    ----------
    like : ndarray
        An array without rows, of their type and shape.
    blocks : iterable of ndarray
        The rows, one block after the other.
    defaults : int
        Without blocks: the number of rows, all of which hold the carray's `dflt`.
    """

    def __init__(self, like: npt.NDArray[Any], blocks: Iterable[npt.NDArray[Any]] = (), defaults: int = 0) -> None:
        self.like = like
        self.blocks = blocks
        self.defaults = defaults

    def __bool__(self) -> bool:
        """Whether there are rows, as far as is known."""
        return bool(self.blocks or self.defaults)


class carray:
    """A compressed array that grows along its first axis.

    Rows that are appended wait in memory until there are whole chunks of them; `flush`, leaving a ``with`` block, any
    reading through this object, and its end store them all.

    Parameters
    ----------
    array : array_like, optional
        The first rows. Without it the array in `rootdir` is opened.
    cparams : cparams, optional
        How to compress.
    dtype : dtype-like, optional
        Type of the elements; by default that of `array`.
    dflt : scalar, optional
        Value of the elements that `resize` adds.
    expectedlen : int, optional
        How many rows there will be in the end, from which the length of the chunks is chosen.
    chunklen : int, optional
        Rows of a chunk.
    rootdir : path, optional
        The directory to keep it in; without it, it is in memory.
    safe : bool
        Taken and kept; input is always converted as needed.
    mode : {"a", "w", "r"}
        ``'w'`` deletes what is in `rootdir`, or all rows of an array that is opened; ``'r'`` refuses changes.
    allow_pickle : bool, optional
        Whether an array of Python objects may be opened, which can run any code; by default as
        ``defaults.allow_pickle`` says.

    Raises
    ------
    MetadataError
        If an argument is not valid.
    FileNotFoundError, FileExistsError
        If there is no array to open, or something where one is to be made.

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
        if mode not in ("r", "w", "a"):
            raise MetadataError(f"mode must be 'r', 'w' or 'a', not {mode!r:.80}", field="mode")
        if array is None and rootdir is None:
            raise MetadataError("a carray needs an array to make it of, or a rootdir to open")
        self._rootdir = rootdir
        self._mode = mode
        self._safe = safe
        if array is None:
            stored = storage.open_stored(rootdir, mode, allow_pickle)
            self._attach(Rows(stored, _chunklen_of(stored)))
            if mode == "w":
                self.resize(0)
        else:
            self._create(array, cparams, dtype, dflt, expectedlen, chunklen)

    def _create(
        self,
        array: Any,
        cparams: parameters.cparams | None,
        dtype: Any,
        dflt: Any,
        expectedlen: int | None,
        chunklen: int | None,
    ) -> None:
        if cparams is None:
            cparams = parameters.cparams()
        if not isinstance(cparams, parameters.cparams):
            raise MetadataError(f"cparams must be an instance of cparams, not {cparams!r:.80}", field="cparams")
        given = array if isinstance(array, NewRows) else None
        if given is not None:
            array = given.like
        source = array if isinstance(array, carray) and dtype is None else None
        if source is not None and self._rootdir is not None and os.path.lexists(self._rootdir):
            array, source = source[:], None  # which may be in what is to be replaced
        rows = source._array[:0] if source is not None else as_new_rows(array, dtype)
        element, inner = row_type(rows, dtype)
        row_nbytes = element.itemsize * prod(inner)
        if row_nbytes >= _MAX_ROW:
            raise MetadataError(f"a row of {row_nbytes} bytes is too large", field="dtype")
        if row_nbytes == 0:
            raise KindError("a row can't be of no bytes", field="dtype")
        if chunklen is not None and (not isinstance(chunklen, int) or chunklen < 1):
            raise MetadataError(f"chunklen must be a positive int, not {chunklen!r:.80}", field="chunklen")
        length = len(rows) if source is None else len(source)
        if not isinstance(expectedlen, (int, float, np.number, type(None))):
            raise KindError(f"expectedlen must be a number, not {expectedlen!r:.80}", field="expectedlen")
        expectedlen = length if expectedlen is None else int(expectedlen)
        if self._rootdir is not None and self._mode == "r" and (length or given):
            raise ModeError("rows can't be stored: the mode is 'r'", path=os.fspath(self._rootdir))
        chunklen = automatic_chunklen(expectedlen, row_nbytes) if chunklen is None else chunklen
        options = {"cparams": cparams, "fill_value": as_default(dflt, element), "expectedlen": expectedlen}
        if self._rootdir is not None and os.path.lexists(self._rootdir):
            storage.create(None, inner, element, chunklen, **options)  # nothing is deleted for what can't be made
            storage.clear(self._rootdir, self._mode)
        blocks: Iterable[Any] = [rows] if source is None else (block for _, block in source._rows.blocks(0, length))
        if given is not None:
            blocks = given.blocks
        with (
            storage.removing(self._rootdir),
            completing(storage.create(self._rootdir, inner, element, chunklen, **options)) as stored,
        ):
            created = Rows(stored, chunklen)
            for block in blocks:
                created.append(block)
            created.settle()
            if given is not None and given.defaults:
                stored.resize((given.defaults, *inner))
        self._attach(created)

    def _attach(self, rows: Rows, kept: dict[str, Any] | None = None) -> None:
        self._rows = rows
        self._is_view = False
        self._iteration: Iterator[Any] | None = None
        self._leftover: npt.NDArray[Any] | None = None
        self._kept = {} if kept is None else kept
        self._attrs = attributes.attrs(self._kept if self._rootdir is None else rows.array.attrs, lambda: self._mode)
        if self._rootdir is not None:
            self._finalizer = weakref.finalize(self, _settle, rows, os.fspath(self._rootdir))

    # --- what it is

    @property
    def _array(self) -> tegula.Array:
        """The array with all rows in it."""
        return self._rows.stored()

    @property
    def attrs(self) -> attributes.attrs:
        """The attributes."""
        return self._attrs

    @property
    def len(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return (len(self._rows), *self._rows.inner)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return 1 + len(self._rows.inner)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._rows.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def atomsize(self) -> int:
        """Bytes of a row."""
        return self.itemsize * prod(self._rows.inner)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.atomsize * len(self._rows)

    @property
    def cbytes(self) -> int:
        """Bytes of the full chunks, compressed, and those of one more uncompressed, as bcolz counts.

        That one is for the rows after the last full chunk; Python objects, each stored for itself, have none.
        """
        array = self._array
        count, left = divmod(len(array), array.chunks[0])
        frames: int = array.nbytes_stored() - count * HEADER
        if self.dtype.kind == "O":
            return frames
        last = array.store.size(array.metadata.keys.encode((count, *[0] * (array.ndim - 1)))) if left else 0
        return frames - (last or 0) + self.chunklen * self.atomsize

    @property
    def chunklen(self) -> int:
        """Rows of a chunk."""
        return self._rows.chunklen

    @property
    def cparams(self) -> parameters.cparams:
        """How chunks are compressed."""
        return storage.cparams_of(self._rows.array)

    @property
    def dflt(self) -> Any:
        """Value of the elements that `resize` adds."""
        return self._rows.array.fill_value

    @property
    def expectedlen(self) -> int:
        """How many rows were expected when the array was made."""
        return int(self._rows.array.metadata.extra.get("expectedlen", len(self)))

    @property
    def rootdir(self) -> Any:
        """The directory it is kept in, or ``None``."""
        return self._rootdir

    @rootdir.setter
    def rootdir(self, value: Any) -> None:
        if self._rootdir is None:
            raise MetadataError("an array in memory has no rootdir to be changed", field="rootdir")
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
        """Go on with an array whose directory has been moved, or that is to be used in another way."""
        before = self._rows
        array = storage.open_stored(rootdir, mode, before.dtype.kind == "O")
        self._finalizer.detach()
        self._rootdir = rootdir
        self._attach(Rows(array, before.chunklen))
        self._rows.append(before.take())

    @property
    def safe(self) -> bool:
        """What the array was made with."""
        return self._safe

    # --- its chunks

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
        """The rows after the last full chunk, in an array as long as a chunk."""
        self._leftover = np.zeros((self.chunklen, *self._rows.inner), self.dtype)
        self._leftover[: self.nleftover] = self._array[self.nchunks * self.chunklen :]
        return self._leftover

    @property
    def leftover_ptr(self) -> int:
        """Address of `leftover_array`, valid until either is asked for again."""
        return self.leftover_array.ctypes.data

    @property
    def partitions(self) -> list[tuple[int, int]]:
        """First row of each full chunk, and of what follows."""
        return [(n * self.chunklen, (n + 1) * self.chunklen) for n in range(self.nchunks)]

    @property
    def chunks(self) -> Iterator[npt.NDArray[Any]]:
        """The full chunks, decoded one by one."""
        return (self._array[start:stop] for start, stop in self.partitions)

    # --- reading and writing

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            start, stop, get = self._rows.kept
            return get(key - start) if start <= key < stop else self._rows.row(as_index(int(key), len(self._rows)))
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
        array = self._rows.changing()
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
        """Evaluate an expression with the variables of whoever has written it between the brackets."""
        caller = sys._getframe(2)
        found = self._evaluate(expression, (caller.f_locals, caller.f_globals))
        if getattr(found, "dtype", None) != np.bool_:
            raise SelectionError(f"only a boolean expression can select, not {expression!r:.80}")
        if len(found) != len(self):
            raise SelectionError(f"a mask of {len(found)} rows does not fit {len(self)} rows")
        return found

    def _check_writable(self) -> None:
        if self._mode == "r":
            raise ModeError("the array can't be changed: the mode is 'r'", path=self._rootdir and str(self._rootdir))

    def append(self, array: Any) -> None:
        """Add rows at the end, or one row.

        Parameters
        ----------
        array : array_like
            Rows of the shape of those that are there; they are converted to their type.

        Raises
        ------
        MetadataError
            If the shape is another.
        """
        self._check_writable()
        self._detach()
        rows = self._rows
        rows.append(as_rows(array, rows.dtype, rows.inner))

    def trim(self, nitems: float) -> None:
        """Remove rows at the end; a negative number of them adds rows instead."""
        count = as_count(nitems)
        if count > len(self):
            raise MetadataError(f"{count} rows can't be removed from {len(self)}", field="nitems")
        self._resize(len(self) - count)

    def resize(self, nitems: float) -> None:
        """Change the number of rows; those that are added hold `dflt`."""
        count = as_count(nitems)
        if count < 0:
            raise MetadataError(f"an array can't have {count} rows", field="nitems")
        self._resize(count)

    def _resize(self, length: int) -> None:
        self._check_writable()
        if length != len(self):
            self._detach()
            self._rows.changing().resize((length, *self._rows.inner))

    def flush(self) -> None:
        """Store all rows that wait."""
        if self._rootdir is not None:
            self._rows.settle()

    def purge(self) -> None:
        """Delete the directory the array is kept in."""
        if self._rootdir is not None:
            storage.delete(self._rootdir)
            self._rows.discard()

    def free_cachemem(self) -> None:
        """Give back the memory of the chunk that was read last."""
        self._rows.forget()

    # --- other arrays of it

    def copy(self, **kwargs: Any) -> carray:
        """Return a copy, made with any parameters of `carray`; those not given are the defaults of a new one."""
        kwargs.setdefault("expectedlen", len(self))
        return carray(self, **kwargs)

    def view(self) -> carray:
        """Return another object for the same rows, which takes a copy in memory before their number changes."""
        other = _made(self._rows, {}, self._mode, self._safe)
        other._is_view = True
        return other

    def _detach(self) -> None:
        if self._is_view:
            self._rows = Rows(storage.in_memory(self._array), self.chunklen)
            self._is_view = False

    def reshape(self, newshape: int | Sequence[int]) -> carray:
        """Return an array of the same elements with another shape; one in a directory takes its place there."""
        shape = as_shape(newshape, self.size)
        temporary = None if self._rootdir is None else storage.place_beside(self._rootdir)
        empty = np.empty((0, *shape[1:]), self.dtype)
        out = carray(empty, cparams=self.cparams, dflt=self.dflt, expectedlen=shape[0], rootdir=temporary)
        width = prod(shape[1:])
        kept = np.empty(0, self.dtype)
        for _, block in self._rows.blocks(0, len(self)):
            kept = np.concatenate([kept, block.reshape(-1)], dtype=self.dtype)
            whole = kept.size // width * width
            out.append(kept[:whole].reshape(-1, *shape[1:]))
            kept = kept[whole:]
        for name, value in self.attrs:
            out.attrs[name] = value
        if temporary is not None:
            out.flush()
            storage.replace(self._rootdir, temporary)
            out._move(self._rootdir, self._mode)
            out._mode = self._mode
        return out

    # --- going through it

    def sum(self, dtype: Any = None) -> Any:
        """Return the sum of all elements, of the type NumPy would choose, or `dtype`."""
        if self.dtype.kind in "SUVM":
            raise KindError(f"elements of type {self.dtype} can't be added up")
        sums = [block.sum(dtype=dtype) for _, block in self._rows.blocks(0, len(self))]
        return (np.array(sums) if sums else np.empty(0, self.dtype)).sum(dtype=dtype)

    def iter(
        self, start: int = 0, stop: int | None = None, step: int = 1, limit: int | None = None, skip: int = 0
    ) -> Iterator[Any]:
        """Return an iterator over rows.

        Parameters
        ----------
        start, stop, step : int
            Which rows, as in a slice; the step is positive.
        limit, skip : int
            How many of them at most, and how many to leave out before.
        """
        if step <= 0:
            raise NotImplementedHereError(f"the step must be positive, not {step}")
        first, last, step = slice(start, stop, step).indices(len(self))
        return limited(each(self._rows, first, last, step), limit, skip)

    def where(self, boolarr: Any, limit: int | None = None, skip: int = 0) -> Iterator[Any]:
        """Return an iterator over the rows at which `boolarr`, an array or a carray, is true."""
        if self.ndim > 1:
            raise NotImplementedHereError("where goes through arrays of one axis only")
        if getattr(boolarr, "dtype", None) != np.bool_:
            raise MetadataError(f"{boolarr!r:.80} is not an array of booleans")
        if boolarr.ndim != 1:
            raise NotImplementedHereError("where takes booleans of one axis only")
        if len(boolarr) != len(self):
            raise MetadataError(f"a mask of {len(boolarr)} rows does not fit {len(self)} rows")
        blocks = rows_where(self._rows, boolarr)
        return limited((block.tolist() for block in blocks), limit, skip)

    def wheretrue(self, limit: int | None = None, skip: int = 0) -> Iterator[int]:
        """Return an iterator over the numbers of the rows that are true."""
        if self.dtype != np.bool_:
            raise MetadataError(f"an array of {self.dtype} is not one of booleans")
        if self.ndim > 1:
            raise NotImplementedHereError("wheretrue goes through arrays of one axis only")
        blocks = hits(self._array, len(self), self._rows.block)
        return limited((block.tolist() for block in blocks), limit, skip)

    def __iter__(self) -> Iterator[Any]:
        return Going(self.iter(), self) if self._is_view else self.iter()

    def __next__(self) -> Any:
        if self._iteration is None:
            self._iteration = self.iter()
        try:
            return next(self._iteration)
        except StopIteration:
            self._iteration = None
            raise

    # --- Python's and NumPy's protocols

    def __len__(self) -> int:
        return len(self._rows)

    def __sizeof__(self) -> int:
        return self._rows.booked()

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
        return _restored, (self._array, self.chunklen, self._kept, self._mode, self._safe)


def _chunklen_of(array: tegula.Array) -> int:
    return int(array.metadata.extra.get("chunklen", array.chunks[0]))


def _settle(rows: Rows, rootdir: str) -> None:
    try:
        rows.settle_at_end()
    except TegulaError:
        if os.path.isdir(rootdir):
            raise


def _reopened(rootdir: Any, mode: str, allow_pickle: bool) -> carray:
    return carray(rootdir=rootdir, mode="r" if mode == "r" else "a", allow_pickle=allow_pickle)


def _restored(array: tegula.Array, chunklen: int, kept: dict[str, Any], mode: str, safe: bool) -> carray:
    return _made(Rows(array, chunklen), kept, mode, safe)


def _made(rows: Rows, kept: dict[str, Any], mode: str, safe: bool) -> carray:
    out = carray.__new__(carray)
    out._rootdir, out._mode, out._safe = None, mode, safe
    out._attach(rows, kept)
    return out
