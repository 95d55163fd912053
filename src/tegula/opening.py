"""Opening, creating and saving by path, URL, store or mapping."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.array import Array
from tegula.columns import new_table
from tegula.creation import completing, make_room, new_array, new_group
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.formats import find_format
from tegula.group import Group, open_node
from tegula.metadata.nodes import GroupMetadata
from tegula.node import opened_by_name
from tegula.places import abandon, clean, creating, local_path, new_format, place, store_of
from tegula.stores import Store
from tegula.table import Table
from tegula.values import as_data

__all__ = [
    "Mode",
    "create_array",
    "create_group",
    "create_table",
    "load",
    "open",
    "open_array",
    "open_group",
    "open_table",
    "save",
    "store_of",
]

Mode = Literal["r", "r+", "a", "w", "w-"]
_CREATION = frozenset(
    (
        *("shape", "dtype", "chunks", "shards", "fill_value", "codecs", "order", "dimension_names", "attributes"),
        *("checksum", "chunk_key_encoding", "write_empty_chunks"),
    )
)
_MODES = ("r", "r+", "a", "w", "w-", "x")


def _is_missing(path: str) -> bool:
    """Return whether nothing stands at a path; of one that can't be looked at the store will say why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, ValueError):
        return True
    except OSError:
        return False
    return False


def _check_mode(mode: str) -> str:
    if mode not in _MODES:
        raise MetadataError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}", field="mode")
    return "w-" if mode == "x" else mode


def open(
    target: Any,
    mode: str = "r",
    *,
    path: str = "",
    format: str | None = None,
    allow_pickle: bool = False,
    **creation: Any,
) -> Array | Group | Table:
    """Open the array, group or table that is stored somewhere, whatever its format.

    The format is told by the keys that are present. Reading never creates or changes anything.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where it is; see `tegula.store_of`.
    mode : {"r", "r+", "a", "w", "w-"}
        ``r`` reads and ``r+`` also writes what exists; ``a`` creates it if it does not; ``w`` creates it anew, deleting
        what is there; ``w-`` (or ``x``) creates it and fails if it exists.
    path : str
        Path of the node in the store.
    format : str, optional
        ``"zarr1"``, ``"zarr2"``, ``"zarr3"`` or ``"bcolz"``: looks for this format only, and creates in it. By default
        a new node gets the format of `create_array`.
    allow_pickle : bool
        Whether chunks may be unpickled, which can run any code; leave it off for files you did not write.
    **creation
        What to create, as for `create_array`; without a shape a group is created.

    Returns
    -------
    Array, Group or Table
        A group of columns is a table where the format says so (bcolz); `open_table` takes one of Zarr for a table.

    Raises
    ------
    NotFoundError
        If the mode asks for something that exists and nothing does.
    AlreadyExistsError
        If the mode is ``w-`` and something exists.
    MetadataError, UnsupportedError
        If what is there can't be read.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> a = tegula.open(store, mode="w", shape=3, dtype="u1")
    >>> tegula.open(store)[:]
    array([0, 0, 0], dtype=uint8)
    """
    mode = _check_mode(mode)
    path = clean(path)
    unknown = creation.keys() - _CREATION
    if unknown:
        raise MetadataError(f"there is no option {', '.join(sorted(unknown))}")
    if mode == "r+" and (local := local_path(target)) is not None and _is_missing(local):
        raise NotFoundError("there is no array or group", path=local)
    if mode in ("r", "r+"):
        store = store_of(target, read_only=mode == "r")
        try:
            found = open_node(store, path, format, read_only=mode == "r", allow_pickle=allow_pickle)
        except BaseException:
            abandon(store, target)
            raise
        if found is None:
            abandon(store, target)
            raise NotFoundError("there is no array or group", path=place(store, path))
        return opened_by_name(found, target)
    with creating(target) as store:
        return opened_by_name(_open_or_create(target, store, mode, path, format, allow_pickle, creation), target)


def _open_or_create(
    target: Any, store: Store, mode: str, path: str, format: str | None, allow_pickle: bool, creation: dict[str, Any]
) -> Array | Group | Table:
    if mode != "w":
        found = open_node(store, path, format, read_only=False, allow_pickle=allow_pickle)
        if found is not None:
            if mode == "w-":
                raise AlreadyExistsError("there is a node already", path=place(store, path))
            return found
    if "shape" not in creation and creation.keys() - {"attributes"}:
        raise MetadataError("a new array needs a shape", field="shape")
    options = {**creation, "format": new_format(target, path, format, "zarr3"), "overwrite": mode == "w"}
    try:
        if "shape" in creation:
            return new_array(store, path, allow_pickle=allow_pickle, **{"dtype": "f8", **options})
        return _as_group(store, path, new_group(store, path, **options))
    except AlreadyExistsError:
        found = open_node(store, path, format, read_only=False, allow_pickle=allow_pickle) if mode == "a" else None
        if found is None:
            raise
        return found  # somebody has just created it


def _as_group(store: Store, path: str, metadata: GroupMetadata) -> Group:
    return Group(store, path, metadata, read_only=False)


def _kind(node: Array | Group | Table) -> str:
    return type(node).__name__.lower()


def open_array(target: Any, mode: str = "r", **options: Any) -> Array:
    """Open or create an array; parameters and errors are those of `tegula.open`.

    Raises
    ------
    NotFoundError
        If there is no array, or what is there is a group or a table.

    Examples
    --------
    >>> import tegula
    >>> tegula.open_array({}, mode="a", shape=(2, 2), dtype="f4").shape
    (2, 2)
    """
    if "shape" not in options and _check_mode(mode) != "r":
        if mode != "a" and mode != "r+":
            raise MetadataError("a new array needs a shape", field="shape")
        mode = "r+"  # there is nothing to create it from
    node = open(target, mode, **options)
    if not isinstance(node, Array):
        raise NotFoundError(f"there is a {_kind(node)}, not an array", path=place(node.store, node.path))
    return node


def open_group(target: Any, mode: str = "r", *, consolidated: bool = False, **options: Any) -> Group:
    """Open or create a group; parameters and errors are those of `tegula.open`.

    Parameters
    ----------
    target, mode, **options
        As for `tegula.open`.
    consolidated : bool
        Take the members from the consolidated metadata without looking at their own documents, which saves reading
        them one by one. It is you who vouches that the copy is current: the default never relies on it.

    Raises
    ------
    NotFoundError
        If there is no group, what is there is an array or a table, or there is no consolidated metadata to use.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.open_group({}, mode="w")
    >>> g.create_array("x", shape=2, dtype="i1").path
    'x'
    """
    node = open(target, mode, **options)
    if not isinstance(node, Group):
        raise NotFoundError(f"there is a {_kind(node)}, not a group", path=place(node.store, node.path))
    return node._just_consolidated() if consolidated else node


def open_table(
    target: Any,
    mode: Literal["r", "r+"] = "r",
    *,
    path: str = "",
    format: str | None = None,
    allow_pickle: bool = False,
) -> Table:
    """Open a table: a ctable of bcolz, or a Zarr group of arrays of one length.

    The order of a Zarr group's columns stands in its attribute ``column-order``, as AnnData writes it; without it the
    columns are all arrays directly in the group, sorted by name.

    Parameters
    ----------
    target, path, format, allow_pickle
        As for `tegula.open`.
    mode : {"r", "r+"}
        ``r`` reads, ``r+`` also writes.

    Raises
    ------
    NotFoundError
        If there is no table, or what is there is an array.
    MetadataError
        If it is a group whose arrays are no columns of one table.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, b=np.arange(3), a=np.ones(3))
    >>> tegula.open_table(store).names
    ('a', 'b')
    """
    if mode not in ("r", "r+"):
        raise MetadataError(f"a table is opened with mode r or r+, and created with create_table; not {mode!r}")
    node = open(target, mode, path=path, format=format, allow_pickle=allow_pickle)
    if isinstance(node, Array):
        raise NotFoundError("there is an array, not a table", path=place(node.store, node.path))
    if isinstance(node, Group):
        table = Table(node.store, node.path, node.metadata, read_only=node.read_only, allow_pickle=allow_pickle)
        return opened_by_name(table, target)
    return node


def create_array(
    target: Any,
    *,
    shape: int | Sequence[int],
    dtype: Any,
    chunks: Any = "auto",
    shards: Any = None,
    fill_value: Any = 0,
    codecs: Any = "auto",
    checksum: bool = False,
    order: Literal["C", "F"] = "C",
    dimension_names: Sequence[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    format: str | None = None,
    path: str = "",
    chunk_key_encoding: Any = None,
    overwrite: bool = False,
    write_empty_chunks: bool | None = None,
    allow_pickle: bool = False,
) -> Array:
    """Create an array.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to; see `tegula.store_of`.
    shape : int or sequence of int
        Length of each axis.
    dtype : dtype-like
        Anything NumPy takes, ``"bfloat16"`` and its kin, ``str`` or ``bytes`` for elements of any length.
    chunks : "auto", int, or sequence
        Length of a chunk along each axis; ``-1`` or ``None`` for a whole axis, a list of lengths for an axis whose
        chunks differ (Zarr v3 only), ``False`` for one chunk. The rule for ``"auto"`` is that of `tegula.chunking`, and
        bcolz's own for bcolz.
    shards : None, "auto", int, or sequence of int
        Shape of the shards, multiples of the chunks; ``-1`` for a whole axis (Zarr v3 only).
    fill_value : scalar or None
        Value of elements that were never written; ``None`` leaves it undefined where the format can say so.
    codecs : "auto", "none", None, codec or sequence of codecs
        Names, Zarr v3 objects, numcodecs configurations, or codec objects, from the array to the bytes; ``None`` or
        ``"none"`` for no compression. Options that are left out are filled in. ``"auto"`` is what the format's
        reference implementation uses: zstd for v3, else Blosc with LZ4.
    checksum : bool
        Store a CRC-32C (4 bytes) with each chunk, that is with each inner chunk of a shard, which every read compares:
        a ``crc32c`` codec after all others (Zarr v3 core, "crc32c codec"; in v2, that of numcodecs as last filter).
    order : {"C", "F"}
        Order of the elements within a chunk.
    dimension_names : sequence of str or None, optional
        Names of the axes.
    attributes : mapping, optional
        The user's attributes.
    format : {"zarr3", "zarr2", "zarr1", "bcolz"}, optional
        Storage format; by default what the suffix of `target` or `path` says (``.bcolz``, or ``.zarr`` for Zarr v3),
        and Zarr v3 if it says nothing.
    path : str
        Path of the array in the store; groups above it are created.
    chunk_key_encoding : str or mapping, optional
        ``"/"`` or ``"."``, or a Zarr v3 chunk key encoding.
    overwrite : bool
        Delete the node that is there, with all below it.
    write_empty_chunks : bool, optional
        Store chunks that are equal to the fill value; by default as `tegula.config` says.
    allow_pickle : bool
        Whether a codec may pickle.

    Returns
    -------
    Array

    Raises
    ------
    AlreadyExistsError
        If there is a node and `overwrite` is false.
    MetadataError, UnsupportedError
        If an argument is not valid, contradicts the suffix, or the format has no form for it. Nothing has been
        written then.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=(100, 100), dtype="f4", chunks=(50, 50), codecs="zstd")
    >>> a.chunks, a.nchunks
    ((50, 50), 4)
    """
    path = clean(path)
    format = new_format(target, path, format, "zarr3")
    with creating(target) as store:
        array = new_array(
            store,
            path,
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


def create_group(
    target: Any,
    *,
    attributes: Mapping[str, Any] | None = None,
    format: str | None = None,
    path: str = "",
    overwrite: bool = False,
) -> Group:
    """Create a group.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to; see `tegula.store_of`.
    attributes : mapping, optional
        The user's attributes.
    format : {"zarr3", "zarr2"}, optional
        Storage format; Zarr v3 by default.
    path : str
        Path of the group in the store; groups above it are created.
    overwrite : bool
        Delete the node that is there, with all below it.

    Raises
    ------
    AlreadyExistsError
        If there is a node and `overwrite` is false.

    Examples
    --------
    >>> import tegula
    >>> tegula.create_group({}, attributes={"title": "example"}).attrs["title"]
    'example'
    """
    path = clean(path)
    format = new_format(target, path, format, "zarr3")
    with creating(target) as store:
        metadata = new_group(store, path, attributes=attributes, format=format, overwrite=overwrite)
        return opened_by_name(_as_group(store, path, metadata), target)


def create_table(
    target: Any,
    columns: Any,
    *,
    format: str | None = None,
    path: str = "",
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    expectedlen: int | None = None,
    chunks: Any = "auto",
    codecs: Any = "auto",
    fill_values: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
) -> Table:
    """Create a table.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to; see `tegula.store_of`.
    columns : mapping, structured array, DataFrame, Arrow table, or structured dtype
        The columns by name, of one length; a dtype for a table without rows. Of a DataFrame the index is left out,
        categories become what they stand for, and text gets a fixed width in bcolz: that of the longest.
    format : {"bcolz", "zarr2", "zarr3"}, optional
        Storage format; by default what the suffix of `target` or `path` says (``.bcolz``, or ``.zarr`` for Zarr v3),
        and bcolz if it says nothing.
    path : str
        Path of the table in the store.
    attributes : mapping, optional
        The user's attributes.
    overwrite : bool
        Delete the node that is there, with all below it.
    expectedlen : int, optional
        How many rows the table will have, for choosing chunks; by default as many as it has now.
    chunks : "auto", int, or mapping
        Rows of a chunk, for all columns or by name.
    codecs : "auto", None, codec, sequence of codecs, or mapping
        As for `tegula.create_array`, for all columns or by name.
    fill_values : mapping, optional
        Fill values by name; zero for the others.
    allow_pickle : bool
        Whether a codec may pickle, which columns of Python objects need in bcolz.

    Raises
    ------
    AlreadyExistsError
        If there is a node and `overwrite` is false.
    MetadataError, UnsupportedError
        If the columns differ in length, a value is missing, or the format has no form for something. Nothing has been
        written then.

    Examples
    --------
    >>> import tegula
    >>> t = tegula.create_table({}, {"day": [1, 2], "price": [10.5, 11.0]}, attributes={"currency": "EUR"})
    >>> t.names, len(t), t.attrs["currency"]
    (('day', 'price'), 2, 'EUR')
    """
    path = clean(path)
    format = new_format(target, path, format, "bcolz")
    with creating(target) as store:
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


def save(
    target: Any,
    values: Any = None,
    /,
    *,
    path: str = "",
    format: str | None = None,
    overwrite: bool = False,
    **arrays: Any,
) -> None:
    """Store one array, or several in a new group by name.

    An array that is there is replaced. A group or a table, with everything in it, is replaced only with
    ``overwrite=True``; to add an array to a group, give its own path: ``save(target, values, path="group/name")``.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to; see `tegula.store_of`.
    values : array_like, optional
        The array to store.
    path : str
        Path of the node in the store.
    format : str, optional
        Storage format; by default as for `create_array`.
    overwrite : bool
        Delete the group or table that is there, with everything in it.
    **arrays : array_like
        Arrays to store as members of a group.

    Raises
    ------
    AlreadyExistsError
        If there is a group or a table, or there are members below the path, and `overwrite` is false.
    MetadataError
        If there is nothing to store, or both one array and named ones.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, x=np.arange(3), y=np.ones(2))
    >>> sorted(tegula.load(store))
    ['x', 'y']
    >>> tegula.save(store, np.zeros(5))
    Traceback (most recent call last):
    ...
    tegula.errors.AlreadyExistsError: a group with the members x, y is there; pass overwrite=True to delete all of it...
    """
    if (values is None) == (not arrays):
        raise MetadataError("save takes one array, or arrays by name")
    path = clean(path)
    format = new_format(target, path, format, "zarr3")
    # nothing is replaced before it is clear that there is something to replace it
    one = None if values is None else as_data(values)
    several = {name: as_data(value) for name, value in arrays.items()}
    with creating(target) as store:
        if not overwrite:
            _refuse_group(store, path)
        if one is not None:
            _save_one(store, path, one, format, overwrite=True)
        else:
            if find_format(format).has_groups:
                new_group(store, path, format=format, overwrite=True)
            else:
                make_room(store, path)
            for name, value in several.items():
                _save_one(store, f"{path}/{name}".lstrip("/"), value, format, overwrite=True)
    if store is not target:
        store.close()


def _refuse_group(store: Store, path: str) -> None:
    """Raise `AlreadyExistsError` if there is a group or a table at a path, or nodes are directly below it."""
    try:
        there = engine.read_metadata(store, path)
    except (MetadataError, UnsupportedError):
        there = None  # documents that can't be read are replaced, like an array
    if not isinstance(there, GroupMetadata):
        there = engine.implicit_group(store, path, None)
    if there is None:
        return
    prefix = f"{path}/" if path else ""
    names = there.members or [child[len(prefix) : -1] for child in store.list_dir(prefix)[1]]
    kind, parts = ("table", "columns") if there.members is not None else ("group", "members")
    listed = f" with the {parts} {', '.join(names[:3])}{', …' if len(names) > 3 else ''}" if names else ""
    raise AlreadyExistsError(
        f"a {kind}{listed} is there; pass overwrite=True to delete all of it", path=place(store, path)
    )


def _save_one(store: Store, path: str, data: npt.NDArray[Any], format: str, overwrite: bool) -> None:
    dtype: Any = str if data.dtype.kind == "O" and all(isinstance(item, str) for item in data.flat) else data.dtype
    options: dict[str, Any] = {"format": format, "overwrite": overwrite, "filled": False}
    with completing(new_array(store, path, shape=data.shape, dtype=dtype, **options)) as array:
        array[...] = data


def load(target: Any, *, path: str = "", allow_pickle: bool = False) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """Read an array, or all arrays directly in a group or table by name, into memory.

    Raises
    ------
    NotFoundError
        If there is nothing.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, np.arange(4))
    >>> tegula.load(store)
    array([0, 1, 2, 3])
    """
    node = open(target, path=path, allow_pickle=allow_pickle)
    if isinstance(node, Array):
        return np.asarray(node[...])
    if isinstance(node, Table):
        return node.read()
    return {name: np.asarray(array[...]) for name, array in node.arrays()}
