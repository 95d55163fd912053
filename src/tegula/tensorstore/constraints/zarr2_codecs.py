"""Compressors and filters of Zarr v2, from metadata and codec specs: validation, and default options.

TensorStore has five compressors and no filters. Other codecs of numcodecs are accepted, too.
"""

from __future__ import annotations

from typing import Any, Final

from tegula.codecs import build_chain
from tegula.errors import TegulaError, UnsupportedError
from tegula.metadata.data_types import as_data_type
from tegula.metadata.nodes import CodecSpec
from tegula.tensorstore.constraints.zarr3_codecs import CNAMES
from tegula.tensorstore.errors import as_status, quoted
from tegula.tensorstore.json.binding import MISSING, expected, integer, invalid, known_only, member, obj, string

__all__ = ["DEFAULT_COMPRESSOR", "compressor_from_json", "filters_from_json"]

_LEVELS: Final = {"zlib": (0, 9), "gzip": (0, 9), "bz2": (1, 9), "zstd": (-131072, 22)}
DEFAULT_COMPRESSOR: Final = {"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": -1}


def compressor_from_json(value: Any) -> dict[str, Any] | None:
    """Read a ``compressor``.

    Examples
    --------
    >>> compressor_from_json({"id": "zlib"})
    {'id': 'zlib', 'level': 1}
    """
    if value is None:
        return None
    members = obj(value)
    with member("id"):
        name = string(members.pop("id", MISSING))
    if name == "blosc":
        return _blosc(members)
    if name in _LEVELS:
        options: dict[str, Any] = {"id": name, "level": _take(members, "level", *_LEVELS[name], 1)}
        if name == "zstd" and isinstance(members.get("checksum"), bool):
            options["checksum"] = members.pop("checksum")  # numcodecs writes this option
        known_only(members)
        return options
    _check_known(name, members)
    return {"id": name, **members}


def _blosc(members: dict[str, Any]) -> dict[str, Any]:
    with member("cname"):
        cname = string(members.pop("cname", "lz4"))
        if cname not in CNAMES:
            raise expected(f"one of {','.join(CNAMES)}", cname)
    options = {
        "blocksize": 0,
        "clevel": _take(members, "clevel", 0, 9, 5),
        "cname": cname,
        "id": "blosc",
        "shuffle": _take(members, "shuffle", -1, 2, -1),
    }
    options["blocksize"] = _take(members, "blocksize", 0, 2**63 - 1, 0)
    known_only(members)
    return options


def _take(members: dict[str, Any], name: str, low: int, high: int, default: int) -> int:
    with member(name):
        return integer(members.pop(name, default), low, high)


def _check_known(name: str, members: dict[str, Any]) -> None:
    """Refuse an unknown codec, or a configuration that it does not accept."""
    specs = [CodecSpec("bytes"), CodecSpec(f"numcodecs.{name}", members)]
    try:
        build_chain(specs, as_data_type("u1"), None, ndim=1)
    except UnsupportedError:
        with member("id"):
            raise invalid(f"{quoted(name)} is not registered") from None
    except TegulaError as error:
        raise invalid(as_status(error).sentence) from error


def filters_from_json(value: Any) -> list[dict[str, Any]] | None:
    """Read ``filters``; an empty list means no filters."""
    if value is not None and not isinstance(value, (list, tuple)):
        raise expected("null or array", value)
    if not value:
        return None
    if not all(isinstance(codec, dict) and isinstance(codec.get("id"), str) for codec in value):
        raise invalid("filters are not supported")
    return [dict(codec) for codec in value]
