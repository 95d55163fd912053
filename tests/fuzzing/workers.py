"""The process that carries out inputs: limited, and watched from outside by `runner`."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tegula import config

from .outcomes import Case, Tally, Target, attempt
from .targets import TARGETS

__all__ = ["ADDRESSES", "conditions", "make", "target_of", "work"]

ADDRESSES = 1 << 30
"""How much address space a worker may take beyond what it has when it begins, in bytes."""
_MAX_CHUNK = 1 << 20
_MOST_FINDINGS = 5

_targets: dict[str, Target] = {}


@contextmanager
def conditions() -> Iterator[None]:
    """Set the process up for inputs, as it is in workers and replays."""
    with config.configure(threads=1, max_chunk_bytes=_MAX_CHUNK), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def target_of(name: str) -> Target:
    """Return the one target of a name in this process."""
    if name not in _targets:
        _targets[name] = TARGETS[name]()
    return _targets[name]


def make(name: str, seed: int, number: int) -> Case:
    """Make an input: the same for the same name, seed and number."""
    return target_of(name).make(random.Random(f"{seed}/{name}/{number}"))


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def work(pipe: Connection, beat: Any, trace: str) -> None:
    """Carry out the blocks from the pipe, ``(target, seed, start, stop)``, and answer with counts and findings.

    `beat` is shared with the parent: the number of the input and the time at which it began.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to end
    tempfile.tempdir = os.path.dirname(trace)  # which is removed with the run, even if this process is killed
    with open(trace, "w") as file, conditions():
        faulthandler.enable(file)
        faulthandler.register(signal.SIGUSR1, file)
        _serve(pipe, beat)
        faulthandler.disable()


def _serve(pipe: Connection, beat: Any) -> None:
    for name in TARGETS:  # what is loaded once does not count as growth
        beat[1] = time.monotonic()
        target = target_of(name)
        for number in range(5):
            attempt(target, make(name, -1, number), Tally())
    if os.path.exists("/proc/self/statm"):
        _limit()
    pipe.send("ready")
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        if order is None:
            return
        pipe.send(_block(*order, beat))
        gc.collect()


def _block(name: str, seed: int, start: int, stop: int, beat: Any) -> tuple[Tally, list[tuple[int, str, str]]]:
    target, tally, findings = target_of(name), Tally(), []
    begun = time.process_time()  # other processes may keep the cores busy
    for number in range(start, stop):
        beat[1] = time.monotonic()
        beat[0] = number
        found = attempt(target, make(name, seed, number), tally)
        if found is not None and len(findings) < _MOST_FINDINGS:
            findings.append((number, *found))
    tally.seconds = time.process_time() - begun
    return tally, findings
