"""Readers of JSON values, with errors that name the position in the document.

Each reader returns the value if it is of the expected kind. `MISSING` stands for an absent member.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from tegula.errors import TegulaError
from tegula.tensorstore.errors import StatusError, annotate, invalid

__all__ = [
    "MISSING",
    "MemberTable",
    "array",
    "array_of",
    "at",
    "boolean",
    "dump",
    "expected",
    "in_member",
    "int64",
    "integer",
    "invalid",
    "known_only",
    "member",
    "number",
    "obj",
    "one_of",
    "optional",
    "read_member",
    "string",
    "take",
    "take_members",
    "with_defaults",
]

T = TypeVar("T")
MemberTable: TypeAlias = Mapping[str, tuple[Callable[[Any], Any], Any]]
"""The reader and the default of each member; ``MISSING`` marks a required member."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


def dump(value: Any) -> str:
    """Return JSON text without spaces, with members sorted by name.

    Examples
    --------
    >>> dump({"b": [1.0, None], "a": "é"})
    '{"a":"é","b":[1.0,null]}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


def expected(what: str, value: Any) -> StatusError:
    """Return the error for a value of an unexpected kind."""
    if value is MISSING:
        return invalid(f"Expected {what}, but member is missing")
    return invalid(f"Expected {what}, but received: {dump(value)}")


class _Reading:
    """A context manager that adds a position to errors; a class, as `contextmanager` is slower than most readers."""

    __slots__ = ("_of", "_what")

    def __init__(self, what: str, of: str | int) -> None:
        self._what, self._of = what, of

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TegulaError):
            known = error if isinstance(error, StatusError) else invalid(str(error))
            raise annotate(known, f"Error parsing {self._what} {dump(self._of)}") from error.__cause__


def in_member(name: str, error: StatusError) -> StatusError:
    """Return an error with the name of a member added."""
    return annotate(error, f"Error parsing object member {dump(name)}")


def member(name: str) -> _Reading:
    """Add the name of a member to errors of the ``with`` block."""
    return _Reading("object member", name)


def at(position: int) -> _Reading:
    """Add the position of an element to errors of the ``with`` block."""
    return _Reading("value at position", position)


def obj(value: Any) -> dict[str, Any]:
    """Read an object and return a copy."""
    if not isinstance(value, dict):
        raise expected("object", value)
    return dict(value)


def array(value: Any, length: int | None = None) -> list[Any]:
    """Read an array; if a length is given, the array must have it."""
    if not isinstance(value, (list, tuple)):
        raise expected("array", value)
    if length is not None and len(value) != length:
        raise invalid(f"Array has length {len(value)} but should have length {length}")
    return list(value)


def string(value: Any) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise expected("string", value)
    return value


def boolean(value: Any) -> bool:
    """Read a boolean."""
    if not isinstance(value, bool):
        raise expected("boolean", value)
    return value


def integer(value: Any, least: int, most: int, what: str = "") -> int:
    """Read an integer from `least` to `most`, or a float of integral value; `what` describes it in errors.

    Examples
    --------
    >>> integer(3.0, 0, 9)
    3
    """
    parsed = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(parsed) is not int or not least <= parsed <= most:
        raise expected(what or f"integer in the range [{least}, {most}]", value)
    return parsed


def int64(value: Any) -> int:
    """Read a 64-bit integer, or a float of integral value."""
    return integer(value, -(2**63), 2**63 - 1, "64-bit signed integer")


def array_of(value: Any, read: Callable[[Any], T]) -> list[T]:
    """Read each element of an array.

    Examples
    --------
    >>> array_of([1, 2.0], int64)
    [1, 2]
    """
    elements = []
    for position, element in enumerate(array(value)):
        with at(position):
            elements.append(read(element))
    return elements


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a reader that also accepts null, as None."""
    return lambda value: None if value is None else read(value)


def read_member(members: dict[str, Any], name: str, read: Callable[[Any], T]) -> T:
    """Remove a member from an object and read it; it must not be absent."""
    with member(name):
        return read(members.pop(name, MISSING))


def take(members: dict[str, Any], name: str, read: Callable[[Any], T], default: Any = None) -> Any:
    """Remove a member from an object and read it; return `default` if it is absent.

    Examples
    --------
    >>> members = {"rank": 3.0}
    >>> take(members, "rank", int64), take(members, "rank", int64)
    (3, None)
    """
    return read_member(members, name, read) if name in members else default


def take_members(members: dict[str, Any], table: MemberTable) -> dict[str, Any]:
    """Remove the members that a table lists from an object; return those that do not have their default.

    Examples
    --------
    >>> take_members({"a": 1.0, "b": 2.0}, {"a": (int64, 1), "b": (int64, 1)})
    {'b': 2}
    """
    values = {}
    for name, (read, default) in table.items():
        value = read_member(members, name, read) if default is MISSING else take(members, name, read, default)
        if value != default:
            values[name] = value
    return values


def with_defaults(values: Mapping[str, Any], table: MemberTable) -> dict[str, Any]:
    """Return members with the defaults of those that are absent, except defaults of ``None``."""
    return {**{name: default for name, (_, default) in table.items() if default is not None}, **values}


def number(value: Any) -> float:
    """Read a number as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise expected("64-bit floating-point number", value)
    return float(value)


def one_of(value: Any, names: Sequence[str]) -> str:
    """Read one of several strings."""
    if not isinstance(value, str) or value not in names:
        listed = ", ".join(dump(name) for name in names)
        raise expected(f"one of {listed}" if len(names) > 1 else listed, value)
    return value


def known_only(members: dict[str, Any]) -> None:
    """Refuse the members that remain in an object."""
    if members:
        raise invalid(f"Object includes extra members: {','.join(dump(name) for name in sorted(members))}")
