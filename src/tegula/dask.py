"""Writing dask arrays to arrays of any format; reading is `tegula.Array.to_dask`.

Each task writes one block. Blocks need not match chunks or shards: if two tasks write parts of the same chunk, both
parts are kept, even between processes and machines, if the store supports conditional writes between these.
"""

from __future__ import annotations

import atexit
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import Indices, indices_of, selection_of
from tegula.arrays.creation import new_format, replaced, writable_format
from tegula.arrays.filling import CREATION, new_array_with
from tegula.arrays.keywords import check_keywords, known_keywords
from tegula.arrays.node import opened_by_name
from tegula.arrays.sharing import SharedTarget
from tegula.engine.nodes.deleting import remove_array
from tegula.engine.nodes.replacing import Replacement
from tegula.errors import MetadataError, SelectionError, TegulaError
from tegula.hierarchy.opening import open_array
from tegula.runtime.optional import library
from tegula.stores.targets.opening import creating
from tegula.stores.targets.paths import address_of

__all__ = ["store"]

_OPTIONS = frozenset(CREATION) | {"dtype", "format", "overwrite", "allow_pickle"}


@known_keywords
def store(
    array: Any,
    target: Any,
    *,
    region: Any = None,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    compute: bool = True,
    **creation: Any,
) -> Any:
    """Write a dask array to a new array, or into an existing one.

    Parameters
    ----------
    array : dask.array.Array
        The array to write. Its blocks need not match the chunks of the target.
    target : str, path, mapping, Store or Array
        Where to create the array, as for `tegula.create_array`; or an array that is open for writing.
    region : int, slice, or tuple of them, optional
        The part of an existing array to write; `array` must have the shape of ``target[region]``. By default the whole
        array is written if `target` is an `Array`; otherwise a new array is created.
    path : str
        Path of the array in the store.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.
    compute : bool
        Whether to write now, with dask's current scheduler. Otherwise a new array is created without elements, and the
        result is a `dask.delayed.Delayed` that writes when it is computed; a node that is replaced stays until then.
    **creation
        Options of a new array, as for `tegula.create_array`; ``dtype`` is that of the dask array by default.

    Returns
    -------
    Array or dask.delayed.Delayed
        The array that was written, or a `Delayed` that computes to it.

    Raises
    ------
    MetadataError
        If `array` is not a dask array or has blocks of unknown shape, or an option does not fit.
    AlreadyExistsError
        If something exists where a new array would be created, and ``overwrite`` is not given.
    SelectionError
        If the shapes do not fit.
    StoreError
        If a task runs in another process, and the store can't be written from there without losing elements.
    UnsupportedError
        If dask is not installed.

    Examples
    --------
    >>> import dask.array as da
    >>> import tegula.dask
    >>> d = da.ones((6, 4), chunks=(4, 4), dtype="i4")
    >>> a = tegula.dask.store(d, {}, chunks=(3, 2))
    >>> tegula.dask.store(d[:1] * 7, a, region=slice(2, 3))[1:3]
    array([[1, 1, 1, 1],
           [7, 7, 7, 7]], dtype=int32)
    """
    da = library("dask.array")
    _check_source(da, array)
    if not isinstance(target, Array) and region is None:
        check_keywords("tegula.dask.store", creation, _OPTIONS)
        target, path, creation["format"] = address_of(target, path, creation.get("format"))
        return _store_new(array, target, path, storage_options, compute, {"dtype": array.dtype, **creation})
    target = _existing(target, path, storage_options, creation)
    written = _write_blocks(array, target, _placed(region, target.shape, array.shape))
    if not compute:
        return library("dask").delayed(_second, pure=False)(written, target)
    written.compute()
    return target


def _store_new(array: Any, target: Any, path: str, storage_options: Any, compute: bool, options: dict[str, Any]) -> Any:
    """Write a dask array to a new array, which is complete before it takes the place of another node."""
    format = new_format(target, path, options.pop("format", None), "zarr3")
    overwrite = options.pop("overwrite", False)
    with creating(target, storage_options) as where:
        place = Replacement(where, path, writable_format(format, where), overwrite, "lazy")
        try:
            new = new_array_with(place.store, place.path, shape=array.shape, format=format, **options, **place.options)
            try:
                written = _write_blocks(array, new, _placed(None, new.shape, array.shape))
                if not compute:
                    atexit.register(place.close)
                    return library("dask").delayed(_completed, pure=False)(written, new, place, target)
                written.compute()
            except BaseException:  # Ctrl-C, too
                with suppress(TegulaError):
                    remove_array(new.stored, new.path)
                raise
        except BaseException:
            place.close()
            raise
        return _completed(written, new, place, target)


def _completed(_: Any, array: Array, place: Replacement, target: Any) -> Array:
    """Put a new array, whose elements are written, in its place, and return it."""
    try:
        place.put()
    finally:
        place.close()
        atexit.unregister(place.close)
    return opened_by_name(replaced(place, array), target)


def _check_source(da: Any, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise MetadataError(f"a dask array is needed, not {type(array).__name__}; dask.array.asarray makes one")
    if any(np.isnan(size) for size in array.shape):
        raise MetadataError("the dask array has blocks of unknown shape; call its compute_chunk_sizes() first")


def _existing(target: Any, path: str, storage_options: Any, creation: Mapping[str, Any]) -> Array:
    """Return the array to write into, and refuse options that are only for new arrays."""
    if creation:
        raise MetadataError("options can be given only for a new array", field=min(creation))
    if isinstance(target, Array):
        if path or storage_options:
            raise MetadataError("an open array takes neither a path nor storage_options", field="target")
        target.check_writable()
        return target
    return open_array(target, mode="r+", path=path, storage_options=storage_options)


def _placed(region: Any, shape: tuple[int, ...], given: Sequence[int]) -> Indices:
    """Return the elements of a region; its shape must be `given`."""
    place = indices_of(... if region is None else region, shape)
    there = tuple(len(item) for item in place if isinstance(item, range))
    if there != tuple(given):
        raise SelectionError(f"the dask array has the shape {tuple(given)}, the place to write it to {there}")
    return place


# --- in the graph


def _write_blocks(array: Any, target: Array, place: Indices) -> Any:
    """Return a dask array with one element for each block, which is true once the block is written."""
    return array.map_blocks(
        _write_block,
        target=SharedTarget(target),
        place=place,
        # a unique name, so that dask never takes an earlier result for this write
        name=f"tegula-store-{uuid.uuid4().hex}",
        chunks=tuple((1,) * number for number in array.numblocks),
        dtype=bool,
        meta=np.empty((0,) * array.ndim, bool),
    )


def _write_block(block: Any, target: SharedTarget, place: Indices, block_info: Any = None) -> npt.NDArray[np.bool_]:
    """Write one block to its part of the target."""
    bounds = iter(block_info[0]["array-location"])
    part = tuple(item[slice(*next(bounds))] if isinstance(item, range) else item for item in place)
    if np.size(block):
        target[selection_of(part)] = np.asarray(block)
    return np.ones((1,) * np.ndim(block), bool)


def _second(_: Any, target: Array) -> Array:
    return target
