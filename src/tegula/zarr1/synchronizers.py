"""The synchronizers of zarr 1.x."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any

from tegula.errors import StoreError
from tegula.stores.open_files import Held

__all__ = ["ProcessSynchronizer", "ThreadSynchronizer"]


class ThreadSynchronizer:
    """Nothing to do: threads that write to one array lose nothing of each other, whether there is one of these or not.

    Its locks are there for programs that take them themselves.

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
        """Return the lock that belongs to the key of a chunk."""
        with self.mutex:
            lock: AbstractContextManager[Any] = self.chunk_locks.setdefault(ckey, threading.Lock())
        return lock

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadSynchronizer, ()


class ProcessSynchronizer:
    """Keeps the processes that write to one array apart.

    Through a `DirectoryStore` they never lose anything of each other, so that nothing has to be done. A mapping of
    another kind has no means of its own for that; a lock on a file keeps its writers apart, one whole write at a time.

    Parameters
    ----------
    path : str or path-like
        A directory that all processes share; it is made when it is needed.

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
        """Keep out all who use this path, in any process or thread, until the block ends or the process does.

        Raises
        ------
        StoreError
            If the file system can't make or lock a file there.
        """
        return _Lock(self.path, "array")

    @property
    def attrs_lock(self) -> AbstractContextManager[Any]:
        """A lock for programs that take it themselves; writing attributes does not."""
        return _Lock(self.path, "attrs")

    def chunk_lock(self, ckey: str) -> AbstractContextManager[Any]:
        """Return the lock that belongs to the key of a chunk, for programs that take it themselves."""
        return _Lock(self.path, ckey)


class _Lock(Held):
    """A file in a directory, locked."""

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
