"""Runners of contenders: in this process or in one of their own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from cases import Case
from contenders import IN_A_WORKER, LIMIT, PYTHON, make
from contenders.interface import Contender, Lacking
from contenders.limit import Limit
from places import Place
from process import Process
from regimes import REGIMES, Task

HERE = Path(__file__).parent


class Runner(Protocol):
    """Runs one contender while a row is timed."""

    name: str
    single: bool

    def begin(self, regime: str, case: Case, place: Place) -> None:
        """Prepare, do it once, and compare the result; `Lacking` if that is not possible."""

    def sample(self, times: int) -> float:
        """Return the seconds that a run takes."""

    def end(self) -> None:
        """Remove what was made."""

    def stop(self) -> None:
        """End its process, if it has one."""


class LocalRunner:
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


class WorkerRunner:
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
    """Return a contender's runner and its version, or raise an error that says why there is none."""
    if name == LIMIT:
        return Limit(), "of this machine"
    if name in IN_A_WORKER:
        python = python_of(name)
        if python is None:
            raise Lacking(f"{PYTHON[name]} names no interpreter")
        runner = WorkerRunner(name, python)
        return runner, runner.version
    contender = make(name)
    return LocalRunner(contender), contender.version()


def make_runners(wanted: list[str], why: dict[str, str]) -> tuple[list[Any], dict[str, str]]:
    """Return a runner and a version for each contender that is there; ``why`` gets the reasons for the others."""
    runners: list[Any] = []
    versions = {}
    for name in wanted:
        try:
            runner, versions[name] = _take(name)
        except (ImportError, Lacking, OSError) as error:
            why[name] = str(error)
        else:
            runners.append(runner)
    return runners, versions


def python_of(name: str) -> str | None:
    """Return the interpreter that has a contender."""
    return os.environ.get(PYTHON[name]) if name in PYTHON else sys.executable
