"""The array of zarr 1.x: its attributes and methods over a tegula array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import arrays as nodes
from tegula import engine
from tegula.attributes import Attributes
from tegula.errors import MetadataError, SelectionError
from tegula.formats.documents import load
from tegula.info import human_bytes
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.zarr1.attributes import alone
from tegula.zarr1.compression import compression_of
from tegula.zarr1.errors import MissingError, ShapeError
from tegula.zarr1.stores import as_store

__all__ = ["Array", "SynchronizedArray"]


class Array:
    """An array in a store that has been initialised.

    Every chunk that is written to is stored, equal to the fill value or not.

    Parameters
    ----------
    store : MutableMapping or tegula store
        Where it is; a `DirectoryStore`, a ``dict``, any mapping of keys to bytes.
    readonly : bool
        Whether writing raises an error.
    synchronizer : ThreadSynchronizer or ProcessSynchronizer, optional
        What keeps writers apart where the store can't.

    Raises
    ------
    ValueError
        If there is no array in the store, or what is there can't be read.
    UnsupportedError
        If tegula has no means to read it.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> store = {}
    >>> zarr.init_store(store, shape=(4, 6), chunks=(2, 3), dtype="i4", fill_value=0)
    >>> z = zarr.Array(store)
    >>> z[1:3, ::2] = 7
    >>> z[1]
    array([7, 0, 7, 0, 7, 0], dtype=int32)
    >>> z.cdata_shape, z.initialized, zarr.Array(store, readonly=True).readonly
    ((2, 2), 4, True)
    """

    def __init__(self, store: Any, readonly: bool = False, synchronizer: Any = None) -> None:
        kept = as_store(store)
        metadata = _read_array(kept)
        stored = engine.stored_array(kept, "", metadata, write_empty=True)
        self._array = nodes.Array(stored, "", read_only=readonly)
        self._store = store
        self._synchronizer = synchronizer
        self._meta = load(metadata.documents["meta"], "meta") if metadata.format == "zarr1" else {}

    @property
    def store(self) -> Any:
        """What the array was opened with."""
        return self._store

    @property
    def readonly(self) -> bool:
        """Whether writing raises an error."""
        return self._array.read_only

    @property
    def synchronizer(self) -> Any:
        """The synchronizer, or ``None``."""
        return self._synchronizer

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each dimension."""
        return self._array.shape

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Length of a chunk along each dimension."""
        return self._array.chunks

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._array.dtype

    @property
    def compression(self) -> str:
        """Name of the compressor, ``"none"`` for none."""
        return compression_of(self._array.metadata.codecs)[0]

    @property
    def compression_opts(self) -> Any:
        """Options of the compressor, every one of them."""
        return compression_of(self._array.metadata.codecs)[1]

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written, as ``meta`` holds it; ``None`` if it is not defined."""
        return self._meta["fill_value"] if self._meta else self._array.fill_value

    @property
    def order(self) -> str:
        """Order of the elements within a chunk, ``"C"`` or ``"F"``, as ``meta`` holds it."""
        if self._meta:
            return str(self._meta["order"])
        return "F" if any(codec.name == "transpose" for codec in self._array.metadata.codecs) else "C"

    @property
    def attrs(self) -> Attributes:
        """The user's attributes: a mapping that reads from and writes to the store."""
        return Attributes(self._stored_attributes, self._change_attributes)

    def _stored_attributes(self) -> Mapping[str, Any]:
        return _read_array(self._array.store).attributes

    def _change_attributes(self, change: Any) -> None:
        with self._alone():
            self._array._change_attributes(change)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self._array.nbytes

    @property
    def nbytes_stored(self) -> int:
        """Bytes of all values in the store, the documents among them, or -1.

        A ``dict`` and a tegula store are listed; any other mapping has to know it, as ``size``.
        """
        size = getattr(self._store, "size", None)
        if isinstance(size, int):
            return size
        if not isinstance(self._store, (dict, Store, str, os.PathLike)):
            return -1
        store = self._array.store
        return sum(store.size(key) or 0 for key in store.list())

    @property
    def cbytes(self) -> int:
        """Bytes of all stored chunks, without the documents; found by listing the store."""
        return self._array.nbytes_stored()

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension, stored or not."""
        return self._array.metadata.grid.counts(self.shape)

    @property
    def initialized(self) -> int:
        """Number of chunks that are stored; found by listing the store."""
        return self._array.nchunks_initialized()

    def __getitem__(self, selection: Any) -> Any:
        if self.order == "C" or self.ndim < 2:
            return self._array[selection]
        shape = self._selected(selection)
        if shape is not None and len(shape) > 1:
            with suppress(SelectionError):  # others may have changed the shape since
                return self._array.read(selection, np.empty(shape, self.dtype, order="F")).result()
        found = self._array[selection]
        return np.asfortranarray(found) if isinstance(found, np.ndarray) and found.ndim > 1 else found

    def __setitem__(self, selection: Any, value: Any) -> None:
        shape = self._selected(selection)
        if shape is not None:
            self._check_shape(value, shape)
        with self._alone():
            self._array[selection] = value

    def _check_shape(self, value: Any, shape: tuple[int, ...]) -> None:
        if not hasattr(value, "shape"):
            if self.dtype.fields:
                return  # tuples among lists may be elements
            try:
                value = np.asarray(value)
            except ValueError:
                return  # the array reports what is wrong with it
        given = tuple(value.shape)
        if given and given != shape:
            raise ShapeError(f"values of shape {given} do not fit a selection of shape {shape}")

    def _selected(self, selection: Any) -> tuple[int, ...] | None:
        """Return the shape of what integers and slices select, which values have to have; ``None`` of anything else."""
        keys = selection if isinstance(selection, tuple) else (selection,)
        if not all(
            isinstance(key, (int, np.integer, slice, EllipsisType)) and not isinstance(key, bool) for key in keys
        ):
            return None
        try:
            # elements of no bytes: nothing is booked, however large the array is
            shape: tuple[int, ...] = np.broadcast_to(np.empty((), "V0"), self.shape)[selection].shape
        except (IndexError, TypeError, ValueError):
            return None  # the array reports what is wrong with it
        return shape

    def resize(self, *args: Any) -> None:
        """Change the length of dimensions; what is cut off is gone, what is added holds the fill value.

        Parameters
        ----------
        *args : int or None, or one tuple of them
            The new length of each dimension, ``None`` for the one it has.

        Raises
        ------
        MetadataError
            If it is not a shape of as many dimensions.

        Examples
        --------
        >>> from tegula import zarr1 as zarr
        >>> z = zarr.zeros((20, 10), chunks=(10, 10))
        >>> z.resize(30, None)
        >>> z.shape
        (30, 10)
        """
        lengths = args[0] if len(args) == 1 else args
        if isinstance(lengths, (tuple, list)) and len(lengths) == self.ndim:
            lengths = tuple(old if new is None else new for old, new in zip(self.shape, lengths))
        with self._alone():
            self._array.resize(lengths)

    def append(self, data: Any, axis: int = 0) -> None:
        """Add data at the end of a dimension; those who append at once each get a part of their own.

        Parameters
        ----------
        data : array_like
            As long as the array along the other dimensions.
        axis : int
            The dimension to grow; negative ones count from the end.

        Raises
        ------
        ValueError
            If the shapes do not fit.

        Examples
        --------
        >>> from tegula import zarr1 as zarr
        >>> z = zarr.array([[1, 2], [3, 4]], chunks=(2, 2), dtype="i4")
        >>> z.append([[5], [6]], axis=1)
        >>> z[:]
        array([[1, 2, 5],
               [3, 4, 6]], dtype=int32)
        """
        try:
            with self._alone():
                self._array.append(data, axis)
        except SelectionError as error:
            raise ShapeError(error.message).within(path=error.path, field=error.field) from None

    def _alone(self) -> AbstractContextManager[Any]:
        return alone(self._synchronizer, self._array.store)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            return self._array.__array__(dtype, copy)  # which says that there is nothing but copies
        return np.asarray(self[...], dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._store, self.readonly, self._synchronizer)

    def __repr__(self) -> str:
        stored = self.nbytes_stored
        told = f"; nbytes_stored: {human_bytes(stored)}; ratio: {self.nbytes / stored:.1f}" if stored > 0 else ""
        synchronizer = "" if self._synchronizer is None else f"; synchronizer: {_type_name(self._synchronizer)}"
        return (
            f"tegula.zarr1.{type(self).__name__}({self.shape}, {self.dtype}, chunks={self.chunks}, order={self.order})"
            f"\n  compression: {self.compression}; compression_opts: {self.compression_opts}"
            f"\n  nbytes: {human_bytes(self.nbytes)}{told}"
            f"; initialized: {self.initialized}/{self._array.nchunks}"
            f"\n  store: {_type_name(self._store)}{synchronizer}"
        )


class SynchronizedArray(Array):
    """An array with a synchronizer, which is what the creating functions return when they are given one.

    Parameters
    ----------
    store, synchronizer, readonly
        As for `Array`, in another order.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> store = {}
    >>> zarr.init_store(store, shape=1000, chunks=100)
    >>> zarr.SynchronizedArray(store, zarr.ThreadSynchronizer()).cdata_shape
    (10,)
    """

    def __init__(self, store: Any, synchronizer: Any, readonly: bool = False) -> None:
        super().__init__(store, readonly, synchronizer)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._store, self._synchronizer, self.readonly)


def _read_array(store: Store) -> ArrayMetadata:
    metadata = engine.read_metadata(store, "")
    if metadata is None:
        raise MissingError("there is no array", path=store.url)
    if not isinstance(metadata, ArrayMetadata):
        raise MetadataError("there is a group, not an array", path=store.url)
    return metadata


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}"
