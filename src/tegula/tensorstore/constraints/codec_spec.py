"""`CodecSpec`: constraints on how chunks are encoded, in the terms of one driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tegula.tensorstore.constraints.zarr2_codecs import compressor_from_json, filters_from_json
from tegula.tensorstore.constraints.zarr3_codecs import Chain, chain_from_json, merge_chains
from tegula.tensorstore.errors import StatusError, annotate, status, type_error
from tegula.tensorstore.json.arguments import only_json
from tegula.tensorstore.json.binding import MISSING, dump, known_only, member, obj, string
from tegula.tensorstore.json.values import pretty, to_json_value

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CodecSpec"]

_ALIASES = {"zarr2": "zarr"}


class CodecSpec:
    """Constraints on the codec; what is not mentioned is free.

    Parameters
    ----------
    json : object
        The JSON representation: a member ``driver`` and what that driver calls its codecs.

    Attributes
    ----------
    driver : str
        The driver that the codec is for.
    members : dict
        What is given: ``compressor`` and ``filters`` in JSON for ``zarr``, the `Chain` ``codecs`` for ``zarr3``.

    Examples
    --------
    >>> CodecSpec({"driver": "zarr", "compressor": {"id": "zlib"}})
    CodecSpec({'compressor': {'id': 'zlib', 'level': 1}, 'driver': 'zarr', 'filters': None})
    """

    __slots__ = ("driver", "members")

    driver: str
    members: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        json = only_json("CodecSpec", args, kwargs)
        if json is MISSING:
            raise type_error("CodecSpec() takes one argument, json")
        members = obj(to_json_value(json))
        with member("driver"):
            name = string(members.pop("driver", MISSING))
            if name not in _READERS:
                raise status("INVALID_ARGUMENT", f"{dump(name)} is not registered")
        self.driver = _ALIASES.get(name, name)
        self.members = {}
        for part, read in _READERS[name].items():
            if part in members:
                with member(part):
                    self.members[part] = read(members.pop(part))
        known_only(members)

    @classmethod
    def of(cls, driver: str, **members: Any) -> CodecSpec:
        """Make a spec of parts that are known to be valid."""
        self = cls.__new__(cls)
        self.driver, self.members = driver, members
        return self

    def merged(self, other: CodecSpec) -> CodecSpec:
        """Return what both together ask for.

        Raises
        ------
        ValueError
            If they disagree, or are for different drivers.
        """
        try:
            if self.driver != other.driver:
                raise status("INVALID_ARGUMENT", "")
            members = dict(self.members)
            for name, value in other.members.items():
                members[name] = _merge_member(name, members.get(name, MISSING), value)
        except StatusError as error:
            text = f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
            raise annotate(error, text) if error.sentence else status(error.code, text) from None
        return CodecSpec.of(self.driver, **members)

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; nothing has a default."""
        json: dict[str, Any] = {"driver": self.driver}
        for name, value in self.members.items():
            json[name] = value.to_json() if isinstance(value, Chain) else to_json_value(value)
        if self.driver == "zarr":
            json.setdefault("filters", None)
        return dict(sorted(json.items()))

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, CodecSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(dump(self.to_json()))

    def __repr__(self) -> str:
        return pretty(self.to_json(), "CodecSpec(", ")")

    def __reduce__(self) -> tuple[Any, ...]:
        return (CodecSpec, (self.to_json(),))


def _merge_member(name: str, first: Any, second: Any) -> Any:
    if first is MISSING or first == second:
        return second
    if isinstance(first, Chain):
        return merge_chains(first, second)
    # null is printed for filters that are not mentioned, so it can't mean more than that
    if name == "filters" and (first is None or second is None):
        return second if first is None else first
    raise status("INVALID_ARGUMENT", f"{dump(name)} does not match")


def _anything(value: Any) -> Any:
    return value


_READERS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "zarr": {"compressor": compressor_from_json, "filters": filters_from_json},
    "zarr2": {"compressor": compressor_from_json, "filters": filters_from_json},
    "zarr3": {"codecs": chain_from_json},
    "zarr1": {"compression": _anything, "compression_opts": _anything},
    "bcolz": {"compressor": _anything},
}
