"""A store over a zip archive that other programs may also change: each change is committed at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

from tegula.errors import NotFoundError
from tegula.stores.arguments import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    check_generation,
    flat_view,
)
from tegula.stores.interface import Store
from tegula.stores.memory import MemoryStore
from tegula.stores.names import file_url
from tegula.stores.zip.store import ZipStore

__all__ = ["ZipKeys"]

_NOTHING = MemoryStore(read_only=True)
"""The contents of an archive that does not exist."""


class ZipKeys(Store):
    """A zip archive that is open only during each operation; a missing archive counts as empty.

    Each change is committed before the operation returns; with `sync`, it is on the disk then. Changing many keys at
    once with `change` appends only one new directory to the archive.
    """

    def __init__(self, path: str, *, compression: Literal["stored", "deflated"], sync: bool) -> None:
        self._path = path
        self._compression: Literal["stored", "deflated"] = compression
        self._sync = sync
        self._lock = threading.RLock()
        self._repeats: dict[str, int] = {}
        self._opened: tuple[tuple[int, ...], ZipStore] | None = None

    @property
    def url(self) -> str:
        """The archive as a URL."""
        return file_url(self._path)

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        with self._lock:
            archive = self._archive()
            if not with_generation:
                return archive.get(key, byte_range)
            value, generation = archive.get(key, byte_range, with_generation=True)
            return value, self._fresh(key, generation)

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        with self._lock:
            self.change({key: (bytes(flat_view(value, key)), if_generation)})
            generation: Generation = self.get(key, (0, 0), with_generation=True)[1]
            return generation

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists; raises as `set` does."""
        with self._lock:
            if if_generation is not None or self.size(key) is not None:
                self.change({key: (None, if_generation)})

    def change(self, changes: Mapping[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete several keys in one commit of the archive."""
        durability: Literal["fsync", "write"] = "fsync" if self._sync else "write"
        with self._lock:
            self._close()
            with ZipStore(self._path, "a", compression=self._compression, durability=durability) as archive:
                before = {key: archive.get(key, (0, 0), with_generation=True)[1] for key in changes}
                for key, (_, expected) in changes.items():
                    check_generation(key, self._fresh(key, before[key]), expected)
                for key, (value, _) in changes.items():
                    if value is None:
                        archive.delete(key)
                    else:
                        archive.set(key, value)
            self._count_repeats(before)

    def _count_repeats(self, before: Mapping[str, Generation]) -> None:
        """Count equal values that commits have put at the same offset, so that their generations differ."""
        archive = self._archive()
        for key, old in before.items():
            if old != ABSENT and archive.get(key, (0, 0), with_generation=True)[1] == old:
                self._repeats[key] = self._repeats.get(key, 0) + 1

    def _fresh(self, key: str, generation: Generation) -> Generation:
        """Return the generation of a member, which differs each time its value is stored."""
        repeats = self._repeats.get(key)
        return (*generation, repeats) if repeats and isinstance(generation, tuple) else generation

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        with self._lock:
            return iter([*self._archive().list_prefix(prefix)])

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        with self._lock:
            return self._archive().list_dir(prefix)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        with self._lock:
            return self._archive().size(key)

    def close(self) -> None:
        """Close the archive; it is opened again when it is needed."""
        with self._lock:
            self._close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ZipKeys, compression=self._compression, sync=self._sync), (self._path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r})"

    def _archive(self) -> Store:
        """Return the archive as it is now, open for reading."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._close()
            return _NOTHING
        state = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._opened is None or self._opened[0] != state:
            self._close()
            try:
                self._opened = (state, ZipStore(self._path, "r"))
            except NotFoundError:
                return _NOTHING
        return self._opened[1]

    def _close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def __del__(self) -> None:
        opened = self.__dict__.get("_opened")
        if opened is not None:
            opened[1].close()
