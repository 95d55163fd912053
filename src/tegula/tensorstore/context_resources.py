"""Kinds of context resources: the members of their JSON, with defaults.

Most kinds configure pools and locks, for which tegula has its own settings; they are validated and kept, but have no
effect. The exceptions are ``memory_key_value_store``, which identifies a store in memory, and ``file_io_sync``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tegula.tensorstore.errors import invalid
from tegula.tensorstore.json.binding import boolean, expected, integer, known_only, obj, one_of, take

__all__ = ["KINDS", "Kind", "kind_of", "split_reference"]

Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of context resource.

    Attributes
    ----------
    name : str
        The first part of its identifiers.
    members : mapping of str to (reader, default)
        The members of its JSON object; `None` if it is a boolean instead.
    private : bool
        Whether the resource is only a setting and never shared.
    opaque : bool
        Whether any members are accepted, without validation.
    """

    name: str
    members: Mapping[str, tuple[Reader, Any]] | None = field(default_factory=dict)
    private: bool = False
    opaque: bool = False

    def read(self, json: Any) -> Any:
        """Validate JSON and return it without members that have their default value."""
        if self.members is None:
            return boolean(json)
        members = obj(json)
        if self.opaque:
            return members
        description = {}
        for name, (read, default) in self.members.items():
            value = take(members, name, read, default)
            if value != default:
                description[name] = value
        known_only(members)
        return dict(sorted(description.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return kind_of, (self.name,)

    @property
    def default(self) -> Any:
        """The description of a default resource."""
        return True if self.members is None else {}

    def with_defaults(self, description: Any) -> Any:
        """Return the JSON with all defaults except those of ``None``."""
        if not self.members:
            return description
        shown = {name: default for name, (_, default) in self.members.items() if default is not None}
        return dict(sorted({**shown, **description}.items()))


_DURATION = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|ms|s|m|h))+").fullmatch
_PARTS = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|ms|s|m|h)").findall
_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def _duration(value: Any) -> str:
    """Read a duration and return its shortest form: ``90s`` is ``1m30s``."""
    if not isinstance(value, str) or not (value == "0" or _DURATION(value)):
        raise expected('Duration formatted as a string using time units "ns", "us" "ms", "s", "m", or "h".', value)
    remaining = sum(round(float(number) * _UNITS[unit]) for number, unit in _PARTS(value))
    sign = "-" if value.startswith("-") and remaining else ""
    if remaining == 0:
        return "0"
    if remaining < _UNITS["s"]:
        unit = next(unit for unit in ("ms", "us", "ns") if remaining >= _UNITS[unit])
        return f"{sign}{_decimal(remaining, _UNITS[unit])}{unit}"
    hours, remaining = divmod(remaining, _UNITS["h"])
    minutes, remaining = divmod(remaining, _UNITS["m"])
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{_decimal(remaining, _UNITS['s'])}s"]
    return sign + "".join(part for part in parts if part != "0s")


def _decimal(value: int, unit: int) -> str:
    integral, fraction = divmod(value, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{integral}.{digits}" if digits else str(integral)


def _locking_timeout(value: Any) -> str | None:
    timeout = _duration(value)
    return None if timeout == "1m" else timeout


def _mode(*names: str) -> Reader:
    return lambda value: None if one_of(value, names) == names[0] else value


def _retries(most: int) -> dict[str, tuple[Reader, Any]]:
    return {
        "max_retries": (lambda value: integer(value, 0, 2**63 - 1), most),
        "initial_delay": (_duration, "1s"),
        "max_delay": (_duration, "32s"),
    }


_CONCURRENCY: Final[dict[str, tuple[Reader, Any]]] = {
    "limit": (lambda value: value if value == "shared" else integer(value, 1, 2**64 - 1), "shared")
}
_BYTES: Final[tuple[Reader, int]] = (lambda value: integer(value, 0, 2**64 - 1, "64-bit unsigned integer"), 0)

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("cache_pool", {"total_bytes_limit": _BYTES}),
        Kind("data_copy_concurrency", _CONCURRENCY),
        Kind("file_io_concurrency", _CONCURRENCY),
        Kind("file_io_sync", None, private=True),
        Kind(
            "file_io_locking",
            {
                "mode": (_mode("os", "lockfile", "none", "non_atomic"), None),
                "acquire_timeout": (_locking_timeout, None),
            },
            private=True,
        ),
        Kind("file_io_mode", {"mode": (_mode("default", "memmap", "direct"), None)}, private=True),
        Kind("file_io_retries", _retries(0), private=True),
        Kind("memory_key_value_store"),
        *(Kind(f"{name}_request_concurrency", _CONCURRENCY) for name in ("gcs", "http", "s3")),
        *(Kind(f"{name}_request_retries", _retries(32), private=True) for name in ("gcs", "http", "s3", "tsgrpc")),
        *(
            Kind(name, opaque=True)
            for name in (
                "aws_credentials",
                "experimental_gcs_grpc_credentials",
                "experimental_gcs_rate_limiter",
                "experimental_s3_rate_limiter",
                "gcs_user_project",
                "grpc_client_credentials",
                "ocdbt_coordinator",
            )
        ),
    )
}
"""Every kind by name, including kinds for storage without a driver here."""


def kind_of(identifier: str) -> Kind:
    """Return the kind of a resource by its identifier, ``kind`` or ``kind#id``."""
    kind = KINDS.get(identifier.partition("#")[0])
    if kind is None:
        raise invalid(f'Invalid context resource identifier: "{identifier}"')
    return kind


def split_reference(kind: Kind, json: Any) -> Any:
    """Return a reference unchanged; read any other JSON value as a description.

    Examples
    --------
    >>> split_reference(KINDS["cache_pool"], "cache_pool#a")
    'cache_pool#a'
    >>> split_reference(KINDS["cache_pool"], {"total_bytes_limit": 5.0})
    {'total_bytes_limit': 5}
    """
    if not isinstance(json, str):
        return kind.read(json)
    if json.partition("#")[0] == kind.name:
        return json
    what = "boolean" if kind.members is None else "object"
    wrong = f'(Expected {what}, but received: "{json}")'
    raise invalid(f'Invalid spec or reference to "{kind.name}" resource: "{json}" {wrong}')
