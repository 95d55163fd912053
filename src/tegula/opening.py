"""Opening arrays, groups and tables by path, URL, store or mapping."""

from __future__ import annotations

from typing import Any, Literal

from tegula.arrays import Array
from tegula.creation import new_array, new_group
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError
from tegula.filling import CREATION
from tegula.foreign import refuse_foreign
from tegula.group import Group, open_node
from tegula.keywords import check_keywords
from tegula.metadata.nodes import GroupMetadata
from tegula.node import opened_by_name
from tegula.places import abandon, clean, creating, is_missing, local_path, new_format, place, store_of
from tegula.stores import Store
from tegula.table import Table

__all__ = [
    "Mode",
    "open",
    "open_array",
    "open_group",
    "open_table",
]

Mode = Literal["r", "r+", "a", "w", "w-"]
_KEYWORDS = CREATION | {"shape", "dtype", "path", "format", "allow_pickle"}
_MODES = ("r", "r+", "a", "w", "w-", "x")


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
) -> Any:
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
        A type checker can't know which, and takes it for anything; `open_array`, `open_group` and `open_table` say.

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
    check_keywords("open", creation, _KEYWORDS)
    if mode == "r+" and (local := local_path(target)) is not None and is_missing(local):
        raise NotFoundError("there is no array or group", path=local)
    found: Array | Group | Table | None
    if mode in ("r", "r+"):
        store = store_of(target, read_only=mode == "r")
        try:
            found = open_node(store, path, format, read_only=mode == "r", allow_pickle=allow_pickle)
        except BaseException:
            abandon(store, target)
            raise
        if found is None:
            abandon(store, target)
            refuse_foreign(local_path(target) if not path else None)
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
    node: Array | Group | Table = open(target, mode, **options)
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
    node: Array | Group | Table = open(target, mode, **options)
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
    node: Array | Group | Table = open(target, mode, path=path, format=format, allow_pickle=allow_pickle)
    if isinstance(node, Array):
        raise NotFoundError("there is an array, not a table", path=place(node.store, node.path))
    if isinstance(node, Group):
        table = Table(node.store, node.path, node.metadata, read_only=node.read_only, allow_pickle=allow_pickle)
        return opened_by_name(table, target)
    return node
