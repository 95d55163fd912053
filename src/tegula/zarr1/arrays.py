"""The class `Array` of zarr 1.x: its attributes and methods, which call those of a tegula array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.arrays import array as nodes
from tegula.arrays.attributes import Attributes
from tegula.errors import MetadataError, SelectionError
from tegula.formats.documents import load
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.quantities import human_bytes
from tegula.stores import Store
from tegula.zarr1.attributes import write_lock
from tegula.zarr1.compression import compression_of
from tegula.zarr1.errors import MissingError, ShapeError
from tegula.zarr1.stores import as_store

__all__ = ["Array", "SynchronizedArray"]


class Array:
    """An array in a store that `init_store` has initialized.

    Chunks that are written are stored even if all elements equal the fill value.

    Parameters
    ----------
    store : MutableMapping or tegula store
        The store: a `DirectoryStore`, a ``dict``, or any mapping of keys to bytes.
    readonly : bool
        Refuse all changes of the array.
    synchronizer : ThreadSynchronizer or ProcessSynchronizer, optional
        Lets one process at a time write to a store without locks of its own.

    Raises
    ------
    ValueError
        If there is no array in the store, or its documents can't be read.
    UnsupportedError
        If tegula does not support the format, data type or codec.

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
        opened = as_store(store)
        metadata = _read_array(opened)
        stored = engine.stored_array(opened, "", metadata, write_empty=True)
        self._array = nodes.Array(stored, "", read_only=readonly)
        self._store = store
        self._synchronizer = synchronizer
        self._meta = load(metadata.documents["meta"], "meta") if metadata.format == "zarr1" else {}

    @property
    def store(self) -> Any:
        """The store that the array was opened with."""
        return self._store

    @property
    def readonly(self) -> bool:
        """True if the array can't be changed."""
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
        """Data type of the elements."""
        return self._array.dtype

    @property
    def compression(self) -> str:
        """Name of the compressor; ``"none"`` without compression."""
        return compression_of(self._array.metadata.codecs)[0]

    @property
    def compression_opts(self) -> Any:
        """All options of the compressor."""
        return compression_of(self._array.metadata.codecs)[1]

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written, as ``meta`` has it; ``None`` if it is undefined."""
        return self._meta["fill_value"] if self._meta else self._array.fill_value

    @property
    def order(self) -> str:
        """Order of the elements within a chunk, ``"C"`` or ``"F"``, as ``meta`` has it."""
        if self._meta:
            return str(self._meta["order"])
        return "F" if any(codec.name == "transpose" for codec in self._array.metadata.codecs) else "C"

    @property
    def attrs(self) -> Attributes:
        """User attributes: a mapping that reads the store, and writes each change to it."""
        return Attributes(self._array, self._stored_attributes, self._change_attributes)

    def _stored_attributes(self) -> Mapping[str, Any]:
        return _read_array(self._array.store).attributes

    def _change_attributes(self, change: Any) -> None:
        with self._write_lock():
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
        """Bytes of all elements, uncompressed."""
        return self._array.nbytes

    @property
    def nbytes_stored(self) -> int:
        """Bytes of all values in the store, including the documents; -1 if unknown.

        A mapping that is neither a ``dict`` nor a tegula store needs an attribute ``size``.
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
        """Bytes of all stored chunks, without the documents; this lists the store."""
        return self._array.nbytes_stored()

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension, stored or not."""
        return self._array.metadata.grid.counts(self.shape)

    @property
    def initialized(self) -> int:
        """Number of stored chunks; this lists the store."""
        return self._array.nchunks_initialized()

    def __getitem__(self, selection: Any) -> Any:
        if self.order == "C" or self.ndim < 2:
            return self._array[selection]
        shape = _basic_shape(selection, self.shape)
        if shape is not None and len(shape) > 1:
            with suppress(SelectionError):  # another process may have changed the shape in between
                return self._array.read(selection, np.empty(shape, self.dtype, order="F")).result()
        found = self._array[selection]
        return np.asfortranarray(found) if isinstance(found, np.ndarray) and found.ndim > 1 else found

    def __setitem__(self, selection: Any, value: Any) -> None:
        shape = _basic_shape(selection, self.shape)
        if shape is not None:
            _check_shape(value, self.dtype, shape)
        with self._write_lock():
            self._array[selection] = value

    def resize(self, *args: Any) -> None:
        """Change the shape. Elements that are cut off are lost; new elements have the fill value.

        Parameters
        ----------
        *args : int or None, or one tuple of them
            The new length of each dimension; ``None`` keeps the length.

        Raises
        ------
        MetadataError
            If the new shape has another number of dimensions.

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
        with self._write_lock():
            self._array.resize(lengths)

    def append(self, data: Any, axis: int = 0) -> None:
        """Append data along a dimension. Data of concurrent calls are stored one after the other.

        Parameters
        ----------
        data : array_like
            Data of the same shape as the array along the other dimensions.
        axis : int
            The dimension to append along; negative numbers count from the end.

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
            with self._write_lock():
                self._array.append(data, axis)
        except SelectionError as error:
            raise ShapeError(error.message).within(path=error.path, field=error.field) from None

    def _write_lock(self) -> AbstractContextManager[Any]:
        return write_lock(self._synchronizer, self._array.store)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            return self._array.__array__(dtype, copy)  # raises: every array is a copy
        return np.asarray(self[...], dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._store, self.readonly, self._synchronizer)

    def __repr__(self) -> str:
        stored = self.nbytes_stored
        stored_text = f"; nbytes_stored: {human_bytes(stored)}; ratio: {self.nbytes / stored:.1f}" if stored > 0 else ""
        synchronizer = "" if self._synchronizer is None else f"; synchronizer: {_type_name(self._synchronizer)}"
        return (
            f"tegula.zarr1.{type(self).__name__}({self.shape}, {self.dtype}, chunks={self.chunks}, order={self.order})"
            f"\n  compression: {self.compression}; compression_opts: {self.compression_opts}"
            f"\n  nbytes: {human_bytes(self.nbytes)}{stored_text}"
            f"; initialized: {self.initialized}/{self._array.nchunks}"
            f"\n  store: {_type_name(self._store)}{synchronizer}"
        )


class SynchronizedArray(Array):
    """An array with a synchronizer. Functions that take a synchronizer return an array of this class if they get one.

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
        raise MetadataError("this is a group, not an array", path=store.url)
    return metadata


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}"


def _basic_shape(selection: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of a selection of ints and slices; ``None`` for other selections and for invalid ones.

    Examples
    --------
    >>> _basic_shape((slice(2, 8, 2), ...), (10, 20)), _basic_shape([1, 2], (10, 20))
    ((3, 20), None)
    """
    keys = selection if isinstance(selection, tuple) else (selection,)
    if not all(isinstance(key, (int, np.integer, slice, EllipsisType)) and not isinstance(key, bool) for key in keys):
        return None
    try:
        # elements without bytes take no memory, however large the array is
        selected: tuple[int, ...] = np.broadcast_to(np.empty((), "V0"), shape)[selection].shape
    except (IndexError, TypeError, ValueError):
        return None  # reading or writing raises the error
    return selected


def _check_shape(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Check that values have the shape of a selection, or are a scalar; zarr 1.1 does not broadcast.

    Raises
    ------
    ShapeError
        If they have another shape.
    """
    if not hasattr(value, "shape"):
        if dtype.fields:
            return  # a tuple in a list may be an element
        try:
            value = np.asarray(value)
        except ValueError:
            return  # writing raises the error
    given = tuple(value.shape)
    if given and given != shape:
        raise ShapeError(f"values of shape {given} do not fit a selection of shape {shape}")
