"""Functions that create, open and iterate over carrays and ctables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice, repeat, takewhile
from math import ceil, prod
from operator import length_hint
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.carrays.creating import RowBlocks
from tegula.bcolz.converting import as_count, as_default, as_dtype
from tegula.bcolz.ctables.ctable import ctable
from tegula.bcolz.errors import KindError, MissingError, ModeError
from tegula.bcolz.parameters import defaults_ctx
from tegula.errors import MetadataError, TegulaError, brief

__all__ = ["arange", "fill", "fromiter", "iterblocks", "ones", "open", "walk", "zeros"]

_BLOCKS_PER_READ: Final = 8
_ARANGE_LENGTH: Final = 2**17  # numbers of an arange that are computed at once
_ITERABLE_BYTES: Final = 2**20  # bytes of elements that are taken from an iterable at once


def open(rootdir: Any, mode: str = "a", allow_pickle: bool | None = None) -> Any:
    """Open the carray or ctable in a directory.

    Parameters
    ----------
    rootdir : path
        The directory.
    mode : {"a", "r", "w"}
        ``'a'`` opens for reading and writing, ``'r'`` for reading, ``'w'`` removes all rows.
    allow_pickle : bool, optional
        Allow arrays of Python objects, which are unpickled and can run any code; by default
        ``defaults.allow_pickle``.

    Returns
    -------
    carray or ctable

    Raises
    ------
    FileNotFoundError
        If the directory holds neither a carray nor a ctable.

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> carray([1, 2, 3], rootdir=f"{root.name}/c").flush()
    >>> open(f"{root.name}/c", mode="r")[:]
    array([1, 2, 3])
    >>> root.cleanup()
    """
    kind = _kind(rootdir)
    if kind is None:
        raise MissingError("the directory does not hold a carray or ctable", path=os.fspath(rootdir))
    with defaults_ctx(allow_pickle=allow_pickle):
        return kind(rootdir=rootdir, mode=mode)


def _kind(rootdir: Any) -> Any:
    """Return the class of the object in a directory, by the files in it; ``None`` if there is none."""
    for kind, name in ((ctable, "__rootdirs__"), (carray, "meta/storage")):
        if os.path.isfile(os.path.join(rootdir, name)):
            return kind
    return None


def walk(dir: Any, classname: str | None = None, mode: str = "a") -> Iterator[Any]:
    """Iterate over all carrays and ctables below a directory, sorted by name; damaged ones are skipped.

    Parameters
    ----------
    dir : path
        The directory.
    classname : {"carray", "ctable"}, optional
        The class to look for; both by default.
    mode : str
        The mode in which to open them.

    Yields
    ------
    carray or ctable

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> carray([1, 2, 3], rootdir=f"{root.name}/c").flush()
    >>> [len(c) for c in walk(root.name, mode="r")]
    [3]
    >>> root.cleanup()
    """
    # objects in this directory first, then those in its subdirectories
    below = []
    for name in sorted(os.listdir(dir)):
        path = os.path.join(dir, name)
        if not os.path.isdir(path):
            continue
        kind = _kind(path)
        if kind is None:
            below.append(path)
        elif classname in (None, kind.__name__):
            try:
                yield kind(rootdir=path, mode=mode)
            except TegulaError:  # damaged
                continue
    for path in below:
        yield from walk(path, classname, mode)


def fromiter(iterable: Iterable[Any], dtype: Any, count: int, **kwargs: Any) -> Any:
    """Create a carray from an iterable, or a ctable if the data type is structured.

    Parameters
    ----------
    iterable : iterable
        The elements; all of them are used.
    dtype : dtype-like
        Data type of the elements.
    count : int
        Expected number of elements; -1 if it is unknown.
    **kwargs
        Passed to `carray` or `ctable`.

    Examples
    --------
    >>> fromiter((n * n for n in range(4)), "i4", count=4)[:]
    array([0, 1, 4, 9], dtype=int32)
    """
    if not np.iterable(iterable):
        raise KindError(f"{brief(iterable)} can't be iterated over", field="iterable")
    source = iter(iterable)
    element = np.dtype(as_dtype(dtype))
    kwargs.setdefault("expectedlen", length_hint(source, -1) if count == -1 else count)
    size = max(1, _ITERABLE_BYTES // max(1, element.itemsize))
    rows = takewhile(len, (_converted(islice(source, size), element) for _ in repeat(None)))
    if element.names is None:
        return carray(RowBlocks(np.empty(0, element), rows), **kwargs)
    made = ctable(np.empty(0, element), **kwargs)
    for block in rows:
        made.append(block)
    made.flush()
    return made


def _converted(items: Iterator[Any], element: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        return np.fromiter(items, element)
    except (ValueError, OverflowError, TypeError) as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from the iterable, not from a conversion
        kind = KindError if isinstance(error, TypeError) else MetadataError
        raise kind(f"the elements can't be converted to {element}: {error}", field="iterable") from error


def fill(shape: Any, dflt: Any = None, dtype: Any = float, **kwargs: Any) -> Any:
    """Create a carray filled with one value, or a ctable if the data type is structured.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dflt : scalar, optional
        The value, also of elements that `resize` adds; zero by default.
    dtype : dtype-like
        Data type of the elements.
    **kwargs
        Passed to `carray` or `ctable`.

    Examples
    --------
    >>> fill((2, 3), 7, "i2")[:]
    array([[7, 7, 7],
           [7, 7, 7]], dtype=int16)
    """
    element = np.dtype(as_dtype(dtype))
    lengths = _lengths(shape)
    length = lengths[0] if lengths else 1
    kwargs.setdefault("expectedlen", length)
    if kwargs.get("mode") == "r" and kwargs.get("rootdir") is not None and length:
        raise ModeError("rows can't be stored: the mode is 'r'", path=os.fspath(kwargs["rootdir"]))
    if element.names is not None and len(lengths) == 1:
        return _filled_table(length, dflt, element, kwargs)
    like = np.empty((0, *lengths[1:]), element)
    return carray(RowBlocks(like, defaults=length), dtype=element.base, dflt=dflt, **kwargs)


def _lengths(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of ints; floats are truncated."""
    lengths = [as_count(length) for length in (shape if np.iterable(shape) else (shape,))]
    if any(not 0 <= length <= sys.maxsize for length in lengths) or prod(max(1, n) for n in lengths[1:]) > 2**31:
        raise MetadataError(f"{brief(shape)} is not a shape", field="shape")
    return tuple(lengths)


def _filled_table(length: int, dflt: Any, element: np.dtype[Any], kwargs: dict[str, Any]) -> Any:
    default = as_default(dflt, element)
    options = {name: value for name, value in kwargs.items() if name not in ("rootdir", "mode", "auto_flush")}
    columns = []
    for name in element.names or ():
        field = element[name]
        value = default[name] if field.subdtype is None else None
        columns.append(carray(np.empty(0, field), dflt=value, **options))
        columns[-1].resize(length)
    return ctable(columns, names=[*(element.names or ())], **kwargs)


def zeros(shape: Any, dtype: Any = float, **kwargs: Any) -> Any:
    """Create a carray or ctable of zeros; see `fill`.

    Examples
    --------
    >>> zeros(3, "i4")[:]
    array([0, 0, 0], dtype=int32)
    """
    return fill(shape, None, dtype, **kwargs)


def ones(shape: Any, dtype: Any = float, **kwargs: Any) -> Any:
    """Create a carray or ctable of ones; see `fill`.

    Examples
    --------
    >>> ones(3, "i4")[:]
    array([1, 1, 1], dtype=int32)
    """
    element = np.dtype(as_dtype(dtype))
    return fill(shape, np.ones((), element.base)[()], element, **kwargs)


def arange(
    start: float | None = None, stop: float | None = None, step: float | None = None, dtype: Any = None, **kwargs: Any
) -> carray:
    """Create a carray of evenly spaced numbers, as `numpy.arange` does.

    Parameters
    ----------
    start, stop, step : number
        As in `numpy.arange`; a single argument is the stop.
    dtype : dtype-like, optional
        Data type of the elements; by default int64 if `stop` is an int, else float64.
    **kwargs
        Passed to `carray`.

    Examples
    --------
    >>> arange(1, 10, 3)[:]
    array([1, 4, 7])
    """
    # check the arguments
    if stop is None:
        start, stop = None, start
    if stop is None:
        raise MetadataError("arange needs a stop", field="stop")
    first, step = 0 if start is None else start, 1 if step is None else step
    element = np.dtype(as_dtype(dtype) or (np.int_ if isinstance(stop, (int, np.integer)) else np.float64))
    if element.names is not None:
        raise MetadataError("arange can't create ctables", field="dtype")
    if step == 0:
        raise MetadataError("the step can't be 0", field="step")
    # compute the numbers block by block
    try:
        kwargs.setdefault("expectedlen", int(stop))
        count = max(0, ceil((stop - first) / step))
    except TypeError as error:
        raise KindError(f"start, stop and step must be numbers: {error}", field="stop") from error
    except (ValueError, OverflowError):
        count = sys.maxsize + 1
    if count > sys.maxsize:
        raise MetadataError(f"arange can't count to {brief(stop)} in steps of {brief(step)}", field="stop")
    parts = (
        _part(first, step, element, begin, min(count, begin + _ARANGE_LENGTH))
        for begin in range(0, count, _ARANGE_LENGTH)
    )
    return carray(RowBlocks(np.empty(0, element), parts), **kwargs)


def _part(first: float, step: float, element: np.dtype[Any], begin: int, end: int) -> npt.NDArray[Any]:
    """Return the numbers from `begin` to `end` of an arange; floats are rounded exactly as NumPy rounds them."""
    if element.kind != "f":
        try:
            return np.arange(first + begin * step, first + end * step, step, dtype=element)[: end - begin]
        except (TypeError, ValueError, OverflowError) as error:
            kind = KindError if isinstance(error, TypeError) else MetadataError
            raise kind(f"arange can't make numbers of {element}: {error}", field="dtype") from error
    base = element.type(first)
    numbers: npt.NDArray[Any] = np.arange(begin, end).astype(element) * (element.type(first + step) - base) + base
    return numbers.astype(element, copy=False)


def iterblocks(cobj: Any, blen: int | None = None, start: int = 0, stop: int | None = None) -> Iterator[Any]:
    """Iterate over a carray or ctable in blocks of rows.

    Parameters
    ----------
    cobj : carray or ctable
        The object.
    blen : int, optional
        Rows of a block; by default the rows of a chunk, for a ctable the rows of its shortest chunk. Blocks of one row
        of a carray lose their first axis.
    start, stop : int
        First row, and end.

    Yields
    ------
    ndarray

    Examples
    --------
    >>> [block.sum() for block in iterblocks(carray(range(10)), 4)]
    [np.int64(6), np.int64(22), np.int64(17)]
    """
    last = len(cobj) if stop is None else min(stop, len(cobj))
    if blen is None:
        blen = cobj.chunklen if isinstance(cobj, carray) else min(cobj[name].chunklen for name in cobj.names)
    if blen < 1:
        raise MetadataError(f"a block can't have {blen} rows", field="blen")
    several = blen * _BLOCKS_PER_READ
    for first in range(start, last, several):
        rows = cobj[first : min(first + several, last)]
        for begin in range(0, len(rows), blen):
            yield rows[begin] if blen == 1 and isinstance(cobj, carray) else rows[begin : begin + blen]
