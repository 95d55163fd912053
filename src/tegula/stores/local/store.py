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
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from tegula import config
from tegula.errors import ConflictError, NotFoundError, ReadOnlyError, StoreError, TegulaError
from tegula.runtime.deferred import Later
from tegula.runtime.system import READ, READ_HERE, files
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, check_prefix, clip_range, flat_view
from tegula.stores.capabilities import (
    Anchoring,
    Beside,
    BlockedKeys,
    Copying,
    EmptyDirectories,
    Locking,
    Pinning,
    Reclaiming,
    Renaming,
    StateListing,
)
from tegula.stores.interface import Store
from tegula.stores.local import root as roots
from tegula.stores.local.generations import generation_of, state_of
from tegula.stores.local.root import AT_ROOT, Root
from tegula.stores.names import directories_above, file_url, path_of_url
from tegula.stores.operations import Writable

if TYPE_CHECKING:
    from tegula.stores.local import beside, directories, open_files, trees
    from tegula.stores.local import kernel as kernels
    from tegula.stores.local.open_files import Contents
else:
    beside, directories = Later("tegula.stores.local.beside"), Later("tegula.stores.local.directories")
    kernels, open_files = Later("tegula.stores.local.kernel"), Later("tegula.stores.local.open_files")
    trees = Later("tegula.stores.local.trees")

__all__ = ["LocalStore"]

_ATTEMPTS = 50  # how often a write makes its directory again, if others keep removing it while it is empty
_TOGETHER = 2**20  # bytes of each value that one call of the kernel reads for many keys
_LOOKED_UP = 128  # prefixes whose documents are looked up together
_TYPE, _REGULAR = 0o170000, 0o100000


class LocalStore(
    Locking, BlockedKeys, Copying, EmptyDirectories, Reclaiming, Renaming, Anchoring, Pinning, StateListing, Store
):
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

    is_remote = False  # a plain attribute takes no call

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

    def stores_above(self) -> Iterator[tuple[Store, str]]:
        """Yield stores for reading over each directory above the root; see `Store.stores_above`."""
        for above, path in directories_above(os.path.realpath(self._root.name).replace(os.sep, "/")):
            yield LocalStore(above, read_only=True), path

    @property
    def local_directory(self) -> str:  # type: ignore[override]
        """The absolute path of the base directory, as for every store of local files."""
        return self._root.name

    @property
    def scratch_directory(self) -> str:  # type: ignore[override]
        """The absolute path of the base directory."""
        return self._root.name

    @property
    def values_url(self) -> str:  # type: ignore[override]
        """The URL of the base directory, in which names are as they are."""
        return f"file:///{os.path.abspath(self._root.name).replace(os.sep, '/').lstrip('/')}".rstrip("/") + "/"

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

    @property
    def plain_files(self) -> LocalStore | None:
        """The store itself, unless its class may read or write otherwise."""
        return self if type(self) is LocalStore else None

    # --- values

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        directory, end = None, 0
        opened: list[int] = []  # see `open_files`; a `Held` would take as long as the rest
        try:
            # open the file; most keys are plain, and their directory is known from an earlier call
            try:
                if type(key) is str and (key in AT_ROOT or roots.is_plain(key)):
                    end = key.rfind("/") + 1
                    directory = self._root.known.get(key[: end - 1] if end else "")
                path = self._root.path(key) if directory is None else directory + key[end:]
                if path is not None:
                    opened.extend(map(files.open, (path,), (READ_HERE,)))
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
                if start == stop:
                    value = b""
                else:
                    value = os.read(fd, size) if stop - start == size else open_files.read_at(fd, start, stop)
                if len(value) != stop - start:
                    value = open_files.read_at(fd, start, stop)
                return (value, generation_of(status, fd)) if with_generation else value
            except StoreError as error:
                error.within(key=key)
                raise
            except (OSError, MemoryError, OverflowError) as error:
                raise self._root.failure("read", key, error) from error
        finally:
            if opened:
                os.closerange(opened[0], opened[0] + 1)

    def get_many(self, requests: Iterable[tuple[str, ByteRange | None]]) -> list[bytes | None]:
        """Return the answers of `get`; the first bytes of many values are read together by the kernel."""
        wanted = [*requests]
        start, most = (wanted[0][1] if wanted else None) or (-1, None)
        alike = start == 0 and most and most <= _TOGETHER and all(part == (0, most) for _, part in wanted)
        if not alike or not most or len(wanted) < 2:
            return super().get_many(wanted)
        kernels.kernel_in_use()  # loads it
        values = self.read_together([key for key, _ in wanted], most, config.current().threads)
        return [self.get(*request) if value is False else value for request, value in zip(wanted, values)]

    def read_together(self, keys: list[str], most: int, threads: int = 1) -> list[Any]:
        """Return the first bytes of many values, which the kernel reads in one call; one after the other by one thread.

        ``None`` stands for no value, and ``False`` for one that `get` has to read: all of them, if the kernel is not
        loaded.
        """
        usual = type(self) is LocalStore and type(self._root) is Root and self._root.ignores_case is False
        kernel = kernels.kernel_in_use(loads=False) if usual else None
        if kernel is not None:
            try:
                values: list[Any] = kernel.read_files(self._root.base, keys, most, threads)
                return values
            except (TypeError, UnicodeError):
                pass  # a key that is no text
        return [False] * len(keys)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none; raises as `get` does."""
        with self._root.reporting("look at", key), suppress(FileNotFoundError):
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
            directory, end = None, 0
            if type(key) is str and roots.is_plain(key):  # as in `get`
                end = key.rfind("/") + 1
                directory = self._root.known.get(key[: end - 1] if end else "")
            path = self._root.path(key) if directory is None else directory + key[end:]
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
            with self._root.reporting("look at", key):
                twin = self._root.twin(key) if self._root.ignores_case is not False else None
            if twin is not None:
                return f"{twin!r} differs from a stored name only in its spelling"
            return f"{self._root.base}{key} is a directory" if os.path.isdir(self._root.base + key) else None
        except StoreError as error:
            code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
            if code not in (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise  # it is not known whether anything stands there
            return error.message

    def blockers(self, prefix: str) -> Iterator[str]:
        """Yield directories that hold no key, and what is neither file, directory nor link; see `BlockedKeys`."""
        check_prefix(prefix)
        return trees.blockers(self._root, prefix)

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, replacing the old value in one step, and return its generation."""
        if self.read_only or not (type(key) is str and roots.is_plain(key)):
            self._check_writable(key)
        parent, _, name = key.rpartition("/")
        contents: Contents
        if isinstance(value, open_files.OpenFile):  # of `copy_from`
            contents, kernel = value, None
        else:
            contents = memoryview(value) if type(value) is bytes else flat_view(value, key)
            kernel = (kernels.loaded if kernels.is_allowed else None) or kernels.kernel_in_use()
        try:
            for _ in range(_ATTEMPTS):
                if self._root.ignores_case is not False:
                    self._root.refuse_twin(key)
                path = self._root.known.get(parent) or self._root.directory(parent)
                if path is not None:
                    try:
                        if kernel is not None and path in directories.SWEPT:
                            made: Generation | None = kernel.put_file(path, name, contents, if_generation, self._sync)
                            if made is not None:
                                return made
                        return self._replace(path, name, contents, if_generation)  # what is unusual
                    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
                        self._make_way(key, error)
                if if_generation not in (None, ABSENT):
                    raise ConflictError("the value has been deleted since it was read", key=key)
                self._make_directory(parent)
        except NotFoundError as error:  # no directory was made
            error.within(key=key)
            raise
        except TegulaError as error:
            directories.prune(self._root, parent)
            error.within(key=key)
            raise
        except (OSError, ValueError) as error:
            directories.prune(self._root, parent)
            raise self._root.failure("write", key, error) from error
        raise StoreError(f"can't write {self._root.base}{key}: its directory keeps vanishing", key=key)

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
            contents: Any = open_files.OpenFile(opened[0], status.st_size)
            LocalStore.set(self, new, contents, if_generation=ABSENT if create else None)
            return int(status.st_size)
        finally:
            if opened:
                os.closerange(opened[0], opened[0] + 1)

    def _open_value(self, key: str, opened: list[int]) -> os.stat_result | None:
        """Open the file of a key, note its descriptor, and return its status; ``None`` if the key has no value."""
        with self._root.reporting("read", key):
            try:
                path = self._root.path(key)
                if path is not None:
                    opened.extend(map(files.open, (path,), (READ_HERE,)))
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as error:
                self._open_unusual(key, error, opened)
            status = os.fstat(opened[0]) if opened else None
            return None if status is None or self._is_no_value(key, status) else status

    def _replace(self, path: str, name: str, value: Contents, if_generation: Generation | None) -> Generation:
        """Put a file in its place in a directory, from which leftovers of killed writers are removed first."""
        with directories.Directory(path, sync=self._sync) as directory:
            if open_files.real_path(path) not in directories.SWEPT:
                directories.sweep(path, directory)
            return directory.replace(name, value, if_generation)

    def _make_way(self, key: str, error: OSError) -> None:
        """Raise an error of writing a file again, unless what was in its way is gone."""
        if isinstance(error, FileNotFoundError):  # another process may remove the directory while it is still empty
            self._root.forget(key.rpartition("/")[0])
        elif not directories.vacate(self._root, key):  # which error a directory raises depends on the system
            raise error

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it has a value, and directories that become empty; raises as `set` does."""
        self._check_writable(key)
        parent, _, name = key.rpartition("/")
        with self._root.reporting("delete", key):
            path = self._root.directory(parent)
            if path is not None and not (self._root.ignores_case is not False and self._root.twin(key)):
                with suppress(FileNotFoundError), directories.Directory(path, sync=self._sync) as directory:
                    directory.remove(name, if_generation)
                    if_generation = None
                directories.prune(self._root, parent)
        if if_generation not in (None, ABSENT):
            raise ConflictError("the value has been deleted since it was read", key=key)

    def lock(self, key: str) -> AbstractContextManager[bool]:
        """Lock the file of `key`, if it exists, while the context lasts; see `Locking.lock`.

        The lock ends with its holder, and belongs to the file: a writer that has waited for a file which was replaced
        waits for the new file.
        """
        self._root.check(key)
        return open_files.FileLock(partial(self._root.path, key))

    def _open_unusual(self, key: str, error: OSError | ValueError, opened: list[int]) -> None:
        """Open a key that could not be opened plainly: a link that leads to a file of the store."""
        path = self._root.base + key
        mode = 0
        with suppress(OSError, ValueError):
            mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            with self._root.reporting("read", key):
                opened.extend(map(files.open, (self._root.resolve(path),), (READ,)))
        elif not (stat.S_ISDIR(mode) and isinstance(error, PermissionError)):  # Windows opens no directories
            raise self._root.failure("read", key, error) from error

    def _is_no_value(self, key: str, status: os.stat_result) -> bool:
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                return True
            raise StoreError(f"{self._root.base}{key} is not a regular file", key=key)
        return self._root.ignores_case is not False and self._root.is_twin(key, status)

    # --- prefixes, which are directories

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in the order of the file system, including dangling links."""
        check_prefix(prefix)
        return trees.keys(self._root, prefix)

    def list_states(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        """Yield every key that starts with `prefix`, the length and the state of its value; see `StateListing`."""
        check_prefix(prefix)
        return trees.states(self._root, prefix, self.get)

    def state_of(self, generation: Generation) -> int:
        """Return the state in listings of a value that has this generation; see `StateListing`."""
        return state_of(generation) if type(generation) is tuple else 0

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below `prefix`, sorted; see `Store.list_dir`.

        Directories that hold no key are left out; one that may not be read counts as a prefix.
        """
        check_prefix(prefix)
        with self._root.reporting("list", prefix):
            return trees.children(self._root, prefix)

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, the prefixes directly below `prefix` under which one of `names` has a value."""
        check_prefix(prefix)
        with self._root.reporting("list", prefix):
            children = trees.directories(self._root, prefix)
        for start in range(0, len(children), _LOOKED_UP):
            some = children[start : start + _LOOKED_UP]
            yield from kernels.with_one_of(names, some, self.exists, is_exact=self._root.ignores_case is False)

    def make_prefix(self, prefix: str) -> None:
        """Make the directory of a prefix; see `EmptyDirectories.make_prefix`."""
        top = check_prefix(prefix)[:-1]
        if top:
            self._check_writable(top)
            with self._root.reporting("make", prefix):
                self._make_directory(top)

    def has_prefix(self, prefix: str) -> bool:
        """Return whether a prefix has a directory, even an empty one; see `EmptyDirectories.has_prefix`."""
        with self._root.reporting("look at", check_prefix(prefix)):
            return self._root.listed(prefix) is not None

    def is_link(self, prefix: str) -> bool:
        """Return whether the directory of a prefix is a symbolic link; see `EmptyDirectories.is_link`."""
        return os.path.islink((self._root.base + check_prefix(prefix)).rstrip(os.sep))

    def delete_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix` and directories that become empty; links are not followed."""
        top = check_prefix(prefix)[:-1]
        if top:
            self._root.check(top)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=prefix)
        with self._root.reporting("delete", prefix), suppress(NotADirectoryError):  # a file has no keys below it
            if top and self._root.directory(top.rpartition("/")[0]) and os.path.islink(self._root.base + top):
                self.delete(top)
            else:
                trees.remove_tree(self._root, top, sync=self._sync)

    def move_prefix(self, prefix: str, target: Writable, new: str) -> bool:
        """Rename the directory of a prefix if both places are on one file system; see `Renaming.move_prefix`.

        A directory that is a symbolic link is not renamed, since relative links would then lead elsewhere.
        """
        top, new_top = check_prefix(prefix)[:-1], check_prefix(new)[:-1]
        if type(target) is not type(self):
            return False
        for store, name in ((self, top), (target, new_top)):
            store._check_writable(name or "-")
        with self._root.reporting("move", prefix):
            return beside.renamed(self, top, target, new_top)

    def beside(self, prefix: str) -> AbstractContextManager[Beside]:
        """Make a store in a hidden directory beside that of a prefix; see `Renaming.beside`."""
        top = check_prefix(prefix)[:-1]
        self._check_writable(top or "-")
        return self._making_beside(top, prefix)

    @contextmanager
    def _making_beside(self, top: str, prefix: str) -> Iterator[Beside]:
        with ExitStack() as stack:
            with self._root.reporting("replace", prefix):
                made = stack.enter_context(beside.LocalBeside(self, top))
            yield made

    def leftovers(self, prefix: str = "") -> Iterator[str]:
        """Yield the temporary files below a prefix whose writer has died, as paths relative to the root.

        They are not keys, and no listing shows them. The next process that writes to their directory removes them.

        Raises
        ------
        StoreError
            If `prefix` is not valid, or a directory can't be read.

        Examples
        --------
        >>> import tempfile
        >>> from tegula.stores import LocalStore
        >>> with tempfile.TemporaryDirectory() as root:
        ...     open(f"{root}/.tegula-1-0.tmp", "x").close()
        ...     store = LocalStore(root)
        ...     [*store.list()], [*store.leftovers()], store.reclaim(), [*store.leftovers()]
        ([], ['.tegula-1-0.tmp'], 1, [])
        """
        check_prefix(prefix)
        return trees.leftovers(self._root, prefix)

    def reclaim(self, prefix: str = "") -> int:
        """Remove the temporary files below a prefix whose writer has died, and return how many there were.

        Raises
        ------
        StoreError, ReadOnlyError
            If a directory can't be read, or the store is read-only.

        Examples
        --------
        >>> import tempfile
        >>> from tegula.stores import LocalStore
        >>> with tempfile.TemporaryDirectory() as root:
        ...     LocalStore(root).reclaim()
        0
        """
        check_prefix(prefix)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=prefix)
        with self._root.reporting("reclaim", prefix):
            return trees.reclaimed(self._root, prefix)

    # --- making, opening and removing directories

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
        with self._root.reporting("write", parent):
            for _ in range(_ATTEMPTS):
                path = self._root.directory(parent)
                if path is not None and os.path.isdir(path):
                    if open_files.real_path(path) not in directories.SWEPT:
                        with suppress(FileNotFoundError), directories.Directory(path, sync=self._sync) as directory:
                            directories.sweep(path, directory)
                    return True
                self._root.forget(parent)
                self._make_directory(parent)
        return False

    def anchored(self, document: str) -> Self:
        """Return this store for values that belong to a document: it makes no directories once the document is gone.

        Writing then raises `NotFoundError`; see `Anchoring.anchored` of `tegula.stores.capabilities`.
        """
        self._root.check(document)
        anchored = object.__new__(type(self))
        anchored.__dict__.update(self.__dict__, _anchor=document)  # shares what is known about the directories
        return anchored

    @contextmanager
    def pin(self, prefix: str) -> Iterator[Self]:
        """Open the directory of a prefix, and yield a view of this store in it; see `Pinning.pin`.

        On systems without ``/proc/self/fd``, or if the directory can't be opened, the view is this store itself.

        Raises
        ------
        FileNotFoundError
            If there is no such directory.
        """
        with open_files.Held() as held:
            root = self._root.pinned(prefix[:-1], held)
            view = self
            if root is not None:
                view = object.__new__(type(self))
                view.__dict__.update(self.__dict__, _root=root)
            yield view

    def _make_directory(self, name: str) -> bool:
        """Make a directory below the root and the directories above it, as far as the store's anchor allows.

        Returns whether this call made it.
        """
        anchor = "" if self._anchor is None else self._root.at(self._anchor)
        if self._anchor is not None and not self.exists(self._anchor):
            raise NotFoundError(
                f"{anchor} has been deleted or moved since it was opened, so nothing is written beside it"
            )
        # new directories need not be swept
        return directories.make_directories(
            self._root.at(name), sync=self._sync, anchor=anchor, note=directories.note_swept
        )

    def _check_writable(self, key: str) -> None:
        if not (type(key) is str and roots.is_plain(key)):
            self._root.check(key)
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)

    # --- equality and copies

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalStore):
            return NotImplemented
        return (self.root, self.read_only) == (other.root, other.read_only)

    def __hash__(self) -> int:
        return hash(self.root)

    def __reduce__(self) -> tuple[Any, ...]:
        options: dict[str, Any] = {"durability": self.durability, "follow_symlinks": self._root.follow_symlinks}
        return partial(type(self), read_only=self.read_only, **options), (self.root,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"
