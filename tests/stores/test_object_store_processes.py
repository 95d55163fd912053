"""Object stores in other processes, in threads and within event loops."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.stores.crude_s3 import CrudeS3, crude_s3

from tegula.stores import ABSENT, ObjectStore
from tegula.stores.objects.urls import open_url
from tegula.testing.suite import run_together

pytestmark = pytest.mark.once(executors="none")

pytest.importorskip("obstore")
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture
def server() -> Iterator[CrudeS3]:
    with crude_s3() as server:
        yield server


@pytest.fixture
def store(server: CrudeS3) -> ObjectStore:
    store = open_url("s3://bucket/data", {**server.options, "concurrency": 5})
    for number in range(10):
        store.set(str(number), b"%d" % number)
    return store


def values(store: ObjectStore) -> list[bytes | None]:
    return store.get_many([(str(number), None) for number in range(10)])


VALUES = [b"%d" % number for number in range(10)]
FORK = """
import os, sys, threading
from tegula.stores.objects.urls import open_url
store = open_url("s3://bucket/data", {options})
expected = {expected}
names = [(str(number), None) for number in range(10)]
def child():
    '''Use the store, in a child of a child, too, and tell how it went.'''
    assert store.get_many(names) == expected
    store.set("child", b"1")
    assert store.get("child") == b"1"
    inner = os.fork()
    if inner == 0:
        os._exit(0 if store.get_many(names) == expected else 5)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
assert store.get_many(names) == expected
threads = [threading.Thread(target=lambda: [store.get_many(names) for _ in range(50)]) for _ in range(4)]
[thread.start() for thread in threads]  # so that locks are held, and slots taken, when the process forks
children = []
for _ in range(3):
    process = os.fork()
    if process == 0:
        try:
            child()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        os._exit(7)
    children.append(process)
codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
[thread.join() for thread in threads]
assert store.get_many(names) == expected
print(codes)
"""


@pytest.mark.slow
@forking
def test_a_forked_child_uses_the_store(server: CrudeS3, store: ObjectStore, tmp_path: Path) -> None:
    code = FORK.format(options=server.options, expected=VALUES)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout == "[0, 0, 0]\n", done.stderr
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
@forking
def test_a_store_in_memory_says_that_it_is_of_another_process() -> None:
    code = (
        "import os, obstore.store, tegula\n"
        "store = tegula.ObjectStore(obstore.store.MemoryStore()); store.set('a', b'1')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n        store.get('a')\n"
        "    except tegula.StoreError as error:\n        os._exit(3 if 'forked' in str(error) else 4)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "3\n", done.stderr


@pytest.mark.slow
@pytest.mark.sampled(one_in=31)
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_processes_of_any_kind_get_the_store(store: ObjectStore, method: str) -> None:
    values(store)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        assert pool.submit(values, store).result(60) == VALUES


def test_a_pickled_store_is_the_same(server: CrudeS3, store: ObjectStore) -> None:
    copy: Any = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert hash(copy) == hash(store)
    assert (copy.url, copy.concurrency, copy.missing) == (store.url, 5, store.missing)
    assert copy.requests.retries == store.requests.retries
    assert values(copy) == VALUES
    assert pickle.loads(pickle.dumps(copy)) == store
    read_only = open_url("s3://bucket/data", server.options, read_only=True)
    assert pickle.loads(pickle.dumps(read_only)).read_only


def test_a_generation_is_the_same_in_another_process(store: ObjectStore) -> None:
    generation = store.set("a", b"1", if_generation=ABSENT)
    copy = pickle.loads(pickle.dumps(generation))
    assert copy == generation
    assert copy.history == generation.history
    assert store.set("a", b"2", if_generation=copy) != generation


def test_a_store_works_within_a_running_event_loop(store: ObjectStore) -> None:
    async def read() -> list[bytes | None]:
        return values(store)

    assert asyncio.run(read()) == VALUES


@pytest.mark.slow
def test_a_store_is_shared_by_threads(store: ObjectStore) -> None:
    def read() -> None:
        for _ in range(5):
            assert values(store) == VALUES

    run_together([read] * 8)
