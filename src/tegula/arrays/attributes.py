"""User attributes of a node: a mapping whose changes are stored at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from itertools import islice
from typing import Any, Final, Protocol

from tegula import display
from tegula.errors import MetadataError, NotFoundError, TegulaError

__all__ = ["Attributes"]

_SHOWN: Final = 12  # attributes in a repr
_HIDDEN: Final = "_nczarr_"  # how names begin that the netCDF library keeps for itself, and does not show

Change = Callable[[dict[str, Any]], dict[str, Any]]


class _Located(Protocol):
    """What attributes need of the node that has them."""

    @property
    def location(self) -> str: ...


class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or a group: JSON values by name.

    Each change is stored at once. It is applied to the attributes as they are then stored, so no change is lost if
    several processes set different attributes.

    Reading returns copies: a dict or a list that was read can be changed without an effect on the attributes. To change
    part of a value, read it, change it, and set it again.

    Attributes whose names begin with ``_nczarr_``, of the netCDF library, are stored but hidden, as they are there.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array(tegula.MemoryStore(), shape=4, dtype="i4")
    >>> a.attrs["units"] = "K"
    >>> a.attrs.update(scale=2, axes=["x"])
    >>> a.attrs.asdict()
    {'units': 'K', 'scale': 2, 'axes': ['x']}
    >>> axes = a.attrs["axes"]
    >>> axes[0] = "time"
    >>> a.attrs["axes"] = axes
    >>> a.attrs["axes"]
    ['time']
    """

    def __init__(self, node: _Located, read: Callable[[], Mapping[str, Any]], write: Callable[[Change], None]) -> None:
        self._node = node
        self._stored = read
        self._write = write

    def __getitem__(self, name: str) -> Any:
        try:
            return _copied(self._read()[name])
        except KeyError:
            raise NotFoundError(f"there is no attribute {name!r:.80}", path=self._node.location) from None

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
        """Replace all attributes, except hidden ones, in one write."""
        new = self._as_dict(attributes)
        self._apply(lambda old: {**{name: value for name, value in old.items() if _is_hidden(name)}, **new})

    def clear(self) -> None:
        """Remove all attributes in one write."""
        self.put({})

    def asdict(self) -> dict[str, Any]:
        """Return a copy of the attributes as a dict."""
        return {name: _copied(value) for name, value in self._read().items()}

    def _read(self) -> Mapping[str, Any]:
        """Return the attributes that are not hidden."""
        stored = self._stored()
        if not any(map(_is_hidden, stored)):
            return stored
        return {name: value for name, value in stored.items() if not _is_hidden(name)}

    def _apply(self, change: Change) -> None:
        try:
            self._write(change)
        except TegulaError as error:
            error.within(path=self._node.location)
            raise

    def _as_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return dict(*args, **kwargs)
        except (TypeError, ValueError) as error:
            shown = ", ".join([f"{value!r:.80}" for value in args])
            raise MetadataError(f"attributes must be a mapping, not {shown}", path=self._node.location) from error

    def __repr__(self) -> str:
        values = self._read()
        shorten, short = display.shorten, _short()
        shown = [
            f"{shorten(repr(name), 80)}: {shorten(short.repr(value), 120)}"
            for name, value in islice(values.items(), _SHOWN)
        ]
        more = [f"… and {len(values) - _SHOWN} more"] if len(values) > _SHOWN else []
        return f"Attributes({{{', '.join([*shown, *more])}}})"

    def _repr_html_(self) -> str:
        return display.attributes_html(self._read())


def _is_hidden(name: str) -> bool:
    return name[:8].lower() == _HIDDEN


def _copied(value: Any) -> Any:
    """Return a JSON value whose dicts and lists are new."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _short() -> Any:
    short = import_module("reprlib").Repr()
    short.maxlevel, short.maxdict, short.maxlist, short.maxstring, short.maxother = 3, 6, 8, 80, 80
    return short
