"""`CachedStore` over object storage: the conformance suite, generations restored from files, and ranges."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.buckets import Bucket, Server
from tests.stores.counting import COUNT_UP

import tegula
from tegula import CachedStore
from tegula.errors import ConflictError
from tegula.stores import ABSENT, FsspecStore, ObjectStore, Store
from tegula.stores.objects.generations import ObjectGeneration, position
from tegula.stores.objects.urls import open_url
from tegula.testing import StoreConformance

obstore_stores = pytest.importorskip("obstore.store")


class OverObjects(StoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.numbers = itertools.count()

    def objects(self) -> ObjectStore:
        raise NotImplementedError

    def make(self) -> Store:
        return CachedStore(self.objects(), self.folder / str(next(self.numbers)), 10**7)


class TestOverMemory(OverObjects):
    picklable = False  # values are in the memory of this process

    def objects(self) -> ObjectStore:
        self.memory = obstore_stores.MemoryStore()
        return ObjectStore(self.memory, "a")

    def reopen_read_only(self, store: Store) -> Store:
        assert isinstance(store, CachedStore)
        return CachedStore(ObjectStore(self.memory, "a", read_only=True), store.directory, 10**7)


class TestOverFsspec(OverObjects):
    def objects(self) -> Any:
        self.place = f"cached-{uuid.uuid4()}"
        return FsspecStore(fsspec.filesystem("memory"), self.place)

    def reopen_read_only(self, store: Store) -> Store:
        assert isinstance(store, CachedStore)
        return CachedStore(FsspecStore(fsspec.filesystem("memory"), self.place, read_only=True), store.directory, 10**7)


class TestOverS3(OverObjects):
    @pytest.fixture(autouse=True)
    def _server(self, s3_server: Server) -> None:
        self.server = s3_server

    def objects(self) -> ObjectStore:
        self.bucket = self.server.bucket()
        return opened(self.bucket)

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, CachedStore)
        return CachedStore(opened(self.bucket), store.directory, 10**7)

    def reopen_read_only(self, store: Store) -> Store:
        assert isinstance(store, CachedStore)
        inner = open_url(f"{self.bucket.url}/a", self.bucket.storage_options, read_only=True)
        return CachedStore(inner, store.directory, 10**7)


def opened(bucket: Bucket) -> ObjectStore:
    return open_url(f"{bucket.url}/a", {**bucket.storage_options, "retry_timeout": 20})


# --- generations restored from files


def restored(bucket: Bucket, directory: Path, key: str) -> tuple[CachedStore, ObjectGeneration]:
    """Return a store of a new process, and a generation that it has not read itself."""
    CachedStore(opened(bucket), directory, 10**7).get(key)
    store = CachedStore(opened(bucket), directory, 10**7)
    _, generation = store.get(key, with_generation=True)
    assert isinstance(generation, ObjectGeneration)
    assert (generation.restored, generation.history) == (True, "")
    return store, generation


def history(bucket: Bucket, key: str) -> str:
    found = opened(bucket).get(key, (0, 0), with_generation=True)[1]
    assert isinstance(found, ObjectGeneration)
    return found.history


@pytest.mark.slow
def test_a_restored_generation_is_one_of_the_store(s3_server: Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    origin = opened(bucket)
    state = origin.set("k", b"1", if_generation=ABSENT)
    _, generation = restored(bucket, tmp_path, "k")
    assert generation == state == origin.generation_of(generation.plain)
    assert origin.generation_of(ABSENT) == ABSENT
    assert "history" not in repr(generation)


@pytest.mark.slow
def test_writes_under_restored_generations_keep_earlier_write_identifiers(s3_server: Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    opened(bucket).set("k", b"1", if_generation=ABSENT)
    first = history(bucket, "k")
    store, generation = restored(bucket, tmp_path, "k")
    store.set("k", b"2", if_generation=generation)
    assert position(first, history(bucket, "k")) == 1
    # the same bytes with another history since
    store, generation = restored(bucket, tmp_path, "k")
    other = opened(bucket)
    for value in (b"3", b"2"):
        other.set("k", value, if_generation=other.get("k", with_generation=True)[1])
    third = history(bucket, "k")[:6]
    if other.get("k", with_generation=True)[1] == generation:  # S3 treats them as one state
        store.set("k", b"4", if_generation=generation)
        assert position(third, history(bucket, "k")) == 1


@pytest.mark.slow
def test_write_with_lost_answer_is_recognised_below_a_later_write(
    s3_server: Server, proxied: Any, tmp_path: Path
) -> None:
    """One writer's answer is lost; before it looks, another process writes under a generation from its files."""
    bucket, proxy = s3_server.bucket(), proxied(s3_server)
    slow = opened(bucket.through(proxy.endpoint))
    before = slow.set("k", b"0", if_generation=ABSENT)
    looks = threading.Event()
    with (
        proxy.fault(method="PUT", key="*/k", after_commit=500, times=1) as lost,
        proxy.fault(method="HEAD", key="*/k", delay=1.5, times=1),
    ):
        results: list[Any] = []

        def write() -> None:
            try:
                results.append(slow.set("k", b"1", if_generation=before))
            except ConflictError as error:
                results.append(error)
            looks.set()

        writer = threading.Thread(target=write)
        writer.start()
        while opened(bucket).get("k") != b"1":
            pass
        store, generation = restored(bucket, tmp_path, "k")
        store.set("k", b"2", if_generation=generation)
        assert not looks.is_set()
        writer.join(30)
        assert lost.hits == 1
    # it did take place, so it must not be reported as refused: its writer would write once more
    assert isinstance(results[0], ObjectGeneration), results
    assert results[0].superseded
    assert opened(bucket).get("k") == b"2"


@pytest.mark.slow
def test_a_restored_generation_that_is_no_longer_there_is_a_conflict(s3_server: Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    for change in (lambda store: store.set("k", b"other"), lambda store: store.delete("k")):
        opened(bucket).set("k", b"1")
        store, generation = restored(bucket, tmp_path, "k")
        change(opened(bucket))
        with pytest.raises(ConflictError):
            store.set("k", b"2", if_generation=generation)
        assert opened(bucket).get("k") in (b"other", None)


_COUNT = f"""{COUNT_UP}
import sys, json, tegula
from tegula.stores.objects.urls import open_url
url, options, directory, number = sys.argv[1:]
for _ in range(int(number)):
    # each time as a process that has just begun, which knows the generation from files
    store = tegula.CachedStore(open_url(url, json.loads(options)), directory, 10**6, recheck="open")
    count_up(store, "n", 1)
"""


@pytest.mark.slow
def test_processes_that_share_files_neither_lose_nor_double_writes(
    s3_server: Server, proxied: Any, tmp_path: Path
) -> None:
    bucket, proxy = s3_server.bucket(), proxied(s3_server)
    opened(bucket).set("n", b"0", if_generation=ABSENT)
    through = bucket.through(proxy.endpoint)
    options = json.dumps({**through.storage_options, "backoff": {"init_backoff": 0.005, "max_backoff": 0.05}})
    arguments = [f"{through.url}/a", options, str(tmp_path), "15"]
    with proxy.fault(method="PUT", key="*/n", after_commit=500, probability=0.3, seed=1) as lost:
        processes = [
            subprocess.Popen([sys.executable, "-c", _COUNT, *arguments], stderr=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        for process in processes:
            error = process.communicate(timeout=120)[1]
            assert process.returncode == 0, error
        assert lost.hits > 0
    assert opened(bucket).get("n") == b"45"


# --- ranges of files, whose state is not the generation of the value


class Asked(Exception):
    pass


def quiet(store: FsspecStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every request of a store."""

    def ask(*_: object, **__: object) -> Any:
        raise Asked

    for name in ("fetch", "info", "get_many", "read"):
        monkeypatch.setattr(store, name, ask)


def test_ranges_of_files_are_kept(tmp_path: Path) -> None:
    inner = FsspecStore(fsspec.filesystem("memory"), f"cached-{uuid.uuid4()}")
    value = bytes(range(250)) * 40
    inner.set("k", value)
    ranges = [(0, 10), (500, 20), (-16, None)]
    expected = [value[:10], value[500:520], value[-16:]]
    store = CachedStore(inner, tmp_path, 10**7)
    assert store.get("k", (3, 2), with_generation=True)[0] == value[3:5]  # whose generation is another one
    found, state = store.get_ranges("k", ranges)
    assert found == expected
    with pytest.MonkeyPatch.context() as patch:
        quiet(inner, patch)
        assert store.get_ranges("k", ranges) == (expected, state)
        assert store.get_ranges("k", ranges[:2], state) == (expected[:2], state)
        with pytest.raises(Asked):
            store.get_ranges("k", [(0, 11)])
    # the value that was written is read, whatever its generation is called
    store.set("k", value[::-1])
    with pytest.raises(ConflictError):
        store.get_ranges("k", ranges, state)
    assert store.get_ranges("k", ranges[:1])[0] == [value[::-1][:10]]
    store.delete_prefix("")
    assert store.get_ranges("k", ranges) == (None, ABSENT)


def test_ranges_of_files_are_compared_if_that_is_asked_for(tmp_path: Path) -> None:
    inner = FsspecStore(fsspec.filesystem("memory"), f"cached-{uuid.uuid4()}")
    inner.set("k", b"abcdef")
    for recheck in ("always", 0.0):
        store = CachedStore(inner, tmp_path / str(recheck), 10**7, recheck=recheck)
        for value in (b"abcdef", b"ABCDEF", b"uvwxyz"):
            inner.set("k", value)
            for _ in range(2):
                assert store.get_ranges("k", [(1, 2), (4, 1)])[0] == [value[1:3], value[4:5]]


def test_inner_chunks_of_a_shard_are_read_once_over_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = FsspecStore(fsspec.filesystem("memory"), f"cached-{uuid.uuid4()}")
    values = np.random.default_rng(1).integers(0, 2**31, (1200, 1200), dtype="i4")
    tegula.create_array(inner, path="s", data=values, chunks=(100, 100), shards=(1200, 1200))
    store = CachedStore(inner, tmp_path, 10**8)
    first = tegula.open_array(store, mode="r", path="s")[150:160, 700:]
    array = tegula.open_array(store, mode="r", path="s")
    quiet(inner, monkeypatch)
    assert (array[150:160, 700:] == first).all()
    assert (first == values[150:160, 700:]).all()


# --- identity


def test_buckets_of_different_servers_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(url: str, **options: Any) -> object:
        return open_url(url, options).identity

    plain = identity("s3://bucket/a")
    named = identity("s3://bucket/a", endpoint="https://one.example")
    assert plain == identity("s3://bucket/a", access_key_id="x", secret_access_key="y")
    assert named == identity("s3a://bucket/a/", aws_endpoint_url="https://user:marker5ecret@one.example")
    assert "marker5ecret" not in str(named)
    assert ObjectStore(obstore_stores.S3Store("bucket", prefix="a")).identity == plain
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://one.example")
    assert identity("s3://bucket/a") == named != plain
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://two.example")
    assert identity("s3://bucket/a") not in (named, plain)
    accounts = []
    for account in ("one", "two"):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", account)
        accounts.append(identity("az://container/a"))
    assert accounts[0] != accounts[1]
    assert accounts[0] == identity("az://container/a", account_name="one")


# --- ranges

VALUE = bytes(range(256)) * 40
RANGES = st.lists(st.tuples(st.integers(0, 11_000), st.integers(0, 3_000)), max_size=6)


@pytest.mark.slow
@pytest.mark.sampled(one_in=7)
@settings(max_examples=60)
@given(asked=st.lists(st.tuples(RANGES, st.sampled_from(["no", "old", "now", "changed"])), max_size=8))
@pytest.mark.parametrize("rule", ["open", "always", "never", 1000])
def test_ranges_are_those_of_one_state(asked: Any, rule: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    origin = ObjectStore(obstore_stores.MemoryStore())
    store = CachedStore(origin, tmp_path_factory.mktemp("cache"), 10**6, recheck=rule)
    states = {origin.set("k", VALUE): VALUE}
    for ranges, how in asked:
        if how == "changed":
            value = VALUE[len(states) :]
            states[origin.set("k", value)] = value
        known = [*states]
        given = {"no": None, "changed": None, "old": known[0], "now": known[-1]}[how]
        try:
            found, state = store.get_ranges("k", ranges, given)
        except ConflictError:
            assert given is not None
            assert given != known[-1] or rule in ("never", 1000, "open")  # which need not have seen the change
            continue
        value = states[state]
        assert found == [value[start : start + length] for start, length in ranges]
        assert given in (None, state)
        assert rule != "always" or state == known[-1]


def test_ranges_of_nothing(tmp_path: Path) -> None:
    origin = ObjectStore(obstore_stores.MemoryStore())
    store = CachedStore(origin, tmp_path, 10**6, recheck="never")
    for _ in range(2):
        assert store.get_ranges("k", [(0, 5)]) == (None, ABSENT)
    origin.set("k", b"1")
    assert store.get_ranges("k", [(0, 5)]) == (None, ABSENT)  # as it was
    assert tegula.CachedStore(origin, tmp_path, 10**6).get_ranges("k", [(0, 5)])[0] == [b"1"]
    assert os.listdir(tmp_path)
