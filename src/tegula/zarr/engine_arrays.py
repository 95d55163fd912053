"""Arrays of zarr-python for the engine: their metadata as tegula reads it, and a store of tegula over their storage."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

from tegula import engine, stores
from tegula.engine import StoredArray
from tegula.errors import TegulaError
from tegula.formats import parse
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid
from tegula.metadata.chunk_keys import ChunkKeyEncoding, default_keys
from tegula.metadata.nodes import ArrayMetadata
from tegula.zarr.batches import Selected, place_of
from tegula.zarr.memory_buffers import MemoryBuffers
from tegula.zarr.zarr_store import TegulaStore
from tegula.zarr3_view.view import Zarr3View

__all__ = ["EngineArray", "engine_array", "metadata_of", "metadata_of_codecs", "stack"]

_OWN: Final = ("zarr.codecs.", "numcodecs.")
_ORDERS: Final = frozenset({"morton", "lexicographic", "unordered"})  # any order that was not requested explicitly
_MOST: Final = 8  # shapes of an array that are cached


class EngineArray:
    """An array that the engine reads and writes in place of zarr-python.

    Parameters
    ----------
    stored : StoredArray
        The array, of any format.
    keys, grid : ChunkKeyEncoding, ChunkGrid
        Keys and chunks as zarr-python sees them.
    prefix : str
        The prefix of these keys.

    Attributes
    ----------
    is_quick : bool
        Whether operations wait only for the memory and the files of this machine.
    """

    def __init__(self, stored: StoredArray, keys: ChunkKeyEncoding, grid: ChunkGrid, prefix: str) -> None:
        self.keys = keys
        self.grid = grid
        self.prefix = prefix
        self.dtype = stored.dtype
        store = stored.store
        self.is_quick = not store.is_remote and (store.in_memory or store.local_directory is not None)
        self._stored = stored
        self._known: dict[tuple[tuple[int, ...], bool | None], StoredArray] = {
            (stored.metadata.shape, stored.write_empty): stored
        }

    def of(self, chosen: Selected, write_empty: bool | None = None) -> StoredArray | None:
        """Return the array for a selection, ``None`` if it ends before that.

        zarr-python may have resized the array since its pipeline was made. The elements of the last chunk that a write
        does not select stay unchanged, wherever the array ends.

        Parameters
        ----------
        chosen : Selected
            The selection.
        write_empty : bool, optional
            Whether a write stores chunks that equal the fill value.
        """
        sizes = zip(self._stored.metadata.shape, chosen.ends, chosen.limits)
        shape = tuple([size if end <= size else limit for size, end, limit in sizes])
        stored = self._stored
        metadata, path = stored.metadata, stored.prefix[:-1]
        if shape != metadata.shape and (metadata.dense or not metadata.grid.is_regular):
            return None
        known = self._known.get((shape, write_empty))
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = engine.stored_array(stored.store, path, replace(metadata, shape=shape), write_empty=write_empty)
            self._known[shape, write_empty] = known
        return known


def metadata_of(zarr_metadata: Any) -> ArrayMetadata | None:
    """Return the metadata of an array of zarr-python, ``None`` if tegula can't read it or codecs are another library's.

    Examples
    --------
    >>> import zarr
    >>> a = zarr.create_array({}, shape=3, dtype="i2", chunks=2)
    >>> metadata_of(a.metadata).grid.chunk_shape((0,))
    (2,)
    """
    codecs = getattr(zarr_metadata, "codecs", None)
    if codecs is None:
        codecs = [*(zarr_metadata.filters or ()), *([zarr_metadata.compressor] if zarr_metadata.compressor else [])]
    if not _are_own(codecs):
        return None
    try:
        documents = zarr_metadata.to_buffer_dict(default_buffer_prototype())
        found = parse({key: buffer.to_bytes() for key, buffer in documents.items() if key != ".zattrs"})
    except Exception:  # noqa: BLE001 - such metadata can't be serialised, or is unknown here
        return None
    if not isinstance(found, ArrayMetadata):
        return None
    fill = found.fill_value
    if fill is not None and fill.dtype.kind in "fc":  # with all bits of a NaN, which a document may lack
        fill = np.asarray(zarr_metadata.fill_value).astype(fill.dtype)
    return replace(found, documents={}, fill_value=fill)


@lru_cache(256)
def metadata_of_codecs(codecs: tuple[Any, ...], data_type: Any, fill: Any) -> ArrayMetadata | None:
    """Return metadata of an array with these codecs, data type and fill value, ``None`` if tegula can't read the array.

    Raises
    ------
    TypeError
        If one of them is not hashable.
    """
    if not _are_own(codecs):
        return None
    try:
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [1],
            "attributes": {},
            "data_type": data_type.to_json(zarr_format=3),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": data_type.to_json_scalar(fill, zarr_format=3),
            "codecs": [codec.to_dict() for codec in codecs],
        }
        found = parse({"zarr.json": json.dumps(document).encode()})
    except Exception:  # noqa: BLE001 - tegula leaves to zarr-python what it can't describe
        return None
    return replace(found, documents={}) if isinstance(found, ArrayMetadata) else None


def _are_own(codecs: Any) -> bool:
    """Return whether all codecs are from zarr-python and numcodecs: tegula can't know the meaning of others."""
    for codec in codecs:
        if not f"{type(codec).__module__}.".startswith(_OWN):
            return False
        if getattr(codec, "subchunk_write_order", "morton") not in _ORDERS:
            return False
        inner = [*getattr(codec, "codecs", ()), *getattr(codec, "index_codecs", ())]
        if not _are_own(inner):
            return False
    return True


def engine_array(metadata: ArrayMetadata, store: Any, key: str, *, writing: bool) -> EngineArray | None:
    """Return the array that a chunk belongs to, ``None`` if zarr-python has to read or write it.

    Parameters
    ----------
    metadata : ArrayMetadata
        The array.
    store : zarr.abc.store.Store
        Its store.
    key : str
        The key of any of its chunks.
    writing : bool
        Whether it is opened for writing.
    """
    place = place_of(key, metadata.keys, metadata.ndim)
    if place is None:
        return None
    path = place[0].rstrip("/")
    keys, grid = metadata.keys, metadata.grid
    try:
        view, place_in_view = _view_of(store, path)
        if view is not None:
            shown = view.array_at(place_in_view)
            if shown is None or writing:
                return None
            stored = shown.stored
        else:
            inner, above = _store_of(store, writing=writing)
            if inner is None:
                return None
            path = "/".join(part for part in (above, path) if part)
            stored = engine.stored_array(inner, path, metadata)
    except TegulaError:
        return None
    return EngineArray(stored, keys, grid, place[0]) if engine.reads_in_kernel(stored) else None


def _view_of(store: Any, path: str) -> tuple[Zarr3View | None, str]:
    """Return the view as Zarr v3 that an array lies in, if it does, and its path there."""
    if type(store) is not TegulaStore:
        return None, path
    view, prefix = store.drafts.place("".join(f"{part}/" for part in (store.path, path) if part))
    return (view if isinstance(view, Zarr3View) else None), prefix.rstrip("/")


def _store_of(store: Any, *, writing: bool) -> tuple[stores.Store | None, str]:
    """Return a store of tegula over the storage of a store of zarr-python, if tegula has an equivalent one."""
    kind = type(store)
    if kind is LocalStore:
        return stores.LocalStore(os.fspath(store.root)), ""
    if kind is MemoryStore:
        return MemoryBuffers(store._store_dict), ""
    if kind is TegulaStore:
        return store.store, store.path
    if kind.__name__ == "ObjectStore" and kind.__module__.startswith("zarr.storage.") and not writing:
        return stores.ObjectStore(store.store, read_only=True), ""
    return None, ""


def stack(metadata: ArrayMetadata, values: dict[str, Any], count: int, shape: tuple[int, ...]) -> StoredArray | None:
    """Return an array of a number of chunks along its first axis, to decode or encode chunks together.

    Parameters
    ----------
    metadata : ArrayMetadata
        An array with these codecs.
    values : dict
        The encoded chunks, by keys ``c/0/0``, ``c/1/0`` and so on.
    count : int
        Number of chunks.
    shape : tuple of int
        Shape of each chunk.

    Returns
    -------
    StoredArray or None
        ``None`` if the kernel can't read it.
    """
    whole = (count * shape[0], *shape[1:]) if shape else ()
    if 0 in shape or (count > 1 and not shape):
        return None
    grid = metadata.grid if metadata.grid.largest_chunk() == shape and metadata.grid.is_regular else regular_grid(shape)
    described = replace(metadata, shape=whole, grid=grid, keys=default_keys(), documents={}, format="zarr3")
    made = engine.stored_array(stores.MappingStore(values), "", described, write_empty=True)
    return made if engine.reads_in_kernel(made) else None
