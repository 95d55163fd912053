"""A store that interrupts its reader, for the tests of jobs that continue."""

from __future__ import annotations

from typing import Any

from tegula import MemoryStore


class Interrupting(MemoryStore):
    """Raises an exception when a number of chunks has been read."""

    left = 10**9
    error: type[BaseException] = KeyboardInterrupt
    reads = 0

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        if "c/" in key:
            if not self.left:
                raise self.error
            self.left -= 1
            self.reads += 1
        return super().get(key, byte_range, with_generation=with_generation)


def contents(store: Any) -> dict[str, Any]:
    """Return all values of a store by key."""
    return {key: store.get(key) for key in store.list()}
