"""The array: NumPy's interface over stored chunks."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from tegula import engine
from tegula.arrays.keywords import known_keywords
from tegula.arrays.protocols import ArrayProtocols
from tegula.deferred import Later
from tegula.engine.stored import StoredArray
from tegula.errors import MetadataError, SelectionError, UnsupportedError
from tegula.frozen import replace
from tegula.metadata.nodes import ArrayMetadata
from tegula.targets.paths import place

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula import display, indexing
    from tegula.arrays import attributes, chunking, interop
    from tegula.arrays import values as values_room
    from tegula.arrays.attributes import Attributes
    from tegula.display import Info
    from tegula.engine import Future
    from tegula.indexing import Plan
    from tegula.metadata.chunk_grids import ChunkGrid
    from tegula.stores import Store
else:
    display, indexing = Later("tegula.display"), Later("tegula.indexing")
    attributes, chunking = Later("tegula.arrays.attributes"), Later("tegula.arrays.chunking")
    interop, values_room = Later("tegula.arrays.interop"), Later("tegula.arrays.values")

__all__ = ["Array", "Indexer", "array_at", "change_rows"]

_FEW_CHUNKS = 16  # larger reads are compared with the physical memory; smaller ones are bounded by `max_chunk_bytes`
Whole: TypeAlias = slice | EllipsisType
Region: TypeAlias = "Whole | list[int] | npt.NDArray[Any] | tuple[Whole | list[int] | npt.NDArray[Any], ...]"
"""A selection whose result is an array; a selection with an int may give a single element."""
MakePlan: TypeAlias = "Callable[[Any, tuple[int, ...], ChunkGrid], Plan]"


class Indexer:
    """Another kind of selection than ``a[...]``, for reading and writing: `Array.oindex`, `vindex` and `blocks`."""

    __slots__ = ("_array", "_plan")

    def __init__(self, array: Array, plan: MakePlan) -> None:
        self._array = array
        self._plan = plan

    def __getitem__(self, selection: Any) -> Any:
        return self._array._read(selection, self._plan, None)

    def __setitem__(self, selection: Any, values: Any) -> None:
        self._array._write(selection, self._plan, values)


class Array(ArrayProtocols):
    """A chunked, compressed N-dimensional array in a store; made by `tegula.open` and `tegula.create_array`.

    Reading and writing take NumPy's selections. ``a[...]`` reads the whole array into memory; read an array
    that is larger than the memory in parts.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="i4")
    >>> a[1:3, ::2] = [[1, 2, 3], [4, 5, 6]]
    >>> a[1:3]
    array([[1, 0, 2, 0, 3, 0],
           [4, 0, 5, 0, 6, 0]], dtype=int32)
    >>> a[2, -2], a.nchunks_initialized()
    (np.int32(6), 4)
    """

    _unopened: tuple[Any, ...] | None = None  # arguments of `_opened`, until an unpickled copy is used
    _changing: StoredArray | None = None  # the array as it will be after the change in progress

    def __init__(self, stored: StoredArray | None, path: str, *, read_only: bool, allow_pickle: bool = False) -> None:
        if stored is not None:  # else an unpickled copy, which is opened later
            self._stored = stored
            read_only = read_only or stored.store.read_only
        self._path = path
        self._read_only = read_only
        self._allow_pickle = allow_pickle
        self._lock = (os.getpid(), _thread.allocate_lock())
        self._reach: engine.Reach | None = None  # how far beyond the edge there are no old chunks

    # --- attributes and reports

    @property
    def attrs(self) -> Attributes:
        """The attributes, as a mapping; each change is stored at once."""
        return attributes.Attributes(self._own_attributes, self._change_attributes, self._get_place)

    def _own_attributes(self) -> Mapping[str, Any]:
        return self.metadata.attributes

    def _change_attributes(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._update(lambda metadata: replace(metadata, attributes=change(dict(metadata.attributes))))

    @property
    def info(self) -> Info:
        """A report on the array, including its stored size; shown as a table."""
        return display.array_info(self)

    # --- reading and writing

    @overload
    def __getitem__(self, selection: Region) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, selection: Any) -> Any: ...
    def __getitem__(self, selection: Any) -> Any:
        stored = self._stored
        found = stored.executor.get(stored, selection)
        return self._read(selection, indexing.numpy_like, None) if found is None else found

    def __setitem__(self, selection: Any, values: Any) -> None:
        self._write(selection, indexing.numpy_like, values)

    @property
    def oindex(self) -> Indexer:
        """Orthogonal selection: one int, slice, integer array or 1-d mask per axis, combined as an outer product."""
        return Indexer(self, indexing.orthogonal)

    @property
    def vindex(self) -> Indexer:
        """Coordinate and mask selection: integer arrays, one per axis, broadcast together; or a mask of the array."""
        return Indexer(self, indexing.vectorized)

    @property
    def blocks(self) -> Indexer:
        """Selection by chunk: ints and slices of positions in the grid of chunks (or shards), not of elements."""
        return Indexer(self, indexing.blocks)

    def read(self, selection: Any = ..., out: Any = None) -> Future[Any]:
        """Read in the background.

        Parameters
        ----------
        selection : selection, optional
            What to read, as in ``a[selection]``; everything by default.
        out : ndarray, tensor or buffer, optional
            Receives the elements, converted to its dtype: a NumPy array, or an object that supports DLPack (such as a
            PyTorch tensor) or the buffer protocol. It must be writable CPU memory with the shape of the result, and
            may have any strides.

        Returns
        -------
        Future
            Its ``result()`` or ``await`` gives the array, or `out`, or raises the error of the read, such as
            `SelectionError`.

        Examples
        --------
        >>> import numpy as np, tegula
        >>> a = tegula.create_array(tegula.MemoryStore(), shape=3, dtype="i4", fill_value=1)
        >>> out = np.zeros(3)
        >>> a.read(out=out).result()
        array([1., 1., 1.])
        """
        return engine.start(self._stored, self._read, selection, indexing.numpy_like, out)

    def write(self, selection: Any, values: Any) -> Future[None]:
        """Write in the background, as ``a[selection] = values``.

        Parameters
        ----------
        selection : selection
            Where to write, as in ``a[selection]``.
        values : array_like
            Values to write; must not change until the future is done.

        Returns
        -------
        Future
            Its ``result()`` or ``await`` gives ``None``, or raises the error of the write.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array(tegula.MemoryStore(), shape=3, dtype="i4")
        >>> a.write(slice(0, 2), 5).result()
        >>> a[:]
        array([5, 5, 0], dtype=int32)
        """
        return engine.start(self._stored, self._write, selection, indexing.numpy_like, values)

    def _read(self, selection: Any, make_plan: MakePlan, out: Any) -> Any:
        try:
            if out is None:
                return self._read_plan(selection, make_plan, None)
            self._read_plan(selection, make_plan, interop.as_output(out))
            return out
        except MemoryError as error:
            raise self._stored.out_of_memory(error) from error
        except SelectionError as error:
            error.within(path=self._place)
            raise

    def _read_plan(self, selection: Any, make_plan: MakePlan, out: npt.NDArray[Any] | None) -> Any:
        stored = self._stored
        metadata = stored.metadata
        if metadata.data_type.numpy.names is not None:
            fields, selection = indexing.split_fields(selection)
            if fields is not None:
                stored = self._of_fields(fields)
                if stored.dtype.subdtype is not None:  # read a field of subarrays as records, then take it out
                    parts = self._read(([fields], selection), make_plan, None)[fields]
                    return parts if out is None else _copied(parts, out)
        plan = make_plan(selection, metadata.shape, metadata.grid)
        if out is not None:
            return self._read_into(stored, plan, out)
        if plan.nchunks > _FEW_CHUNKS and prod(plan.work_shape) * stored.dtype.itemsize > engine.physical_memory():
            raise self._too_large(stored, plan)
        try:
            work = engine.empty(plan.work_shape, stored.dtype)
        except (MemoryError, ValueError) as error:
            raise self._too_large(stored, plan) from error
        engine.read(stored, plan, work)
        return work[()] if plan.is_point else plan.present(work)

    def _too_large(self, stored: StoredArray, plan: Plan) -> SelectionError:
        nbytes = prod(plan.shape) * stored.dtype.itemsize
        return SelectionError(
            f"a selection of shape {plan.shape} takes {nbytes} bytes and does not fit into memory; read it in parts",
            path=self._place,
        )

    def _read_into(self, stored: StoredArray, plan: Plan, out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if out.shape != plan.shape:
            raise SelectionError(f"out has the shape {out.shape}, the selection {plan.shape}")
        work = plan.arrange(out)
        if np.may_share_memory(work, out) and work.dtype == stored.dtype and work.flags.writeable:
            engine.read(stored, plan, work)
        else:
            try:
                work = np.empty(plan.work_shape, stored.dtype)
            except MemoryError as error:
                raise self._too_large(stored, plan) from error
            engine.read(stored, plan, work)
            out[...] = plan.present(work)
        return out

    def _of_fields(self, fields: str | list[str]) -> StoredArray:
        names = self.dtype.names or ()
        for name in [fields] if isinstance(fields, str) else fields:
            if name not in names:
                raise SelectionError(f"there is no field {name!r}; the fields are {', '.join(names)}", path=self._place)
        if len({*fields}) < len(fields) and not isinstance(fields, str):
            raise SelectionError(f"a field can be selected only once: {fields}", path=self._place)
        return replace(self._stored, field=fields)

    def _write(self, selection: Any, make_plan: MakePlan, values: Any) -> None:
        try:
            self._write_plan(selection, make_plan, values)
        except MemoryError as error:
            raise self._stored.out_of_memory(error) from error
        except (MetadataError, SelectionError) as error:
            error.within(path=self._place)
            raise

    def _write_plan(self, selection: Any, make_plan: MakePlan, values: Any) -> None:
        self._check_writable()
        stored = self._stored
        metadata = stored.metadata
        if metadata.data_type.numpy.names is not None:
            fields, selection = indexing.split_fields(selection)
            if fields is not None:
                stored = self._of_fields(fields)
        plan = make_plan(selection, metadata.shape, metadata.grid)
        if stored.dtype.subdtype is not None:  # write a field of subarrays as records
            stored = replace(stored, field=[str(stored.field)])
            values = values_room.as_records(values, stored.dtype, plan.shape)
        elif plan.is_point and metadata.data_type.variable:
            values = values_room.as_element(values)
        values = values_room.as_values(values, metadata.data_type, stored.dtype)
        engine.write(stored, plan, plan.arrange(values))

    # --- growing and changing

    @known_keywords
    def resize(self, *shape: Any) -> None:
        """Change the shape; elements outside the new shape are deleted, and new elements hold the fill value.

        The new shape is stored first. Then chunks outside it are deleted, and chunks across its edge are set to the
        fill value beyond the edge, with a few operations for each stored chunk. If this is interrupted, the chunks left
        outside the shape are deleted when the array grows again.

        Parameters
        ----------
        *shape : int or tuple of int
            The new length of each axis.

        Raises
        ------
        MetadataError
            If the number of axes differs, or a length is negative.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array(tegula.MemoryStore(), shape=5, chunks=2, dtype="i4")
        >>> a[:] = 7
        >>> a.resize(3)
        >>> a.resize(5)
        >>> a[:]
        array([7, 7, 7, 0, 0], dtype=int32)
        """
        new = chunking.as_shape(shape[0] if len(shape) == 1 else shape)
        if len(new) != self.ndim:
            raise MetadataError(
                f"an array of {self.ndim} axes can't be resized to {new}", path=self._place, field="shape"
            )
        self._check_writable()
        if self.metadata.dense:
            if new[1:] != self.shape[1:]:
                raise UnsupportedError(f"{self.format} arrays grow along their first axis only", path=self._place)
            change_rows([self], lambda columns: engine.resize_rows(columns, new[0]))
            return

        self._reshape(lambda shape: new)

    def _reshape(self, shape: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        """Change the shape to ``shape(stored shape)``, computed again if another writer changes the metadata first."""
        ndim = self.ndim

        def shape_of(metadata: ArrayMetadata) -> tuple[int, ...]:
            if metadata.ndim != ndim:
                raise MetadataError(
                    "the array has been replaced by one with another number of dimensions", path=self._place
                )
            return shape(metadata.shape)

        reach = self._reach = self._reach or engine.Reach()
        engine.resize(
            self._path, shape_of, lambda change: self._update(change, shape_only=True), self._restored, reach=reach
        )

    def append(self, values: Any, axis: int = 0) -> tuple[int, ...]:
        """Add values at the end of an axis and return the new shape.

        The new shape is stored first, in one conditional write of the metadata, and then the values are written. If
        several processes append at once, each gets its own part, which reads as the fill value until it is written. In
        formats that store every chunk (bcolz) the rows are written first and the length last, so an append that is
        killed leaves the array as it was.

        Parameters
        ----------
        values : array_like
            Values to add, with the array's length along every other axis.
        axis : int
            The axis to grow; negative ones count from the end.

        Raises
        ------
        SelectionError
            If the shape of `values` does not fit.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array(tegula.MemoryStore(), shape=(0, 2), chunks=(4, 2), dtype="i4")
        >>> a.append([[1, 2], [3, 4]])
        (2, 2)
        """
        self._check_writable()
        data_type = self.metadata.data_type
        added = values_room.as_values(values, data_type, data_type.numpy)
        if not isinstance(axis, (int, np.integer)) or not -self.ndim <= axis < self.ndim:
            raise SelectionError(f"there is no axis {axis!r} in {self.ndim} dimensions", path=self._place)
        axis %= self.ndim
        if self.metadata.dense:
            return self._append_rows(added, axis)

        def update(change: engine.Change) -> StoredArray:
            def checked(metadata: ArrayMetadata) -> ArrayMetadata:
                if metadata.data_type != data_type:
                    raise MetadataError("the array has been replaced by one of another data type", path=self._place)
                return change(metadata)

            return self._update(checked, shape_only=True)

        reach = self._reach = self._reach or engine.Reach()
        try:
            stored = engine.append(self._path, added, axis, update, self._restored, reach)
        except SelectionError as error:
            error.within(path=self._place)
            raise
        return stored.metadata.shape

    def _append_rows(self, added: npt.NDArray[Any], axis: int) -> tuple[int, ...]:
        if axis:
            raise UnsupportedError(f"{self.format} arrays grow along their first axis only", path=self._place)
        if added.shape[1:] != self.shape[1:] or added.ndim != self.ndim:
            raise SelectionError(
                f"values of shape {added.shape} can't be appended to {self.shape} along axis 0", path=self._place
            )
        change_rows([self], lambda columns: engine.append_rows(columns, [added]))
        return self.shape

    def refresh(self) -> None:
        """Read the metadata again, to see changes by other processes.

        Raises
        ------
        MetadataError
            If the array has been deleted or replaced by another node.

        Examples
        --------
        >>> import tegula
        >>> store = tegula.MemoryStore()
        >>> a = tegula.create_array(store, shape=4, dtype="i4")
        >>> tegula.open_array(store, mode="r+").resize(6)
        >>> a.refresh()
        >>> a.shape
        (6,)
        """
        found = engine.read_metadata(self.store, self._path, self.format)
        if not isinstance(found, ArrayMetadata):
            raise MetadataError("the array has been deleted or replaced", path=self._place)
        with self._metadata_lock():
            self._stored = self._restored(found)
            self._stored.shared.pop("opened", None)  # cached chunks are compared with the store again

    def _restored(self, metadata: ArrayMetadata) -> StoredArray:
        """Return the array with other metadata, and with its present codec chain if that still fits."""
        old, made = self._stored, self._changing
        if metadata is old.metadata:
            return old
        if made is not None and metadata is made.metadata:
            return made
        # `made` already has the kernel's description of the new shape
        if made is not None and metadata.shape == made.metadata.shape and metadata.has_chunks_of(made.metadata):
            return made.with_metadata(metadata)
        if metadata.has_chunks_of(old.metadata):
            self._changing = old.with_metadata(metadata)
            return self._changing
        options: dict[str, Any] = {
            "allow_pickle": self._allow_pickle, "write_empty": old.write_empty, "document": old.document
        }  # fmt: skip
        return engine.stored_array(self.store, self._path, metadata, **options)

    def _update(self, change: Callable[[ArrayMetadata], ArrayMetadata], **options: Any) -> StoredArray:
        """Change the stored metadata, and return the array with the new metadata.

        The options are those of `engine.update_documents`.
        """
        self._check_writable()

        def checked(metadata: ArrayMetadata) -> ArrayMetadata:
            changed = change(metadata)
            self._restored(changed)  # raises if the array could not be opened again, as with too large a chunk
            return changed

        with self._metadata_lock():  # threads set `_stored` in the order in which they change the documents
            updated = engine.update_documents(
                self.store, self._path, self.metadata, checked, reach=self._reach, **options
            )
            self._stored, self._changing = self._restored(updated), None
            return self._stored

    def _metadata_lock(self) -> _thread.LockType:
        """Return the lock that guards this object's metadata; a forked child gets a new one."""
        if self._lock[0] != os.getpid():
            self._lock = (os.getpid(), _thread.allocate_lock())
        return self._lock[1]

    # --- Python's protocols

    def __reduce__(self) -> tuple[Any, ...]:
        if (unopened := self._unopened) is not None:
            return _copy, unopened
        options = {"allow_pickle": self._allow_pickle, "write_empty": self._stored.write_empty}
        mark = engine.fingerprint(self.metadata)
        return _copy, (self.store, self._path, self.format, mark, self._read_only, options)

    def __repr__(self) -> str:
        shards = f" shards {self.shards}" if self.shards else ""
        kind = f"{self.format} {self.shape} {self.metadata.data_type}"
        return f"<tegula.Array {kind} chunks {self.chunks}{shards} {self._place!r}>"

    def _repr_html_(self) -> str:
        return display.array_html(self)


def array_at(
    store: Store,
    path: str,
    metadata: ArrayMetadata,
    *,
    read_only: bool,
    allow_pickle: bool = False,
    document: str | None = None,
) -> Array:
    """Return the array at a path, given its metadata; `document` is as for `engine.stored_array`."""
    stored = engine.stored_array(store, path, metadata, allow_pickle=allow_pickle, document=document)
    return Array(stored, path, read_only=read_only, allow_pickle=allow_pickle)


def change_rows(arrays: Sequence[Array], act: Callable[[list[tuple[StoredArray, str]]], list[StoredArray]]) -> None:
    """Change the rows of several arrays together; `act` calls a function such as `engine.append_rows`."""
    before = [(array._stored, array._path) for array in arrays]
    for array, (old, _), new in zip(arrays, before, act(before)):
        with array._metadata_lock():
            array._stored = new if array._stored is old else array._stored.with_metadata(new.metadata)


def _copy(store: Store, path: str, format: str, mark: bytes, read_only: bool, options: dict[str, Any]) -> Array:
    """Return an unpickled array, which is opened at its first use.

    A scheduler may unpickle arrays whose storage it can't reach, and does not expect unpickling to fail.
    """
    array = Array(None, path, read_only=read_only or store.read_only, allow_pickle=options["allow_pickle"])
    array._unopened = store, path, format, mark, read_only, options
    return array


def _opened(store: Store, path: str, format: str, mark: bytes, _: bool, options: dict[str, Any]) -> StoredArray:
    metadata = engine.read_copied(store, path, format, mark)
    if not isinstance(metadata, ArrayMetadata):
        raise MetadataError("the array no longer exists", path=place(store, path))
    return engine.stored_array(store, path, metadata, **options)


if not TYPE_CHECKING:  # hidden from type checkers

    def _getattr(self, name):
        """Open an unpickled copy; raise the error of `Node` for attributes that do not exist."""
        unopened = self._unopened
        if name != "_stored" or (unopened is None and "_stored" not in self.__dict__):
            return super(Array, self).__getattr__(name)
        if unopened is not None:
            self._stored, self._unopened = _opened(*unopened), None
        return self.__dict__["_stored"]

    Array.__getattr__ = _getattr


def _copied(values: npt.NDArray[Any], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if out.shape != values.shape:
        raise SelectionError(f"out has the shape {out.shape}, the selection {values.shape}")
    out[...] = values
    return out
