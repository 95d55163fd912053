"""Stores on both sides of a fork, also while another thread of the parent holds a lock."""

import subprocess
import sys
import zipfile

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.zip")


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


FORK = """
import os, sys
from tegula.errors import StoreError
from tegula.stores import ZipStore
store = ZipStore(sys.argv[1], "w")
store.set("a", b"1")
store.flush()
store.set("b", b"2")
child = os.fork()
if child == 0:
    assert (store.get("a"), store.get("b")) == (b"1", b"2")
    try:
        store.set("a", b"3")
    except StoreError:
        store.close()
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
store.close()
assert ZipStore(sys.argv[1]).get("b") == b"2"
reader = ZipStore(sys.argv[1])
child = os.fork()
for _ in range(1000):
    assert (reader.get("a"), reader.get("b")) == (b"1", b"2")
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_after_a_fork_the_child_can_only_read(path):
    done = subprocess.run([sys.executable, "-c", FORK, path], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert contents(path) == {"a": b"1", "b": b"2"}


FORKED_WRITER = """
import os, signal, sys, threading, time
from tegula.stores import ZipStore
store = ZipStore(sys.argv[1], "w")
store.set("a", b"1")
store.flush()
store.set("c", b"3")
held, done = threading.Event(), threading.Event()
def hold():
    with store._session.lock:
        held.set()
        done.wait(60)
thread = threading.Thread(target=hold, daemon=True)
thread.start()
held.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(20)
    if sys.argv[2] == "stay":
        time.sleep(60)
    store.flush()
    store.close()
    os._exit(0)
try:
    if sys.argv[2] == "end":
        assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join(60)
    store.close()
    with ZipStore(sys.argv[1], "a") as store:
        store.set("b", b"2")
finally:
    if sys.argv[2] == "stay":
        os.kill(child, signal.SIGKILL)
"""


@pytest.mark.parametrize("child", ["end", "stay"])
def test_forked_child_neither_waits_for_nor_holds_the_archive_lock(path, child):
    done = subprocess.run(
        [sys.executable, "-c", FORKED_WRITER, path, child], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert contents(path) == {"a": b"1", "b": b"2", "c": b"3"}


THREADS = """
import os, signal, sys, threading
from tegula.stores import MappingStore, MemoryStore

class Slow(dict):
    def __setitem__(self, key, value):
        inside.set()
        done.wait(60)
        super().__setitem__(key, value)

inside, done = threading.Event(), threading.Event()
contents = Slow()
if sys.argv[1] == "mapping":
    store = MappingStore(contents)
    other = MappingStore(contents)
else:
    store = other = MemoryStore()
    store._values = contents
thread = threading.Thread(target=store.set, args=("a", b"1"), daemon=True)
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(20)
    done = threading.Event()
    done.set()
    other.set("b", b"2")
    store.set("c", b"3")
    assert sorted(store.list()) == ["b", "c"]
    os._exit(0)
status = os.waitpid(child, 0)[1]
done.set()
thread.join(60)
assert status == 0, status
assert [*store.list()] == ["a"]
"""


@pytest.mark.parametrize("kind", ["mapping", "memory"])
def test_a_fork_while_another_thread_writes(kind):
    done = subprocess.run(
        [sys.executable, "-c", THREADS, kind], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
