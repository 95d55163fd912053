"""Where contenders sit: in this process, in one of their own, or, for the limit, in a program of its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from cases import Case
from contenders import IN_A_WORKER, LIMIT, make
from contenders.interface import Contender, Lacking
from contenders.limit_program import LimitSeat
from places import Place
from process import Process
from regimes import REGIMES, Task

HERE = Path(__file__).parent


class Seat(Protocol):
    """One contender while a row is timed."""

    name: str
    single: bool

    def begin(self, regime: str, case: Case, place: Place) -> None:
        """Prepare, do it once, and compare the result; `Lacking` if that is not possible."""

    def sample(self, times: int) -> float:
        """Return the seconds that a run takes."""

    def end(self) -> None:
        """Remove what was made."""

    def stop(self) -> None:
        """Leave."""


class LocalSeat:
    """A contender in this process."""

    def __init__(self, contender: Contender) -> None:
        self.contender, self.name = contender, contender.name
        self.task: Task | None = None
        self.single = False

    def begin(self, regime: str, case: Case, place: Place) -> None:
        kind = REGIMES[regime]
        kind.lacking(self.contender, case)
        with self.contender.active():
            try:
                self.task = kind.task(self.contender, case, place)
                self.single = self.task.single
                self.task.before()
                self.task.check(self.task.run())
            except Lacking:
                self.end()
                raise
            except Exception as error:  # whatever a library raises says that it can't do this
                self.end()
                raise Lacking(f"{type(error).__name__}: {error}") from error

    def sample(self, times: int) -> float:
        assert self.task is not None
        with self.contender.active():
            try:
                self.task.before()
                run = self.task.run
                start = time.perf_counter()
                for _ in range(times):
                    run()
                return (time.perf_counter() - start) / times
            except Exception as error:  # as above
                raise Lacking(f"{type(error).__name__}: {error}") from error

    def end(self) -> None:
        if self.task is not None:
            self.task.end()
        self.task = None

    def stop(self) -> None:
        pass


class WorkerSeat:
    """A contender under another interpreter."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self.single = False
        self.process = Process([python, str(HERE / "worker.py"), name])
        self.version = self.process.ask(do="version")["version"]

    def begin(self, regime: str, case: Case, place: Place) -> None:
        answer = self.process.ask(do="begin", regime=regime, case=case.as_json(), root=str(place.root.parent))
        self.single = answer["single"]

    def sample(self, times: int) -> float:
        return float(self.process.ask(do="sample", times=times)["seconds"])

    def end(self) -> None:
        self.process.ask(do="end")

    def stop(self) -> None:
        self.process.stop()


def _take(name: str) -> tuple[Any, str]:
    """Return a contender's seat and its version, or raise because it isn't there."""
    if name == LIMIT:
        return LimitSeat(), "this repository's"
    if name in IN_A_WORKER:
        python = python_of(name)
        if python is None:
            raise Lacking(f"TEGULA_{name.upper()}_PYTHON names no interpreter")
        seat = WorkerSeat(name, python)
        return seat, seat.version
    contender = make(name)
    return LocalSeat(contender), contender.version()


def take_seats(wanted: list[str], why: dict[str, str]) -> tuple[list[Any], dict[str, str]]:
    """Return a seat and a version for each contender that is there; ``why`` gets the reasons for the others."""
    seats: list[Any] = []
    versions = {}
    for name in wanted:
        try:
            seat, versions[name] = _take(name)
        except (ImportError, Lacking, OSError) as error:
            why[name] = str(error)
        else:
            seats.append(seat)
    return seats, versions


def python_of(name: str) -> str | None:
    """Return the interpreter that has a contender."""
    return os.environ.get(f"TEGULA_{name.upper()}_PYTHON") if name in IN_A_WORKER else sys.executable
