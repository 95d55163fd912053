"""Local files that are not in memory: the kernel sends several requests to the disk at once."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config

VALUES = np.arange(512 * 512, dtype="u4").reshape(512, 512)
AGAIN = SimpleNamespace(errno=errno.EAGAIN)


@contextmanager
def disk(kernel: Any, *, cold: bool) -> Iterator[list[tuple[str, int]]]:
    """Make all files look as if on a slow disk, or in memory; return the calls and the threads that made them."""
    calls: list[tuple[str, int]] = []

    def hook(call: str, path: str) -> Any:
        calls.append((call, threading.get_ident()))
        if call == "read":
            time.sleep(0.002)
        if call == "preadv2":
            return AGAIN if cold else SimpleNamespace(errno=errno.EOPNOTSUPP)
        return None

    kernel.faults(hook)
    try:
        with config.configure(threads=2, executor="kernel"):
            yield calls
    finally:
        kernel.faults()


def threads(calls: list[tuple[str, int]]) -> int:
    return len({thread for call, thread in calls if call == "read"})


@pytest.mark.parametrize("cold", [False, True])
def test_chunks_on_a_disk_are_read_by_more_threads(kernel: Any, tmp_path: Path, cold: bool) -> None:
    array = tegula.create_array(tmp_path, shape=VALUES.shape, dtype="u4", chunks=(64, 64))
    array[...] = VALUES
    with disk(kernel, cold=cold) as calls:
        assert np.array_equal(array[...], VALUES)
    assert [call for call, _ in calls].count("preadv2") == 1
    assert 2 < threads(calls) <= 16 if cold else threads(calls) <= 2
    with disk(kernel, cold=cold) as calls:
        assert np.array_equal(array[:64, :64], VALUES[:64, :64])
    assert "preadv2" not in [call for call, _ in calls]  # a single chunk has nothing to wait for at the same time


def test_one_thread_stays_one(kernel: Any, tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path, shape=VALUES.shape, dtype="u4", chunks=(64, 64))
    array[...] = VALUES
    with disk(kernel, cold=True) as calls, config.configure(threads=1):
        assert np.array_equal(array[...], VALUES)
    assert threads(calls) == 1


@pytest.mark.parametrize("cold", [False, True])
def test_parts_of_a_shard_on_a_disk_are_announced(kernel: Any, tmp_path: Path, cold: bool) -> None:
    array = tegula.create_array(
        tmp_path, shape=VALUES.shape, dtype="u4", chunks=(32, 32), shards=(512, 512), codecs=[], format="zarr3"
    )
    array[...] = VALUES
    with disk(kernel, cold=cold) as calls:
        assert np.array_equal(array[:, 100], VALUES[:, 100])
    names = [call for call, _ in calls]
    assert names.count("preadv2") == 1
    assert names.count("fadvise") == (16 if cold else 0)
    if cold:  # all of them before the first one is read, after the index
        assert "read" not in names[names.index("fadvise") : len(names) - names[::-1].index("fadvise")]
