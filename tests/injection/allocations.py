"""The memory that an action takes."""

import tracemalloc
from collections.abc import Callable

__all__ = ["peak"]


def peak(action: Callable[[], object]) -> int:
    """Return the most bytes that Python and NumPy have allocated at once during an action."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
