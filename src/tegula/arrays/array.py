"""The array: NumPy's interface over stored chunks."""

from __future__ import annotations

import _thread
import numbers
import os
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tegula import engine, formats
from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import Node, other_names
from tegula.engine.stored.array import StoredArray
from tegula.errors import MetadataError, SelectionError
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import replace
from tegula.views.operators import Operand, not_computed

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula import indexing
    from tegula.arrays import as_type, chunk_regions, codec_parts, growing, reopening, selecting, viewing
    from tegula.arrays.as_type import AsType
    from tegula.arrays.chunk_regions import Region
    from tegula.arrays.codec_parts import Codec
    from tegula.arrays.foreign_names import ArrayAliases
    from tegula.arrays.selecting import ArraySelection, Indexer, MakePlan
    from tegula.engine import Future
    from tegula.metadata import conventions
    from tegula.metadata.conventions import Conventions
    from tegula.stores import Store
    from tegula.views import interop, view
    from tegula.views.view import View
else:
    ArrayAliases = other_names(
        "ArrayAliases",
        "get_basic_selection set_basic_selection get_orthogonal_selection set_orthogonal_selection "
        "get_coordinate_selection set_coordinate_selection get_mask_selection set_mask_selection "
        "get_block_selection set_block_selection read_direct write_direct islice fillvalue basename "
        "info_complete",
    )
    indexing, conventions = Later("tegula.indexing"), Later("tegula.metadata.conventions")
    chunk_regions, codec_parts = Later("tegula.arrays.chunk_regions"), Later("tegula.arrays.codec_parts")
    as_type, selecting = Later("tegula.arrays.as_type"), Later("tegula.arrays.selecting")
    growing, reopening = Later("tegula.arrays.growing"), Later("tegula.arrays.reopening")
    viewing, interop, view = Later("tegula.arrays.viewing"), Later("tegula.views.interop"), Later("tegula.views.view")

__all__ = ["Array"]


class Array(Node, Operand, ArrayAliases):
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

    kind = "array"

    _unopened: tuple[Any, ...] | None = None  # arguments of `reopening.opened`, until an unpickled copy is used
    _changing: StoredArray | None = None  # the array as it will be after the change in progress

    def __init__(self, stored: StoredArray | None, path: str, *, read_only: bool, allow_pickle: bool = False) -> None:
        if stored is not None:  # else an unpickled copy, which is opened later
            self.stored = stored
            read_only = read_only or stored.store.read_only
        self._path = path
        self._read_only = read_only
        self.allow_pickle = allow_pickle
        self._lock = (os.getpid(), _thread.allocate_lock())
        self._reach: engine.Reach | None = None  # how far beyond the edge there are no old chunks

    # --- description

    @property
    def metadata(self) -> ArrayMetadata:
        """The array's description, as last read or written by this object."""
        return self.stored.metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self.stored.metadata.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements that reading returns."""
        return self.stored.metadata.data_type.numpy

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.stored.metadata.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.stored.metadata.shape)

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory; for elements of variable length, those of a reference."""
        return self.stored.metadata.data_type.numpy.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take in memory."""
        metadata = self.stored.metadata
        return prod(metadata.shape) * metadata.data_type.numpy.itemsize

    @property
    def fill_value(self) -> Any:
        """Value of elements that were never written; ``None`` where the format leaves it undefined."""
        return None if (fill := self.metadata.fill_value) is None else fill[()]

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """Names of the axes, if there are any."""
        return self.metadata.dimension_names

    @property
    def conventions(self) -> Conventions:
        """What the elements stand for by the conventions of netCDF and CF.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=2, dtype="i2", attributes={"scale_factor": 0.5, "units": "K"})
        >>> a.conventions.scale, a.conventions.units
        (0.5, 'K')
        """
        # in variables of Zarr v2 the fill value marks missing elements
        way = formats.find_format(self.format).mask if conventions.is_described(self.metadata) else ""
        return conventions.conventions_of(self.metadata, way)

    @property
    def format(self) -> str:
        """Name of the storage format: ``"zarr1"``, ``"zarr2"``, ``"zarr3"``, ``"bcolz"`` or ``"n5"``."""
        return self.metadata.format

    @property
    def store(self) -> Store:
        """The store that holds the array."""
        return self.stored.store

    # --- chunks and shards

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the chunks (inner chunks, if there are shards).

        An axis whose chunks differ in length is a tuple of their lengths.
        """
        sharding = self.stored.chain.sharding
        return sharding.inner_shape if sharding is not None else self.metadata.grid.lengths

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of the shards, the stored values that hold the inner chunks; ``None`` without shards."""
        return self.metadata.grid.lengths if self.stored.chain.sharding is not None else None

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """Number of chunks along each axis, of inner chunks if there are shards."""
        return chunk_regions.inner_grid(self.stored).counts(self.shape)

    @property
    def nchunks(self) -> int:
        """Number of chunks in the grid, stored or not; of inner chunks, if there are shards."""
        return prod(self.cdata_shape)

    @property
    def nshards(self) -> int | None:
        """Number of shards in the grid, stored or not; ``None`` without shards."""
        return None if self.shards is None else prod(self.metadata.grid.counts(self.shape))

    def nchunks_initialized(self) -> int:
        """Return the number of chunks that are stored, by listing the store.

        This reads no shard. As in zarr-python, each stored shard counts as all its inner chunks, although some may be
        missing or outside the array.
        """
        return chunk_regions.count_stored(self.stored)

    def nshards_initialized(self) -> int | None:
        """Return the number of shards that are stored, by listing the store; ``None`` without shards."""
        return None if self.shards is None else sum(1 for _ in self.stored.stored_chunks())

    def nbytes_stored(self) -> int:
        """Return the size of all stored chunks in bytes, by listing the store."""
        return self.stored.amount_stored()[1]

    # --- codecs

    @property
    def order(self) -> str:
        """Order of the elements within a stored chunk: ``"F"`` if the axes are reversed, ``"C"`` otherwise."""
        return codec_parts.order_of(self.metadata)

    @property
    def filters(self) -> tuple[Codec, ...]:
        """The codecs applied to the elements before compression, in the form of the array's format.

        In Zarr v1, v2 and bcolz that is ``{"id": …}`` with the options, as in numcodecs; in Zarr v3
        ``{"name": …, "configuration": …}``. `tegula.create_array` takes both as ``codecs``. In v3 the filters are the
        array-to-array codecs; if there are shards, those of the inner chunks.

        Examples
        --------
        >>> import tegula
        >>> codecs = [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 5}]
        >>> a = tegula.create_array({}, shape=9, dtype="i4", codecs=codecs, format="zarr2")
        >>> a.filters, a.compressor
        (({'id': 'delta', 'dtype': '<i4'},), {'id': 'zlib', 'level': 5})
        """
        return codec_parts.filters_of(self.metadata)

    @property
    def compressors(self) -> tuple[Codec, ...]:
        """The codecs applied to the bytes of a chunk, in the form of `filters`; in Zarr v3 they include checksums."""
        return codec_parts.compressors_of(self.metadata)

    @property
    def compressor(self) -> Codec | None:
        """The first of the `compressors` that is not a checksum, ``None`` if there is none."""
        return codec_parts.compressor_of(self.metadata)

    # --- attributes

    def _change_attributes(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.update_metadata(lambda metadata: replace(metadata, attributes=change(dict(metadata.attributes))))

    # --- reading and writing

    @property
    def missing_chunks(self) -> str | None:
        """What a read of a chunk that is not stored gives: ``"fill"``, ``"error"``, or ``None`` for the setting.

        Inner chunks of shards count, too. It can be set, for this array and its views.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=4, chunks=2, dtype="i4")
        >>> a.missing_chunks = "error"
        >>> try:
        ...     a[:]
        ... except tegula.NotFoundError as error:
        ...     error.message, error.key
        ('the chunk (0,) is not stored', 'c/0')
        """
        return self.stored.missing_chunks

    @missing_chunks.setter
    def missing_chunks(self, value: str | None) -> None:
        checked = engine.missing_rule(value)
        with self.metadata_lock():
            self.stored = replace(self.stored, missing_chunks=checked)

    @overload
    def __getitem__(self, selection: ArraySelection) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, selection: Any) -> Any: ...
    def __getitem__(self, selection: Any) -> Any:
        stored = self.stored
        values = stored.executor.get(stored, selection)
        return self._read(selection, indexing.numpy_like, None) if values is None else values

    def __setitem__(self, selection: Any, values: Any) -> None:
        if self._read_only:
            self.check_writable()
        stored = self.stored
        if not stored.executor.set(stored, selection, values):
            selecting.write(stored, selection, indexing.numpy_like, values)

    @property
    def oindex(self) -> Indexer:
        """Orthogonal selection: one int, slice, integer array or 1-d mask per axis, combined as an outer product."""
        return selecting.Indexer(self._read, self._write, indexing.orthogonal)

    @property
    def vindex(self) -> Indexer:
        """Coordinate and mask selection: integer arrays, one per axis, broadcast together; or a mask of the array."""
        return selecting.Indexer(self._read, self._write, indexing.vectorized)

    @property
    def blocks(self) -> Indexer:
        """Selection by chunk: ints and slices of positions in the grid of chunks (or shards), not of elements."""
        return selecting.Indexer(self._read, self._write, indexing.blocks)

    @property
    def lazy(self) -> View:
        """A view of the array: selecting from it reads nothing, and gives a view.

        ``view[...]``, `numpy.asarray` and `View.read` read the elements; an assignment writes them.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, data=[[1, 2, 3], [4, 5, 6]])
        >>> part = a.lazy[:, 1:].T
        >>> part.shape, part[0][...]
        ((2, 2), array([2, 5]))
        """
        return view.view_of(viewing.ViewedArray(self))

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
        return engine.start(self.stored, self._read, selection, indexing.numpy_like, out)

    def write(self, selection: Any, values: Any) -> Future[None]:
        """Write in the background, as ``a[selection] = values``; the values must not change until the future is done.

        The future's ``result()`` or ``await`` gives ``None``, or raises the error of the write.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array(tegula.MemoryStore(), shape=3, dtype="i4")
        >>> a.write(slice(0, 2), 5).result()
        >>> a[:]
        array([5, 5, 0], dtype=int32)
        """
        return engine.start(self.stored, self._write, selection, indexing.numpy_like, values)

    def _read(self, selection: Any, make_plan: MakePlan, out: Any) -> Any:
        return selecting.read(self.stored, selection, make_plan, out)

    def _write(self, selection: Any, make_plan: MakePlan, values: Any) -> None:
        self.check_writable()
        selecting.write(self.stored, selection, make_plan, values)

    # --- in parts

    def iter_chunks(self, selection: Any = None) -> Iterator[Region]:
        """Yield the region of each chunk, stored or not, as a tuple of slices for reading and writing.

        If the array has shards, writing is faster shard by shard; see `iter_shards`.

        Parameters
        ----------
        selection : int, slice, or tuple of them, optional
            The part of the array to visit, with steps of 1; regions are clipped to it. By default all of the array.

        Raises
        ------
        SelectionError
            If the selection does not fit the array, or has steps other than 1.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(4, 5), chunks=(2, 3), dtype="i4")
        >>> [*a.iter_chunks(slice(0, 3))][-1]
        (slice(2, 3, None), slice(3, 5, None))
        """
        return chunk_regions.regions(self.shape, chunk_regions.inner_grid(self.stored), selection)

    def iter_shards(self, selection: Any = None) -> Iterator[Region]:
        """Yield the region of each shard, or of each chunk if there are no shards, as `iter_chunks` does.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=8, chunks=2, shards=4, dtype="i4")
        >>> for region in a.iter_shards():
        ...     a[region] = region[0].start
        >>> a[:]
        array([0, 0, 0, 0, 4, 4, 4, 4], dtype=int32)
        """
        return chunk_regions.regions(self.shape, self.metadata.grid, selection)

    def __iter__(self) -> Iterator[Any]:
        length = len(self)
        step = self.metadata.grid.axes[0].longest()
        for start in range(0, length, step):
            yield from self[start : start + step]

    def __contains__(self, value: object) -> bool:
        return chunk_regions.holds(self, value)

    @known_keywords
    def astype(self, dtype: npt.DTypeLike) -> AsType:
        """Return a view whose elements are converted by NumPy's rules when they are read, as ``astype`` of h5py does.

        Raises
        ------
        MetadataError
            If `dtype` is not a data type.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, shape=3, dtype="i4", fill_value=7).astype("f8")[:]
        array([7., 7., 7.])
        """
        return as_type.AsType(self, dtype)

    # --- growing and changing

    @known_keywords
    def resize(self, *shape: Any) -> None:
        """Change the shape to new lengths of all axes, one by one or as a tuple; new elements hold the fill value.

        The new shape is stored first. Then chunks outside it are deleted, and chunks across its edge are set to the
        fill value beyond the edge, with a few operations for each stored chunk. If this is interrupted, the chunks left
        outside the shape are deleted when the array grows again.

        Raises
        ------
        MetadataError
            If the number of axes differs, or a length is negative.
        ReadOnlyError, NotFoundError
            If the array was opened for reading, or has been deleted or replaced.

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
        new = growing.new_shape(self.stored, shape[0] if len(shape) == 1 else shape)
        self.check_writable()
        if self.metadata.dense:
            growing.change_rows([self], lambda columns: engine.resize_rows(columns, new[0]))
        else:
            self.change_shape(lambda _: new)

    def change_shape(self, shape: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        """Change the shape to ``shape(stored shape)``, computed again if another writer changes the metadata first.

        It raises as `update_metadata` does.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(2, 3), dtype="i4")
        >>> a.change_shape(lambda shape: (shape[0] + 5, *shape[1:]))
        >>> a.shape
        (7, 3)
        """
        reach = self._reach = self._reach or engine.Reach()
        update = partial(self.update_metadata, shape_only=True)
        engine.resize(self._path, lambda metadata: shape(metadata.shape), update, self.reopened, reach=reach)

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
        self.check_writable()
        added, axis = growing.new_part(self.stored, values, axis)
        if self.metadata.dense:
            growing.change_rows([self], lambda columns: engine.append_rows(columns, [added]))
            return self.shape
        reach = self._reach = self._reach or engine.Reach()
        update = partial(self.update_metadata, shape_only=True)
        try:
            return engine.append(self._path, added, axis, update, self.reopened, reach).metadata.shape
        except SelectionError as error:
            error.within(path=self.location)
            raise

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
        metadata = engine.read_metadata(self.store, self._path, self.format)
        if not isinstance(metadata, ArrayMetadata):
            raise MetadataError("the array has been deleted or replaced", path=self.location)
        with self.metadata_lock():
            self.stored, self._changing = self.reopened(metadata), None
            if (node := self.stored.node) is not None:
                node.changed(metadata)
            self.stored.shared.pop("opened", None)  # cached chunks are compared with the store again

    def reopened(self, metadata: ArrayMetadata) -> StoredArray:
        """Return the array as the engine reads it, with other metadata, and with its present codecs if these still fit.

        Raises
        ------
        UnsupportedError, MetadataError
            If an array with these metadata can't be opened.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=2, dtype="i4")
        >>> a.reopened(replace(a.metadata, shape=(9,))).metadata.shape
        (9,)
        """
        stored = reopening.restored(self.stored, self._changing, metadata, self.allow_pickle)
        if stored is not self.stored:
            self._changing = stored
        return stored

    def update_metadata(self, change: Callable[[ArrayMetadata], ArrayMetadata], **options: Any) -> StoredArray:
        """Change the stored metadata, and return the array with the new metadata.

        The options are those of `engine.update_documents`.

        Raises
        ------
        ReadOnlyError, NotFoundError
            If the array was opened for reading, or has been deleted or replaced.
        MetadataError, UnsupportedError
            If an array with the new metadata could not be opened.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=2, dtype="i4")
        >>> a.update_metadata(lambda metadata: replace(metadata, attributes={"units": "K"})).metadata.attributes
        {'units': 'K'}
        """
        self.check_writable()

        def checked(metadata: ArrayMetadata) -> ArrayMetadata:
            changed = change(metadata)
            self.reopened(changed)  # raises if the array could not be opened again, as with too large a chunk
            return changed

        with self.metadata_lock():  # threads set `stored` in the order in which they change the documents
            updated = engine.update_documents(
                self.store, self._path, self.metadata, checked, reach=self._reach, array=self.stored, **options
            )
            self.stored, self._changing = self.reopened(updated), None
            if (node := self.stored.node) is not None:
                node.changed(updated)
            return self.stored

    def metadata_lock(self) -> _thread.LockType:
        """Return the lock that guards this object's metadata; a forked child gets a new one.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=2, dtype="i4")
        >>> with a.metadata_lock():
        ...     a.stored = a.reopened(a.metadata)
        """
        if self._lock[0] != os.getpid():
            self._lock = (os.getpid(), _thread.allocate_lock())
        return self._lock[1]

    # --- other libraries

    @known_keywords
    def to_dask(self, chunks: Any = "auto", *, inline_array: bool = False, name: str | bool | None = None) -> Any:
        """Return a dask array over this array; each block is read when it is computed.

        Parameters
        ----------
        chunks : "auto", None, int, str or tuple
            Blocks of the dask array. ``"auto"`` combines whole shards, or whole chunks if there are no shards, up to
            dask's setting ``array.chunk-size``; ``None`` makes each shard or chunk one block. Any other value, such
            as ``"16 MiB"`` or ``(100, -1)``, is passed to dask.
        inline_array : bool
            Put the array into each task, instead of into one task that all others depend on.
        name : str or bool, optional
            Name of the dask array; see `dask.array.from_array`.

        Raises
        ------
        MetadataError
            If `chunks` does not fit the shape.
        UnsupportedError
            If dask is not installed.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(6, 4), chunks=(2, 4), dtype="i4", fill_value=1)
        >>> d = a.to_dask(chunks=None)
        >>> d.numblocks, int(d.sum().compute())
        ((3, 1), 24)
        """
        return interop.dask_array(self, self.dtype, chunks, inline_array=inline_array, name=name)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return viewing.dask_token(self.stored)

    # --- operators

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (numbers.Number, np.generic, np.ndarray)):
            raise not_computed(self, "==")
        return super().__eq__(other)

    __hash__ = Node.__hash__

    if not TYPE_CHECKING:  # hidden from type checkers

        def __getattr__(self, name):
            """Open an unpickled copy; do what `Node` does for attributes that do not exist."""
            unopened = self._unopened
            if name != "stored" or (unopened is None and "stored" not in self.__dict__):
                return super().__getattr__(name)
            if unopened is not None:
                self.stored, self._unopened = reopening.opened(*unopened), None
            return self.__dict__["stored"]

    # --- Python's protocols

    def __reduce__(self) -> tuple[Any, ...]:
        if (unopened := self._unopened) is not None:
            return reopening.unpickled, (Array, *unopened)
        stored = self.stored
        options: dict[str, Any] = {"allow_pickle": self.allow_pickle, "write_empty": stored.write_empty}
        options["missing_chunks"] = stored.missing_chunks
        mark = engine.fingerprint(self.metadata)
        return reopening.unpickled, (Array, self.store, self._path, self.format, mark, self._read_only, options)

    def __repr__(self) -> str:
        shards = f" shards {self.shards}" if self.shards else ""
        kind = f"{self.format} {self.shape} {self.metadata.data_type}"
        return f"<tegula.Array {kind} chunks {self.chunks}{shards} {self.location!r}>"
