"""Consolidated metadata in which documents are located first, and parsed only when they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tegula.formats.located.members import Members

__all__ = ["Consolidated"]


class Consolidated(Mapping[str, Mapping[str, bytes]]):
    """A mapping of the paths of a group's members to their documents.

    Parameters
    ----------
    members : Members
        The members of the JSON object that holds all documents.
    names : tuple of str
        Keys of the documents of a node, if the object holds them as ``path/key`` (Zarr v2).
    only : str
        Key of the only document of a node, if the object holds it as ``path`` (Zarr v3); ``""`` otherwise.
    prefix : str
        Prefix of each path of the mapping.

    Attributes
    ----------
    generation : Generation or None
        The generation of the document in its store, if the reader knows it.
    """

    generation: Any = None

    def __init__(self, members: Members, *, names: tuple[str, ...] = (), only: str = "", prefix: str = "") -> None:
        self._members = members
        self._names = names
        self._only = only
        self._prefix = prefix
        self._paths: dict[str, None] | None = None

    def below(self, prefix: str) -> Consolidated:
        """Return the same documents with `prefix` before each path."""
        return Consolidated(self._members, names=self._names, only=self._only, prefix=prefix)

    def __getitem__(self, path: str) -> Mapping[str, bytes]:
        below = path.removeprefix(self._prefix)
        if not below or len(below) + len(self._prefix) != len(path):
            raise KeyError(path)
        wanted = {self._only: below} if self._only else {name: f"{below}/{name}" for name in self._names}
        members = {name: self._members.get(key) for name, key in wanted.items()}
        documents = {name: raw for name, raw in members.items() if raw is not None and raw.startswith(b"{")}
        if not documents:
            raise KeyError(path)
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
