"""The interface of a library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import version
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[Any]]


class Lacking(Exception):
    """A library cannot do what a section asks for; the message says why."""


def inner_chunk(shard: int) -> int:
    """Return the length of a shard's inner chunks, of which there are 16 if that is possible.

    Examples
    --------
    >>> inner_chunk(400), inner_chunk(30)
    (25, 1)
    """
    return next(n for n in range(max(1, shard // 16), 0, -1) if shard % n == 0)


class Library(ABC):
    """A library, with arrays of one axis in the layouts that it knows.

    A node is whatever the library opens. Each operation is one that a user would write, and done when it returns.
    """

    module: str
    layouts: tuple[str, ...] = ()
    """Of zarr2, zarr3, shard, bcolz, table, own."""
    codecs: tuple[str, ...] = ("none", "lz4", "zstd", "gzip")

    def version(self) -> str:
        return version(self.module)

    remote = False
    """Whether a path may be obstore's settings as JSON, a space, and the URL of a place in a bucket."""

    lacks: tuple[str, ...] = ()
    """Of append, attributes, and writers: several that have a file open at once."""

    def check(self, layout: str, what: str = "") -> None:
        """Raise `Lacking` unless it knows a layout and an operation on it."""
        if layout not in self.layouts or what in self.lacks:
            raise Lacking(f"it has no {layout} {what}".rstrip())

    def prepare(self) -> None:  # noqa: B027 - most have all they need
        """Import what it imports when it is used, without starting threads."""

    def load(self) -> None:
        """Import all that it may import later, in a process that afterwards may not read its packages."""
        self.prepare()

    @abstractmethod
    def create(self, path: str, layout: str, length: int, chunk: int, codec: str = "none", dtype: str = "i4") -> None:
        """Create an array of zeros; raises if there is one."""

    @abstractmethod
    def open(self, path: str, layout: str) -> Any:
        """Open an array to read and write."""

    def close(self, node: Any) -> None:  # noqa: B027 - most need not
        """Close an array."""

    def read(self, node: Any, selection: Any = slice(None)) -> Values:
        return np.asarray(node[selection])

    def write(self, node: Any, selection: Any, values: Any) -> None:
        node[selection] = values

    def append(self, node: Any, values: Values) -> None:
        """Add rows: of all columns, if it is a table."""
        node.append(values)

    def resize(self, node: Any, length: int) -> None:
        node.resize(length)

    def set_attribute(self, node: Any, name: str, value: int) -> None:
        node.attrs[name] = value

    def attributes(self, node: Any) -> dict[str, Any]:
        return dict(node.attrs)

    def refresh(self, node: Any, path: str, layout: str) -> Any:
        """Return the node as it is now: by default opened again."""
        self.close(node)
        return self.open(path, layout)
