"""The tegula arrays behind carrays: made, opened, and their compression told in bcolz's words."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import tegula
from tegula.bcolz.errors import ExistsError, KindError, MissingError
from tegula.bcolz.parameters import cparams, defaults
from tegula.creation import new_array
from tegula.errors import NotFoundError, StoreError

__all__ = [
    "clear",
    "cparams_of",
    "create",
    "delete",
    "in_memory",
    "open_stored",
    "place_beside",
    "removing",
    "replace",
]

_FORMAT = "bcolz"


def create(
    rootdir: Any,
    inner: tuple[int, ...],
    dtype: np.dtype[Any],
    chunklen: int,
    *,
    cparams: cparams,
    fill_value: Any,
    expectedlen: int,
) -> tegula.Array:
    """Create an array without rows, which the caller adds within `tegula.creation.completing`.

    Parameters
    ----------
    rootdir : path or None
        The directory to make, where nothing may be; ``None`` for memory.
    inner : tuple of int
        Shape of a row.
    dtype : numpy.dtype
        Type of the elements.
    chunklen : int
        Rows of a chunk.
    cparams : cparams
        How to compress.
    fill_value : scalar
        Value of the elements that are added without one.
    expectedlen : int
        How many rows there will be, to be kept with the array.

    Raises
    ------
    TypeError
        If numbers that are not floating-point are to be quantized.
    """
    codecs: list[dict[str, Any]] = []
    if cparams.quantize:
        if dtype.kind != "f":
            raise KindError(f"only floating-point numbers can be quantized, not {dtype}", field="quantize")
        codecs.append({"id": "quantize", "digits": cparams.quantize, "dtype": dtype.str})
    codecs.append(
        {"id": "blosc", "cname": cparams.cname, "clevel": min(cparams.clevel, 9), "shuffle": int(cparams.shuffle)}
    )
    objects = dtype.kind == "O"
    extra = {"expectedlen": expectedlen}
    if objects:
        extra["chunklen"] = chunklen
    return new_array(
        tegula.MemoryStore() if rootdir is None else tegula.LocalStore(os.fspath(rootdir)),
        "",
        shape=(0, *inner),
        dtype=dtype,
        chunks=(1 if objects else chunklen, *inner),
        fill_value=fill_value,
        codecs=codecs,
        format=_FORMAT,
        allow_pickle=objects,
        extra=extra,
        filled=False,
    )


@contextmanager
def removing(rootdir: Any) -> Iterator[None]:
    """Remove the directory after an error, if there is nothing in it."""
    try:
        yield
    except BaseException:
        if rootdir is not None:
            with suppress(OSError):
                os.rmdir(rootdir)
        raise


def clear(rootdir: Any, mode: str) -> None:
    """Make room for a new object: with mode ``'w'`` whatever is at the place is deleted.

    Raises
    ------
    FileExistsError
        If there is something, and the mode is another.
    """
    if not os.path.lexists(rootdir):
        return
    if mode != "w":
        raise ExistsError(f"the directory exists already, and the mode is {mode!r}", path=os.fspath(rootdir))
    delete(rootdir)


def delete(rootdir: Any) -> None:
    """Delete what is at a place, and everything in it.

    Raises
    ------
    OSError
        If there is nothing, or it can't be deleted.
    """
    try:
        if os.path.isdir(rootdir) and not os.path.islink(rootdir):
            shutil.rmtree(rootdir)
        else:
            os.remove(rootdir)
    except OSError as error:
        raise StoreError(f"it can't be deleted: {error}", path=os.fspath(rootdir)) from error


def place_beside(rootdir: Any) -> str:
    """Return the path of a new directory, still to be made, beside another."""
    place = os.path.abspath(rootdir)
    made = tempfile.mkdtemp(prefix=f".{os.path.basename(place)}-", dir=os.path.dirname(place))
    os.rmdir(made)
    return made


def replace(rootdir: Any, other: str) -> None:
    """Put another directory in the place of one, which is deleted."""
    try:
        before = place_beside(rootdir)
        os.rename(rootdir, before)
        os.rename(other, rootdir)
    except OSError as error:
        raise StoreError(f"it can't be replaced: {error}", path=os.fspath(rootdir)) from error
    delete(before)


def open_stored(rootdir: Any, mode: str, allow_pickle: bool | None) -> tegula.Array:
    """Open the array in a directory.

    Raises
    ------
    FileNotFoundError
        If there is none.
    UnsupportedError
        If it holds Python objects, and `allow_pickle`, or the default of that name, is false.
    """
    allowed = defaults.allow_pickle if allow_pickle is None else allow_pickle
    place = os.fspath(rootdir)
    store = tegula.LocalStore(place, read_only=mode == "r")
    try:
        return tegula.open_array(store, "r" if mode == "r" else "r+", format=_FORMAT, allow_pickle=allowed)
    except NotFoundError as error:
        raise MissingError(error.message, path=place) from error


def in_memory(array: tegula.Array) -> tegula.Array:
    """Return a copy of an array in memory, its chunks as they are stored."""
    store = tegula.MemoryStore()
    for key in array.store.list():
        store.set(key, array.store.get(key))
    return tegula.open_array(store, "r+", format=_FORMAT, allow_pickle=array.dtype.kind == "O")


def cparams_of(array: tegula.Array) -> cparams:
    """Return the compression parameters that an array is stored with."""
    codecs = {codec.name: codec.configuration for codec in array.metadata.codecs}
    frame = codecs["numcodecs.blosc"]
    return cparams._of(
        clevel=frame["clevel"],
        shuffle=frame["shuffle"],
        cname=frame["cname"],
        quantize=codecs.get("numcodecs.quantize", {}).get("digits", 0),
    )
