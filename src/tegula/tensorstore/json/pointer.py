"""JSON Pointers (RFC 6901): reading and replacing one value in a JSON document."""

from __future__ import annotations

import re
from copy import copy
from typing import Any, Final

from tegula.tensorstore.errors import invalid, status
from tegula.tensorstore.json.binding import MISSING, dump

__all__ = ["checked_pointer", "parse_pointer", "replaced", "resolve"]

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


def checked_pointer(pointer: str) -> str:
    """Return a pointer if it is valid."""
    parse_pointer(pointer)
    return pointer


def resolve(document: Any, pointer: str) -> Any:
    """Return the value that a pointer refers to.

    Examples
    --------
    >>> resolve({"a": [1, {"b": 2}]}, "/a/1/b")
    2
    """
    value = document
    for part in parse_pointer(pointer):
        value = value[_key(pointer, value, part, "OUT_OF_RANGE")]
    return value


def _key(pointer: str, value: Any, part: str, code: str) -> str | int:
    """Return the name or position that a part of a pointer stands for; `code` is for positions beyond the end."""
    shown = f"JSON Pointer {dump(pointer)}: {dump(part)}"
    if isinstance(value, dict):
        if part not in value:
            raise status("NOT_FOUND", f"{shown} is no member of the object")
        return part
    if not isinstance(value, list):
        raise status("FAILED_PRECONDITION", f"{shown} is not part of {dump(value)}, which is no object or array")
    if not _INDEX.fullmatch(part):
        raise status("FAILED_PRECONDITION", f"{shown} is no position of an element")
    if int(part) >= len(value):
        raise status(code, f"{shown} is beyond the end of an array of size {len(value)}")
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
        key: Any = part
        if isinstance(current, list) and part == "-":
            current.append({})
            key = len(current) - 1
        elif not isinstance(current, dict):
            key = _key(pointer, current, part, "FAILED_PRECONDITION")
        old = current.get(key, MISSING) if isinstance(current, dict) else current[key]
        current[key] = value if depth == len(parts) - 1 else _open(old)
        current = current[key]
    return root


def _open(value: Any) -> Any:
    return {} if value is MISSING else copy(value)
