"""The synchronizers of zarr 1.x."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any

from tegula.errors import StoreError
from tegula.stores.local.open_files import Held

__all__ = ["ProcessSynchronizer", "ThreadSynchronizer"]


class ThreadSynchronizer:
    """A synchronizer for threads. Arrays do not need it: concurrent writes of threads are never lost.

    Its locks are for programs that acquire them themselves.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> synchronizer = zarr.ThreadSynchronizer()
    >>> z = zarr.zeros(10, chunks=5, synchronizer=synchronizer)
    >>> with synchronizer.chunk_lock("0"):
    ...     type(z).__name__
    'SynchronizedArray'
    """

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.attrs_lock = threading.Lock()
        self.chunk_locks: dict[str, Any] = {}

    def chunk_lock(self, ckey: str) -> AbstractContextManager[Any]:
        """Return the lock for the key of a chunk."""
        with self.mutex:
            lock: AbstractContextManager[Any] = self.chunk_locks.setdefault(ckey, threading.Lock())
        return lock

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadSynchronizer, ()


class ProcessSynchronizer:
    """A synchronizer for processes that write to one array.

    A `DirectoryStore` does not need it: concurrent writes are never lost. In other mappings a lock on a file lets one
    process write at a time.

    Parameters
    ----------
    path : str or path-like
        A directory for the files to lock, which all processes share. It is created when it is first needed.

    Examples
    --------
    >>> from tegula import zarr1 as zarr
    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> z = zarr.zeros(10, chunks=5, synchronizer=zarr.ProcessSynchronizer(root.name))
    >>> z[:] = 1
    >>> root.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def lock(self) -> AbstractContextManager[Any]:
        """Return a lock that excludes all threads and processes with this path, until the block or the process ends.

        Raises
        ------
        StoreError
            If the file system can't create or lock a file there.
        """
        return _Lock(self.path, "array")

    @property
    def attrs_lock(self) -> AbstractContextManager[Any]:
        """A lock for programs that acquire it themselves; writing attributes does not use it."""
        return _Lock(self.path, "attrs")

    def chunk_lock(self, ckey: str) -> AbstractContextManager[Any]:
        """Return the lock for the key of a chunk, for programs that acquire it themselves."""
        return _Lock(self.path, ckey)


class _Lock(Held):
    """A lock on a file in a directory."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self._path = path
        self._name = name

    def __enter__(self) -> _Lock:
        name = os.path.join(self._path, f"{self._name}.lock")
        try:
            os.makedirs(self._path, exist_ok=True)
            self.lock(self.open(name, os.O_RDWR | os.O_CREAT), name)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, StoreError):
                raise StoreError(f"can't lock {name}: {error.strerror}") from error
            raise
        return self
