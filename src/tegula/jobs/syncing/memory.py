"""What a mirror remembers: the states of chunks that the last sync saw, in the node of the target that it is about.

It is kept below `SYNC_DIRECTORY` in the node, which no reader of the node needs::

    node.json              what the documents were made of, and the pieces of the tables
    sources-6f1c…          a piece of the table of the source's chunks: coordinates and states
    targets-03ab…          a piece of the table of the target's chunks: the same

A piece has the coordinates of up to 98,304 chunks as differences to the chunk before, compressed, and eight bytes for
the state of each. Pieces are named by their contents. They are written before ``node.json`` names them, and those that
are the same as before are not written again; so a process that is killed leaves what was remembered before.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import SYNC_DIRECTORY
from tegula.engine.reading.remote import delete_keys
from tegula.errors import MetadataError
from tegula.formats.documents import load
from tegula.jobs.plans import digest, is_count
from tegula.jobs.syncing.states import States, no_chunks
from tegula.stores import Store

__all__ = ["Memory", "Remembered"]

_VERSION: Final = 1
_PIECE: Final = 2**16  # chunks in a piece
_MOST: Final = 3 * 2**15  # chunks in a piece that is not cut
_RETRIES: Final = 5
_NDIM: Final = 2**8  # more dimensions than an array can have
_TABLES: Final = ("sources", "targets")


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the last sync saw of a node, and has made of it.

    Parameters
    ----------
    described : str
        A digest of how the values are stored on both sides; chunks with another one belong to another array.
    wanted : str
        A digest of the documents that the source asks for.
    documents : tuple of str
        Digests of the documents that may be stored: those of the last sync, and those that it was about to write.
    shape : tuple of int
        The shape of the target.
    is_complete : bool
        Whether the node was complete; before that, what is there is of an interrupted sync.
    sources, targets : States
        The chunks of the source, and of the target. A state of 0 was about to be written.
    """

    described: str = ""
    wanted: str = ""
    documents: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    is_complete: bool = False
    sources: States = field(default_factory=lambda: no_chunks(0))
    targets: States = field(default_factory=lambda: no_chunks(0))


class Memory:
    """The memory of one node of a mirror.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> Memory(store, "x").write(Remembered(described="a", shape=(3,), is_complete=True))
    >>> Memory(store, "x").read().shape
    (3,)
    """

    def __init__(self, store: Store, path: str) -> None:
        self.store = store
        self._prefix = f"{path}/{SYNC_DIRECTORY}/".lstrip("/")
        self._stored: dict[str, list[Any]] = {name: [] for name in _TABLES}  # the pieces that are stored

    def read(self) -> Remembered | None:
        """Return what is remembered; ``None`` if that is nothing, or can't be read."""
        for _ in range(_RETRIES):  # a piece that is gone belongs to tables that others have replaced
            raw = self.store.get(f"{self._prefix}node.json")
            if raw is None:
                return None
            try:
                facts = load(raw, f"{self._prefix}node.json")
            except MetadataError:
                return None
            if not _is_memory(facts):
                return None
            self._stored = {name: facts[name] for name in _TABLES}
            with suppress(_GoneError):
                ndim = len(facts["shape"])
                sources, targets = (self._table(name, ndim) for name in _TABLES)
                plain = facts["described"], facts["wanted"], tuple(facts["documents"]), tuple(facts["shape"])
                return Remembered(*plain, facts["complete"], sources, targets)
            self._stored = {name: [] for name in _TABLES}  # damaged pieces are written again
        return None

    def _table(self, name: str, ndim: int) -> States:
        pieces = self._stored[name]
        keys = [f"{self._prefix}{name}-{piece['digest']}" for piece in pieces]
        values = gather(self.store.get, keys, self.store.concurrency)
        tables = [_unpacked(raw, piece["digest"], ndim) for raw, piece in zip(values, pieces)]
        if not tables:
            return no_chunks(ndim)
        columns = zip(*((one.coords, one.states, one.sizes) for one in tables))
        return States(*(np.concatenate(column) for column in columns))

    def write(self, what: Remembered) -> None:
        """Remember a node: the new pieces, then the list of all, and last the removal of old pieces."""
        old = {f"{self._prefix}{name}-{piece['digest']}" for name in _TABLES for piece in self._stored[name]}
        facts: dict[str, Any] = {
            "version": _VERSION, "described": what.described, "wanted": what.wanted, "documents": [*what.documents],
            "shape": [*what.shape], "complete": what.is_complete,
        }  # fmt: skip
        new = dict[str, bytes]()
        for name, table in zip(_TABLES, (what.sources, what.targets)):
            facts[name] = []
            for part in _cut(table, [piece["first"] for piece in self._stored[name]]):
                raw = _packed(part)
                facts[name].append({"digest": digest(raw), "chunks": len(part), "first": part.coords[0].tolist()})
                new[f"{self._prefix}{name}-{digest(raw)}"] = raw
        gather(
            lambda key: self.store.set(key, new[key]), [key for key in new if key not in old], self.store.concurrency
        )
        self.store.set(f"{self._prefix}node.json", json.dumps(facts, separators=(",", ":")).encode())
        self._stored = {name: facts[name] for name in _TABLES}
        delete_keys(self.store, sorted(old - new.keys()))

    def doubt(self) -> None:
        """Forget in which state the chunks of the source were, so that the next sync transfers them all."""
        if (found := self.read()) is not None:
            self.write(replace(found, sources=found.sources.marked(found.sources.coords)))

    def nbytes(self) -> int:
        """Return the bytes that the memory takes."""
        return sum(self.store.size(key) or 0 for key in self.store.list_prefix(self._prefix))


class _GoneError(Exception):
    """A piece is not there any more."""


def _is_memory(facts: Any) -> bool:
    """Return whether a document is what `Memory.write` writes, as far as it is used."""
    if not isinstance(facts, dict) or facts.get("version") != _VERSION or type(facts.get("complete")) is not bool:
        return False
    texts = all(isinstance(facts.get(name), str) for name in ("described", "wanted"))
    shape, documents = facts.get("shape"), facts.get("documents")
    plain = texts and isinstance(shape, list) and len(shape) <= _NDIM and all(map(is_count, shape))
    plain = plain and isinstance(documents, list) and all(isinstance(one, str) for one in documents)
    return plain and all(isinstance(facts.get(name), list) and all(map(_is_piece, facts[name])) for name in _TABLES)


def _is_piece(piece: Any) -> bool:
    if not isinstance(piece, dict) or not isinstance(piece.get("digest"), str):
        return False
    first = piece.get("first")
    return "/" not in piece["digest"] and isinstance(first, list) and all(map(is_count, first))


def _cut(table: States, firsts: Sequence[Sequence[int]]) -> list[States]:
    """Cut a table into pieces, where it was cut before as far as possible, so that the others stay the same."""
    bounds = [0]
    rows = table.coords.tolist() if len(firsts) > 1 else []
    position = 0
    for first in firsts[1:]:
        position = _bisect(rows, [*first], position)
        bounds.append(position)
    bounds.append(len(table))
    pieces = []
    for start, stop in pairwise(bounds):
        size = stop - start if stop - start <= _MOST else _PIECE
        pieces += [
            States(table.coords[at:end], table.states[at:end], table.sizes[at:end])
            for at in range(start, stop, size or 1)
            if (end := min(stop, at + size)) > at
        ]
    return pieces


def _bisect(rows: list[list[int]], first: list[int], low: int) -> int:
    high = len(rows)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rows[middle] < first else (low, middle)
    return low


def _packed(table: States) -> bytes:
    """Return a piece as bytes: the coordinates as differences, and the states."""
    shifted = np.diff(table.coords, axis=0, prepend=0).T
    kinds = [np.promote_types(np.min_scalar_type(-1 - int(np.abs(axis).max())), np.int8) for axis in shifted]
    plain = zlib.compress(
        b"".join(axis.astype(f"<i{kind.itemsize}").tobytes() for axis, kind in zip(shifted, kinds)), 1
    )
    heads = [number.to_bytes(4, "little") for number in (len(table), len(plain))]
    return b"".join([*heads, bytes(kind.itemsize for kind in kinds), plain, table.states.astype("<u8").tobytes()])


def _unpacked(raw: bytes | None, name: str, ndim: int) -> States:
    """Return the piece that bytes hold; raise `_GoneError` if they are none, or not those that were written."""
    start = 8 + ndim
    if raw is None or len(raw) < start or digest(raw) != name:
        raise _GoneError
    number, size = int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")
    itemsizes = raw[8:start]
    # a digest is no proof that a sync has written them
    if number > _MOST or len(raw) != start + size + 8 * number or not {*itemsizes} <= {1, 2, 4, 8}:
        raise _GoneError
    at, plain = 0, _decompressed(raw[start : start + size], number * sum(itemsizes))
    coords = np.empty((number, ndim), np.int64)
    for axis, itemsize in enumerate(itemsizes):
        np.cumsum(np.frombuffer(plain, f"<i{itemsize}", number, at), dtype=np.int64, out=coords[:, axis])
        at += number * itemsize
    if (coords < 0).any():
        raise _GoneError
    states = np.frombuffer(raw, "<u8", offset=start + size).astype(np.uint64)
    return States(coords, states, np.zeros(number, np.int64))


def _decompressed(raw: bytes, nbytes: int) -> bytes:
    """Return as many bytes as a piece must have, and never more."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(raw, nbytes + 1)
    except zlib.error:
        raise _GoneError from None
    if len(plain) != nbytes or stream.unconsumed_tail or not stream.eof:
        raise _GoneError
    return plain
