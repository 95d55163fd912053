"""Signals at any moment: no lock stays taken, nothing is given twice, and nothing is lost that a token knows of."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.effort import SEED

import tegula
from tegula.tables.following import Rows

pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers that send signals"),
]


class Interrupt(BaseException):
    """What the signal raises."""


def interrupt(*_: Any) -> None:
    raise Interrupt


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_follower_goes_on_after_interrupts_at_any_moment(kind: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    rows = 300
    a = tegula.create_array({} if kind == "memory" else tmp_path / "x", shape=0, chunks=7, dtype="i4")
    follower = tegula.follow(a, from_row=0, poll=0.01, timeout=60)
    stop = threading.Event()

    def write() -> None:
        for row in range(rows):
            a.append([row + 1])
            if stop.wait(0.002):
                break

    writer = threading.Thread(target=write)
    used: list[Rows] = []
    interrupts = 0
    gc.disable()  # or a signal may meet a callback of the collector, which can't pass the interrupt on
    before = signal.signal(signal.SIGALRM, interrupt)
    writer.start()
    try:
        while not used or used[-1].stop < rows:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.03))
                while not used or used[-1].stop < rows:
                    used.append(next(follower))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                interrupts += 1
            done = used[-1].stop if used else 0
            if follower.position != done:  # the block was lost between its return and the list
                arguments: dict[str, Any] = {"token": used[-1].token} if used else {"from_row": 0}
                follower = tegula.follow(a, poll=0.01, timeout=60, **arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
        stop.set()
        writer.join()
    found = [row for block in used for row in block.values.tolist()]
    assert found == [*range(1, rows + 1)]
    assert interrupts


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list open files")
def test_closed_followers_leave_no_file_open(tmp_path: Path) -> None:
    a = tegula.create_array(tmp_path / "x", shape=0, chunks=7, dtype="i4")
    a.append([1])
    assert len([*tegula.follow(a, from_row=0, timeout=0.01)]) == 1
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with tegula.follow(a, from_row=0, timeout=0.001) as follower:
            assert len([*follower]) == 1
    for _ in range(20):
        assert len([*tegula.follow(a, from_row=0, timeout=0.001)]) == 1
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) <= before
