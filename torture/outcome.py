"""The outcome of a test with a library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """One cell of the table.

    Examples
    --------
    >>> Outcome("updates", "nothing is lost", "tegula", "0 lost").text
    '0 lost'
    """

    section: str
    promise: str
    library: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
