"""`tegula.open`, `open_array`, `open_group` and `open_table`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from tegula import arrays, engine, hierarchy
from tegula.arrays.array import Array
from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import opened_by_name
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError, brief
from tegula.metadata.nodes import ArrayMetadata
from tegula.runtime.deferred import Later
from tegula.stores.names import ARCHIVES
from tegula.stores.targets import opening as targets
from tegula.stores.targets.opening import abandon, creating
from tegula.stores.targets.paths import address_of, local_path, location_of, may_be_view, refuse_missing

if TYPE_CHECKING:
    from tegula import tables
    from tegula.arrays.arguments import FormatName, Missing, Mode, TargetLike
    from tegula.hierarchy import drafts, viewed
    from tegula.hierarchy.group import Group
    from tegula.stores import Store
    from tegula.stores.targets import foreign, nearest
    from tegula.tables.table import Table
else:
    foreign, tables = Later("tegula.stores.targets.foreign"), Later("tegula.tables")
    nearest = Later("tegula.stores.targets.nearest")
    drafts, viewed = Later("tegula.hierarchy.drafts"), Later("tegula.hierarchy.viewed")

__all__ = [
    "open",
    "open_array",
    "open_group",
    "open_stored",
    "open_table",
    "store_of",
]

store_of = known_keywords(targets.store_of)

_GROUP_OPTIONS: Final = frozenset({"attributes", "path", "format", "allow_pickle", "missing_chunks", "storage_options"})

_MODES = ("r", "r+", "a", "w", "w-", "x")


def _check_mode(mode: Mode) -> Mode:
    if mode not in _MODES:
        raise MetadataError(f"mode must be one of {', '.join(_MODES)}, not {brief(mode)}", field="mode")
    return "w-" if mode == "x" else mode


def open(
    target: TargetLike | None = None,
    mode: Mode = "r",
    *,
    path: str = "",
    format: FormatName | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **creation: Any,
) -> Any:
    """Open an array, group or table of any format.

    The format is detected from the stored keys. Reading never creates or changes anything.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where it is stored; see `tegula.store_of`. Text may name a node inside a store: ``x.zarr::inner/path``, or a URL
        pipeline such as ``s3://bucket/x.zip|zip:inner|zarr3:path``. The document of a view, stored by `save_view`,
        opens as a view.
    mode : {"r", "r+", "a", "w", "w-"}
        ``r`` reads and ``r+`` reads and writes an existing node; ``a`` creates it if it does not exist; ``w`` creates
        it, deleting an existing one; ``w-`` (or ``x``) creates it and fails if it exists.
    path : str
        Path of the node in the store.
    format : str, optional
        ``"zarr1"``, ``"zarr2"``, ``"zarr3"``, ``"bcolz"`` or ``"n5"``, to open or create this format only. By default
        any format is opened, and a new node gets the format that `create_array` would choose.
    allow_pickle : bool
        Allow unpickling of chunks, which can run any code; leave it off for files you did not write.
    missing_chunks : {"fill", "error"}, optional
        What reads of chunks that are not stored give, here and in all members: the fill value, or a `NotFoundError`.
        By default the setting of `tegula.config` decides. Inner chunks of shards count, too.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.
    **creation
        Options of the new array, as for `create_array`; without a shape a group is created.

    Returns
    -------
    Array, Group or Table
        A bcolz ctable is a table; `open_table` opens a Zarr group of columns as one. For type checkers the result is
        ``Any``; `open_array`, `open_group` and `open_table` have exact types.

    Raises
    ------
    NotFoundError
        If the mode requires an existing node and there is none.
    AlreadyExistsError
        If the mode is ``w-`` and a node exists.
    MetadataError, UnsupportedError
        If the stored documents can't be read.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> a = tegula.open(store, mode="w", shape=3, dtype="u1")
    >>> tegula.open(store)[:]
    array([0, 0, 0], dtype=uint8)
    """
    if target is None:
        target = creation.pop("store", None)
    mode = _check_mode(mode)
    if missing_chunks is not None:
        engine.missing_rule(missing_chunks)
    target, path, format = address_of(target, path, format)
    if mode in ("r", "r+") and not path and format is None and may_be_view(target):
        view = viewed.view_of_document(target, mode, storage_options, missing_chunks)
        if view is not None:
            return view
    if creation:
        known = {"shape", "dtype", "path", "format", "allow_pickle", "storage_options"}
        arrays.check_keywords("open", creation, arrays.CREATION | known)
    if mode == "r+" and _may_be_archive(target):
        refuse_missing(target)  # before an archive is created
    node: Array | Group | Table | None
    if mode in ("r", "r+"):
        store = targets.store_of(target, read_only=mode == "r", storage_options=storage_options)
        try:
            how: dict[str, Any] = {"format": format, "read_only": mode == "r", "allow_pickle": allow_pickle}
            try:
                node = _open_node(store, path, **how)
            except UnsupportedError as error:
                node = _open_elsewhere(store, path, how, error)
            if node is None:
                node = _open_elsewhere(store, path, how)
        except BaseException:
            abandon(store, target)
            raise
        if node is None:
            abandon(store, target)
            foreign.refuse_foreign(local_path(target) if not path else None)
            refuse_missing(target)
            advice = nearest.member_advice(store, path)
            raise NotFoundError(f"there is no array or group{advice}", path=location_of(store, path))
        node = opened_by_name(node, target)
    else:
        with creating(target, storage_options) as store:
            node = opened_by_name(_open_or_create(target, store, mode, path, format, allow_pickle, creation), target)
    if missing_chunks is not None:
        node.missing_chunks = missing_chunks
    return node


def open_stored(target: Any, mode: Mode = "r", **options: Any) -> Any:
    """Open a node as `open` does, for functions that take nodes: a view's document opens as a read-only array."""
    node = open(target, mode, **options)
    return open(node.as_store(), mode) if hasattr(type(node), "as_store") else node


def _may_be_archive(target: Any) -> bool:
    """Return whether a target may name a zip archive; false for most directories, which saves a system call."""
    if not isinstance(target, (str, os.PathLike)):
        return False
    path = os.fspath(target)
    return not isinstance(path, str) or ":" in path or path.endswith(ARCHIVES)


def _open_node(
    store: Store, path: str, *, format: str | None, read_only: bool, allow_pickle: bool
) -> Array | Group | Table | None:
    metadata = engine.read_metadata(store, path, format, kept=True)
    if isinstance(metadata, ArrayMetadata):
        stored = engine.stored_array(store, path, metadata, allow_pickle=allow_pickle)
        return Array(stored, path, read_only=read_only, allow_pickle=allow_pickle)
    return hierarchy.group_at(store, path, metadata, format, read_only=read_only, allow_pickle=allow_pickle)


def _open_elsewhere(
    store: Store, path: str, how: Mapping[str, Any], error: UnsupportedError | None = None
) -> Array | Group | Table | None:
    """Open a node in a hierarchy of a draft of Zarr v3; raise `error` if there is none that it may be about."""
    if (found := drafts.elsewhere(store, path, error)) is not None:
        return _open_node(*found, **how)
    if error is not None:
        raise error
    return None


def _open_or_create(
    target: Any, store: Store, mode: str, path: str, format: str | None, allow_pickle: bool, creation: dict[str, Any]
) -> Array | Group | Table:
    if mode != "w":
        node = _open_node(store, path, format=format, read_only=False, allow_pickle=allow_pickle)
        if node is not None:
            if mode == "w-":
                raise AlreadyExistsError(
                    'something already exists at this path; open it with mode="w" to replace it',
                    path=location_of(store, path),
                )
            return node
    if "shape" not in creation and creation.keys() - {"attributes"}:
        raise MetadataError("a new array needs a shape", field="shape")
    options = {**creation, "format": arrays.new_format(target, path, format, "zarr3"), "overwrite": mode == "w"}
    try:
        if "shape" in creation:
            return arrays.new_array(store, path, allow_pickle=allow_pickle, **{"dtype": "f8", **options})
        return hierarchy.Group(store, path, arrays.new_group(store, path, **options), read_only=False)
    except AlreadyExistsError:
        node = (
            _open_node(store, path, format=format, read_only=False, allow_pickle=allow_pickle) if mode == "a" else None
        )
        if node is None:
            raise
        return node  # another process has just created it


def _kind(node: Any) -> str:
    return "an array" if isinstance(node, Array) else f"a {node.kind}"


def open_array(target: TargetLike | None = None, mode: Mode = "r", **options: Any) -> Array:
    """Open or create an array; parameters and errors are those of `tegula.open`.

    Raises
    ------
    NotFoundError
        If there is no node, or it is a group or a table.

    Examples
    --------
    >>> import tegula
    >>> tegula.open_array({}, mode="a", shape=(2, 2), dtype="f4").shape
    (2, 2)
    """
    if target is None:
        target = options.pop("store", None)
    if "shape" not in options and _check_mode(mode) != "r":
        if mode != "a" and mode != "r+":
            raise MetadataError("a new array needs a shape", field="shape")
        mode = "r+"  # nothing can be created without a shape
    node = open_stored(target, mode, **options)
    if not isinstance(node, Array):
        raise NotFoundError(f"there is {_kind(node)}, not an array", path=node.location)
    return node


def open_group(
    target: TargetLike | None = None, mode: Mode = "r", *, consolidated: bool = False, **options: Any
) -> Group:
    """Open or create a group; parameters and errors are those of `tegula.open`.

    Parameters
    ----------
    target, mode, **options
        As for `tegula.open`.
    consolidated : bool
        Take the members from the consolidated metadata, which saves reading their documents one by one. Use it
        only if you know that the copy is up to date; by default members are read from their own documents. A new
        group has no consolidated metadata.

    Raises
    ------
    NotFoundError
        If there is no node, it is an array or a table, or there is no consolidated metadata to use.
    MetadataError
        If an option is one of arrays, or `consolidated` is true and the mode creates a group. Nothing is changed then.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.open_group({}, mode="w")
    >>> g.create_array("x", shape=2, dtype="i1").path
    'x'
    """
    if target is None:
        target = options.pop("store", None)
    if not _GROUP_OPTIONS.issuperset(options):
        arrays.check_keywords("open_group", options, _GROUP_OPTIONS)
    if consolidated and _check_mode(mode) != "r":
        if mode != "a" and mode != "r+":
            raise MetadataError("a new group has no consolidated metadata; open it with mode r, r+ or a", field="mode")
        mode = "r+"  # a new group would have none
    node = open(target, mode, **options)
    if not isinstance(node, hierarchy.Group):
        raise NotFoundError(f"there is {_kind(node)}, not a group", path=node.location)
    return node.with_consolidated(just_opened=True) if consolidated else node


@known_keywords
def open_table(
    target: TargetLike,
    mode: Literal["r", "r+"] = "r",
    *,
    path: str = "",
    format: FormatName | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Open a table: a bcolz ctable, or a Zarr group of arrays of equal length.

    The attribute ``column-order`` of a Zarr group holds the names of its columns in order, as AnnData writes it.
    Without it the columns are all arrays directly in the group, sorted by name.

    Parameters
    ----------
    target, path, format, allow_pickle, missing_chunks, storage_options
        As for `tegula.open`.
    mode : {"r", "r+"}
        ``r`` reads, ``r+`` also writes.

    Raises
    ------
    NotFoundError
        If there is no node, or it is an array.
    MetadataError
        If the arrays of the group differ in length.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, b=np.arange(3), a=np.ones(3))
    >>> tegula.open_table(store).names
    ('a', 'b')
    """
    if mode not in ("r", "r+"):
        raise MetadataError(f"a table is opened with mode r or r+, and created with create_table; not {brief(mode)}")
    options: dict[str, Any] = {"allow_pickle": allow_pickle, "missing_chunks": missing_chunks}
    node = open(target, mode, path=path, format=format, storage_options=storage_options, **options)
    if not isinstance(node, (hierarchy.Group, tables.Table)):
        raise NotFoundError(f"there is {_kind(node)}, not a table", path=node.location)
    if isinstance(node, hierarchy.Group):
        table = tables.Table(node.store, node.path, node.metadata, read_only=node.read_only, allow_pickle=allow_pickle)
        table.missing_chunks = missing_chunks
        return opened_by_name(table, target)
    return node
