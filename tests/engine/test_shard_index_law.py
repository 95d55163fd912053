"""The law of kept shard indexes: a read returns the shard as it is stored, all of one generation."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_stores import RemoteStore, RevalidatingStore
from tests.waiting import exit_code, join, until

import tegula
from tegula import config
from tegula.engine.caches import shard_indexes
from tegula.engine.caches.chunk_cache import CHUNKS
from tegula.stores import MemoryStore, ObjectStore, Store
from tegula.stores.objects.urls import open_url

pytestmark = pytest.mark.once(executors="both")

SIDE, INNER = 1024, 128  # a shard of 2 MiB: smaller ones are read as a whole
LAYOUT: dict[str, Any] = {"chunks": (INNER, INNER), "shards": (SIDE, SIDE), "codecs": []}
KEY = "c/0/0"
State = tuple[bytes | None, Any]


@cache
def states() -> list[State]:
    """Return shards and what they hold: dense ones of the same size, sparse ones, an absent one."""
    store = MemoryStore()
    array = tegula.create_array(store, shape=(SIDE, SIDE), dtype="u2", **LAYOUT)
    found: list[State] = [(None, np.zeros((SIDE, SIDE), "u2"))]
    for number in range(1, 5):
        data = np.full((SIDE, SIDE), number, "u2")
        array[...] = data
        found.append((store.get(KEY), data))
    assert len({len(raw or b"") for raw, _ in found}) == 2
    for number, where in enumerate([(0, 0), (0, 1), (7, 7), (3, 2)], start=5):  # of the same size, too
        data = np.zeros((SIDE, SIDE), "u2")
        row, column = (INNER * each for each in where)
        data[row : row + INNER, column : column + INNER] = number
        data[512:640, 512:640] = number
        store.delete(KEY)
        array[...] = data
        found.append((store.get(KEY), data))
    shard_indexes.KEPT.clear()
    return found


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    yield
    CHUNKS.clear()
    shard_indexes.KEPT.clear()


def put(store: Any, number: int) -> None:
    """Replace the shard, as another process does: nothing here is told."""
    store = store.store if isinstance(store, tegula.CachedStore) else store
    raw = states()[number][0]
    if raw is None:
        store.delete(KEY)
    else:
        store.set(KEY, raw)


def in_memory(kind: type[Store]) -> Callable[[Any], Store]:
    return lambda request: kind()


def in_objects(request: Any) -> Store:
    return ObjectStore(pytest.importorskip("obstore.store").MemoryStore())


def on_s3(request: Any) -> Store:
    bucket = request.getfixturevalue("s3_server").bucket()
    return open_url(f"{bucket.url}/x", bucket.storage_options)


def on_fsspec(request: Any) -> Store:
    fsspec = pytest.importorskip("fsspec")
    bucket = request.getfixturevalue("s3_server").bucket()
    options = bucket.storage_options
    keys = {"key": options["access_key_id"], "secret": options["secret_access_key"]}
    return tegula.stores.FsspecStore(fsspec.filesystem("s3", endpoint_url=bucket.endpoint, **keys), bucket.name)


def in_fsspec(request: Any) -> Store:
    fsspec = pytest.importorskip("fsspec")
    return tegula.stores.FsspecStore(fsspec.filesystem("memory"), f"index-law-{uuid.uuid4()}")


MAKERS = {
    "fsspec memory": in_fsspec,
    "remote": in_memory(RemoteStore),
    "revalidating": in_memory(RevalidatingStore),
    "objects": in_objects,
    "s3": on_s3,
    "fsspec": on_fsspec,
}
WINDOWS: list[Any] = [
    (slice(0, 100), slice(0, 300)),
    (slice(500, 650), slice(500, 650)),
    (slice(890, None), slice(900, None)),
    (5, slice(None)),
    (slice(0, SIDE, 900), slice(0, SIDE, 900)),
    (slice(None), slice(0, 400)),
    (slice(None), slice(None)),
]
STEPS = st.lists(
    st.one_of(st.sampled_from(range(9)), st.sampled_from([f"{n}" for n in range(len(WINDOWS))])),
    min_size=2, max_size=14,
)  # fmt: skip


@pytest.fixture(params=[*MAKERS, "files of objects", "files of fsspec"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    maker = {"files of objects": in_objects, "files of fsspec": in_fsspec}.get(request.param)
    made = MAKERS[request.param](request) if maker is None else maker(request)
    tegula.create_array(made, shape=(SIDE, SIDE), dtype="u2", **LAYOUT)
    return made if maker is None else tegula.CachedStore(made, tmp_path, 10**8, recheck="always")


@pytest.mark.slow
@pytest.mark.sampled(one_in=24)
@pytest.mark.parametrize("executor", ["auto", "reference", "cached"])
@settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
@given(steps=STEPS)
def test_reads_return_what_is_stored(store: Store, executor: str, steps: list[Any]) -> None:
    options: dict[str, Any] = (
        {"cache_bytes": 2**26, "recheck": "always"} if executor == "cached" else {"executor": executor}
    )
    with config.configure(**options):
        array = tegula.open_array(store, mode="r")
        put(store, 1)
        expected = states()[1][1]
        for step in steps:
            if isinstance(step, int):
                put(store, step)
                expected = states()[step][1]
            else:
                window = WINDOWS[int(step)]
                assert np.array_equal(array[window], expected[window])


@pytest.mark.slow
@pytest.mark.sampled(one_in=34)
@pytest.mark.parametrize("executor", ["auto", "reference", "cached"])
def test_reads_beside_a_writer_see_one_generation(store: Store, executor: str) -> None:
    done, reads = threading.Event(), [0]
    errors: list[BaseException] = []
    order = [1, 5, 2, 6, 0, 3, 7, 4, 8, 1, 2, 3, 4, 5, 8, 7, 6, 0, 1, 2]
    turn = [0]  # number of writes that are complete

    def read(seed: int) -> None:
        draw = np.random.default_rng(seed)
        try:
            while not done.is_set():
                window = WINDOWS[draw.integers(len(WINDOWS))]
                first = turn[0]
                found = array[window]
                last = turn[0] + 1  # which may be under way
                possible = {order[n] for n in range(max(0, first - 1), min(last, len(order)))}
                assert any(np.array_equal(found, states()[number][1][window]) for number in possible), possible
                reads[0] += 1
        except BaseException as error:
            errors.append(error)

    options: dict[str, Any] = (
        {"cache_bytes": 2**26, "recheck": "always"} if executor == "cached" else {"executor": executor}
    )
    with config.configure(**options):
        array = tegula.open_array(store, mode="r")
        put(store, order[0])
        turn[0] = 1
        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for number in order[1:]:
            goal = reads[0] + 2
            until(lambda goal=goal: reads[0] >= goal or errors)
            put(store, number)
            turn[0] += 1
        done.set()
        join(threads)
    assert not errors, errors[0]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_a_forked_child_has_no_indexes_and_reads_the_same(executor: str) -> None:
    store = RemoteStore()
    with config.configure(executor=executor):
        tegula.create_array(store, shape=(SIDE, SIDE), dtype="u2", **LAYOUT)
        put(store, 1)
        array = tegula.open_array(store, mode="r")
        window = WINDOWS[0]
        assert (array[window] == 1).all()
        assert shard_indexes.KEPT
        with shard_indexes.KEPT.lock:  # as if another thread held it
            child = os.fork()
            if child == 0:
                code = 3
                try:
                    empty = not shard_indexes.KEPT and not shard_indexes.KEPT.nbytes
                    put(store, 2)
                    code = 0 if empty and (array[window] == 2).all() and (array[window] == 2).all() else 4
                finally:
                    os._exit(code)
        assert exit_code(child) == 0
        assert (array[window] == 1).all()
