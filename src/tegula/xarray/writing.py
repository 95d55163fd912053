"""`write`: data sets stored as ``Dataset.to_zarr`` stores them, but no region has to match the chunks."""

from __future__ import annotations

import atexit
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

import xarray as xr
from xarray.backends.common import ArrayWriter

from tegula.arrays.creation import new_format, new_group
from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import Node, opened_by_name
from tegula.arrays.sharing import SharedTarget
from tegula.engine import read_metadata
from tegula.engine.nodes.replacing import Replacement
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.formats import find_format
from tegula.hierarchy import opening
from tegula.hierarchy.group import Group
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store
from tegula.stores.targets.opening import creating
from tegula.stores.targets.paths import address_of
from tegula.xarray.encoding import EncodingTypeError
from tegula.xarray.storing import GroupWriter

__all__ = ["write"]

_FORMATS: Final = {2: "zarr2", 3: "zarr3"}
_TAKEN: Final = "something exists there; choose mode='w' to replace it, or mode='a' and its own format to add to it"
_MODES: Final = ("w", "w-", "a", "a-", "r+")
# how xarray stores the name of an array that a variable can't have
_ARRAY: Final = "__xarray_dataarray_variable__"
_ARRAY_NAME: Final = "__xarray_dataarray_name__"


@known_keywords
def write(
    data: xr.Dataset | xr.DataArray | xr.DataTree,
    target: Any,
    *,
    group: str | None = None,
    mode: Literal["w", "w-", "a", "a-", "r+"] | None = None,
    append_dim: Hashable | None = None,
    region: Mapping[Any, slice | Literal["auto"]] | Literal["auto"] | None = None,
    encoding: Mapping[Any, Mapping[str, Any]] | None = None,
    consolidated: bool | None = None,
    format: str | None = None,
    zarr_format: Literal[2, 3] | None = None,
    write_empty_chunks: bool | None = None,
    compute: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    write_inherited_coords: bool = False,
    chunkmanager_store_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Store a data set as Zarr v3 or v2, in the form of ``Dataset.to_zarr``.

    Any number of threads, processes and dask workers can write regions and append at once: a chunk or shard that
    several of them change keeps the changes of each, and each append gets a part of its own, the same in all variables.

    Parameters
    ----------
    data : Dataset, DataArray or DataTree
        The data, in memory or as dask arrays.
    target : str, path, mapping, Store or Group
        Where to store it; see `tegula.store_of`.
    group : str, optional
        Path of the group in the target.
    mode : {"w", "w-", "a", "a-", "r+"}, optional
        ``w`` replaces everything there, once the new data are stored; ``w-`` fails if anything is there; ``a`` adds
        variables and replaces the elements of existing ones; ``a-`` does so, but with `append_dim` leaves existing
        variables without this dimension as they are; ``r+`` replaces elements only. The default is ``a`` with
        `append_dim`, ``r+`` with `region`, else ``w-``.
    append_dim : str, optional
        The dimension along which stored variables become longer.
    region : "auto" or mapping of dimension to slice or "auto", optional
        The part of stored variables to write; ``"auto"`` finds it by the values of the coordinates.
    encoding : mapping of variable to mapping, optional
        Encoding of new variables, as in xarray: ``dtype``, ``scale_factor``, ``units``, …; ``chunks``, ``shards``,
        ``filters``, ``serializer``, ``compressors``, ``chunk_key_encoding``, ``write_empty_chunks`` and, in Zarr v3,
        ``fill_value``. Codecs are given as in `tegula.create_array`. For a tree: by path of the group.
    consolidated : bool, optional
        Whether to write consolidated metadata; by default unless the mode is ``r+``, which changes no metadata.
    format : {"zarr3", "zarr2"}, optional
        Format of a new group; by default Zarr v3.
    zarr_format : {2, 3}, optional
        The same, as in ``Dataset.to_zarr``.
    write_empty_chunks : bool, optional
        Store chunks that are equal to the fill value.
    compute : bool
        With ``False``, dask arrays are not stored yet.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.
    write_inherited_coords : bool
        For a tree: also store inherited coordinates with each group.
    chunkmanager_store_kwargs : mapping, optional
        Options of ``dask.array.store``.

    Returns
    -------
    None or dask.delayed.Delayed
        With ``compute=False``, an object whose ``compute()`` stores the elements of dask arrays.

    Raises
    ------
    MetadataError
        If an argument is invalid, or the data does not fit the stored data: other dimensions, sizes or text of
        another length. It is a ``ValueError``, and also a ``TypeError`` where ``to_zarr`` raises one.
    AlreadyExistsError, NotFoundError
        If the mode does not allow an existing node, or if a node is missing.
    UnsupportedError
        If the format can't hold the data.

    Examples
    --------
    >>> import numpy as np, tegula, tegula.xarray, xarray as xr
    >>> store = tegula.MemoryStore()
    >>> ds = xr.Dataset({"t": ("time", np.arange(5.0))}, {"time": np.arange(5)})
    >>> tegula.xarray.write(ds, store, encoding={"t": {"chunks": (4,)}})
    >>> tegula.xarray.write(ds.assign_coords(time=ds.time + 5), store, append_dim="time")
    >>> late = xr.Dataset({"t": ("time", [70.0, 80.0])}, {"time": [7, 8]})
    >>> tegula.xarray.write(late, store, region="auto")
    >>> xr.open_dataset(store, engine="tegula")["t"].values
    array([ 0.,  1.,  2.,  3.,  4.,  0.,  1., 70., 80.,  4.])
    """
    chosen = _mode(mode, append_dim, region)
    if isinstance(data, xr.DataTree) and (group is not None or append_dim is not None):
        raise UnsupportedError("a DataTree is stored at the root, and can't be appended; write its groups one by one")
    if not isinstance(data, (xr.Dataset, xr.DataArray, xr.DataTree)):
        raise EncodingTypeError(f"the data must be a Dataset, DataArray or DataTree, not {type(data).__name__}")

    if write_empty_chunks not in (None, True, False):
        raise MetadataError(
            f"write_empty_chunks is True, False or None, not {write_empty_chunks!r:.80}", field="write_empty_chunks"
        )
    how: dict[str, Any] = {"append_dim": append_dim, "region": region, "write_empty_chunks": write_empty_chunks}
    groups = _datasets(data, encoding or {}, write_inherited_coords)
    where, path, format = _place(target, group, _format(format, zarr_format))

    # all that can be wrong with the data, before anything is created or deleted
    with creating(where, storage_options) as store:
        if format is None and path:  # members have the format of the groups above them
            root = read_metadata(store, "")
            format = root.format if isinstance(root, GroupMetadata) and root.format in _FORMATS.values() else None
        opened = _existing(store, path, chosen, format)
        planned = _planned(store, path, format) if opened is None else opened
        writers = _writers(planned, opened is None, chosen, groups, how)
        encoded = [writer.encoded(*given) for writer, given in zip(writers, groups.values())]
        target = opened_by_name(planned, where)
        place = Replacement(store, path, find_format(planned.format), chosen == "w", "lazy")
    writing = _Writing(target, place, consolidated or (consolidated is None and chosen != "r+"))

    # metadata, and elements in memory
    elements = ArrayWriter()
    try:
        written = _created(planned, chosen, place) if opened is None else opened
        for name, group_writer, prepared in zip(groups, writers, encoded):
            group_writer.store(prepared, written.require_group(name) if name else written, elements)
        writing.consolidate(written)
    except BaseException:
        writing.close()
        raise

    # chunked elements
    elements.targets = [SharedTarget(array) for array in elements.targets]
    if not compute:
        writes = elements.sync(compute=False, chunkmanager_store_kwargs=chunkmanager_store_kwargs)
        atexit.register(place.close)
        return import_module("dask").delayed(_finish)(writes, writing)
    try:
        elements.sync(compute=True, chunkmanager_store_kwargs=chunkmanager_store_kwargs)
        writing.complete()
    finally:
        writing.close()
    return None


@dataclass
class _Writing:
    """A group that is being written, perhaps beside another one that it will replace."""

    target: Group
    place: Replacement
    consolidates: bool

    def consolidate(self, group: Group) -> None:
        """Write consolidated metadata, unless they belong to a group above one that is still beside its place."""
        if self.consolidates and self.place.is_staged and not self.target.path:
            group.consolidate()
        elif self.consolidates and not self.place.is_staged:
            _consolidate(group)

    def complete(self) -> None:
        """Put the group, whose elements are written, in its place."""
        self.place.put()
        if self.consolidates and self.place.is_staged and self.target.path:
            _consolidate(self.target)

    def close(self) -> None:
        """Remove what was not put in place, and close the store."""
        self.place.close()
        atexit.unregister(self.place.close)
        self.target.close()


def _mode(mode: Any, append_dim: Any, region: Any) -> str:
    if mode is None:
        return "a" if append_dim is not None else "w-" if region is None else "r+"
    if mode not in _MODES:
        raise MetadataError(f"The only supported options for mode are {', '.join(_MODES)}, not {mode!r}", field="mode")
    if append_dim is not None and mode not in ("a", "a-"):
        raise MetadataError(f"cannot set append_dim unless mode='a', mode='a-' or mode=None; it is {mode!r}")
    if region is not None and mode not in ("a", "a-", "r+"):
        raise MetadataError(
            f"cannot set region unless mode='a', mode='a-', mode='r+' or mode=None; it is {mode!r}", field="region"
        )
    return str(mode)


def _format(format: str | None, number: Any) -> str | None:
    """Return the format of a new group, given by name, by number or not at all."""
    if number is not None:
        if number not in _FORMATS or format not in (None, _FORMATS[number]):
            raise MetadataError(f"zarr_format={number!r} is neither 2 nor 3, or contradicts format={format!r}")
        return _FORMATS[number]
    if format is not None and find_format(format).name not in _FORMATS.values():
        raise UnsupportedError(f"data sets of xarray are stored as zarr3 or zarr2, not {format}", field="format")
    return format


def _place(target: Any, group: str | None, format: str | None) -> tuple[Any, str, str | None]:
    """Return what holds the group, its path there, and the format that a group of tegula implies."""
    target, path, format = address_of(target, group or "", format)
    if not isinstance(target, Node):
        return target, path, format
    path = "/".join(part for part in (target.path, path) if part)
    return target.store, path, target.format if format is None and isinstance(target, Group) else format


def _existing(store: Store, path: str, mode: str, format: str | None) -> Group | None:
    """Return the group to add to, or ``None`` to create a new one."""
    if mode == "w":
        return None
    try:
        found = opening.open_group(store, "r+", path=path, format=format)
    except NotFoundError:
        if mode == "r+":
            raise
        return None
    if mode == "w-":
        raise AlreadyExistsError(_TAKEN, path=found.location)
    if found.format not in _FORMATS.values():
        raise UnsupportedError(f"a data set can't be written to a group of the format {found.format}", path=path)
    return found


def _planned(store: Store, path: str, format: str | None) -> Group:
    """Return a group that does not exist yet, or will be replaced."""
    format = new_format(store, path, format, "zarr3")
    if format not in _FORMATS.values():
        raise UnsupportedError(f"data sets of xarray are stored as zarr3 or zarr2, not {format}", path=path)
    return Group(store, path, GroupMetadata(format=format), read_only=False)


def _created(group: Group, mode: str, place: Replacement) -> Group:
    """Create a group that was planned."""
    if place.is_staged:
        metadata = new_group(place.store, place.path, format=group.format, **place.options)
        return Group(place.store, place.path, metadata, read_only=False)
    try:
        how: Any = "a" if mode == "a-" else mode
        return opening.open_group(group.store, how, path=group.path, format=group.format)
    except AlreadyExistsError as error:
        raise AlreadyExistsError(_TAKEN, path=error.path) from error


def _as_dataset(array: xr.DataArray) -> xr.Dataset:
    if array.name is not None and array.name not in array.coords and array.name not in array.dims:
        return array.to_dataset()
    dataset = array.to_dataset(name=_ARRAY)
    return dataset if array.name is None else dataset.assign_attrs({_ARRAY_NAME: array.name})


def _datasets(
    data: xr.Dataset | xr.DataArray | xr.DataTree, encoding: Mapping[Any, Any], inherited: bool
) -> dict[str, tuple[xr.Dataset, Mapping[Any, Any]]]:
    """Return the data set of each group with its encoding, by path below the group to write; parents come first."""
    if not isinstance(data, xr.DataTree):
        return {"": (_as_dataset(data) if isinstance(data, xr.DataArray) else data, encoding)}
    if unknown := {*encoding} - {*data.groups}:
        raise MetadataError(f"unexpected encoding group name(s) provided: {sorted(unknown, key=str)!r:.200}")
    return {
        "" if node is data else node.relative_to(data): (
            node.to_dataset(inherit=inherited or node is data),
            encoding.get(node.path) or {},
        )
        for node in data.subtree
    }


def _writers(root: Group, is_new: bool, mode: str, paths: Iterable[str], how: Mapping[str, Any]) -> list[GroupWriter]:
    """Return a writer for each path below a group, or for the group itself; no group is created yet."""
    writers = []
    for path in paths:
        exists = not is_new and (not path or path in root)
        if path:
            group = root.require_group(path) if exists else _planned(root.store, root.path_of(path), root.format)
        writers.append(GroupWriter(group if path else root, not exists, mode, **how))
    return writers


def _consolidate(group: Group) -> None:
    """Write consolidated metadata at the root of the store, or in the group itself if the root is no group."""
    root = Group(group.store, "", group.metadata, read_only=False) if not group.path else _root(group)
    root.consolidate()


def _root(group: Group) -> Group:
    found = opening.open(group.store, "r+")
    return found if isinstance(found, Group) and found.metadata.documents and found.format == group.format else group


def _finish(writes: Any, writing: _Writing) -> None:
    """Complete a group after everything has been written to it."""
    try:
        writing.complete()
    finally:
        writing.close()
