"""The content of a server: a node and all below it, by key as Zarr v3, and by path for everything else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import prod
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from tegula.arrays.array import Array
from tegula.engine.documents.implied_keys import members_unknown
from tegula.engine.reading.costs import decoding_cost
from tegula.errors import ConflictError, MetadataError, NotFoundError, StoreError, TegulaError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.hierarchy.nodes import open_below
from tegula.hierarchy.opening import open_table
from tegula.server.consistency import Watch
from tegula.stores.arguments import is_key
from tegula.stores.names import is_no_name
from tegula.tables.table import Table
from tegula.zarr3_view.casting import CASTS, PARTS, CastArray
from tegula.zarr3_view.nodes import DOCUMENT, ShownArray, ShownGroup, group_document, is_zarr3, plain_group
from tegula.zarr3_view.view import Zarr3View

__all__ = ["CAST_PREFIX", "ComputedValue", "Content", "Document", "StoredValue", "split_cast"]

T = TypeVar("T")
_MOST_NODES: Final = 2000
"""Maximum number of nodes in generated consolidated metadata; a larger hierarchy gets none."""
_MOST_BYTES: Final = 2**22
_MOST_SECONDS: Final = 5.0
_LIFETIME: Final = 2.0  # seconds to keep generated consolidated metadata, or five times as long as it took
_MOST_CASTS: Final = 256
_LEAST: Final = 2**16  # bytes of memory that any work takes
_SMALL: Final = 2**18  # bytes of a chunk that is converted without a thread of its own
_CHUNK: Final = re.compile(r"(?:(.+)/)?(c(?:/[0-9]+)*)").fullmatch
CAST_PREFIX: Final = "as/"
"""The first part of paths of cast elements."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A stored value that is passed on as it is.

    Parameters
    ----------
    key : str
        Its key in the store.
    check : callable
        Raises `ConflictError` if documents that say where the value is have changed.
    """

    key: str
    check: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ComputedValue:
    """A value that is computed from a stored one on request.

    Parameters
    ----------
    key : str
        The stored value, which must exist, and whose generation is that of the result.
    mark : bytes
        Anything else that the result depends on, as bytes.
    cost : int
        Bytes of memory that computing it may take.
    make : callable
        Computes the value; takes the stored one if `needs_value`.
    needs_value : bool
        Whether the whole stored value must be read first.
    check : callable
        Raises `ConflictError` if the documents from which the value is computed have changed.
    kept : bool
        Whether it is kept for requests of further ranges.
    """

    key: str
    mark: bytes
    cost: int
    make: Callable[[bytes], bytes]
    needs_value: bool
    check: Callable[[], None]
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """A document of Zarr v3, made by the server or stored as it is."""

    value: bytes


class Content:
    """A node and all below it, for a server.

    Parameters
    ----------
    node : Array, Group or Table
        The node.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({}, format="zarr2")
    >>> g["x"] = [1.0, 2.0]
    >>> content = Content(g)
    >>> content.find("x/c/0"), content.find("x/c/1/1"), content.kind("x")
    (StoredValue(key='x/0'), None, 'array')
    """

    def __init__(self, node: Any) -> None:
        self.root = node
        self.store = node.store
        self.view = Zarr3View(node.store, node.path, format=node.format, writable=False)
        self._consolidated: dict[tuple[str, str | None], tuple[float, bytes]] = {}
        self._casts: dict[tuple[str, str], CastArray] = {}
        self._watches: WeakKeyDictionary[ShownArray, Watch] = WeakKeyDictionary()

    # --- nodes

    def forget(self) -> None:
        """Forget all open arrays, when one of them has been replaced."""
        self.view.forget()
        self._casts.clear()
        self._watches.clear()

    def store_path(self, path: str) -> str:
        """Return the path in the store for a path below the served node."""
        return "/".join(part for part in (self.root.path, path) if part)

    def open(self, path: str) -> Array | Group | Table:
        """Open the node at a path below.

        Raises
        ------
        NotFoundError
            If there is none.
        """
        if not path and isinstance(self.root, Table):  # it may be a table in a format without tables
            return open_table(self.store, path=self.root.path)
        node = None
        if not path or is_key(path):
            try:
                node = self._look_twice(
                    path, lambda: open_below(self.store, self.store_path(path), self.root.path, read_only=True)
                )
            except StoreError as error:
                if not is_no_name(error):
                    raise
        if node is None:
            raise NotFoundError("there is no node at this path", path=f"/{path}")
        return node

    def _look_twice(self, path: str, look: Callable[[], T]) -> T:
        """Look for a node; look again if nothing or half a node is found where a node was: it may be being replaced."""
        known = not path or self.view.knows(path)
        try:
            node = look()
        except MetadataError:
            return look()
        return look() if node is None and known else node

    def watch(self, *nodes: Array | Group | Table) -> Watch:
        """Return the state of nodes that were opened just now, to see later whether it has changed.

        Raises
        ------
        ConflictError
            If it has changed already.
        """
        return Watch(nodes[0].store, [(node.path, node.metadata) for node in nodes])

    def kind(self, path: str) -> str | None:
        """Return ``"array"``, ``"group"`` or ``"table"``, or ``None`` if there is no node at a path."""
        try:
            return self.open(path).kind
        except NotFoundError:
            return None
        except (MetadataError, UnsupportedError):
            return "group"  # a node exists, and its listing reports the error

    def members(self, node: Group) -> Group:
        """Return a group with known members: those of its consolidated metadata if the store can't be listed.

        Raises
        ------
        UnsupportedError
            If they are not known.
        """
        if node.store.listable:
            return node
        try:
            return node.with_consolidated()
        except NotFoundError as error:
            raise members_unknown(node.store, node.path) from error

    # --- keys

    def find(self, key: str, to: str | None = None) -> StoredValue | ComputedValue | Document | None:
        """Return what a key of Zarr v3 stands for; with `to`, elements are cast to that type where possible.

        Raises
        ------
        TegulaError
            If a document can't be read.
        """
        if not is_key(key):
            return None
        try:
            return self._find(key, to)
        except StoreError as error:
            if not is_no_name(error):
                raise
            return None

    def find_known(self, key: str, to: str | None = None) -> StoredValue | ComputedValue | None:
        """Return a chunk that is passed on, or is small enough to be converted at once, if its array is known."""
        match = _CHUNK(key)
        array = None if match is None else self.view.known_array(match[1] or "")
        if match is None or array is None:
            return None
        if to is not None:
            cast = self._casts.get((array.path, to))
            known = cast is not None and cast.array.metadata == array.metadata
            return self._cast_value(array, cast, match[2]) if cast and known and self._is_quick(array) else None
        coords = array.coords(match[2]) if array.is_passed_on or self._is_quick(array) else None
        stored = "" if coords is None else array.key(coords)
        if coords is None or not stored:
            return None
        return StoredValue(stored) if array.is_passed_on else self._converted(array, coords, stored)

    def _is_quick(self, array: ShownArray) -> bool:
        """Return whether the chunks of an array are converted without a thread of their own."""
        stored = array.stored
        return array in self._watches and stored.chain.sharding is None and stored.chunk_nbytes <= _SMALL

    def _converted(self, array: ShownArray, coords: tuple[int, ...], stored: str) -> ComputedValue:
        """Return a chunk that is converted: it may be decoded, padded if it ends with the array, and encoded."""
        cost = 2 * decoding_cost(array.stored) + _LEAST
        kept = not (array.is_moved and self._is_quick(array))
        show = partial(array.show, coords=coords)
        return ComputedValue(stored, array.digest, cost, show, True, self._checking(array), kept)

    def _find(self, key: str, to: str | None) -> StoredValue | ComputedValue | Document | None:
        path, _, name = key.rpartition("/")
        if name == DOCUMENT:
            return self._document(path, to)
        if to is not None:
            cast_chunk = self._cast_chunk(key, to)
            if cast_chunk is not None:
                return cast_chunk
        chunk = self.view.chunk(key)
        if chunk is None or (to is not None and self._cast(chunk[0], to) is not None):
            self._check_above(key)
            return None
        array, coords, stored = chunk
        if array.is_passed_on:
            return StoredValue(stored, partial(self._check, array))
        return self._converted(array, coords, stored)

    # --- changes

    def _checking(self, array: ShownArray) -> Callable[[], None]:
        """Return a function that raises `ConflictError` if the documents of an array have changed since this call."""
        watch = self._watches.get(array)
        if watch is None:
            watch = self._look_at_documents(array, lambda: Watch(array.stored.store, [(array.path, array.metadata)]))
            self._watches[array] = watch
        return partial(self._look_at_documents, array, watch.check)

    def _check(self, array: ShownArray) -> None:
        """Raise `ConflictError` if the documents of an array have changed since it was looked up."""
        self._checking(array)()

    def _look_at_documents(self, array: ShownArray, look: Callable[[], T]) -> T:
        """Return what a function finds in the documents of an array; if they have changed, look the array up again."""
        try:
            return look()
        except ConflictError:
            self._watches.pop(array, None)
            with suppress(MetadataError, UnsupportedError):
                self.view.node(self._path_below(array.path), again=True)
            raise

    def _path_below(self, store_path: str) -> str:
        """Return the path below the served node for a path in the store."""
        return store_path[len(self.root.path) :].lstrip("/")

    def _check_above(self, key: str) -> None:
        """Check the known arrays above a key without a value: if their documents have changed, it may name a chunk."""
        parts = key.split("/")
        for cut in range(len(parts)):
            array = self.view.known_array("/".join(parts[:cut]))
            if array is not None:
                self._check(array)

    def _document(self, path: str, to: str | None) -> Document | None:
        try:
            node = self._look_twice(path, lambda: self.view.node(path, again=True))
        except UnsupportedError:
            return None  # Zarr v3 can't represent it
        if node is None:
            return None
        if isinstance(node, ShownGroup):
            return Document(self._group_document(path, node, to))
        self._check(node)  # all documents of the array must belong to one state
        cast = None if to is None else self._cast(node, to)
        return Document(node.document if cast is None else cast.document)

    # --- casts

    def _cast(self, node: ShownArray, to: str) -> CastArray | None:
        """Return an array with its elements cast, or ``None`` if they can't be."""
        if to not in CASTS and to not in PARTS:
            raise NotFoundError(f"elements can be cast to {', '.join((*CASTS, *PARTS))}, not to {to!r:.40}")
        known = self._casts.get((node.path, to))
        if known is not None and known.array.metadata == node.metadata:
            return known
        try:
            cast = CastArray(Array(node.stored, node.path, read_only=True), to)
        except UnsupportedError:
            return None
        if len(self._casts) >= _MOST_CASTS:
            self._casts.clear()
        self._casts[node.path, to] = cast
        return cast

    def _cast_chunk(self, key: str, to: str) -> ComputedValue | None:
        start = key.rfind("/c/")
        path, inner = ("", key) if start < 0 else (key[:start], key[start + 1 :])
        if start < 0 and inner.endswith("/c"):
            path, inner = inner[:-2], "c"
        node = self.view.array_at(path)
        cast = None if node is None else self._cast(node, to)
        return None if node is None or cast is None else self._cast_value(node, cast, inner)

    def _cast_value(self, node: ShownArray, cast: CastArray, inner: str) -> ComputedValue | None:
        coords = cast.coords(inner)
        if coords is None or not (stored := node.place_of(cast.stored_key(coords))):
            return None
        needs_value = cast.is_read_whole

        def make(data: bytes) -> bytes:
            return cast.chunk(coords, data if needs_value else None)

        mark = node.digest + cast.name.encode()
        return ComputedValue(stored, mark, _cast_cost(cast), make, needs_value, self._checking(node))

    # --- consolidated metadata

    def _group_document(self, path: str, node: ShownGroup, to: str | None) -> bytes:
        """Return the document of a group with the documents of all its members, unless there are too many."""
        stored = node.metadata.documents.get(DOCUMENT) if is_zarr3(node.metadata) else None
        if stored is not None and node.metadata.consolidated is not None and to is None:
            return stored
        until, document = self._consolidated.get((path, to), (0.0, b""))
        start = time.monotonic()
        if start < until:
            return document
        own = node.metadata if is_zarr3(node.metadata) else plain_group(node.metadata)
        members = self._member_documents(path, to, start + _MOST_SECONDS)
        if members is None:
            document = stored if stored is not None else group_document(own)
        else:
            document = group_document(own, members.items())
        now = time.monotonic()
        if len(self._consolidated) >= _MOST_CASTS:
            self._consolidated.clear()
        self._consolidated[path, to] = now + max(_LIFETIME, 5 * (now - start)), document
        return document

    def _member_documents(self, path: str, to: str | None, until: float) -> dict[str, dict[str, bytes]] | None:
        """Return the documents of all nodes below a group, or ``None`` if there are too many to list."""
        documents: dict[str, dict[str, bytes]] = {}
        size = 0
        try:
            for below, _ in islice(self.below(path), _MOST_NODES + 1):
                inner = f"{path}/{below}".lstrip("/")
                document = self._member_document(inner, to)
                size += len(document or b"")
                if len(documents) >= _MOST_NODES or size > _MOST_BYTES or time.monotonic() > until:
                    return None
                if document is not None:
                    documents[below] = {DOCUMENT: document}
        except UnsupportedError:  # the store can't be listed
            return None
        return documents

    def _member_document(self, path: str, to: str | None) -> bytes | None:
        """Return the document of one node in consolidated metadata; ``None`` if there is none."""
        try:
            node = self.view.node(path)
            if isinstance(node, ShownGroup):
                return group_document(plain_group(node.metadata))
            cast = None if node is None or to is None else self._cast(node, to)
            return None if node is None else node.document if cast is None else cast.document
        except TegulaError:
            return None  # opening it alone reports the reason

    def below(self, path: str) -> Iterator[tuple[str, Array | Group | Table]]:
        """Yield the path and the node of all nodes below a path, columns of tables included, parents first.

        Raises
        ------
        UnsupportedError
            If the members are not known, since the store can't be listed.
        """
        node = self.open(path)
        nodes = self.members(node).walk({}) if isinstance(node, Group) else iter([("", node)])
        for inner, member in nodes:
            if inner:
                yield inner, member
            for name in member.names if isinstance(member, Table) else ():
                with suppress(MetadataError, UnsupportedError):
                    yield f"{inner}/{name}".lstrip("/"), member[name]


def split_cast(path: str, reserved: bool) -> tuple[str, str | None]:
    """Split ``as/<dtype>/<key>`` into key and type; `reserved` says whether such paths are keys of a member.

    Examples
    --------
    >>> split_cast("as/float32/a/c/0", False), split_cast("a/c/0", False)
    (('a/c/0', 'float32'), ('a/c/0', None))
    """
    if reserved or not path.startswith(CAST_PREFIX):
        return path, None
    to, _, key = path[len(CAST_PREFIX) :].partition("/")
    return key, to


def _cast_cost(cast: CastArray) -> int:
    """Return the bytes that a chunk takes while it is read and decoded, while it is cast, and while it is encoded."""
    decoding = decoding_cost(cast.array.stored)
    cast_nbytes = prod(cast.described.grid.largest_chunk()) * cast.dtype.itemsize
    return max(decoding, decoding // 2 + cast_nbytes, 3 * cast_nbytes) + _LEAST
