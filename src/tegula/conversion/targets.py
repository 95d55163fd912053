"""What an array becomes in another format: its metadata there, and what of it can't be kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tegula.arrays import Array
from tegula.conversion.masks import keep_mask
from tegula.creation import array_metadata, codec_specs, sharded, with_checksum
from tegula.errors import SelectionError, UnsupportedError
from tegula.formats import Format
from tegula.formats.bcolz1 import portable
from tegula.formats.zarr2 import OBJECT_CODECS
from tegula.metadata.chunk_grids import ChunkGrid, regular_grid
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, inner_codecs

__all__ = ["Axis", "Options", "Progress", "Target", "keeps_codecs", "selected_axes", "target_metadata"]

Progress = Callable[[str, int, int], None]
Axis = tuple[int, int, int]  # first index, step, number of indices


@dataclass(frozen=True, slots=True)
class Options:
    """What `tegula.convert` was asked for."""

    item: Format
    chunks: Any
    shards: Any
    codecs: Any
    checksum: bool
    overwrite: bool
    dry_run: bool
    verify: bool
    progress: Progress | None
    consolidated: bool | Literal["auto"]


@dataclass(frozen=True, slots=True)
class Target:
    """What an array becomes.

    Parameters
    ----------
    metadata : ArrayMetadata
        Its metadata in the target's format.
    notes : tuple of str
        What could not be kept.
    complete : bool
        Whether chunks have to be stored that the source does not store, because its fill value has not been kept.
    """

    metadata: ArrayMetadata
    notes: tuple[str, ...]
    complete: bool


def selected_axes(select: Any, shape: tuple[int, ...]) -> list[Axis | int]:
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


def target_metadata(
    source: Array, axes: list[Axis | int], options: Options, names: tuple[str | None, ...] | None
) -> Target:
    """Describe the new array; `names` are those of the source's axes."""
    item, old = options.item, source.metadata
    notes: list[str] = []
    kept = [position for position, axis in enumerate(axes) if not isinstance(axis, int)]
    shape = tuple(axis[2] for axis in axes if not isinstance(axis, int))
    codecs, grid, shards = old.codecs, old.grid, options.shards
    if codecs and codecs[0].name == "sharding_indexed":
        if shards is None and options.chunks is None and item.name == "zarr3" and len(kept) == source.ndim:
            shards = source.shards
        codecs = _inner_codecs(codecs[0])
        grid = regular_grid(source.chunks)
    if item.name != old.format:
        codecs = portable(codecs)
        if old.dense and old.data_type.variable:  # each object is a chunk of its own there
            grid = regular_grid([old.extra.get("chunklen", 1)])
    if (item.name == "zarr3") != (old.format == "zarr3"):
        codecs = _in_one_order(codecs)
    grid = _grid(source, grid, shape, kept, options)
    if len(kept) != source.ndim:
        codecs = tuple(codec for codec in codecs if codec.name != "transpose")
    if options.codecs is not None:
        given = item.compressors if options.codecs == "auto" else codec_specs(options.codecs)
        order = [codec for codec in codecs if codec.name == "transpose"]
        codecs = (*order, *_object_codecs(codecs), *given)
    if options.checksum:
        codecs = with_checksum(codecs)
    draft = replace(
        old,
        shape=shape,
        grid=grid,
        codecs=codecs,
        attributes=source.attrs.asdict(),
        dimension_names=None if names is None else tuple(names[position] for position in kept),
        extra=old.extra if item.name == old.format and shape == old.shape else {},
        documents={},
    )
    draft, complete = keep_mask(source, draft, item, notes)
    adapted = _adapted(item, draft, options, notes)
    if old.fill_value is None and adapted.fill_value is not None:
        notes.append(f"the fill value was undefined and is now {adapted.fill_value.item()!r:.80}")
    return Target(sharded(item, adapted, shards) if shards else adapted, tuple(notes), complete)


def keeps_codecs(source: Array, metadata: ArrayMetadata, options: Options) -> bool:
    """Return whether the codecs that were asked for, if any, are those that the source has."""
    if options.codecs is None:
        return True
    try:
        own = replace(source.metadata, codecs=portable(source.metadata.codecs), grid=metadata.grid, documents={})
        return options.item.adapt(own).codecs == metadata.codecs
    except UnsupportedError:
        return False


def _grid(source: Array, grid: ChunkGrid, shape: tuple[int, ...], kept: list[int], options: Options) -> ChunkGrid:
    whole = len(kept) == source.ndim
    if options.chunks is None and whole and (grid.is_regular or shape == source.shape):
        return grid
    given = "auto" if options.chunks is None else options.chunks
    chunks = [grid.largest_chunk()[position] for position in kept]
    drop = not whole and grid.is_regular and options.chunks is None
    return array_metadata(options.item, shape, source.metadata.data_type, chunks if drop else given, codecs=None).grid


def _in_one_order(codecs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Make filters little-endian: before ``bytes``, as in Zarr v3, their elements are in native order."""
    types = ("dtype", "astype", "encode_dtype", "decode_dtype")
    if not any(name in codec.configuration for codec in codecs for name in types):
        return codecs
    out = []
    for codec in codecs:
        options = dict(codec.configuration)
        options |= {n: np.dtype(options[n]).newbyteorder("<").str for n in types if isinstance(options.get(n), str)}
        if codec.name == "bytes" and "endian" in options:
            options["endian"] = "little"
        out.append(replace(codec, configuration=options))
    return tuple(out)


def _adapted(item: Format, draft: ArrayMetadata, options: Options, notes: list[str]) -> ArrayMetadata:
    """Say the metadata in the target's format; what that has no codec, grid or fill value for is replaced."""
    while True:
        try:
            return item.adapt(draft)
        except UnsupportedError as error:
            replaced = _replaced(item, draft, error, options, notes)
            if replaced is None or replaced == draft:
                raise
            draft = replaced


def _replaced(
    item: Format, draft: ArrayMetadata, error: UnsupportedError, options: Options, notes: list[str]
) -> ArrayMetadata | None:
    """Replace what the format has refused; ``None`` if it was asked for, or can't be done without."""
    if error.field == "chunks" and options.chunks is None:
        grid = array_metadata(item, draft.shape, draft.data_type, "auto", codecs=None).grid
        notes.append(f"the chunks are now {grid.largest_chunk()}: {error}")
        return replace(draft, grid=grid)
    if error.field == "fill_value":
        notes.append(f"the fill value is left undefined: {error}")
        return replace(draft, fill_value=None)
    if error.codec is None or options.codecs is not None:
        return None
    lasting = tuple(codec for codec in draft.codecs if codec.name != "numcodecs.quantize")
    if len(lasting) < len(draft.codecs):
        notes.append(f"what is written from now on is not quantized any more: {error}")
        return replace(draft, codecs=lasting)
    notes.append(f"the codecs are the format's usual ones: {error}")
    endian = [codec for codec in draft.codecs if codec.name == "bytes"]
    objects = _object_codecs(draft.codecs) if item.has_groups else []
    return replace(draft, codecs=(*objects, *endian, *item.compressors))


def _object_codecs(codecs: tuple[CodecSpec, ...]) -> list[CodecSpec]:
    return [codec for codec in codecs if f"numcodecs.{codec.name.removeprefix('numcodecs.')}" in OBJECT_CODECS]


def _inner_codecs(codec: CodecSpec) -> tuple[CodecSpec, ...]:
    """Return the codecs of the innermost chunks of a shard."""
    return inner_codecs((codec,))
