"""The target of an array's conversion: its metadata in another format, and notes on parts that can't be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import ge
from typing import Any, Literal

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.chunk_regions import Indices
from tegula.arrays.creation import adapted as adapted_to
from tegula.arrays.creation import array_metadata, sharded, with_checksum
from tegula.arrays.masks import keep_mask
from tegula.codecs import complete
from tegula.errors import UnsupportedError
from tegula.formats import Format, find_format
from tegula.formats.layout import portable
from tegula.formats.zarr2 import OBJECT_CODECS
from tegula.jobs.rewriting.precision import described, precision_of
from tegula.jobs.rewriting.rules import Rules
from tegula.metadata.chunk_grids import ChunkGrid, VaryingAxis, regular_grid
from tegula.metadata.nodes import ArrayMetadata, CodecSpec, inner_codecs
from tegula.reductions.dtypes import is_floating
from tegula.reductions.precision import Precision
from tegula.runtime.frozen import replace

__all__ = ["Layout", "Target", "keeps_codecs", "kept_attributes", "target_metadata"]


@dataclass(frozen=True, slots=True)
class Layout:
    """What new arrays are to be like: the format, and the arguments of `tegula.convert` that choose chunks and values.

    With `names`, the dimensions of an array get these names.
    """

    fmt: Format
    chunks: Rules = field(default_factory=lambda: Rules("chunks"))
    shards: Rules = field(default_factory=lambda: Rules("shards"))
    codecs: Rules = field(default_factory=lambda: Rules("codecs"))
    dtype: Rules = field(default_factory=lambda: Rules("dtype"))
    scale_offset: Rules = field(default_factory=lambda: Rules("scale_offset"))
    bitround: Rules = field(default_factory=lambda: Rules("bitround"))
    checksum: bool = False
    consolidated: bool | Literal["auto"] = "auto"
    names: tuple[str, ...] | None = None

    @property
    def rules(self) -> tuple[Rules, ...]:
        """All arguments that may hold rules."""
        return self.chunks, self.shards, self.codecs, self.dtype, self.scale_offset, self.bitround


@dataclass(frozen=True, slots=True)
class Target:
    """The new array of a conversion."""

    metadata: ArrayMetadata  # in the target's format
    notes: tuple[str, ...]  # on what could not be kept
    complete: bool  # absent chunks have to be written, since the fill value has changed or is no longer defined
    recoded: bool  # codecs were given, which may differ from those of the source
    misfits: tuple[Rules, ...]  # plain values and rules for dimensions that do not fit this array
    precision: Precision | None = None  # how values change


def target_metadata(
    source: Array, axes: Indices, layout: Layout, names: tuple[str | None, ...] | None, path: str
) -> Target:
    """Describe the new array, for the selected part of each axis.

    `names` are those of the source's axes; rules match `path`: the path below the node to convert, or the array's name.

    Raises
    ------
    MetadataError
        If shards are not multiples of the chunks.
    UnsupportedError
        If the target's format can't hold the array.
    """
    fmt, old = layout.fmt, source.metadata
    own = find_format(old.format)
    notes: list[str] = []
    kept = [position for position, axis in enumerate(axes) if not isinstance(axis, int)]
    shape = tuple(len(axis) for axis in axes if not isinstance(axis, int))
    names = None if names is None else tuple(names[position] for position in kept)
    grid, codecs = _own_encoding(source, fmt)

    # --- the chunks, shards and codecs that the arguments ask for
    misfits: list[Rules] = []
    is_whole = grid.one_shape is not None and all(map(ge, grid.one_shape, source.shape))

    def choose(rules: Rules, own: list[Any], suits: bool = True) -> Any:
        value, note, fits = rules.choose(path, names, own, suits, is_whole)
        notes.extend([note] if note else [])
        misfits.extend([] if fits else [rules])
        return value

    chunks = choose(layout.chunks, _lengths(grid, source, shape, kept)) if layout.chunks else None
    grid = _grid(source, grid, shape, kept, chunks, fmt)
    inner, outer = [*grid.largest_chunk()], _own_shards(source, kept, fmt)
    shards = choose(layout.shards, outer or inner)
    if shards is None and outer is not None:
        shards = outer if grid.is_regular and not any(n % m for n, m in zip(outer, inner)) else None
        if shards is None:
            notes.append(f"the shards {tuple(outer)} are left out: they are not multiples of the new chunks")
    if shards in ("auto", True) and not shape:
        shards = None
    chosen = choose(layout.codecs, inner)
    precision = _precision(source, layout, names, path, choose)

    # --- the new metadata
    if len(kept) != source.ndim:
        codecs = tuple(codec for codec in codecs if codec.name != "transpose")
    if chosen is not None:
        compressors = fmt.compressors if chosen == "auto" else chosen
        order = [codec for codec in codecs if codec.name == "transpose"]
        codecs = (*order, *_object_codecs(codecs), *compressors)
    if layout.checksum:
        codecs = with_checksum(codecs)
    draft = replace(
        old,
        shape=shape,
        grid=grid,
        codecs=codecs,
        attributes=source.attrs.asdict() if own.portable_attributes is None else own.portable_attributes(old),
        dimension_names=names,
        extra=old.extra if fmt.name == old.format and shape == old.shape else {},
        documents={},
    )
    if precision is not None:
        draft = described(source, draft, precision, own_codecs=chosen is None)
        notes.append(precision.summary)
    draft, complete = keep_mask(source, draft, fmt, notes)
    adapted = _adapted(fmt, draft, notes, chunks is None, chosen is None)
    complete |= not _keeps_fill(draft, adapted)
    if old.fill_value is None and adapted.fill_value is not None:
        notes.append(f"the fill value was undefined and is now {adapted.fill_value.item()!r:.80}")
    metadata = sharded(fmt, adapted, shards) if shards else adapted
    return Target(metadata, tuple(notes), complete, chosen is not None, tuple(misfits), precision)


def _precision(
    source: Array, layout: Layout, names: tuple[str | None, ...] | None, path: str, choose: Any
) -> Precision | None:
    """Return how the values of an array change.

    A plain value applies to all arrays that are not the coordinate of a dimension: packing and rounding for
    floating-point numbers, a data type for numbers of its kind.
    """
    if not (layout.scale_offset or layout.dtype or layout.bitround):
        return None
    old = source.metadata.data_type.numpy
    is_coordinate = source.ndim == 1 and names == (path.rpartition("/")[2],)
    packing = choose(layout.scale_offset, [], is_floating(old) and not is_coordinate)
    plain = layout.dtype.plain
    alike = plain is not None and (plain.numpy.kind == old.kind or (is_floating(plain.numpy) and is_floating(old)))
    data_type = choose(layout.dtype, [], (alike or packing is not None) and not is_coordinate)
    keepbits = choose(layout.bitround, [], is_floating(old) and not is_coordinate)
    return precision_of(source, data_type, packing, keepbits)


def _keeps_fill(draft: ArrayMetadata, adapted: ArrayMetadata) -> bool:
    """Return whether absent chunks, if they have a meaning, still mean the same."""
    if draft.fill_value is None or adapted.fill_value is None or draft.fill_value.dtype.kind not in "iuf":
        return draft.fill_value is None or adapted.fill_value is not None
    return draft.fill_value.tobytes() == adapted.fill_value.astype(draft.fill_value.dtype).tobytes()


def _own_encoding(source: Array, fmt: Format) -> tuple[ChunkGrid, tuple[CodecSpec, ...]]:
    """Return the chunks and codecs of the source, without shards and in the terms of the target's format."""
    old = source.metadata
    codecs = inner_codecs(old.codecs)
    grid = old.grid if codecs is old.codecs else regular_grid(source.chunks)
    if fmt.name != old.format:
        codecs = portable(codecs)
        if old.dense and old.data_type.variable:  # bcolz stores each object as a chunk
            grid = regular_grid([old.extra.get("chunklen", 1)])
    if (fmt.name == "zarr3") != (old.format == "zarr3"):
        codecs = _in_one_order(codecs)
    return grid, codecs


def keeps_codecs(source: Array, metadata: ArrayMetadata, fmt: Format) -> bool:
    """Return whether the new array has the codecs of the source."""
    try:
        codecs = inner_codecs(metadata.codecs)
        grid = metadata.grid if codecs is metadata.codecs else regular_grid(metadata.grid.largest_chunk())
        wanted = replace(metadata, codecs=codecs, grid=grid)
        own = replace(source.metadata, codecs=portable(inner_codecs(source.metadata.codecs)), grid=grid, documents={})
        one, other = fmt.adapt(own), fmt.adapt(wanted)
        return complete(one.codecs, one.data_type, ndim=one.ndim) == complete(
            other.codecs, other.data_type, ndim=other.ndim
        )
    except UnsupportedError:
        return False


def _lengths(grid: ChunkGrid, source: Array, shape: tuple[int, ...], kept: list[int]) -> list[Any]:
    """Return the lengths of chunks along the axes that are kept, all of them if they vary."""
    axes = [grid.axes[position] for position in kept]
    same = [size == source.shape[position] for size, position in zip(shape, kept)]
    return [a.edges if isinstance(a, VaryingAxis) and fits else a.longest() for a, fits in zip(axes, same)]


def kept_attributes(fmt: Format, attributes: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the attributes that a format can hold, and take note of the others."""
    lost = [name for name in attributes if name in fmt.reserved_attributes]
    if lost:
        listed = ", ".join(map(repr, lost))
        notes.append(f"the attributes {listed} are left out, since {fmt.name} has members of its own with these names")
    return {name: value for name, value in attributes.items() if name not in lost}


def _own_shards(source: Array, kept: list[int], fmt: Format) -> list[int] | None:
    """Return the shards of the source, if the target's format has shards."""
    if source.shards is None or fmt.name != "zarr3" or len(kept) != source.ndim:
        return None
    return [*source.shards] if source.metadata.grid.is_regular else None


def _grid(
    source: Array, grid: ChunkGrid, shape: tuple[int, ...], kept: list[int], wanted: Any, fmt: Format
) -> ChunkGrid:
    is_whole = len(kept) == source.ndim
    if wanted is None and is_whole and (grid.is_regular or shape == source.shape):
        return grid
    asked = "auto" if wanted is None else wanted
    chunks = [grid.largest_chunk()[position] for position in kept]
    drop = not is_whole and grid.is_regular and wanted is None
    return array_metadata(fmt, shape, source.metadata.data_type, chunks if drop else asked, codecs=None).grid


def _in_one_order(codecs: tuple[CodecSpec, ...]) -> tuple[CodecSpec, ...]:
    """Make filters little-endian: in Zarr v3 they come before ``bytes``, and see native byte order."""
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


def _adapted(fmt: Format, draft: ArrayMetadata, notes: list[str], own_chunks: bool, own_codecs: bool) -> ArrayMetadata:
    """Adapt metadata to the target's format; replace a fill value, and own chunks or codecs, that the format lacks."""
    while True:
        try:
            return adapted_to(fmt, draft)
        except UnsupportedError as error:
            replaced = _replaced(fmt, draft, error, notes, own_chunks, own_codecs)
            if replaced is None or replaced == draft:
                raise
            draft = replaced


def _replaced(
    fmt: Format, draft: ArrayMetadata, error: UnsupportedError, notes: list[str], own_chunks: bool, own_codecs: bool
) -> ArrayMetadata | None:
    """Replace the part that the format refused; return ``None`` if the user chose it or it can't be replaced."""
    if error.field == "chunks" and own_chunks:
        grid = array_metadata(fmt, draft.shape, draft.data_type, "auto", codecs=None).grid
        notes.append(f"the chunks are now {grid.largest_chunk()}: {error}")
        return replace(draft, grid=grid)
    if error.field == "fill_value":
        notes.append(f"the fill value is not kept: {error}")
        return replace(draft, fill_value=None)
    if error.field == "attributes":
        return replace(draft, attributes=kept_attributes(fmt, draft.attributes, notes))
    if error.codec is None or not own_codecs:
        return None
    lasting = tuple(codec for codec in draft.codecs if codec.name != "numcodecs.quantize")
    if len(lasting) < len(draft.codecs):
        notes.append(f"values written from now on are not quantized: {error}")
        return replace(draft, codecs=lasting)
    notes.append(f"the codecs are the format's usual ones: {error}")
    endian = [codec for codec in draft.codecs if codec.name == "bytes"]
    objects = _object_codecs(draft.codecs) if fmt.has_groups else []
    return replace(draft, codecs=(*objects, *endian, *fmt.compressors))


def _object_codecs(codecs: tuple[CodecSpec, ...]) -> list[CodecSpec]:
    return [codec for codec in codecs if f"numcodecs.{codec.name.removeprefix('numcodecs.')}" in OBJECT_CODECS]
