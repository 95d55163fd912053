"""A store of files below a directory (Zarr v3, "file system store").

What that text leaves open is decided here, and each decision is held by a test:

- A value is replaced in one step: it is written to a hidden temporary file beside its final place, which is then
  renamed. Readers take no lock and see the old value or the new one, also when a writer is killed.
- Writers of one directory exclude each other by locking the directory itself, only while they compare the generation
  and rename. The lock ends with its holder. Where directories can't be locked, a hidden lock file serves.
- Only a file that does not exist is a missing value. A dangling or circular link, a file in the place of a directory, a
  refused permission: all are errors. A directory in the place of a value is no value; see `LocalStore.obstruction`.
- A directory is never replaced or removed as if it were a value; directories that fall empty are removed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Literal

from tegula.errors import AlreadyExistsError, ConflictError, NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.stores.directories import Directory, make_directories, remove_directory, sync_directory
from tegula.stores.generations import generation_of
from tegula.stores.interface import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    Store,
    check_prefix,
    clip_range,
    flat_view,
)
from tegula.stores.names import file_url, path_of_url
from tegula.stores.open_files import GaveUp, Held, read_at
from tegula.stores.root import Root
from tegula.stores.trees import children, directories, holding_temporaries, remove_tree, walk

__all__ = ["LocalStore"]

# O_NONBLOCK keeps a pipe, that someone left among the files, from blocking us until it has a writer.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_READ_HERE = _READ | getattr(os, "O_NOFOLLOW", 0)
_TYPE, _REGULAR = 0o170000, 0o100000
# keys that no check finds fault with, as those of most chunks are; on Windows each file has to be looked at
_PLAIN_KEY = re.compile(
    "(?!)" if sys.platform == "win32" else r"(?:[0-9A-Za-z_][0-9A-Za-z_.-]*/)*[0-9_](?:[0-9A-Za-z_.]*[0-9A-Za-z])?"
).fullmatch
_ATTEMPTS = 50
_REMEMBERED = 65536
_swept: set[str] = set()


class LocalStore(Store):
    """Files below a directory, which is made by the first write.

    Each operation is atomic between threads, processes and, where the file system's locks are, machines. A symbolic
    link below the root is followed to where it leads inside the root, and refused where it leads out; what is checked
    once for a directory is remembered. Writing to or deleting a key that is a link replaces or removes the link.

    On a file system that ignores case, a key that differs from a stored one in case only counts as missing, and can't
    be written. Names which begin with ``.tegula-`` are the store's own.

    Parameters
    ----------
    root : str or path-like
        The base directory, which may be a symbolic link or missing; a relative one is taken from the current directory.
    read_only : bool
        Whether `set` and `delete` raise `ReadOnlyError`.
    durability : {"rename", "fsync"}
        ``"rename"`` survives the death of the process; ``"fsync"`` also that of the machine: each value, its name and
        the names of new directories are on the disk when `set` returns.
    follow_symlinks : bool
        Whether links may lead out of the root.

    Raises
    ------
    StoreError
        If `root` exists and is not a directory, or can't be looked at.

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

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        read_only: bool = False,
        durability: Literal["rename", "fsync"] = "rename",
        follow_symlinks: bool = False,
    ) -> None:
        if durability not in ("rename", "fsync"):
            raise StoreError(f"durability must be 'rename' or 'fsync', not {durability!r}")
        self.read_only = read_only
        self.durability = durability
        self._sync = durability == "fsync"
        self._anchor: str | None = None
        self._root = Root(root, follow_symlinks=follow_symlinks)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> LocalStore:
        """Open the directory that a ``file:`` URL (RFC 8089) names, with the options of the class.

        Examples
        --------
        >>> LocalStore.from_url("file:///my%20data").url
        'file:///my%20data'
        """
        return cls(path_of_url(url), **options)

    @staticmethod
    def path_of_url(url: str) -> str:
        """Return the path that a ``file:`` URL names, or raise `StoreError` if it names none on this machine."""
        return path_of_url(url)

    @property
    def root(self) -> str:
        """The absolute path of the base directory."""
        return self._root.name

    @property
    def ignores_case(self) -> bool | None:
        """Whether the file system ignores case; ``None`` until a name that tells is met.

        Examples
        --------
        >>> LocalStore("/nowhere").ignores_case is None
        True
        """
        return self._root.ignores_case

    def prepare(self, parent: str) -> bool:
        """Make the directory of keys that start with `parent` and a slash, and clear away what dead writers left in it.

        For those who then put files there by themselves, along the rules of this store. Returns whether they may.

        Raises
        ------
        StoreError, ReadOnlyError
            If the directory can't be made, or lies outside of the root.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     LocalStore(root).prepare("c/0"), os.listdir(root)
        (True, ['c'])
        """
        self._check_writable(f"{parent}/-" if parent else "-")
        with self._reporting("write", parent):
            for _ in range(_ATTEMPTS):
                path = self._root.directory(parent)
                if path is not None and os.path.isdir(path):
                    if path not in _swept:
                        with suppress(FileNotFoundError), Directory(path, sync=self._sync) as directory:
                            _sweep(path, directory)
                    return True
                self._root.forget(parent)
                self._make_directory(parent)
        return False

    @property
    def url(self) -> str:
        """The ``file:`` URL of the base directory."""
        return file_url(self._root.name)

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        directory, end = None, 0
        opened: list[int] = []  # see `open_files`; a `Held` would take as long as the rest
        try:
            try:
                if type(key) is str and _PLAIN_KEY(key):
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

    def obstruction(self, key: str) -> str | None:
        """Say that a directory stands in the place of `key`, or another spelling of it; ``None`` if neither does."""
        self._root.check(key)
        try:
            if self.size(key) is not None:
                return None
            twin = self._root.twin(key) if self._root.ignores_case is not False else None
            if twin is not None:
                return f"{twin!r} differs from a stored name in its spelling only"
            return f"{self._root.base}{key} is a directory" if os.path.isdir(self._root.base + key) else None
        except StoreError as error:
            code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
            if code not in (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise  # nothing stands there for all that is known
            return error.message

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        self._check_writable(key)
        view = flat_view(value, key)
        parent, _, name = key.rpartition("/")
        try:
            for _ in range(_ATTEMPTS):
                if self._root.ignores_case is not False:
                    self._refuse_twin(key)
                path = self._root.directory(parent)
                if path is not None:
                    try:
                        with Directory(path, sync=self._sync) as directory:
                            if path not in _swept:
                                _sweep(path, directory)
                            return directory.replace(name, view, if_generation)
                    except FileNotFoundError:
                        # Another process may remove the directory while it is still empty.
                        self._root.forget(parent)
                if self._make_directory(parent):  # in a new directory there is nothing to clear away
                    _note_swept(os.path.join(self._root.base + parent, ""))
        except NotFoundError as error:  # nothing has been made
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

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it has a value, and the directories that fall empty; raises as `set` does."""
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

    def make_prefix(self, prefix: str) -> None:
        """Make the directory of a prefix; see `Store.make_prefix`."""
        top = check_prefix(prefix)[:-1]
        if top:
            self._check_writable(top)
            with self._reporting("make", prefix):
                self._make_directory(top)

    def anchored(self, document: str) -> LocalStore:
        """Return this store for values that belong to a document: it makes no directories once that is gone.

        See `Store.anchored`; writing raises `NotFoundError` then.
        """
        self._root.check(document)
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, _anchor=document)  # shares what is known about the directories
        return found

    def has_prefix(self, prefix: str) -> bool:
        """Return whether there is a directory of that prefix, be it empty; see `Store.has_prefix`."""
        with self._reporting("look at", check_prefix(prefix)):
            return self._listed(prefix) is not None

    def turn(self, key: str) -> AbstractContextManager[bool]:
        """Lock the file of `key`, if there is one, as long as the turn lasts; see `Store.turn`.

        The lock ends with its holder, and goes with the file: who has waited for one that was replaced meanwhile waits
        for the new one.
        """
        self._root.check(key)
        return _Turn(self._root, key)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`, links as links, and the directories that fall empty."""
        top = check_prefix(prefix)[:-1]
        if top:
            self._root.check(top)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=prefix)
        with self._reporting("delete", prefix), suppress(NotADirectoryError):  # no key begins with that of a file
            if self._root.directory(top.rpartition("/")[0]) is None:
                return
            if top and os.path.islink(self._root.base + top):
                self.delete(top)
                return
            path = self._root.directory(top)
            if path is not None:
                remove_tree(path, sync=self._sync)
                self._root.forget("")
                self._prune(top)

    def move_prefix(self, prefix: str, target: Store, new: str) -> bool:
        """Rename the directory of a prefix, where both are on one file system; see `Store.move_prefix`.

        A directory that is a symbolic link is not moved in this way: relative links would lead elsewhere.
        """
        top, place = check_prefix(prefix)[:-1], check_prefix(new)[:-1]
        if not isinstance(target, LocalStore) or type(target) is not type(self):
            return False
        for store, name in ((self, top), (target, place)):
            store._check_writable(name or "-")
        with self._reporting("move", prefix):
            path = self._root.directory(top)
            if path is None or os.path.islink(path[:-1]):
                return False
            if target._root.ignores_case is not False and place:
                target._refuse_twin(place)
            there = (target._root.base + place).rstrip(os.sep)
            above = os.path.dirname(there)
            made = make_directories(above, sync=target._sync)
            with suppress(OSError):  # an empty directory does no harm
                os.rmdir(there)
            try:
                os.rename(path[:-1], there)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise AlreadyExistsError(f"there is something at {there} already") from error
                if made:
                    target._prune(place.rpartition("/")[0])
                if error.errno in (errno.EXDEV, errno.EBUSY):
                    return False
                raise
            finally:
                self._root.forget("")
                target._root.forget("")
            for store, name in ((target, above), (self, os.path.dirname(path[:-1]))):
                if store._sync:
                    sync_directory(name)
            self._prune(top.rpartition("/")[0])
        return True

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in the order of the file system; links that dangle are listed."""
        check_prefix(prefix)
        return self._walk(prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes that stand directly below `prefix`, sorted; see `Store.list_dir`.

        Directories that hold no key are left out.
        """
        check_prefix(prefix)
        with self._reporting("list", prefix):
            path = self._listed(prefix)
            return ([], []) if path is None else children(path, prefix, self._root.enters)

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, those prefixes directly below `prefix` under which one of `names` has a value."""
        check_prefix(prefix)
        with self._reporting("list", prefix):
            path = self._listed(prefix)
            if path is None:
                return
            found = {f"{prefix}{entry.name}/": entry for entry in directories(path, self._root.enters)}
        for child in sorted(found):
            entry = found[child]
            if any(self._has(entry, child, name) for name in names):
                yield child

    def leftovers(self, prefix: str = "") -> Iterator[str]:
        """Yield the temporary files below a prefix whose writer has died, as paths relative to the root.

        They are no keys, and no listing shows them. The next process that writes to their directory removes them.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or a directory can't be looked at.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     open(f"{root}/.tegula-1-0.tmp", "x").close()
        ...     store = LocalStore(root)
        ...     [*store.list()], [*store.leftovers()], store.reclaim(), [*store.leftovers()]
        ([], ['.tegula-1-0.tmp'], 1, [])
        """
        check_prefix(prefix)
        with self._reporting("list", prefix):
            top = self._listed(prefix)
            for path in holding_temporaries(top) if top is not None else ():
                inside = path[len(self._root.base) :].replace(os.sep, "/").rstrip("/")
                found: list[str] = []
                with suppress(FileNotFoundError, NotADirectoryError), Directory(path) as directory:
                    found += directory.leftovers()
                for name in found:
                    yield f"{inside}/{name}" if inside else name

    def reclaim(self, prefix: str = "") -> int:
        """Remove the temporary files below a prefix whose writer has died, and return how many there were.

        Raises
        ------
        StoreError, ReadOnlyError
            If a directory can't be looked at, or the store is read-only.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     LocalStore(root).reclaim()
        0
        """
        check_prefix(prefix)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=prefix)
        with self._reporting("reclaim", prefix):
            top = self._listed(prefix)
            count = 0
            for path in holding_temporaries(top) if top is not None else ():
                with suppress(FileNotFoundError, NotADirectoryError), Directory(path) as directory:
                    count += directory.reclaim()
            return count

    def _has(self, entry: os.DirEntry[str], child: str, name: str) -> bool:
        """Return whether a key directly below a listed prefix has a value; `exists` decides whatever is not plain."""
        try:
            mode = os.lstat(f"{entry.path}{os.sep}{name}").st_mode
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            mode = 0
        if mode & _TYPE == _REGULAR and self._root.ignores_case is False and not entry.is_symlink():
            return True
        return self.exists(child + name)

    def _walk(self, prefix: str) -> Iterator[str]:
        with self._reporting("list", prefix):
            path = self._listed(prefix)
            if path is not None:
                yield from walk(path, prefix, self._root.enters)

    def _listed(self, prefix: str) -> str | None:
        if prefix:
            self._root.check(prefix[:-1])
        try:
            return self._root.directory(prefix[:-1])
        except NotADirectoryError:
            return None

    def _open_unusual(self, key: str, error: OSError | ValueError, opened: list[int]) -> None:
        """Open what could not be opened plainly: a link that leads to a file of the store."""
        path = self._root.base + key
        mode = 0
        with suppress(OSError, ValueError):
            mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            with self._reporting("read", key):
                opened.extend(map(os.open, (self._root.resolve(path),), (_READ,)))
        elif not (stat.S_ISDIR(mode) and isinstance(error, PermissionError)):  # Windows opens none
            raise self._failure("read", key, error) from error

    def _is_no_value(self, key: str, status: os.stat_result) -> bool:
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                return True
            raise StoreError(f"{self._root.base}{key} is not a regular file", key=key)
        return self._root.ignores_case is not False and self._root.is_twin(key, status)

    def _make_directory(self, name: str) -> bool:
        """Make a directory below the root and those above it, as far as the store's anchor allows.

        Returns whether it was made, and not there before.
        """
        anchor = "" if self._anchor is None else self._root.base + self._anchor
        if self._anchor is not None and not self.exists(self._anchor):
            raise NotFoundError(
                f"{anchor} has been deleted or moved since it was opened, so nothing is written beside it"
            )
        return make_directories(self._root.base + name, sync=self._sync, anchor=anchor)

    def _check_writable(self, key: str) -> None:
        self._root.check(key)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    def _refuse_twin(self, key: str) -> None:
        twin = self._root.twin(key)
        if twin is not None:
            raise StoreError(f"{twin!r} differs from a stored name in its spelling only", key=key)

    def _prune(self, parent: str) -> None:
        """Remove a directory and those above it as long as they are empty."""
        with suppress(OSError):
            while parent:
                path = self._root.directory(parent)
                if path is not None and not remove_directory(path[:-1]):
                    if path in _swept:
                        return
                    with Directory(path) as directory:
                        _sweep(path, directory)
                    if not remove_directory(path[:-1]):
                        return
                self._root.forget(parent)
                parent = parent.rpartition("/")[0]

    @contextmanager
    def _reporting(self, action: str, key: str) -> Iterator[None]:
        """Make the system's errors `StoreError`s, and let every error name its key."""
        try:
            yield
        except TegulaError as error:
            error.within(key=key)
            raise
        except (OSError, ValueError) as error:
            raise self._failure(action, key, error) from error

    def _failure(self, action: str, key: str, error: Exception) -> StoreError:
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return StoreError(f"can't {action} {self._root.base}{key}: {cause}", key=key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalStore):
            return NotImplemented
        return (self.root, self.read_only) == (other.root, other.read_only)

    def __hash__(self) -> int:
        return hash(self.root)

    def __reduce__(self) -> tuple[Any, ...]:
        options = {
            "read_only": self.read_only,
            "durability": self.durability,
            "follow_symlinks": self._root.follow_symlinks,
        }
        return _reopen, (type(self), self.root, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"


class _Turn(Held):
    """The file of a key, locked, as a context manager; its value says whether the lock is held."""

    def __init__(self, root: Root, key: str) -> None:
        super().__init__()
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
                    return True
                self.release(before)
        except GaveUp:
            raise
        except OSError:
            pass  # there is no such file, or it can't be locked
        return False


def _reopen(kind: type[LocalStore], root: str, options: dict[str, Any]) -> LocalStore:
    return kind(root, **options)


def _sweep(path: str, directory: Directory) -> None:
    """Clear away what dead writers left in a directory: once in a process, since it takes listing it."""
    _note_swept(path)
    with suppress(OSError):
        directory.reclaim()


def _note_swept(path: str) -> None:
    if len(_swept) >= _REMEMBERED:
        _swept.clear()
    _swept.add(path)
