"""A zip archive as an open file: reading members, and appending commits or writing them as a new archive."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tegula.errors import AlreadyExistsError, NotFoundError, StoreError, TegulaError
from tegula.runtime.system import READ, files, release_lock, replacing_open, same_file, sync_file
from tegula.stores.arguments import ByteRange
from tegula.stores.local.directories import Directory, make_directories, sync_directory
from tegula.stores.local.open_files import Held, acquire, read_at, write_at
from tegula.stores.names import HIDDEN, reason
from tegula.stores.zip.ome import is_single_file
from tegula.stores.zip.records import (
    Member,
    central_record,
    descriptor,
    end_records,
    local_header,
    member_start,
    moved_record,
    read_directory,
    read_member,
    warn_of,
)

__all__ = ["Archive", "open_archive", "open_for_writing"]

_BINARY = getattr(os, "O_BINARY", 0)
_BLOCK = 1 << 20


class Archive:
    """An open archive; the file is closed when nothing refers to this object any more.

    Attributes
    ----------
    path : str
        The path of the archive.
    comment : bytes
        Its comment, written with the next directory.
    directory_size : int
        Length of its central directory in bytes.
    odd : list of Member
        Members whose names can't be keys. They are kept when the archive is written.
    """

    def __init__(self, path: str, held: Held, fd: int) -> None:
        self._held = held
        self._fd = fd
        self._read = partial(read_at, fd)
        self.path = path
        self._shifted = False
        self.comment = b""
        self._wide = is_single_file(path)
        self._stop = os.fstat(fd).st_size
        self.directory_size = 0
        self.odd: list[Member] = []
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise StoreError(f"{path} is not a file")

    @property
    def in_place(self) -> bool:
        """False if the archive has been moved, deleted or replaced, so that it is no longer the file at the path."""
        try:
            return same_file(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failure("look at", error) from error

    def load(self) -> dict[str, Member]:
        """Read the central directory and return the members by name; of several members of one name, the last.

        Raises
        ------
        StoreError
            If the file is not a sound archive.
        """
        try:
            end, members, odd = read_directory(self._read, self._stop)
        except StoreError as error:
            error.message += f" ({self.path})"
            raise
        except OSError as error:
            raise self._failure("read", error) from error
        self._stop, self.comment = end.stop, end.comment
        self._shifted = end.shift != 0
        self.directory_size = end.directory_end - end.directory
        self.odd = odd
        warn_of(self.path, odd)
        return members

    def read(self, member: Member, byte_range: ByteRange | None) -> bytes:
        """Return the value of a member, or a range of it; see `read_member`."""
        data = member.data  # which a commit drops after it has set the start of the member
        try:
            return read_member(self._read, member, data, byte_range)
        except StoreError as error:
            error.message += f" ({self.path})"
            error.within(key=member.name)
            raise
        except (OSError, MemoryError, OverflowError) as error:
            raise self._failure("read", error, member.name) from error

    def append(self, members: Sequence[Member], *, sync: bool) -> None:
        """Append the members that are not written yet, and a central directory of all members.

        Raises
        ------
        StoreError
            If that fails; the archive is unchanged.
        """
        if self._shifted:
            raise StoreError(f"{self.path} has other data before the archive, so nothing can be appended; compact it")
        self._check_name()
        new = [member for member in members if member.data is not None]
        try:
            if os.fstat(self._fd).st_size > self._stop:
                os.ftruncate(self._fd, self._stop)  # left by a killed writer
            out = _Appender(self._fd, self._stop)
            starts = [_put(out, member) for member in new]
            directory = self._finish(out, [*members, *self.odd], sync=sync)
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._stop)
            if isinstance(error, OSError):
                raise self._failure("write", error) from error
            raise
        self._stop, self.directory_size = out.position, out.position - directory
        for member, start in zip(new, starts):
            member.start = start
            member.data = None

    def rewrite(self, members: Sequence[Member], replaced: list[Any], *, sync: bool) -> None:
        """Write a new archive of `members` only and put it in place of this one, which stays readable.

        Parameters
        ----------
        members : sequence of Member
            The members of the new archive.
        replaced : list
            Receives the new archive, locked as this one is, and its members by name, in the same step in which it is
            put in place, so that a signal can't come between.
        sync : bool
            Whether the archive must be on the disk on return.

        Raises
        ------
        StoreError
            If that fails; the archive is unchanged, unless there is something in `replaced`.
        """
        if not self.in_place:
            raise StoreError(f"the archive {self.path} was moved, deleted or replaced while it was open")
        folder = os.path.dirname(self.path)
        temporary = os.path.join(folder, f"{HIDDEN}{os.getpid()}-{os.urandom(8).hex()}.tmp")
        held = Held()
        try:
            # a locked temporary file beside the archive
            fd = held.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY)
            archive = Archive(self.path, held, fd)
            archive.comment = self.comment
            acquire(fd, temporary, wait=False)
            if hasattr(os, "fchmod"):
                os.fchmod(fd, stat.S_IMODE(os.fstat(self._fd).st_mode))

            # the members, and the directory after them
            out = _Appender(fd, 0)
            written = [self._copy(out, member) for member in members]
            archive.odd = [self._copy(out, member) for member in self.odd]
            directory = archive._finish(out, [*written, *archive.odd], sync=sync)
            archive._stop, archive.directory_size = out.position, out.position - directory

            # rename it and record that in one step
            state = archive, {member.name: member for member in written}
            replaced.extend(zip((state,), map(replacing_open(), (temporary,), (self.path,))))
        except BaseException as error:
            try:  # noqa: SIM105 - no signal comes between the exception and this call
                files.unlink(temporary)
            except OSError:
                pass
            if not replaced:
                held.close()
            if isinstance(error, OSError) and not isinstance(error, TegulaError):
                raise self._failure("write", error) from error
            raise
        for member in written:
            member.data = None
        if sync:
            try:
                sync_directory(folder)
            except OSError as error:
                raise self._failure("sync", error) from error

    def _check_name(self) -> None:
        """Refuse to write to a file without a name, which vanishes when it is closed."""
        try:
            links = os.fstat(self._fd).st_nlink
        except OSError as error:
            raise self._failure("write", error) from error
        if links == 0:
            raise StoreError(f"the archive {self.path} was deleted or replaced while it was open")

    def unlock(self) -> None:
        """Let another writer open the archive, even while a forked child has the file open."""
        with suppress(OSError):
            release_lock(self._fd)

    def discard(self) -> None:
        """Close an archive that nothing else refers to."""
        self._held.close()

    def _lock(self) -> None:
        # The lock is not part of `Held`, so that a forked child that closes its copy does not release it.
        if not acquire(self._fd, self.path, wait=False):
            raise StoreError(
                f"another writer has the archive {self.path} open; write through that store, or close it first"
            )

    def _copy(self, out: _Appender, member: Member) -> Member:
        """Append a member, written before or not, to `out`, and return its copy there."""
        copy = replace(member)
        if member.data is not None:
            copy.start = _put(out, copy)
            return copy
        start = member_start(self._read, member)
        copy.record = moved_record(member, out.position)
        copy.offset, copy.start = out.position, out.position + start - member.offset
        at, stop = member.offset, start + member.packed
        while at < stop:
            out.write(read_at(self._fd, at, min(stop, at + _BLOCK)))
            at += _BLOCK
        out.write(descriptor(member))
        return copy

    def _finish(self, out: _Appender, members: Sequence[Member], *, sync: bool) -> int:
        """Write the directory and the end, and return where the directory begins."""
        if sync:
            out.flush()
            sync_file(out.fd)  # the members must be on the disk before the directory that lists them
        directory = out.position
        for member in members:
            out.write(member.record)
        out.write(end_records(len(members), directory, out.position, self.comment, wide=self._wide))
        out.flush()
        if sync:
            sync_file(out.fd)
        return directory

    def _failure(self, action: str, error: BaseException, key: str | None = None) -> StoreError:
        return StoreError(f"can't {action} the archive {self.path}: {reason(error, self.path)}", key=key)


class _Appender:
    """A buffered writer that appends to a file from a given position."""

    def __init__(self, fd: int, position: int) -> None:
        self.fd = fd
        self.position = position
        self._buffer = bytearray()

    def write(self, data: bytes) -> None:
        if len(data) >= _BLOCK:
            self.flush()  # to the place before these bytes, so `position` must not count them yet
            write_at(self.fd, memoryview(data), self.position)
            self.position += len(data)
            return
        self.position += len(data)
        self._buffer += data
        if len(self._buffer) >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        write_at(self.fd, memoryview(bytes(self._buffer)), self.position - len(self._buffer))
        self._buffer.clear()


def _put(out: _Appender, member: Member) -> int:
    """Write a new member, record its position, and return where its packed bytes begin."""
    member.offset = out.position
    member.record = central_record(member)
    out.write(local_header(member))
    start = out.position
    out.write(member.data or b"")
    return start


def _open(path: str, flags: int) -> Archive:
    held = Held()
    try:
        return Archive(path, held, held.open(path, flags))
    except BaseException:
        held.close()
        raise


def open_archive(path: str) -> Archive:
    """Open an archive for reading.

    Raises
    ------
    NotFoundError
        If there is none.
    StoreError
        If it can't be opened.
    """
    try:
        return _open(path, READ)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no zip archive {path}") from error
    except StoreError:
        raise
    except (OSError, ValueError) as error:
        raise StoreError(f"can't open the archive {path!r}: {reason(error, path)}") from error


def open_for_writing(path: str, *, exclusive: bool, sync: bool = False) -> Archive:
    """Open an archive for reading and writing, as its only writer; make an empty one if there is none.

    With `sync` its name, and the names of directories made for it, are on the disk on return.

    Raises
    ------
    AlreadyExistsError
        If `exclusive` and something already exists there.
    StoreError
        If it can't be opened, or another writer has it open.
    """
    with suppress(OSError):
        make_directories(os.path.dirname(path), sync=sync)
    flags = os.O_RDWR | os.O_CREAT | _BINARY | (os.O_EXCL if exclusive else 0)
    try:
        while True:
            archive = _open(path, flags)
            try:
                archive._lock()
                # Its last writer may have replaced the archive after it was opened and before it was locked.
                if same_file(os.fstat(archive._fd), os.stat(path)):
                    _begin(archive, sync)
                    return archive
            except BaseException:
                archive.discard()
                raise
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path} already exists") from error
    except StoreError:
        raise
    except (OSError, ValueError) as error:
        raise StoreError(f"can't open the archive {path!r} for writing: {reason(error, path)}") from error


def _begin(archive: Archive, sync: bool) -> None:
    """Turn a new file into an empty archive, and remove the temporary files of dead writers beside it."""
    folder = os.path.dirname(archive.path)
    if archive._stop == 0:
        archive._stop = len(end_records(0, 0, 0, b""))
        write_at(archive._fd, memoryview(end_records(0, 0, 0, b"")), 0)
        if sync:
            sync_file(archive._fd)
            sync_directory(folder)
    with suppress(OSError), Directory(folder) as directory:
        directory.reclaim()
