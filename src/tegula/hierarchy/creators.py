"""`tegula.create_array`, `create_group` and `create_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.arrays.array import Array
from tegula.arrays.creation import new_format, new_group
from tegula.arrays.filling import new_array_with
from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import opened_by_name
from tegula.hierarchy.group import Group
from tegula.stores.targets.opening import creating
from tegula.stores.targets.paths import address_of
from tegula.tables.columns import new_table
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import (
        ChunksLike,
        CodecsLike,
        DTypeLike,
        FormatName,
        Order,
        ShapeLike,
        ShardsLike,
        TargetLike,
    )

__all__ = ["create_array", "create_group", "create_table"]


@known_keywords
def create_array(
    target: TargetLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    data: Any = None,
    chunks: ChunksLike = "auto",
    shards: ShardsLike = None,
    fill_value: Any = 0,
    codecs: CodecsLike = "auto",
    checksum: bool = False,
    order: Order = "C",
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    format: FormatName | None = None,
    path: str = "",
    chunk_key_encoding: Any = None,
    overwrite: bool = False,
    write_empty_chunks: bool | None = None,
    allow_pickle: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """Create an array.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to create it; see `tegula.store_of`.
    shape : int or sequence of int
        Length of each axis; by default that of `data`.
    dtype : dtype-like
        Any dtype that NumPy accepts, the name of an ml_dtypes type, or ``str`` or ``bytes`` for variable length; by
        default that of `data`.
    data : array_like, optional
        The elements. A chunked array (of tegula, h5py, zarr-python or dask) is copied in parts. If that fails, the new
        array is deleted again.
    chunks : "auto", int, or sequence
        Length of a chunk along each axis, or one int for all axes. ``-1`` or ``None`` stands for the whole axis, and
        so does omitting the last axes; a list gives the lengths of chunks that differ along an axis (Zarr v3 only).
        ``False`` makes one chunk. For ``"auto"`` see `tegula.arrays.chunking`; bcolz has a rule of its own.
    shards : None, "auto", int, or sequence of int
        Shape of the shards, multiples of the chunks; ``-1`` for a whole axis (Zarr v3 only).
    fill_value : scalar or None
        Value of elements that were never written; ``None`` leaves it undefined if the format allows that.
    codecs : "auto", "none", None, codec or sequence of codecs
        Names, Zarr v3 objects, numcodecs configurations or codec objects, in the order of encoding; ``None`` or
        ``"none"`` for no compression. Omitted options are filled in. ``"auto"`` is what the format's reference
        implementation uses: zstd for Zarr v3, otherwise Blosc with LZ4.
    checksum : bool
        Store a CRC-32C (4 bytes) with each chunk, or inner chunk of a shard, which every read verifies: a ``crc32c``
        codec after all others (Zarr v3, "CRC32C checksum codec"; in v2, that of numcodecs).
    order : {"C", "F"}
        Order of the elements within a chunk.
    dimension_names : sequence of str or None, optional
        Names of the axes.
    attributes : mapping, optional
        User attributes.
    format : {"zarr3", "zarr2", "zarr1", "bcolz", "n5"}, optional
        Storage format; by default the one that the suffix of `target` or `path` implies (``.bcolz``, ``.n5``, or
        ``.zarr`` for Zarr v3), else Zarr v3.
    path : str
        Path of the array in the store; groups above it are created.
    chunk_key_encoding : str or mapping, optional
        ``"/"`` or ``"."``, or a Zarr v3 chunk key encoding.
    overwrite : bool
        Replace an existing node, with all its members, once the new one is complete.
    write_empty_chunks : bool, optional
        Store chunks that are equal to the fill value; by default as set in `tegula.config`.
    allow_pickle : bool
        Allow codecs that pickle.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.

    Returns
    -------
    Array

    Raises
    ------
    AlreadyExistsError
        If a node exists and `overwrite` is false.
    MetadataError, UnsupportedError
        If an argument is invalid or unknown, contradicts the suffix, or is not supported by the format. In that case
        nothing is written.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=(100, 100), dtype="f4", chunks=(50, 50), codecs="zstd")
    >>> a.chunks, a.nchunks
    ((50, 50), 4)
    >>> tegula.create_array(tegula.MemoryStore(), data=[[1, 2], [3, 4]])[1]
    array([3, 4])
    """
    target, path, format = address_of(target, path, format)
    format = new_format(target, path, format, "zarr3")
    with creating(target, storage_options) as store:
        array = new_array_with(
            store,
            path,
            data,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            fill_value=fill_value,
            codecs=codecs,
            checksum=checksum,
            order=order,
            dimension_names=dimension_names,
            attributes=attributes,
            format=format,
            chunk_key_encoding=chunk_key_encoding,
            overwrite=overwrite,
            write_empty_chunks=write_empty_chunks,
            allow_pickle=allow_pickle,
        )
        return opened_by_name(array, target)


@known_keywords
def create_group(
    target: TargetLike,
    *,
    attributes: Mapping[str, Any] | None = None,
    format: FormatName | None = None,
    path: str = "",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to create it; see `tegula.store_of`.
    attributes : mapping, optional
        User attributes.
    format : {"zarr3", "zarr2", "n5"}, optional
        Storage format; Zarr v3 by default.
    path : str
        Path of the group in the store; groups above it are created.
    overwrite : bool
        Replace an existing node, with all its members, once the new one is complete.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.

    Returns
    -------
    Group

    Raises
    ------
    AlreadyExistsError
        If a node exists and `overwrite` is false.

    Examples
    --------
    >>> import tegula
    >>> tegula.create_group({}, attributes={"title": "example"}).attrs["title"]
    'example'
    """
    target, path, format = address_of(target, path, format)
    format = new_format(target, path, format, "zarr3")
    with creating(target, storage_options) as store:
        metadata = new_group(store, path, attributes=attributes, format=format, overwrite=overwrite)
        return opened_by_name(Group(store, path, metadata, read_only=False), target)


@known_keywords
def create_table(
    target: TargetLike,
    columns: Any,
    *,
    format: FormatName | None = None,
    path: str = "",
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    expectedlen: int | None = None,
    chunks: ChunksLike | Mapping[str, ChunksLike] = "auto",
    codecs: CodecsLike | Mapping[str, CodecsLike] = "auto",
    fill_values: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Create a table.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to create it; see `tegula.store_of`.
    columns : mapping, structured array, DataFrame, Arrow table or stream, or structured dtype
        The columns by name, of equal length; a dtype for a table without rows. The index of a DataFrame is left out,
        categories become their values, and in bcolz text gets the width of the longest. An Arrow stream is any
        object with ``__arrow_c_stream__``, such as a polars frame, a DuckDB relation or a pyarrow reader; it is stored
        piece by piece.
    format : {"bcolz", "zarr2", "zarr3"}, optional
        Storage format; by default the one that the suffix of `target` or `path` implies (``.bcolz``, or ``.zarr`` for
        Zarr v3), else bcolz.
    path : str
        Path of the table in the store.
    attributes : mapping, optional
        User attributes.
    overwrite : bool
        Replace an existing node, with all its members, once the new one is complete.
    expectedlen : int, optional
        Expected number of rows, for choosing chunks; by default the current number.
    chunks : "auto", int, or mapping
        Rows of a chunk, for all columns or by name.
    codecs : "auto", None, codec, sequence of codecs, or mapping
        As for `tegula.create_array`, for all columns or by name.
    fill_values : mapping, optional
        Fill values by column name; zero for the others. They also replace missing values from Arrow, which otherwise
        become NaN or NaT, or are an error if the type has neither.
    allow_pickle : bool
        Allow codecs that pickle, which columns of Python objects need in bcolz.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.

    Returns
    -------
    Table

    Raises
    ------
    AlreadyExistsError
        If a node exists and `overwrite` is false.
    MetadataError, UnsupportedError
        If the columns differ in length, a value is missing, or the format does not support something. In that case
        nothing is written; if a stream fails later, nothing of it is left.

    Examples
    --------
    >>> import tegula
    >>> t = tegula.create_table({}, {"day": [1, 2], "price": [10.5, 11.0]}, attributes={"currency": "EUR"})
    >>> t.names, len(t), t.attrs["currency"]
    (('day', 'price'), 2, 'EUR')
    """
    target, path, format = address_of(target, path, format)
    format = new_format(target, path, format, "bcolz")
    with creating(target, storage_options) as store:
        metadata = new_table(
            store,
            path,
            columns,
            format=format,
            attributes=attributes,
            overwrite=overwrite,
            fill_values=fill_values,
            allow_pickle=allow_pickle,
            expectedlen=expectedlen,
            chunks=chunks,
            codecs=codecs,
        )
        table = Table(store, path, metadata, read_only=False, allow_pickle=allow_pickle)
        return opened_by_name(table, target)
