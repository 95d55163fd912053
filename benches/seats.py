"""Where contenders sit: in this process, in one of their own, or, for the limit, in a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from cases import Case
from contenders import IN_A_WORKER, make
from contenders.interface import Contender, Lacking
from places import Place
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
            self.task.before()
            run = self.task.run
            start = time.perf_counter()
            for _ in range(times):
                run()
            return (time.perf_counter() - start) / times

    def end(self) -> None:
        if self.task is not None:
            self.task.end()
        self.task = None

    def stop(self) -> None:
        pass


class Process:
    """A process that answers each line of JSON with a line of JSON."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )

    def ask(self, **job: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Lacking(f"its process ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Lacking(answer["error"])
        return answer

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class WorkerSeat:
    """A contender under another interpreter."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self.single = False
        self.process = Process([python, str(HERE / "worker.py"), name])
        self.version = self.process.ask(do="version")["version"]

    def begin(self, regime: str, case: Case, place: Place) -> None:
        REGIMES[regime]  # noqa: B018
        answer = self.process.ask(do="begin", regime=regime, case=case.as_json(), root=str(place.root.parent))
        self.single = answer["single"]

    def sample(self, times: int) -> float:
        return float(self.process.ask(do="sample", times=times)["seconds"])

    def end(self) -> None:
        self.process.ask(do="end")

    def stop(self) -> None:
        self.process.stop()


def take_seats(wanted: list[str], why: dict[str, str]) -> tuple[list[Any], dict[str, str]]:
    """Return a seat and a version for each contender that is there; ``why`` gets the reasons for the others."""
    seats: list[Any] = []
    versions = {}
    for name in wanted:
        try:
            if name in IN_A_WORKER:
                python = os.environ.get(f"TEGULA_{name.upper()}_PYTHON")
                if python is None:
                    raise Lacking(f"TEGULA_{name.upper()}_PYTHON names no interpreter")
                seat: Any = WorkerSeat(name, python)
                versions[name] = seat.version
            elif name == "limit":
                from contenders.limit_program import LimitSeat

                seat = LimitSeat()
                versions[name] = "this repository's"
            else:
                contender = make(name)
                seat = LocalSeat(contender)
                versions[name] = contender.version()
        except (ImportError, Lacking, OSError) as error:
            why[name] = str(error)
            continue
        seats.append(seat)
    return seats, versions


def python_of(name: str) -> str | None:
    """Return the interpreter that has a contender."""
    return os.environ.get(f"TEGULA_{name.upper()}_PYTHON") if name in IN_A_WORKER else sys.executable
