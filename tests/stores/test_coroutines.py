"""The event loop of other libraries' coroutines, and its end."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tegula.stores.coroutines import run

pytestmark = pytest.mark.once(executors="none")

_EXITING = """
import asyncio, os, threading, time
from tegula.stores import coroutines

assert coroutines.run(asyncio.sleep(0, 1)) == 1
loop = coroutines._loops[0].get()
entered = threading.Event()

def slow_wakeup():
    entered.set()
    time.sleep(0.3)  # another thread has the interpreter's lock meanwhile
    type(loop)._write_to_self(loop)

def bring():
    loop._write_to_self = slow_wakeup
    loop.call_soon_threadsafe(print)
    os.write(1, b"brought")

threading.Thread(target=bring, daemon=True).start()
entered.wait()
"""


def test_results_and_errors_are_handed_over() -> None:
    assert run(asyncio.sleep(0, "done")) == "done"

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(fail())


@pytest.mark.slow
def test_a_result_that_is_being_brought_is_awaited_at_exit() -> None:
    found = subprocess.run([sys.executable, "-c", _EXITING], capture_output=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"brought" in found.stdout


@pytest.mark.slow
def test_a_coroutine_that_never_ends_does_not_keep_the_process() -> None:
    script = """
import asyncio, os, signal, threading
from tegula.stores.coroutines import run

async def forever():
    try:
        await asyncio.sleep(1000)
    finally:
        os.write(1, b"cancelled")

threading.Thread(target=run, args=[forever()], daemon=True).start()
__import__("time").sleep(0.2)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30, check=False)
    assert (found.returncode, found.stdout) == (0, b"cancelled")
