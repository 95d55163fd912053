"""The content of a server: a node and all below it, by key as Zarr v3, and by path for everything else."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.arrays.node import Node
from tegula.engine.implied_keys import members_unknown
from tegula.errors import MetadataError, NotFoundError, StoreError, TegulaError, UnsupportedError
from tegula.formats import find_format
from tegula.hierarchy.group import Group, open_node
from tegula.metadata.nodes import GroupMetadata
from tegula.showing.casting import CASTS, CastArray
from tegula.showing.nodes import DOCUMENT, ShownArray, ShownGroup
from tegula.showing.view import Zarr3View
from tegula.stores.arguments import is_key
from tegula.tables.table import Table

__all__ = ["CAST_PREFIX", "Content", "Passed", "Ready", "Worked", "split_cast"]

_ZARR3: Final = find_format("zarr3")
_MOST_NODES: Final = 2000
"""Maximum number of nodes in generated consolidated metadata; a larger hierarchy gets none."""
_MOST_BYTES: Final = 2**22
_MOST_SECONDS: Final = 5.0
_LIFETIME: Final = 2.0  # seconds to keep generated consolidated metadata, or five times as long as it took
_MOST_CASTS: Final = 256
_NO_NAME: Final = frozenset((errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ))
_CHUNK: Final = re.compile(r"(?:(.+)/)?(c(?:/[0-9]+)*)").fullmatch
CAST_PREFIX: Final = "as/"
"""The first part of paths of cast elements."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A stored value that is passed on as it is."""

    key: str


@dataclass(frozen=True, slots=True)
class Worked:
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
    """

    key: str
    mark: bytes
    cost: int
    make: Callable[[bytes], bytes]
    needs_value: bool


@dataclass(frozen=True, slots=True)
class Ready:
    """A document."""

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
    (Passed(key='x/0'), None, 'array')
    """

    def __init__(self, node: Any) -> None:
        self.root = node
        self.store = node.store
        self.view = Zarr3View(node.store, node.path, writable=False)
        self._made: dict[tuple[str, str | None], tuple[float, bytes]] = {}
        self._casts: dict[tuple[str, str], CastArray] = {}

    # --- nodes

    def place(self, path: str) -> str:
        """Return the path in the store of a path below the node."""
        return "/".join(part for part in (self.root.path, path) if part)

    def open(self, path: str) -> Array | Group | Table:
        """Open the node at a path below.

        Raises
        ------
        NotFoundError
            If there is none.
        """
        if not path and isinstance(self.root, Table):
            return self.root  # it may be a table in a format without tables
        found = None
        if not path or is_key(path):
            try:
                found = open_node(self.store, self.place(path), read_only=True)
            except StoreError as error:
                if not _names_nothing(error):
                    raise
        if found is None:
            raise NotFoundError("there is no node at this path", path=f"/{path}")
        return found

    def kind(self, path: str) -> str | None:
        """Return ``"array"``, ``"group"`` or ``"table"``, or ``None`` if there is no node at a path."""
        try:
            return kind_of(self.open(path))
        except NotFoundError:
            return None
        except (MetadataError, UnsupportedError):
            return "group"  # a node exists, and its listing reports the error

    def members(self, node: Group) -> Group:
        """Return a group whose members are known: from its consolidated metadata if the store can't be listed.

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

    def find(self, key: str, to: str | None = None) -> Passed | Worked | Ready | None:
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
            if not _names_nothing(error):
                raise
            return None

    def find_known(self, key: str) -> Passed | None:
        """Return a stored value that is passed on, if its array is known already; makes no request to the store."""
        match = _CHUNK(key)
        array = None if match is None else self.view.known_array(match[1] or "")
        if match is None or array is None or not array.is_passed_on:
            return None
        coords = array.coords(match[2])
        stored = "" if coords is None else array.key(coords)
        return Passed(stored) if stored else None

    def _find(self, key: str, to: str | None) -> Passed | Worked | Ready | None:
        path, _, name = key.rpartition("/")
        if name == DOCUMENT:
            return self._document(path, to)
        if to is not None:
            found = self._cast_chunk(key, to)
            if found is not None:
                return found
        chunk = self.view._chunk(key)
        if chunk is None or (to is not None and self._cast(chunk[0], to) is not None):
            return None
        array, coords, stored = chunk
        if array.is_passed_on:
            return Passed(stored)
        cost = 3 * array.stored.chunk_nbytes + 2**16
        return Worked(stored, _digest(array.document), cost, lambda data: array.show(data, coords), True)

    def _document(self, path: str, to: str | None) -> Ready | None:
        try:
            node = self.view.node(path, again=True)
        except UnsupportedError:
            return None  # Zarr v3 can't represent it
        if node is None:
            return None
        if isinstance(node, ShownGroup):
            return Ready(self._group_document(path, node, to))
        cast = None if to is None else self._cast(node, to)
        return Ready(node.document if cast is None else cast.document)

    # --- casts

    def _cast(self, node: ShownArray, to: str) -> CastArray | None:
        """Return an array with its elements cast, or ``None`` if they can't be."""
        if to not in CASTS:
            raise NotFoundError(f"elements can be cast to {', '.join(CASTS)}, not to {to!r:.40}")
        known = self._casts.get((node.path, to))
        if known is not None and known.array.metadata == node.metadata:
            return known
        try:
            found = CastArray(Array(node.stored, node.path, read_only=True), to)
        except UnsupportedError:
            return None
        if len(self._casts) >= _MOST_CASTS:
            self._casts.clear()
        self._casts[node.path, to] = found
        return found

    def _cast_chunk(self, key: str, to: str) -> Worked | None:
        start = key.rfind("/c/")
        path, inner = ("", key) if start < 0 else (key[:start], key[start + 1 :])
        if start < 0 and inner.endswith("/c"):
            path, inner = inner[:-2], "c"
        node = self.view.array_at(path)
        cast = None if node is None else self._cast(node, to)
        coords = None if cast is None else cast.coords(inner)
        stored = "" if cast is None or coords is None else cast.stored_key(coords)
        if cast is None or coords is None or not stored:
            return None
        cost = 4 * cast.array._stored.chunk_nbytes + 2**16
        made, at = cast, coords
        return Worked(stored, _digest(cast.document), cost, lambda _: made.chunk(at), False)

    # --- consolidated metadata

    def _group_document(self, path: str, node: ShownGroup, to: str | None) -> bytes:
        """Return the document of a group with the documents of all its members, unless there are too many."""
        stored = node.metadata.documents.get(DOCUMENT) if node.metadata.format == _ZARR3.name else None
        if stored is not None and node.metadata.copies is not None and to is None:
            return stored
        until, document = self._made.get((path, to), (0.0, b""))
        start = time.monotonic()
        if start < until:
            return document
        if node.metadata.format == _ZARR3.name:
            own = node.metadata
        else:
            own = GroupMetadata(attributes=node.metadata.attributes, format=_ZARR3.name)
        members = self._copies(path, to, start + _MOST_SECONDS)
        if members is None:
            document = stored if stored is not None else _ZARR3.serialize(own)[DOCUMENT]
        else:
            assert _ZARR3.consolidate is not None  # Zarr v3 has consolidated metadata
            document = _ZARR3.consolidate(own, members.items())[DOCUMENT]
        now = time.monotonic()
        if len(self._made) >= _MOST_CASTS:
            self._made.clear()
        self._made[path, to] = now + max(_LIFETIME, 5 * (now - start)), document
        return document

    def _copies(self, path: str, to: str | None, until: float) -> dict[str, dict[str, bytes]] | None:
        """Return the documents of all nodes below a group, or ``None`` if there are too many to list."""
        found: dict[str, dict[str, bytes]] = {}
        size = 0
        try:
            for below, _ in islice(self.below(path), _MOST_NODES + 1):
                inner = f"{path}/{below}".lstrip("/")
                document = self._copy(inner, to)
                size += len(document or b"")
                if len(found) >= _MOST_NODES or size > _MOST_BYTES or time.monotonic() > until:
                    return None
                if document is not None:
                    found[below] = {DOCUMENT: document}
        except UnsupportedError:  # the store can't be listed
            return None
        return found

    def _copy(self, path: str, to: str | None) -> bytes | None:
        try:
            node = self.view.node(path)
            if isinstance(node, ShownGroup):
                plain = GroupMetadata(attributes=node.metadata.attributes, format=_ZARR3.name)
                return _ZARR3.serialize(plain)[DOCUMENT]
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
        found = self.members(node).walk({}) if isinstance(node, Group) else iter([("", node)])
        for inner, member in found:
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


def kind_of(node: Node) -> str:
    """Return ``"array"``, ``"group"`` or ``"table"``."""
    return type(node).__name__.lower()


def _names_nothing(error: StoreError) -> bool:
    """Return whether an error means that the store can't have such a key: a name too long, or a key below a file."""
    cause = error.__cause__
    if cause is None or isinstance(cause, NotADirectoryError):
        return True
    return isinstance(cause, OSError) and cause.errno in _NO_NAME


def _digest(document: bytes) -> bytes:
    return blake2b(document, digest_size=16).digest()
