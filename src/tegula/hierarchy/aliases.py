"""Other names of functions: those of zarr-python, for what means the same there.

They are attributes of `tegula`, but not listed there; `tegula.arrays.foreign_names` has those of arrays and groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tegula.errors import MetadataError
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula.arrays.arguments import ChunksLike, DTypeLike, Mode, ShapeLike, TargetLike
    from tegula.arrays.array import Array
    from tegula.display import Tree
    from tegula.hierarchy import numpy_names, opening, saving
    from tegula.hierarchy.group import Group
else:
    numpy_names, opening = Later("tegula.hierarchy.numpy_names"), Later("tegula.hierarchy.opening")
    saving = Later("tegula.hierarchy.saving")

__all__ = [
    "consolidate_metadata",
    "create",
    "from_array",
    "group",
    "open_consolidated",
    "save_array",
    "save_group",
    "tree",
]


def create(
    shape: ShapeLike,
    chunks: ChunksLike = "auto",
    dtype: DTypeLike | None = None,
    *,
    store: TargetLike | None = None,
    **options: Any,
) -> Array:
    """Create an array, in memory by default, as `tegula.create_array` does.

    Examples
    --------
    >>> import tegula
    >>> tegula.create((4, 4), chunks=(2, 4), fill_value=7)[0]
    array([7., 7., 7., 7.])
    """
    fill_value, dtype = options.pop("fill_value", 0), "f8" if dtype is None else dtype
    return numpy_names.full(shape, fill_value, store=store, dtype=dtype, chunks=chunks, **options)


def from_array(store: TargetLike | None = None, *, data: Any, **options: Any) -> Array:
    """Create an array like another, with its elements; see `tegula.array`. The value ``"keep"`` leaves an option out.

    Examples
    --------
    >>> import tegula
    >>> tegula.from_array({}, data=tegula.zeros(4, chunks=2)).chunks
    (2,)
    """
    kept = {name for name, value in options.items() if isinstance(value, str) and value == "keep"}
    return numpy_names.array(data, store=store, **{name: options[name] for name in options.keys() - kept})


def save_array(store: TargetLike, arr: Any, **options: Any) -> None:
    """Store one array; see `tegula.save`.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save_array(store, [1, 2])
    >>> tegula.load(store)
    array([1, 2])
    """
    saving.save(store, arr, **options)


def save_group(store: TargetLike, *arrays: Any, **named: Any) -> None:
    """Store several arrays in a new group, those without a name as ``arr_0``, ``arr_1``, …; see `tegula.save`.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save_group(store, [1, 2], y=[3])
    >>> sorted(tegula.load(store))
    ['arr_0', 'y']
    """
    numbered = {f"arr_{number}": array for number, array in enumerate(arrays)}
    if twice := sorted(numbered.keys() & named.keys()):
        raise MetadataError(f"save_group got two arrays named {twice[0]}, one of them by position")
    saving.save(store, **numbered, **named)


def group(store: TargetLike | None = None, *, overwrite: bool = False, **options: Any) -> Group:
    """Open a group, or create it, in memory by default; see `tegula.open_group`.

    Examples
    --------
    >>> import tegula
    >>> list(tegula.group())
    []
    """
    return opening.open_group({} if store is None else store, "w" if overwrite else "a", **options)


def open_consolidated(
    store: TargetLike, mode: Mode = "r", *, use_consolidated: Literal[True] = True, **options: Any
) -> Group:
    """Open a group with its members taken from consolidated metadata; see `tegula.open_group`.

    Examples
    --------
    >>> import tegula
    >>> store = tegula.MemoryStore()
    >>> tegula.save(store, x=[1, 2])
    >>> g = tegula.consolidate_metadata(store)
    >>> list(tegula.open_consolidated(store))
    ['x']
    """
    if use_consolidated is not True:
        raise MetadataError("open_consolidated takes use_consolidated=True alone; tegula.open_group opens without it")
    return opening.open_group(store, mode, consolidated=True, **options)


def consolidate_metadata(store: TargetLike, path: str | None = None, **options: Any) -> Group:
    """Write the consolidated metadata of a group, and return the group with its members taken from there.

    See `Group.consolidate`; `open_consolidated` has an example.
    """
    opened = opening.open_group(store, "r+", path=path or "", **options)
    opened.consolidate()
    return opened.with_consolidated()


def tree(grp: Group, expand: bool | None = None, level: int | None = None) -> Tree:
    """Draw the hierarchy below a group, always expanded; see `Group.tree`.

    Examples
    --------
    >>> import tegula
    >>> tegula.tree(tegula.create_group({}))
    /
    """
    return grp.tree(level)
