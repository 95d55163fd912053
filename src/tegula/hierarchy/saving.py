"""`tegula.save` and `load`: whole arrays stored and read in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import new_format, new_group, writable_format
from tegula.arrays.filling import new_array_with
from tegula.arrays.keywords import known_keywords
from tegula.arrays.values import as_data
from tegula.engine.documents.finding import children
from tegula.engine.nodes.replacing import replacing
from tegula.errors import AlreadyExistsError, MetadataError, UnsupportedError
from tegula.formats import Format
from tegula.hierarchy.opening import open_stored as open_node
from tegula.metadata.nodes import GroupMetadata
from tegula.stores import Store
from tegula.stores.targets.opening import creating
from tegula.stores.targets.paths import address_of, location_of
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import FormatName, TargetLike

__all__ = ["load", "save"]


def save(
    target: TargetLike | None = None,
    values: Any = None,
    /,
    *,
    path: str = "",
    format: FormatName | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **arrays: Any,
) -> None:
    """Store one array, or several by name in a new group.

    An existing array is replaced; a group or table, with all its members, only with ``overwrite=True``. To add an array
    to a group, give its own path: ``save(target, values, path="group/name")``.

    Parameters
    ----------
    target : str, path, mapping or Store
        Where to store them; see `tegula.store_of`. Without it, the keyword ``store`` says that.
    values : array_like, optional
        The array to store.
    path : str
        Path of the node in the store.
    format : str, optional
        Storage format; by default as for `create_array`.
    overwrite : bool
        Delete an existing group or table, with all its members.
    storage_options : mapping, optional
        Settings of the storage, if `target` is a URL; see `tegula.store_of`.
    **arrays : array_like
        Arrays to store as members of a group.

    Raises
    ------
    AlreadyExistsError
        If a group, a table, or nodes below the path exist, and `overwrite` is false.
    MetadataError
        If no array is given, or both one array and named ones.

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
    tegula.errors.AlreadyExistsError: a group with the members x, y already exists at this path; pass overwrite=True ...
    """
    if target is None:
        target = arrays.pop("store", None)
    if values is not None and arrays:
        raise MetadataError(
            f"save takes one array, or arrays by name, not both: {', '.join(arrays)!s:.80} would be names; the options"
            " are path=, format=, overwrite= and storage_options="
        )
    if values is None and not arrays:
        raise MetadataError("save takes one array, or arrays by name")
    target, path, format = address_of(target, path, format)
    format = new_format(target, path, format, "zarr3")
    # check everything before an existing array is replaced
    one = None if values is None else as_data(values)
    several = {name: as_data(value) for name, value in arrays.items()}
    with creating(target, storage_options) as store:
        if not overwrite:
            _refuse_group(store, path)
        if one is not None:
            new_array_with(store, path, one, format=format, overwrite=True)
        else:
            _save_group(store, path, writable_format(format, store), several)
    if store is not target:
        store.close()


def _save_group(store: Store, path: str, fmt: Format, arrays: Mapping[str, Any]) -> None:
    """Store arrays as the members of a new group, or of a folder if the format has no groups."""
    with replacing(store, path, fmt, True, "memory") as replacement:
        if fmt.has_groups:
            new_group(replacement.store, replacement.path, format=fmt.name, **replacement.options)
        for name, value in arrays.items():
            new_array_with(
                replacement.store, f"{replacement.path}/{name}".lstrip("/"), value, format=fmt.name, overwrite=True
            )


def _refuse_group(store: Store, path: str) -> None:
    """Raise `AlreadyExistsError` if a group or table is at a path, or nodes are directly below it."""
    try:
        there = engine.read_metadata(store, path)
    except (MetadataError, UnsupportedError):
        there = None  # unreadable documents are replaced, like an array
    if not isinstance(there, GroupMetadata):
        there = engine.implicit_group(store, path, None)
    if there is None:
        return
    prefix = f"{path}/" if path else ""
    names = there.members or [child[len(prefix) : -1] for child in children(store, prefix)]
    kind, parts = ("table", "columns") if there.members is not None else ("group", "members")
    listed = f" with the {parts} {', '.join(names[:3])}{', …' if len(names) > 3 else ''}" if names else ""
    raise AlreadyExistsError(
        f"a {kind}{listed} already exists at this path; pass overwrite=True to delete all of it",
        path=location_of(store, path),
    )


@known_keywords
def load(
    target: TargetLike, *, path: str = "", allow_pickle: bool = False, storage_options: Mapping[str, Any] | None = None
) -> Any:
    """Read an array into memory, or all arrays directly in a group or table by name.

    Parameters
    ----------
    target, path, allow_pickle, storage_options
        As for `tegula.open`.

    Returns
    -------
    ndarray or dict of str to ndarray

    Raises
    ------
    NotFoundError
        If there is no node.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, np.arange(4))
    >>> tegula.load(store)
    array([0, 1, 2, 3])
    """
    node = open_node(target, path=path, allow_pickle=allow_pickle, storage_options=storage_options)
    if isinstance(node, Array):
        return np.asarray(node[...])
    if isinstance(node, Table):
        return node.read()
    return {name: np.asarray(array[...]) for name, array in node.arrays()}
