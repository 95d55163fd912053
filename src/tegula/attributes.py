"""The user's attributes of a node, as a mapping that writes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from itertools import islice
from reprlib import Repr
from typing import Any, Final

from tegula.errors import NotFoundError
from tegula.markup import shorten
from tegula.notebook import attributes_html

__all__ = ["Attributes"]

_SHOWN: Final = 12  # attributes in the text that a repr is
_short: Final = Repr()
_short.maxlevel, _short.maxdict, _short.maxlist, _short.maxstring, _short.maxother = 3, 6, 8, 80, 80

Change = Callable[[dict[str, Any]], dict[str, Any]]


class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or a group: JSON values by name.

    Each change is stored at once, by reading the stored attributes again and changing those: writers of different
    attributes of one node, in any number of processes, lose nothing.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=4, dtype="i4")
    >>> a.attrs["units"] = "K"
    >>> a.attrs.update(scale=2, offset=0.5)
    >>> a.attrs.asdict()
    {'units': 'K', 'scale': 2, 'offset': 0.5}
    """

    def __init__(self, look: Callable[[], Mapping[str, Any]], store: Callable[[Change], None]) -> None:
        self._look = look
        self._store = store

    def __getitem__(self, name: str) -> Any:
        try:
            return self._look()[name]
        except KeyError:
            raise NotFoundError(f"there is no attribute {name!r}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        def without(attributes: dict[str, Any]) -> dict[str, Any]:
            if name not in attributes:
                raise NotFoundError(f"there is no attribute {name!r}")
            return {key: value for key, value in attributes.items() if key != name}

        self._store(without)

    def __iter__(self) -> Iterator[str]:
        return iter(self._look())

    def __len__(self) -> int:
        return len(self._look())

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes in one write."""
        changes = dict(*args, **kwargs)
        self._store(lambda attributes: {**attributes, **changes})

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes in one write."""
        self._store(lambda _: dict(attributes))

    def clear(self) -> None:
        """Remove all attributes in one write."""
        self.put({})

    def asdict(self) -> dict[str, Any]:
        """Return the attributes as a new dict."""
        return dict(self._look())

    def __repr__(self) -> str:
        values = self._look()
        shown = [
            f"{shorten(repr(name), 80)}: {shorten(_short.repr(value), 120)}"
            for name, value in islice(values.items(), _SHOWN)
        ]
        rest = [f"… and {len(values) - _SHOWN} more"] if len(values) > _SHOWN else []
        return f"Attributes({{{', '.join([*shown, *rest])}}})"

    def _repr_html_(self) -> str:
        return attributes_html(self._look())
