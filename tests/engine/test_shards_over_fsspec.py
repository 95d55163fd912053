"""Sharded arrays over file systems of fsspec: windows take parts of shards, of one state of the file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.http import HTTPFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from tests.servers.proxy import Proxy

import tegula
from tegula import config
from tegula.engine.caches import shard_indexes
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.errors import ConflictError
from tegula.stores import FsspecStore, MemoryStore
from tegula.stores.fsspec.store import FileState

pytestmark = pytest.mark.once(executors="both")

SIDE, INNER = 2048, 128  # one shard of 8 MiB
LAYOUT: dict[str, Any] = {"chunks": (INNER, INNER), "shards": (SIDE, SIDE), "codecs": []}
KEY = "c/0/0"
DATA = np.random.default_rng(0).integers(1, 2**16, (SIDE, SIDE)).astype("u2")
WINDOWS: list[Any] = [(slice(100, 300), slice(200, 500)), (5, slice(None)), (slice(-1, None), slice(-1, None))]
EXECUTORS = ["auto", "reference", "cached"]


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    yield
    CHUNKS.clear()
    shard_indexes.KEPT.clear()


def using(executor: str) -> Any:
    return config.configure(
        **({"cache_bytes": 2**26, "recheck": "always"} if executor == "cached" else {"executor": executor})
    )


def documents(data: Any) -> dict[str, bytes]:
    """Return the values of an array."""
    made = MemoryStore()
    tegula.create_array(made, data=data, **LAYOUT)
    return {key: made.get(key) for key in made.list()}


class Counting(MemoryFileSystem):
    """A file system in memory that counts the bytes it sends, and calls a function before each answer."""

    cachable = False
    protocol = "memory"
    sent = 0
    before: Any = staticmethod(lambda: None)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.store, self.pseudo_dirs = {}, [""]

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        self.before()
        found: bytes = super().cat_file(path, start, end, **options)
        self.sent += len(found)
        return found


class Silent(Counting):
    """The same, without anything that tells one state of a file from another."""

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        found = super().info(path, **options)
        return {name: value for name, value in found.items() if name in ("name", "size", "type")}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_window_does_not_take_the_shard_in_memory(executor: str) -> None:
    fs = Counting()
    store = FsspecStore(fs, "x")
    for key, value in documents(DATA).items():
        store.set(key, value)
    with using(executor):
        array = tegula.open_array(store, mode="r")
        for window in WINDOWS:
            fs.sent = 0
            assert np.array_equal(array[window], DATA[window])
            assert 0 < fs.sent < DATA.nbytes / 4


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_window_does_not_take_the_shard_on_s3(s3_server: Any, proxied: Callable[..., Proxy], executor: str) -> None:
    proxy = proxied(s3_server)
    bucket = s3_server.bucket().through(proxy.endpoint)
    options = bucket.storage_options
    fs = fsspec.filesystem(
        "s3", endpoint_url=proxy.endpoint, key=options["access_key_id"], secret=options["secret_access_key"]
    )
    store = FsspecStore(fs, bucket.name)
    for key, value in documents(DATA).items():
        store.set(key, value)
    check_windows(store, DATA, proxy, executor)


def check_windows(store: FsspecStore, data: Any, proxy: Proxy, executor: str) -> None:
    """Read windows of an array, each of which must take less than a quarter of it."""
    with using(executor):
        array = tegula.open_array(store, mode="r")
        for window in WINDOWS:
            with proxy.counted() as seen:
                assert np.array_equal(array[window], data[window])
            assert 0 < sum(request.sent for request in seen if request.method == "GET") < DATA.nbytes / 4


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_window_does_not_take_the_shard_of_a_web_server(
    http_server: Any, proxied: Callable[..., Proxy], executor: str
) -> None:
    proxy, bucket = proxied(http_server), http_server.bucket()
    folder = http_server.directory(bucket)
    for data in (DATA, DATA[::-1]):
        for key, value in documents(data).items():
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(value)
        store = FsspecStore(HTTPFileSystem(), bucket.through(proxy.endpoint).url)
        check_windows(store, data, proxy, executor)


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", [Counting, Silent])
@pytest.mark.parametrize("number", range(6))
def test_a_shard_that_is_replaced_meanwhile_is_read_again(kind: type[Counting], executor: str, number: int) -> None:
    """Another writer replaces the shard before one of the answers, by one of the same size."""
    fs = kind()
    store = FsspecStore(fs, "x")
    order = np.random.default_rng(1).permutation(SIDE // INNER)
    other = DATA.reshape(SIDE // INNER, INNER, SIDE)[order].reshape(SIDE, SIDE)
    versions = [documents(DATA)[KEY], documents(other)[KEY]]
    for key, value in documents(DATA).items():
        store.set(key, value)
    with using(executor):
        array = tegula.open_array(store, mode="r")
        window = (slice(0, SIDE, 600), slice(0, SIDE, 700))
        count = [0]

        def replace() -> None:
            count[0] += 1
            if count[0] == number:
                fs.pipe_file("/x/" + KEY, versions[1])

        fs.before = replace
        found = array[window]
        assert np.array_equal(found, DATA[window]) or np.array_equal(found, other[window])
        fs.before = lambda: None
        fs.pipe_file("/x/" + KEY, versions[1])
        assert np.array_equal(array[window], other[window])
        store.delete(KEY)
        assert not array[window].any()


def test_states_of_files() -> None:
    name = f"tests-{uuid.uuid4()}"
    store = FsspecStore(fsspec.filesystem("memory"), name)
    generation = store.set("a", b"0123456789")
    found, state = store.get_ranges("a", [(1, 2), (-3, None), (20, 4)])
    assert found == [b"12", b"789", b""]
    assert isinstance(state, FileState)
    assert store.get_ranges("a", [(0, 1)], generation) == ([b"0"], generation)
    store.set("a", b"9876543210")
    for old in (state, generation):
        with pytest.raises(ConflictError):
            store.get_ranges("a", [(0, 1)], old)
    store.set("b/c", b"1")
    assert store.get_ranges("b", [(0, 1)])[0] is None  # a directory
    silent = FsspecStore(Silent(), "x")
    generation = silent.set("a", b"12")
    assert silent.get_ranges("a", [(1, 1)]) == ([b"2"], generation)
    store.delete_prefix("")
