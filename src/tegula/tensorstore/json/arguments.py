"""Readers of keyword arguments, with errors that name the argument."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tegula.tensorstore.errors import StatusError, annotate, invalid, type_error
from tegula.tensorstore.json.binding import MISSING

__all__ = [
    "MAX_RANK",
    "check_rank",
    "instance",
    "int_argument",
    "naming",
    "only_json",
    "read_indices",
    "read_int64",
    "read_ratios",
    "same_rank",
]

MAX_RANK = 32
_INT64 = range(-(2**63), 2**63)

T = TypeVar("T")


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


def instance(value: Any, kind: type[T]) -> T:
    """Return a value if it is an instance of a class; raise TypeError otherwise."""
    if not isinstance(value, kind):
        raise TypeError(type(value).__name__)
    return value


def int_argument(value: Any) -> int:
    """Read a 64-bit integer from an argument of a constructor; raise TypeError for other values."""
    try:
        return read_int64(value)
    except TypeError:
        raise type_error(
            f"__init__(): incompatible constructor arguments: expected an integer, not {value!r}"
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


def same_rank(existing: int | None, rank: int) -> int:
    """Return a rank if it agrees with the existing one."""
    if existing is not None and existing != rank:
        raise invalid(f"Rank {rank} does not match existing rank {existing}")
    return rank
