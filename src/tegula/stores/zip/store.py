"""A store in one zip archive, which any reader can read between two commits.

Bytes that a valid central directory refers to are never overwritten. A commit appends the new members, a complete new
central directory and an end record after the old end. Or, as long as there are no committed members to keep, it writes
a new archive next to the old one and renames it. A writer that is killed during a commit leaves the last commit intact:
bytes after its end record are not read, and the next commit cuts them off. Opening never changes an archive.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from tegula.errors import ReadOnlyError, StoreError
from tegula.stores.arguments import ABSENT, ByteRange, BytesLike, Generation, check_key, check_prefix, flat_view
from tegula.stores.capabilities import Exclusive, UnreachableNames
from tegula.stores.interface import Store
from tegula.stores.names import absolute, file_url
from tegula.stores.zip.archive import Archive
from tegula.stores.zip.records import DEFLATED, STORED, UTF8_NAME, Member, pack
from tegula.stores.zip.session import Session, complete, join, leave

__all__ = ["ZipStore", "zip_store"]

_METHODS = {"stored": STORED, "deflated": DEFLATED}
_MAX_NAME = 0xFFFF
_next_number = itertools.count(1).__next__


class ZipStore(Exclusive, UnreachableNames, Store):
    """Values as the members of one zip archive.

    A value that is set can be read through the store at once, but is in the archive only after the next commit: by
    `flush`, by `close`, when several MB are pending, when the store is garbage-collected, or when the interpreter
    exits. A process that is killed loses the values that it has set since the last commit. The bytes of replaced and
    deleted values stay in the archive until `compact`. Other writers may leave several members of one name, of which
    the last is used; members whose names can't be keys are kept, and `unreachable` yields them.

    One store at a time may have an archive open for writing; stores that `tegula.open` and its relatives make for a
    path count as one within a process. After a fork the child can only read. A store that is pickled commits first, and
    is read-only once unpickled.

    Parameters
    ----------
    path : str or path-like
        The archive.
    mode : {"r", "a", "w", "x"}
        ``r`` reads; ``a`` reads and appends, creating the archive if there is none; ``w`` replaces the archive at the
        first commit; ``x`` creates an archive that must not exist yet.
    compression : {"stored", "deflated"}
        How new members are packed. Chunks are already compressed, and only stored members can be read in part.
    durability : {"write", "fsync"}
        Whether a completed commit has only been passed to the system, or is on the disk.

    Raises
    ------
    NotFoundError
        If there is no archive to read.
    AlreadyExistsError
        If a file already exists at `path` and `mode` is ``"x"``.
    StoreError
        If it is not a sound zip archive, can't be opened, or is open for writing elsewhere.

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

    in_archive = True
    _session: Session | None = None  # the class's value, for a store whose `__init__` failed

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
        self.path = absolute(path, os.path.realpath)
        self.mode = mode
        self.read_only = mode == "r"
        self.compression = compression
        self.durability = durability
        self._holder = object()
        try:
            self._session = Session(self.path, mode, self._holder, sync=durability == "fsync", shared=False)
        except BaseException:  # a signal may come after the session has been opened
            leave(self._holder)
            raise

    def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
        """Return the value of `key`, or a range of it, or ``None`` if there is none; see `Store.get`."""
        check_key(key)
        archive, members = self._contents()
        member = members.get(key)
        if member is None:
            return (None, ABSENT) if with_generation else None
        value = archive.read(member, byte_range)
        return (value, member.generation) if with_generation else value

    def set(self, key: str, value: BytesLike, *, if_generation: Generation | None = None) -> Generation:
        """Store `value` under `key`, to be in the archive after the next commit, and return its generation."""
        self._check_writable(check_key(key))
        if len(key.encode()) > _MAX_NAME:
            raise StoreError(f"names in a zip archive have at most {_MAX_NAME} bytes", key=f"{key[:80]}…")
        plain = bytes(flat_view(value, key))
        method = _METHODS[self.compression]
        data, crc = pack(plain, method), zlib.crc32(plain)
        flags = 0 if key.isascii() else UTF8_NAME
        generation = (crc, len(plain), -_next_number())
        member = Member(key, method, flags, crc, len(data), len(plain), 0, b"", generation, data)
        self._held().put(member, if_generation)
        return generation

    def delete(self, key: str, *, if_generation: Generation | None = None) -> None:
        """Remove `key` if it exists, from the archive's directory at the next commit; raises as `set` does."""
        self._check_writable(check_key(key))
        self._held().remove(key, if_generation)

    def flush(self) -> None:
        """Commit pending changes of all stores that share the archive with this one.

        Raises
        ------
        StoreError
            If the archive can't be written; it then holds the last commit, and the changes stay pending.
        """
        if self._session is not None:
            self._session.flush()

    def compact(self) -> None:
        """Commit, and remove the bytes of replaced and deleted values; the archive is replaced in one step.

        Raises
        ------
        ReadOnlyError
            If the store is read-only.
        StoreError
            If the archive can't be written; the old archive is unchanged.
        """
        self._check_writable(None)
        self._held().compact()

    def close(self) -> None:
        """Commit pending changes and release the archive; the store can't be used afterwards."""
        self.end(remove_empty=False)

    def end(self, *, remove_empty: bool) -> None:
        """Close the store; with `remove_empty`, delete an archive in which nothing was stored; see `Exclusive.end`."""
        session = self._session
        if session is not None:
            session.flush()  # before the store releases the session, so that closing can be retried if this fails
            session.release(self._holder, remove_empty=remove_empty)
            self._session = None

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in no particular order."""
        check_prefix(prefix)
        return iter(self._held().keys(prefix))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys and the prefixes (each ending in ``/``) directly below `prefix`, each sorted."""
        check_prefix(prefix)
        return self._held().children(prefix)

    def unreachable(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of members below `prefix` that can't be keys, such as ``../a`` and ``a//b``."""
        check_prefix(prefix)
        return (name for name in self._held().unreachable() if name.startswith(prefix))

    def size(self, key: str) -> int | None:
        """Return the length of a value in bytes, or ``None`` if there is none."""
        member = self._contents()[1].get(check_key(key))
        return None if member is None else member.size

    @property
    def url(self) -> str:
        """The ``file:`` URL of the archive."""
        return file_url(self.path)

    @property
    def scratch_directory(self) -> str:  # type: ignore[override]
        """The directory of the archive."""
        return os.path.dirname(self.path)

    @property
    def identity(self) -> object:
        """The open archive, which stores may share."""
        return self._session or self

    def _held(self) -> Session:
        session = self._session
        if session is None:
            raise StoreError(f"the zip archive {self.path} is closed; open it again")
        return session

    def _contents(self) -> tuple[Archive, dict[str, Member]]:
        session = self._session
        contents = None if session is None else session.contents
        if contents is None:
            raise StoreError(f"the zip archive {self.path} is closed; open it again")
        return contents

    def _check_writable(self, key: str | None) -> None:
        if self.read_only:
            raise ReadOnlyError(f"{self!r} is read-only", key=key)
        if os.getpid() != self._held().process:
            raise StoreError(f"{self!r} was opened for writing by the process that this one was forked from", key=key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ZipStore):
            return NotImplemented
        if self is other or (self.read_only and other.read_only and self.path == other.path):
            return True
        return self._session is not None and self._session is other._session

    def __hash__(self) -> int:
        return hash(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        self._contents()
        self.flush()
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, {self.mode!r})"

    def __del__(self) -> None:
        if self._session is not None:
            self._session.forget(self._holder)


def zip_store(path: str, *, read_only: bool) -> ZipStore:
    """Return a store for an archive that is given by its path.

    All stores of this process that write it share one session, and a store that reads it finds every value that they
    have set so far.

    Raises
    ------
    NotFoundError
        If there is no archive to read.
    StoreError
        If the archive can't be opened.
    """
    if read_only:
        complete(path)
        return ZipStore(path)
    store = object.__new__(ZipStore)
    store.path = absolute(path, os.path.realpath)
    store.mode, store.read_only = "a", False
    store.compression, store.durability = "stored", "write"
    store._holder = object()
    try:
        store._session = join(store.path, store._holder)
    except BaseException:  # as above
        leave(store._holder)
        raise
    return store
