"""Waits that end: for threads, for forked children and for conditions, so that a test which would hang fails instead.

A child that hangs must be ended, since it keeps open what it has inherited: pytest-xdist waits for a worker's pipes.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable

LONG = 120.0
"""Seconds that no wait takes on a machine with other work to do."""


def run_threads(threads: Iterable[threading.Thread], seconds: float = LONG) -> None:
    """Start threads and wait until all have ended."""
    started = [*threads]
    for thread in started:
        thread.daemon = True  # the interpreter does not wait for it after a failure
        thread.start()
    join(started, seconds)


def join(threads: Iterable[threading.Thread], seconds: float = LONG) -> None:
    """Wait until threads have ended."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        assert not thread.is_alive(), f"{thread} has not ended in {seconds:g} s"


def until(condition: Callable[[], object], seconds: float = LONG) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition does not hold after {seconds:g} s"
        time.sleep(0.001)


def exit_code(child: int, seconds: float = LONG) -> int:
    """Wait until a forked child has ended, and return its exit code, or the negative number of a signal."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)  # with pytest's fault handler it says where it hangs
            time.sleep(1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"the forked child has not ended in {seconds:g} s")
        time.sleep(0.002)
