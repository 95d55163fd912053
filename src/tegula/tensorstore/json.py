"""JSON and keyword arguments, read with errors that name the position in the document, or the argument.

Each reader of JSON returns the value if it is of the expected kind. `MISSING` stands for an absent member. A JSON
Pointer (RFC 6901) names one value in a document.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError, brief
from tegula.tensorstore.errors import StatusError, ValueStatusError, annotate, invalid, stating, status, type_error

__all__ = [
    "MAX_RANK", "MISSING", "MemberTable", "NumberRangeError", "array", "array_of", "as_bytes", "at", "boolean",
    "check_rank", "checked_pointer", "conversion_error", "dump", "each", "expected", "int64",
    "integer", "key_bytes", "key_text", "known_only", "member", "naming", "nested_array", "number",
    "obj", "one_of", "only_json", "optional", "parse", "parse_pointer", "pretty", "read_indices", "read_int64",
    "read_member", "read_number", "read_object", "replaced", "resolve", "sound_text", "string", "take", "take_members",
    "to_json_value", "with_defaults",
]  # fmt: skip


T = TypeVar("T")
MAX_RANK = 32
_INT64 = range(-(2**63), 2**63)
MemberTable: TypeAlias = Mapping[str, tuple[Callable[[Any], Any], Any]]
"""The reader and the default of each member; ``MISSING`` marks a required member."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def dump(value: Any) -> str:
    """Return JSON text without spaces, with members sorted by name."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


def expected(what: str, value: Any) -> StatusError:
    """Return the error for a value of an unexpected kind."""
    if value is MISSING:
        return invalid(f"Expected {what}, but member is missing")
    return invalid(f"Expected {what}, but received: {dump(value)}")


class _Reading(stating):
    """A context manager that adds a position to errors, all of which are about an argument."""

    __slots__ = ("_of",)

    def __init__(self, what: str, of: str | int) -> None:
        self._text, self._of = what, of

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TegulaError):
            known = error if isinstance(error, StatusError) else invalid(str(error))
            raise annotate(known, f"Error parsing {self._text} {dump(self._of)}") from error.__cause__


member = partial(_Reading, "object member")
"""Adds the name of a member to errors of the ``with`` block."""
at = partial(_Reading, "value at position")
"""Adds the position of an element to errors of the ``with`` block."""


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
    """Read an integer from `least` to `most`, or a float of integral value; `what` describes it in errors."""
    parsed = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(parsed) is not int or not least <= parsed <= most:
        raise expected(what or f"integer in the range [{least}, {most}]", value)
    return parsed


def int64(value: Any) -> int:
    """Read a 64-bit integer, or a float of integral value."""
    return integer(value, -(2**63), 2**63 - 1, "64-bit signed integer")


def array_of(value: Any, read: Callable[[Any], T]) -> list[T]:
    """Read each element of an array."""
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
    """Remove a member from an object and read it; return `default` if it is absent."""
    return read_member(members, name, read) if name in members else default


def take_members(members: dict[str, Any], table: MemberTable) -> dict[str, Any]:
    """Remove the members that a table lists from an object; return those that do not have their default."""
    values = {}
    for name, (read, default) in table.items():
        value = read_member(members, name, read) if default is MISSING else take(members, name, read, default)
        if value != default:
            values[name] = value
    return values


def with_defaults(values: Mapping[str, Any], table: MemberTable) -> dict[str, Any]:
    """Return members with the defaults of those that are absent, except defaults of ``None``."""
    return {**{name: default for name, (_, default) in table.items() if default is not None}, **values}


def read_object(value: Any, readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Read the members of an object, each by its reader, and return them in that order; other members are errors."""
    members = obj(value)
    given = {name: take(members, name, read) for name, read in readers.items() if name in members}
    known_only(members)
    return given


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


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of a keyword argument to errors."""
    try:
        yield
    except TypeError:
        raise type_error(f"Invalid {name}") from None
    except StatusError as error:
        raise annotate(error, f"Invalid {name}") from None


def only_json(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], others: str = "") -> Any:
    """Return the argument ``json`` of a call, given by position or by name; `MISSING` if there are `others` instead."""
    has_json = args or "json" in kwargs
    if len(args) + len(kwargs) != 1 if has_json else not others:
        raise type_error(f"{name}() takes one argument, json{others}")
    return MISSING if not has_json else args[0] if args else kwargs["json"]


def read_int64(value: Any) -> int:
    """Read a 64-bit integer from an argument."""
    if not hasattr(value, "__index__") or operator.index(value) not in _INT64:
        raise type_error(f"expected a 64-bit integer, not {brief(value)}")
    return operator.index(value)


def read_indices(values: Iterable[Any]) -> list[int | None]:
    """Read integers and Nones from an argument."""
    return [None if value is None else read_int64(value) for value in values]


def read_number(value: Any) -> float:
    """Read a real number from an argument."""
    if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise type_error(f"expected a number, not {value!r:.80}")
    return float(value)


def check_rank(rank: Any) -> int:
    """Return a number of dimensions if it is valid."""
    number = read_int64(rank)
    if not 0 <= number <= MAX_RANK:
        raise invalid(f"Rank {number} is outside valid range [0, {MAX_RANK}]")
    return number


def each(values: npt.NDArray[Any], function: Callable[[Any], Any], result: np.dtype[Any]) -> npt.NDArray[Any]:
    """Apply a function to each element of an array."""
    return np.fromiter(map(function, values.reshape(-1)), result, values.size).reshape(values.shape)


def nested_array(value: Any, depth: int = MAX_RANK + 1) -> npt.NDArray[Any]:
    """Return nested lists as an array of objects with at most `depth` dimensions, by the first list of each level."""
    shape: list[int] = []
    first = value
    while isinstance(first, list) and len(shape) < depth:
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) > MAX_RANK:
        raise invalid(f"Nesting level exceeds maximum rank of {MAX_RANK}")
    elements = [value]
    for size in shape:
        if wrong := [part for part in elements if not isinstance(part, list) or len(part) != size]:
            raise invalid(f"{dump(wrong[0])} does not fit into an array of shape {[*shape]}")
        elements = [inner for part in elements for inner in part]
    return np.fromiter(elements, object, len(elements)).reshape(shape)


_WIDTH = 80
_DEPTH = 100


class NumberRangeError(ValueStatusError, OverflowError):
    """A number outside the range of its type."""


def conversion_error(error: Exception) -> StatusError:
    """Convert an error that NumPy or Python raised in a conversion to the corresponding error of this package."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, OverflowError):
        return NumberRangeError("INVALID_ARGUMENT", str(error))
    return type_error(str(error)) if isinstance(error, TypeError) else invalid(str(error))


def parse(document: bytes) -> Any:
    """Return the value of a JSON document, every part of which can be written again."""
    text = document.decode("utf-8-sig")
    value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    if re.search(r"\\u[dD]", text):
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def _finite(text: str) -> float:
    return parsed if math.isfinite(parsed := float(text)) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def to_json_value(value: Any, room: int = _DEPTH) -> Any:
    """Convert a Python value to JSON: dict, list, str, int, float, bool or None; `room` is the maximum depth."""
    kind = type(value)
    if kind is str and value.isascii():
        return value
    if room < 1:
        raise invalid("Recursion limit exceeded converting value to JSON")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return sound_text(str.__str__(value))  # NumPy's strings are a subclass
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise NumberRangeError("INVALID_ARGUMENT", "int too big to convert")
        return int(value)
    if kind is not dict and hasattr(value, "to_json") and not isinstance(value, type):
        return to_json_value(value.to_json(), room)
    if kind is dict or isinstance(value, Mapping):
        return {
            name if type(name) is str and name.isascii() else sound_text(str(name)): (
                element if type(element) is str and element.isascii() else to_json_value(element, room - 1)
            )
            for name, element in value.items()
        }
    if isinstance(value, (np.generic, np.ndarray)):
        return to_json_value(value.tolist(), room)
    if isinstance(value, Sequence):
        return [to_json_value(element, room - 1) for element in value]
    raise type_error(f"Object '{type(value).__name__}' does not support conversion to JSON")


def sound_text(value: str) -> str:
    """Return text if it can be encoded; surrogates may only stand for bytes of a path that are not UTF-8."""
    if not value.isascii():
        as_bytes(value, "text", "surrogateescape")
    return value


def as_bytes(value: Any, what: str, errors: Literal["strict", "surrogateescape"] = "strict") -> bytes:
    """Return text or bytes as bytes; `what` describes the value in errors."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", errors)
        except UnicodeEncodeError:
            raise type_error(f"{what} can't have lone surrogates: {value!r:.80}") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise type_error(f"{what} must be str or bytes, not {type(value).__name__}")


def key_text(key: Any) -> str:
    """Return a key as text; bytes that are not UTF-8 become lone surrogates."""
    encoded = as_bytes(key, "a key")
    return key if isinstance(key, str) else encoded.decode("utf-8", "surrogateescape")


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key, by which keys are sorted."""
    return as_bytes(key, "a key", "surrogateescape")


def pretty(value: Any, before: str = "", after: str = "") -> str:
    """Return JSON as Python source, between `before` and `after`, in lines of up to 80 characters where possible."""
    return before + _pretty(value, _WIDTH, 0) + after


def _pretty(value: Any, room: float, indent: int) -> str:
    if not isinstance(value, (dict, list, tuple)):
        no_number = isinstance(value, float) and not math.isfinite(value)
        return _literal(value) if isinstance(value, str) else "null" if no_number else repr(value)
    named = isinstance(value, dict)
    items = [
        (f"{_literal(at)}: " if named else "", value[at]) for at in (sorted(value) if named else range(len(value)))
    ]
    opening, closing = "{}" if named else "[]"
    flat = opening + ", ".join([label + _pretty(part, math.inf, 0) for label, part in items]) + closing
    if len(flat) <= room or not items:
        return flat
    margin = " " * (indent + 2)
    # each level leaves room for its comma
    width = _WIDTH - len(margin) - len(margin) // 2
    lines = [f"{margin}{label}{_pretty(part, width - len(label), indent + 2)},\n" for label, part in items]
    return f"{opening}\n{''.join(lines)}{' ' * indent}{closing}"


def _literal(text: Any) -> str:
    return "'" + repr(str(text))[1:-1].replace("\\'", "'").replace("'", "\\'").replace('"', '\\"') + "'"


_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_POINTER: Final = re.compile(r"(?:/(?:[^/~]|~[01])*)*")


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Split a pointer into its reference tokens."""
    if not _POINTER.fullmatch(pointer):
        raise invalid(f"{dump(pointer)} is no JSON Pointer: each part begins with '/', and '~' is part of '~0' or '~1'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def checked_pointer(value: Any) -> str:
    """Read a pointer, and return it if it is valid."""
    parse_pointer(string(value))
    return str(value)


def resolve(document: Any, pointer: str) -> Any:
    """Return the value that a pointer refers to."""
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
    """
    root = [document]
    current: Any = root
    key: Any = 0
    for part in parse_pointer(pointer):
        inner = current[key] = {} if current[key] is MISSING else copy(current[key])
        if isinstance(inner, dict):
            key = part
            inner.setdefault(part, MISSING)
        elif isinstance(inner, list) and part == "-":
            key = len(inner)
            inner.append(MISSING)
        else:
            key = _key(pointer, inner, part, "FAILED_PRECONDITION")
        current = inner
    current[key] = value
    return root[0]
