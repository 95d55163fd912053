"""Writers of kerchunk references: one JSON document, or Parquet files with the rows of `record_size` chunks each."""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import UnsupportedError
from tegula.references.chunks import Chunk, chunks_of
from tegula.references.locations import plain_location
from tegula.references.planning import PlannedArray, PlannedGroup
from tegula.references.report import ReferenceReport
from tegula.runtime.optional import library
from tegula.stores import Store
from tegula.stores.capabilities import stored_key
from tegula.stores.references.parquet import INDEX, record_key

__all__ = ["json_references", "write_parquet"]

Node = PlannedGroup | PlannedArray
_ROW: Final = np.dtype([("number", "i8"), ("offset", "i8"), ("length", "i8"), ("key", "i8")])
_BLOCK: Final = 2**16


def json_references(nodes: Iterable[Node], base: str, threshold: int, report: ReferenceReport) -> dict[str, Any]:
    """Return the references of nodes as a document of version 1.

    Parameters
    ----------
    nodes : iterable
        The nodes.
    base : str
        The URL of the source's store.
    threshold : int
        Chunks of fewer bytes are stored among the references.
    report : ReferenceReport
        Receives the numbers of arrays and chunks.
    """
    refs: dict[str, Any] = {}
    for node in nodes:
        prefix = f"{node.path}/" if node.path else ""
        for name, raw in node.documents.items():
            refs[prefix + name] = raw.decode()
        if isinstance(node, PlannedGroup):
            continue
        keys, report.arrays = node.target.metadata.keys, report.arrays + 1
        for chunk in report.counted(chunks_of(node, threshold)):
            if chunk.data is None:
                value: Any = [plain_location(base, chunk.key), chunk.offset, chunk.length]
            else:
                value = f"base64:{base64.b64encode(chunk.data).decode()}"
            refs[prefix + keys.encode(chunk.coords)] = value
    return {"version": 1, "refs": refs}


def write_parquet(
    store: Store, nodes: Iterable[Node], base: str, threshold: int, record_size: int, report: ReferenceReport
) -> None:
    """Write the references of nodes as Parquet files.

    The use of memory does not depend on the number of chunks: they are sorted in a temporary file, and each file of
    rows is written before the next one is made.

    Raises
    ------
    UnsupportedError
        If an array has no name, or too many chunks to number.
    """
    documents: dict[str, Any] = {}
    for node in nodes:
        prefix = f"{node.path}/" if node.path else ""
        for name, raw in node.documents.items():
            documents[prefix + name] = json.loads(raw)
        if isinstance(node, PlannedArray):
            if not node.path:
                raise UnsupportedError(
                    "references in Parquet are those of named arrays; give the array a name with path='name'",
                    path=node.source.location,
                )
            report.arrays += 1
            _write_rows(store, node, base, report.counted(chunks_of(node, threshold)), record_size)
    index = {"metadata": documents, "record_size": record_size, "zarr_consolidated_format": 1}
    store.set(INDEX, json.dumps(index).encode())  # last, so that half of the references are never opened


def _write_rows(store: Store, node: PlannedArray, base: str, chunks: Iterator[Chunk], record_size: int) -> None:
    metadata = node.target.metadata
    counts = metadata.grid.counts(metadata.shape)
    if prod(counts) >= 2**63:
        raise UnsupportedError("references in Parquet can't number this many chunks", path=node.source.location)
    source = node.source.stored
    with tempfile.TemporaryFile() as rows, tempfile.TemporaryFile() as inlined:
        number = _spool(chunks, counts, rows, inlined)
        if not number:
            return
        table = np.memmap(rows, _ROW, "r+", shape=(number,))
        table.sort(order="number")
        begin = 0
        while begin < number:
            record = int(table["number"][begin]) // record_size
            end = begin + int(np.searchsorted(table["number"][begin:], (record + 1) * record_size))
            part = np.array(table[begin:end])
            paths: list[str | None] = [None] * record_size
            raws: list[bytes | None] = [None] * record_size
            offsets, sizes = (np.zeros(record_size, "i8") for _ in range(2))
            for row in part:
                place = int(row["number"]) - record * record_size
                if row["key"] < 0:
                    key = source.key(_coords(int(row["number"]), counts))
                    paths[place] = plain_location(base, stored_key(source.store, key))
                    offsets[place], sizes[place] = row["offset"], row["length"]
                else:
                    inlined.seek(int(row["key"]))
                    raws[place] = inlined.read(int(row["length"]))
            store.set(record_key(node.path, record), _table(paths, offsets, sizes, raws))
            begin = end
        del table


def _spool(chunks: Iterator[Chunk], counts: tuple[int, ...], rows: Any, inlined: Any) -> int:
    """Write number, position and length of each chunk to one file, and bytes among the references to another."""
    number = 0
    block: list[tuple[int, int, int, int]] = []
    for chunk in chunks:
        place = -1
        if chunk.data is not None:
            place = inlined.tell()
            inlined.write(chunk.data)
        block.append((_number(chunk.coords, counts), chunk.offset, chunk.length, place))
        number += 1
        if len(block) == _BLOCK:
            rows.write(np.array(block, _ROW).tobytes())
            block.clear()
    rows.write(np.array(block, _ROW).tobytes())
    rows.flush()
    return number


def _number(coords: tuple[int, ...], counts: tuple[int, ...]) -> int:
    number = 0
    for coord, count in zip(coords, counts):
        number = number * count + coord
    return number


def _coords(number: int, counts: tuple[int, ...]) -> tuple[int, ...]:
    coords = []
    for count in reversed(counts):
        number, coord = divmod(number, count)
        coords.append(coord)
    return tuple(reversed(coords))


def _table(
    paths: list[str | None], offsets: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], raws: list[bytes | None]
) -> bytes:
    """Return the Parquet file of one record; columns without any value are left out, as readers expect."""
    arrow = library("pyarrow")
    columns: dict[str, Any] = {}
    if any(path is not None for path in paths):
        columns |= {"path": arrow.array(paths, arrow.string()), "offset": offsets, "size": sizes}
    if any(raw is not None for raw in raws):
        columns["raw"] = arrow.array(raws, arrow.binary())
    arrays = [arrow.array(column) for column in columns.values()]
    # readers convert numbers that may be missing to floats
    fields = [arrow.field(name, each.type, name in ("path", "raw")) for name, each in zip(columns, arrays)]
    target = io.BytesIO()
    options: Mapping[str, Any] = {"compression": "zstd", "write_statistics": ["offset", "size"]}
    library("pyarrow.parquet").write_table(
        arrow.Table.from_arrays(arrays, schema=arrow.schema(fields)), target, **options
    )
    return target.getvalue()
