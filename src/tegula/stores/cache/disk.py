"""A cache of values in files, for `tegula.stores.CachedStore`; several processes share it, and any may be killed.

Each entry is a file, written under a temporary name and renamed. It begins with a digest of its name and its content,
so that a file which is torn, damaged or in the wrong place counts as missing. Names are digests; neither keys nor URLs,
which may hold secrets, are written to disk. A directory that can't be written to, or a full disk, is not an error:
nothing is then cached.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from tegula.runtime.system import files

__all__ = ["DiskCache"]

_MAGIC: Final = b"tegula-1"
_HEADER: Final = len(_MAGIC) + 16
_ABANDONED: Final = 3600.0  # seconds after which the temporary file of a killed process is deleted
_USED: Final = 60.0  # seconds after which a use updates the time of a file again
_SLACK: Final = 16  # a process examines the whole directory each time it has added 1 / _SLACK of the limit
_FILE: Final = 512  # bytes that a file takes besides its content


class DiskCache:
    """Entries below a directory, which together take about a given number of bytes.

    Each process counts the bytes it adds and examines the directory from time to time, so each of several processes may
    exceed the limit by a sixteenth of it.

    Parameters
    ----------
    directory : str
        The directory; it is created, for this user only, when the first entry is added.
    max_bytes : int
        The most bytes that all files may take.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = DiskCache(directory, 10_000)
    ...     cache.put("a", b"123")
    ...     cache.get("a"), cache.get("b")
    (b'123', None)
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        self.directory, self.max_bytes = directory, max_bytes
        self._counting = threading.Lock()
        self._room = 0  # bytes that may be added before the directory is examined

    def get(self, name: str) -> bytes | None:
        """Return an entry, or ``None`` if there is none or it is damaged."""
        path, digest = self._path(name)
        try:
            with open(path, "rb", opener=files.open) as file:
                raw = file.read()
                last_used = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        content = raw[_HEADER:]
        if raw[:_HEADER] != _header(digest, content):
            self._unlink(path)
            return None
        if abs(time.time() - last_used) > _USED:
            with suppress(OSError):
                os.utime(path)
        return content

    def put(self, name: str, content: bytes) -> None:
        """Add an entry or replace an older one, if there is room for it."""
        size = len(content) + _HEADER + _FILE
        if size > self.max_bytes or not self._make_room(size):
            return
        path, digest = self._path(name)
        temporary = f"{os.path.dirname(path)}/tmp-{os.getpid()}-{threading.get_ident()}-{os.urandom(4).hex()}"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_header(digest, content))
                file.write(content)
            files.replace(temporary, path)
        except OSError:  # a full disk, or a directory that can't be written to
            self._unlink(temporary)
        except BaseException:  # Ctrl-C, too
            self._unlink(temporary)
            raise

    def remove(self, name: str) -> None:
        """Remove an entry if there is one and the directory allows it."""
        self._unlink(self._path(name)[0])

    def _path(self, name: str) -> tuple[str, bytes]:
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=20, person=b"tegula-name").digest()
        text = digest.hex()
        return f"{self.directory}/{text[:2]}/{text[2:]}", digest

    # --- room

    def _make_room(self, size: int) -> bool:
        with self._counting:
            if size > self._room:
                self._room = self._evict(size)
            if size > self._room:
                return False
            self._room -= size
            return True

    def _evict(self, size: int) -> int:
        """Delete the least recently used entries; return how many bytes may then be added."""
        files = sorted(self._files())
        total = sum(taken for _, taken, _ in files)
        share = max(size, self.max_bytes // _SLACK)
        for _, taken, path in files:
            if total + share <= self.max_bytes:
                break
            self._unlink(path)  # another process may have been faster
            total -= taken
        return share if total + share <= self.max_bytes else 0

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yield last use, size in bytes and path of each entry; delete temporary files of killed processes."""
        now = time.time()
        for folder in self._entries(self.directory):
            if len(folder.name) != 2:
                continue
            for entry in self._entries(folder.path):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.startswith("tmp-") and now - status.st_mtime > _ABANDONED:
                        self._unlink(entry.path)
                    else:
                        yield status.st_mtime, status.st_size + _FILE, entry.path

    @staticmethod
    def _entries(directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as found:
                return [*found]
        except OSError:
            return []

    @staticmethod
    def _unlink(path: str) -> None:
        with suppress(OSError):
            files.unlink(path)

    def __reduce__(self) -> tuple[type[DiskCache], tuple[str, int]]:
        return DiskCache, (self.directory, self.max_bytes)

    def after_fork(self) -> None:
        """In a forked child, free the lock that a thread of the parent may have held."""
        self._counting = threading.Lock()


def _header(name: bytes, content: bytes) -> bytes:
    return _MAGIC + blake2b(content, digest_size=16, key=name).digest()
