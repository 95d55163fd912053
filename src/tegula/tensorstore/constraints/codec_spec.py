"""`CodecSpec`: constraints on how the chunks of one driver are encoded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tegula.formats.zarr2 import codecs_from_json
from tegula.metadata.data_types import DataType
from tegula.tensorstore.constraints.zarr3_codecs import (
    Chain,
    chain_from_json,
    check_codec,
    merge_options,
    sound_options,
)
from tegula.tensorstore.errors import StatusError, annotate, invalid, type_error
from tegula.tensorstore.json.binding import (
    MISSING,
    MemberTable,
    boolean,
    dump,
    integer,
    known_only,
    obj,
    one_of,
    only_json,
    read_member,
    string,
    take,
    take_members,
    with_defaults,
)
from tegula.tensorstore.json.values import pretty, to_json_value

__all__ = [
    "DEFAULT_COMPRESSOR",
    "CodecSpec",
    "compression_from_json",
    "compressor_from_json",
    "default_compression",
    "filters_from_json",
]

_N5_BLOSC: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


def _number(least: int, most: int) -> Callable[[Any], int]:
    return partial(integer, least=least, most=most)


_N5_OPTIONS: Final[dict[str, MemberTable]] = {
    "raw": {},
    "gzip": {"level": (_number(-1, 9), -1), "useZlib": (boolean, False)},
    "bzip2": {"blockSize": (_number(1, 9), 9)},
    "xz": {"preset": (_number(0, 9), 6)},
    "zstd": {"level": (_number(-131072, 22), 0)},
    "blosc": {
        "cname": (partial(one_of, names=_N5_BLOSC), MISSING),
        "clevel": (_number(0, 9), MISSING),
        "shuffle": (_number(0, 2), MISSING),
        "blocksize": (_number(0, 2**31 - 1), 0),
    },
    "lz4": {"blockSize": (_number(64, 2**25), 2**16)},  # unlike TensorStore
}
"""The reader and the default of each option of a compression of N5; those without a default must be given."""


def compression_from_json(value: Any) -> dict[str, Any]:
    """Read a ``compression`` of N5, and choose missing options as TensorStore does.

    Examples
    --------
    >>> compression_from_json({"type": "gzip"})
    {'level': -1, 'type': 'gzip', 'useZlib': False}
    """
    members = obj(value)
    kind = read_member(members, "type", partial(one_of, names=tuple(_N5_OPTIONS)))
    options = with_defaults(take_members(members, _N5_OPTIONS[kind]), _N5_OPTIONS[kind])
    known_only(members)
    return dict(sorted({"type": kind, **options}.items()))


def default_compression(data_type: DataType) -> dict[str, Any]:
    """Return the ``compression`` of a new array of N5 for which none is chosen."""
    shuffle = 2 if data_type.itemsize == 1 else 1
    return {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": shuffle, "type": "blosc"}


_PREFIX = "numcodecs."


class CodecSpec:
    """Constraints on the codec; absent members are unconstrained.

    Parameters
    ----------
    json : object
        The JSON representation: ``driver``, and that driver's members for codecs.

    Examples
    --------
    >>> CodecSpec({"driver": "zarr", "compressor": {"id": "zlib"}})
    CodecSpec({'compressor': {'id': 'zlib', 'level': 1}, 'driver': 'zarr', 'filters': None})
    """

    __slots__ = ("_driver", "_members")

    _driver: str
    _members: dict[str, Any]
    """The members that are given: JSON, and for ``codecs`` of ``zarr3`` a `Chain`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        json = only_json("CodecSpec", args, kwargs)
        if json is MISSING:
            raise type_error("CodecSpec() takes one argument, json")
        members = obj(to_json_value(json))
        self._driver = read_member(members, "driver", _driver)
        readers = _READERS[self._driver].items()
        self._members = {part: take(members, part, read) for part, read in readers if part in members}
        known_only(members)

    @classmethod
    def _of(cls, driver: str, **members: Any) -> CodecSpec:
        """Return a spec with members that were already checked."""
        self = cls.__new__(cls)
        self._driver, self._members = driver, members
        return self

    def _merged(self, other: CodecSpec) -> CodecSpec:
        """Return these constraints merged with others."""
        try:
            if self._driver != other._driver:
                raise invalid("they are for different drivers")
            members = merge_options(self._members, other._members, "INVALID_ARGUMENT")
        except StatusError as error:
            text = f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
            raise annotate(error, text) from None
        return CodecSpec._of(self._driver, **members)

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; there are no defaults."""
        json: dict[str, Any] = {"driver": self._driver}
        for name, value in self._members.items():
            json[name] = value.to_json() if isinstance(value, Chain) else to_json_value(value)
        if self._driver == "zarr":
            json.setdefault("filters", None)
        return dict(sorted(json.items()))

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, CodecSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(dump(self.to_json()))

    def __repr__(self) -> str:
        return pretty(self.to_json(), "CodecSpec(", ")")


_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    **{name: {"level": 1} for name in ("zlib", "gzip", "bz2", "zstd")},
    "blosc": {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": -1},
}
"""The options of compressors of Zarr v2 as TensorStore chooses them."""
DEFAULT_COMPRESSOR: Final = {"id": "blosc", **_DEFAULTS["blosc"]}


def compressor_from_json(value: Any) -> dict[str, Any] | None:
    """Read a ``compressor`` of Zarr v2, and choose missing options as TensorStore does.

    Examples
    --------
    >>> compressor_from_json({"id": "zlib"})
    {'id': 'zlib', 'level': 1}
    """
    if value is None:
        return None
    [codec] = codecs_from_json([value], "compressor")
    name = codec.name.removeprefix(_PREFIX)
    options = {**_DEFAULTS.get(name, {}), **sound_options(codec.configuration)}
    check_codec(codec.name, options)
    return dict(sorted({"id": name, **options}.items()))


def filters_from_json(value: Any) -> list[dict[str, Any]] | None:
    """Read ``filters`` of Zarr v2; an empty list means no filters."""
    codecs = codecs_from_json(value, "filters")
    return [{"id": codec.name.removeprefix(_PREFIX), **codec.configuration} for codec in codecs] or None


def _driver(value: Any) -> str:
    name = "zarr" if string(value) == "zarr2" else str(value)
    if name not in _READERS:
        raise invalid(f"{dump(value)} is not registered")
    return name


def _anything(value: Any) -> Any:
    return value


_READERS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "zarr": {"compressor": compressor_from_json, "filters": filters_from_json},
    "zarr3": {"codecs": chain_from_json},
    "n5": {"compression": compression_from_json},
    "zarr1": {"compression": _anything, "compression_opts": _anything},
    "bcolz": {"compressor": _anything},
}
