"""A store that calls a function before and after each change, so that a reader can look between any two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula import MemoryStore


class Stepping(MemoryStore):
    """Calls `between` around each change, but not while that runs."""

    between: Callable[[], None] | None = None
    _is_called = False

    def _call(self) -> None:
        if self.between is not None and not self._is_called:
            self._is_called = True
            try:
                self.between()
            finally:
                self._is_called = False

    def set(self, key: str, value: Any, **options: Any) -> Any:
        self._call()
        generation = super().set(key, value, **options)
        self._call()
        return generation

    def delete(self, key: str, **options: Any) -> Any:
        self._call()
        deleted = super().delete(key, **options)
        self._call()
        return deleted
