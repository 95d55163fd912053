"""Values of attributes and other members of JSON documents."""

from __future__ import annotations

from math import isnan
from typing import Any

__all__ = ["equal_json"]


def equal_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, at any depth; NaN equals NaN.

    Examples
    --------
    >>> equal_json({"a": [1, float("nan")]}, {"a": [1.0, float("nan")]}), equal_json([1], [True])
    (True, False)
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and isinstance(other, float) and isnan(one) and isnan(other):
        return True
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(equal_json, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_json(value, other[name]) for name, value in one.items())
    try:
        return bool(one == other)
    except (TypeError, ValueError):
        return False
