"""The attributes of a carray or ctable, with the methods of bcolz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from tegula.bcolz.errors import ModeError
from tegula.errors import NotFoundError

__all__ = ["attrs"]


class attrs:
    """Attributes by name; iterating yields pairs of name and value.

    Parameters
    ----------
    values : mutable mapping
        The attributes of a node in a directory, whose values are JSON, or for an object in memory a dict of any values.
    mode : callable
        Returns the mode of the object; with ``'r'`` the attributes can't be changed.

    Examples
    --------
    >>> from tegula import bcolz
    >>> c = bcolz.carray([1, 2, 3])
    >>> c.attrs["unit"] = "K"
    >>> [*c.attrs], "unit" in c.attrs, len(c.attrs)
    ([('unit', 'K')], True, 1)
    """

    def __init__(self, values: MutableMapping[str, Any], mode: Callable[[], str]) -> None:
        self._values = values
        self._mode = mode

    def getall(self) -> dict[str, Any]:
        """Return all attributes as a new dict."""
        return dict(self._values)

    @property
    def attrs(self) -> dict[str, Any]:
        """All attributes, as `getall` returns them."""
        return self.getall()

    def __getitem__(self, name: str) -> Any:
        with _named(name):
            return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._check()
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        self._check()
        with _named(name):
            del self._values[name]

    def _check(self) -> None:
        if self._mode() == "r":
            raise ModeError("attributes can't be changed: the mode is 'r'")

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._values.items())

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        return "".join(f"{name} : {value}" for name, value in self) or "*no attrs*"

    def __repr__(self) -> str:
        return "".join(f"{name} : {value!r}\n" for name, value in self) or "*no attrs*"


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Convert the error of a dict, which is only a name."""
    try:
        yield
    except NotFoundError:
        raise
    except KeyError:
        raise NotFoundError(f"there is no attribute {name!r:.80}") from None
