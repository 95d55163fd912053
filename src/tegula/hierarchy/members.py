"""The members of a group: their names and documents, in the store or in consolidated metadata, and views of them."""

from __future__ import annotations

import warnings
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import Any, Final

from tegula import engine
from tegula.engine.documents.finding import children, members_of_folder, nodes_below
from tegula.engine.documents.reading import documents_of
from tegula.engine.nodes.deleting import holds_draft
from tegula.errors import MetadataError, StoreError, TegulaError, UnsupportedError, store_failed
from tegula.formats import find_format, keys_up_to
from tegula.formats.keys import ZARR3_KEY
from tegula.hierarchy.ahead import Entry
from tegula.hierarchy.drafts import found_at, place_of
from tegula.hierarchy.unreadable import Unreadable
from tegula.stores import Store
from tegula.stores.names import is_no_name

__all__ = ["Documents", "Items", "Keys", "Members", "Names", "Values", "readable", "walked"]

_SHOWN: Final = 100  # names in the text of a view
_TOGETHER: Final = 64  # members whose documents are read together

Documents = Mapping[str, Mapping[str, bytes]]
"""Documents of nodes, by path in the store and by key relative to it."""


class Members:
    """The names and documents of the members of a group.

    Parameters
    ----------
    store, path, format : Store, str, str
        The group.
    known : mapping, optional
        Consolidated metadata, if members are looked up in it.
    copy : str, optional
        The key of the document that `known` was read from.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> x = g.create_array("x", shape=3, dtype="u1")
    >>> members = Members(g.store, "", "zarr3")
    >>> [*members.names(is_folder=False)], members.has("y")
    (['x'], False)
    """

    __slots__ = ("copy", "format", "known", "prefix", "store")

    def __init__(
        self, store: Store, path: str, format: str, known: Documents | None = None, copy: str | None = None
    ) -> None:
        self.store, self.format, self.known, self.copy = store, format, known, copy
        self.prefix = f"{path}/" if path else ""

    def known_at(self, path: str) -> Documents | None:
        """Return the consolidated metadata, if there is any that describes what is at a path."""
        return self.known if path.startswith(self.prefix) else None

    def has(self, path: str) -> bool:
        """Return whether there is a member at a path of the store, even if it can't be opened."""
        if (known := self.known_at(path)) is not None:
            return path in known or self.place_in_draft(path) is not None
        try:
            return found_at(self.store, path, engine.read_node, self.prefix.rstrip("/"))[2] is not None
        except (MetadataError, UnsupportedError):
            return True  # the member exists and can be deleted, but not opened
        except StoreError as error:
            if is_no_name(error):
                return False  # a key the store can't hold, or the name of a document
            raise

    def place_in_draft(self, path: str) -> tuple[Store, str] | None:
        """Return where a member is that belongs to the hierarchy of a draft, which no consolidated metadata has."""
        view, place = place_of(self.store, path, self.prefix.rstrip("/"))
        return None if view is self.store else (view, place)

    def names(self, *, is_folder: bool) -> Iterator[str]:
        """Yield the names of the direct members; of a folder, those of any format."""
        if self.known is not None:
            below = (path[len(self.prefix) :] for path in self.known if path.startswith(self.prefix))
            known = {name for name in below if name and "/" not in name}
            in_listing = ZARR3_KEY in find_format(self.format).node_keys  # as an entry point is without the copy
            if in_listing and self.store.listable and not self.store.is_remote:
                known.update(
                    name
                    for name in self.prefixes()
                    if name not in known and holds_draft(self.store, self.prefix + name)
                )
            yield from sorted(known, key="{}/".format)  # listing order
            return
        if is_folder:
            children = members_of_folder(self.store, self.prefix)
        else:
            children = nodes_below(self.store, self.prefix, find_format(self.format))
        yield from (child[len(self.prefix) : -1] for child in children)

    def prefixes(self) -> Iterator[str]:
        """Yield the names of all prefixes directly below the group."""
        return (child[len(self.prefix) : -1] for child in children(self.store, self.prefix))

    def with_documents(self, names: Iterator[str]) -> Iterator[tuple[str, Mapping[str, bytes] | None]]:
        """Yield names of members, with their documents if the store reads the documents of several members at once."""
        if self.known is not None or type(self.store).get_many is Store.get_many:
            yield from ((name, None) for name in names)
            return
        keys = keys_up_to(self.format)
        while some := [*islice(names, _TOGETHER)]:
            yield from zip(some, documents_of(self.store, [self.prefix + name for name in some], keys))


def readable(entries: Iterator[Entry], unreadable: dict[str, str] | None, strict: bool) -> Iterator[tuple[str, Any]]:
    """Yield the members that can be opened; see `Group.members` for the others."""
    for name, node in entries:
        if not isinstance(node, TegulaError):
            yield name, node
            continue
        if strict or unreadable is None:
            _check_store(node)
        if unreadable is not None:
            unreadable[name] = str(node)
        elif strict and not isinstance(node, UnsupportedError):
            raise node
        else:
            warnings.warn(f"the member {name!r} is left out: {node}", stacklevel=2)


def walked(group: Any, unreadable: dict[str, str] | None, *, implicit: bool, strict: bool) -> Iterator[tuple[str, Any]]:
    """Yield the members of a group at any depth; see `Group.walk`."""
    ahead = group.ahead(implicit=implicit)
    # a stack, since a hierarchy may be deeper than Python's recursion limit
    open_groups: list[tuple[str, Iterator[tuple[str, Any]], dict[str, str] | None]] = []

    def enter(path: str, group: Any) -> None:
        failed: dict[str, str] | None = None if unreadable is None else {}
        entries = group.entries(ahead, implicit=implicit)
        open_groups.append((path, readable(entries, failed, strict), failed))

    enter("", group)
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
        if hasattr(node, "_made"):  # a group
            enter(f"{above}{name}/", node)


def _check_store(error: TegulaError) -> None:
    """Raise an error from opening a member if the store has failed: the member may be sound."""
    if store_failed(error):
        raise error


class Names(Iterator[str]):
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


class Keys(KeysView[str]):
    """A view of the names that iterates like the group, so that making a list takes one listing."""

    _mapping: Any  # the group

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping)

    def __repr__(self) -> str:
        some = [*islice(self, _SHOWN + 1)]
        more = ", …" if len(some) > _SHOWN else ""
        return f"{type(self).__name__}([{', '.join(map(repr, some[:_SHOWN]))}{more}])"


class Items(ItemsView[str, Any]):
    """A view of names and nodes that opens many members at once where the store is remote."""

    _mapping: Any  # the group

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, node in self._mapping.entries(self._mapping.ahead()):
            if isinstance(node, TegulaError):
                _check_store(node)
                yield name, Unreadable(node)
            else:
                yield name, node


class Values(ValuesView[Any]):
    """A view of nodes that opens many members at once where the store is remote, as `Items` does."""

    _mapping: Any  # the group

    def __iter__(self) -> Iterator[Any]:
        return (node for _, node in Items(self._mapping))
