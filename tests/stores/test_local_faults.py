"""The local store when things go wrong: killed writers, full disks, other processes."""

import errno
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.folders import files
from tests.stores.counting import COUNT_UP
from tests.waiting import join, until

import tegula
from tegula.errors import ReadOnlyError, StoreError
from tegula.runtime import system
from tegula.stores import LocalStore
from tegula.stores.local import directories
from tegula.stores.local.open_files import Held

resource = pytest.importorskip("resource")
pytestmark = [pytest.mark.once(executors="none"), pytest.mark.usefixtures("by_reference")]


def run(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


# --- errors of the system


def test_a_directory_that_may_not_be_read_hides_nothing_beside_it(tmp_path, monkeypatch):
    root = tegula.create_group(tmp_path)
    root.create_array("a", data=[1, 2])
    root.create_array("private/b", data=[3])
    private = str(tmp_path / "private")

    def refusing(name, real):
        def call(path, *args, **kwargs):
            if str(path).startswith(f"{private}/") or (name == "scandir" and str(path) == private):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *args, **kwargs)

        return call

    for name in ("open", "scandir", "stat", "lstat"):
        monkeypatch.setattr(os, name, refusing(name, getattr(os, name)))
    store = LocalStore(tmp_path)
    assert store.list_dir("") == (["zarr.json"], ["a/", "private/"])
    with pytest.raises(StoreError, match=r"can't list .*/private: Permission denied") as caught:
        [*store.list()]
    assert caught.value.key == "private"

    # the other members are there; this one is an error where it is used
    group = tegula.open(tmp_path)
    assert [*group] == ["a", "private"]
    assert "private (unreadable: can't read" in str(group.tree())
    with pytest.raises(StoreError, match="Permission denied"):
        [*group.members()]
    report = tegula.check(tmp_path)
    assert (report.arrays, report.chunks, report.ok) == (1, 1, False)
    assert "private/zarr.json: can't look at" in str(report)


FAULTS = [(call, 1) for call in ("open", "write", "utime", "fstat", "close", "replace", "fsync")]


@pytest.mark.parametrize(("call", "nth"), [*FAULTS, ("open", 2), ("fsync", 2)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_failed_write_leaves_the_old_value(tmp_path, monkeypatch, call, nth, number):
    store = LocalStore(tmp_path, durability="fsync")
    generation = store.set("a/b", b"old")
    real, calls = getattr(os, call), []

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) != nth:
            return real(*args, **kwargs)
        if call == "close":
            real(*args)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StoreError) as caught:
            store.set("a/b", b"new value")
    assert caught.value.key == "a/b"
    assert str(tmp_path) in caught.value.message
    assert os.strerror(number) in caught.value.message
    assert caught.value.__cause__.errno == number
    if (call, nth) == ("fsync", 2):  # of the directory: the value is in place, only its durability is in doubt
        assert store.get("a/b") == b"new value"
    else:
        assert store.get("a/b", with_generation=True) == (b"old", generation)
    assert files(tmp_path) == ["a", "a/b"]


@contextmanager
def limited(what, most):
    """Limit a resource of this process."""
    limits = resource.getrlimit(what)
    resource.setrlimit(what, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, limits)


def test_a_file_that_may_grow_no_further(tmp_path):
    store = LocalStore(tmp_path)
    store.set("a/b", b"old")
    with limited(resource.RLIMIT_FSIZE, 1000):
        for key in ["a/b", "new/key"]:
            with pytest.raises(StoreError, match="too large") as caught:
                store.set(key, bytes(5000))
            assert caught.value.key == key
    assert store.get("a/b") == b"old"
    assert files(tmp_path) == ["a", "a/b"]


def test_too_many_open_files_are_no_missing_values(tmp_path):
    store = LocalStore(tmp_path)
    store.set("a/b", b"old")
    with limited(resource.RLIMIT_NOFILE, 0):
        for operation in (lambda: store.get("a/b"), lambda: store.set("a/b", b"new"), lambda: [*store.list()]):
            with pytest.raises(StoreError, match="open files"):
                operation()
    assert store.get("a/b") == b"old"


@pytest.mark.parametrize("call", ["open", "lstat", "read"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOTDIR, errno.ESTALE])
def test_only_enoent_is_a_missing_value(tmp_path, monkeypatch, call, number):
    LocalStore(tmp_path).set("a/b/c", b"old")
    store = LocalStore(tmp_path)

    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError) as caught:
        store.get("a/b/c")
    assert caught.value.key == "a/b/c"
    assert str(tmp_path) in caught.value.message
    assert caught.value.__cause__.errno == number


def test_short_reads_and_writes_are_gone_on_with(tmp_path, monkeypatch):
    write, read, pread = os.write, os.read, os.pread
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:1000]))
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 700)))
    monkeypatch.setattr("tegula.runtime.system.pread", lambda fd, size, at: pread(fd, min(size, 300), at))
    store = LocalStore(tmp_path)
    value = random.Random(0).randbytes(10_000)
    store.set("a", value)
    assert (tmp_path / "a").read_bytes() == value
    assert store.get("a") == value
    assert store.get("a", (77, 5000)) == value[77:5077]
    monkeypatch.setattr("tegula.runtime.system.pread", lambda fd, size, at: b"")
    with pytest.raises(StoreError, match="shorter"):
        store.get("a")


def test_fsync_syncs_the_value_its_name_and_every_new_directory(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def note(fd):
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    if not os.path.exists("/proc/self/fd"):
        return
    monkeypatch.setattr(os, "fsync", note)
    store = LocalStore(tmp_path / "new" / "root", durability="fsync")
    store.set("a/b/c", b"1")
    folders = [tmp_path, *(tmp_path / name for name in ("new", "new/root", "new/root/a"))]
    assert synced[:4] == [str(folder) for folder in folders]
    assert Path(synced[4]).parent == Path(store.root, "a", "b")
    assert synced[5:] == [f"{store.root}/a/b"]
    synced.clear()
    LocalStore(tmp_path, durability="rename").set("x/y", b"1")
    assert synced == []


# --- killed writers

KILL_AT_EVERY_CALL = """
import fcntl, json, os, signal, sys
from tegula import config
from tegula.stores import LocalStore
by_reference = config.configure(executor="reference")
by_reference.__enter__()  # it is Python's calls that are counted
store = LocalStore(sys.argv[1], durability=sys.argv[2])
old, new = b"o" * 5000, b"n" * 3001
module_calls = [(os, name) for name in
    "open write utime fstat close replace mkdir fsync unlink rmdir stat lstat listdir urandom".split()]
module_calls.append((fcntl, "flock"))
step, seen = 0, []
while True:
    store.set("a/b", old)
    pid = os.fork()
    if pid == 0:
        count = 0
        def guard(real, name):
            def call(*args, **kwargs):
                global count
                if name == "write":
                    args = args[0], args[1][:1000]
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1
                return real(*args, **kwargs)
            return call
        for module, name in module_calls:
            setattr(module, name, guard(getattr(module, name), name))
        store.set("a/b", new)
        store.set("d/e/f", new)
        store.delete("a/b")
        store.delete_prefix("d/")
        os.kill(os.getpid(), signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    reader = LocalStore(sys.argv[1])
    values = {key: reader.get(key) for key in reader.list()}
    assert set(values) <= {"a/b", "d/e/f"}, values.keys()
    assert values.get("a/b") in (old, new, None) and values.get("d/e/f") in (new, None)
    seen.append([len(values.get("a/b") or b""), len(values.get("d/e/f") or b"")])
    if os.WTERMSIG(status) == signal.SIGTERM:
        break
    step += 1
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("durability", ["rename", "fsync"])
def test_writer_killed_at_any_system_call_leaves_the_old_or_new_value(tmp_path, durability):
    seen = json.loads(finish(run(KILL_AT_EVERY_CALL, tmp_path, durability)))
    assert len(seen) > 40
    states = [state for number, state in enumerate(seen) if number == 0 or state != seen[number - 1]]
    assert states == [[5000, 0], [3001, 0], [3001, 3001], [0, 3001], [0, 0]]
    store = LocalStore(tmp_path)
    for key in ["a/b", "d/e/f"]:
        store.set(key, b"1")
    store.delete_prefix("")
    assert files(tmp_path) == []


WRITE_FOR_EVER = """
import sys
from tegula.stores import LocalStore
store = LocalStore(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in b"abc":
        store.set("a/b", bytes([letter]) * 1_000_000)
"""


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_a_whole_value(tmp_path):
    store = LocalStore(tmp_path)
    for attempt in range(6):
        process = run(WRITE_FOR_EVER, tmp_path)
        process.stdout.readline()
        time.sleep(random.Random(attempt).random() * 0.05 + 0.005)
        process.kill()
        process.communicate(timeout=60)
        value = store.get("a/b")
        assert value is None or (len(value) == 1_000_000 and len(set(value)) == 1)
        assert [*store.list()] in ([], ["a/b"])
    directories_seen = finish(run(RECLAIM, tmp_path))
    assert directories_seen.strip() == "['a/b']"
    assert files(tmp_path) == ["a", "a/b"]


RECLAIM = """
import sys
from tegula.stores import LocalStore
store = LocalStore(sys.argv[1])
store.set("a/b", b"1")
print([*store.list()])
"""


# --- other processes

COUNT = f"{COUNT_UP}\nimport sys\ncount_up(LocalStore(sys.argv[1]), 'c/n', int(sys.argv[2]))"


@pytest.mark.slow
def test_processes_lose_no_update(tmp_path):
    for process in [run(COUNT, tmp_path, 300) for _ in range(4)]:
        finish(process)
    assert LocalStore(tmp_path).get("c/n") == b"1200"


COME_AND_GO = """
import sys
from tegula.stores import LocalStore
store = LocalStore(sys.argv[1])
for turn in range(200):
    key = "a/b/c/" + sys.argv[2]
    store.set(key, key.encode())
    assert store.get(key) == key.encode()
    if turn % 5 == 0:
        store.delete_prefix(f"a/b/c/{sys.argv[2]}/")
    store.delete(key)
    assert store.get(key) is None
"""


@pytest.mark.slow
def test_processes_do_not_pull_directories_from_under_each_other(tmp_path):
    for process in [run(COME_AND_GO, tmp_path, name) for name in "xyz"]:
        finish(process)
    assert files(tmp_path) == []


FORK = """
import os, sys, time
from tegula.stores import LocalStore
from tegula.stores.local import directories
from tegula.stores.local import directories
store = LocalStore(sys.argv[1])
store.set("a/b", b"1")
child = os.fork()
if child == 0:
    assert store.get("a/b") == b"1"
    store.set("a/b", b"2")
    store.set("child", b"3")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert store.get("a/b") == b"2"
assert store.get("child") == b"3"
# A child that was forked while a lock was held, and has it open still, must not keep it.
with directories.Directory(sys.argv[1]) as directory:
    directory._lock(required=True)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
started = time.monotonic()
store.set("free", b"1")
assert time.monotonic() - started < 30
os.kill(child, 9)
"""


@pytest.mark.slow
def test_a_store_works_on_both_sides_of_a_fork(tmp_path):
    finish(run(FORK, tmp_path))


def test_pickling_takes_the_options_along(tmp_path):
    store = LocalStore(tmp_path / "x", read_only=True, durability="fsync", follow_symlinks=True)
    copy = pickle.loads(pickle.dumps(store))
    assert copy.root == store.root
    assert (copy.read_only, copy.durability) == (True, "fsync")
    assert repr(copy.__reduce__()) == repr(store.__reduce__())
    assert not (tmp_path / "x").exists()


def test_partial_set_reads_merges_and_sets_if_unchanged(tmp_path):
    store = LocalStore(tmp_path)
    store.set("a", b"0123456789")
    for start, part in [(3, b"xyz"), (8, b"longer")]:
        value, generation = store.get("a", with_generation=True)
        store.set("a", value[:start] + part + value[start + len(part) :], if_generation=generation)
    assert store.get("a") == b"012xyz67longer"


def test_reclaim_removes_files_of_dead_writers_but_not_of_live_ones(tmp_path):
    store = LocalStore(tmp_path)
    for key in ["a/b/c", "a/d", "e"]:
        store.set(key, b"value")
    dead = ["a/.tegula-1-0.tmp", "a/b/.tegula-2-0.tmp", ".tegula-3-0.tmp"]
    for name in [*dead, "a/.tegula-4-0.tmp", "a/.tegula-lock"]:
        (tmp_path / name).write_bytes(b"part of")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / "a/.tegula-4-0.tmp", "r+b") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        assert sorted(store.leftovers("")) == sorted(dead)
        assert sorted(store.leftovers("a/b/")) == dead[1:2]
        assert [*store.leftovers("no/such/")] == [*store.leftovers("e/")] == []
        reader = LocalStore(tmp_path, read_only=True)
        assert sorted(reader.leftovers()) == sorted(dead)
        with pytest.raises(ReadOnlyError):
            reader.reclaim()
        assert store.reclaim("a/b/") == 1
        assert store.reclaim() == 2
        assert [*store.leftovers()] == []
        assert (tmp_path / "a/.tegula-4-0.tmp").exists()
    assert store.reclaim("a/") == 1
    assert sorted(store.list()) == ["a/b/c", "a/d", "e", "link/b/c", "link/d"]


@pytest.mark.parametrize("with_fds", [True, False])
def test_a_dead_writer_stays_locked_until_all_it_left_is_gone(tmp_path, monkeypatch, with_fds):
    """Its owner could otherwise lock a directory that is being removed, and go on in it."""
    monkeypatch.setattr(system, "HAS_DIRECTORY_FDS", with_fds)
    names = [".tegula-1-0.tmp", ".tegula-2-0.tmp"]
    (tmp_path / names[0]).write_bytes(b"part of")
    (tmp_path / names[1] / "new/c").mkdir(parents=True)
    for name in ("new/zarr.json", "new/c/0", ".tegula-lock-owner"):
        (tmp_path / names[1] / name).write_bytes(b"x")
    removed, real = [], os.unlink

    def unlink(path, *, dir_fd=None):
        removed.append(os.path.basename(path))
        lock = next(tmp_path / name for name in names if name in path)
        if not with_fds and lock.is_dir():
            lock /= ".tegula-lock-owner"
        with Held() as held:
            fd = held.open(str(lock), os.O_RDONLY)
            is_last = not with_fds and removed[-1] == lock.name == ".tegula-lock-owner"
            assert held.lock(fd, str(lock), wait=False) == is_last, f"{lock} when {path} is deleted"
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(system.files, "unlink", unlink)
    assert LocalStore(tmp_path).reclaim() == 2
    assert os.listdir(tmp_path) == []
    assert removed.index("0") < removed.index(".tegula-lock-owner")


@pytest.mark.parametrize("by", ["delete", "delete_prefix"])
def test_what_a_dead_writer_left_keeps_no_directory_from_going(tmp_path, by):
    store = LocalStore(tmp_path)
    store.set("a/b/c", b"value")
    (tmp_path / "a/b/.tegula-1-0.tmp").write_bytes(b"part of")
    (tmp_path / "a/.tegula-2-0.tmp").write_bytes(b"part of")
    store = pickle.loads(pickle.dumps(store))
    directories.SWEPT.clear()  # as in another process
    store.delete("a/b/c") if by == "delete" else store.delete_prefix("a/")
    assert files(tmp_path) == []


def test_a_writer_that_waits_for_its_turn_is_not_taken_for_a_dead_one(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    store = LocalStore(tmp_path)
    store.set("a", b"old")
    with open(tmp_path / "b", "wb"), directories.Directory(str(tmp_path)) as directory:
        fcntl.flock(directory._fd, fcntl.LOCK_EX)
        writer = threading.Thread(target=store.set, args=("a", b"new"))
        writer.start()
        until(lambda: any(file.stat().st_size >= 3 for file in tmp_path.glob(".tegula-*.tmp")))
        seen = {name for _ in range(100) for name in (*store.leftovers(), time.sleep(0.001)) if name}
        assert store.reclaim() == 0
        fcntl.flock(directory._fd, fcntl.LOCK_UN)
        join([writer])
    assert seen == set()
    assert store.get("a") == b"new"


def test_a_directory_that_is_removed_before_it_is_synced_is_made_again(tmp_path, monkeypatch):
    store = LocalStore(tmp_path, durability="fsync")
    real, gone = directories.sync_directory, []

    def vanish(path):
        if path.endswith("/a") and not gone:
            gone.append(path)
            os.rmdir(f"{path}/b")
            os.rmdir(path)
        real(path)

    monkeypatch.setattr(directories, "sync_directory", vanish)
    store.set("a/b/c", b"value")
    assert gone
    assert store.get("a/b/c") == b"value"
