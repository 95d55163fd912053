"""The runner on processes of this machine: each does one unit at a time; a process that dies is replaced."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Any, Final

from tegula import config
from tegula.engine.concurrency.pool import results_of
from tegula.errors import StoreError, TegulaError
from tegula.jobs.plans import Unit
from tegula.jobs.runners.runner import Result, Runner, Work, check_wanted, unpacked

__all__ = ["Processes"]

_PATIENCE: Final = 0.2  # seconds between checks whether another part of the operation has failed
_DEATHS: Final = 4  # workers that may die at one unit before the job fails


class _Died(Exception):
    """Raised if a worker ends without an answer."""


class Processes(Runner):
    """Does units in processes of its own.

    Parameters
    ----------
    workers : int, optional
        Number of processes, which share the threads of the setting ``threads``; by default one for each thread.
    """

    def __init__(self, workers: int | None = None) -> None:
        threads = config.current().threads
        self.workers = workers or threads
        self._threads = max(1, threads // self.workers)
        self._idle = SimpleQueue[_Worker | None]()
        self._all: list[_Worker] = []
        for _ in range(self.workers):
            self._idle.put(None)  # a process is started when it is needed

    def run(self, work: Work, units: Iterable[Unit]) -> Iterator[Result]:
        """Yield each unit with its result, in order."""
        packed = work.packed()

        def done(unit: Unit) -> Result:
            return unit, self._do(packed, unit)

        return results_of(done, units, self.workers)

    def _do(self, packed: bytes, unit: Unit) -> Any:
        """Have a worker do a unit; if the worker dies, try another one."""
        for _ in range(_DEATHS):
            worker = self._free()
            try:
                if worker is None:
                    worker = _Worker(self._threads)
                    self._all.append(worker)
                answer = worker.ask(packed, unit)
            except BaseException as error:
                if worker is not None:
                    worker.end()
                self._idle.put(None)  # a new process takes its place
                if isinstance(error, _Died):
                    continue
                raise
            self._idle.put(worker)
            if isinstance(answer, BaseException):
                raise answer
            return answer
        raise StoreError(
            f"{_DEATHS} workers were killed at unit {unit.number}; if memory ran out, choose fewer workers or smaller "
            "chunks"
        )

    def _free(self) -> _Worker | None:
        while True:
            try:
                return self._idle.get(timeout=_PATIENCE)
            except Empty:
                check_wanted()

    def close(self) -> None:
        """End the processes; units under way are done again when the job is resumed."""
        for worker in self._all:
            worker.end()
        for worker in self._all:
            worker.process.join()
        self._all.clear()


class _Worker:
    """A process, and the connection to it."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, threads), daemon=True)
        with _interrupts_blocked():
            self.process.start()
        other.close()

    def ask(self, packed: bytes, unit: Unit) -> Any:
        """Send a unit, and return the answer or the error."""
        try:
            self._connection.send((packed, unit))
            while not (ready := wait([self._connection, self.process.sentinel], _PATIENCE)):
                check_wanted()
            if self._connection in ready:
                return self._connection.recv()
        except (EOFError, OSError) as error:
            if isinstance(error, TegulaError):
                raise
        raise _Died

    def end(self) -> None:
        """End the process at once."""
        with suppress(OSError):
            self.process.kill()
        self._connection.close()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT while processes start, so that Ctrl-C never reaches them, not even while they import modules."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # before the signal is blocked, since starting it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # may raise an interrupt that arrived before
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, threads: int) -> None:
    """Do units until the connection ends, as it does when the process at the other end dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal goes to all; the first process decides
    config.put(threads=threads)
    while True:
        try:
            packed, unit = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Any = unpacked(packed)(unit)
        except Exception as error:  # noqa: BLE001 - raised at the other end
            answer = error
        try:
            connection.send(_portable(answer))
        except OSError:
            os._exit(1)


def _portable(answer: Any) -> Any:
    """Return an answer that can be sent: an error that can't be pickled is replaced by its text."""
    try:
        pickle.loads(pickle.dumps(answer))
    except Exception:  # noqa: BLE001 - pickling runs code of any library
        return TegulaError(f"{type(answer).__name__}: {answer}")
    return answer
