"""Prefixes of a local store: listing, moving and deleting directories, and removing files of dead writers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING

from tegula import config
from tegula.deferred import Later
from tegula.errors import AlreadyExistsError, ReadOnlyError
from tegula.stores.arguments import check_prefix
from tegula.stores.capabilities import EmptyDirectories, Reclaiming, Renaming
from tegula.stores.directories import Directory, make_directories, sync_directory
from tegula.stores.local_base import LocalBase, kernel_in_use
from tegula.stores.operations import Writable

if TYPE_CHECKING:
    from tegula.stores import trees
else:
    trees = Later("tegula.stores.trees")

__all__ = ["LocalPrefixes"]

_TYPE, _REGULAR = 0o170000, 0o100000
_TOGETHER = 128  # prefixes whose documents are looked up together


class LocalPrefixes(EmptyDirectories, Reclaiming, Renaming, LocalBase):
    """Operations of a `tegula.stores.LocalStore` on prefixes, which are directories."""

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in the order of the file system, including dangling links."""
        check_prefix(prefix)
        return self._walk(prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes directly below `prefix`, sorted; see `Store.list_dir`.

        Directories that hold no key are left out; one that may not be read counts as a prefix.
        """
        check_prefix(prefix)
        with self._reporting("list", prefix):
            path = self._listed(prefix)
            return ([], []) if path is None else trees.children(path, prefix, self._root.enters)

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        """Yield, sorted, the prefixes directly below `prefix` under which one of `names` has a value."""
        check_prefix(prefix)
        with self._reporting("list", prefix):
            path = self._listed(prefix)
            if path is None:
                return
            found = [(f"{prefix}{entry.name}/", entry) for entry in trees.directories(path, prefix, self._root.enters)]
        found.sort(key=itemgetter(0))
        for start in range(0, len(found), _TOGETHER):
            yield from self._with_one_of(names, found[start : start + _TOGETHER])

    def make_prefix(self, prefix: str) -> None:
        """Make the directory of a prefix; see `EmptyDirectories.make_prefix`."""
        top = check_prefix(prefix)[:-1]
        if top:
            self._check_writable(top)
            with self._reporting("make", prefix):
                self._make_directory(top)

    def has_prefix(self, prefix: str) -> bool:
        """Return whether a prefix has a directory, even an empty one; see `EmptyDirectories.has_prefix`."""
        with self._reporting("look at", check_prefix(prefix)):
            return self._listed(prefix) is not None

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
        with self._reporting("delete", prefix), suppress(NotADirectoryError):  # a file has no keys below it
            if self._root.directory(top.rpartition("/")[0]) is None:
                return
            if top and os.path.islink(self._root.base + top):
                self.delete(top)
                return
            path = self._root.directory(top)
            if path is not None:
                trees.remove_tree(path, sync=self._sync)
                self._root.forget("")
                self._prune(top)

    def move_prefix(self, prefix: str, target: Writable, new: str) -> bool:
        """Rename the directory of a prefix if both places are on one file system; see `Renaming.move_prefix`.

        A directory that is a symbolic link is not renamed, since relative links would then lead elsewhere.
        """
        top, place = check_prefix(prefix)[:-1], check_prefix(new)[:-1]
        if not isinstance(target, LocalBase) or type(target) is not type(self):
            return False
        for store, name in ((self, top), (target, place)):
            store._check_writable(name or "-")
        with self._reporting("move", prefix):
            # the directory, and a free place for it
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

            # rename it; if that fails, remove the new directories again
            try:
                os.rename(path[:-1], there)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise AlreadyExistsError(f"something already exists at {there}") from error
                if made:
                    target._prune(place.rpartition("/")[0])
                if error.errno in (errno.EXDEV, errno.EBUSY):
                    return False
                raise
            finally:
                self._root.forget("")
                target._root.forget("")

            # sync to the disk, and remove directories that are now empty
            for store, name in ((target, above), (self, os.path.dirname(path[:-1]))):
                if store._sync:
                    sync_directory(name)
            self._prune(top.rpartition("/")[0])
        return True

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
        with self._reporting("list", prefix):
            top = self._listed(prefix)
            for path in trees.holding_temporaries(top) if top is not None else ():
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
        with self._reporting("reclaim", prefix):
            top = self._listed(prefix)
            count = 0
            for path in trees.holding_temporaries(top) if top is not None else ():
                with suppress(FileNotFoundError, NotADirectoryError), Directory(path) as directory:
                    count += directory.reclaim()
            return count

    def _with_one_of(self, names: Sequence[str], found: list[tuple[str, os.DirEntry[str]]]) -> Iterator[str]:
        """Yield the prefixes under which one of `names` has a value; the kernel looks up many plain files at once."""
        kernel = kernel_in_use() if len(found) > 1 and self._root.ignores_case is False else None
        directory, threads = os.path.dirname(found[0][1].path), config.current().threads
        there: set[str] = set()
        left = found
        for name in names:
            paths = [f"{entry.name}/{name}" for _, entry in left]
            answers = repeat(None) if kernel is None else kernel.find_files(directory, paths, threads)
            there |= {
                child
                for (child, entry), answer in zip(left, answers)
                if (self._has(entry, child, name) if answer is None or entry.is_symlink() else answer)
            }
            left = [place for place in left if place[0] not in there]
        yield from (child for child, _ in found if child in there)

    def _has(self, entry: os.DirEntry[str], child: str, name: str) -> bool:
        """Return whether a key below a listed prefix has a value; `exists` decides unless it is a plain file."""
        try:
            mode = os.lstat(f"{entry.path}{os.sep}{name}").st_mode
        except FileNotFoundError:
            return False
        except PermissionError:
            return True  # looking into it says why not
        except (OSError, ValueError):
            mode = 0
        if mode & _TYPE == _REGULAR and self._root.ignores_case is False and not entry.is_symlink():
            return True
        return self.exists(child + name)

    def _walk(self, prefix: str) -> Iterator[str]:
        with self._reporting("list", prefix):
            path = self._listed(prefix)
            if path is not None:
                yield from trees.walk(path, prefix, self._root.enters)
