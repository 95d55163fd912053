"""Reading keyword arguments, with errors that name the argument."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tegula.tensorstore.errors import StatusError, annotate, status, type_error
from tegula.tensorstore.json.binding import MISSING

__all__ = [
    "MAX_RANK",
    "braces",
    "check_rank",
    "instance",
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
    """Say which keyword argument an error is about."""
    try:
        yield
    except StatusError as error:
        if isinstance(error, TypeError):
            raise type_error(f"Invalid {name}") from None
        raise annotate(error, f"Invalid {name}") from None
    except TypeError:
        raise type_error(f"Invalid {name}") from None


def only_json(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Take the one argument ``json`` out of a call, given by position or by name; `MISSING` if there is none."""
    if args or "json" in kwargs:
        if len(args) + len(kwargs) != 1:
            raise type_error(f"{name}() takes either the argument json or keyword arguments, not both")
        return args[0] if args else kwargs["json"]
    return MISSING


def instance(value: Any, kind: type[T]) -> T:
    """Return a value of that class; anything else is a TypeError."""
    if not isinstance(value, kind):
        raise TypeError(type(value).__name__)
    return value


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
    """Return a rank that is possible."""
    number = read_int64(rank)
    if not 0 <= number <= MAX_RANK:
        raise status("INVALID_ARGUMENT", f"Rank {number} is outside valid range [0, {MAX_RANK}]")
    return number


def same_rank(existing: int | None, rank: int) -> int:
    """Return a rank that agrees with what is known of it."""
    if existing is not None and existing != rank:
        raise status("INVALID_ARGUMENT", f"Rank {rank} does not match existing rank {existing}")
    return rank


def braces(numbers: Sequence[int]) -> str:
    """Return numbers as messages show them.

    Examples
    --------
    >>> braces([3, 4])
    '{3, 4}'
    """
    return f"{{{', '.join(map(str, numbers))}}}"
