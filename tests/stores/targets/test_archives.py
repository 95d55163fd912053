"""Zip archives opened by name: when they are complete, who shares them, and `flush`, `close` and ``with`` on nodes."""

from __future__ import annotations

import gc
import os
import pickle
import shelve
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.waiting import run_threads

import tegula
from tegula.errors import AlreadyExistsError, NotFoundError, StoreError, TegulaError
from tegula.stores import LocalStore, MappingStore, MemoryStore, ZipStore
from tegula.stores.zip import archive as zip_archive
from tegula.stores.zip import session as zip_session

linux_like = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "x.zip")


@pytest.fixture(autouse=True)
def no_session_stays() -> Any:
    gc.collect()
    before = {*zip_session._sessions}
    yield
    gc.collect()
    assert {*zip_session._sessions} <= before


def elsewhere(path: str, inner: str = "") -> list[Any]:
    """Read an array in the archive as another process finds it."""
    with ZipStore(path) as store:
        values: list[Any] = tegula.open_array(store, path=inner)[...].tolist()
        return values


def new(path: str, inner: str = "", **options: Any) -> tegula.Array:
    return tegula.create_array(path, path=inner, shape=4, dtype="i4", **options)


# --- the end of a process

START = (
    "import sys, tegula\npath = sys.argv[1]\nnew = lambda **o: tegula.create_array(path, shape=4, dtype='i4', **o)\n"
)
ENDS = {
    "a global": "a = new(); a[:] = 7",
    "a cycle": "import gc; gc.disable(); d = {'a': new()}; d['d'] = d; d['a'][:] = 7; del d",
    "kept by another module": "import json; json.kept = new(); json.kept[:] = 7",
    "kept by a cache": "import functools\n@functools.cache\ndef f(): return new()\nf()[:] = 7",
    "held by a daemon": """
import threading, time
ready = threading.Event()
def work():
    a = new(); a[:] = 7; ready.set(); time.sleep(600)
threading.Thread(target=work, daemon=True).start(); ready.wait()""",
    "written by a thread": """
import threading
a = new()
def work():
    import time; time.sleep(0.2); a[:] = 7
threading.Thread(target=work).start()""",
    "written in the background": "a = new(); a.write(slice(None), 7)",
    "sys.exit": "def f():\n    a = new(); a[:] = 7; sys.exit(0)\nf()",
    "a member": "g = tegula.create_group(path); a = g.create_array('g/a', shape=4, dtype='i4'); del g; a[:] = 7",
    "an exit handler": "import atexit\ndef f():\n    sys.kept[:] = 7\natexit.register(f)\nsys.kept = new()",
    "an exit handler that creates": """
import atexit
def f():
    sys.kept = tegula.create_group(path)
    sys.kept["a"] = [7] * 4
atexit.register(f)
tegula.create_group  # loads the module""",
    "a store that the user created": """
sys.kept = tegula.create_array(tegula.ZipStore(path, 'w'), shape=4, dtype='i4')
sys.kept[:] = 7""",
    "multiprocessing": """
import multiprocessing
def work():
    sys.kept = new(); sys.kept[:] = 7
process = multiprocessing.get_context('fork').Process(target=work)
process.start(); process.join()""",
}


def run(code: str, *arguments: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", START + code, *arguments],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@linux_like
@pytest.mark.parametrize("end", ENDS)
def test_an_archive_is_complete_when_its_process_has_ended(path: str, end: str) -> None:
    assert run(ENDS[end], path) == ""
    inner = {"a member": "g/a", "an exit handler that creates": "a"}.get(end, "")
    assert elsewhere(path, inner) == [7, 7, 7, 7]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


@pytest.mark.slow
def test_an_error_that_ends_the_process_leaves_the_archive_complete(path: str) -> None:
    assert "ZeroDivisionError" in run("def f():\n    a = new(); a[:] = 7; 1 / 0\nf()", path, status=1)
    assert elsewhere(path) == [7, 7, 7, 7]


@pytest.mark.slow
def test_a_failed_commit_at_exit_is_reported_and_does_not_stop_others(path: str, tmp_path: Path) -> None:
    code = """
import os
sys.kept = [tegula.create_array(f"{path}{n}.zip", shape=4, dtype='i4') for n in range(4)]
for a in sys.kept: a[:] = 7
os.unlink(path + '2.zip')
"""
    found = run(code, path)
    assert f"RuntimeWarning: the zip archive {path}2.zip was not closed" in found
    assert "deleted or replaced" in found
    for number in (0, 1, 3):
        assert elsewhere(f"{path}{number}.zip") == [7, 7, 7, 7]
    assert not os.path.exists(f"{path}2.zip")


KILLED = """
import os
a = new()
a[:] = 7
a.flush()
a[:] = 8
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_killed_process_loses_only_what_it_wrote_since_the_last_flush(path: str) -> None:
    arguments = [sys.executable, "-c", START + KILLED, path]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert elsewhere(path) == [7, 7, 7, 7]
        process.kill()
    assert elsewhere(path) == [7, 7, 7, 7]
    with tegula.open_array(path, "r+") as a:  # no lock is left
        a[0] = 9
    assert elsewhere(path) == [9, 7, 7, 7]


@pytest.mark.slow
@linux_like
def test_a_forked_child_leaves_the_archive_to_its_parent(path: str) -> None:
    code = """
import os
a = new()
a[:] = 7
b = tegula.open(path, "r+")
child = os.fork()
if child == 0:
    assert a[:].tolist() == [7] * 4
    for act in (a.flush, b.close, a.close):
        act()
    del a, b
    try:
        tegula.open(path, "r+")
    except tegula.StoreError as error:
        assert "another writer" in str(error), error
        sys.exit(0)  # with exit handlers
    sys.exit(1)
assert os.waitpid(child, 0)[1] == 0
assert os.path.getsize(path) < 100  # nothing is committed yet
a[0] = 8
"""
    assert run(code, path) == ""
    assert elsewhere(path) == [8, 7, 7, 7]


@pytest.mark.slow
@linux_like
def test_a_child_can_write_an_archive_while_a_lock_of_its_parent_is_held(path: str) -> None:
    code = """
import os, signal, threading
from tegula.stores.zip import session as zip_session
held = threading.Event()
def hold():
    with zip_session._opening:
        held.set(); threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    a = new(); a[:] = 7
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run("import numpy; tegula.ZipStore\n" + code, path) == ""
    assert elsewhere(path) == [7, 7, 7, 7]


# --- collection


def test_an_archive_is_complete_when_its_last_node_is_collected(path: str) -> None:
    group = tegula.create_group(path)
    array = group.create_array("a", shape=4, dtype="i4")
    attributes = array.attrs
    array[:] = 7
    del group, array
    assert zipfile.ZipFile(path).namelist() == []
    attributes["unit"] = "K"
    del attributes
    assert elsewhere(path, "a") == [7, 7, 7, 7]
    assert tegula.open(path)["a"].attrs["unit"] == "K"


def test_a_column_keeps_the_archive_of_its_table(path: str) -> None:
    column = tegula.create_table(path, {"a": [1, 2], "b": [3, 4]})["b"]
    column[0] = 9
    del column
    assert tegula.load(path)["b"].tolist() == [9, 4]


def test_a_write_that_is_under_way_keeps_the_archive(path: str) -> None:
    future = new(path).write(slice(None), 7)
    future.result()
    del future
    deadline = time.monotonic() + 20
    while zip_session._sessions and time.monotonic() < deadline:
        time.sleep(0.01)  # until the thread has let go of the array
    assert elsewhere(path) == [7, 7, 7, 7]


def test_a_cycle_delays_the_end_until_the_collection(path: str) -> None:
    array = new(path)
    kept: list[Any] = [array]
    kept.append(kept)
    array[:] = 7
    del array, kept
    gc.collect()
    assert elsewhere(path) == [7, 7, 7, 7]


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(zip_archive, "write_at", fail)
        yield


def test_a_failed_commit_at_the_collection_is_reported(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = new(path)
    array[:] = 7
    with full_disk(monkeypatch), pytest.warns(RuntimeWarning, match=r"x\.zip was not closed.*lost.*No space left"):
        del array
    with tegula.create_array(path, shape=1, dtype="u1"):  # it is not locked any more
        pass


def test_an_interrupt_in_a_finaliser_loses_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = new(path)
    array[:] = 7
    seen = []

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", seen.append)
        patch.setattr(zip_archive.os, "replace", interrupt)
        del array
    assert [item.exc_type for item in seen] == [KeyboardInterrupt]
    del seen
    again = tegula.open_array(path, "r+")
    assert again[:].tolist() == [7, 7, 7, 7]
    again.close()
    assert elsewhere(path) == [7, 7, 7, 7]
    assert os.listdir(os.path.dirname(path)) == ["x.zip"]


def test_an_interrupt_after_the_archive_was_put_in_place_loses_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tegula.ZipStore(path, mode="w", durability="fsync")
    array = new(store)
    array[:] = 7

    def interrupt(folder: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(zip_archive, "sync_directory", interrupt)
        with pytest.raises(KeyboardInterrupt):
            array.flush()
    array[0] = 8
    store.close()
    assert elsewhere(path) == [8, 7, 7, 7]


# --- several nodes of one archive


def test_nodes_of_one_archive_write_it_together(path: str) -> None:
    one = new(path, "one")
    two = new(path, "two")
    one[:] = 1
    two[:] = 2
    group = tegula.open_group(path, "r+")
    assert [*group] == ["one", "two"]
    assert group["one"].store == one.store
    one.close()
    assert elsewhere(path, "one") == [1, 1, 1, 1]
    two[0] = 5
    group["two"][1] = 6
    del two
    group.close()
    assert elsewhere(path, "two") == [5, 6, 2, 2]
    with ZipStore(path, "a"):  # it is not locked any more
        pass


def test_a_reader_finds_what_was_written_in_this_process_until_now(path: str) -> None:
    array = new(path)
    array[:] = 7
    reader = tegula.open_array(path)
    assert reader[:].tolist() == [7, 7, 7, 7]
    assert tegula.load(f"zip://{path}").tolist() == [7, 7, 7, 7]
    array[:] = 8
    assert tegula.check(path).ok
    assert reader[:].tolist() == [7, 7, 7, 7]  # it is as it was opened
    assert tegula.load(path).tolist() == [8, 8, 8, 8]
    own = ZipStore(os.path.join(os.path.dirname(path), "own.zip"), "w")
    tegula.save(own, [1, 2])
    assert tegula.load(own.path).tolist() == [1, 2]


def test_a_store_of_ones_own_is_not_joined(path: str) -> None:
    with ZipStore(path, "w") as store:
        with pytest.raises(StoreError, match=r"another writer.*write through that store, or close it"):
            new(path)
        array = tegula.create_array(store, shape=4, dtype="i4")
        array.close()
        array[:] = 7  # the program that created the store closes it
    array = tegula.open_array(path, "r+")
    with pytest.raises(StoreError, match="another writer"):
        ZipStore(path, "a")
    array.close()
    with ZipStore(path, "a"):
        pass


@pytest.mark.slow
def test_threads_open_and_close_one_archive_again_and_again(path: str) -> None:
    failed: list[BaseException] = []
    tegula.create_group(path)

    def work(number: int) -> None:
        try:
            for turn in range(25):
                with new(path, f"a{number}/b{turn}") as array:
                    array[:] = number
                del array
                tegula.open_group(path, "r+").attrs[f"{number}-{turn}"] = turn
                assert tegula.open_array(path, path=f"a{number}/b{turn}")[0] == number
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    run_threads(threads)
    assert failed == []
    group = tegula.open_group(path)
    assert len(group.attrs) == 150
    assert {tuple(group[f"a{n}/b{t}"][:]) for n in range(6) for t in range(25)} == {(n,) * 4 for n in range(6)}


def test_a_deleted_archive_is_neither_written_to_nor_brought_back(path: str) -> None:
    array = new(path, "old")
    array[:] = 1
    os.unlink(path)
    other = new(path, "new")
    other[:] = 2
    with pytest.raises(StoreError, match="deleted or replaced while it was open"):
        array.flush()
    with pytest.warns(RuntimeWarning, match="lost"):
        del array
    other.close()
    assert [*tegula.open_group(path)] == ["new"]
    os.unlink(path)


def test_a_moved_archive_is_written_where_it_is_now(path: str) -> None:
    array = new(path)
    array[:] = 1
    os.rename(path, path + "2")
    array.close()
    assert not os.path.exists(path)
    assert elsewhere(path + "2") == [1, 1, 1, 1]


# --- flush, close and with


@pytest.mark.slow
@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("make", [
    new,
    tegula.create_group,
    lambda path: tegula.create_table(path, {"a": [1, 2]}),
    lambda path: tegula.open(path, "w", shape=2),
    lambda path: tegula.open_group(path, "a"),
    lambda path: (tegula.create_group(path).close(), tegula.open(path, "r+"))[1],
    lambda path: (tegula.save(path, x=[1]), tegula.open(path))[1],
    lambda path: (tegula.save(path, x=[1]), tegula.open_table(path))[1],
    lambda path: (tegula.save(path, x=[1]), tegula.open_group(path, "r+").consolidate(),
                  tegula.open_group(path, consolidated=True))[2],
    lambda path: tegula.Table.from_pandas(pytest.importorskip("pandas").DataFrame({"a": [1]}), path),
])  # fmt: skip
def test_a_node_opened_by_name_closes_its_archive(path: str, make: Any) -> None:
    node = make(path)
    with node as entered:
        assert entered is node
    for _ in range(2):
        node.close()
        node.flush()
    with pytest.raises(StoreError, match=r"x\.zip is closed; open it again"):
        [*node.store.list()]
    with pytest.raises(TegulaError, match="is closed"):
        [*node.store.list_dir("")]
    with ZipStore(path, "a"):  # it is not locked any more
        pass


def test_everything_of_a_closed_archive_is_closed(path: str) -> None:
    with tegula.create_group(path) as group:
        group["x"] = [1, 2]
        member = group["x"]
    for act in (lambda: member[:], lambda: member.append([3]), lambda: group["x"], lambda: member.attrs.put({}),
                member.refresh, lambda: member.read().result(), lambda: group.create_group("y"),
                lambda: pickle.dumps(member)):  # fmt: skip
        with pytest.raises(StoreError, match="is closed"):
            act()


def test_a_member_only_flushes(path: str) -> None:
    with tegula.create_group(path) as group:
        with group.create_array("x", shape=4, dtype="i4") as member:
            member[:] = 7
        assert elsewhere(path, "x") == [7, 7, 7, 7]
        member[:] = 8
    assert elsewhere(path, "x") == [8, 8, 8, 8]


@pytest.mark.slow
def test_flush_and_close_wait_for_what_runs_in_the_background(path: str) -> None:
    values = np.arange(4_000_000, dtype="i4").reshape(2, -1)
    array = tegula.create_array(path, shape=values.shape, dtype="i4", chunks=(1, 10_000), codecs=None)
    array.write(0, values[0])
    array.flush()
    assert elsewhere(path)[0] == values[0].tolist()
    array.write(1, values[1])
    reading = array.read(0)
    array.close()
    np.testing.assert_array_equal(reading.result(), values[0])
    np.testing.assert_array_equal(tegula.load(path), values)


def test_an_error_in_the_block_closes_the_archive_too(path: str) -> None:
    def fail(array: tegula.Array) -> None:
        with array:
            array[:] = 7
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(new(path))
    assert elsewhere(path) == [7, 7, 7, 7]


def test_closing_can_be_tried_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = new(path)
    array[:] = 7
    with full_disk(monkeypatch):
        for act in (array.flush, array.close):
            with pytest.raises(StoreError, match="No space left"):
                act()
    assert array[:].tolist() == [7, 7, 7, 7]
    array.close()
    assert elsewhere(path) == [7, 7, 7, 7]


@pytest.mark.parametrize("kind", ["memory", "mapping", "directory", "store"])
def test_other_nodes_can_be_used_on(tmp_path: Path, kind: str) -> None:
    target: Any = {"memory": MemoryStore(), "mapping": {}, "directory": tmp_path / "x", "store": LocalStore(tmp_path)}
    with tegula.create_group(target[kind]) as group:
        group["x"] = [1, 2]
    group.close()
    group["x"][0] = 5
    assert tegula.open(target[kind])["x"][:].tolist() == [5, 2]


def test_a_mapping_with_a_flush_of_its_own_is_flushed(tmp_path: Path) -> None:
    class Slow(dict[str, bytes]):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1
            if self.flushed == 3:
                raise RuntimeError("the disk is full")

    target = Slow()
    with tegula.create_array(target, shape=3, dtype="u1") as array:
        array.flush()
        assert target.flushed == 1
    assert target.flushed == 2
    target.flushed = 2
    with pytest.raises(StoreError, match="failed to flush: RuntimeError: the disk is full"):
        array.flush()
    MappingStore(target, read_only=True).flush()
    assert target.flushed == 3
    with shelve.open(str(tmp_path / "shelf"), writeback=True) as shelf:
        with tegula.create_array(shelf, shape=3, dtype="u1") as array:
            array[:] = 7
        assert shelf.cache == {}  # synced
        assert array[:].tolist() == [7, 7, 7]


# --- nothing is left behind


def test_a_failure_leaves_neither_an_archive_nor_a_lock(path: str) -> None:
    kept = []
    for act in (
        lambda: tegula.create_array(path, shape=4, dtype="nonsense"),
        lambda: tegula.create_table(path, {"a": [1], "b": [1, 2]}),
        lambda: tegula.create_group(path, attributes={"a": object()}),
        lambda: tegula.open(path, "a", shape=4, dtype="nonsense"),
        lambda: tegula.convert({}, path),
        lambda: tegula.convert(tegula.create_array({}, shape=2, dtype="i4"), path, chunks="nonsense"),
        lambda: tegula.open(path),
        lambda: tegula.open(path, "r+"),
    ):
        with pytest.raises(TegulaError) as caught:
            act()
        kept.append(caught.value)  # and with it the frames of its traceback
        assert not os.path.exists(path)
    ZipStore(path, "w").close()
    for act in (lambda: tegula.open(path, "r+"), lambda: tegula.open_array(path, "r+")):
        with pytest.raises(NotFoundError) as missing:
            act()
        kept.append(missing.value)
    new(path).close()
    with pytest.raises(AlreadyExistsError) as exists:
        new(path)
    kept.append(exists.value)
    with ZipStore(path, "a"):  # it is not locked any more
        pass


def test_an_archive_without_values_is_valid(path: str) -> None:
    tegula.store_of(path).close()
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == []
    before = os.stat(path).st_mtime_ns
    with tegula.store_of(path):
        pass
    assert os.stat(path).st_mtime_ns == before


def test_completing_archives_prints_nothing(path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = new(path)
        array[:] = 7
        del array
        store = ZipStore(path, "a")
        store.set("a", b"1")
        del store
    assert elsewhere(path) == [7, 7, 7, 7]


@pytest.mark.slow
def test_the_program_completes_the_archives_that_it_writes(path: str, tmp_path: Path) -> None:
    tegula.save(tmp_path / "source", [1, 2, 3])
    program = [sys.executable, "-m", "tegula"]
    subprocess.run([*program, "convert", str(tmp_path / "source"), path], check=True, capture_output=True, timeout=300)
    subprocess.run([*program, "attrs", "set", path, "unit", "K"], check=True, capture_output=True, timeout=300)
    subprocess.run([*program, "check", "--repair", path], check=True, capture_output=True, timeout=300)
    assert elsewhere(path) == [1, 2, 3]
    assert tegula.open(path).attrs["unit"] == "K"


@pytest.mark.slow
@linux_like
def test_a_handler_of_a_signal_that_exits_completes_the_archive(path: str) -> None:
    code = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
a = new()
for turn in range(10**9):
    a[:] = turn
    if turn == 50:
        os.kill(os.getpid(), signal.SIGTERM)
"""
    assert run(code, path) == ""
    assert elsewhere(path) in ([50] * 4, [51] * 4)
