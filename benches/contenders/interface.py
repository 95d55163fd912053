"""The interface of a contender."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cases import Case, Values


class Lacking(Exception):
    """A contender cannot do what a row asks for; the message says why."""


class Contender(ABC):
    """A library, as the regimes use it.

    Libraries that know the case's format get a directory with its documents in it; the others make files of their own.
    """

    name: str
    module: str
    own_files = False  # it makes files of a format of its own
    synced = False  # it waits for the disk, so only its writes differ from those of a contender that does not

    def lacks(self, case: Case, regime: str) -> str | None:
        """Return why it can't do the regime on this case, or ``None`` if it may."""
        if case.format == "bcolz":
            return "it does not know bcolz's format"
        return None

    def makes(self, case: Case) -> bool:
        """Return whether it makes files of its own for this case."""
        return self.own_files

    def active(self) -> AbstractContextManager[Any]:
        """Return a context with the settings that hold while it is timed."""
        return nullcontext()

    def forget(self) -> None:  # noqa: B027 - most need not
        """Give back cached memory."""

    def version(self) -> str:
        return version(self.module)

    @abstractmethod
    def open(self, case: Case, path: Path) -> Any:
        """Open an array to read and write."""

    def close(self, array: Any) -> None:  # noqa: B027 - most need not
        """Close an array."""

    def make(self, case: Case, path: Path, rows: int | None = None) -> Any:
        """Make a new array in a format of its own and open it."""
        raise Lacking("it makes no files of its own")

    def reader(self, array: Any) -> Callable[[Any], Any]:
        """Return a function that reads a selection as NumPy's indexing takes it."""
        return array.__getitem__

    def put(self, array: Any, key: Any, values: Values) -> None:
        """Write, so that another process sees it."""
        array[key] = values

    def points(self, array: Any, axes: tuple[Values, ...]) -> Values:
        """Read points in one call."""
        return array.vindex[axes]

    def append(self, array: Any, values: Values) -> None:
        array.append(values)

    def resize(self, array: Any, shape: tuple[int, ...]) -> None:
        array.resize(shape)

    def shape(self, array: Any) -> tuple[int, ...]:
        return tuple(array.shape)

    # groups: what is returned is the number of arrays, or the shape of one

    def make_group(self, path: Path, count: int) -> None:
        """Make a group of `count` arrays in a format of its own."""
        raise Lacking("it makes no groups of its own")

    def names(self, path: Path) -> int:
        """Open a group and list the names in it."""
        raise Lacking("it has no groups")

    def arrays(self, path: Path) -> int:
        """Open a group and every array in it."""
        raise Lacking("it has no groups")

    def member(self, path: Path, name: str) -> tuple[int, ...]:
        """Open a group by its consolidated metadata, and one array in it."""
        raise Lacking("it has no consolidated metadata")
