"""Converting arrays and hierarchies between formats, chunk shapes and codecs, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import isnan, prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula import engine
from tegula.array import Array
from tegula.creation import array_metadata, codec_specs, delete_node, new_array_of, new_group, sharded
from tegula.errors import (
    CodecError,
    MetadataError,
    NotFoundError,
    SelectionError,
    TegulaError,
    UnsupportedError,
)
from tegula.formats import Format, find_format
from tegula.group import Group
from tegula.metadata.chunk_grids import regular_grid
from tegula.metadata.data_types import DataType
from tegula.metadata.nodes import ArrayMetadata, CodecSpec
from tegula.opening import open as open_any
from tegula.opening import store_of
from tegula.stores import LocalStore, MemoryStore, Store

__all__ = ["ConvertReport", "ConvertedArray", "convert"]

_BLOCK_BYTES: Final = 2**26
Progress = Callable[[str, int, int], None]
Axis = tuple[int, int, int]  # first index, step, number of indices


@dataclass(frozen=True, slots=True)
class ConvertedArray:
    """What became of one array.

    Parameters
    ----------
    path : str
        Path below the source; ``""`` for the source itself.
    shape, chunks : tuple of int
        Shape and chunks of the new array.
    nbytes : int
        Bytes of its elements in memory.
    nbytes_before, nbytes_after : int
        Bytes stored in the source and in the target (0 in a dry run).
    verified : bool or None
        Whether every value was found equal; ``None`` if that was not asked for.
    notes : tuple of str
        What could not be kept as it was.
    """

    path: str
    shape: tuple[int, ...]
    chunks: tuple[Any, ...]
    nbytes: int
    nbytes_before: int
    nbytes_after: int
    verified: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class ConvertReport:
    """What `tegula.convert` did.

    Parameters
    ----------
    format : str
        The target's format.
    arrays : list of ConvertedArray
        The arrays that were converted, in order.
    groups : list of str
        Paths of the groups that were created.
    failed : dict of str to str
        Path and reason of each array of a hierarchy that could not be converted.

    Examples
    --------
    >>> import tegula
    >>> source = tegula.MemoryStore()
    >>> tegula.save(source, [1, 2, 3], format="zarr2")
    >>> report = tegula.convert(source, tegula.MemoryStore(), format="zarr3", verify=True)
    >>> report.ok, report.arrays[0].shape
    (True, (3,))
    """

    format: str
    dry_run: bool = False
    arrays: list[ConvertedArray] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything was converted, and found equal where that was asked for."""
        return not self.failed and all(item.verified is not False for item in self.arrays)


@dataclass(frozen=True, slots=True)
class _Options:
    item: Format
    chunks: Any
    shards: Any
    codecs: Any
    overwrite: bool
    dry_run: bool
    verify: bool
    progress: Progress | None


def convert(
    source: Any,
    target: Any,
    *,
    format: str = "zarr3",
    chunks: Any = None,
    shards: Any = None,
    codecs: Any = None,
    select: Any = None,
    path: str = "",
    overwrite: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    allow_pickle: bool = False,
) -> ConvertReport:
    """Copy an array, or a group with all below it, into another format.

    Values, attributes, fill values and dimension names are kept, and codecs as far as the target's format has them;
    what it does not have is replaced by its usual codecs, and said in the report's notes. Memory is bounded by a few
    blocks of 64 MiB, or of one chunk if that is larger.

    Parameters
    ----------
    source : str, path, mapping, Store, Array or Group
        What to convert.
    target : str, path, mapping or Store
        Where to; must not be the source or lie within it.
    format : {"zarr3", "zarr2", "zarr1"}
        Format of the target.
    chunks, shards, codecs : optional
        As for `tegula.create_array`, for every array; by default those of the source.
    select : selection, optional
        Ints and slices: the part of an array to convert.
    path : str
        Path in the target's store.
    overwrite : bool
        Delete the node that is there.
    dry_run : bool
        Find out what would be done, and write nothing.
    verify : bool
        Read everything back and compare it with the source, bit by bit.
    progress : callable, optional
        Called with path, bytes done and bytes in all of the array at hand.
    allow_pickle : bool
        Whether the source may be unpickled.

    Returns
    -------
    ConvertReport

    Raises
    ------
    UnsupportedError
        If the target's format can't hold the array. In a hierarchy such arrays are left out and reported.
    MetadataError
        If the target is the source, or an argument is not valid.
    NotFoundError, AlreadyExistsError
        If there is no source, or there is a target and `overwrite` is false.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> old, new = tegula.MemoryStore(), tegula.MemoryStore()
    >>> tegula.save(old, x=np.arange(6).reshape(2, 3), format="zarr2")
    >>> report = tegula.convert(old, new, format="zarr3")
    >>> tegula.open(new)["x"][:]
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    item = find_format(format)
    if not item.writable:
        raise UnsupportedError(f"{format} is only read", field="format")
    node = source if isinstance(source, (Array, Group)) else open_any(source, allow_pickle=allow_pickle)
    store = _looked_at(target) if dry_run else store_of(target)
    path = path.strip("/")
    _refuse_overlap(node, store, path)
    options = _Options(item, chunks, shards, codecs, overwrite, dry_run, verify, progress)
    report = ConvertReport(format, dry_run)
    if isinstance(node, Array):
        report.arrays.append(_convert_array(node, store, path, "", select, options))
    elif select is not None:
        raise SelectionError("a selection is for one array, not for a group")
    else:
        _convert_group(node, store, path, options, report)
    if store is not target:
        store.close()
    return report


def _looked_at(target: Any) -> Store:
    """Return the target's store for reading: opening an archive for writing would create it."""
    try:
        return store_of(target, read_only=True)
    except NotFoundError:
        return MemoryStore()


def _refuse_overlap(node: Array | Group, store: Store, path: str) -> None:
    same = node.store is store or (node.store.url == store.url and store.url.startswith(("file:", "zip:")))
    old, new = f"{node.path}/".lstrip("/"), f"{path}/".lstrip("/")
    inside = same and (old.startswith(new) or new.startswith(old))
    nested = False
    if isinstance(node.store, LocalStore) and isinstance(store, LocalStore):
        # links are followed, or a link to the source would be taken for another place
        old, new = (
            os.path.join(os.path.realpath(os.path.join(s.root, p)), "")
            for s, p in ((node.store, node.path), (store, path))
        )
        nested = old.startswith(new) or new.startswith(old)
    if inside or nested:
        raise MetadataError("the target and the source lie within each other", path=f"{store.url}/{path}".rstrip("/"))


def _convert_group(group: Group, store: Store, path: str, options: _Options, report: ConvertReport) -> None:
    if not options.item.has_groups:
        if group.attrs:
            report.failed[""] = f"{options.item.name} has no groups, so no place for their attributes"
    elif not options.dry_run:
        new_group(store, path, attributes=group.attrs.asdict(), format=options.item.name, overwrite=options.overwrite)
    report.groups.append("")
    inner = replace(options, overwrite=options.overwrite and not options.item.has_groups)
    for name, node in group.walk(report.failed, implicit=True):
        below = f"{path}/{name}" if path else name
        try:
            if isinstance(node, Array):
                report.arrays.append(_convert_array(node, store, below, name, None, inner))
                continue
            if not options.item.has_groups:
                if node.attrs:
                    report.failed[name] = f"{options.item.name} has no groups, so no place for their attributes"
            elif not options.dry_run:
                new_group(store, below, attributes=node.attrs.asdict(), format=options.item.name)
            report.groups.append(name)
        except (UnsupportedError, CodecError, MetadataError) as error:
            report.failed[name] = str(error)


def _convert_array(source: Array, store: Store, path: str, name: str, select: Any, options: _Options) -> ConvertedArray:
    axes = _selected_axes(select, source.shape)
    metadata, notes = _target_metadata(source, axes, options)
    if options.dry_run:
        stored = engine.stored_array(store, path, metadata)
        draft = Array(stored, path, read_only=True)
        return ConvertedArray(
            name, draft.shape, draft.chunks, draft.nbytes, source.nbytes_stored(), 0, None, tuple(notes)
        )
    target = new_array_of(store, path, options.item, metadata, options.overwrite)
    try:
        _copy(source, axes, target, name, options.progress)
    except TegulaError:
        delete_node(store, path)  # half an array would look like a whole one
        raise
    verified = _verify(source, axes, target, options) if options.verify else None
    return ConvertedArray(
        name,
        target.shape,
        target.chunks,
        target.nbytes,
        source.nbytes_stored(),
        target.nbytes_stored(),
        verified,
        tuple(notes),
    )


def _copy(source: Array, axes: list[Axis | int], target: Array, name: str, progress: Progress | None) -> None:
    done = 0
    for block in _blocks(source, target):
        values = _read_block(source, axes, block)
        target[block] = values
        done += values.nbytes
        if progress is not None:
            progress(name, done, target.nbytes)


def _selected_axes(select: Any, shape: tuple[int, ...]) -> list[Axis | int]:
    """Turn ints and slices into one entry for each axis: an int, or first index, step and count."""
    items = list(select if isinstance(select, tuple) else (select,)) if select is not None else []
    dots = [position for position, item in enumerate(items) if item is Ellipsis]
    if dots:
        at = dots[0]
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    items += [slice(None)] * (len(shape) - len(items))
    if len(items) != len(shape) or len(dots) > 1:
        raise SelectionError(f"{select!r} does not fit {len(shape)} dimensions")
    out: list[Axis | int] = []
    for item, size in zip(items, shape):
        if isinstance(item, slice):
            try:
                start, stop, step = item.indices(size)
            except (TypeError, ValueError) as error:
                raise SelectionError(f"{item!r} is not a slice: {error}") from error
            out.append((start, step, len(range(start, stop, step))))
        elif hasattr(item, "__index__"):
            try:
                index = int(item.__index__())
            except TypeError as error:
                raise SelectionError(f"{item!r:.60} is not one index: {error}") from error
            if not -size <= index < size:
                raise SelectionError(f"index {index} is out of range for an axis of length {size}")
            out.append(index % size)
        else:
            raise SelectionError(f"only ints and slices can be converted, not {item!r:.60}")
    return out


def _target_metadata(source: Array, axes: list[Axis | int], options: _Options) -> tuple[ArrayMetadata, list[str]]:
    item, old = options.item, source.metadata
    notes: list[str] = []
    kept = [position for position, axis in enumerate(axes) if not isinstance(axis, int)]
    shape = tuple(axis[2] for axis in axes if not isinstance(axis, int))
    codecs, shards = old.codecs, options.shards
    grid = old.grid
    if codecs and codecs[0].name == "sharding_indexed":
        if shards is None and options.chunks is None and item.name == "zarr3" and len(kept) == source.ndim:
            shards = source.shards
        codecs = _inner_codecs(codecs[0])
        grid = regular_grid(source.chunks)
    if options.chunks is not None or len(kept) != source.ndim or not (grid.is_regular or shape == old.shape):
        drop = len(kept) != source.ndim and grid.is_regular and options.chunks is None
        given = "auto" if options.chunks is None else options.chunks
        chunks = [grid.largest_chunk()[position] for position in kept] if drop else given
        grid = array_metadata(item, shape, old.data_type, chunks, codecs=None).grid
    if len(kept) != source.ndim:
        codecs = tuple(codec for codec in codecs if codec.name != "transpose")
    if options.codecs is not None:
        given = item.compressors if options.codecs == "auto" else codec_specs(options.codecs)
        order = [codec for codec in codecs if codec.name == "transpose"]
        codecs = (*order, *_object_codecs(codecs), *given)
    names = old.dimension_names
    draft = replace(
        old,
        shape=shape,
        grid=grid,
        codecs=codecs,
        attributes=_attributes(source, axes),
        dimension_names=None if names is None else tuple(names[position] for position in kept),
        documents={},
    )
    adapted = _adapted(item, draft, options, notes)
    if names is not None and adapted.dimension_names is None:
        notes.append("the names of the dimensions have no place in the format")
    if old.fill_value is None and adapted.fill_value is not None:
        notes.append(f"the fill value was undefined and is now {adapted.fill_value[()]}")
    return (sharded(item, adapted, shards) if shards else adapted), notes


def _attributes(source: Array, axes: list[Axis | int]) -> dict[str, Any]:
    """Return the attributes; that in which xarray keeps the names of the axes loses those that are selected away."""
    attributes = source.attrs.asdict()
    names = attributes.get("_ARRAY_DIMENSIONS")
    if isinstance(names, list) and len(names) == len(axes):
        attributes["_ARRAY_DIMENSIONS"] = [name for name, axis in zip(names, axes) if not isinstance(axis, int)]
    return attributes


def _adapted(item: Format, draft: ArrayMetadata, options: _Options, notes: list[str]) -> ArrayMetadata:
    """Say the metadata in the target's format; what that has no codec or grid for is replaced."""
    try:
        return item.adapt(draft)
    except UnsupportedError as error:
        if options.codecs is not None and error.codec is not None:
            raise
        reason = str(error)
    if not draft.grid.is_regular and item.name != "zarr3":
        draft = replace(draft, grid=array_metadata(item, draft.shape, draft.data_type, "auto", codecs=None).grid)
        notes.append("the chunks differed in length and are now regular")
    endian = [codec for codec in draft.codecs if codec.name == "bytes"]
    usual = replace(draft, codecs=(*_object_codecs(draft.codecs), *endian, *item.compressors))
    try:
        adapted = item.adapt(usual)
    except UnsupportedError:
        plain = replace(usual, fill_value=None)
        adapted = item.adapt(plain)
        notes.append(f"the fill value is left undefined: {reason}")
        return adapted
    notes.append(f"the codecs are the format's usual ones: {reason}")
    return adapted


def _object_codecs(codecs: tuple[CodecSpec, ...]) -> list[CodecSpec]:
    names = ("vlen-utf8", "vlen-bytes", "vlen-array", "json2", "json", "msgpack2", "msgpack", "categorize", "pickle")
    return [codec for codec in codecs if codec.name.removeprefix("numcodecs.") in names]


def _inner_codecs(codec: CodecSpec) -> tuple[CodecSpec, ...]:
    """Return the codecs of the innermost chunks of a shard."""
    specs = tuple(
        CodecSpec(item) if isinstance(item, str) else CodecSpec(item["name"], item.get("configuration", {}))
        for item in codec.configuration["codecs"]
    )
    return _inner_codecs(specs[0]) if specs and specs[0].name == "sharding_indexed" else specs


def _blocks(source: Array, target: Array) -> Iterator[tuple[slice, ...]]:
    """Cut the target into boxes of whole stored chunks, joined up to the size of the source's where memory allows."""
    if not target.shape:
        yield ()
        return
    if not target.metadata.grid.is_regular:
        axes = target.metadata.grid.axes
        spans = [
            [slice(axis.start(n), min(size, axis.start(n) + axis.length(n))) for n in range(axis.count(size))]
            for axis, size in zip(axes, target.shape)
        ]
        yield from product(*spans)
        return
    block = list(target.metadata.grid.largest_chunk())
    if source.ndim == target.ndim:
        reach = source.metadata.grid.largest_chunk()
        wider = [-(-max(new, old) // new) * new for new, old in zip(block, reach)]
        if prod(wider) * target.dtype.itemsize <= _BLOCK_BYTES:
            block = wider
    itemsize = target.dtype.itemsize
    for axis in reversed(range(len(block))):  # as many chunks in a row as fit
        room = max(1, _BLOCK_BYTES // max(1, prod(block) * itemsize))
        block[axis] *= max(1, min(room, -(-target.shape[axis] // block[axis])))
    ranges = [range(0, size, step) for size, step in zip(target.shape, block)]
    for starts in product(*ranges):
        yield tuple(slice(s, min(s + b, size)) for s, b, size in zip(starts, block, target.shape))


def _read_block(source: Array, axes: list[Axis | int], block: tuple[slice, ...]) -> npt.NDArray[Any]:
    selection: list[Any] = []
    parts = iter(block)
    for axis in axes:
        if isinstance(axis, int):
            selection.append(axis)
            continue
        part = next(parts)
        start, step, _ = axis
        first, stop = start + part.start * step, start + part.stop * step
        selection.append(slice(first, None if stop < 0 else stop, step))
    values = np.asarray(source[tuple(selection)])
    return _as_text(values) if source.metadata.data_type == DataType(np.dtype(object), "string") else values


def _as_text(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Zarr v2 shows missing strings as its fill value, which may be 0 or null."""
    out = np.empty(values.shape, object)
    for index in np.ndindex(values.shape):
        value: Any = values[index]
        out[index] = value if isinstance(value, str) else "" if value is None or value == 0 else str(value)
    return out


def _verify(source: Array, axes: list[Axis | int], target: Array, options: _Options) -> bool:
    written = Array(target._stored, target.path, read_only=True)
    for block in _blocks(source, written):
        old = _read_block(source, axes, block)
        new = np.asarray(written[block])
        if not _identical(old, new):
            return False
    return all(_equal(written.attrs.get(name), value) for name, value in _attributes(source, axes).items())


def _identical(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Equality of values to the bit, whatever the byte order."""
    if old.shape != new.shape:
        return False
    if old.dtype.hasobject:
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else _equal(a, b) for a, b in zip(old.flat, new.flat)
        )
    if old.dtype != new.dtype:
        old = old.astype(new.dtype)
    return np.ascontiguousarray(old).tobytes() == np.ascontiguousarray(new).tobytes()


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON values in which NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float) and isnan(a) and isnan(b):
        return True
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    return bool(a == b)
