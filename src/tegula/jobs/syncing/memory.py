"""What a mirror remembers: the states of chunks that the last sync saw, in the node of the target that it is about.

It is kept below `SYNC_DIRECTORY` in the node, which no reader of the node needs::

    node.json              what the documents were made of, and the pieces of the tables
    sources-6f1c…          a piece of the table of the source's chunks: coordinates and states
    targets-03ab…          a piece of the table of the target's chunks: the same

A piece has the coordinates of up to 98,304 chunks as differences to the chunk before, compressed, and eight bytes for
the state of each. Pieces are named by their contents. They are written before ``node.json`` names them, and those that
are the same as before are not written again; so a process that is killed leaves what was remembered before.

A sync without parts has the target for itself. Several parts may work on one node: each writes the memory on condition
that it still is as this part has read it, and otherwise looks at the node again. So no part can undo what another has
noted. Before any part changes a chunk, the memory says of this chunk that it is about to be written, until the units of
all parts are done; what differs from the memory at one moment was then changed by others.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import SYNC_DIRECTORY
from tegula.engine.reading.remote import delete_keys
from tegula.errors import ConflictError, MetadataError
from tegula.formats.documents import load
from tegula.jobs.plans import digest, is_count
from tegula.jobs.syncing.states import States, no_chunks
from tegula.stores import ABSENT, Generation, Store
from tegula.stores.capabilities import unchanged

__all__ = ["ANY_DOCUMENTS", "Memory", "OvertakenError", "Remembered"]

ANY_DOCUMENTS: Final = "*"
"""A mark in place of a digest: a sync is about to write the documents, so whatever they are, it may be its own."""

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


class OvertakenError(ConflictError):
    """Another part of a sync has written the memory of a node since this part has read it."""


class Memory:
    """The memory of one node of a mirror.

    Parameters
    ----------
    store, path : Store, str
        Where the node is.
    is_shared : bool
        Whether other processes may write it at the same time: the parts of a sync.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> Memory(store, "x").write(Remembered(described="a", shape=(3,), is_complete=True))
    >>> Memory(store, "x").read().shape
    (3,)
    """

    def __init__(self, store: Store, path: str, *, is_shared: bool = False) -> None:
        self.store, self.is_shared = store, is_shared
        self._prefix = f"{path}/{SYNC_DIRECTORY}/".lstrip("/")
        self._key = f"{self._prefix}node.json"
        self._facts: dict[str, Any] = {}  # as they are stored, if they can be read
        self._generation: Generation = ABSENT  # of the facts, if it is shared

    def read(self) -> Remembered | None:
        """Return what is remembered; ``None`` if that is nothing, or can't be read."""
        for _ in range(_RETRIES):  # a piece that is gone belongs to tables that others have replaced
            self._facts = {}  # damaged pieces are written again
            if self.is_shared:
                raw, self._generation = self.store.get(self._key, with_generation=True)
            else:
                raw = self.store.get(self._key)
            if raw is None:
                return None
            try:
                facts = load(raw, self._key)
            except MetadataError:
                return None
            if not _is_memory(facts):
                return None
            with suppress(_GoneError):
                ndim = len(facts["shape"])
                sources, targets = (self._table(facts[name], name, ndim) for name in _TABLES)
                self._facts = facts
                plain = facts["described"], facts["wanted"], tuple(facts["documents"]), tuple(facts["shape"])
                return Remembered(*plain, facts["complete"], sources, targets)
        return None

    def is_current(self) -> bool:
        """Return whether a shared memory is still as it was read or written here."""
        return unchanged(self.store, self._key, self._generation)

    @property
    def expects_documents(self) -> bool:
        """Whether what is stored says that the documents are about to be written."""
        return ANY_DOCUMENTS in self._facts.get("documents", ())

    def _table(self, pieces: Sequence[Mapping[str, Any]], name: str, ndim: int) -> States:
        keys = [f"{self._prefix}{name}-{piece['digest']}" for piece in pieces]
        values = gather(self.store.get, keys, self.store.concurrency)
        tables = [_unpacked(raw, piece["digest"], ndim) for raw, piece in zip(values, pieces)]
        if not tables:
            return no_chunks(ndim)
        columns = zip(*((one.coords, one.states, one.sizes) for one in tables))
        return States(*(np.concatenate(column) for column in columns))

    def write(self, what: Remembered) -> None:
        """Remember a node: the new pieces, then the list of all, and last the removal of old pieces.

        Raises
        ------
        OvertakenError
            If the memory is shared, and is not as it was read or written here: nothing is remembered.
        """
        stored = {name: self._facts.get(name, ()) for name in _TABLES}
        old = {f"{name}-{_digest_in(one['digest'])}": one["digest"] for name in _TABLES for one in stored[name]}
        facts: dict[str, Any] = {
            "version": _VERSION, "described": what.described, "wanted": what.wanted, "documents": [*what.documents],
            "shape": [*what.shape], "complete": what.is_complete,
        }  # fmt: skip
        new, kept = dict[str, bytes](), set[str]()
        # what another part writes at the same time, or removes, has other names
        tag = f"-{os.urandom(4).hex()}" if self.is_shared else ""
        for name, table in zip(_TABLES, (what.sources, what.targets)):
            facts[name] = []
            for part in _cut(table, [piece["first"] for piece in stored[name]]):
                raw = _packed(part)
                found = old.get(f"{name}-{digest(raw)}")
                named = f"{digest(raw)}{tag}" if found is None else found
                if found is None:
                    new[f"{self._prefix}{name}-{named}"] = raw
                kept.add(f"{name}-{named}")
                facts[name].append({"digest": named, "chunks": len(part), "first": part.coords[0].tolist()})
        if facts == self._facts:  # so it may be that another part has noted the same
            if self.is_shared and not self.is_current():
                raise self._overtaken()
            return
        gather(lambda key: self.store.set(key, new[key]), [*new], self.store.concurrency)
        self._put(json.dumps(facts, separators=(",", ":")).encode(), [*new])
        self._facts = facts
        gone = {f"{name}-{one['digest']}" for name in _TABLES for one in stored[name]} - kept
        delete_keys(self.store, [f"{self._prefix}{name}" for name in sorted(gone)])

    def _put(self, raw: bytes, pieces: list[str]) -> None:
        """Store the list of all pieces; if it is shared, on condition that no other part has stored one."""
        if not self.is_shared:
            self.store.set(self._key, raw)
            return
        try:
            self._generation = self.store.set(self._key, raw, if_generation=self._generation)
        except ConflictError:
            found, generation = self.store.get(self._key, with_generation=True)
            if found != raw:
                delete_keys(self.store, pieces)
                raise self._overtaken() from None
            self._generation = generation  # the same, or a request that was sent twice

    def _overtaken(self) -> OvertakenError:
        return OvertakenError("another part has just noted what it does here", key=self._key)

    def doubt(self) -> None:
        """Forget in which state the chunks of the source were, so that the next sync transfers them all."""
        while (found := self.read()) is not None:
            with suppress(OvertakenError):
                self.write(replace(found, sources=found.sources.marked(found.sources.coords)))
                return

    def nbytes(self) -> int:
        """Return the bytes that the memory takes."""
        return sum(self.store.size(key) or 0 for key in self.store.list_prefix(self._prefix))


class _GoneError(Exception):
    """A piece is not there any more."""


def _digest_in(name: str) -> str:
    """Return the digest in the name of a piece, which parts of a sync make unique."""
    return name.partition("-")[0]


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
    if raw is None or len(raw) < start or digest(raw) != _digest_in(name):
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
