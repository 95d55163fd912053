"""What arrays, groups and tables have in common: a place in a store, and whether it may be written."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tegula.errors import ReadOnlyError
from tegula.stores import Store

__all__ = ["Node"]


class Node(ABC):
    """What is stored under a path.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, path="era/t", shape=2, dtype="u1")
    >>> isinstance(a, Node), a.path, a.name, a.read_only
    (True, 'era/t', 't', False)
    """

    _path: str
    _read_only: bool

    @property
    @abstractmethod
    def store(self) -> Store:
        """Where it is stored."""

    @property
    def path(self) -> str:
        """Path in the store; ``""`` at the root."""
        return self._path

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self._path.rpartition("/")[2]

    @property
    def read_only(self) -> bool:
        """Whether writing raises `ReadOnlyError`."""
        return self._read_only

    @property
    def _place(self) -> str:
        """What errors call the node."""
        return f"{self.store.url}/{self._path}" if self._path else self.store.url

    def _check_writable(self) -> None:
        if self._read_only:
            kind = type(self).__name__.lower()
            raise ReadOnlyError(f'the {kind} was opened for reading; open it with mode="r+"', path=self._place)
