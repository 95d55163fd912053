"""Python values as JSON, and JSON as the Python source that reprs show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.tensorstore.errors import ValueStatusError, type_error
from tegula.tensorstore.json_binding import float_text

__all__ = ["NumberRangeError", "pretty", "to_json_value"]

_WIDTH = 80


class NumberRangeError(ValueStatusError, OverflowError):
    """A number that the wanted type has no room for."""


def to_json_value(value: Any) -> Any:
    """Return a Python value as plain JSON: dict, list, str, int, float, bool or None.

    Examples
    --------
    >>> import numpy as np
    >>> to_json_value({"shape": (np.int64(3), None)})
    {'shape': [3, None]}
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise NumberRangeError("INVALID_ARGUMENT", "int too big to convert")
        return int(value)
    if hasattr(value, "to_json") and not isinstance(value, type):
        return to_json_value(value.to_json())
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): to_json_value(item) for name, item in value.items()}
    if isinstance(value, (np.generic, np.ndarray)):
        return to_json_value(value.tolist())
    if isinstance(value, Sequence):
        return [to_json_value(item) for item in value]
    raise type_error(f"Object '{type(value).__name__}' does not support conversion to JSON")


def pretty(value: Any, before: str = "", after: str = "") -> str:
    """Return JSON as Python source between two texts, in lines of at most 80 characters where that can be had.

    Examples
    --------
    >>> print(pretty({"rank": 2, "dtype": None}, "Schema(", ")"))
    Schema({'dtype': None, 'rank': 2})
    """
    return before + _pretty(value, _WIDTH, 0) + after


def _pretty(value: Any, room: int, indent: int) -> str:
    flat = _flat(value)
    if len(flat) <= room or not isinstance(value, (dict, list, tuple)) or not value:
        return flat
    margin = " " * (indent + 2)
    # a place is kept for the comma of each level
    width = _WIDTH - len(margin) - len(margin) // 2
    lines = []
    for name in sorted(value) if isinstance(value, dict) else range(len(value)):
        label = f"{_literal(name)}: " if isinstance(value, dict) else ""
        lines.append(f"{margin}{label}{_pretty(value[name], width - len(label), indent + 2)},\n")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{''.join(lines)}{' ' * indent}{closing}"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(name)}: {_flat(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, str):
        return _literal(value)
    if isinstance(value, float):
        return float_text(value)
    return repr(value)


def _literal(text: Any) -> str:
    inner = repr(str(text))[1:-1].replace("\\'", "'")
    return "'" + inner.replace("'", "\\'").replace('"', '\\"') + "'"
