"""Stores whose values can only be read."""

from __future__ import annotations

from tegula.errors import ReadOnlyError
from tegula.stores.arguments import BytesLike, Generation, check_key, check_prefix
from tegula.stores.interface import Store

__all__ = ["ReadOnlyStore"]


class ReadOnlyStore(Store):
    """Base class of stores that can't be changed; `why_read_only` completes the error that says so."""

    read_only = True

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Raise `ReadOnlyError`."""
        raise self._refusal(check_key(key))

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Raise `ReadOnlyError`."""
        raise self._refusal(check_key(key))

    def delete_prefix(self, prefix: str) -> None:
        """Raise `ReadOnlyError`."""
        raise self._refusal(check_prefix(prefix))

    def _refusal(self, key: str) -> ReadOnlyError:
        return ReadOnlyError(f"{self!r} {self.why_read_only}", key=key)
