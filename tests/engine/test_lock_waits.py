"""Locks that others hold: a wait for them can be interrupted, and the log names the holder after a long one."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import join

import tegula
from tegula import config
from tegula.stores import LocalStore
from tegula.stores.local import open_files

pytestmark = pytest.mark.slow

fcntl = pytest.importorskip("fcntl")

HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.readline()
"""


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Have another process hold the lock of a file or directory, and yield its number."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


WAIT = """
import sys, time
import numpy as np
import tegula
path, kind = sys.argv[1:]
array = tegula.open_array(path, mode="r+")
sys.stdout.write("ready\\n")
sys.stdout.flush()
try:
    if kind == "append":
        array.append(np.ones(3, "i4"))
    elif kind == "part":
        array[1:-1] = 2
    else:
        array[...] = 2
except KeyboardInterrupt:
    sys.exit(77)
"""


@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("kind", "format", "locked"),
    [
        ("all", "zarr3", "c"),
        ("part", "zarr3", "c"),
        ("append", "zarr3", "."),
        ("append", "bcolz", "meta/storage"),
        ("append", "bcolz", "data"),
    ],
)
def test_a_wait_can_be_interrupted(tmp_path: Path, kind: str, format: str, locked: str, threads: int) -> None:
    array = tegula.create_array(
        tmp_path, shape=200_000, chunks=20_000, dtype="i4", format=format, codecs=None, fill_value=0
    )
    array[...] = 1
    environment = {
        **os.environ,
        "TEGULA_EXECUTOR": config.current().executor,
        "TEGULA_THREADS": str(threads),
    }
    with held(tmp_path / locked):
        command = [sys.executable, "-c", WAIT, str(tmp_path), kind]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        assert process.poll() is None, "it should wait"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 77
        process.stdout.close()
    assert not [*tmp_path.rglob(".tegula-*")]
    assert set(tegula.open_array(tmp_path)[:200_000].tolist()) <= {1, 2}


def test_a_value_that_stays_locked_is_changed_all_the_same(tmp_path: Path) -> None:
    """The lock of a chunk only saves other writers retries; nothing relies on it."""
    array = tegula.create_array(tmp_path, shape=4, chunks=4, dtype="i4", codecs=None)
    array[...] = 1
    with held(tmp_path / "c/0"):
        array[1] = 2
    assert array[...].tolist() == [1, 2, 1, 1]


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system does not say who holds a lock")
def test_a_long_wait_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_SUSPICIOUS", 0.1)
    array = tegula.create_array(tmp_path, shape=40, chunks=10, dtype="i4", codecs=None)
    array[...] = 1
    caplog.set_level(logging.WARNING, "tegula.stores")
    writer = threading.Thread(target=array.__setitem__, args=(..., 2))
    with held(tmp_path / "c") as holder:
        writer.start()
        until = time.monotonic() + 30
        while not caplog.messages and time.monotonic() < until:
            time.sleep(0.01)
    join([writer])
    assert str(tmp_path / "c") in caplog.messages[0]
    assert f"process {holder} (python" in caplog.messages[0]
    assert array[...].tolist() == [2] * 40


def test_an_uncontended_lock_is_not_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = LocalStore(tmp_path)
    store.set("a", b"1")
    with store.lock("a") as held:
        assert held
    assert not caplog.messages
