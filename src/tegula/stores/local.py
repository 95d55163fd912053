"""A store of files below a directory (Zarr v3, "file system store").

Where the specification leaves a choice, the store decides as follows; there is a test of each decision:

- A value is replaced in one step: it is written to a hidden temporary file beside its final place, which is then
  renamed. Readers take no lock and see the old value or the new one, even if a writer is killed.
- Writers of one directory exclude each other by locking the directory, only while they compare the generation and
  rename. The lock ends with its holder. Where directories can't be locked, writers lock a hidden file.
- Only a file that does not exist is a missing value. A dangling or circular link, a file in the place of a directory
  and a denied permission are errors. A directory in the place of a value is not a value; see `LocalStore.blocked_by`.
- A directory is never replaced or removed as if it were a value; directories that become empty are removed.

The kernel follows the same steps; ``docs/design/local-files.md`` describes them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any

from tegula import config
from tegula.errors import ConflictError, NotFoundError, StoreError, TegulaError
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, clip_range, flat_view
from tegula.stores.capabilities import BlockedKeys, Copying, Locking
from tegula.stores.directories import Directory
from tegula.stores.generations import generation_of
from tegula.stores.local_base import ATTEMPTS, kernel_in_use
from tegula.stores.local_prefixes import LocalPrefixes
from tegula.stores.open_files import Contents, GaveUp, Held, OpenFile, read_at
from tegula.stores.root import Root
from tegula.stores.sweeping import is_swept, sweep

__all__ = ["LocalStore"]

# O_NONBLOCK: otherwise opening a named pipe among the files would block until it has a writer
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_READ_HERE = _READ | getattr(os, "O_NOFOLLOW", 0)
_TOGETHER = 2**20  # bytes of each value that one call of the kernel reads for many keys
_TYPE, _REGULAR = 0o170000, 0o100000
# keys that pass every check, such as those of documents and most chunks; on Windows each file has to be checked
_PLAIN_NAME = r"[0-9_](?:[0-9A-Za-z_.]*[0-9A-Za-z])?|zarr\.json|\.z(?:array|attrs|group)"
_PLAIN_KEY = "(?!)" if sys.platform == "win32" else rf"(?:[0-9A-Za-z_][0-9A-Za-z_.-]*/)*(?:{_PLAIN_NAME})"
# documents at the root, which opening an array reads before any other key, so that it compiles no pattern
_AT_ROOT = frozenset(() if sys.platform == "win32" else ("zarr.json", ".zarray", ".zattrs", ".zgroup"))


def _is_plain(key: str) -> re.Match[str] | None:
    """Return whether a key is plain; the first call compiles the pattern, which then replaces this function."""
    global _is_plain
    _is_plain = re.compile(_PLAIN_KEY).fullmatch  # type: ignore[assignment]
    return _is_plain(key)


class LocalStore(Locking, BlockedKeys, Copying, LocalPrefixes):
    """Files below a directory, which the first write creates.

    Each operation is atomic between threads and processes, and between machines if the locks of the file system work
    between them. A symbolic link below the root is followed if it leads inside the root, and refused if it leads out;
    the result is remembered for each directory. Writing or deleting a key that is a link replaces or removes the link.

    On a file system that ignores case, a key that differs from a stored one only in case counts as missing, and can't
    be written. Names that begin with ``.tegula-`` are reserved for the store.

    Parameters
    ----------
    root : str or path-like
        The base directory, which may be a symbolic link or missing; a relative path starts at the current directory.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.
    durability : {"rename", "fsync"}
        Values stored with ``"rename"`` survive a crash of the process, with ``"fsync"`` also one of the machine: each
        value, its name and the names of new directories are on the disk when `set` returns.
    follow_symlinks : bool
        Whether links may lead out of the root.

    Raises
    ------
    StoreError
        If `root` exists and is not a directory, or can't be examined.

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.TemporaryDirectory()
    >>> store = LocalStore(root.name)
    >>> generation = store.set("c/0/1", b"abcdef")
    >>> store.get("c/0/1", (2, 3)), store.get("c/0/2"), [*store.list()]
    (b'cde', None, ['c/0/1'])
    >>> root.cleanup()
    """

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        directory, end = None, 0
        opened: list[int] = []  # see `open_files`; a `Held` would take as long as the rest
        try:
            # open the file; most keys are plain, and their directory is known from an earlier call
            try:
                if type(key) is str and (key in _AT_ROOT or _is_plain(key)):
                    end = key.rfind("/") + 1
                    directory = self._root.known.get(key[: end - 1] if end else "")
                path = self._root.path(key) if directory is None else directory + key[end:]
                if path is not None:
                    opened.extend(map(os.open, (path,), (_READ_HERE,)))
            except FileNotFoundError:
                pass
            except StoreError as error:
                error.within(key=key)
                raise
            except (OSError, ValueError) as error:
                self._open_unusual(key, error, opened)
            if not opened:
                return (None, ABSENT) if with_generation else None

            # read it, and the generation of what was read
            try:
                fd = opened[0]
                status = os.fstat(fd)
                plain = status.st_mode & _TYPE == _REGULAR and self._root.ignores_case is False
                if not plain and self._is_no_value(key, status):
                    return (None, ABSENT) if with_generation else None
                size = status.st_size
                start, stop = (0, size) if byte_range is None else clip_range(byte_range, size)
                value = os.read(fd, size) if stop - start == size else read_at(fd, start, stop)
                if len(value) != stop - start:
                    value = read_at(fd, start, stop)
                return (value, generation_of(status, fd)) if with_generation else value
            except StoreError as error:
                error.within(key=key)
                raise
            except (OSError, MemoryError, OverflowError) as error:
                raise self._failure("read", key, error) from error
        finally:
            if opened:
                os.closerange(opened[0], opened[0] + 1)

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get`; the first bytes of many values are read together by the kernel."""
        wanted = [*requests]
        start, most = (wanted[0][1] if wanted else None) or (-1, None)
        alike = start == 0 and most and most <= _TOGETHER and all(part == (0, most) for _, part in wanted)
        usual = type(self) is LocalStore and self._root.ignores_case is False
        kernel = kernel_in_use() if alike and usual and len(wanted) > 1 else None
        if kernel is None:
            return super().get_many(wanted)
        try:
            found = kernel.read_files(self._root.base, [key for key, _ in wanted], most, config.current().threads)
        except (TypeError, UnicodeError):  # a key that is no text
            return super().get_many(wanted)
        return [self.get(*request) if value is False else value for request, value in zip(wanted, found)]

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none; raises as `get` does."""
        with self._reporting("look at", key), suppress(FileNotFoundError):
            path = self._root.path(key)
            if path is not None:
                status = os.lstat(path)
                if stat.S_ISLNK(status.st_mode):
                    status = os.stat(self._root.resolve(path))
                return None if self._is_no_value(key, status) else status.st_size
        return None

    def exists(self, key: str) -> bool:
        """Return whether `key` has a value; raises as `get` does."""
        try:
            path = self._root.path(key)
            if path is None:
                return False
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return False
        except (StoreError, OSError, ValueError):
            return self.size(key) is not None
        if mode & _TYPE == _REGULAR and self._root.ignores_case is False:
            return True
        return self.size(key) is not None

    def blocked_by(self, key: str) -> str | None:
        """Describe a directory, or another spelling of `key`, in the place of `key`; ``None`` if there is neither."""
        self._root.check(key)
        try:
            if self.size(key) is not None:
                return None
            twin = self._root.twin(key) if self._root.ignores_case is not False else None
            if twin is not None:
                return f"{twin!r} differs from a stored name only in its spelling"
            return f"{self._root.base}{key} is a directory" if os.path.isdir(self._root.base + key) else None
        except StoreError as error:
            code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
            if code not in (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise  # it is not known whether anything stands there
            return error.message

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        self._check_writable(key)
        return self._put(key, flat_view(value, key), if_generation)

    def copies_from(self, source: object, *, create: bool = False) -> bool:
        """Return whether `source` is a store of local files, too, which reads and writes as this class does."""
        return (
            isinstance(source, LocalStore) and type(source).get is LocalStore.get and type(self).set is LocalStore.set
        )

    def copy_from(
        self, source: Any, key: str, new: str, *, create: bool = False, nbytes: int | None = None
    ) -> int | None:
        """Copy the file of a key, by the operating system if possible; see `Copying.copy_from`."""
        self._check_writable(new)
        opened: list[int] = []
        try:
            status = source._open_value(key, opened)
            if status is None:
                return None
            self._put(new, OpenFile(opened[0], status.st_size), ABSENT if create else None)
            return int(status.st_size)
        finally:
            if opened:
                os.closerange(opened[0], opened[0] + 1)

    def _open_value(self, key: str, opened: list[int]) -> os.stat_result | None:
        """Open the file of a key, note its descriptor, and return its status; ``None`` if the key has no value."""
        with self._reporting("read", key):
            try:
                path = self._root.path(key)
                if path is not None:
                    opened.extend(map(os.open, (path,), (_READ_HERE,)))
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as error:
                self._open_unusual(key, error, opened)
            status = os.fstat(opened[0]) if opened else None
            return None if status is None or self._is_no_value(key, status) else status

    def _put(self, key: str, value: Contents, if_generation: Generation | None) -> Generation:
        parent, _, name = key.rpartition("/")
        try:
            for _ in range(ATTEMPTS):
                if self._root.ignores_case is not False:
                    self._refuse_twin(key)
                path = self._root.directory(parent)
                if path is not None:
                    try:
                        return self._replace(path, name, value, if_generation)
                    except FileNotFoundError:
                        # Another process may remove the directory while it is still empty.
                        self._root.forget(parent)
                if if_generation not in (None, ABSENT):
                    raise ConflictError("the value has been deleted since it was read", key=key)
                self._make_directory(parent)
        except NotFoundError as error:  # no directory was made
            error.within(key=key)
            raise
        except TegulaError as error:
            self._prune(parent)
            error.within(key=key)
            raise
        except (OSError, ValueError) as error:
            self._prune(parent)
            raise self._failure("write", key, error) from error
        raise StoreError(f"can't write {self._root.base}{key}: its directory keeps vanishing", key=key)

    def _replace(self, path: str, name: str, value: Contents, if_generation: Generation | None) -> Generation:
        """Put a file in its place in a directory: by the kernel, which leaves what is unusual to Python."""
        if (kernel := kernel_in_use()) is not None and isinstance(value, memoryview) and is_swept(path):
            made: Generation | None = kernel.put_file(path, name, value, if_generation, self._sync)
            if made is not None:
                return made
        with Directory(path, sync=self._sync) as directory:
            if not is_swept(path):
                sweep(path, directory)
            return directory.replace(name, value, if_generation)

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it has a value, and directories that become empty; raises as `set` does."""
        self._check_writable(key)
        parent, _, name = key.rpartition("/")
        with self._reporting("delete", key):
            path = self._root.directory(parent)
            if path is not None and not (self._root.ignores_case is not False and self._root.twin(key)):
                with suppress(FileNotFoundError), Directory(path, sync=self._sync) as directory:
                    directory.remove(name, if_generation)
                    if_generation = None
                self._prune(parent)
        if if_generation not in (None, ABSENT):
            raise ConflictError("the value has been deleted since it was read", key=key)

    def lock(self, key: str) -> AbstractContextManager[bool]:
        """Lock the file of `key`, if it exists, while the context lasts; see `Locking.lock`.

        The lock ends with its holder, and belongs to the file: a writer that has waited for a file which was replaced
        waits for the new file.
        """
        self._root.check(key)
        return _FileLock(self._root, key)

    def _open_unusual(self, key: str, error: OSError | ValueError, opened: list[int]) -> None:
        """Open a key that could not be opened plainly: a link that leads to a file of the store."""
        path = self._root.base + key
        mode = 0
        with suppress(OSError, ValueError):
            mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            with self._reporting("read", key):
                opened.extend(map(os.open, (self._root.resolve(path),), (_READ,)))
        elif not (stat.S_ISDIR(mode) and isinstance(error, PermissionError)):  # Windows opens no directories
            raise self._failure("read", key, error) from error

    def _is_no_value(self, key: str, status: os.stat_result) -> bool:
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                return True
            raise StoreError(f"{self._root.base}{key} is not a regular file", key=key)
        return self._root.ignores_case is not False and self._root.is_twin(key, status)


class _FileLock(Held):
    """The lock of the file of a key, as a context manager; its value says whether the lock is held."""

    def __init__(self, root: Root, key: str) -> None:
        # the file is unlocked before it is closed: a child that is forked in between keeps a copy of the descriptor
        self._locks: list[int] = []
        super().__init__(before=map(self.unlock, self._locks))
        self._root = root
        self._key = key

    def __enter__(self) -> bool:  # type: ignore[override]
        try:
            return self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> bool:
        try:
            path = self._root.path(self._key)
            while path is not None:
                before = self.mark
                fd = self.open(path, _READ_HERE)
                self.lock(fd, path)
                if os.fstat(fd).st_ino == os.stat(path).st_ino:
                    self._locks.append(fd)
                    return True
                self.unlock(fd)
                self.release(before)
        except GaveUp:
            raise
        except OSError:
            pass  # there is no such file, or it can't be locked
        return False
