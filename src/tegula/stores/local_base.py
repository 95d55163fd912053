"""The base directory of a local store: paths, errors, and making and removing directories."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self

from tegula import config, executors
from tegula.deferred import Later
from tegula.errors import NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.stores.capabilities import Anchoring
from tegula.stores.directories import Directory, make_directories, remove_directory
from tegula.stores.interface import Store
from tegula.stores.names import file_url, path_of_url
from tegula.stores.root import Root
from tegula.stores.sweeping import is_swept, note_swept, sweep

if TYPE_CHECKING:
    import threading
else:
    threading = Later("threading")

__all__ = ["ATTEMPTS", "LocalBase", "kernel_in_use"]

_modules = sys.modules

ATTEMPTS = 50
"""How often a write makes its directory again, if others keep removing it while it is empty."""


def kernel_in_use() -> Any | None:
    """Return the kernel if it is in use; only the main thread loads it, since other threads import nothing."""
    if config.current().executor == "reference":
        return None
    found = _modules.get("tegula._kernel")
    if found is None and threading.current_thread() is threading.main_thread():
        found = executors.kernel()
    return found if hasattr(found, "put_file") else None  # otherwise it is still being loaded


class LocalBase(Anchoring, Store):
    """The directory of a `tegula.stores.LocalStore`, without the values in it."""

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
        self._identity: str | None = None
        self._root = Root(root, follow_symlinks=follow_symlinks)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open the directory that a ``file:`` URL (RFC 8089) names, with the options of the class.

        Examples
        --------
        >>> from tegula.stores import LocalStore
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
        """True if the file system ignores case; ``None`` until the first name with letters has been looked up.

        Examples
        --------
        >>> from tegula.stores import LocalStore
        >>> LocalStore("/nowhere").ignores_case is None
        True
        """
        return self._root.ignores_case

    @property
    def url(self) -> str:
        """The ``file:`` URL of the base directory."""
        return file_url(self._root.name)

    @property
    def identity(self) -> object:
        """The real path of the base directory, so that stores that reach it by symbolic links share it."""
        if self._identity is None:
            self._identity = "file://" + os.path.realpath(self._root.name).replace(os.sep, "/")
        return self._identity

    def prepare(self, parent: str) -> bool:
        """Make the directory of keys that start with `parent` and a slash, and remove what dead writers left in it.

        The kernel calls this before it writes files to the directory itself, by the rules of this store.

        Returns
        -------
        bool
            Whether the kernel may write there; false if the directory keeps vanishing.

        Raises
        ------
        StoreError, ReadOnlyError
            If the directory can't be made, or lies outside the root.

        Examples
        --------
        >>> import tempfile
        >>> from tegula.stores import LocalStore
        >>> with tempfile.TemporaryDirectory() as root:
        ...     LocalStore(root).prepare("c/0"), os.listdir(root)
        (True, ['c'])
        """
        self._check_writable(f"{parent}/-" if parent else "-")
        with self._reporting("write", parent):
            for _ in range(ATTEMPTS):
                path = self._root.directory(parent)
                if path is not None and os.path.isdir(path):
                    if not is_swept(path):
                        with suppress(FileNotFoundError), Directory(path, sync=self._sync) as directory:
                            sweep(path, directory)
                    return True
                self._root.forget(parent)
                self._make_directory(parent)
        return False

    def anchored(self, document: str) -> Self:
        """Return this store for values that belong to a document: it makes no directories once the document is gone.

        Writing then raises `NotFoundError`; see `Anchoring.anchored` of `tegula.stores.capabilities`.
        """
        self._root.check(document)
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, _anchor=document)  # shares what is known about the directories
        return found

    def _listed(self, prefix: str) -> str | None:
        if prefix:
            self._root.check(prefix[:-1])
        try:
            return self._root.directory(prefix[:-1])
        except NotADirectoryError:
            return None

    def _make_directory(self, name: str) -> bool:
        """Make a directory below the root and the directories above it, as far as the store's anchor allows.

        Returns whether this call made it.
        """
        anchor = "" if self._anchor is None else self._root.base + self._anchor
        if self._anchor is not None and not self.exists(self._anchor):
            raise NotFoundError(
                f"{anchor} has been deleted or moved since it was opened, so nothing is written beside it"
            )
        # new directories need not be swept
        return make_directories(self._root.base + name, sync=self._sync, anchor=anchor, note=note_swept)

    def _check_writable(self, key: str) -> None:
        self._root.check(key)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    def _refuse_twin(self, key: str) -> None:
        twin = self._root.twin(key)
        if twin is not None:
            raise StoreError(f"{twin!r} differs from a stored name only in its spelling", key=key)

    def _prune(self, parent: str) -> None:
        """Remove a directory and the directories above it as long as they are empty."""
        with suppress(OSError):
            while parent:
                path = self._root.directory(parent)
                if path is not None and not remove_directory(path[:-1]):
                    if is_swept(path):
                        return
                    with Directory(path) as directory:
                        sweep(path, directory)
                    if not remove_directory(path[:-1]):
                        return
                self._root.forget(parent)
                parent = parent.rpartition("/")[0]

    @contextmanager
    def _reporting(self, action: str, key: str) -> Iterator[None]:
        """Turn the system's errors into `StoreError`, and add the key to every error."""
        try:
            yield
        except TegulaError as error:
            error.within(key=key)
            raise
        except (OSError, ValueError) as error:
            raise self._failure(action, key, error) from error

    def _failure(self, action: str, key: str, error: Exception) -> StoreError:
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        base, found = self._root.base, getattr(error, "filename", None)
        if (not key or key.endswith("/")) and isinstance(found, str) and found.startswith(base + key):
            key = found[len(base) :].replace(os.sep, "/")  # the directory or file below the prefix
        return StoreError(f"can't {action} {base}{key}: {cause}", key=key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalBase):
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


def _reopen(kind: type[LocalBase], root: str, options: dict[str, Any]) -> LocalBase:
    return kind(root, **options)
