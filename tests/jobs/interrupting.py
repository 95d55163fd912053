"""A store that interrupts its reader, for the tests of jobs that continue."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula
from tegula import MemoryStore

VALUES = np.arange(600, dtype="i4").reshape(20, 30)


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


def a_source(**options: Any) -> Interrupting:
    """Return a group of two arrays; the options are for the first."""
    store = Interrupting()
    group = tegula.create_group(store)
    group.create_array("a", data=VALUES, chunks=(5, 10), **options)
    group.create_array("b", data=VALUES[0], chunks=10)
    return store


def contents(store: Any) -> dict[str, Any]:
    """Return all values of a store by key."""
    return {key: store.get(key) for key in store.list()}
