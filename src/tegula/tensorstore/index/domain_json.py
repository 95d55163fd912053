"""Bounds and labels of a domain, or of a transform's input domain: from keyword arguments, and from and to JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tegula.tensorstore.errors import invalid, type_error
from tegula.tensorstore.index.intervals import (
    EXCLUSIVE_INFINITY,
    INFINITY,
    MAX_INT64,
    MAX_RANK,
    Interval,
    half_open,
    sized,
)
from tegula.tensorstore.index.intervals import closed as closed_interval
from tegula.tensorstore.json.arguments import int_argument
from tegula.tensorstore.json.binding import array, array_of, dump, expected, integer, known_only, obj, string, take

__all__ = ["Parts", "bounds_from_arguments", "bounds_from_json", "bounds_to_json", "check_labels"]

Parts = tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...], tuple[bool, ...], tuple[str, ...]]

_MAKE: dict[str, Callable[[int, int], Interval]] = {
    "shape": sized,
    "inclusive_max": closed_interval,
    "exclusive_max": half_open,
}


T = TypeVar("T")
_ORDER = "inclusive_min implicit_lower_bounds exclusive_max inclusive_max shape implicit_upper_bounds labels".split()
"""The order in which arguments are checked."""
_LIMITS = {
    "inclusive_min": (-INFINITY, MAX_INT64),
    "inclusive_max": (-MAX_INT64 - 1, INFINITY),
    "exclusive_max": (-MAX_INT64 - 1, EXCLUSIVE_INFINITY),
}


def bounds_from_arguments(arguments: dict[str, Any], prefix: str = "") -> Parts:
    """Return bounds and labels from keyword arguments; None stands for a missing argument."""
    rank: int | None = None
    source = f"{prefix}rank"
    if arguments["rank"] is not None:
        rank = int_argument(arguments["rank"])
        if not 0 <= rank <= MAX_RANK:
            raise invalid(f"Invalid {source}: {rank}")
    vectors: dict[str, list[Any]] = {}
    uppers = [name for name in ("exclusive_max", "inclusive_max", "shape") if arguments[name] is not None]
    for name in _ORDER:
        if arguments[name] is None:
            continue
        shown = name if name.startswith("implicit") else f"{prefix}{name}"
        if len(uppers) > 1 and name == uppers[1]:
            raise invalid(f"Cannot specify both `{prefix}{uppers[0]}` and `{prefix}{uppers[1]}`")
        vectors[name] = _vector(arguments[name], name)
        length = len(vectors[name])
        if length > MAX_RANK:
            raise invalid(f"Rank specified by `{shown}` ({length}) exceeds maximum rank of {MAX_RANK}")
        if rank is not None and length != rank:
            raise invalid(
                f"Rank specified by `{shown}` ({length}) does not match rank specified by `{source}` ({rank})"
            )
        if rank is None:
            rank, source = length, shown
    if rank is None:
        raise invalid(f"Must specify `{prefix}rank`")
    check_labels(vectors.get("labels", ()))
    return _parts(rank, vectors)


def check_labels(labels: Iterable[str]) -> None:
    """Refuse labels that occur twice."""
    seen: set[str] = set()
    twice: list[str] = []
    for label in labels:
        if label and label in seen:
            twice.append(label)
        seen.add(label)
    if twice:
        shown = ", ".join(dump(label) for label in sorted(twice))
        raise invalid(f"Dimension label(s) {shown} not unique")


def _parts(rank: int, vectors: dict[str, list[Any]]) -> Parts:
    lower_given = "inclusive_min" in vectors or "shape" in vectors
    upper_given = any(name in vectors for name in _MAKE)
    intervals = _intervals(rank, vectors)
    return (
        tuple([interval[0] for interval in intervals]),
        tuple([interval[1] for interval in intervals]),
        tuple(vectors.get("implicit_lower_bounds", [not lower_given] * rank)),
        tuple(vectors.get("implicit_upper_bounds", [not upper_given] * rank)),
        tuple(vectors.get("labels", [""] * rank)),
    )


def _intervals(rank: int, vectors: dict[str, list[Any]]) -> list[Interval]:
    upper_name = next((name for name in _MAKE if name in vectors), "exclusive_max")
    lowers = vectors.get("inclusive_min", [0 if upper_name == "shape" else -INFINITY] * rank)
    uppers = vectors.get(upper_name, [EXCLUSIVE_INFINITY] * rank)
    make = _MAKE[upper_name]
    return [make(lower, upper) for lower, upper in zip(lowers, uppers, strict=True)]


def _vector(value: Any, name: str) -> list[Any]:
    try:
        elements = list(value)
    except TypeError:
        raise type_error(f"__init__(): incompatible constructor arguments: {name} must be a sequence") from None
    if name == "labels":
        if isinstance(value, str) or not all(element is None or isinstance(element, str) for element in elements):
            raise type_error("__init__(): incompatible constructor arguments: labels must be strings or None")
        return [element or "" for element in elements]
    return (
        [bool(element) for element in elements]
        if name.startswith("implicit")
        else [int_argument(element) for element in elements]
    )


def bounds_from_json(json: Any, prefix: str) -> Parts:
    """Read bounds and labels from JSON whose member names begin with a prefix."""
    members = obj(json)
    rank = take(members, f"{prefix}rank", lambda value: integer(value, 0, MAX_RANK))
    vectors: dict[str, list[Any]] = {}
    lower = _pairs(members, f"{prefix}inclusive_min", rank, "-inf")
    rank = len(lower) if lower is not None else rank
    names = [name for name in ("shape", "inclusive_max", "exclusive_max") if f"{prefix}{name}" in members]
    if len(names) > 1:
        shown = ", ".join(f'"{prefix}{name}"' for name in ("shape", "inclusive_max", "exclusive_max"))
        raise invalid(f"At most one of {shown} members is allowed")
    upper = _pairs(members, f"{prefix}{names[0]}", rank, "+inf") if names else None
    rank = len(upper) if upper is not None else rank
    vectors.update(_split(lower, "inclusive_min", "implicit_lower_bounds"))
    vectors.update(_split(upper, names[0] if names else "", "implicit_upper_bounds"))
    if names:
        vectors[names[0]] = [_unbounded(names[0], value, vectors, at) for at, value in enumerate(vectors[names[0]])]
    labels = take(members, f"{prefix}labels", lambda value: _labels(value, rank))
    rank = len(labels) if labels is not None else rank
    if labels is not None:
        vectors["labels"] = labels
    if rank is None:
        every = ("rank", "inclusive_min", "shape", "inclusive_max", "exclusive_max", "labels")
        shown = ", ".join(f'"{prefix}{name}"' for name in every)
        raise invalid(f"At least one of {shown} members must be specified")
    known_only(members)
    return _parts(rank, vectors)


def _unbounded(name: str, value: int | None, vectors: dict[str, list[Any]], at: int) -> int:
    if value is not None:
        return value
    if name != "shape":
        return EXCLUSIVE_INFINITY - (name == "inclusive_max")
    lower = vectors["inclusive_min"][at] if "inclusive_min" in vectors else 0
    return EXCLUSIVE_INFINITY - int(lower)


def _split(pairs: list[tuple[int | None, bool]] | None, name: str, flags: str) -> dict[str, list[Any]]:
    if pairs is None:
        return {}
    values = [-INFINITY if value is None and name == "inclusive_min" else value for value, _ in pairs]
    return {name: values, flags: [implicit for _, implicit in pairs]}


def _pairs(members: dict[str, Any], name: str, rank: int | None, infinite: str) -> list[tuple[int | None, bool]] | None:
    limits = next((bounds for ending, bounds in _LIMITS.items() if name.endswith(ending)), (-MAX_INT64 - 1, MAX_INT64))
    pairs: list[tuple[int | None, bool]] | None = take(
        members, name, lambda value: _elements(value, rank, lambda element: _pair(element, infinite, limits))
    )
    return pairs


def _pair(value: Any, infinite: str, limits: tuple[int, int]) -> tuple[int | None, bool]:
    implicit = isinstance(value, (list, tuple))
    if implicit:
        if len(value) != 1:
            raise expected("array of size 1 indicating an implicit value", value)
        value = value[0]
    if value == infinite:
        return None, implicit
    what = f'64-bit signed integer or "{infinite}"'
    try:
        return integer(int(value) if isinstance(value, str) else value, *limits, what), implicit
    except ValueError:
        raise expected(what, value) from None


def _labels(value: Any, rank: int | None) -> list[str]:
    labels = _elements(value, rank, string)
    check_labels(labels)
    return labels


def _elements(value: Any, rank: int | None, read: Callable[[Any], T]) -> list[T]:
    count = len(array(value, rank))
    if count > MAX_RANK:
        raise invalid(f"Rank {count} is outside valid range [0, {MAX_RANK}]")
    return array_of(value, read)


def bounds_to_json(parts: Parts, prefix: str) -> dict[str, Any]:
    """Convert bounds and labels to JSON; defaults are left out."""
    lower, upper, implicit_lower, implicit_upper, labels = parts
    document: dict[str, Any] = {}
    lower_json = _bounds_json(lower, implicit_lower, -INFINITY, "-inf")
    upper_json = _bounds_json(upper, implicit_upper, EXCLUSIVE_INFINITY, "+inf")
    named = any(labels)
    if lower_json is None and upper_json is None and not named:
        return {f"{prefix}rank": len(lower)}
    if upper_json is not None:
        document[f"{prefix}exclusive_max"] = upper_json
    if lower_json is not None:
        document[f"{prefix}inclusive_min"] = lower_json
    if named:
        document[f"{prefix}labels"] = list(labels)
    return document


def _bounds_json(bounds: Iterable[int], implicit: Iterable[bool], infinite: int, name: str) -> list[Any] | None:
    pairs = list(zip(bounds, implicit, strict=True))
    if all(pair == (infinite, True) for pair in pairs):
        return None
    values: list[Any] = []
    for bound, is_implicit in pairs:
        value: Any = name if bound == infinite else bound
        values.append([value] if is_implicit else value)
    return values
