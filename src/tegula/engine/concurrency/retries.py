"""Waiting between the attempts of an operation that has lost a race."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import random
else:
    random = Later("random")

__all__ = ["back_off"]


def back_off(attempt: int) -> None:
    """Wait before another attempt, for a random time of at most 50 ms that grows with each lost race."""
    if attempt:
        time.sleep(random.random() * min(0.05, 0.0001 * 2 ** min(attempt, 9)))
