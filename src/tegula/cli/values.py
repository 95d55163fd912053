"""Values of words on the command line."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = ["parse_value"]


def parse_value(text: str) -> Any:
    """Parse text as JSON, and return it unchanged if it is not valid JSON.

    Examples
    --------
    >>> parse_value("[1, 2.5]"), parse_value("m/s"), parse_value("NaN")
    ([1, 2.5], 'm/s', 'NaN')
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not valid JSON")
