"""The runner: gives blocks of inputs to workers, notices crashes and hangs, saves findings, counts outcomes."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tegula.errors import TegulaError

from .outcomes import Tally, from_json, refusal, to_json
from .seeds import CORPUS
from .targets import SHARES, TARGETS
from .workers import conditions, make, target_of, work

__all__ = ["Report", "blocks", "regressions", "replay", "run"]

_BLOCK = 500
_MOST_SAVED = 20
_MOST_RESTARTS = 50
_STARTING = 120.0
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass
class Report:
    """What a run has found.

    Attributes
    ----------
    tallies
        The counts of each target.
    findings
        Target, number of the input, kind, text and the file where it is saved (``None`` after the first twenty of a
        target).
    """

    seed: int
    seconds: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        tallies = {name: tally.as_json() for name, tally in self.tallies.items()}
        inputs = sum(tally.inputs for tally in self.tallies.values())
        return {
            "seed": self.seed, "inputs": inputs, "seconds": round(self.seconds, 1),
            "inputs_per_second": round(inputs / self.seconds) if self.seconds else None,
            "violations": sum(sum(tally.violations.values()) for tally in self.tallies.values()),
            "targets": tallies, "findings": self.findings,
        }  # fmt: skip


def blocks(inputs: int, names: list[str]) -> list[tuple[str, int, int]]:
    """Divide inputs among targets, and cut them into blocks; those of all targets alternate."""
    total = sum(SHARES[name] for name in names)
    found: list[tuple[float, tuple[str, int, int]]] = []
    for name in names:
        count = -(-inputs * SHARES[name] // total)
        starts = range(0, count, _BLOCK)
        found += [(start / count, (name, start, min(start + _BLOCK, count))) for start in starts]
    return [block for _, block in sorted(found)]


class _Worker:
    """A process, what it is doing, and the pipe to it."""

    def __init__(self, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.beat = context.RawArray("d", [-1.0, time.monotonic()])
        self.trace = os.path.join(folder, f"trace-{time.monotonic_ns()}.txt")
        self.process = context.Process(target=work, args=(theirs, self.beat, self.trace), daemon=True)
        self.process.start()
        theirs.close()
        self.block: tuple[str, int, int] | None = None
        self.ready = self.gone = False

    def give(self, block: tuple[str, int, int], seed: int) -> None:
        name, start, stop = self.block = block
        self.beat[0], self.beat[1] = start, time.monotonic()
        self.pipe.send((name, seed, start, stop))

    def dismiss(self) -> None:
        """Let the process end by itself, if it is waiting for a block."""
        if self.ready and self.block is None:
            with suppress(OSError):
                self.pipe.send(None)
                self.process.join(5)

    def end(self) -> str:
        """Kill the process; return where its threads were, if it could report that."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGUSR1)
            self.process.join(0.5)
        self.process.kill()
        self.process.join(60)
        self.pipe.close()
        try:
            return Path(self.trace).read_text()[-2000:]
        except OSError:
            return ""


class _Run:
    def __init__(self, seed: int, names: list[str], limit: float, findings: Path | None) -> None:
        self.report = Report(seed, tallies={name: Tally() for name in names})
        self.limit = limit
        self.folder = findings
        self.restarts = 0
        self._saved: Counter[str] = Counter()

    def found(self, name: str, number: int, kind: str, text: str) -> None:
        """Record a violation, and save its input."""
        self._saved[name] += 1
        path = None
        if self.folder is not None and self._saved[name] <= _MOST_SAVED:
            path = str(save(self.folder, name, make(name, self.report.seed, number), f"{kind}: {text}"))
        if self._saved[name] <= 5 * _MOST_SAVED:
            self.report.findings.append({"target": name, "number": number, "kind": kind, "text": text, "file": path})

    def take(self, worker: _Worker) -> None:
        """Receive a message of a worker."""
        answer = worker.pipe.recv()
        if answer == "ready":
            worker.ready = True
            return
        tally, findings = answer
        assert worker.block is not None
        name = worker.block[0]
        self.report.tallies[name].add(tally)
        for number, kind, text in findings:
            self.found(name, number, kind, text)
        worker.block = None

    def lost(self, worker: _Worker, kind: str) -> Iterator[tuple[str, int, int]]:
        """Record that a worker died or hangs, and yield the rest of its block without the input that caused it."""
        self.restarts += 1
        trace = worker.end()
        if worker.block is None or not worker.ready:
            raise RuntimeError(f"a worker could not start ({kind}, exit code {worker.process.exitcode}): {trace}")
        name, start, stop = worker.block
        number = int(worker.beat[0])
        if kind == "crash":
            kind = f"crash: exit code {worker.process.exitcode}"
        tally = self.report.tallies[name]
        tally.inputs += 1
        tally.violations[kind] += 1
        self.found(name, number, kind, trace)
        if start < number:  # their counts were lost with the process
            yield name, start, number
        if number + 1 < stop:
            yield name, number + 1, stop


def run(
    inputs: int,
    *,
    seed: int = 0,
    names: list[str] | None = None,
    jobs: int = 1,
    limit: float = 5.0,
    findings: Path | None = None,
    progress: Any = None,
) -> Report:
    """Carry out a number of inputs.

    Parameters
    ----------
    inputs : int
        How many, divided among the targets; Ctrl-C ends the run earlier.
    seed : int
        The first number; the same seed makes the same inputs.
    names : list of str, optional
        The targets; all by default.
    jobs : int
        How many worker processes.
    limit : float
        After how many seconds an input counts as a hang.
    findings : Path, optional
        A directory for the inputs that broke something.
    progress : callable, optional
        Called with the report from time to time.
    """
    names = [*TARGETS] if names is None else names
    state = _Run(seed, names, limit, findings)
    todo = blocks(inputs, names)[::-1]
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # each arena of a thread takes 64 MiB of addresses
    root = str(Path(__file__).parents[len(__name__.split(".")) - 1])
    if root not in sys.path:  # where workers look for this package; it has another name for pytest
        sys.path.append(root)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tegula-fuzz-", dir=_MEMORY) as folder, conditions():
        workers = [_Worker(folder) for _ in range(min(jobs, len(todo)))]
        try:
            while todo or any(worker.block for worker in workers):
                for number, worker in enumerate(workers):
                    if worker.ready and worker.block is None and todo:
                        worker.give(todo.pop(), seed)
                    if kind := _trouble(worker, limit):
                        todo.extend(state.lost(worker, kind))
                        if state.restarts > _MOST_RESTARTS:
                            raise RuntimeError(f"{state.restarts} workers died")
                        workers[number] = _Worker(folder)
                for pipe in wait([worker.pipe for worker in workers], timeout=0.2):
                    worker = next(worker for worker in workers if worker.pipe is pipe)
                    try:
                        state.take(worker)
                    except (EOFError, ConnectionError):
                        worker.process.join(60)
                        worker.gone = True
                state.report.seconds = time.monotonic() - begun
                if progress is not None:
                    progress(state.report)
        except KeyboardInterrupt:
            todo.clear()  # the report is of what was done
        finally:
            for worker in workers:
                worker.dismiss()
            for worker in workers:
                worker.end()
    return state.report


def _trouble(worker: _Worker, limit: float) -> str | None:
    if worker.gone:
        return "crash"
    busy = not worker.ready or worker.block is not None
    late = time.monotonic() - worker.beat[1] > (limit if worker.ready else _STARTING)
    return "hang" if busy and late and not worker.pipe.poll() else None


def save(folder: Path, name: str, case: Any, why: str) -> Path:
    """Save an input as a file that `replay` takes; equal ones have equal names."""
    text = json.dumps({"target": name, "why": why[:500], "case": to_json(case)}, indent=1)
    digest = hashlib.sha256(json.dumps(to_json(case), sort_keys=True).encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{digest}.json"
    path.write_text(text + "\n")
    return path


def replay(path: Path) -> str:
    """Carry out one saved input in this process; raises its violation, or returns ``accepted`` or ``refused …``."""
    saved = json.loads(path.read_text())
    target, case = target_of(saved["target"]), from_json(saved["case"])
    with conditions():
        try:
            return target.run(case)
        except TegulaError as error:
            return f"refused {refusal(error, case)}: {error}"[:500]


def regressions() -> list[Path]:
    """Return the inputs that once found something."""
    return sorted((CORPUS / "regressions").glob("*.json"))
