"""Calls on the threads of a pool: their order, their errors, and what they keep in memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tegula import config
from tegula.engine.concurrency import pool
from tegula.engine.concurrency.pool import begin, for_each, gather, results_of
from tegula.runtime.threads import Call, Pool, finish
from tegula.stores.local.open_files import GaveUp, waiting

pytestmark = pytest.mark.once(executors="none")


@contextmanager
def busy(name: str, threads: int) -> Iterator[None]:
    """Keep all threads of a pool busy, as on a machine that is busy with other work."""
    end = threading.Event()
    blocked = [Call(lambda: end.wait(60)) for _ in range(threads)]
    for call in blocked:
        Pool.named(name, threads).start(call)
    try:
        yield
    finally:
        end.set()
        finish(blocked)


@pytest.mark.parametrize("requests", [0, 4])
def test_calls_that_no_thread_has_begun_keep_nothing_in_memory(requests: int) -> None:
    def call() -> weakref.ref[object]:
        values = np.zeros(2**16)
        for_each(lambda item: values.__setitem__(item, 1), range(8), parallel=True, requests=requests)
        assert values[:8].all()
        assert all(result == 0 for result in results_of(lambda item: values[9], range(8), requests))
        begin(lambda: values)()
        return weakref.ref(values)

    with config.configure(threads=3), busy("chunk", 2), busy("request", pool._MOST):
        known = call()
        gc.collect()  # closures that refer to each other
        assert known() is None


def test_results_come_in_order_while_later_calls_run() -> None:
    third = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert third.wait(30)
        if number == 2:
            third.set()
        return number * number

    assert [*results_of(work, range(10), 3)] == [number * number for number in range(10)]
    assert [*results_of(work, iter(()), 3)] == []


def test_no_item_is_taken_before_its_turn() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    found = results_of(abs, items(), 4)
    assert next(found) == 0
    assert len(taken) == 4
    found.close()
    assert [*zip(results_of(abs, items(), 0), range(2))] == [(0, 0), (1, 1)]


def test_the_first_error_is_raised_when_running_calls_have_ended() -> None:
    running, ended = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number == 1:
            running.set()
            while not waiting.is_over():
                pass
            ended.set()
        assert running.wait(30)
        if number == 0:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        [*results_of(work, range(2), 2)]
    assert ended.is_set()


def test_a_part_of_an_operation_that_has_failed_asks_no_more() -> None:
    asked: list[int] = []
    before, waiting.is_over = waiting.is_over, lambda: len(asked) >= 3
    try:
        for act in (lambda: gather(asked.append, range(100), 2), lambda: [*results_of(asked.append, range(100), 2)]):
            asked.clear()
            with pytest.raises(GaveUp):
                act()
            assert 0 < len(asked) <= 5
    finally:
        waiting.is_over = before
