"""Locks on single bytes, as on Windows: locking moves nothing in a file, and the stores work with them."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from tests.stores.counting import count_up
from tests.waiting import run_threads

import tegula
from tegula.errors import ConflictError, StoreError
from tegula.runtime import system as systems
from tegula.runtime.system import byte_locks
from tegula.stores import ABSENT, LocalStore, ZipStore
from tegula.stores.local import directories, open_files
from tegula.stores.local.open_files import Held
from tegula.stores.zip import archive as zip_archive
from tegula.testing import check_store
from tegula.zarr1 import ProcessSynchronizer

pytestmark = pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="the system can't lock bytes of open files")


class Msvcrt:
    """The part of ``msvcrt`` that locks: a byte at the position of the file, by Linux's locks of open files.

    Attributes
    ----------
    places : list of (int, int)
        For each call the position, and the size of the file.
    fault : int
        An error of `errno` with which each call fails; 0 for none.
    """

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []
        self.fault = 0

    def locking(self, fd: int, mode: int, count: int) -> None:
        at = os.lseek(fd, 0, os.SEEK_CUR)
        self.places.append((at, os.fstat(fd).st_size))
        if self.fault:
            raise OSError(self.fault, os.strerror(self.fault))
        free = mode == self.LK_UNLCK
        try:
            if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                # Linux locks no bytes exclusively for files opened for reading; no file is locked both ways
                fcntl.flock(fd, fcntl.LOCK_UN if free else fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                kind = fcntl.F_UNLCK if free else fcntl.F_WRLCK
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, at, count, 0))
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from error


@pytest.fixture
def msvcrt() -> Msvcrt:
    return Msvcrt()


@pytest.fixture(params=["Linux with such locks", "Windows"])
def system(
    request: pytest.FixtureRequest, msvcrt: Msvcrt, monkeypatch: pytest.MonkeyPatch, by_reference: None
) -> Iterator[Msvcrt]:
    """Use these locks for everything; on "Windows" do without all else that Windows lacks, too."""
    lock, unlock = byte_locks(msvcrt)
    monkeypatch.setattr(systems, "try_lock", lock)
    monkeypatch.setattr(systems, "release_lock", unlock)
    if request.param == "Windows":
        for name in ("HAS_DIRECTORY_FDS", "TIMES_BY_FD", "LOCKS_VALUES"):
            monkeypatch.setattr(systems, name, False)
        for name in ("pread", "pwrite", "copy_range"):
            monkeypatch.setattr(systems, name, None)
    yield msvcrt
    assert msvcrt.places
    assert all(at == systems.FAR > size for at, size in msvcrt.places)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    found = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(found, bytes(range(100)))
    yield found
    os.close(found)


@pytest.mark.parametrize("position", [0, 7, 100, 5000])
def test_the_position_of_a_file_stays_where_it_is(msvcrt: Msvcrt, fd: int, position: int, tmp_path: Path) -> None:
    lock, unlock = byte_locks(msvcrt)
    os.lseek(fd, position, os.SEEK_SET)
    other = os.open(tmp_path / "file", os.O_RDWR)

    def stays(call: Callable[[], object]) -> object:
        found = call()
        assert os.lseek(fd, 0, os.SEEK_CUR) == position
        return found

    # it succeeds, fails because another has it, and is free again
    assert stays(lambda: lock(fd)) is True
    assert lock(other) is False
    stays(lambda: unlock(fd))
    assert lock(other) is True
    assert stays(lambda: lock(fd)) is False
    os.close(other)
    assert stays(lambda: lock(fd)) is True
    # the call itself fails
    for msvcrt.fault in (errno.EINVAL, errno.ENOSPC):
        with pytest.raises(OSError, match=os.strerror(msvcrt.fault)):
            stays(lambda: lock(fd))
        with pytest.raises(OSError, match=os.strerror(msvcrt.fault)):
            stays(lambda: unlock(fd))
        assert os.lseek(fd, 0, os.SEEK_CUR) == position
    for msvcrt.fault in (errno.EACCES, errno.EDEADLK):
        assert stays(lambda: lock(fd)) is False
    assert os.write(fd, b"x") == 1
    assert os.fstat(fd).st_size == max(100, position + 1)


def test_the_locked_byte_is_beyond_any_value_where_a_file_system_takes_it(fd: int) -> None:
    assert os.lseek(fd, systems.FAR, os.SEEK_SET) == systems.FAR > 2**40


@pytest.mark.parametrize("lock_first", [False, True])
def test_what_is_written_to_a_locked_file_is_its_contents(system: Msvcrt, tmp_path: Path, lock_first: bool) -> None:
    path = str(tmp_path / "file")
    with Held() as held:
        fd = held.open(path, os.O_RDWR | os.O_CREAT)
        if not lock_first:
            os.write(fd, b"abc")
        assert held.lock(fd, path)
        open_files.write_to(fd, memoryview(b"def"))
        held.unlock(fd)
        open_files.write_to(fd, memoryview(b"ghi"))
    assert Path(path).read_bytes() == (b"defghi" if lock_first else b"abcdefghi")


@pytest.mark.usefixtures("system")
def test_locks_and_reads_by_position_do_not_disturb_each_other(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "pread", None)
    found: list[tuple[int, bytes]] = []

    def read(start: int) -> None:
        found.extend((start, open_files.read_at(fd, start, start + 9)) for _ in range(300))

    def lock() -> None:
        for _ in range(300):
            systems.try_lock(fd)
            systems.release_lock(fd)

    run_threads([*(Thread(target=read, args=(start,)) for start in (3, 40, 80)), Thread(target=lock)])
    assert len(found) == 900
    assert all(part == bytes(range(start, start + 9)) for start, part in found)


@pytest.mark.slow
@pytest.mark.usefixtures("system")
def test_the_local_store_keeps_all_its_promises(tmp_path: Path) -> None:
    count = iter(range(10_000))
    check_store(lambda: LocalStore(tmp_path / str(next(count))))


@pytest.mark.usefixtures("system")
def test_values_conditions_locks_and_leftovers(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = store.set("a/b", b"one")
    assert (tmp_path / "a/b").read_bytes() == store.get("a/b") == b"one"
    second = store.set("a/b", b"two", if_generation=first)
    for stale in (first, ABSENT):
        with pytest.raises(ConflictError):
            store.set("a/b", b"three", if_generation=stale)
    assert store.get("a/b", with_generation=True) == (b"two", second)
    with store.lock("a/b") as held:
        assert held
        store.set("a/c", b"beside")

    # values larger than what one system call writes, and one copied from another file
    large = os.urandom(3 * 2**20 + 1)
    store.set("a/large", large)
    store.copy_from(store, "a/large", "copy")
    assert store.get("copy") == store.get("a/large") == large

    # a file that no writer holds is swept away
    leftover = tmp_path / "a/.tegula-1-0000000000000000.tmp"
    leftover.write_bytes(b"part of")
    os.utime(leftover, (0, 0))
    directories.SWEPT.clear()  # as in another process
    store.set("a/c", b"more")
    assert not leftover.exists()
    store.delete("a/b", if_generation=second)
    for key in ("a/c", "a/large", "copy"):
        store.delete(key)
    assert [*store.list()] == []


@pytest.mark.usefixtures("system")
def test_no_update_is_lost(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("n", b"0")
    run_threads(Thread(target=count_up, args=(store, "n", 20)) for _ in range(3))
    assert store.get("n") == b"60"


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1", "bcolz"])
@pytest.mark.usefixtures("system")
def test_arrays_of_every_format_and_archives(tmp_path: Path, format: str) -> None:
    for target in (tmp_path / "a", *([ZipStore(tmp_path / "a.zip", mode="w")] if format != "bcolz" else [])):
        array = tegula.create_array(target, data=range(100), chunks=7, dtype="i4", format=format)
        array[3:20] = -1
        array.append([1, 2, 3])
        assert tegula.open(target)[...].tolist() == [0, 1, 2, *[-1] * 17, *range(20, 100), 1, 2, 3]


@pytest.mark.usefixtures("system")
def test_an_archive_has_one_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zip")
    first = zip_archive.open_for_writing(path, exclusive=True)
    with pytest.raises(StoreError, match="another writer"):
        zip_archive.open_for_writing(path, exclusive=False)
    first.unlock()
    first.discard()
    zip_archive.open_for_writing(path, exclusive=False).discard()


@pytest.mark.usefixtures("system")
def test_synchronizers_exclude_each_other(tmp_path: Path) -> None:
    synchronizer, inside, most = ProcessSynchronizer(tmp_path / "locks"), [0], [0]

    def work() -> None:
        for _ in range(20):
            with synchronizer.lock():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    run_threads(Thread(target=work) for _ in range(3))
    assert most == [1]
