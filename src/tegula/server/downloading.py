"""Selections as files, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from tegula.arrays.array import Array
from tegula.engine.reading.costs import reading_cost
from tegula.errors import SelectionError
from tegula.extracts.coordinates import heads_of
from tegula.extracts.projections import Projection
from tegula.extracts.windows import Picked, Window
from tegula.extracts.writing import WRITERS, write_headed_csv
from tegula.hierarchy.group import Group
from tegula.server.consistency import Watch, Work
from tegula.server.content import Content
from tegula.server.extracting import BLOCK, part_of, read_axes, table_at
from tegula.server.matching import ALL, Matching, Query, matching_cost, used_columns
from tegula.tables.table import Table

__all__ = ["Download", "download"]

_FIRST: Final = 2**18  # bytes that are read before the answer begins
_TYPES: Final = {"npy": "application/octet-stream", "csv": "text/csv; charset=utf-8", "json": "application/json"}


@dataclass(frozen=True, slots=True)
class Download:
    """A selection as a file: its first bytes, and further ones if there are any, block by block."""

    name: str
    media_type: str
    size: int | None
    first: bytes
    blocks: Iterator[bytes] | None


def download(
    content: Content,
    path: str,
    selection: str,
    format: str,
    query: Query = ALL,
    matching: Matching | None = None,
    *,
    heads: bool = False,
    through: int | None = None,
) -> Work[Download]:
    """Return the work that begins a file of a selection; reading each further block takes as much memory.

    With a query, the selection is one of the rows that match it, in its order. With `heads`, values are decoded, and
    csv of arrays has their coordinates in its first column and line. With `through`, the file has the greatest elements
    along that axis. If the nodes are replaced later, the iterator raises `ConflictError`.

    Raises
    ------
    NotFoundError, SelectionError, UnsupportedError
        If there is no such node, selection or format, or the format can't hold the values.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> g["x"] = [[1, 2], [3, 4]]
    >>> file = download(Content(g), "x", ":, 1", "csv").run()
    >>> file.name, file.first, file.blocks
    ('x.csv', b'2\\n4\\n', None)
    """
    if format not in _TYPES:
        raise SelectionError(f"the format must be one of {', '.join(_TYPES)}, not {format!r:.40}")
    node = content.open(path)
    if isinstance(node, Group):
        node = table_at(content, path)
    arrays = [node] if isinstance(node, Array) else [node[name] for name in node.names]
    used = used_columns(node, query) if query else []
    watch = content.watch(node, *(arrays if isinstance(node, Table) else ()))
    whole = None if query else part_of(node, selection, decodes=heads, through=through)
    write = WRITERS[format]
    if heads and format == "csv" and isinstance(node, Array) and whole is not None:
        write = _headed(content, node, whole)
    last = path.rpartition("/")[2] or node.name or "values"

    def run() -> Download:
        if whole is None:
            found = watch.guard(lambda: (matching or Matching()).find(path, node, query, watch))
            part = part_of(Picked(node, found.numbers), selection)
        else:
            part = whole
        pieces = _watched(write(part), watch)
        first, size, is_all = b"", None, False
        while len(first) < _FIRST and not is_all:  # errors before the first bytes are answers of their own
            piece = next(pieces, None)
            is_all = piece is None
            if format == "npy" and not first and piece is not None:  # the header
                size = len(piece) + prod(part.shape) * part.dtype.itemsize
            first = b"".join((first, piece or b""))
            is_all = is_all or len(first) == size
        return Download(f"{last}.{format}", _TYPES[format], size, first, None if is_all else pieces)

    # a table reads its columns one after another
    axes = () if whole is None else read_axes(whole)
    cost = 3 * BLOCK + max((reading_cost(array.stored, axes) for array in arrays), default=0)
    return Work(cost + (matching_cost(used) if query else 0), run)


def _headed(content: Content, node: Array, part: Window) -> Callable[[Window], Iterator[bytes]]:
    """Return a writer of csv with the coordinates of an array, which are looked for among the served nodes."""
    axes = {axis: indices for axis, indices in enumerate(read_axes(part)) if isinstance(indices, range)}
    if isinstance(part.array, Projection):
        del axes[part.array.through]
    return partial(write_headed_csv, name=node.name or "value", heads=heads_of(node, axes, content.root.path))


def _watched(pieces: Iterator[bytes], watch: Watch) -> Iterator[bytes]:
    """Yield the pieces; raise `ConflictError` if the nodes are no longer those of the start."""
    with closing(pieces):  # type: ignore[type-var]  # a generator
        while (piece := watch.guard(partial(next, pieces, None))) is not None:
            yield piece
