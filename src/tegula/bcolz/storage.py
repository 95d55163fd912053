"""Storage of carrays: the tegula arrays that hold them, and the directories these are in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import tegula
from tegula.arrays.creation import new_array
from tegula.bcolz.errors import ExistsError, KindError, MissingError
from tegula.bcolz.parameters import cparams, defaults
from tegula.engine.nodes import replacing as engine_replacing
from tegula.errors import NotFoundError, StoreError
from tegula.formats import find_format

__all__ = [
    "clear",
    "cparams_of",
    "create",
    "delete",
    "in_memory",
    "open_stored",
    "removing_empty",
    "replace",
    "replacing",
    "temporary_beside",
]

_FORMAT = "bcolz"


def create(
    rootdir: Any,
    row_shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunklen: int,
    *,
    cparams: cparams,
    fill_value: Any,
    expectedlen: int,
) -> tegula.Array:
    """Create an array without rows; the caller appends them within `tegula.arrays.creation.completing`.

    Parameters
    ----------
    rootdir : path or None
        The directory to create, which must not exist; ``None`` for an array in memory.
    row_shape : tuple of int
        Shape of a row.
    dtype : numpy.dtype
        Data type of the elements.
    chunklen : int
        Rows of a chunk.
    cparams : cparams
        Compression parameters.
    fill_value : scalar
        Value of the elements that `resize` adds.
    expectedlen : int
        Expected number of rows, which is stored with the array.

    Raises
    ------
    TypeError
        If `cparams` quantizes and the elements are not floating-point numbers.
    """
    # the codecs: quantize, if requested, and Blosc
    codecs: list[dict[str, Any]] = []
    if cparams.quantize:
        if dtype.kind != "f":
            raise KindError(f"only floating-point numbers can be quantized, not {dtype}", field="quantize")
        codecs.append({"id": "quantize", "digits": cparams.quantize, "dtype": dtype.str})
    codecs.append(
        {"id": "blosc", "cname": cparams.cname, "clevel": min(cparams.clevel, 9), "shuffle": int(cparams.shuffle)}
    )
    # each Python object is pickled as a chunk of its own, so the chunk length is kept but has no effect
    objects = dtype.kind == "O"
    extra = {"expectedlen": expectedlen}
    if objects:
        extra["chunklen"] = chunklen
    return new_array(
        tegula.MemoryStore() if rootdir is None else tegula.LocalStore(os.fspath(rootdir)),
        "",
        shape=(0, *row_shape),
        dtype=dtype,
        chunks=(1 if objects else chunklen, *row_shape),
        fill_value=fill_value,
        codecs=codecs,
        format=_FORMAT,
        allow_pickle=objects,
        extra=extra,
        filled=False,
    )


@contextmanager
def removing_empty(rootdir: Any) -> Iterator[None]:
    """Remove the directory after an error if it is empty."""
    try:
        yield
    except BaseException:
        if rootdir is not None:
            with suppress(OSError):
                os.rmdir(rootdir)
        raise


def clear(rootdir: Any, mode: str) -> None:
    """Make room for a new object: with mode ``'w'``, delete the directory and everything in it.

    Raises
    ------
    FileExistsError
        If the directory exists and the mode is not ``'w'``.
    """
    if not os.path.lexists(rootdir):
        return
    if mode != "w":
        raise ExistsError(
            f"the directory exists; mode 'w' deletes it, but the mode is {mode!r}", path=os.fspath(rootdir)
        )
    delete(rootdir)


@contextmanager
def replacing(rootdir: Any, mode: str) -> Iterator[Any]:
    """Say in which directory to make a new object; with mode ``'w'`` it then takes the place of an existing directory.

    After an error the existing directory and everything in it are as they were.

    Raises
    ------
    FileExistsError
        If the directory exists and the mode is not ``'w'``.
    """
    if mode != "w" or not os.path.isdir(rootdir) or os.path.islink(rootdir):
        clear(rootdir, mode)
        yield rootdir
        return
    store = tegula.LocalStore(os.fspath(rootdir))
    with engine_replacing.replacing(store, "", find_format(_FORMAT), True, "lazy", everything=True) as place:
        yield place.store.local_directory if place.is_staged else rootdir


def delete(rootdir: Any) -> None:
    """Delete a directory and everything in it, or a file.

    Raises
    ------
    OSError
        If it does not exist or can't be deleted.
    """
    try:
        if os.path.isdir(rootdir) and not os.path.islink(rootdir):
            shutil.rmtree(rootdir)
        else:
            os.remove(rootdir)
    except OSError as error:
        raise StoreError(f"can't be deleted: {error}", path=os.fspath(rootdir)) from error


def temporary_beside(rootdir: Any) -> str:
    """Return an unused temporary path in the same parent directory."""
    path = os.path.abspath(rootdir)
    temporary = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}-", dir=os.path.dirname(path))
    os.rmdir(temporary)
    return temporary


def replace(rootdir: Any, other: str) -> None:
    """Replace a directory by another one, which is renamed."""
    try:
        before = temporary_beside(rootdir)
        os.rename(rootdir, before)
        os.rename(other, rootdir)
    except OSError as error:
        raise StoreError(f"can't be replaced: {error}", path=os.fspath(rootdir)) from error
    delete(before)


def open_stored(rootdir: Any, mode: str, allow_pickle: bool | None) -> tegula.Array:
    """Open the array in a directory.

    Raises
    ------
    FileNotFoundError
        If there is no array.
    UnsupportedError
        If it holds Python objects, and neither `allow_pickle` nor ``defaults.allow_pickle`` allows them.
    """
    allowed = defaults.allow_pickle if allow_pickle is None else allow_pickle
    path = os.fspath(rootdir)
    store = tegula.LocalStore(path, read_only=mode == "r")
    try:
        return tegula.open_array(store, "r" if mode == "r" else "r+", format=_FORMAT, allow_pickle=allowed)
    except NotFoundError as error:
        raise MissingError(error.message, path=path) from error


def in_memory(array: tegula.Array) -> tegula.Array:
    """Copy an array into memory, without decoding its chunks."""
    store = tegula.MemoryStore()
    for key in array.store.list():
        store.set(key, array.store.get(key))
    return tegula.open_array(store, "r+", format=_FORMAT, allow_pickle=array.dtype.kind == "O")


def cparams_of(array: tegula.Array) -> cparams:
    """Return the compression parameters of a stored array."""
    codecs = {codec.name: codec.configuration for codec in array.metadata.codecs}
    frame = codecs["numcodecs.blosc"]
    return cparams._of(
        clevel=frame["clevel"],
        shuffle=frame["shuffle"],
        cname=frame["cname"],
        quantize=codecs.get("numcodecs.quantize", {}).get("digits", 0),
    )
