"""The lock of the file of a key."""

from __future__ import annotations

import os

from tegula.stores.local.open_files import EMPTY, READ_HERE, GaveUp, Held
from tegula.stores.root import Root

__all__ = ["FileLock"]


class FileLock(Held):
    """The lock of the file of a key, as a context manager; its value says whether the lock is held."""

    def __init__(self, root: Root, key: str) -> None:
        # the file is unlocked before it is closed: a child that is forked in between keeps a copy of the descriptor
        self._locks: list[int] = []
        super().__init__(before=map(self.unlock, self._locks))
        self._root = root
        self._key = key

    def __enter__(self) -> bool:  # type: ignore[override]
        try:
            path = self._root.path(self._key)
            while path is not None:
                fd = self.open(path, READ_HERE)
                self.lock(fd, path)
                if os.fstat(fd).st_ino == os.stat(path).st_ino:
                    self._locks.append(fd)
                    return True
                self.unlock(fd)
                self.release(EMPTY)
        except GaveUp:
            self.close()
            raise
        except OSError:
            pass  # there is no such file, or it can't be locked
        except BaseException:
            self.close()
            raise
        return False
