"""JSON Pointers (RFC 6901): reading and replacing one value in a JSON document."""

from __future__ import annotations

import re
from copy import copy
from typing import Any, Final

from tegula.tensorstore.errors import StatusError, invalid, status
from tegula.tensorstore.json.binding import MISSING, dump

__all__ = ["parse_pointer", "replaced", "resolve"]

_INDEX: Final = re.compile(r"0|[1-9][0-9]*")


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Split a pointer into its reference tokens.

    Examples
    --------
    >>> parse_pointer("/a/~1b/0")
    ('a', '/b', '0')
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise invalid(f"JSON Pointer does not start with '/': {dump(pointer)}")
    if re.search("~(?![01])", pointer):
        raise invalid(f"JSON Pointer requires '~' to be followed by '0' or '1': {dump(pointer)}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def _upto(pointer: str, count: int) -> str:
    return dump("".join(f"/{part}" for part in pointer[1:].split("/")[:count]))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def _inapplicable(shown: str, value: Any) -> StatusError:
    text = f"JSON Pointer reference {shown} cannot be applied to {_kind(value)} value: {dump(value)}"
    return status("FAILED_PRECONDITION", text)


def resolve(document: Any, pointer: str) -> Any:
    """Return the value that a pointer refers to.

    Examples
    --------
    >>> resolve({"a": [1, {"b": 2}]}, "/a/1/b")
    2
    """
    value = document
    for depth, part in enumerate(parse_pointer(pointer)):
        shown = _upto(pointer, depth + 1)
        if isinstance(value, dict):
            if part not in value:
                raise status("NOT_FOUND", f"JSON Pointer {shown} refers to non-existent object member")
            value = value[part]
        elif isinstance(value, list):
            if part == "-":
                raise status("FAILED_PRECONDITION", f"JSON Pointer {shown} refers to non-existent array element")
            value = value[_position(shown, part, value, "OUT_OF_RANGE")]
        else:
            raise _inapplicable(shown, value)
    return value


def _position(shown: str, part: str, elements: list[Any], code: str) -> int:
    """Return the array position that a reference token stands for; `shown` is the pointer up to the token."""
    if not _INDEX.fullmatch(part):
        raise status("FAILED_PRECONDITION", f"JSON Pointer {shown} is invalid for array value")
    if int(part) >= len(elements):
        raise status(code, f"JSON Pointer {shown} is out-of-range for array of size {len(elements)}")
    return int(part)


def replaced(document: Any, pointer: str, value: Any) -> Any:
    """Return a copy of a document in which a pointer refers to `value`.

    Missing objects on the way are created; ``-`` appends to an array. `MISSING` stands for a document that does not
    exist.

    Examples
    --------
    >>> replaced({"a": [1]}, "/a/-", 2)
    {'a': [1, 2]}
    >>> replaced(MISSING, "/a/b", 1)
    {'a': {'b': 1}}
    """
    parts = parse_pointer(pointer)
    if not parts:
        return value
    root = _open(document)
    current = root
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        shown = _upto(pointer, depth + 1)
        if isinstance(current, dict):
            current[part] = value if last else _open(current.get(part, MISSING))
            current = current[part]
        elif isinstance(current, list) and part == "-":
            current.append(value if last else {})
            current = current[-1]
        elif isinstance(current, list):
            position = _position(shown, part, current, "FAILED_PRECONDITION")
            current[position] = value if last else _open(current[position])
            current = current[position]
        else:
            raise _inapplicable(shown, current)
    return root


def _open(value: Any) -> Any:
    return {} if value is MISSING else copy(value)
