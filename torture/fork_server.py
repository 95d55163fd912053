"""A process that has one library imported and forks a child for each job: ``python -m torture.fork_server NAME``.

Requests and answers are lines of JSON. The server only imports the library, so that its children start without threads;
it outlives them, and ends with them when its input ends.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torture.libraries import Lacking, Library, make

# imported once, and not by each child
_SECTIONS = ("updates", "kills", "corruption", "disk", "creation", "scale", "coarse", "interrupts")
_CONTEXT = multiprocessing.get_context("fork")
_PATIENCE = 120  # seconds until all have come to the start


@dataclass
class Around:
    """The synchronisation between the jobs of one request."""

    gate: Any
    over: Any

    def start(self) -> None:
        """Wait until all jobs have called this."""
        self.gate.wait(_PATIENCE)

    @property
    def is_over(self) -> bool:
        """Whether all jobs but the followers have ended."""
        return bool(self.over.is_set())


@dataclass
class Child:
    """A running job."""

    pid: int
    pipe: int
    follows: bool
    text: bytes = b""
    status: int | None = None

    def answer(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.text)
        except ValueError:
            found = {}
        return {"status": self.status, **found}


def _work(library: Library, around: Around, job: dict[str, Any]) -> dict[str, Any]:
    module, _, name = job["do"].partition(":")
    action: Callable[..., Any] = getattr(import_module(module), name)
    try:
        return {"value": action(library, around, **job["arguments"])}
    except Lacking as error:
        around.gate.abort()  # the others need not wait for it
        return {"lacks": str(error)}
    except Exception as error:
        around.gate.abort()
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def _fork(library: Library, around: Around, job: dict[str, Any], number: int) -> Child:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            random.seed(job.get("seed", number))
            text = json.dumps(_work(library, around, job)).encode()
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(text)
            os._exit(0)  # what libraries do at the end of a process is not looked at
        finally:
            os._exit(1)
    os.close(writing)
    return Child(pid, reading, bool(job.get("follows")))


def _kill(children: list[Child]) -> None:
    for child in children:
        if child.status is None:
            os.kill(child.pid, signal.SIGKILL)


def _gather(children: list[Child], around: Around, deadline: float) -> None:
    """Wait for all; tell the followers when the others have ended, and kill all at the deadline."""
    while any(child.status is None for child in children):
        if not any(child.status is None and not child.follows for child in children):
            around.over.set()
        pipes = {child.pipe: child for child in children if child.status is None}
        ready, _, _ = select.select([*pipes, sys.stdin], [], [], max(0.01, deadline - time.monotonic()))
        # nothing is asked while there is no answer yet: what comes is the end of the input
        if sys.stdin in ready or not ready:
            _kill(children)
            if sys.stdin in ready:
                sys.exit(1)
        for pipe in ready:
            child = pipes[pipe]
            piece = os.read(pipe, 2**20)
            child.text += piece
            if not piece:
                os.close(pipe)
                child.status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])


def _carry_out(library: Library, request: dict[str, Any]) -> list[dict[str, Any]]:
    jobs, delay = request["jobs"], request.get("kill")
    # with `together` the fork server comes to the start, too
    around = Around(_CONTEXT.Barrier(len(jobs) + bool(request.get("together"))), _CONTEXT.Event())
    children = [_fork(library, around, job, number) for number, job in enumerate(jobs)]
    deadline = time.monotonic() + request.get("limit", 600)
    try:
        if request.get("together"):
            around.start()
        if delay is not None:
            time.sleep(delay)
            _kill_running(children)
    except Exception:  # a child has not come to the start
        _kill(children)
    _gather(children, around, deadline)
    return [child.answer() for child in children]


def _kill_running(children: list[Child]) -> None:
    for child in children:
        if not child.follows:
            os.kill(child.pid, signal.SIGKILL)


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it by closing its input
    # what a library prints must not get between the answers
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        library = make(sys.argv[1])
        library.prepare()
        for section in _SECTIONS:
            import_module(f"torture.{section}")
        hello = {"version": library.version()}
    except (ImportError, Lacking) as error:
        hello = {"lacks": str(error)}
    print(json.dumps(hello), file=output, flush=True)
    while "version" in hello and (line := sys.stdin.readline()):
        print(json.dumps(_carry_out(library, json.loads(line))), file=output, flush=True)


if __name__ == "__main__":
    main()
