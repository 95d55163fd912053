"""A store in one zip archive, which is a valid archive for any reader between any two commits.

Nothing that a valid central directory refers to is ever written over. A commit appends the new members, a whole new
central directory and an end record behind the old end; or, as long as there are no committed members to keep, it writes
a new archive beside the old one and renames it. A writer killed in the midst of it leaves the last commit: what follows
its end record is not read, and cut off by the next commit. Opening never changes an archive.
"""

from __future__ import annotations

import itertools
import os
import threading
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from tegula.errors import ConflictError, ReadOnlyError, StoreError
from tegula.stores.interface import (
    ABSENT,
    ByteRange,
    BytesLike,
    Generation,
    Store,
    check_key,
    check_prefix,
    flat_view,
    split_children,
)
from tegula.stores.names import file_url, path_text
from tegula.stores.zip_archive import Archive, open_archive, open_for_writing
from tegula.stores.zip_packing import pack
from tegula.stores.zip_records import DEFLATED, STORED, UTF8_NAME, Member

__all__ = ["ZipStore"]

_METHODS = {"stored": STORED, "deflated": DEFLATED}
_PENDING = 4 << 20
_MAX_NAME = 0xFFFF
_next_number = itertools.count(1).__next__


class ZipStore(Store):
    """Values as the members of one zip archive.

    What is set can be read through the store at once, but is in the archive only after the next commit: by `flush`, by
    `close`, or when several MB are pending. Use it in a ``with`` statement. What is replaced or deleted leaves dead
    bytes behind until `compact`. Of members of one name, which other writers may leave, the last counts.

    One store at a time may have an archive open for writing. After a fork the child can only read. A store that is
    pickled commits first, and is read-only where it is unpickled.

    Parameters
    ----------
    path : str or path-like
        The archive.
    mode : {"r", "a", "w", "x"}
        Read only; read and append, making an archive if there is none; replace what is there, at the first commit;
        make an archive that must not exist.
    compression : {"stored", "deflated"}
        How new members are packed. Chunks are compressed already, and only stored members are read in part.
    durability : {"write", "fsync"}
        Whether a commit is on the disk, or only handed to the system, when it is done.

    Raises
    ------
    NotFoundError
        If there is no archive to read.
    AlreadyExistsError
        If there is something already and mode is ``"x"``.
    StoreError
        If it is no sound zip archive, can't be opened, or is open for writing elsewhere.

    Examples
    --------
    >>> import os, tempfile, zipfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "a.zip")
    >>> with ZipStore(path, "w") as store:
    ...     generation = store.set("c/0", b"abcdef")
    >>> ZipStore(path).get("c/0", (2, 3)), zipfile.ZipFile(path).namelist()
    (b'cde', ['c/0'])
    >>> folder.cleanup()
    """

    _state: tuple[Archive, dict[str, Member]] | None = None  # also of a store that could not be made

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Literal["r", "a", "w", "x"] = "r",
        *,
        compression: Literal["stored", "deflated"] = "stored",
        durability: Literal["write", "fsync"] = "write",
    ) -> None:
        if mode not in ("r", "a", "w", "x"):
            raise StoreError(f"the mode of a ZipStore must be 'r', 'a', 'w' or 'x', not {mode!r}")
        if compression not in _METHODS:
            raise StoreError(f"compression must be 'stored' or 'deflated', not {compression!r}")
        if durability not in ("write", "fsync"):
            raise StoreError(f"durability must be 'write' or 'fsync', not {durability!r}")
        self.path = os.path.realpath(path_text(path))
        self.mode = mode
        self.read_only = mode == "r"
        self.compression = compression
        self.durability = durability
        self._sync = durability == "fsync"
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._changed = mode == "w"
        self._pending = 0
        if mode == "r":
            archive = open_archive(self.path)
        else:
            archive = open_for_writing(self.path, exclusive=mode == "x", sync=self._sync)
        # Both in one attribute, so that a reader never sees the members of one archive and the bytes of another.
        self._state = (archive, {} if mode == "w" else archive.load())

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        check_key(key)
        archive, members = self._open()
        member = members.get(key)
        if member is None:
            return (None, ABSENT) if with_generation else None
        value = archive.read(member, byte_range)
        return (value, member.generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, to be in the archive after the next commit, and return its generation."""
        self._check_writable(key)
        if len(key.encode()) > _MAX_NAME:
            raise StoreError(f"names in a zip archive have at most {_MAX_NAME} bytes", key=f"{key[:80]}…")
        plain = bytes(flat_view(value, key))
        method = _METHODS[self.compression]
        data, crc = pack(plain, method), zlib.crc32(plain)
        flags = 0 if key.isascii() else UTF8_NAME
        generation = (crc, len(plain), -_next_number())
        member = Member(key, method, flags, crc, len(data), len(plain), 0, b"", generation, data)
        with self._lock:
            archive, members = self._open()
            old = members.get(key)
            _check_generation(key, old, if_generation)
            members[key] = member
            self._changed = True
            self._pending += len(data)
            try:
                # Not more often than directories grow, or many members would cost as many directories.
                if self._pending > max(_PENDING, archive.directory_size):
                    self._commit()
            except StoreError as error:
                self._pending -= len(data)
                if old is None:
                    del members[key]
                else:
                    members[key] = old
                error.within(key=key)
                raise
        return generation

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists, from the archive's directory at the next commit; raises as `set` does."""
        self._check_writable(key)
        with self._lock:
            _, members = self._open()
            _check_generation(key, members.get(key), if_generation)
            if members.pop(key, None) is not None:
                self._changed = True

    def flush(self) -> None:
        """Commit what is pending.

        Raises
        ------
        StoreError
            If the archive can't be written; it holds the last commit then, and what is pending stays so.
        """
        if os.getpid() != self._process:
            return  # the lock may be held for ever, by a thread that was not forked
        with self._lock:
            if self._changed:
                self._commit()

    def compact(self) -> None:
        """Commit, and leave the dead bytes behind: the archive is written anew and replaced in one step.

        Raises
        ------
        ReadOnlyError
            If the store is read-only.
        StoreError
            If the archive can't be written; the old one is left.
        """
        self._check_owned(None)
        with self._lock:
            self._rewrite()

    def close(self) -> None:
        """Commit what is pending and release the archive; the store can't be used afterwards."""
        if self._state is None:
            return
        if os.getpid() != self._process:
            self._state = None
            return
        with self._lock:
            if self._changed:
                self._commit()
            if self._state is not None and not self.read_only:
                self._state[0].unlock()
            self._state = None

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        check_prefix(prefix)
        return (key for key in [*self._open()[1]] if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) that stand directly below `prefix`, each sorted."""
        return split_children(self.list_prefix(prefix), prefix)

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        member = self._open()[1].get(check_key(key))
        return None if member is None else member.size

    @property
    def url(self) -> str:
        """The ``file:`` URL of the archive."""
        return file_url(self.path)

    def _open(self) -> tuple[Archive, dict[str, Member]]:
        if self._state is None:
            raise StoreError(f"{self!r} is closed")
        return self._state

    def _check_writable(self, key: str) -> None:
        self._check_owned(check_key(key))

    def _check_owned(self, key: str | None) -> None:
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)
        if os.getpid() != self._process:
            raise StoreError(f"{self!r} was opened for writing by the process that this one was forked from", key=key)

    def _commit(self) -> None:
        archive, members = self._open()
        # Windows refuses to replace a file that is open.
        if os.name == "posix" and all(member.data is not None for member in members.values()):
            self._rewrite()
            return
        archive.append([*members.values()], sync=self._sync)
        self._changed = False
        self._pending = 0

    def _rewrite(self) -> None:
        archive, members = self._open()
        archive, written = archive.rewrite([*members.values()], sync=self._sync)
        self._state = archive, {member.name: member for member in written}
        self._changed = False
        self._pending = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZipStore):
            return NotImplemented
        return self is other or (self.read_only and other.read_only and self.path == other.path)

    def __hash__(self) -> int:
        return hash(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        self._open()
        self.flush()
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, {self.mode!r})"

    def __del__(self) -> None:
        try:
            self.close()
        except StoreError as error:
            members: dict[str, Member] = {}
            if self._state is not None:
                archive, members = self._state
                archive.unlock()  # whoever keeps the warning keeps this store, too
                self._state = None
            keys = [f"{key!r:.80}" for key, member in members.items() if member.data is not None]
            warnings.warn(
                f"{self!r} was not closed, and what changed since its last commit is lost, with "
                f"{len(keys)} new values ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''}): {error}",
                RuntimeWarning,  # a ResourceWarning is not shown unless asked for
                stacklevel=1,
            )


def _check_generation(key: str, member: Member | None, expected: Generation | None) -> None:
    if expected is not None and (ABSENT if member is None else member.generation) != expected:
        raise ConflictError("the value has changed since it was read", key=key)
