"""`tegula.downsample`: multi-scale pyramids as OME-Zarr 0.5 describes them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite, prod
from time import perf_counter
from typing import Any, Final, Literal

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import new_group
from tegula.engine.deleting import delete_node
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group, open_node
from tegula.hierarchy.opening import open as open_any
from tegula.jobs.converting.convert import convert
from tegula.jobs.converting.masks import missing_values
from tegula.jobs.downsampling.levels import fill_level, new_level, shapes_of
from tegula.jobs.downsampling.ome import Axis, Level, axes_of, multiscales, per_axis
from tegula.jobs.downsampling.reducing import METHODS, check_method
from tegula.jobs.plans import Plan
from tegula.jobs.sharing import Code, sharing
from tegula.jobs.units import Progress, one_at_a_time
from tegula.metadata.fill_values import scalar_array
from tegula.stores import LocalStore, Store
from tegula.tables.table import Table
from tegula.targets.paths import clean, name_below, place, refuse_overlap
from tegula.targets.stores import creating, options_of_both

__all__ = ["Level", "Pyramid", "downsample"]

_KEY: Final = "ome"
_LARGEST_BLOCK: Final = 2**20  # elements that become one
_MOST_LEVELS: Final = 64


@dataclass(frozen=True, slots=True, repr=False)
class Pyramid:
    """A pyramid that `tegula.downsample` has written.

    Parameters
    ----------
    target : str
        URL of its group.
    method : str
        How elements were put together.
    axes : tuple of Axis
        Its axes: name, type and unit of each.
    levels : tuple of Level
        Its arrays, the largest first: path, shape, chunks, scale and translation of each.
    seconds : float
        Duration.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> image = tegula.create_array({}, data=np.zeros((300, 500)), chunks=(100, 100), dimension_names=["y", "x"])
    >>> found = tegula.downsample(image, tegula.MemoryStore(), scale=0.5)
    >>> [(level.path, level.shape, level.scale) for level in found.levels[2:]]
    [('s2', (75, 125), (2.0, 2.0)), ('s3', (38, 63), (4.0, 4.0))]
    """

    target: str
    method: str
    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the pyramid as values of JSON."""
        return {**asdict(self), "axes": [axis.as_dict() for axis in self.axes]}

    def __repr__(self) -> str:
        """Return a line for each level."""
        lines = [f"{level.path}  {level.shape} in chunks {level.chunks}" for level in self.levels]
        return "\n".join([f"<tegula.Pyramid {self.target!r}, {self.method}>", *lines])


def downsample(
    source: Any,
    target: Any = None,
    *,
    path: str = "",
    factors: Any = 2,
    levels: int | None = None,
    method: Literal["mean", "mode", "nearest"] = "mean",
    axes: Any = None,
    scale: Any = 1.0,
    missing: Any = None,
    chunks: Any = None,
    shards: Any = None,
    codecs: Any = None,
    name: str = "",
    overwrite: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
) -> Pyramid:
    """Write an array and smaller and smaller copies of it, a multi-scale pyramid, with OME-Zarr 0.5 metadata.

    The pyramid is a group of Zarr v3 with the arrays ``s0``, ``s1``, …, each computed from the one before. If the
    target is the group that holds the array, the array stays where it is, and is the first level under its own name.
    The attribute ``ome`` is written last; after an error the new arrays are deleted.

    Memory is bounded by two blocks of 64 MiB, or by a shard or chunk if that is larger; for storage far away by the
    setting ``buffer_bytes``. Where few chunks are stored the others are not visited.

    Parameters
    ----------
    source : str, path, mapping, Store or Array
        The array, or where it is stored.
    target : str, path, mapping or Store, optional
        Where to write the group; by default the group that holds the array.
    path : str
        Path of the group in the target's store.
    factors : int, sequence of int, or mapping
        By how much each level is smaller than the one before: along each spatial axis, along each axis, or by name.
        Blocks at the far edges may be smaller, so that lengths are rounded up.
    levels : int, optional
        How many levels to compute, without the first one; by default until one lies within a chunk.
    method : {"mean", "mode", "nearest"}
        The mean of a block, rounded to the nearest integer for integers, booleans and times (ties to even); the most
        frequent value, the smallest of several, for labels; or the first element.
    axes : sequence of str or mapping, optional
        Names of the axes, or mappings with ``name``, ``type`` (``"space"``, ``"time"``, ``"channel"``) and ``unit``; by
        default the names of the dimensions, else ``yx``, ``zyx`` or ``tczyx``. Types of common names are known.
    scale : float, sequence of float, or mapping
        Distance between the elements of the array: along each spatial axis, along each axis, or by name.
    missing : scalar, sequence of scalar, or "fill_value", optional
        Values that mark missing data, which mean and mode leave out beside NaN and NaT; by default those of CF's
        attributes ``_FillValue`` and ``missing_value``, as for `tegula.statistics`. A block without others becomes the
        first of them, or NaN.
    chunks, shards, codecs : optional
        Those of the first level, as for `tegula.convert`, and of the others as far as they are large enough; by default
        those of the array.
    name : str
        Name of the pyramid in its metadata.
    overwrite : bool
        Delete what exists at the target: the group, or in the group that holds the array the old levels.
    progress : callable, optional
        Called with the path of a level, the bytes done, and its bytes in all.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    target_storage_options : mapping, optional
        Those of `target`; by default those of `source` if both URLs name the same bucket.
    runner, workers : optional
        Who computes the levels, as for `tegula.convert`.

    Returns
    -------
    Pyramid

    Raises
    ------
    AlreadyExistsError
        If the group, a level or a pyramid exists and `overwrite` is false.
    MetadataError
        If an argument is not valid, or the axes are not those of OME-Zarr.
    UnsupportedError
        If the array has no mean, or its group is not one of Zarr v3.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> target = tegula.MemoryStore()
    >>> image = tegula.create_array({}, data=np.arange(64).reshape(8, 8), chunks=(2, 2), dimension_names=["y", "x"])
    >>> [level.shape for level in tegula.downsample(image, target).levels]
    [(8, 8), (4, 4), (2, 2)]
    >>> tegula.open(target)["s2"][:]
    array([[13, 17],
           [45, 49]])
    """
    start = perf_counter()
    # the source, and what to do with it
    target_options = options_of_both(source, target, storage_options, target_storage_options)
    mode = "r" if target is not None else "r+"
    opened = isinstance(source, (Array, Group, Table))
    array = source if opened else open_any(source, mode, storage_options=storage_options)
    if not isinstance(array, Array):
        raise UnsupportedError("only arrays have pyramids; name an array in the group", path=array._place)
    _check(array, method, levels)
    known = axes_of(axes, array.dimension_names, array.ndim)
    spatial = [axis.type == "space" for axis in known]
    steps = _factors(per_axis(factors, known, "factors", 1, spatial))
    scales = _scales(per_axis(scale, known, "scale", 1.0, spatial))
    masks = _masks(array, missing)
    layout = {"chunks": chunks, "shards": shards, "codecs": codecs}

    # the levels, in the group that holds the array or in another one
    if target is None:
        array._check_writable()
        target, path = _group_of(array, path)
    with nullcontext(target) if isinstance(target, Store) else creating(target, target_options) as store:
        group = clean(path)
        shared = sharing(
            Plan("downsample", {}, array._place, ""), Code[None](), list, [array.store, store],
            runner=runner, workers=workers, ledger=None,
        )  # fmt: skip
        with shared as share, _Writer(store, group, array, overwrite) as writer:
            base = writer.base(array, known, one_at_a_time(progress), layout)
            found = [Level(writer.first, base.shape, base.chunks, scales, (0.0,) * base.ndim)]
            previous = base
            for number, shape in enumerate(shapes_of(base.shape, _longest(base), steps, levels)[1:], 1):
                level = writer.level(f"s{number}", base, shape)
                fill_level(previous, level, steps, method, masks, one_at_a_time(progress), f"s{number}", share)
                found.append(_level(f"s{number}", level, scales, [step**number for step in steps], method))
                previous = level
            writer.finish(multiscales(name, known, found, method))
    if store is not target:
        store.close()
    return Pyramid(place(store, group), method, known, tuple(found), perf_counter() - start)


def _level(path: str, array: Array, scales: Sequence[float], factors: Sequence[int], method: str) -> Level:
    """Describe a level; the first element of a mean lies in the middle of its block."""
    scale = tuple(one * factor for one, factor in zip(scales, factors))
    middle = tuple(one * (factor - 1) / 2 for one, factor in zip(scales, factors))
    return Level(path, array.shape, array.chunks, scale, (0.0,) * array.ndim if method == "nearest" else middle)


def _longest(array: Array) -> tuple[int, ...]:
    return array.metadata.grid.largest_chunk() if array.shards is None else array.chunks


# --- arguments


def _check(array: Array, method: str, levels: Any) -> None:
    if method not in METHODS:
        raise MetadataError(f"method must be one of {', '.join(METHODS)}, not {method!r:.40}", field="method")
    check_method(method, array.dtype)
    if levels is not None and (type(levels) is not int or not 1 <= levels <= _MOST_LEVELS):
        raise MetadataError(f"{levels!r:.40} is not a number of levels from 1 to {_MOST_LEVELS}", field="levels")


def _factors(given: Sequence[Any]) -> tuple[int, ...]:
    if not all(hasattr(item, "__index__") and not isinstance(item, bool) and item >= 1 for item in given):
        raise MetadataError(f"{given!r:.80} are not factors: integers from 1", field="factors")
    factors = tuple(int(item) for item in given)
    if not 1 < prod(factors) <= _LARGEST_BLOCK:
        raise MetadataError(
            f"a block of {factors} elements must have 2 to {_LARGEST_BLOCK} elements; pass other factors",
            field="factors",
        )
    return factors


def _scales(given: Sequence[Any]) -> tuple[float, ...]:
    try:
        scales = tuple(float(item) for item in given)
    except (TypeError, ValueError, OverflowError):
        scales = (0.0,)
    if not all(isfinite(item) and item > 0 for item in scales):
        raise MetadataError(f"{given!r:.80} is not a scale: positive numbers", field="scale")
    return scales


def _masks(array: Array, missing: Any) -> list[Any]:
    """Return the values that mark missing data, in the array's type."""
    if missing is None:
        return missing_values(array)
    if isinstance(missing, str) and missing == "fill_value":
        return [array._stored.fill[()]]
    several = missing if isinstance(missing, (list, tuple)) else [missing]
    try:
        return [scalar_array(value, array.metadata.data_type)[()] for value in several]
    except MetadataError as error:
        raise MetadataError(error.message, field="missing") from error


def _group_of(array: Array, path: str) -> tuple[Store, str]:
    """Return the store and the path of the group that holds an array."""
    if path:
        raise MetadataError("a path is one in the target: pass a target, too", field="path")
    if array.path:
        return array.store, array.path.rpartition("/")[0]
    if isinstance(array.store, LocalStore):
        return LocalStore(os.path.dirname(os.path.realpath(array.store.root)), read_only=array.store.read_only), ""
    raise MetadataError("the array is all that its store holds: pass a target", path=array._place)


# --- writing


class _Writer:
    """The group of a pyramid; in a ``with`` block, after an error, it deletes what it has created.

    Parameters
    ----------
    store, path : Store, str
        The group.
    array : Array
        The array; it may lie in the group.
    overwrite : bool
        Whether to delete what exists.
    """

    def __init__(self, store: Store, path: str, array: Array, overwrite: bool) -> None:
        own = name_below(array.store, array.path, store, path)
        if own is None:
            refuse_overlap(array.store, array.path, store, path)
        self.first = own or "s0"
        self._stays = own is not None
        self._store, self._path, self._overwrite = store, path, overwrite
        self._created: list[str] = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:  # Ctrl-C, too
            for path in reversed(self._created):
                delete_node(self._store, path)

    def base(self, array: Array, axes: Sequence[Axis], progress: Progress | None, layout: Mapping[str, Any]) -> Array:
        """Return the first level: the array where it is, or a copy of it."""
        names = tuple(axis.name for axis in axes)
        if not self._stays:
            new_group(self._store, self._path, format="zarr3", overwrite=self._overwrite)
            self._created.append(self._path)
            path = self._place("s0")
            convert(array, self._store, path=path, format="zarr3", progress=_named(progress), **layout)
            base = self._opened(path)
            if base.dimension_names == names:
                return base
            change = partial(replace, dimension_names=names, documents={})  # the document is written anew
            engine.update_documents(self._store, path, base.metadata, change)
            return self._opened(path)

        # the array stays as it is, so it must be what OME-Zarr demands
        if any(option is not None for option in layout.values()):
            raise MetadataError("an array that stays where it is keeps its chunks, shards and codecs; pass a target")
        base = self._opened(self._place(self.first))
        if base.metadata.format != "zarr3":
            raise UnsupportedError(
                f"OME-Zarr 0.5 is Zarr v3, not {base.metadata.format}: pass a target", path=base._place
            )
        if base.dimension_names != names:
            raise MetadataError(
                f"OME-Zarr 0.5 demands the names {names} for the dimensions, and the array has "
                f"{base.dimension_names}: pass a target, where a copy gets them",
                path=base._place,
            )
        self._make_room()
        return base

    def _make_room(self) -> None:
        """Open or create the group that holds the array, and refuse or delete an old pyramid."""
        group = open_node(self._store, self._path, "zarr3", read_only=False)
        if group is None or not group.metadata.documents:
            new_group(self._store, self._path, format="zarr3")
            return
        found = group.attrs.get(_KEY)
        if found is None:
            return
        if not self._overwrite:
            raise AlreadyExistsError("the group has a pyramid; pass overwrite=True to replace it", path=group._place)
        del group.attrs[_KEY]
        for name in _old_levels(found):
            if name != self.first and not self.first.startswith(f"{name}/"):
                delete_node(self._store, self._place(name))

    def level(self, name: str, base: Array, shape: tuple[int, ...]) -> Array:
        """Create a level."""
        path = self._place(name)
        if f"{self.first}/".startswith(f"{name}/"):
            raise AlreadyExistsError("the array itself has the name of a level: pass a target", path=path)
        level = new_level(self._store, path, base, shape, overwrite=self._overwrite and self._stays)
        self._created.append(path)
        return level

    def finish(self, metadata: dict[str, Any]) -> None:
        """Write the metadata of the pyramid, and consolidated metadata anew where the group had some."""
        group = open_node(self._store, self._path, "zarr3", read_only=False)
        if not isinstance(group, Group):
            raise NotFoundError("the group has been deleted", path=place(self._store, self._path))
        group.attrs[_KEY] = metadata
        self._created.clear()
        if group._is_consolidated():
            group.consolidate()

    def _opened(self, path: str) -> Array:
        found = open_node(self._store, path, None, read_only=False)
        if not isinstance(found, Array):
            raise NotFoundError("the array has been deleted", path=place(self._store, path))
        return found

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")


def _old_levels(metadata: Any) -> Iterator[str]:
    """Yield the names of levels, ``s1`` and so on, that the metadata of an old pyramid lists."""
    with suppress(TypeError, KeyError, AttributeError):
        for pyramid in metadata["multiscales"]:
            yield from (item["path"] for item in pyramid["datasets"] if re.fullmatch("s[1-9][0-9]*", item["path"]))


def _named(progress: Progress | None) -> Progress | None:
    return None if progress is None else lambda _, done, total: progress("s0", done, total)
