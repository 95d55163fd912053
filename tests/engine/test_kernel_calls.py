"""How threads of the kernel call Python stores: what they keep between calls, and what they give back."""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from tests.injection.waves import WaveStore

import tegula
from tegula import config
from tegula.stores import ByteRange

pytestmark = pytest.mark.usefixtures("kernel")

THREADS = 4


def filled(store: WaveStore) -> tegula.Array:
    """Return an array of 64 chunks."""
    array = tegula.create_array(store, shape=(64, 8), chunks=(1, 8), dtype="i4", codecs=None)
    array[...] = np.arange(512).reshape(64, 8)
    return array


def test_a_thread_keeps_its_thread_local_values_between_calls() -> None:
    local, calls = threading.local(), defaultdict(list)

    class Counting(WaveStore):
        def get(self, key: str, byte_range: ByteRange | None = None, *, with_generation: bool = False) -> Any:
            local.calls = getattr(local, "calls", 0) + 1
            calls[threading.get_native_id()].append(local.calls)
            time.sleep(0.001)  # so that other threads get chunks, too
            return super().get(key, byte_range, with_generation=with_generation)

    array = filled(Counting(concurrency=THREADS))
    calls.clear()
    local = threading.local()
    with config.configure(executor="kernel"):
        assert array[...].sum() == 512 * 511 // 2
    assert len(calls) > 1
    assert all(counts == [*range(1, len(counts) + 1)] for counts in calls.values())


def test_the_buffers_of_answers_are_released_before_an_operation_ends() -> None:
    buffers: list[weakref.ref[Any]] = []
    alive: list[int] = []

    class Buffers(WaveStore):
        def view(self, key: str, *, with_generation: bool = False) -> Any:
            alive.append(sum(buffer() is not None for buffer in buffers))
            value, generation = super().view(key, with_generation=True)
            buffer = np.frombuffer(value, "u1").view()
            buffers.append(weakref.ref(buffer))
            time.sleep(0.001)
            return (buffer, generation) if with_generation else buffer

    array = filled(Buffers(concurrency=THREADS))
    for buffer_bytes in (2**30, 1):  # with room for all chunks, and for one after the other
        buffers.clear()
        alive.clear()
        with config.configure(executor="kernel", buffer_bytes=buffer_bytes):
            assert array[...].sum() == 512 * 511 // 2
        assert len(buffers) == 64
        assert not any(buffer() is not None for buffer in buffers)
        assert max(alive) <= 2 * THREADS
