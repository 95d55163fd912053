"""``compression`` of N5 as a constraint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tegula.metadata.data_types import DataType
from tegula.tensorstore.json.binding import (
    MISSING,
    MemberTable,
    boolean,
    integer,
    known_only,
    obj,
    one_of,
    read_member,
    take_members,
    with_defaults,
)

__all__ = ["compression_from_json", "default_compression"]

_BLOSC: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


def _number(least: int, most: int) -> Callable[[Any], int]:
    return partial(integer, least=least, most=most)


_OPTIONS: Final[dict[str, MemberTable]] = {
    "raw": {},
    "gzip": {"level": (_number(-1, 9), -1), "useZlib": (boolean, False)},
    "bzip2": {"blockSize": (_number(1, 9), 9)},
    "xz": {"preset": (_number(0, 9), 6)},
    "zstd": {"level": (_number(-131072, 22), 0)},
    "blosc": {
        "cname": (partial(one_of, names=_BLOSC), MISSING),
        "clevel": (_number(0, 9), MISSING),
        "shuffle": (_number(0, 2), MISSING),
        "blocksize": (_number(0, 2**31 - 1), 0),
    },
    "lz4": {"blockSize": (_number(64, 2**25), 2**16)},  # unlike TensorStore
}
"""The reader and the default of each option of a compression; those without a default must be given."""


def compression_from_json(value: Any) -> dict[str, Any]:
    """Read a ``compression``, and choose missing options as TensorStore does.

    Examples
    --------
    >>> compression_from_json({"type": "gzip"})
    {'level': -1, 'type': 'gzip', 'useZlib': False}
    """
    members = obj(value)
    kind = read_member(members, "type", partial(one_of, names=tuple(_OPTIONS)))
    options = with_defaults(take_members(members, _OPTIONS[kind]), _OPTIONS[kind])
    known_only(members)
    return dict(sorted({"type": kind, **options}.items()))


def default_compression(data_type: DataType) -> dict[str, Any]:
    """Return the ``compression`` of a new array for which none is chosen."""
    shuffle = 2 if data_type.itemsize == 1 else 1
    return {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": shuffle, "type": "blosc"}
