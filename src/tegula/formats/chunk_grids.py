"""Chunk grids in documents: lists of chunk lengths (all formats), and the rectilinear grids of Zarr v3."""

from __future__ import annotations

from typing import Any, Final

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.documents import integers, member
from tegula.metadata.chunk_grids import ChunkAxis, ChunkGrid, RegularAxis, VaryingAxis, regular_grid
from tegula.metadata.nodes import CodecSpec

__all__ = ["grid_from_extension", "grid_to_json", "regular_grid_from_json"]

_MAX_EDGES: Final = 2**20  # the most chunks of all axes together; with runs a short document could describe very many


def regular_grid_from_json(value: Any, shape: tuple[int, ...], field: str, key: str) -> ChunkGrid:
    """Read a list of chunk lengths, one for each axis of an array of `shape`.

    An axis of size 0 may have chunks of length 0, as some writers store them; the result has the length 1 instead.

    Parameters
    ----------
    value : JSON value
        The list.
    shape : tuple of int
        Shape of the array.
    field, key : str
        Name of the member and key of the document, for errors.

    Raises
    ------
    MetadataError
        If it is not a list of such lengths.

    Examples
    --------
    >>> regular_grid_from_json([4, 0], (10, 0), "chunks", ".zarray").largest_chunk()
    (4, 1)
    """
    lengths = integers(value, field, key, least=0, ndim=len(shape))
    if any(length == 0 and size for length, size in zip(lengths, shape)):
        raise MetadataError("the length of a chunk must be at least 1", key=key, field=field)
    return regular_grid([max(1, length) for length in lengths])


def grid_from_extension(grid: CodecSpec, shape: tuple[int, ...], key: str) -> ChunkGrid:
    """Read a ``chunk_grid`` of Zarr v3 (core, section "Chunk grids"; extensions registry, "rectilinear").

    Parameters
    ----------
    grid : CodecSpec
        Name and configuration of the grid.
    shape : tuple of int
        Shape of the array.
    key : str
        Key of the document, for errors.

    Raises
    ------
    MetadataError
        If the configuration is not valid, or its chunks do not cover the array.
    UnsupportedError
        If the grid is neither regular nor rectilinear, nor one of regular chunks that end where the array does.
    """
    if grid.name == "regular":
        return regular_grid_from_json(member(grid.configuration, "chunk_shape", key), shape, "chunk_shape", key)
    if grid.name == "zarrs.regular_bounded":
        lengths = regular_grid_from_json(member(grid.configuration, "chunk_shape", key), shape, "chunk_shape", key)
        most = _MAX_EDGES // max(1, len(shape))
        return ChunkGrid(tuple(_bounded(chunk, size, most, key) for chunk, size in zip(lengths.largest_chunk(), shape)))
    if grid.name != "rectilinear":
        raise UnsupportedError(f"unknown chunk grid {grid.name!r:.40}", key=key, field="chunk_grid")
    shapes = member(grid.configuration, "chunk_shapes", key)
    if grid.configuration.get("kind", "inline") != "inline":
        raise UnsupportedError(
            "rectilinear grids of kinds other than 'inline' are not supported", key=key, field="chunk_grid.kind"
        )
    if not isinstance(shapes, list) or len(shapes) != len(shape):
        raise MetadataError("chunk_shapes must have an entry for each dimension", key=key, field="chunk_shapes")
    most = _MAX_EDGES // max(1, len(shape))
    return ChunkGrid(tuple(_axis_from_json(item, size, most, key) for item, size in zip(shapes, shape)))


def _bounded(chunk: int, size: int, most: int, key: str) -> VaryingAxis:
    """Return an axis with chunks of equal length, except for the last one, which ends where the array does."""
    whole, rest = divmod(size, chunk)
    if whole >= most:
        raise MetadataError(f"an axis has more than {most} chunks", key=key, field="chunk_shape")
    return VaryingAxis((chunk,) * whole + ((rest,) if rest or not whole else ()) if size else (chunk,))


def _axis_from_json(value: Any, size: int, most: int, key: str) -> ChunkAxis:
    """Read one axis of a rectilinear grid: one length, or a list of lengths and of ``[length, count]`` runs."""
    wrong = MetadataError(f"{value!r:.80} are not chunk lengths", key=key, field="chunk_shapes")
    if type(value) is int and 0 < value < 2**63:
        return RegularAxis(value)
    if not isinstance(value, list):
        raise wrong
    edges: list[int] = []
    for item in value:
        length, count = item if isinstance(item, list) and len(item) == 2 else (item, 1)
        if type(length) is not int or type(count) is not int or not 0 < length < 2**63 or count < 0:
            raise wrong
        if len(edges) + count > most:
            raise MetadataError(f"an axis has more than {most} chunks", key=key, field="chunk_shapes")
        edges += [length] * count
    if not size <= sum(edges) < 2**63:
        raise MetadataError(f"the chunks of an axis cover {sum(edges)} of {size}", key=key, field="chunk_shapes")
    return VaryingAxis(tuple(edges))


def grid_to_json(grid: ChunkGrid) -> dict[str, Any]:
    """Convert a grid to the ``chunk_grid`` of a Zarr v3 document.

    Raises
    ------
    UnsupportedError
        If it has more chunks than `grid_from_extension` would read.

    Examples
    --------
    >>> from tegula.metadata.chunk_grids import chunk_grid
    >>> grid_to_json(chunk_grid((4, [3, 3, 2])))["configuration"]["chunk_shapes"]
    [4, [[3, 2], 2]]
    """
    if grid.is_regular:
        return {"name": "regular", "configuration": {"chunk_shape": [*grid.largest_chunk()]}}
    if any(isinstance(axis, VaryingAxis) and len(axis.edges) > _MAX_EDGES // grid.ndim for axis in grid.axes):
        raise UnsupportedError(f"an axis has more than {_MAX_EDGES // grid.ndim} chunks", field="chunks")
    shapes = [axis.chunk if isinstance(axis, RegularAxis) else _runs(axis.edges) for axis in grid.axes]
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def _runs(edges: tuple[int, ...]) -> list[int | list[int]]:
    """Write equal lengths in a row as one ``[length, count]``."""
    out: list[int | list[int]] = []
    for edge in edges:
        last = out[-1] if out else 0
        if isinstance(last, list) and last[0] == edge:
            last[1] += 1
        elif last == edge:
            out[-1] = [edge, 2]
        else:
            out.append(edge)
    return out
