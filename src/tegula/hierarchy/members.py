"""The members of a group: lookup, listing and walk."""

from __future__ import annotations

import _thread
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, KeysView, Mapping, MutableMapping
from itertools import islice
from typing import Any, Final
from weakref import ref

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.keywords import known_keywords
from tegula.arrays.node import Node
from tegula.engine.documents import documents_of
from tegula.engine.finding import members_of_folder, nodes_below
from tegula.errors import MetadataError, NotFoundError, StoreError, TegulaError, UnsupportedError
from tegula.formats import find_format, keys_up_to
from tegula.hierarchy.ahead import Ahead, Entry
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores import Store
from tegula.stores.interface import is_key

__all__ = ["Documents", "Members"]

_TOGETHER: Final = 64  # members whose documents are read together

Documents = Mapping[str, Mapping[str, bytes]]
"""Documents of nodes, by path in the store and by key relative to it."""


class Members(Node, MutableMapping[str, Any]):
    """A group as a mapping of names to nodes: the part of `tegula.Group` that only reads."""

    _store: Store
    _metadata: GroupMetadata
    _known: Documents | None  # consolidated metadata, if members are looked up in it
    _last_listing: tuple[int, Callable[[], _Names | None]] = 0, lambda: None  # its thread and iterator

    @property
    def store(self) -> Store:
        """The store that holds the group."""
        return self._store

    @property
    def metadata(self) -> GroupMetadata:
        """The group's description, as last read or written by this object."""
        return self._metadata

    @property
    def format(self) -> str:
        """Name of the storage format."""
        return self._metadata.format

    def __getitem__(self, name: str) -> Any:
        node = self._open(self._full(name))
        if node is None:
            raise NotFoundError(f"there is no member {name!r}", path=self._place)
        return node

    @abstractmethod
    def _open(self, path: str, documents: Mapping[str, bytes] | None = None) -> Any:
        """Open the node at a path of the store, from its documents if given; return ``None`` if there is none."""

    @abstractmethod
    def _made(self, path: str, metadata: NodeMetadata) -> Any:
        """Return the node at a path, given its metadata."""

    def _full(self, name: str) -> str:
        if not isinstance(name, str):
            raise NotFoundError(f"a member's name must be text, not {name!r:.80}", path=self._place)
        inner = name.strip("/")
        if not is_key(inner):
            raise NotFoundError(f"{name!r} can't be the name of a member", path=self._place)
        return f"{self._path}/{inner}" if self._path else inner

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.strip("/"):
            return False
        try:
            path = self._full(name)
        except NotFoundError:
            return False
        if self._known is not None:
            return path in self._known
        try:
            return (
                engine.read_metadata(self._store, path) or engine.implicit_group(self._store, path, None, deep=True)
            ) is not None
        except (MetadataError, UnsupportedError):
            return True  # it exists and can be deleted, but not opened
        except StoreError as error:
            if error.__cause__ is None or isinstance(error.__cause__, NotADirectoryError):
                return False  # a key the store can't hold, or the name of a document
            raise

    def __iter__(self) -> Iterator[str]:
        names = _Names(self._names())
        self._last_listing = _thread.get_ident(), ref(names)
        return names

    def keys(self) -> KeysView[str]:
        """Return the names of the direct members as a view that lists them at each use."""
        return _Keys(self)

    def _names(self) -> Iterator[str]:
        prefix = f"{self._path}/" if self._path else ""
        if self._known is not None:
            below = (path[len(prefix) :] for path in self._known if path.startswith(prefix) and path != self._path)
            yield from sorted((name for name in below if name and "/" not in name), key="{}/".format)  # listing order
            return
        if self._is_folder:
            children = members_of_folder(self._store, prefix)
        else:
            children = nodes_below(self._store, prefix, find_format(self.format))
        yield from (child[len(prefix) : -1] for child in children)

    @property
    def _is_folder(self) -> bool:
        """``True`` if the group has no document, and so may have members of any format."""
        return not self._metadata.documents

    def __len__(self) -> int:
        # `list` takes an iterator and then asks for the length: one listing serves both
        thread, listing = self._last_listing
        names = listing() if thread == _thread.get_ident() else None
        number = None if names is None else names.count()
        return sum(1 for _ in self._names()) if number is None else number

    def __bool__(self) -> bool:
        return True  # also if it is empty

    @known_keywords
    def members(self, unreadable: dict[str, str] | None = None, *, implicit: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the name and node of each direct member.

        Parameters
        ----------
        unreadable : dict, optional
            Receives the name of each member that can't be opened, and the reason. Without it, each of these members
            is a warning, or an error if the store fails.
        implicit : bool
            Include implicit groups, and nodes of another format than the group's.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group(tegula.MemoryStore())
        >>> x = g.create_array("x", shape=3, dtype="u1")
        >>> [(name, node.shape) for name, node in g.members()]
        [('x', (3,))]
        """
        yield from self._readable(self._entries(self._ahead(implicit=implicit), implicit=implicit), unreadable)

    def _readable(self, entries: Iterator[Entry], unreadable: dict[str, str] | None) -> Iterator[tuple[str, Any]]:
        """Yield the members that can be opened; see `members` for the others."""
        for name, node in entries:
            if not isinstance(node, TegulaError):
                yield name, node
            elif unreadable is not None:
                unreadable[name] = str(node)
            elif isinstance(node, StoreError) and node.__cause__ is not None:
                raise node  # the member may be sound, so leaving it out would lose it
            else:
                warnings.warn(f"the member {name!r} is left out: {node}", stacklevel=2)

    def _ahead(self, *, implicit: bool = False) -> Ahead | None:
        """Return an object that looks up many members at once if the store is remote; ``None`` if none is needed."""
        return Ahead(implicit=implicit) if self._store.concurrency and self._known is None else None

    def _entries(self, ahead: Ahead | None = None, *, implicit: bool = False) -> Iterator[Entry]:
        """Yield the name and node of each direct member, or its name and the error from opening it."""
        if ahead is not None:
            yield from ahead.members(self)
            return
        names = self._prefixes() if implicit and self._store.listable else iter(self)
        for name, documents in self._with_documents(names):
            try:
                node = self._open(self._full(name), documents)
            except TegulaError as error:
                node = error
            if node is not None:
                yield name, node

    def _with_documents(self, names: Iterator[str]) -> Iterator[tuple[str, Mapping[str, bytes] | None]]:
        """Yield names of members, with their documents if the store reads the documents of several members at once."""
        if self._known is not None or type(self._store).get_many is Store.get_many:
            yield from ((name, None) for name in names)
            return
        prefix, keys = f"{self._path}/" if self._path else "", keys_up_to(self.format)
        while some := [*islice(names, _TOGETHER)]:
            yield from zip(some, documents_of(self._store, [prefix + name for name in some], keys))

    def _prefixes(self) -> Iterator[str]:
        """Yield the names of all prefixes directly below the group."""
        prefix = f"{self._path}/" if self._path else ""
        return (child[len(prefix) : -1] for child in self._store.list_dir(prefix)[1])

    @known_keywords
    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield the name and node of each direct member that is an array; warn about members that can't be opened."""
        yield from ((name, node) for name, node in self.members() if isinstance(node, Array))

    @known_keywords
    def walk(self, unreadable: dict[str, str] | None = None, *, implicit: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the path below this group and the node of each member at any depth, parents first.

        Parameters
        ----------
        unreadable, implicit
            As for `members`, with paths instead of names.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group(tegula.MemoryStore())
        >>> x = g.create_group("a/b")
        >>> [path for path, node in g.walk()]
        ['a', 'a/b']
        """
        ahead = self._ahead(implicit=implicit)
        # a stack, since a hierarchy may be deeper than Python's recursion limit
        open_groups: list[tuple[str, Iterator[tuple[str, Any]], dict[str, str] | None]] = []

        def enter(path: str, group: Members) -> None:
            failed: dict[str, str] | None = None if unreadable is None else {}
            open_groups.append((path, group._readable(group._entries(ahead, implicit=implicit), failed), failed))

        enter("", self)
        while open_groups:
            above, members, failed = open_groups[-1]
            name, node = next(members, ("", None))
            if unreadable is not None and failed:
                unreadable.update({above + lost: reason for lost, reason in failed.items()})
                failed.clear()
            if node is None:
                open_groups.pop()
                continue
            yield above + name, node
            if isinstance(node, Members):
                enter(f"{above}{name}/", node)


class _Names(Iterator[str]):
    """An iterator over names, which knows their number until the first one is taken."""

    __slots__ = ("__weakref__", "_begun", "_names")

    def __init__(self, names: Iterator[str]) -> None:
        self._names = names
        self._begun = False

    def __next__(self) -> str:
        self._begun = True
        return next(self._names)

    def count(self) -> int | None:
        """Return the number of names; ``None`` if iteration has begun."""
        if self._begun:
            return None
        names = [*self._names]
        self._names = iter(names)
        return len(names)


class _Keys(KeysView[str]):
    """A view of the names that iterates like the group, so that making a list takes one listing."""

    _mapping: Members

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping)
