"""User attributes of a node: a mapping whose changes are stored at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from itertools import islice
from typing import Any, Final

from tegula import display
from tegula.errors import MetadataError, NotFoundError, TegulaError

__all__ = ["Attributes"]

_SHOWN: Final = 12  # attributes in a repr

Change = Callable[[dict[str, Any]], dict[str, Any]]


class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or a group: JSON values by name.

    Each change is stored at once. It is applied to the attributes as they are then stored, so no change is lost if
    several processes set different attributes.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=4, dtype="i4")
    >>> a.attrs["units"] = "K"
    >>> a.attrs.update(scale=2, offset=0.5)
    >>> a.attrs.asdict()
    {'units': 'K', 'scale': 2, 'offset': 0.5}
    """

    def __init__(
        self, read: Callable[[], Mapping[str, Any]], write: Callable[[Change], None], place: Callable[[], str]
    ) -> None:
        self._read = read
        self._write = write
        self._place = place  # the URL of the node, for errors

    def __getitem__(self, name: str) -> Any:
        try:
            return self._read()[name]
        except KeyError:
            raise NotFoundError(f"there is no attribute {name!r:.80}", path=self._place()) from None

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        def without(attributes: dict[str, Any]) -> dict[str, Any]:
            if name not in attributes:
                raise NotFoundError(f"there is no attribute {name!r:.80}")
            return {key: value for key, value in attributes.items() if key != name}

        self._apply(without)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes in one write."""
        changes = self._as_dict(*args, **kwargs)
        self._apply(lambda attributes: {**attributes, **changes})

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes in one write."""
        new = self._as_dict(attributes)
        self._apply(lambda _: new)

    def clear(self) -> None:
        """Remove all attributes in one write."""
        self.put({})

    def asdict(self) -> dict[str, Any]:
        """Return the attributes as a new dict."""
        return dict(self._read())

    def _apply(self, change: Change) -> None:
        try:
            self._write(change)
        except TegulaError as error:
            error.within(path=self._place())
            raise

    def _as_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return dict(*args, **kwargs)
        except (TypeError, ValueError) as error:
            given = ", ".join([f"{value!r:.80}" for value in args])
            raise MetadataError(f"attributes must be a mapping, not {given}", path=self._place()) from error

    def __repr__(self) -> str:
        values = self._read()
        shorten, short = display.shorten, _short()
        shown = [
            f"{shorten(repr(name), 80)}: {shorten(short.repr(value), 120)}"
            for name, value in islice(values.items(), _SHOWN)
        ]
        rest = [f"… and {len(values) - _SHOWN} more"] if len(values) > _SHOWN else []
        return f"Attributes({{{', '.join([*shown, *rest])}}})"

    def _repr_html_(self) -> str:
        return display.attributes_html(self._read())


def _short() -> Any:
    short = import_module("reprlib").Repr()
    short.maxlevel, short.maxdict, short.maxlist, short.maxstring, short.maxother = 3, 6, 8, 80, 80
    return short
