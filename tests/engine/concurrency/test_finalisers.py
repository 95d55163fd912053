"""Finalisers that run at the worst moment: during a garbage collection while the thread holds a lock that they need."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula.tensorstore as ts
from tegula import bcolz
from tegula.engine.caches import chunk_cache, document_cache, shard_indexes
from tegula.engine.concurrency import finalisers
from tegula.stores import MemoryStore

LOCKS: dict[str, Callable[[], Any]] = {
    "decoded chunks": lambda: chunk_cache.CHUNKS._lock,
    "indexes of shards": lambda: shard_indexes.KEPT.lock,
    "documents": lambda: document_cache.KEPT.lock,
    "starting threads": lambda: threading._active_limbo_lock,
}


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalisers, "_PATIENCE", 0.1)


@pytest.fixture
def kept() -> Any:
    """Something kept of a store, since empty caches take no locks."""
    store = MemoryStore()
    shard_indexes.put(store, "c/0", b"0" * 16, b"1")
    yield
    shard_indexes.drop(store, "c/0")


def in_a_cycle(value: Any) -> None:
    """Leave a value to the garbage collector."""
    cycle = [value]
    cycle.append(cycle)


@pytest.mark.parametrize("name", LOCKS)
def test_rows_are_stored_by_a_collection_at_any_moment(name: str, tmp_path: Path, kept: None) -> None:
    gc.disable()
    try:
        c = bcolz.carray(np.arange(3), rootdir=tmp_path / "c")
        c.append([3, 4])
        in_a_cycle(c)
        del c
        with LOCKS[name]():
            gc.collect()
    finally:
        gc.enable()
    finalisers._wait_for_all()
    assert bcolz.open(tmp_path / "c", mode="r")[:].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", LOCKS)
def test_a_batch_is_submitted_by_a_collection_at_any_moment(name: str) -> None:
    gc.disable()
    try:
        batch = ts.Batch()
        future = ts.array([1, 2, 3]).read(batch=batch)
        in_a_cycle(batch)
        del batch
        with LOCKS[name]():
            gc.collect()
    finally:
        gc.enable()
    assert future.result(timeout=60).tolist() == [1, 2, 3]


def test_an_error_is_raised_in_the_finaliser() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        finalisers.call_apart(fail)


def test_an_error_after_the_wait_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: reported.append(found.exc_value))
    lock = threading.Lock()

    def fail() -> None:
        with lock:
            raise ValueError("no")

    with lock:
        finalisers.call_apart(fail)
    finalisers._wait_for_all()
    for _ in range(1000):
        if reported:
            break
        threading.Event().wait(0.01)
    assert [str(error) for error in reported] == ["no"]


@pytest.mark.slow
def test_the_process_waits_for_a_call() -> None:
    code = """
import threading, time
from tegula.engine.concurrency import finalisers
finalisers._PATIENCE = 0.01
finalisers.call_apart(lambda: (time.sleep(0.5), print("done", flush=True)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "done\n"
