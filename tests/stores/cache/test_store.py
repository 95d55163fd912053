"""A store that keeps values on disk: requests, freshness, damage, room, and processes that are killed."""

from __future__ import annotations

import errno
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_stores import RemoteStore, RevalidatingStore
from tests.waiting import run_threads

import tegula
from tegula import CachedStore, LocalStore, MemoryStore, config
from tegula.errors import ConflictError, MetadataError, StoreError
from tegula.stores import ABSENT
from tegula.stores.cache.disk import DiskCache


class LastingStore(RemoteStore):
    """A store whose storage other objects share, by a name with a secret in it."""

    identity = "s3://key:SECRET@bucket"


class RevalidatingLastingStore(RevalidatingStore):
    identity = "s3://key:SECRET@bucket"


@pytest.fixture(params=[LastingStore, RevalidatingLastingStore])
def remote(request: pytest.FixtureRequest) -> RemoteStore:
    made: RemoteStore = request.param()
    return made


def test_a_value_is_asked_for_once(remote: RemoteStore, tmp_path: Path) -> None:
    remote.set("a", b"0123456789")
    store = CachedStore(remote, tmp_path, 10**6)
    for _ in range(3):
        assert store.get("a") == b"0123456789"
        assert store.get("a", (2, 3)) == b"234"
        assert store.get("a", (-3, None), with_generation=True)[0] == b"789"
        assert store.get("none") is None
        assert store.get_many([("a", None), ("none", None), ("a", (0, 1))]) == [b"0123456789", None, b"0"]
    assert remote.requests() == 2


@pytest.mark.parametrize(("rule", "requests"), [("never", 0), (1000, 0), ("open", 1), ("always", 2), (0, 2)])
def test_another_object_uses_what_is_kept(remote: RemoteStore, tmp_path: Path, rule: Any, requests: int) -> None:
    remote.set("a", b"1")
    CachedStore(remote, tmp_path, 10**6, recheck=rule).get("a")
    remote.requests()
    store = CachedStore(remote, tmp_path, 10**6, recheck=rule)
    assert store.get("a") == store.get("a") == b"1"
    assert remote.asked["get"] == 0  # all are conditional
    assert remote.requests() == requests
    remote.set("a", b"2")
    new = CachedStore(remote, tmp_path, 10**6, recheck=rule)
    assert new.get("a") == (b"1" if rule in ("never", 1000) else b"2")


def test_seconds_are_those_since_any_process_compared(
    remote: RemoteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.set("a", b"1")
    assert CachedStore(remote, tmp_path, 10**6, recheck=60).get("a") == b"1"
    remote.set("a", b"2")
    start = time.time()
    for later, value in [(50, b"1"), (-10, b"2"), (50, b"2")]:
        monkeypatch.setattr(time, "time", lambda later=later: start + later)
        assert CachedStore(remote, tmp_path, 10**6, recheck=60).get("a") == value
    monkeypatch.setattr(time, "time", lambda: start + 55)  # using a file does not make it younger
    remote.set("a", b"3")
    assert CachedStore(remote, tmp_path, 10**6, recheck=60).get("a") == b"2"
    monkeypatch.setattr(time, "time", lambda: start + 111)
    assert CachedStore(remote, tmp_path, 10**6, recheck=60).get("a") == b"3"


@pytest.mark.parametrize("rule", ["open", "never", 1000])
def test_writes_are_seen_and_conditions_hold(remote: RemoteStore, tmp_path: Path, rule: Any) -> None:
    store = CachedStore(remote, tmp_path, 10**6, recheck=rule)
    generation = store.set("a", b"1")
    assert store.get("a", with_generation=True) == (b"1", generation)
    remote.set("a", b"2")  # another process
    with pytest.raises(ConflictError):
        store.set("a", b"3", if_generation=generation)
    assert store.get("a", with_generation=True) == remote.get("a", with_generation=True)
    remote.set("b/c", b"1")
    assert store.get("b/c") == b"1"
    remote.set("b/c", b"2")
    assert store.get("b/c", (0, 0), with_generation=True)[1] == remote.get("b/c", with_generation=True)[1]
    store.delete_prefix("b/")
    assert store.get("b/c", with_generation=True) == (None, ABSENT)
    assert CachedStore(remote, tmp_path, 10**6, recheck=rule).get("b/c") is None
    store.delete("a")
    assert store.get("a") is None
    copy = pickle.loads(pickle.dumps(store))
    assert (copy.directory, copy.max_bytes, copy.recheck) == (store.directory, store.max_bytes, rule)


def test_storage_that_does_not_last_is_not_confused(tmp_path: Path) -> None:
    for number in range(20):
        store = CachedStore(MemoryStore({"a": b"%d" % number}), tmp_path, 10**6, recheck="never")
        assert store.get("a") == store.get("a") == b"%d" % number
        assert pickle.loads(pickle.dumps(store)).get("a") == b"%d" % number


def test_no_name_is_written_to_disk(remote: RemoteStore, tmp_path: Path) -> None:
    remote.set("token=SECRET", b"value")
    store = CachedStore(remote, tmp_path / "cache", 10**6)
    store.get("token=SECRET")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        assert "SECRET" not in str(path)
        assert b"SECRET" not in path.read_bytes()
        assert b"bucket" not in path.read_bytes()
        if os.name == "posix":
            assert path.stat().st_mode & 0o077 == 0


@given(content=st.binary(min_size=1, max_size=200), data=st.data())
def test_a_damaged_file_counts_as_missing(content: bytes, data: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("cache")
    cache = DiskCache(str(directory), 10**6)
    cache.put("a", content)
    cache.put("b", b"other" + content)
    first, other = cache._path("a")[0], cache._path("b")[0]
    raw = Path(first).read_bytes()
    harm = data.draw(st.sampled_from(["cut", "zeros", "flip", "longer", "swap"]))
    if harm == "swap":
        os.replace(other, first)
    else:
        at = data.draw(st.integers(0, len(raw) - 1))
        harmed = {
            "cut": raw[:at],
            "zeros": raw[:at] + bytes(len(raw) - at),
            "flip": raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :],
            "longer": raw + b"\0",
        }[harm]
        if harmed == raw:
            return
        Path(first).write_bytes(harmed)
    assert cache.get("a") is None
    assert not os.path.exists(first)
    cache.put("a", content)
    assert cache.get("a") == content


def used(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@pytest.mark.slow
def test_files_take_no_more_than_they_may(remote: RemoteStore, tmp_path: Path) -> None:
    for number in range(50):
        remote.set(f"k{number}", bytes([number]) * 1000)
    store = CachedStore(remote, tmp_path, 20_000)
    for _ in range(2):
        for number in range(50):
            assert store.get(f"k{number}") == bytes([number]) * 1000
            assert used(tmp_path) <= 20_000
    assert used(tmp_path) > 5_000
    remote.requests()
    store.get("k49")
    assert remote.requests() == 0
    remote.set("large", bytes(30_000))
    before = used(tmp_path)
    assert store.get("large") == bytes(30_000)
    assert used(tmp_path) <= max(before, 20_000)


def test_files_of_killed_writers_are_deleted(tmp_path: Path) -> None:
    cache = DiskCache(str(tmp_path), 10_000)
    cache.put("a", b"1")
    old, new = (Path(cache._path("a")[0]).with_name(f"tmp-{name}") for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (0, time.time() - 4000))
    DiskCache(str(tmp_path), 10_000).put("b", b"2")
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_disk_is_no_error(
    remote: RemoteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    remote.set("a", b"1")
    store = CachedStore(remote, tmp_path / "cache", 10**6)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(fault, os.strerror(fault))

    for name in ("replace", "makedirs", "open"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fail)
            assert store.get("a") == b"1"
            store.set("a", b"1")
        assert used(tmp_path) == 0
    assert store.get("a") == b"1"
    assert used(tmp_path) > 0


def test_arguments_are_checked(tmp_path: Path) -> None:
    for options in [{"max_bytes": "1"}, {"max_bytes": -1}, {"max_bytes": 1, "recheck": "no"}, {"max_bytes": True}]:
        with pytest.raises(MetadataError):
            CachedStore(MemoryStore(), tmp_path, **options)


@pytest.mark.parametrize("directory", ["a\0b", "", 5, None])
def test_a_directory_is_a_path(directory: Any) -> None:
    with pytest.raises(StoreError, match="is not a path"):
        CachedStore(MemoryStore(), directory, 10)


def test_an_array_over_it(remote: RemoteStore, tmp_path: Path) -> None:
    data = np.arange(1024).reshape(32, 32)
    layouts: dict[str, Any] = {"x": {"chunks": (8, 8)}, "y": {"chunks": (4, 4), "shards": (16, 16)}}
    for path, layout in layouts.items():
        tegula.create_array(remote, data=data, path=path, **layout)
        for executor in ("auto", "reference"):
            with config.configure(executor=executor):
                store = CachedStore(remote, tmp_path, 10**7, recheck="never")
                assert np.array_equal(tegula.open_array(store, path=path, mode="r")[...], data)
                remote.requests()
                array = tegula.open_array(CachedStore(remote, tmp_path, 10**7, recheck="never"), path=path, mode="r+")
                assert np.array_equal(array[...], data)
                assert remote.requests() == 0
        array[3:20, 5] = 7
        array.resize(40, 32)
        expected = data.copy()
        expected[3:20, 5] = 7
        assert np.array_equal(array[:32], expected)


def test_threads_write_and_read(remote: RemoteStore, tmp_path: Path) -> None:
    store = CachedStore(remote, tmp_path, 10**5)
    errors: list[BaseException] = []

    def count(number: int) -> None:
        try:
            for turn in range(30):
                store.set(f"k{number}", b"%d" % turn)
                assert store.get(f"k{number}") == b"%d" % turn
                store.get(f"k{(number + 1) % 4}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
    run_threads(threads)
    assert not errors


_WORKER = """
import random, sys, tegula
remote, cache, seed = sys.argv[1:]
random.seed(seed)
store = tegula.CachedStore(tegula.LocalStore(remote), cache, 60_000, recheck=random.choice(["open", "always", 0]))
print("ready", flush=True)
while True:
    number = random.randrange(40)
    value = store.get(f"k{number}")
    assert value == bytes([number]) * (200 + 100 * number), (number, len(value or b""))
    assert store.get(f"k{number}", (50, 20)) == bytes([number]) * 20
    if random.random() < 0.1:
        store.set(f"k{number}", value)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_processes_may_be_killed_at_any_time(tmp_path: Path) -> None:
    remote, cache = tmp_path / "remote", tmp_path / "cache"
    origin = LocalStore(remote)
    for number in range(40):
        origin.set(f"k{number}", bytes([number]) * (200 + 100 * number))
    chance = random.Random(1)

    def start(seed: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _WORKER, str(remote), str(cache), str(seed)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate(timeout=60)
        return process

    for turn in range(12):
        processes = [start(turn * 2), start(turn * 2 + 1)]
        time.sleep(chance.random() * 0.2)
        for process in processes:
            assert process.poll() is None, process.communicate(timeout=60)  # it has found nothing wrong
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        store = CachedStore(origin, cache, 60_000, recheck="never")
        for number in range(40):
            assert store.get(f"k{number}") == bytes([number]) * (200 + 100 * number)
    assert used(cache) <= 60_000 * 1.25
