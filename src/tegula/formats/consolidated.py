"""Consolidated metadata of which only those documents are parsed that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tegula.formats.members import Members

__all__ = ["Consolidated"]


class Consolidated(Mapping[str, Mapping[str, bytes]]):
    """The documents of each member of a group, by its path below the group.

    Parameters
    ----------
    members : Members
        The members of the object that holds all documents.
    names : tuple of str
        The keys of a node's documents, if they stand there by ``path/name``.
    only : str
        The key of a node's one document, if they stand there by path; ``""`` otherwise.
    prefix : str
        What stands before each path.
    """

    def __init__(self, members: Members, *, names: tuple[str, ...] = (), only: str = "", prefix: str = "") -> None:
        self._members = members
        self._names = names
        self._only = only
        self._prefix = prefix
        self._paths: dict[str, None] | None = None

    def below(self, prefix: str) -> Consolidated:
        """Return the same with a prefix before each path."""
        return Consolidated(self._members, names=self._names, only=self._only, prefix=prefix)

    def __getitem__(self, place: str) -> Mapping[str, bytes]:
        path = place.removeprefix(self._prefix)
        if not path or len(path) + len(self._prefix) != len(place):
            raise KeyError(place)
        wanted = {self._only: path} if self._only else {name: f"{path}/{name}" for name in self._names}
        found = {name: self._members.get(key) for name, key in wanted.items()}
        documents = {name: raw for name, raw in found.items() if raw is not None and raw.startswith(b"{")}
        if not documents:
            raise KeyError(place)
        return documents

    def __iter__(self) -> Iterator[str]:
        if self._paths is None:
            keys = self._members.keys()
            if not self._only:
                parts = [key.rpartition("/") for key in keys]
                keys = [path for path, _, name in parts if name in self._names]
            self._paths = dict.fromkeys(self._prefix + key for key in keys if key)
        return iter(self._paths)

    def __len__(self) -> int:
        iter(self)
        return len(self._paths or ())
