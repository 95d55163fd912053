"""Stores that behave like remote ones: many requests at once, each of them counted."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from tegula.stores import MemoryStore
from tegula.stores.capabilities import Revalidating


class RemoteStore(MemoryStore):
    """Values in memory; `asked` counts the operations, by name."""

    concurrency = 8

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asked: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()
        self._counting = threading.Lock()
        self.quiet = False

    def count(self, operation: str, key: str) -> None:
        if not self.quiet:
            with self._counting:
                self.asked[operation] += 1
                self.keys[key] += 1

    def requests(self) -> int:
        """Return the number of requests since the last call."""
        number = sum(self.asked.values())
        self.asked.clear()
        self.keys.clear()
        return number

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        self.count("head" if byte_range == (0, 0) else "get", key)
        return super().get(key, byte_range, with_generation=with_generation)

    def size(self, key: str) -> int | None:
        self.count("size", key)
        return super().size(key)

    def list_prefix(self, prefix: str) -> Any:
        self.count("list", prefix)
        return super().list_prefix(prefix)

    def list_dir(self, prefix: str) -> Any:
        self.count("list", prefix)
        return super().list_dir(prefix)


class RevalidatingStore(Revalidating, RemoteStore):
    """A store that sends a value only if it has changed."""

    def get_if_changed(self, key: str, generation: Any) -> Any:
        self.count("conditional", key)
        found = MemoryStore.get(self, key, with_generation=True)
        return None if found[1] == generation else found
