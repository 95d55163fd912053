"""The members of a zip archive as keys and values, for those who change a few of them now and then."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tegula.errors import NotFoundError
from tegula.stores import ABSENT, ByteRange, Generation, Store, ZipStore
from tegula.stores.interface import BytesLike, flat_view

__all__ = ["ZipKeys"]


class ZipKeys(Store):
    """A zip archive that is open only while something is done with it; one that is missing is empty.

    Each change is in the archive when it is done. Changing many keys at once with `change` takes a single new
    directory at the end of the archive.

    Parameters
    ----------
    path : str
        The archive.
    compression : {"stored", "deflated"}
        How new members are packed.
    sync : bool
        Whether changes are on the disk when they are done.
    """

    def __init__(self, path: str, *, compression: Literal["stored", "deflated"], sync: bool) -> None:
        self._path = path
        self._compression: Literal["stored", "deflated"] = compression
        self._sync = sync
        self._lock = threading.RLock()
        self._opened: tuple[tuple[int, ...], ZipStore] | None = None

    @property
    def url(self) -> str:
        """The path of the archive."""
        return self._path

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        with self._lock:
            archive = self._archive()
            if archive is None:
                return (None, ABSENT) if with_generation else None
            if with_generation:
                return archive.get(key, byte_range, with_generation=True)
            return archive.get(key, byte_range)

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
        """Set or delete several keys in one commit of the archive.

        Raises
        ------
        ConflictError
            If one has another generation than is given with it; then nothing is changed.
        """
        with self._lock:
            self._close()
            durability: Literal["fsync", "write"] = "fsync" if self._sync else "write"
            with ZipStore(self._path, "a", compression=self._compression, durability=durability) as archive:
                for key, (_, expected) in changes.items():
                    if expected is not None and archive.get(key, (0, 0), with_generation=True)[1] != expected:
                        archive.delete(key, if_generation=expected)  # which is refused
                for key, (value, _) in changes.items():
                    if value is None:
                        archive.delete(key)
                    else:
                        archive.set(key, value)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        with self._lock:
            archive = self._archive()
            return iter([] if archive is None else [*archive.list_prefix(prefix)])

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        with self._lock:
            archive = self._archive()
            return ([], []) if archive is None else archive.list_dir(prefix)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        with self._lock:
            archive = self._archive()
            return None if archive is None else archive.size(key)

    def close(self) -> None:
        """Close the archive; it is opened again when it is needed."""
        with self._lock:
            self._close()

    def _archive(self) -> ZipStore | None:
        """Return the archive as it is now, open for reading."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._close()
            return None
        state = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._opened is None or self._opened[0] != state:
            self._close()
            try:
                self._opened = (state, ZipStore(self._path, "r"))
            except NotFoundError:
                return None
        return self._opened[1]

    def _close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def __del__(self) -> None:
        opened = self.__dict__.get("_opened")
        if opened is not None:
            opened[1].close()
