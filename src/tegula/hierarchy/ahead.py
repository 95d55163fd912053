"""Members of groups in a remote store, looked up many at a time before they are needed.

A group is listed together with the groups that come next in a walk, then the documents of all their members are fetched
at once. So walking a hierarchy takes a few rounds of requests for each level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Any, Final, Protocol

from tegula import engine
from tegula.engine.concurrency.pool import gather
from tegula.engine.documents.finding import children
from tegula.engine.documents.reading import read_many
from tegula.errors import TegulaError
from tegula.hierarchy.drafts import is_entry
from tegula.metadata.nodes import GroupMetadata, NodeMetadata
from tegula.stores import Store

__all__ = ["Ahead", "AnyGroup", "Entry"]

Entry = tuple[str, Any]
"""The name of a member, and its node or the error from opening it."""

_GROUPS: Final = 64  # groups that are listed together
_NODES: Final = 4096  # members that are opened together, so that a large hierarchy is never in memory as a whole


class AnyGroup(Protocol):
    """The part of `tegula.Group` that modules use which the class itself uses."""

    @property
    def store(self) -> Store:
        """The store that holds the group."""

    @property
    def path(self) -> str:
        """Path of the group in the store."""

    @property
    def format(self) -> str:
        """Name of the storage format."""

    @property
    def metadata(self) -> GroupMetadata:
        """The description of the group."""

    @property
    def knows_members(self) -> bool:
        """Whether members are looked up in consolidated metadata."""

    _members: Any  # which opens them

    @property
    def is_folder(self) -> bool: ...
    def path_of(self, name: str) -> str: ...


class Ahead:
    """The members of all groups in a hierarchy, for one walk in the order of paths.

    Parameters
    ----------
    implicit : bool
        Include implicit groups, and nodes of another format than their group's.
    """

    def __init__(self, *, implicit: bool = False) -> None:
        self._implicit = implicit
        self._listed: dict[tuple[str, ...], list[Entry]] = {}
        self._waiting: dict[tuple[str, ...], AnyGroup] = {}  # groups whose members are not looked up yet

    def members(self, group: AnyGroup) -> Iterator[Entry]:
        """Yield the members of a group, and drop them."""
        names = _names(group.path)
        if names not in self._listed:
            self._waiting.pop(names, None)
            later = nsmallest(_GROUPS - 1, (other for other in self._waiting if other > names))
            groups = [group, *(self._waiting[other] for other in later)]
            listed = gather(_children, groups, group.store.concurrency)
            if len(listed[0]) > _NODES:
                return self._by_parts(group, listed[0])
            self._look_up(groups, listed)
        return iter(self._listed.pop(names))

    def _by_parts(self, group: AnyGroup, names: Sequence[str]) -> Iterator[Entry]:
        """Yield the members of a large group, which are opened part by part."""
        for start in range(0, len(names), _NODES):
            yield from self._opened([(group, name) for name in names[start : start + _NODES]])

    def _look_up(self, groups: Sequence[AnyGroup], listed: Sequence[Sequence[str]]) -> None:
        """Open the members of the first groups in a list, up to `_NODES` members."""
        pairs: list[tuple[AnyGroup, str]] = []
        for group, names in zip(groups, listed):
            if pairs and len(pairs) + len(names) > _NODES:
                break
            self._listed[_names(group.path)] = []
            self._waiting.pop(_names(group.path), None)
            pairs += [(group, name) for name in names]
        for (group, _), entry in zip(pairs, self._opened(pairs, keep=True)):
            if entry[1] is not None:
                self._listed[_names(group.path)].append(entry)

    def _opened(self, pairs: Sequence[tuple[AnyGroup, str]], *, keep: bool = False) -> Iterator[Entry]:
        """Yield the name and node of each member; names without a node only with `keep`, with ``None``."""
        nodes = self._metadata(pairs)
        for (group, name), metadata in zip(pairs, nodes):
            node: Any = metadata
            if metadata is not None and not isinstance(metadata, TegulaError):
                try:
                    node = group._members.made(group.path_of(name), metadata)
                except TegulaError as error:
                    node = error
            elif is_entry(metadata):
                try:
                    node = group._members.open(group.path_of(name))
                except TegulaError as error:
                    node = error
            if node is not None and node.kind == "group":
                self._waiting[_names(node.path)] = node
            if node is not None or keep:
                yield name, node

    def _metadata(self, pairs: Sequence[tuple[AnyGroup, str]]) -> list[NodeMetadata | TegulaError | None]:
        """Return for each name the metadata, the error from reading it, or ``None`` if there is no member."""
        # positions by the format that members must have, "" for any, and by store, since drafts are seen through views
        positions: dict[tuple[str, int], list[int]] = {}
        for number, (group, _) in enumerate(pairs):
            format = "" if self._implicit or group.is_folder else group.format
            positions.setdefault((format, id(group.store)), []).append(number)
        paths = [group.path_of(name) for group, name in pairs]
        metadata: list[Any] = [None] * len(pairs)

        def read(item: tuple[tuple[str, int], list[int]]) -> None:
            (format, _), numbers = item
            store = pairs[numbers[0]][0].store
            nodes = read_many(store, [paths[number] for number in numbers], format or None)
            by_number = dict(zip(numbers, nodes))
            if not format:
                missing = [number for number, node in by_number.items() if node is None]
                groups = gather(lambda number: _implicit(store, paths[number]), missing, store.concurrency)
                by_number.update(zip(missing, groups))
            for number, node in by_number.items():
                metadata[number] = node

        gather(read, positions.items(), len(positions))
        return metadata


def _implicit(store: Store, path: str) -> NodeMetadata | TegulaError | None:
    try:
        return engine.implicit_group(store, path, None, deep=True)
    except TegulaError as error:
        return error


def _children(group: AnyGroup) -> list[str]:
    """Return the names of all prefixes directly below a group."""
    prefix = f"{group.path}/" if group.path else ""
    return [child[len(prefix) : -1] for child in children(group.store, prefix)]


def _names(path: str) -> tuple[str, ...]:
    """Return the names in a path, a key that sorts paths in the order of a walk."""
    return tuple(path.split("/")) if path else ()
