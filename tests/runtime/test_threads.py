"""Pools of threads: who makes a call, how many threads there are, and what a signal at any moment leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.effort import amount
from tests.stores.test_interrupts import interrupted

from tegula import config
from tegula.engine.concurrency.pool import for_each, gather, results_of
from tegula.runtime import threads
from tegula.runtime.threads import Call, Pool, finish, in_threads, share
from tegula.stores.local.open_files import waiting

INTERRUPTS = amount("INTERRUPTS", usual=400, nightly=4000)


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


# --- calls


def test_a_call_is_made_once_by_the_first_that_comes() -> None:
    made: list[int] = []
    call = Call(lambda: made.append(threading.get_ident()))
    call.result()
    call.make()
    assert made == [threading.get_ident()]
    call = Call(lambda: made.append(threading.get_ident()))
    pool = Pool(1)
    pool.start(call)
    call.wait() if not call.cancel() else None
    pool.end()
    assert len(made) <= 2


def test_a_cancelled_call_is_never_made() -> None:
    call = Call(lambda: pytest.fail("made"))
    assert call.cancel()
    assert call.cancel()
    call.make()


def test_the_error_of_a_call_is_raised_where_its_result_is_asked_for() -> None:
    call = Call(lambda: {}["absent"])
    call.make()
    call.wait()
    with pytest.raises(KeyError, match="absent"):
        call.result()


# --- pools


def test_a_pool_has_no_more_threads_than_its_limit_and_no_fewer_than_calls() -> None:
    pool, gate, inside = Pool(3), threading.Event(), list[int]()

    def work() -> None:
        inside.append(1)
        assert gate.wait(30)

    calls = [Call(work) for _ in range(5)]
    for call in calls:
        pool.start(call)
    wait_until(lambda: len(inside) == 3)
    time.sleep(0.02)
    assert len(inside) == pool._threads == 3
    gate.set()
    wait_until(lambda: len(inside) == 5)
    finish(calls)
    pool.end()
    assert pool._threads == 0


def test_threads_that_are_idle_are_used_again() -> None:
    pool, used = Pool(8), set[int]()
    for _ in range(20):
        call = Call(lambda: used.add(threading.get_ident()))
        pool.start(call)
        wait_until(lambda call=call: call._over)
        wait_until(lambda: pool._idle == pool._threads)
    assert len(used) == 1
    pool.end()


def test_a_pool_gets_smaller() -> None:
    pool = Pool(4)
    barrier = threading.Barrier(4)
    for _ in range(4):
        pool.start(Call(lambda: barrier.wait(30)))
    wait_until(lambda: pool._idle == 4)
    pool.limit = 1
    made = list[int]()
    for number in range(8):
        pool.start(Call(lambda number=number: made.append(number)))
    wait_until(lambda: len(made) == 8 and pool._threads == 1)
    pool.end()


def test_calls_that_start_calls_are_never_short_of_threads() -> None:
    """With room for all, a call that waits for a later one gets its answer."""
    pool = Pool(64)
    for _ in range(200):
        done = threading.Event()
        first = Call(lambda done=done: done.wait(30))
        second = Call(lambda: Pool.start(pool, Call(done.set)))  # noqa: B023 - called in the same round
        pool.start(first)
        pool.start(second)
        wait_until(lambda first=first: first._over)
        assert first.result()
    pool.end()


def test_after_its_end_a_pool_leaves_calls_to_the_caller() -> None:
    pool = Pool(2)
    pool.end()
    call = Call(threading.get_ident)
    pool.start_or_make(call)
    assert call._over
    other = Call(threading.get_ident)
    pool.start(other)
    assert other.result() == threading.get_ident()


def test_a_thread_that_starts_after_the_last_one_has_ended_ends_as_well() -> None:
    pool = Pool(2)
    call = Call(lambda: 7)
    pool.start(call)
    call.wait()
    late = object()
    pool._starting[late] = None  # a thread that the system has made, and not yet run
    pool.end()
    pool._calls.put(None)  # which `end` has not yet taken back in the thread that waits
    pool._run(late)
    assert pool._threads == 0


def test_where_no_thread_can_be_started_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads._thread, "start_new_thread", refuse)
    pool, made = Pool(4), list[int]()
    share(lambda: made.append(threading.get_ident()), 3, pool, [])
    assert made == [threading.get_ident()]
    pool.start_or_make(Call(lambda: made.append(1)))
    assert made[1:] == [1]
    assert not pool._starting


@pytest.mark.slow
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """if True:
        import os
        from tegula.runtime.threads import in_threads
        assert in_threads(abs, range(-40, 0), 8) == [*range(40, 0, -1)]
        child = os.fork()
        if not child:
            ok = in_threads(abs, range(-40, 0), 8) == [*range(40, 0, -1)]
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
    """
    if hasattr(os, "fork"):
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


@pytest.mark.slow
def test_the_process_ends_when_what_was_begun_has_ended() -> None:
    code = """if True:
        import time
        from tegula.runtime.threads import Call, Pool
        def work():
            time.sleep(0.2)
            print("ended", flush=True)
        for _ in range(3):
            Pool.named("x", 1).start(Call(work))
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.split() == ["ended"] * 3


@pytest.mark.slow
def test_a_call_may_use_further_pools_while_the_process_ends() -> None:
    code = """if True:
        import time
        from tegula.runtime.threads import Call, Pool, in_threads
        def work(name):
            time.sleep(0.1)
            for number in range(50):
                further = Call(lambda: name)
                Pool.named(f"{name} {number}", 2).start(further)
                assert further.result() == name
            print("ended", flush=True)
        for name in "abc":
            Pool.named(name, 1).start(Call(lambda name=name: work(name)))
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert (done.stdout.count("ended"), done.stderr) == (3, "")


# --- shared work


def test_the_error_of_a_helper_is_raised_when_all_have_ended() -> None:
    here, ended = threading.get_ident(), list[int]()
    failed: list[bool] = []
    both = threading.Barrier(2)

    def run() -> None:
        both.wait(30)
        if threading.get_ident() != here:
            raise KeyError("in a helper")
        wait_until(lambda: bool(failed))
        ended.append(1)

    with pytest.raises(KeyError, match="in a helper"):
        share(run, 1, Pool(1), failed)
    assert ended == [1]


def _in_three(work: Callable[[int], Any]) -> None:
    with config.configure(threads=3):
        for_each(work, range(8), parallel=True)


ACTS: dict[str, Callable[[Callable[[int], Any]], Any]] = {
    "chunks": _in_three,
    "requests": lambda work: for_each(work, range(8), parallel=False, requests=3),
    "gather": lambda work: gather(work, range(8), 3),
    "results": lambda work: [*results_of(work, range(8), 3)],
    "store": lambda work: in_threads(work, range(8), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
def test_an_interrupt_at_each_moment_leaves_no_call_under_way(act: str) -> None:
    running = list[int]()

    def work(item: int) -> int:
        running.append(item)
        time.sleep(0)
        running.pop()
        return item

    ACTS[act](work)  # what is imported for the first time is not counted
    before = waiting.is_over
    for at in range(10_000):
        caught = interrupted(lambda: ACTS[act](work), at)
        if caught is None:
            break
        assert not running, caught.where
        assert waiting.is_over is before, caught.where
        pools = [*threads._pools.values()]
        wait_until(lambda pools=pools: all(pool._idle == pool._threads and not pool._starting for pool in pools))
    assert at > 20
    ACTS[act](work)


RANDOM = """
import random, signal, sys, threading
import numpy.typing  # NumPy does not survive an interrupt of this import
from tegula.engine.concurrency.pool import begin, for_each, gather, results_of

chance, count, armed = random.Random(0), int(sys.argv[1]), False

def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
acts = [
    lambda: for_each(abs, range(20), parallel=True),
    lambda: for_each(abs, range(20), parallel=False, requests=4),
    lambda: gather(abs, range(20), 4),
    lambda: [*results_of(abs, range(20), 4)],
    lambda: begin(dict)(),
]
while count:
    act = chance.choice(acts)
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.0005))
        while armed:
            act()
    except KeyboardInterrupt:
        count -= 1
    armed = False
for act in acts:
    act()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="interval timers are there where fork is")
def test_the_process_ends_after_interrupts_at_random_moments() -> None:
    environment = {**os.environ, "TEGULA_THREADS": "3"}
    subprocess.run([sys.executable, "-c", RANDOM, str(10 * INTERRUPTS)], check=True, timeout=120, env=environment)
