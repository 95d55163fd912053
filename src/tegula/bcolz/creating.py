"""New carrays and ctables from lengths, ranges and iterables, those in directories, and going through them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice, repeat, takewhile
from math import ceil
from operator import length_hint
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.bcolz.carrays import NewRows, carray
from tegula.bcolz.converting import as_default, as_dtype
from tegula.bcolz.ctables import ctable
from tegula.bcolz.errors import MissingError, ModeError
from tegula.bcolz.parameters import defaults_ctx
from tegula.errors import MetadataError, TegulaError

__all__ = ["arange", "fill", "fromiter", "iterblocks", "ones", "open", "walk", "zeros"]

_TOGETHER = 8  # blocks that are read at once
_PART = 2**17  # numbers that are made at once
_PART_BYTES = 2**20  # of elements that are taken from an iterable at once


def open(rootdir: Any, mode: str = "a", allow_pickle: bool | None = None) -> Any:
    """Open the carray or ctable in a directory.

    Parameters
    ----------
    rootdir : path
        The directory.
    mode : {"a", "r", "w"}
        ``'a'`` reads and changes, ``'r'`` reads, ``'w'`` removes all rows.
    allow_pickle : bool, optional
        Whether arrays of Python objects may be read, which can run any code that somebody has put into them; by
        default as ``defaults.allow_pickle`` says.

    Returns
    -------
    carray or ctable

    Raises
    ------
    FileNotFoundError
        If there is neither.
    """
    kind = _kind(rootdir)
    if kind is None:
        raise MissingError("there is no carray and no ctable", path=os.fspath(rootdir))
    with defaults_ctx(allow_pickle=allow_pickle):
        return kind(rootdir=rootdir, mode=mode)


def _kind(rootdir: Any) -> Any:
    """Tell by its files what is in a directory."""
    for kind, name in ((ctable, "__rootdirs__"), (carray, "meta/storage")):
        if os.path.isfile(os.path.join(rootdir, name)):
            return kind
    return None


def walk(dir: Any, classname: str | None = None, mode: str = "a") -> Iterator[Any]:
    """Open one after the other all carrays and ctables somewhere below a directory, in order of their names.

    Parameters
    ----------
    dir : path
        The directory.
    classname : {"carray", "ctable"}, optional
        Which of them; both by default.
    mode : str
        The mode to open them with.
    """
    below = []
    for name in sorted(os.listdir(dir)):
        place = os.path.join(dir, name)
        if not os.path.isdir(place):
            continue
        kind = _kind(place)
        if kind is None:
            below.append(place)
        elif classname in (None, kind.__name__):
            try:
                yield kind(rootdir=place, mode=mode)
            except TegulaError:  # what is damaged is passed over
                continue
    for place in below:
        yield from walk(place, classname, mode)


def fromiter(iterable: Iterable[Any], dtype: Any, count: int, **kwargs: Any) -> Any:
    """Make a carray, or for a structured type a ctable, of what an iterable gives.

    Parameters
    ----------
    iterable : iterable
        Gives the elements; all of them are taken.
    dtype : dtype-like
        Type of the elements.
    count : int
        How many are expected; -1 if that is not known.
    **kwargs
        Passed to `carray` or `ctable`.

    Examples
    --------
    >>> fromiter((n * n for n in range(4)), "i4", count=4)[:]
    array([0, 1, 4, 9], dtype=int32)
    """
    source = iter(iterable)
    element = np.dtype(as_dtype(dtype))
    kwargs.setdefault("expectedlen", length_hint(source, -1) if count == -1 else count)
    size = max(1, _PART_BYTES // max(1, element.itemsize))
    rows = takewhile(len, (np.fromiter(islice(source, size), element) for _ in repeat(None)))
    if element.names is None:
        return carray(NewRows(np.empty(0, element), rows), **kwargs)
    made = ctable(np.empty(0, element), **kwargs)
    for block in rows:
        made.append(block)
    made.flush()
    return made


def fill(shape: Any, dflt: Any = None, dtype: Any = float, **kwargs: Any) -> Any:
    """Make a carray whose elements all have one value, or for a structured type a ctable.

    Parameters
    ----------
    shape : int or tuple of int
        The shape.
    dflt : scalar, optional
        The value, which is also that of elements added later; zero by default.
    dtype : dtype-like
        Type of the elements.
    **kwargs
        Passed to `carray` or `ctable`.

    Examples
    --------
    >>> fill((2, 3), 7, "i2")[:]
    array([[7, 7, 7],
           [7, 7, 7]], dtype=int16)
    """
    element = np.dtype(as_dtype(dtype))
    lengths = tuple(int(n) for n in (shape if np.iterable(shape) else (shape,)))
    length = lengths[0] if lengths else 1
    kwargs.setdefault("expectedlen", length)
    if kwargs.get("mode") == "r" and kwargs.get("rootdir") is not None and length:
        raise ModeError("rows can't be stored: the mode is 'r'", path=os.fspath(kwargs["rootdir"]))
    if element.names is not None and len(lengths) == 1:
        return _filled_table(length, dflt, element, kwargs)
    like = np.empty((0, *lengths[1:]), element)
    return carray(NewRows(like, defaults=length), dtype=element.base, dflt=dflt, **kwargs)


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
    """Make a carray or ctable of zeros; see `fill`."""
    return fill(shape, None, dtype, **kwargs)


def ones(shape: Any, dtype: Any = float, **kwargs: Any) -> Any:
    """Make a carray or ctable of ones; see `fill`."""
    element = np.dtype(as_dtype(dtype))
    return fill(shape, np.ones((), element.base)[()], element, **kwargs)


def arange(
    start: float | None = None, stop: float | None = None, step: float | None = None, dtype: Any = None, **kwargs: Any
) -> carray:
    """Make a carray of numbers at equal distances, those of `numpy.arange`.

    Parameters
    ----------
    start, stop, step : number
        As in `numpy.arange`; with one argument it is the stop.
    dtype : dtype-like, optional
        Type of the elements; by default that of integers if `stop` is an int, else that of floats.
    **kwargs
        Passed to `carray`.

    Examples
    --------
    >>> arange(1, 10, 3)[:]
    array([1, 4, 7])
    """
    if stop is None:
        start, stop = None, start
    if stop is None:
        raise MetadataError("arange needs a stop", field="stop")
    first, step = 0 if start is None else start, 1 if step is None else step
    element = np.dtype(as_dtype(dtype) or (np.int_ if isinstance(stop, (int, np.integer)) else np.float64))
    if element.names is not None:
        raise MetadataError("arange makes no ctables", field="dtype")
    if step == 0:
        raise MetadataError("the step can't be 0", field="step")
    kwargs.setdefault("expectedlen", int(stop))
    count = max(0, ceil((stop - first) / step))
    parts = (_part(first, step, element, begin, min(count, begin + _PART)) for begin in range(0, count, _PART))
    return carray(NewRows(np.empty(0, element), parts), **kwargs)


def _part(first: float, step: float, element: np.dtype[Any], begin: int, end: int) -> npt.NDArray[Any]:
    """Return some of the numbers of an arange, by NumPy's own rule: the first plus so many times the distance."""
    if element.kind != "f":
        return np.arange(first + begin * step, first + end * step, step, dtype=element)[: end - begin]
    base = element.type(first)
    numbers: npt.NDArray[Any] = np.arange(begin, end).astype(element) * (element.type(first + step) - base) + base
    return numbers.astype(element, copy=False)


def iterblocks(cobj: Any, blen: int | None = None, start: int = 0, stop: int | None = None) -> Iterator[Any]:
    """Go through a carray or ctable in blocks of rows.

    Parameters
    ----------
    cobj : carray or ctable
        What to go through.
    blen : int, optional
        Rows of a block; by default those of a chunk, the shortest of all columns. Of blocks of one row the axis is
        left out.
    start, stop : int
        Where to begin and to end.

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
    several = blen * _TOGETHER
    for first in range(start, last, several):
        rows = cobj[first : min(first + several, last)]
        for begin in range(0, len(rows), blen):
            yield rows[begin] if blen == 1 and isinstance(cobj, carray) else rows[begin : begin + blen]
