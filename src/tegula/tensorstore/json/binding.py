"""Readers of JSON and of keyword arguments, with errors that name the position in the document, or the argument.

Each reader of JSON returns the value if it is of the expected kind. `MISSING` stands for an absent member.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError, brief
from tegula.tensorstore.errors import StatusError, annotate, invalid, type_error

__all__ = [
    "MAX_RANK",
    "MISSING",
    "MemberTable",
    "array",
    "array_of",
    "at",
    "boolean",
    "check_rank",
    "dump",
    "expected",
    "in_member",
    "int64",
    "int_argument",
    "integer",
    "invalid",
    "known_only",
    "member",
    "naming",
    "nested_array",
    "nested_shape",
    "number",
    "obj",
    "one_of",
    "only_json",
    "optional",
    "read_indices",
    "read_int64",
    "read_member",
    "read_ratios",
    "string",
    "take",
    "take_members",
    "with_defaults",
]

T = TypeVar("T")
MAX_RANK = 32
_INT64 = range(-(2**63), 2**63)
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


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of a keyword argument to errors."""
    try:
        yield
    except TypeError:
        raise type_error(f"Invalid {name}") from None
    except StatusError as error:
        raise annotate(error, f"Invalid {name}") from None


def only_json(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the argument ``json`` of a call, given by position or by name; `MISSING` if there is none."""
    if args or "json" in kwargs:
        if len(args) + len(kwargs) != 1:
            raise type_error(f"{name}() takes either the argument json or keyword arguments, not both")
        return args[0] if args else kwargs["json"]
    return MISSING


def int_argument(value: Any) -> int:
    """Read a 64-bit integer from an argument of a constructor; raise TypeError for other values."""
    try:
        return read_int64(value)
    except TypeError:
        raise type_error(
            f"__init__(): incompatible constructor arguments: expected an integer, not {brief(value)}"
        ) from None


def read_int64(value: Any) -> int:
    """Read a 64-bit integer from an argument."""
    index: int = operator.index(value)
    if index not in _INT64:
        raise TypeError("too large")
    return index


def read_indices(values: Iterable[Any]) -> list[int | None]:
    """Read integers and Nones from an argument."""
    return [None if value is None else read_int64(value) for value in values]


def read_ratios(values: Iterable[Any]) -> list[float | None]:
    """Read real numbers and Nones from an argument."""
    ratios = []
    for value in values:
        if isinstance(value, (str, bytes)):
            raise TypeError("text")
        ratios.append(None if value is None else float(value))
    return ratios


def check_rank(rank: Any) -> int:
    """Return a number of dimensions if it is valid."""
    number = read_int64(rank)
    if not 0 <= number <= MAX_RANK:
        raise invalid(f"Rank {number} is outside valid range [0, {MAX_RANK}]")
    return number


def nested_shape(value: Any, depth: int = MAX_RANK + 1) -> list[int]:
    """Return the shape of nested lists, from the first list of each level, with at most `depth` dimensions.

    Examples
    --------
    >>> nested_shape([[1, 2, 3], [4, 5, 6]]), nested_shape([[1, 2, 3], [4, 5, 6]], 1), nested_shape(7)
    ([2, 3], [2], [])
    """
    shape: list[int] = []
    while isinstance(value, list) and len(shape) < depth:
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return shape


def nested_array(value: Any, shape: Sequence[int]) -> npt.NDArray[Any]:
    """Return the elements of nested lists as an array of objects.

    Examples
    --------
    >>> nested_array([[1, 2], [3, 4]], [2, 2]).tolist()
    [[1, 2], [3, 4]]
    """
    if len(shape) > MAX_RANK:
        raise invalid(f"Nesting level exceeds maximum rank of {MAX_RANK}")
    values = np.empty(shape, object)
    _fill(values, value, ())
    return values


def _fill(values: npt.NDArray[Any], value: Any, position: tuple[int, ...]) -> None:
    depth, shape = len(position), values.shape
    if depth == len(shape):
        values[position] = value
        return
    if not isinstance(value, list):
        raise invalid(
            f"Expected rank-{len(shape)} array, but found non-array element {dump(value)} at position {[*position]}."
        )
    if len(value) != shape[depth]:
        raise invalid(
            f"Expected array of shape {[*shape]}, but found array element {dump(value)} of length {len(value)} "
            f"at position {[*position]}."
        )
    for number, inner in enumerate(value):
        _fill(values, inner, (*position, number))
